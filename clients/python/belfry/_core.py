"""The calls of a client without any I/O: their requests, the meaning of answers, and the decision about a repeat."""

from __future__ import annotations

import json
import logging
import os
import random
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar
from urllib.parse import urlsplit

import httpx

from ._wire import seconds, segment
from .errors import (
    BelfryConnectionError,
    BelfryError,
    BelfryTimeoutError,
    Committed,
    ProblemError,
    ProtocolError,
    refusal,
)
from .types import CallOptions, Seconds, build

log = logging.getLogger("belfry")
T = TypeVar("T")


class Options(TypedDict, total=False):
    """The settings of a client."""

    key: str | Callable[[], str]
    """An API key or a token, or a function that returns it. Absent, BELFRY_KEY, or the file BELFRY_KEY_FILE."""
    namespace: str
    """Of the calls about tasks, schedules and queues. Absent, BELFRY_NAMESPACE, or the key's own."""
    timeout: Seconds
    """Time for a call with all its repeats. 30 seconds unless given."""
    attempt_timeout: Seconds
    """Time for one request. 5 seconds unless given."""
    max_attempts: int
    """Requests of one call. Absent, as many as fit into the timeout."""
    retry_budget: float
    """Repeats that all calls together may make beyond a fifth of the calls. 500 unless given."""
    ssl_context: ssl.SSLContext
    """For certificates of an authority of one's own, and for client certificates."""
    traceparent: Callable[[], str | None]
    """Returns the W3C trace context of the running code, which deliveries carry on."""


@dataclass(slots=True)
class Request:
    """A request in a form that can be sent any number of times."""

    method: str
    path: str
    body: bytes | None
    options: CallOptions
    content_type: str = "application/json"
    wait: float = 0.0
    """Seconds of silence that the service may need beyond those of other calls."""

    @property
    def name(self) -> str:
        """The call in errors and logs. A query is left out, since it may hold labels."""
        return f"{self.method} {self.path.partition('?')[0]}"


