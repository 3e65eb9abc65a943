'use strict';
const express = require('express');
const idempotency = require('express-idempotency');

// The default adapter keeps records in memory and has no retention.
require('./express-shop.cjs')(express, idempotency, idempotency.idempotency());
