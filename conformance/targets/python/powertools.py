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
database = dict(host=address.hostname, port=address.port, db_index=int(address.path[1:] or 0), ssl=False)
usual = dict(event_key_jmespath='headers."idempotency-key"', raise_on_no_idempotency_key=True)
if os.environ.get("VALIDATE"):
    usual["payload_validation_jmespath"] = "[httpMethod, path, body]"


def sold(event, context):
    """The function. A failure of the bank is an exception, which is not recorded."""
    try:
        body = json.loads(event["body"])
    except ValueError:
        body = None
    status, headers, document = shop.sell(event["path"], body, event["headers"])
    if status >= 429:
        raise Failure(status, headers, document)
    return {"status": status, "headers": headers, "body": "" if document is None else json.dumps(document)}


class Failure(Exception):
    pass


handlers = {
    seconds: idempotent(
        sold,
        persistence_store=RedisCachePersistenceLayer(**database),  # one has one configuration
        config=IdempotencyConfig(expires_after_seconds=seconds, **usual),
    )
    for seconds in (3600, 2)
}


def answer(event):
    """Calls the function as Lambda does, and makes the status of its result, or of its error."""
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 1000)
    try:
        r = handlers[2 if event["path"] == "/short" else 3600](event, context)
        return r["status"], r["headers"], r["body"]
    except exceptions.IdempotencyKeyError as e:
        return 400, {}, json.dumps({"error": str(e)})
    except exceptions.IdempotencyAlreadyInProgressError as e:
        return 409, {}, json.dumps({"error": str(e)})
    except exceptions.IdempotencyValidationError as e:
        return 422, {}, json.dumps({"error": str(e)})
    except Failure as e:
        status, headers, document = e.args
        return status, headers, json.dumps(document)


async def order(request):
    body = (await request.body()).decode()
    event = {"httpMethod": request.method, "path": request.url.path, "headers": dict(request.headers), "body": body}
    status, headers, body = await asyncio.get_running_loop().run_in_executor(None, answer, event)
    if body:
        headers = {"Content-Type": "application/json", **headers}
    return Response(body or None, status, headers)


async def effects(request):
    return JSONResponse({"count": shop.counts[request.query_params.get("account", "")]})


app = Starlette(
    routes=[Route(p, order, methods=["POST"]) for p in ("/refunds", "/empty", "/large", "/short")]
    + [Route("/orders", order, methods=["POST", "PATCH"]), Route("/orders", effects), Route("/effects", effects)]
)
uvicorn.run(app, host="127.0.0.1", port=shop.PORT, log_level="warning")
