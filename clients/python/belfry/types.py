"""The forms of requests and of answers, in the API's own names.

Requests are keyword arguments and dicts. Answers are dataclasses; a target, a retry, a window or a rule in an answer is
a dict of the same form as in a request. A payload is any JSON, and never changed.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from typing_extensions import NotRequired, Required

Duration: TypeAlias = str | timedelta
"""A timedelta, or a text such as `500ms`, `1h30m`, `7d` or `PT30M`. Answers have texts."""

Instant: TypeAlias = datetime | str
"""A datetime with a time zone, or an RFC 3339 text. The service rounds finer times up to whole milliseconds."""

Seconds: TypeAlias = float | timedelta

TaskState = Literal["scheduled", "ready", "firing", "retrying", "delivered", "dead", "cancelled"]

Outcome = Literal["cancelled", "stopped", "already_fired"]
"""The final result of a cancel. `cancelled`: no attempt was begun, and none will be. `stopped`: an attempt was begun
and may have been delivered; no other will be. `already_fired`: the task was delivered or dead before."""

EventType = Literal[
    "scheduled", "moved", "fired", "delivered", "failed", "dead", "cancelled", "expired", "skipped", "gap"
]

# Requests


class CallOptions(TypedDict, total=False):
    """Settings of one call."""

    timeout: Seconds
    """Time for the call with all its repeats."""
    idempotency_key: str
    """Absent, a new key. A stored key makes the call safe to repeat after a restart."""
    if_match: int
    """Makes the call only if the task, or the schedule, still has this revision."""
    if_none_match: Literal["*"]
    """Makes the call only if there is no such task or schedule, tombstones included."""


class JWT(TypedDict, total=False):
    """The token that the cluster signs for each request of a webhook."""

    audience: Required[str]
    claims: Mapping[str, Any]
    algorithm: Literal["EdDSA", "RS256"]


class Auth(TypedDict, total=False):
    """Proves to the receiver of a webhook who sends it: a token, a certificate of the nodes, or both."""

    jwt: JWT
    client_certificate: str


class Target(TypedDict, total=False):
    """The receiver of a task."""

    url: Required[str]
    method: Literal["POST", "PUT", "PATCH", "DELETE", "GET"]
    auth: Auth
    headers: Mapping[str, str]
    timeout: Duration


class Retry(TypedDict, total=False):
    """The number and the pauses of the attempts. `delays` stand in place of a backoff."""

    max_attempts: int
    min_backoff: Duration
    max_backoff: Duration
    delays: Sequence[Duration]


class Window(TypedDict, total=False):
    """The hours in which attempts may begin."""

    time_zone: str
    daily: Required[Sequence[str]]
    days: str
    calendar: str


class TaskContent(TypedDict, total=False):
    """The fields of a task without its id and time. Absent fields are the queue's."""

    queue: str
    payload: Any
    payload_base64: str
    content_type: str
    target: Target
    retry: Retry
    expires_after: Duration
    """A task that has not begun this long after its time becomes a dead letter."""
    labels: Mapping[str, str]
    window: Window
    group: str
    priority: int
    """1 to 5, the first first."""
    on_delivered: FollowUp
    """The task that is made by the log entry that ends this one as delivered, with the id `{id}@delivered`."""
    on_dead: FollowUp
    """The same for a dead letter, with the id `{id}@dead`."""


class FollowUp(TaskContent, total=False):
    """A task that follows the end of another one. Without a payload, it gets a TaskOutcome."""

    delay: Duration
    """From the end of the other task."""
    keep_answer: bool
    """The outcome has the first 16 KiB of the receiver's answer."""


class TaskOutcome(TypedDict):
    """The payload of a follow-up that was given none."""

    id: str
    queue: str
    occurrence: NotRequired[int]
    outcome: Literal["delivered", "dead"]
    attempts: int
    status: NotRequired[int]
    error: NotRequired[str]
    answer_base64: NotRequired[str]
    due: str
    done_at: str


class NewTask(TaskContent, total=False):
    """A task to schedule, with exactly one of `delay` and `fire_at`."""

    delay: Duration
    fire_at: Instant
    jitter: Duration


