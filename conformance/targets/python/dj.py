"""A Django application behind django-idempotency-key's middleware, in threads, as its README sets it up."""

import json
import socketserver

import wsgiref.simple_server

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import path
from idempotency_key.decorators import idempotency_key_exempt

import shop


def order(request):
    if request.method == "GET":
        return effects(request)
    try:
        body = json.loads(request.body)
    except ValueError:
        body = None
    status, headers, document = shop.sell(request.path, body, {k.lower(): v for k, v in request.headers.items()})
    response = HttpResponse(status=status) if document is None else JsonResponse(document, status=status)
    for name, value in headers.items():
        response[name] = value
    return response


@idempotency_key_exempt
def effects(request):
    return JsonResponse({"count": shop.counts[request.GET.get("account", "")]})


urlpatterns = [path(p, order) for p in ("orders", "refunds", "empty", "large")] + [path("effects", effects)]
settings.configure(
    ROOT_URLCONF=__name__,
    SECRET_KEY="of the shop",
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["idempotency_key.middleware.IdempotencyKeyMiddleware"],
    INSTALLED_APPS=["rest_framework"],
    REST_FRAMEWORK={"UNAUTHENTICATED_USER": None, "DEFAULT_AUTHENTICATION_CLASSES": []},
)


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 64


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


if __name__ == "__main__":
    django.setup()
    with wsgiref.simple_server.make_server(
        "127.0.0.1", shop.PORT, get_wsgi_application(), Server, Handler
    ) as server:
        server.serve_forever()
