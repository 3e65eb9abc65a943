// A Lambda function, and in front of it the least that API Gateway does: an HTTP request becomes an event, the value that
// the function returns becomes the response. The library is inside of the function and knows no HTTP: which status an
// error of its becomes is this file's choice.
'use strict';
const http = require('node:http');
const { IdempotencyConfig, makeIdempotent } = require('@aws-lambda-powertools/idempotency');
const { CachePersistenceLayer } = require('@aws-lambda-powertools/idempotency/cache');
const { createClient } = require('@redis/client');
const shop = require('./shop.cjs');

const functionTimeout = 1000; // ms; then Lambda ends the function

const json = (statusCode, value, headers) => ({
  statusCode,
  headers: { 'Content-Type': 'application/json', ...headers },
  body: JSON.stringify(value),
});

async function order(event) {
  const body = JSON.parse(event.body);
  if (!shop.valid(body)) return json(400, { error: 'no order' });
  const fault = event.headers['x-fault'];
  if (fault === '500') throw new Error('the bank is down');
  if (fault === '429') throw Object.assign(new Error('too many orders'), { statusCode: 429 });
  if (fault === 'crash') return new Promise(() => {}); // until Lambda ends it
  await shop.pause(event.headers);
  const made = shop.make(body);
  if (event.path === '/empty') return { statusCode: 204 };
  if (event.path === '/large') return { statusCode: 200, headers: { 'Content-Type': 'text/plain' }, body: shop.large };
  return json(201, made, { Location: `${event.path}/${made.id}`, ETag: `"${made.id}"` });
}

const statuses = {
  IdempotencyKeyError: 400, // no key
  IdempotencyAlreadyInProgressError: 409,
  IdempotencyValidationError: 422, // another payload
};

function failure(err) {
  const known = [err, err.cause].find((e) => e?.name in statuses); // a key's error comes wrapped in the persistence layer's
  const status = statuses[known?.name] ?? err.statusCode ?? 502; // 502 is what API Gateway makes of an error
  return json(status, { error: (known ?? err).name }, status === 429 ? { 'Retry-After': '0' } : {});
}

async function main() {
  const client = await createClient({ url: shop.redis }).connect();
  const guarded = (expiresAfterSeconds) =>
    makeIdempotent(order, {
      persistenceStore: new CachePersistenceLayer({ client }),
      config: new IdempotencyConfig({
        eventKeyJmesPath: 'headers."idempotency-key"',
        throwOnNoIdempotencyKey: true,
        ...(process.env.VALIDATE ? { payloadValidationJmesPath: '[httpMethod, path, body]' } : {}),
        ...(expiresAfterSeconds ? { expiresAfterSeconds } : {}),
      }),
    });
  const usual = guarded();
  const short = guarded(2);

  const server = http.createServer(async (req, res) => {
    const url = new URL(req.url, 'http://localhost');
    const reply = ({ statusCode, headers, body }) => res.writeHead(statusCode, headers).end(body);
    if (req.method === 'GET') return reply(json(200, { count: shop.effects(url.searchParams.get('account')) }));
    const chunks = [];
    try {
      for await (const chunk of req) chunks.push(chunk);
    } catch {
      return; // the client has gone in the middle of its request
    }
    const event = { httpMethod: req.method, path: url.pathname, headers: req.headers, body: Buffer.concat(chunks).toString() };
    const deadline = Date.now() + functionTimeout;
    const context = { functionName: 'shop', getRemainingTimeInMillis: () => deadline - Date.now() };
    let timer;
    const ended = new Promise((resolve) => {
      timer = setTimeout(() => resolve(json(502, { error: 'timeout' })), functionTimeout);
    });
    const handler = url.pathname === '/short' ? short : usual;
    reply(await Promise.race([handler(event, context).catch(failure), ended]));
    clearTimeout(timer);
  });
  server.listen(shop.port, '127.0.0.1');
}

main();
