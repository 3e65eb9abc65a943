'use strict';
const express = require('express');
const idempotency = require('express-idempotency');
const RedisAdapter = require('express-idempotency-redis-adapter').default;
const shop = require('./shop.cjs');

const adapter = (options) => {
  const a = new RedisAdapter({ connectionConfig: { url: shop.redis }, ...options });
  a.connect().catch((error) => {
    throw error;
  });
  return a;
};

// The last one made is the shared service; it reports errors, and deletes by the key alone, so either adapter will do.
const short = idempotency.idempotency({ dataAdapter: adapter({ ttl: 2 }) });
const guard = idempotency.idempotency({ dataAdapter: adapter() });
require('./express-shop.cjs')(express, idempotency, guard, short);
