"""What every Python target sells: the effects, counted by account, and the switches that make an order slow or fail."""

import asyncio
import collections
import os
import signal
import threading
import time

LARGE = "0123456789abcdef" * 65536
PORT = int(os.environ.get("PORT", "8080"))
REDIS = os.environ.get("REDIS", "redis://127.0.0.1:6379/0")
# With EFFECTS, the name of a file, effects outlive a restart; without it they are in memory.
LEDGER = os.environ.get("EFFECTS")

counts = collections.Counter()
lock = threading.Lock()

if LEDGER and os.path.exists(LEDGER):
    with open(LEDGER) as file:
        counts.update(file.read().split())


def make(order):
    """Makes the order: this is the effect that must happen once."""
    with lock:
        counts[order["account"]] += 1
        if LEDGER:
            with open(LEDGER, "a") as file:
                file.write(order["account"] + "\n")
        return {"id": f"o-{counts.total()}", "item": order["item"], "amount": order["amount"]}


class Crash(Exception):
    """A failure that nobody foresaw."""


def steps(path, order, headers):
    """Sells. It yields the seconds of a pause, and then a status, headers and a document or a text."""
    if not isinstance(order, dict) or not isinstance(order.get("amount"), int) or order["amount"] < 1:
        yield 400, {}, {"error": "no order"}
        return
    fault = headers.get("x-fault")
    if fault == "500":
        yield 500, {}, {"error": "the bank is down"}
    elif fault == "429":
        yield 429, {"Retry-After": "0"}, {"error": "too many orders"}
    elif fault == "crash":
        if LEDGER:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Crash
    else:
        yield int(headers.get("x-slow", "0")) / 1000
        made = make(order)
        if path == "/empty":
            yield 204, {}, None
        elif path == "/large":
            yield 200, {}, {"large": LARGE}
        else:
            yield 201, {"Location": f"{path}/{made['id']}", "ETag": f'"{made["id"]}"'}, made


def sell(path, order, headers):
    """Sells in a thread of its own."""
    for step in steps(path, order, headers):
        if isinstance(step, tuple):
            return step
        time.sleep(step)


async def sell_async(path, order, headers):
    """Sells in an event loop."""
    for step in steps(path, order, headers):
        if isinstance(step, tuple):
            return step
        await asyncio.sleep(step)