class TaskOptions(TaskContent, CallOptions, total=False):
    """The arguments of a schedule call beside its id and its time."""

    jitter: Duration


class TargetPatch(TypedDict, total=False):
    url: str
    method: str | None
    auth: Auth | None
    headers: Mapping[str, str | None] | None
    timeout: Duration | None


class RetryPatch(TypedDict, total=False):
    max_attempts: int | None
    min_backoff: Duration | None
    max_backoff: Duration | None
    delays: Sequence[Duration] | None


class ContentPatch(TypedDict, total=False):
    """A merge patch (RFC 7396): None restores the default. The payload is replaced whole."""

    payload: Any
    payload_base64: str | None
    content_type: str | None
    target: TargetPatch | None
    retry: RetryPatch | None
    labels: Mapping[str, str | None] | None
    window: Window | None
    group: str | None
    priority: int | None
    on_delivered: FollowUp | None
    """Replaced whole, as on_dead is."""
    on_dead: FollowUp | None


class TaskPatch(ContentPatch, total=False):
    delay: Duration
    fire_at: Instant


class PatchOptions(TaskPatch, CallOptions, total=False):
    pass


class Touch(TypedDict, total=False):
    """Starts a delay again, with at most one of `payload`, `payload_base64` and `append`."""

    delay: Duration
    no_later_than: Instant | Duration
    """An instant, or a duration from the creation, that bounds a debounce."""
    payload: Any
    payload_base64: str
    append: Sequence[Any]
    """Elements for the end of the array that is the payload."""
    or_schedule: NewTask
    """The task to make if there is none, or if it is done or firing. Without a payload it gets the touch's."""


class TouchOptions(Touch, CallOptions, total=False):
    pass


class TaskFilter(CallOptions, total=False):
    """The choice of tasks of a list."""

    state: TaskState | Sequence[TaskState]
    queue: str
    prefix: str
    label: Mapping[str, str]
    due_after: Instant
    due_before: Instant
    order: Literal["id", "due"]
    limit: int
    """Tasks in one page, 1 to 1000."""
    include: Literal["payload"]


class DeadFilter(CallOptions, total=False):
    """The choice of dead letters. Without a member, all."""

    id: str | Sequence[str]
    prefix: str
    label: Mapping[str, str]
    due_after: Instant
    due_before: Instant
    limit: int


class ScheduleFilter(CallOptions, total=False):
    queue: str
    prefix: str
    label: Mapping[str, str]
    order: Literal["id", "due"]
    limit: int
    include: Literal["payload"]


class QueueFilter(CallOptions, total=False):
    prefix: str
    limit: int


class EventFilter(TypedDict, total=False):
    """The choice of events."""

    queue: str
    type: Sequence[EventType]
    prefix: str
    label: Mapping[str, str]
    since: Instant | Duration
    """An instant, or the time before now. Absent, from now on."""
    after: str
    """The id of an event, in place of `since`."""
    follow: bool
    """False ends the events at the present."""


class _Line(TypedDict, total=False):
    id: Required[str]
    key: str
    if_match: int
    if_none_match: Literal["*"]


class ScheduleLine(_Line, NewTask, total=False):
    op: Required[Literal["schedule"]]


class TouchLine(_Line, Touch, total=False):
    op: Required[Literal["touch"]]


class PatchLine(_Line, TaskPatch, total=False):
    op: Required[Literal["patch"]]


class OtherLine(_Line, total=False):
    op: Required[Literal["cancel", "fire"]]


BatchOp: TypeAlias = ScheduleLine | TouchLine | PatchLine | OtherLine
"""One operation of a batch."""


class Signing(TypedDict):
    secrets: Sequence[str]
    """At most two, the newest first: `whsec_` and base64. Answers have a digest, which keeps a secret if sent back."""


class QueuePolicy(CallOptions, total=False):
    """The policy of a queue. An absent field is the default."""

    target: Target
    retry: Retry
    max_in_flight: int
    max_per_second: float
    batch_max: int
    paused: bool
    keep_done: Duration
    keep_dead: Duration
    window: Window
    on_delivered: FollowUp
    """Of tasks without follow-ups of their own."""
    on_dead: FollowUp
    group_in_flight: int
    group_per_second: float
    fifo: bool
    fair: bool
    group_weights: Mapping[str, int]
    signing: Signing


