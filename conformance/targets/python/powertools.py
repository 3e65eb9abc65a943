"""A Lambda function under Powertools for AWS Lambda (Python), records in Redis, and a stand-in for API Gateway."""

import asyncio
import json
import os
from types import SimpleNamespace
from urllib.parse import urlsplit

import uvicorn
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, exceptions, idempotent
from aws_lambda_powertools.utilities.idempotency.persistence.redis import RedisCachePersistenceLayer
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import shop

os.environ.setdefault("AWS_LAMBDA_FUNCTION_NAME", "shop")
address = urlsplit(shop.REDIS)
store = RedisCachePersistenceLayer(
    host=address.hostname, port=address.port, db_index=int(address.path[1:] or 0), ssl=False
)
usual = dict(event_key_jmespath='headers."idempotency-key"', raise_on_no_idempotency_key=True)
if os.environ.get("VALIDATE"):
    usual["payload_validation_jmespath"] = "[httpMethod, path, body]"


def sold(event, context):
    """The function. A failure of the bank is an exception, which is not recorded."""
    status, headers, document = shop.sell(event["path"], event["body"], event["headers"])
    if status >= 429:
        raise Failure(status, headers, document)
    return {"status": status, "headers": headers, "document": document}


class Failure(Exception):
    pass


handlers = {
    seconds: idempotent(
        sold, persistence_store=store, config=IdempotencyConfig(expires_after_seconds=seconds, **usual)
    )
    for seconds in (3600, 2)
}


def answer(event):
    """Calls the function as Lambda does, and makes the status of its result, or of its error."""
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 1000)
    try:
        r = handlers[2 if event["path"] == "/short" else 3600](event, context)
        return r["status"], r["headers"], r["document"]
    except exceptions.IdempotencyKeyError as e:
        return 400, {}, {"error": str(e)}
    except exceptions.IdempotencyAlreadyInProgressError as e:
        return 409, {}, {"error": str(e)}
    except exceptions.IdempotencyValidationError as e:
        return 422, {}, {"error": str(e)}
    except Failure as e:
        return e.args


async def order(request):
    try:
        body = json.loads(await request.body())
    except ValueError:
        body = None
    event = {"httpMethod": request.method, "path": request.url.path, "headers": dict(request.headers), "body": body}
    status, headers, document = await asyncio.get_running_loop().run_in_executor(None, answer, event)
    if document is None:
        return Response(status_code=status, headers=headers)
    return JSONResponse(document, status, headers)


async def effects(request):
    return JSONResponse({"count": shop.counts[request.query_params.get("account", "")]})


app = Starlette(
    routes=[Route(p, order, methods=["POST"]) for p in ("/refunds", "/empty", "/large", "/short")]
    + [Route("/orders", order, methods=["POST", "PATCH"]), Route("/orders", effects), Route("/effects", effects)]
)
uvicorn.run(app, host="127.0.0.1", port=shop.PORT, log_level="warning")
