// A NestJS application as its users write it, without the compiler: decorators are called as functions.
'use strict';
require('reflect-metadata');
const { Body, Controller, Get, Headers, HttpCode, HttpException, Module, Patch, Post, Query, Res } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const { Idempotent, NodeIdempotencyModule } = require('@node-idempotency/nestjs');
const shop = require('./shop.cjs');

class Shop {
  order(body, headers, res) {
    return this.sell('/orders', body, headers, res);
  }

  refund(body, headers, res) {
    return this.sell('/refunds', body, headers, res);
  }

  async sell(path, body, headers, res) {
    if (!shop.valid(body)) throw new HttpException('no order', 400);
    const fault = headers['x-fault'];
    if (fault === '429') res.header('Retry-After', '0');
    if (fault === '500' || fault === '429') throw new HttpException('a failure', Number(fault));
    if (fault === 'crash') shop.crash();
    await shop.pause(headers);
    const made = shop.make(body);
    res.header('Location', `${path}/${made.id}`);
    res.header('ETag', `"${made.id}"`);
    return made;
  }

  async empty(body) {
    shop.make(body);
  }

  large(body) {
    shop.make(body);
    return shop.large;
  }

  effects(account) {
    return { count: shop.effects(account) };
  }
}

// decorate applies decorators to a method, and to its parameters.
function decorate(name, decorators, ...parameters) {
  parameters.forEach((p, i) => p(Shop.prototype, name, i));
  const descriptor = Object.getOwnPropertyDescriptor(Shop.prototype, name);
  Reflect.defineMetadata('design:paramtypes', parameters.map(() => Object), Shop.prototype, name);
  for (const d of decorators.reverse()) d(Shop.prototype, name, descriptor);
}

const passthrough = () => Res({ passthrough: true });
decorate('order', [Idempotent(), Post('orders')], Body(), Headers(), passthrough());
decorate('empty', [Idempotent(), Post('empty'), HttpCode(204)], Body());
decorate('large', [Idempotent(), Post('large')], Body());
decorate('effects', [Get(['orders', 'effects'])], Query('account'));
decorate('refund', [Idempotent(), Post('refunds')], Body(), Headers(), passthrough());
// One handler has one route here, so the others are handlers of their own with the same body.
for (const [name, ...decorators] of [
  ['change', Idempotent(), Patch('orders')],
  ['short', Idempotent({ cacheTTLMS: 2000 }), Post('short')],
]) {
  Shop.prototype[name] = function (body, headers, res) {
    return this.sell('/orders', body, headers, res);
  };
  decorate(name, decorators, Body(), Headers(), passthrough());
}
Controller()(Shop);

const storage = { adapter: 'memory' };
if (process.env.STORAGE === 'redis') Object.assign(storage, { adapter: 'redis', options: { url: shop.redis } });

class App {}
Module({
  imports: [NodeIdempotencyModule.forRootAsync({ storage, enforceIdempotency: true })],
  controllers: [Shop],
})(App);

NestFactory.create(App, { logger: ['error'] }).then(async (app) => {
  await app.listen(shop.port, '127.0.0.1');
  shop.listener = app.getHttpServer();
});
