// The shop of both Express targets. guard is the middleware as its README sets it up, short the same with a retention
// of two seconds where the target has one.
'use strict';
const shop = require('./shop.cjs');

module.exports = (express, { getSharedIdempotencyService }, guard, short) => {
  const app = express();
  app.use(express.json());
  if (short) app.post('/short', short);
  app.post(/^(?!\/short)/, guard);

  const order = async (req, res, next) => {
    const idempotency = getSharedIdempotencyService();
    if (idempotency.isHit(req)) return; // the middleware has answered
    try {
      if (!shop.valid(req.body)) return res.status(400).json({ error: 'no order' });
      const fault = req.get('x-fault');
      if (fault === '429') res.set('Retry-After', '0');
      if (fault === '500' || fault === '429') return res.status(Number(fault)).json({ error: fault });
      if (fault === 'crash') shop.crash();
      await shop.pause(req.headers);
      const made = shop.make(req.body);
      if (req.path === '/empty') return res.status(204).send();
      if (req.path === '/large') return res.send(shop.large);
      res.status(201).location(`${req.path}/${made.id}`).set('ETag', `"${made.id}"`).json(made);
    } catch (err) {
      await idempotency.reportError(req); // as the README says
      next(err);
    }
  };
  for (const path of ['/orders', '/refunds', '/empty', '/large', '/short']) app.post(path, order);
  for (const path of ['/orders', '/effects']) {
    app.get(path, (req, res) => res.json({ count: shop.effects(req.query.account) }));
  }
  shop.listener = app.listen(shop.port, '127.0.0.1');
};
