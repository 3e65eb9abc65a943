"""A Starlette application behind the middleware that the setting LIBRARY names, set up as its README shows it."""

import json
import os

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import shop


async def order(request):
    try:
        body = json.loads(await request.body())
    except ValueError:
        body = None
    status, headers, document = await shop.sell_async(request.url.path, body, request.headers)
    if document is None:
        return Response(status_code=status, headers=headers)
    return JSONResponse(document, status, headers)


async def effects(request):
    return JSONResponse({"count": shop.counts[request.query_params.get("account", "")]})


def asgi_idempotency_header(app, retention):
    from idempotency_header_middleware import IdempotencyHeaderMiddleware
    from idempotency_header_middleware.backends import MemoryBackend, RedisBackend

    if not shop.LEDGER:
        backend = MemoryBackend(**retention("expiry"))
    else:
        import redis.asyncio

        backend = RedisBackend(redis=redis.asyncio.from_url(shop.REDIS), **retention("expiry"))
    return IdempotencyHeaderMiddleware(app, backend=backend)


def fastapi_idempotency(app, retention):
    from fastapi_idempotency import IdempotencyMiddleware, InMemoryStore, RedisStore

    if not shop.LEDGER:
        store = InMemoryStore()
    else:
        import redis.asyncio

        store = RedisStore(redis.asyncio.from_url(shop.REDIS))
    return IdempotencyMiddleware(app, store, secret=b"of the shop", require_key=True, **retention("completed_ttl"))


guard = {"asgi-idempotency-header": asgi_idempotency_header, "fastapi-idempotency": fastapi_idempotency}
guard = guard[os.environ["LIBRARY"]]
plain = Starlette(
    routes=[Route(p, order, methods=["POST"]) for p in ("/refunds", "/empty", "/large", "/short")]
    + [Route("/orders", order, methods=["POST", "PATCH"]), Route("/orders", effects), Route("/effects", effects)]
)
usual = guard(plain, lambda name: {})
short = guard(plain, lambda name: {name: 2})


async def app(scope, receive, send):
    """Gives /short a retention of two seconds, and all else the default."""
    await (short if scope.get("path") == "/short" else usual)(scope, receive, send)


uvicorn.run(app, host="127.0.0.1", port=shop.PORT, log_level="warning")
