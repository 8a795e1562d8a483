"""A receiver of webhooks verifies deliveries: the signature by any of its secrets, the timestamp and the fence."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, Protocol
from urllib.parse import unquote_to_bytes

from ._wire import seconds
from .types import Seconds, instant

Reason = Literal["malformed", "signature", "timestamp", "stale", "too-large"]
_STATUS: dict[Reason, int] = {"malformed": 400, "signature": 401, "timestamp": 401, "stale": 409, "too-large": 413}


class VerificationError(Exception):
    """A refusal of a request. `malformed`: no delivery; `stale`: a newer attempt has reached the receiver before."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message

    @property
    def status(self) -> int:
        """The status that answers the request. Belfry repeats refused attempts, except stale ones, which are over."""
        return _STATUS[self.reason]


class Fences(Protocol):
    """Remembers the highest fence of each task. Receivers of several processes share one, say in their database."""

    def admit(self, task: str, fence: int) -> bool:
        """Remembers a fence, and returns whether no higher one came before. An equal one is the same attempt again."""


class MemoryFences:
    """Fences in the memory of one process. It forgets the tasks that were seen longest ago."""

    def __init__(self, capacity: int = 100_000) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()  # guards _fences
        self._fences: OrderedDict[str, int] = OrderedDict()

    def admit(self, task: str, fence: int) -> bool:
        with self._lock:
            known = self._fences.pop(task, 0)
            self._fences[task] = max(known, fence)
            if len(self._fences) > self._capacity:
                self._fences.popitem(last=False)
        return fence >= known


@dataclass(slots=True, kw_only=True)
class DeliveredTask:
    """One task of a delivery."""

    task: str
    """The task's own id."""
    webhook_id: str
    source: str
    """`/v1/queues/` and the queue, behind `/v1/namespaces/` and the namespace if it is not the default one."""
    attempt: int
    fence: int
    due: datetime
    payload: Any = field(repr=False)
    stale: bool = False
    """In a batch: the sender of this task has been superseded, and it must not be carried out."""


@dataclass(slots=True, kw_only=True)
class Delivery(DeliveredTask):
    """A verified request. Its own fields are those of the first of its tasks."""

    sent_at: datetime
    body: bytes = field(repr=False)
    tasks: list[DeliveredTask]
    """The tasks: one, or several if the queue sends batches."""


class Receiver:
    """Verifies deliveries."""

    def __init__(
        self,
        secrets: Sequence[str],
        *,
        tolerance: Seconds = timedelta(minutes=5),
        fences: Fences | None = None,
        max_body: int = 16 << 20,
        now: Callable[[], float] = time.time,
    ) -> None:
        """The secrets are the queue's, each `whsec_` and base64: two during a change of it. The tolerance is the
        largest difference of the sender's clock, and `max_body` a number of bytes."""
        if isinstance(secrets, str) or not secrets:
            raise ValueError("secrets is not a list of at least one secret")
        self.max_body = max_body
        self._keys = [_key(secret, i) for i, secret in enumerate(secrets)]
        self._tolerance = seconds(tolerance)
        self._fences = MemoryFences() if fences is None else fences
        self._now = now

    def verify(self, headers: Mapping[str, str], body: bytes) -> Delivery:
        """Returns the delivery of a request, by its headers and its whole body as it came. Raises a VerificationError,
        and any exception of the fences."""
        if len(body) > self.max_body:
            raise VerificationError("too-large", f"the body is over {self.max_body} bytes")
        head = {name.lower(): value for name, value in headers.items()}
        id, stamp = head.get("webhook-id", ""), head.get("webhook-timestamp", "")
        if not id or "." in id:
            raise _malformed("webhook-id is absent, or has a dot")
        if not re.fullmatch(r"0|[1-9][0-9]{0,10}", stamp):
            raise _malformed("webhook-timestamp is not a number of seconds")
        if not self._signed(f"{id}.{stamp}.".encode() + body, head.get("webhook-signature", "")):
            raise VerificationError("signature", "no signature of the request is right")
        if abs(self._now() - int(stamp)) > self._tolerance:
            raise VerificationError("timestamp", "the request was not sent just now")
        tasks = _tasks(head, body)
        for one in tasks:
            one.stale = not self._fences.admit(one.task, one.fence)
        first = tasks[0]
        if len(tasks) == 1 and first.stale:
            raise VerificationError("stale", f"a newer attempt of task {first.task} came before fence {first.fence}")
        return Delivery(
            task=first.task,
            webhook_id=id,
            source=first.source,
            attempt=first.attempt,
            fence=first.fence,
            due=first.due,
            payload=first.payload,
            stale=first.stale,
            sent_at=datetime.fromtimestamp(int(stamp), timezone.utc),
            body=body,
            tasks=tasks,
        )

    def _signed(self, text: bytes, signatures: str) -> bool:
        given = [one.removeprefix("v1,").encode() for one in signatures.split(" ") if one.startswith("v1,")]
        right = [base64.b64encode(hmac.digest(key, text, hashlib.sha256)) for key in self._keys]
        return any(hmac.compare_digest(one, other) for one in given for other in right)


def _key(secret: str, i: int) -> bytes:
    try:
        if secret.startswith("whsec_") and (key := base64.b64decode(secret[6:], validate=True)):
            return key
    except ValueError:
        pass  # the error below tells it without the secret
    raise ValueError(f"secrets[{i}] is not whsec_ and base64")


def _malformed(text: str) -> VerificationError:
    return VerificationError("malformed", text)


def _tasks(head: Mapping[str, str], body: bytes) -> list[DeliveredTask]:
    kind = head.get("content-type", "").partition(";")[0].strip()
    if kind != "application/cloudevents-batch+json":
        is_json = kind == "application/json" or kind.endswith("+json")
        names = ("ce-id", "ce-subject", "ce-source", "ce-time", "belfry-attempt", "belfry-fence")
        fields = [head.get(name, "") for name in names]
        try:
            fields[1] = unquote_to_bytes(fields[1]).decode()  # CloudEvents percent-encodes headers
        except UnicodeDecodeError:
            raise _malformed("ce-subject is not percent-encoded as it should be") from None
        return [_task(fields, _parse(body) if is_json else body)]
    batch = _parse(body)
    if not isinstance(batch, list) or not batch or not all(isinstance(event, dict) for event in batch):
        raise _malformed("the batch is not an array of events")
    members = ("id", "subject", "source", "time", "belfryattempt", "belfryfence")
    return [_task([str(event.get(name, "")) for name in members], event.get("data")) for event in batch]


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        raise _malformed("the body is not JSON") from None


def _task(fields: Sequence[str], payload: Any) -> DeliveredTask:
    webhook_id, task, source, time, attempt, fence = fields
    if not webhook_id or not task:
        raise _malformed("the delivery has no id, or no subject")
    if not re.fullmatch(r"[0-9]{1,20}", fence):
        raise _malformed("the fence is absent, or is not a number")
    if not re.fullmatch(r"[0-9]{1,9}", attempt):
        raise _malformed("the attempt is absent, or is not a number")
    try:
        due = instant(time)
    except ValueError:
        raise _malformed("the due time is absent, or is not an instant") from None
    return DeliveredTask(
        task=task,
        webhook_id=webhook_id,
        source=source,
        attempt=int(attempt),
        fence=int(fence),
        due=due,
        payload=payload,
    )
