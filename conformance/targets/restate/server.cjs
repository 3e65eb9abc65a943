// Restate, whose server is its own program in Rust, and behind it the shop as a service of its JavaScript SDK. Its ingress
// is the server that is judged. The count of effects has a port of its own.
'use strict';
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const restate = require('@restatedev/restate-sdk');
const shop = require('./shop.cjs');

// The SDK uses what Node 20 does not have.
Promise.withResolvers ??= () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const [effects, service, admin, node] = [1, 2, 3, 4].map((n) => shop.port + n);
const data = path.join(__dirname, 'data');

async function sell(ctx, order) {
  const { headers } = ctx.request();
  if (!shop.valid(order)) throw new restate.TerminalError('no order', { errorCode: 400 });
  const fault = headers.get('x-fault');
  if (fault) throw new restate.TerminalError('a failure', { errorCode: Number(fault) });
  await shop.pause(Object.fromEntries(headers));
  return shop.make(order);
}

const large = async (_, order) => {
  shop.make(order);
  return shop.large;
};
const short = restate.handlers.handler({ idempotencyRetention: { seconds: 2 } }, sell);
const definition = restate.service({ name: 'shop', handlers: { orders: sell, refunds: sell, large, short } });

// count starts when all is ready, so that the script run can wait for it.
function count() {
  http
    .createServer((req, res) => {
      const account = new URL(req.url, 'http://localhost').searchParams.get('account');
      res.setHeader('Content-Type', 'application/json').end(JSON.stringify({ count: shop.effects(account) }));
    })
    .listen(effects, '127.0.0.1');
}

async function main() {
  await restate.serve({ services: [definition], port: service });

  fs.rmSync(data, { recursive: true, force: true });
  const binary = require.resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
  const flags = ['--no-logo', '--node-name', 'shop', '--base-dir', data, '--listen-mode', 'tcp'];
  const env = {
    ...process.env,
    RESTATE_BIND_IP: '127.0.0.1',
    RESTATE_BIND_PORT: node,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${shop.port}`,
    RESTATE_DEFAULT_NUM_PARTITIONS: '2',
    RESTATE_WORKER__CLEANUP_INTERVAL: '100ms', // Restate removes expired keys at this interval, 30 s by default
    RESTATE_DISABLE_TELEMETRY: 'true',
  };
  const server = spawn(binary, flags, { env, stdio: 'inherit' });
  process.on('SIGTERM', () => server.kill());
  server.on('exit', (code) => process.exit(code ?? 0));

  const body = JSON.stringify({ uri: `http://127.0.0.1:${service}` });
  const headers = { 'Content-Type': 'application/json' };
  for (let tries = 0; tries < 300; tries++) {
    const made = await fetch(`http://127.0.0.1:${admin}/deployments`, { method: 'POST', headers, body }).catch(() => null);
    if (made?.ok) return count();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('the service could not be registered');
}

main();