class QueuePatch(CallOptions, total=False):
    """A merge patch of a policy: None restores the default."""

    target: TargetPatch | None
    retry: RetryPatch | None
    max_in_flight: int | None
    max_per_second: float | None
    batch_max: int | None
    paused: bool | None
    keep_done: Duration | None
    keep_dead: Duration | None
    window: Window | None
    on_delivered: FollowUp | None
    on_dead: FollowUp | None
    group_in_flight: int | None
    group_per_second: float | None
    fifo: bool | None
    fair: bool | None
    group_weights: Mapping[str, int | None] | None
    signing: Signing | None


Repeat = TypedDict(
    "Repeat",
    {
        "cron": Sequence[str],
        "every": Duration,
        "anchor": Instant,
        "time_zone": str,
        "start": Instant,
        "end": Instant,
        "count": int,
        "jitter": Duration,
        "except": Sequence[str],
        "calendar": str,
    },
    total=False,
)
"""A rule: cron expressions in a time zone, or an interval `every` from an anchor."""

Misfire = Literal["latest", "all", "skip"]
Overlap = Literal["skip", "queue_one", "queue_all", "allow", "cancel_previous"]
ClockChange = Literal["gap", "first", "second"]


class NewSchedule(CallOptions, total=False):
    """The settings of a schedule. The service's defaults stand for absent ones."""

    repeat: Required[Repeat]
    misfire: Misfire
    """The occurrences that run after an outage."""
    misfire_window: Duration
    overlap: Overlap
    """The rule for an occurrence that comes due while an earlier one is under way."""
    paused: bool
    note: str
    task: TaskContent


class ScheduledPatch(ContentPatch, total=False):
    queue: str | None
    expires_after: Duration | None


class SchedulePatch(CallOptions, total=False):
    repeat: Mapping[str, Any]
    misfire: Misfire | None
    misfire_window: Duration | None
    overlap: Overlap | None
    paused: bool | None
    note: str | None
    task: ScheduledPatch | None


class OperationFilter(TypedDict, total=False):
    queue: str
    prefix: str
    label: str | Sequence[str]
    """One or several labels, as `name:value`."""
    state: TaskState | Sequence[TaskState]
    due_after: Instant
    due_before: Instant


class BulkPatch(TypedDict, total=False):
    target: TargetPatch
    retry: RetryPatch
    labels: Mapping[str, str | None]


class BulkSchedulePatch(TypedDict, total=False):
    repeat: Mapping[str, Any]
    misfire: Misfire | None
    misfire_window: Duration | None
    overlap: Overlap | None
    paused: bool | None
    note: str | None
    task: BulkPatch


class NewOperation(CallOptions, total=False):
    """One call on every task that passes a filter, or on every schedule (`pause`, `resume`, `delete` and `patch`).
    `move` needs `by` or `to`, and `patch` a patch."""

    op: Required[Literal["cancel", "move", "patch", "fire", "replay", "purge", "pause", "resume", "delete"]]
    of: Literal["tasks", "schedules"]
    filter: OperationFilter
    all: bool
    """Needed without a condition, and refused beside one."""
    by: Duration
    to: Instant
    patch: BulkPatch | BulkSchedulePatch
    note: str
    """Of a `pause` or a `resume`."""
    per_second: int


class Nack(TypedDict):
    receipt: str
    delay: NotRequired[Duration]
    reason: NotRequired[str]


class Extend(TypedDict):
    receipt: str
    lease: Duration


class Settlement(CallOptions, total=False):
    """Receipts of leases, by the outcomes of their tasks. The results have the order of these fields."""

    ack: Sequence[str]
    nack: Sequence[Nack]
    extend: Sequence[Extend]
    release: Sequence[str]


# Answers


@dataclass(slots=True, kw_only=True)
class Attempt:
    """An ended attempt."""

    attempt: int
    fence: int
    started_at: datetime | None
    ended_at: datetime | None
    node: str
    error: str


