"""Makes one call with a public HTTP client of Python, for redo client-check: python3 client.py NAME"""

import json
import os
import sys

URL = os.environ["REDO_URL"]
HEADERS = {"Idempotency-Key": os.environ["REDO_OPERATION"], "Content-Type": "application/json"}
BODY = json.dumps({"amount": 1000})


def retries():
    from urllib3.util import Retry

    return Retry(total=3, backoff_factor=0.5, status_forcelist=[429, 500, 502, 503, 504], allowed_methods=["POST"])


def urllib3_retry():
    import urllib3

    resp = urllib3.PoolManager().request("POST", URL, headers=HEADERS, body=BODY, retries=retries())
    if not 200 <= resp.status < 300:
        raise RuntimeError(f"status {resp.status}")
    resp.json()


def requests_plain():
    import requests

    resp = requests.post(URL, headers=HEADERS, data=BODY, timeout=10)
    resp.raise_for_status()
    resp.json()


def requests_retry():
    import requests
    from requests.adapters import HTTPAdapter

    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retries()))
        resp = session.post(URL, headers=HEADERS, data=BODY, timeout=10)
        resp.raise_for_status()
        resp.json()


try:
    {"urllib3-retry": urllib3_retry, "requests": requests_plain, "requests-retry": requests_retry}[sys.argv[1]]()
except Exception as e:
    sys.exit(f"{type(e).__name__}: {e}")
