"""The driver of the conformance suite: see ../conformance/README.md. One JSON object a line on standard input is a
call, and one a line on standard output its answer."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any

from belfry import AsyncBelfry, BelfryConnectionError, BelfryError, BelfryTimeoutError, ProblemError, ProtocolError
from belfry._wire import seconds
from belfry.receiver import Receiver, VerificationError
from belfry.types import LeasedTask
from belfry.worker import AsyncWorker, Release, RetryIn, TaskContext

clients: dict[str, AsyncBelfry] = {}
receivers: dict[str, Receiver] = {}

# A call of the suite. c is the client, w the step's `with`, b its body, q its query, and o the options of the call.
Own = Callable[[Any, dict[str, Any], Any, Any, Any], Awaitable[Any]]


async def collect(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def member(name: str, call: Own) -> Own:
    """Returns a call whose result is the only member of an object."""

    async def wrapped(*args: Any) -> Any:
        return {name: await call(*args)}

    return wrapped


async def count_or_begin(c: AsyncBelfry, w: Any, b: Any, q: Any, o: Any) -> Any:
    if b.pop("dry_run", False):
        return await c.operations.count(**b, **o)
    return await c.operations.begin(**b, **o)


async def stream_events(c: AsyncBelfry, w: Any, b: Any, q: Any, o: Any) -> Any:
    events: list[Any] = []
    async for event in c.events(**q):
        if event.type != "gap":
            events.append(event)
            if len(events) == w["count"]:
                break
    return {"events": events}


async def consume(c: AsyncBelfry, w: Any, b: Any, q: Any, o: Any) -> Any:
    """Handles the tasks of a queue by a list of outcomes, the last of which repeats."""
    outcomes = w.get("outcomes", ["ack"])
    handled: list[Any] = []
    begun = 0

    async def handle(task: LeasedTask, context: TaskContext) -> None:
        nonlocal begun
        outcome = outcomes[min(begun, len(outcomes) - 1)]
        begun += 1
        known = {"id": task.id, "payload": task.payload, "attempt": context.attempt, "fence": context.fence}
        rest = outcome if isinstance(outcome, dict) else {}
        with suppress(asyncio.CancelledError):  # the result shows that the lease was lost
            await asyncio.sleep(seconds(rest.get("hold", "0s")))
        handled.append({**known, "webhook_id": context.webhook_id, "lost": context.lost})
        if len(handled) == w.get("count") or len({one["webhook_id"] for one in handled}) == w.get("distinct"):
            worker.stop()
        if outcome == "release":
            raise Release
        if "retry_in" in rest:
            raise RetryIn(rest["retry_in"], rest["reason"])
        if "fail" in rest:
            raise RuntimeError(rest["fail"])

    lease = {"lease": w["lease"]} if "lease" in w else {}
    worker = AsyncWorker(c, w["queue"], handle, concurrency=w.get("concurrency", 8), wait="5s", **lease)
    await worker.run()
    return {"handled": handled, "webhook_ids": len({one["webhook_id"] for one in handled})}


# The calls that have a method of their own.
calls: dict[str, Own] = {
    "putTask": lambda c, w, b, q, o: c.schedule(w["id"], **b, **o),
    "postTask": lambda c, w, b, q, o: c.schedule(**b, **o),
    "getTask": lambda c, w, b, q, o: c.get(w["id"], **q, **o),
    "patchTask": lambda c, w, b, q, o: c.patch(w["id"], **b, **o),
    "cancelTask": member("outcome", lambda c, w, b, q, o: c.cancel(w["id"], **o)),
    "touchTask": lambda c, w, b, q, o: c.touch(w["id"], **b, **o),
    "fireTask": lambda c, w, b, q, o: c.fire(w["id"], **o),
    "getTaskHistory": lambda c, w, b, q, o: c.history(w["id"], **q, **o),
    "listTasks": member("tasks", lambda c, w, b, q, o: collect(c.list(**q, **o))),
    "batch": member("results", lambda c, w, b, q, o: collect(c.batch(w["lines"], **o))),
    "lease": member("tasks", lambda c, w, b, q, o: c.lease(w["queue"], **b, **o)),
    "settle": member("results", lambda c, w, b, q, o: c.settle(w["queue"], **b, **o)),
    "preview": lambda c, w, b, q, o: c.preview(b["repeat"], b["next"], **o),
    "putQueue": lambda c, w, b, q, o: c.queues.put(w["queue"], **b, **o),
    "patchQueue": lambda c, w, b, q, o: c.queues.patch(w["queue"], **b, **o),
    "getQueue": lambda c, w, b, q, o: c.queues.get(w["queue"], **o),
    "listQueues": member("queues", lambda c, w, b, q, o: collect(c.queues.list(**q, **o))),
    "deleteQueue": lambda c, w, b, q, o: c.queues.delete(w["queue"], **o),
    "pauseQueue": lambda c, w, b, q, o: c.queues.pause(w["queue"], **o),
    "resumeQueue": lambda c, w, b, q, o: c.queues.resume(w["queue"], **o),
    "replayDead": member("count", lambda c, w, b, q, o: c.queues.replay_dead(w["queue"], **q, **o)),
    "dropDead": member("count", lambda c, w, b, q, o: c.queues.drop_dead(w["queue"], **q, **o)),
    "putSchedule": lambda c, w, b, q, o: c.schedules.put(w["id"], **b, **o),
    "patchSchedule": lambda c, w, b, q, o: c.schedules.patch(w["id"], **b, **o),
    "getSchedule": lambda c, w, b, q, o: c.schedules.get(w["id"], **o),
    "listSchedules": member("schedules", lambda c, w, b, q, o: collect(c.schedules.list(**q, **o))),
    "deleteSchedule": lambda c, w, b, q, o: c.schedules.delete(w["id"], **o),
    "pauseSchedule": lambda c, w, b, q, o: c.schedules.pause(w["id"], **b, **o),
    "resumeSchedule": lambda c, w, b, q, o: c.schedules.resume(w["id"], **b, **o),
    "fireSchedule": lambda c, w, b, q, o: c.schedules.fire(w["id"], **o),
    "skipOccurrence": lambda c, w, b, q, o: c.schedules.skip(w["id"], **o),
    "backfillSchedule": lambda c, w, b, q, o: c.schedules.backfill(w["id"], b["from"], b["to"], **o),
    "listOccurrences": lambda c, w, b, q, o: c.schedules.occurrences(w["id"], **q, **o),
    "beginBulkOperation": count_or_begin,
    "getOperation": lambda c, w, b, q, o: c.operations.get(w["id"], **o),
    "listOperations": member("operations", lambda c, w, b, q, o: c.operations.list(**o)),
    "stopOperation": lambda c, w, b, q, o: c.operations.stop(w["id"], **o),
    "streamEvents": stream_events,
    "consume": consume,
}


def open_client(name: str, w: dict[str, Any]) -> None:
    times = {"timeout": "20s", "attempt_timeout": "5s", **w}
    options: dict[str, Any] = {name: seconds(times[name]) for name in ("timeout", "attempt_timeout")}
    options.update({name: w[name] for name in ("max_attempts", "retry_budget") if name in w})
    clients[name] = AsyncBelfry(
        w["addresses"],
        key=w.get("key", ""),
        namespace=w.get("namespace", ""),
        traceparent=lambda: w.get("traceparent"),
        **options,
    )


def open_receiver(name: str, w: dict[str, Any]) -> None:
    options: dict[str, Any] = {"now": lambda: float(w["now"])} if "now" in w else {}
    receivers[name] = Receiver(w["secrets"], **options)


def options_of(w: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {name: w[name] for name in ("if_match", "if_none_match") if name in w}
    if "key" in w:
        options["idempotency_key"] = w["key"]
    if "timeout" in w:
        options["timeout"] = seconds(w["timeout"])
    return options


async def perform(request: dict[str, Any]) -> Any:
    call, name, w = request["call"], request["client"], request.get("with") or {}
    if call == "open":
        open_client(name, w)
        return None
    if call == "receiver":
        open_receiver(name, w)
        return None
    if call == "verify":
        return receivers[name].verify(w["headers"], w["body"].encode())
    client, options = clients[name], options_of(w)
    if call in calls:
        pending = calls[call](client, w, w.get("body") or {}, w.get("query") or {}, options)
    else:
        pending = client.request(
            request["method"], request["path"], query=w.get("query"), body=w.get("body"), **options
        )
    cancel_after = seconds(w["cancel_after"]) if "cancel_after" in w else None
    task = asyncio.ensure_future(pending)
    if cancel_after is not None:
        asyncio.get_running_loop().call_later(cancel_after, task.cancel)
    result = await task
    if call == "backup":
        return {"bytes": len(result) > 0}
    if call == "readAudit":
        return {"records": len(result) > 0}
    return result


MEMBERS = ("type", "status", "title", "detail", "field", "limit", "quota", "used", "committed", "retry_after")
LATER_MEMBERS = ("state", "attempts", "task", "schedule", "count")


def error_of(err: BaseException) -> dict[str, Any]:
    if isinstance(err, VerificationError):
        return {"type": err.reason}
    if isinstance(err, ProblemError):
        return {**{name: getattr(err, name) for name in MEMBERS + LATER_MEMBERS}, "text": str(err)}
    kinds = {
        BelfryTimeoutError: "timeout",
        BelfryConnectionError: "connection",
        ProtocolError: "protocol",
        asyncio.CancelledError: "cancelled",
    }
    kind = next((name for one, name in kinds.items() if isinstance(err, one)), "other")
    return {"type": kind, "committed": err.committed if isinstance(err, BelfryError) else None, "text": str(err)}


def shown(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value.decode() if isinstance(value, bytes) else str(value)


async def answer(request: dict[str, Any]) -> None:
    out: dict[str, Any] = {"id": request["id"]}
    try:
        out["result"] = await perform(request)
    except (Exception, asyncio.CancelledError) as err:
        out["error"] = error_of(err)
    sys.stdout.write(json.dumps(out, default=shown) + "\n")
    sys.stdout.flush()


async def main() -> None:
    lines = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    pending = set()
    while line := await lines.readline():
        task = asyncio.create_task(answer(json.loads(line)))
        pending.add(task)
        task.add_done_callback(pending.discard)


asyncio.run(main())