@dataclass(slots=True, kw_only=True)
class Task:
    """A task, or its tombstone. The payload is not shown by repr, so that logs do not get it."""

    id: str
    queue: str
    fire_at: datetime
    payload: Any = field(default=None, repr=False)
    payload_base64: str | None = field(default=None, repr=False)
    content_type: str
    target: Target | None = field(default=None, repr=False)
    retry: Retry | None = None
    expires_after: str | None = None
    labels: dict[str, str] | None = None
    window: Window | None = None
    group: str | None = None
    priority: int | None = None
    on_delivered: FollowUp | None = field(default=None, repr=False)
    on_dead: FollowUp | None = field(default=None, repr=False)
    state: TaskState
    attempts: int
    next_attempt_at: datetime | None
    waits_for: Literal["window"] | None = None
    last_error: str
    revision: int
    """For `if_match`. It changes with each change of the task."""
    shard: int
    created_at: datetime
    schedule: str | None = None
    occurrence: int | None = None
    scheduled: datetime | None = None
    webhook_id: str | None = None
    lease_ends_at: datetime | None = None
    history: list[Attempt] | None = None
    outcome: Outcome | None = None
    previous: TaskState | None = None
    """In the answer to a schedule call, the state of the replaced task."""


@dataclass(slots=True, kw_only=True)
class ScheduledTask(Task):
    """A task, and whether the call made it. A replaced finished task counts as made."""

    created: bool


@dataclass(slots=True, kw_only=True)
class LeasedTask(Task):
    """A task leased to a consumer until `lease_ends_at`."""

    webhook_id: str
    """The same for all attempts of an occurrence."""
    lease_ends_at: datetime
    receipt: str = field(repr=False)
    attempt: int
    fence: int
    """Rises with every grant of the task. A store that keeps the highest one shuts out stale holders."""


class Problem(TypedDict, total=False):
    """A refusal of RFC 9457."""

    type: str
    title: str
    status: Required[int]
    detail: str
    field: str
    limit: str
    quota: str
    used: str
    retry_after: int
    committed: Literal["no", "unknown"]
    state: TaskState
    attempts: int
    task: dict[str, Any]
    schedule: dict[str, Any]
    counts: dict[str, Any]
    count: int


@dataclass(slots=True, kw_only=True)
class BatchResult:
    """The result of one operation of a batch. `belfry.problem_error` makes an error of a problem."""

    id: str
    status: int
    revision: int | None = None
    outcome: Outcome | None = None
    previous: TaskState | None = None
    problem: Problem | None = None


@dataclass(slots=True, kw_only=True)
class SettleResult:
    receipt: str = field(repr=False)
    id: str
    status: int
    outcome: Literal["replaced"] | None = None
    problem: Problem | None = None


@dataclass(slots=True, kw_only=True)
class QueueCounts:
    scheduled: int
    ready: int
    firing: int
    leased: int
    retrying: int
    delivered: int
    dead: int
    cancelled: int
    oldest_overdue: datetime | None
    due_1m: int
    due_1h: int
    due_1d: int


@dataclass(slots=True, kw_only=True)
class BrokenReceiver:
    receiver: str
    path: str
    since: datetime
    last_error: str
    waiting: int


@dataclass(slots=True, kw_only=True)
class Queue:
    queue: str
    target: Target | None = field(default=None, repr=False)
    retry: Retry | None = None
    max_in_flight: int | None = None
    max_per_second: float | None = None
    batch_max: int | None = None
    paused: bool
    keep_done: str | None = None
    keep_dead: str | None = None
    window: Window | None = None
    on_delivered: FollowUp | None = field(default=None, repr=False)
    on_dead: FollowUp | None = field(default=None, repr=False)
    group_in_flight: int | None = None
    group_per_second: float | None = None
    fifo: bool | None = None
    fair: bool | None = None
    group_weights: dict[str, int] | None = None
    window_open: bool | None = None
    window_opens_at: datetime | None = None
    signing: Signing | None = None
    counts: QueueCounts | None = None
    broken: list[BrokenReceiver] | None = None


