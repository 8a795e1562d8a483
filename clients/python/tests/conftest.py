"""Fixtures of all tests."""

import base64
import hashlib
import hmac
import json
import re
import time
from pathlib import Path

import django
import pytest
from django.conf import settings

from belfry import Belfry
from belfry.testing import BelfryDev

FOLDER = Path(__file__).parent.parent
SECRET = "whsec_b25lLW9uZS1vbmUtb25lLW9uZS1vbmUtb25lLW9uZQ=="


def snippets():
    """Returns the code of README.md by its names."""
    return dict(re.findall(r"```python (\w+)\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL))


collect_ignore = [] if django.VERSION >= (6,) else ["test_django_tasks.py"]


def pytest_report_header():
    return "NOT TESTED: the tasks of Django 6.0, which needs Python 3.12" if collect_ignore else None


def pytest_configure():
    configured = {}
    if not collect_ignore:
        exec(snippets()["django_settings"], configured)
        del configured["__builtins__"]
    settings.configure(ALLOWED_HOSTS=["testserver"], USE_TZ=True, SECRET_KEY="test", **configured)
    django.setup()


@pytest.fixture(scope="session")
def node():
    with BelfryDev() as dev:
        yield dev


@pytest.fixture
def belfry(node, monkeypatch):
    """A client of the node, which the environment names too."""
    monkeypatch.setenv("BELFRY_ADDR", node.url)
    with Belfry(key="", namespace="") as client:
        yield client


@pytest.fixture
def signed(monkeypatch):
    """Returns a function that signs deliveries as the service does."""
    monkeypatch.setenv("BELFRY_SECRET", SECRET)

    def sign(payload, at=None, **changes):
        body = json.dumps(payload).encode()
        stamp = str(int(time.time() if at is None else at))
        digest = hmac.digest(base64.b64decode(SECRET[6:]), f"msg_1.{stamp}.".encode() + body, hashlib.sha256)
        headers = {
            "content-type": "application/json",
            "webhook-id": "msg_1",
            "webhook-timestamp": stamp,
            "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
            "ce-id": "msg_1",
            "ce-subject": "order-1042",
            "ce-source": "/v1/queues/q",
            "ce-time": "2026-01-02T03:04:05Z",
            "belfry-attempt": "1",
            "belfry-fence": "7",
        }
        return {**headers, **{name.replace("_", "-"): value for name, value in changes.items()}}, body

    return sign
