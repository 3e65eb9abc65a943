// The mock as its README starts it in a program, and beside it a count of charges, read from its own list.
'use strict';
const { createExpressApp } = require('stripe-stateful-mock');

const port = Number(process.env.PORT ?? 8080);
const secrets = ['sk_test_alice', 'sk_test_bob', 'sk_test_shop'];
const express = require(require.resolve('express', { paths: [require.resolve('stripe-stateful-mock')] }));
const app = express();

async function charges(secret) {
  const all = [];
  for (let more = true; more; ) {
    const after = all.length > 0 ? `&starting_after=${all.at(-1).id}` : '';
    const headers = { Authorization: `Bearer ${secret}` };
    const page = await (await fetch(`http://127.0.0.1:${port}/v1/charges?limit=100${after}`, { headers })).json();
    all.push(...page.data);
    more = page.has_more;
  }
  return all;
}

app.get('/effects', async (req, res) => {
  const all = (await Promise.all(secrets.map(charges))).flat();
  res.json({ count: all.filter((c) => c.description === req.query.account).length });
});
app.use(createExpressApp());
app.listen(port, '127.0.0.1');