@dataclass(slots=True, kw_only=True)
class Schedule:
    """A schedule. Its occurrences are tasks with the ids `id@1`, `id@2`, …"""

    id: str
    repeat: Repeat
    misfire: Misfire
    misfire_window: str
    overlap: Overlap
    paused: bool
    note: str
    task: TaskContent = field(repr=False)
    last: int
    """Number of the last occurrence."""
    next_at: datetime | None
    running: list[int]
    waiting: list[int]
    started: int
    passed: int
    ended: bool
    problem: str | None = None
    revision: int
    shard: int
    created_at: datetime
    tz_data: str


@dataclass(slots=True, kw_only=True)
class FiredOccurrence:
    id: str
    number: int
    schedule: Schedule


@dataclass(slots=True, kw_only=True)
class NextOccurrence:
    number: int
    due: datetime
    scheduled: datetime
    local: datetime
    clock_change: ClockChange | None = None


@dataclass(slots=True, kw_only=True)
class LastOccurrence:
    number: int
    count: int | None = None
    scheduled: datetime
    origin: Literal["rule", "call", "backfill"]
    state: Literal["waiting", "running", "delivered", "dead", "cancelled", "passed"]
    why: Literal["overlap", "missed", "coalesced", "call", "replaced"] | None = None
    began_at: datetime | None = None
    late: str | None = None
    attempts: int | None = None
    error: str | None = None
    ended_at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class Occurrences:
    next: list[NextOccurrence]
    last: list[LastOccurrence]


@dataclass(slots=True, kw_only=True)
class PreviewedOccurrence:
    at: datetime
    local: datetime
    """The same instant in the rule's zone."""
    clock_change: ClockChange | None = None
    wall: str | None = None


@dataclass(slots=True, kw_only=True)
class Preview:
    """The instants of a rule."""

    occurrences: list[PreviewedOccurrence]
    excluded: list[dict[str, str]]
    ended: bool
    time_zone: str
    tz_data: str


@dataclass(slots=True, kw_only=True)
class Operation:
    id: str
    kind: str
    state: Literal["running", "done", "stopped"]
    began_at: datetime
    ended_at: datetime | None
    total: int
    done: int
    percent: float
    detail: str | None = None
    cause: str | None = None
    matched: int | None = None
    outcomes: dict[str, int] | None = None


@dataclass(slots=True, kw_only=True)
class OperationCount:
    matched: int
    complete: bool
    """False: the time was over before all tasks were counted."""


@dataclass(slots=True, kw_only=True)
class TaskEvent:
    """One thing that happened to a task. A `gap` has its type alone: events that are no longer kept were before it."""

    id: str | None = None
    type: EventType
    at: datetime | None = None
    task: str = ""
    queue: str = ""
    labels: dict[str, str] | None = None
    due: datetime | None = None
    lateness: str | None = None
    attempt: int | None = None
    webhook_id: str | None = None
    schedule: str | None = None
    occurrence: int | None = None
    node: str | None = None
    answer: str | None = None
    shard: int | None = None


@dataclass(slots=True, kw_only=True)
class TaskHistory:
    task: str
    events: list[TaskEvent]
    more: bool
    complete: bool
    complete_since: datetime | None
    missing: list[str]


A = TypeVar("A")


def build(kind: type[A], content: Mapping[str, Any]) -> A:
    """Returns an answer's object. Members that this client does not know are left out."""
    readers = _readers(kind)  # type: ignore[arg-type]
    return kind(
        **{name: value if value is None else readers[name](value) for name, value in content.items() if name in readers}
    )


@cache
def _readers(kind: type[Any]) -> dict[str, Callable[[Any], Any]]:
    return {name: _reader(hint) for name, hint in get_type_hints(kind).items()}


def _reader(hint: Any) -> Callable[[Any], Any]:
    if get_origin(hint) is types.UnionType:
        return _reader(get_args(hint)[0])
    if hint is datetime:
        return instant
    if is_dataclass(hint):
        return lambda content: build(hint, content)  # type: ignore[arg-type]
    if get_origin(hint) is list:
        item = _reader(get_args(hint)[0])
        return lambda items: [item(one) for one in items]
    return lambda value: value


def instant(text: str) -> datetime:
    """Reads RFC 3339. Python before 3.11 knows no Z."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
