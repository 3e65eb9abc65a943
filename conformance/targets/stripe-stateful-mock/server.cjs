// The mock as its README starts it in a program, and beside it a count of charges, read from its own list.
'use strict';
const { createExpressApp } = require('stripe-stateful-mock');

const port = Number(process.env.PORT ?? 8080);
const express = require(require.resolve('express', { paths: [require.resolve('stripe-stateful-mock')] }));
const app = express();

async function charges() {
  const all = [];
  for (let more = true; more; ) {
    const after = all.length > 0 ? `&starting_after=${all.at(-1).id}` : '';
    const headers = { Authorization: 'Bearer sk_test_shop' };
    const page = await (await fetch(`http://127.0.0.1:${port}/v1/charges?limit=100${after}`, { headers })).json();
    all.push(...page.data);
    more = page.has_more;
  }
  return all;
}

app.get('/effects', async (req, res) => {
  res.json({ count: (await charges()).filter((c) => c.description === req.query.account).length });
});
app.use(createExpressApp());
app.listen(port, '127.0.0.1');
