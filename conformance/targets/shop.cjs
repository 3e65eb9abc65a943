// What every Node target sells: the effects, counted by account, and the switches that make an order slow or fail.
'use strict';
const fs = require('node:fs');

// With EFFECTS, the name of a file, effects outlive a restart; without it they are in memory.
const ledger = process.env.EFFECTS;
const counts = new Map();
let orders = 0;

function count(account) {
  orders += 1;
  counts.set(account, (counts.get(account) ?? 0) + 1);
}

if (ledger && fs.existsSync(ledger)) {
  fs.readFileSync(ledger, 'utf8').split('\n').filter(Boolean).forEach(count);
}

// effects is how many orders an account has made.
exports.effects = (account) => counts.get(String(account)) ?? 0;

// valid says whether the body is an order.
exports.valid = (order) => Number.isInteger(order?.amount) && order.amount > 0 && typeof order.account === 'string';

// make makes the order: this is the effect that must happen once.
exports.make = (order) => {
  if (ledger) fs.appendFileSync(ledger, order.account + '\n');
  count(order.account);
  return { id: `o-${orders}`, item: order.item, amount: order.amount };
};

// pause waits as long as the header X-Slow says, in milliseconds.
exports.pause = (headers) => new Promise((resolve) => setTimeout(resolve, Number(headers['x-slow'] ?? 0)));

// listener is the server's, for crash.
exports.listener = null;

// crash is the end of the handler before its effect: of the whole process where records outlive it, which the script run
// then starts again, and else by an exception that nobody foresaw.
exports.crash = () => {
  if (ledger) {
    exports.listener.close(); // or the kernel would take a retry in for the process that it is about to end
    process.kill(process.pid, 'SIGKILL');
  }
  throw new Error('a failure that nobody foresaw');
};

// large is an answer of 1 MiB.
exports.large = '0123456789abcdef'.repeat(65536);

exports.port = Number(process.env.PORT ?? 8080);
exports.redis = process.env.REDIS ?? 'redis://127.0.0.1:6379/0';
