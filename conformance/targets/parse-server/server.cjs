// Parse Server with idempotencyOptions as its README has them. The hook is the shop's: it refuses, waits and fails.
'use strict';
const express = require('express');
const { default: ParseServer } = require('parse-server');

const port = Number(process.env.PORT ?? 8080);
const serverURL = `http://127.0.0.1:${port}`;

function hook({ object, headers }) {
  if (!(object.get('amount') > 0)) throw new Parse.Error(Parse.Error.VALIDATION_ERROR, 'no order');
  if (headers['x-fault']) throw new Parse.Error(Parse.Error.INTERNAL_SERVER_ERROR, 'the bank is down');
  return new Promise((resolve) => setTimeout(resolve, Number(headers['x-slow'] ?? 0)));
}

const server = new ParseServer({
  databaseURI: process.env.POSTGRES ?? 'postgres://postgres@127.0.0.1:5432/test',
  appId: 'shop',
  masterKey: 'master of the shop',
  restAPIKey: 'rest',
  serverURL,
  silent: true,
  allowClientClassCreation: true,
  idempotencyOptions: { paths: ['.*'], ttl: 120 },
  cloud: () => ['orders', 'refunds'].forEach((name) => Parse.Cloud.beforeSave(name, hook)),
});

server.start().then(() => express().use('/', server.app).listen(port, '127.0.0.1'));