class Core:
    """The settings of a client, and the state that all its calls share. Threads may share it."""

    def __init__(
        self,
        addresses: str | Sequence[str] | None = None,
        *,
        key: str | Callable[[], str] | None = None,
        namespace: str | None = None,
        timeout: Seconds = 30.0,
        attempt_timeout: Seconds = 5.0,
        max_attempts: int | None = None,
        retry_budget: float = 500.0,
        ssl_context: ssl.SSLContext | None = None,
        traceparent: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if addresses is None:
            addresses = os.environ.get("BELFRY_ADDR") or "http://127.0.0.1:8400"
        self.addresses = [_base(one) for one in (addresses.split(",") if isinstance(addresses, str) else addresses)]
        if not self.addresses:
            raise ValueError("there is no address")
        if namespace is None:
            namespace = os.environ.get("BELFRY_NAMESPACE")
        self.root = f"/v1/namespaces/{segment(namespace, 'namespace')}" if namespace else "/v1"
        self.timeout = seconds(timeout)
        self.attempt_timeout = seconds(attempt_timeout)
        self.max_attempts = max_attempts
        self.ssl_context = ssl_context
        self.clock = clock
        self._key = _key if key is None else key
        self._traceparent = traceparent
        self._lock = threading.Lock()  # guards _budget and _current
        self._budget = self._full_budget = retry_budget
        self._current = 0

    @property
    def address(self) -> str:
        return self.addresses[self._current % len(self.addresses)]

    def move_on(self, address: str) -> None:
        """Leaves an address that failed for the next one, unless another call has done so."""
        with self._lock:
            if address == self.address:
                self._current += 1

    def spend(self) -> bool:
        """Takes a repeat from the budget, and returns whether there was one."""
        with self._lock:
            if self._budget < 1:
                return False
            self._budget -= 1
            return True

    def refund(self) -> None:
        with self._lock:
            self._budget = min(self._budget + 0.2, self._full_budget)

    def headers(self, request: Request, idempotency_key: str | None = None) -> dict[str, str]:
        headers = {}
        if credential := self._key() if callable(self._key) else self._key:
            if any(not "!" <= letter <= "~" for letter in credential):
                raise ValueError("the key has a character that a header cannot carry")
            headers["authorization"] = f"Bearer {credential}"
        if request.body is not None:
            headers["content-type"] = request.content_type
        if idempotency_key is not None:
            headers["idempotency-key"] = idempotency_key
        if (revision := request.options.get("if_match")) is not None:
            headers["if-match"] = f'"{revision}"'
        if (absent := request.options.get("if_none_match")) is not None:
            headers["if-none-match"] = absent
        if trace := self._traceparent():
            headers["traceparent"] = trace
        return headers


class Call:
    """One call with its repeats."""

    def __init__(self, core: Core, request: Request) -> None:
        options = request.options
        self.name = request.name
        self._core = core
        self._request = request
        self._changes = request.method != "GET"
        self._key = (options.get("idempotency_key") or str(uuid.uuid4())) if self._changes else None
        self._deadline = core.clock() + seconds(options.get("timeout", core.timeout)) + request.wait
        self._attempt = 0
        self._committed: Committed = "no"
        self._address = ""

    def begin(self) -> tuple[str, dict[str, str], float]:
        """Begins an attempt, and returns its URL, its headers, and the seconds of silence after which it fails."""
        self._attempt += 1
        self._address = self._core.address
        left = self._deadline - self._core.clock()
        limit = min(left, self._core.attempt_timeout + self._request.wait)
        return self._address + self._request.path, self._core.headers(self._request, self._key), max(limit, 0.001)

    def failed(self, failure: BelfryError) -> float:
        """Returns the pause before the next attempt. Raises if there is none."""
        limited = isinstance(failure, ProblemError) and failure.status == 429
        if self._changes and failure.committed == "unknown":
            self._committed = "unknown"
        if not _repeatable(failure):
            raise failure
        if not limited:
            self._core.move_on(self._address)
        pause = self._pause(failure, limited)
        if self._attempt == self._core.max_attempts:
            raise failure
        if self._core.clock() + pause >= self._deadline:
            text = f"{self.name}: no answer in time; the last failure: {failure}"
            raise BelfryTimeoutError(text, self._committed) from failure
        if not self._core.spend():
            raise failure
        log.debug("repeating %s after attempt %d: %s", self.name, self._attempt, failure)
        return pause

    def _pause(self, failure: BelfryError, limited: bool) -> float:
        """The next address is asked at once. Once all have failed, the service's Retry-After or a backoff counts."""
        if not limited and self._attempt < len(self._core.addresses):
            return 0.0
        asked = failure.retry_after if isinstance(failure, ProblemError) else None
        if asked is not None and (limited or len(self._core.addresses) == 1):
            return float(asked)
        return min(0.02 * 2.0 ** min(self._attempt - 1, 10), 1.0) * random.uniform(0.5, 1)


def _repeatable(failure: BelfryError) -> bool:
    if not isinstance(failure, ProblemError):
        return isinstance(failure, BelfryConnectionError)
    if failure.status == 429:
        return failure.retry_after is not None or failure.type != "quota-exceeded"
    return failure.status in (502, 503, 504)


def lasting(failure: BelfryError) -> bool:
    """Reports whether a later call would fail too: the service refused it, and not for a lack of time or room."""
    return isinstance(failure, ProblemError) and failure.status < 500 and failure.status != 429


def judge(status: int, headers: Mapping[str, str], body: bytes, name: str) -> None:
    """Raises unless an answer is a success."""
    if 300 <= status < 400:
        reason = "the answer is a redirect, and a key is never sent to another host: name that address itself"
        raise ProtocolError(f"{name}: {reason}", "no")
    if status >= 400:
        raise refusal(status, headers, body, name)


def failure_of(err: httpx.HTTPError, name: str) -> BelfryError:
    """Returns the client's error of one of the network. A connection that was never made has carried nothing."""
    if isinstance(err, httpx.ConnectError | httpx.ConnectTimeout):
        return BelfryConnectionError(f"{name}: {err or type(err).__name__}", "no")
    if isinstance(err, httpx.TimeoutException):
        return BelfryConnectionError(f"{name}: no answer in time", "unknown")
    if isinstance(err, httpx.LocalProtocolError):
        return ProtocolError(f"{name}: the headers of the request cannot be sent", "no")
    return BelfryConnectionError(f"{name}: the connection broke ({type(err).__name__})", "unknown")


def json_of(body: bytes, name: str) -> dict[str, Any]:
    """Returns the JSON object of an answer or of a line."""
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ProtocolError(f"{name}: the answer is not a JSON object", "unknown")
    return content


def answer_of(kind: type[T], content: Mapping[str, Any]) -> T:
    """Returns the object of an answer."""
    try:
        return build(kind, content)
    except (TypeError, ValueError, AttributeError) as err:
        raise ProtocolError(f"the answer is no {kind.__name__}: {err}", "unknown") from err


_call_options = frozenset(CallOptions.__annotations__)


def split(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], CallOptions]:
    """Separates the content of a request from the options of its call."""
    options: CallOptions = {}
    content = {}
    for name, value in arguments.items():
        if name in _call_options:
            options[name] = value  # type: ignore[literal-required]
        else:
            content[name] = value
    return content, options


def _base(address: str) -> str:
    text = address.strip()
    url = urlsplit(text if "://" in text else f"http://{text}")
    if url.username is not None or url.password is not None:
        raise ValueError("an address has a user or password: calls do not carry them")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"the address {text} is not http://host:port")
    return f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"


def _key() -> str:
    """Returns the key of the environment. The file is read at each call, so that a rotated key comes into force."""
    if key := os.environ.get("BELFRY_KEY"):
        return key
    if path := os.environ.get("BELFRY_KEY_FILE"):
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    return ""
