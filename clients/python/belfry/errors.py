"""The failures of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, cast

from .types import Problem, Schedule, Task, TaskState, build

Committed = Literal["no", "unknown"]
"""Whether a call that failed was carried out. A refusal of a 4xx is always `no`."""

# fmt: off
ProblemType = Literal[
    "malformed-json", "invalid-field", "no-delay", "unauthenticated", "foreign-origin", "forbidden", "unknown-route",
    "task-not-found", "schedule-not-found", "queue-not-found", "key-not-found", "namespace-not-found",
    "token-not-found", "lease-not-found", "node-not-found", "operation-not-found", "impossible", "queue-not-empty",
    "calendar-not-found", "calendar-in-use", "queues-full", "lease-ended", "method-not-allowed", "body-timeout",
    "wrong-state", "key-forgotten", "events-gone", "precondition-failed", "too-large", "unsupported-media-type",
    "key-reused", "too-many-attempts", "overloaded", "memory-full", "quota-exceeded", "internal", "not-committed",
    "not-ready", "no-room", "outcome-unknown",
]
# fmt: on
"""The types of problems, without `urn:belfry:problem:`."""


class BelfryError(Exception):
    """Any failure of a call. `committed` tells whether the call was carried out."""

    def __init__(self, message: str, committed: Committed) -> None:
        super().__init__(message, committed)
        self.message = message
        self.committed = committed

    def __str__(self) -> str:
        return self.message


class BelfryConnectionError(BelfryError, ConnectionError):
    """A node could not be reached, or its answer did not arrive."""


class BelfryTimeoutError(BelfryError, TimeoutError):
    """The time of a call was up. The cause is the last failure before that."""


class ProtocolError(BelfryError):
    """An answer that is not the service's: a redirect, or a body that cannot be read."""


class ProblemError(BelfryError):
    """A refusal by the service: a problem of RFC 9457. The subclasses tell families of types apart."""

    def __init__(self, problem: Problem, call: str = "") -> None:
        self.problem = problem
        self.call = call
        self.status = problem["status"]
        kind = problem.get("type", "")
        self.type = cast(ProblemType, kind.removeprefix(PREFIX)) if kind.startswith(PREFIX) else ""
        """Stable; empty if the answer is not the service's."""
        self.title = problem.get("title", "")
        self.detail = problem.get("detail", "")
        self.field = problem.get("field")
        """The field, parameter or header that is wrong."""
        self.limit = problem.get("limit")
        self.quota = problem.get("quota")
        self.used = problem.get("used")
        self.retry_after = problem.get("retry_after")
        """Seconds until a repeat makes sense."""
        self.state: TaskState | None = problem.get("state")
        """The state of a task that does not allow the call."""
        self.attempts = problem.get("attempts")
        self.count = problem.get("count")
        """Tasks that a call on many certainly changed before it broke off."""
        text = self.detail or self.title
        where = f"{self.field} " if self.field and not text.startswith(self.field) else ""
        limit = f" (limit {self.limit})" if self.limit else ""
        refused = self.status < 500 or self.status == 507
        super().__init__(
            f"{call and call + ': '}{self.status} {where}{text}{limit}",
            problem.get("committed", "no" if refused else "unknown"),
        )

    @property
    def task(self) -> Task | None:
        """The task that is there, when `if_none_match` fails."""
        content = self.problem.get("task")
        return build(Task, content) if content else None

    @property
    def schedule(self) -> Schedule | None:
        """The schedule that is there, when `if_none_match` fails."""
        content = self.problem.get("schedule")
        return build(Schedule, content) if content else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem, self.call)


PREFIX = "urn:belfry:problem:"


class InvalidError(ProblemError):
    """A field, parameter or header is wrong: see `field` and `limit`."""


class UnauthenticatedError(ProblemError):
    """The call has no key, or one that is wrong, expired or revoked."""


class ForbiddenError(ProblemError):
    """The key does not allow the call."""


class NotFoundError(ProblemError):
    """There is no such task, schedule, queue or other thing."""


class ConflictError(ProblemError):
    """The state of the task or another thing does not allow the call."""


class PreconditionError(ProblemError):
    """`if_match` or `if_none_match` did not hold."""


class KeyReusedError(ProblemError):
    """The idempotency key was used with another call."""


class QuotaError(ProblemError):
    """A quota of the namespace or the key is used up, or does not allow the call."""


class OverloadedError(ProblemError):
    """Too many calls, or no room for more tasks: nothing happened."""


class UnavailableError(ProblemError):
    """No answer in time from the leader, or a fault inside: see `committed`."""


# fmt: off
FAMILIES: dict[type[ProblemError], tuple[ProblemType, ...]] = {
    InvalidError: (
        "malformed-json", "invalid-field", "no-delay", "too-large", "unsupported-media-type", "unknown-route",
        "method-not-allowed", "body-timeout",
    ),
    UnauthenticatedError: ("unauthenticated", "too-many-attempts"),
    ForbiddenError: ("forbidden", "foreign-origin"),
    NotFoundError: (
        "task-not-found", "schedule-not-found", "queue-not-found", "key-not-found", "namespace-not-found",
        "token-not-found", "lease-not-found", "node-not-found", "operation-not-found", "calendar-not-found",
        "events-gone",
    ),
    ConflictError: (
        "wrong-state", "lease-ended", "queue-not-empty", "calendar-in-use", "queues-full", "key-forgotten",
        "impossible",
    ),
    PreconditionError: ("precondition-failed",),
    KeyReusedError: ("key-reused",),
    QuotaError: ("quota-exceeded",),
    OverloadedError: ("overloaded", "memory-full", "no-room"),
    UnavailableError: ("not-committed", "not-ready", "internal", "outcome-unknown"),
}
# fmt: on
_family_of = {PREFIX + kind: family for family, kinds in FAMILIES.items() for kind in kinds}


def problem_error(problem: Problem, call: str = "") -> ProblemError:
    """Returns the error of a problem, such as one in the result of a batch."""
    return _family_of.get(problem.get("type", ""), ProblemError)(problem, call)


def refusal(status: int, headers: Mapping[str, str], body: bytes, call: str) -> ProblemError:
    """Returns the error of a refused request. Only a problem's own fields are shown: a proxy may echo the key."""
    problem: Problem = {"status": status}
    if headers.get("content-type", "").startswith("application/problem+json"):
        try:
            problem.update(json.loads(body))
            problem["status"] = status
        except (ValueError, TypeError):
            problem["detail"] = "the problem cannot be read"
    else:
        problem["detail"] = "the answer is not the service's"
    seconds = headers.get("retry-after", "")
    if seconds.isdecimal() and int(seconds) > 0:
        problem["retry_after"] = int(seconds)
    return problem_error(problem, call)
