"""The client for asyncio. tools/twin.py makes _sync.py of this file."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

import httpx

from ._batch import Chunk, chunks
from ._core import Call, Core, Options, Request, answer_of, failure_of, json_of, judge, split
from ._events import Following
from ._wire import encode, query_of, seconds, segment
from .errors import BelfryError
from .types import (
    BatchOp,
    BatchResult,
    CallOptions,
    DeadFilter,
    Duration,
    EventFilter,
    FiredOccurrence,
    Instant,
    LeasedTask,
    NewOperation,
    NewSchedule,
    Occurrences,
    Operation,
    OperationCount,
    Outcome,
    PatchOptions,
    Preview,
    Queue,
    QueueFilter,
    QueuePatch,
    QueuePolicy,
    Repeat,
    Schedule,
    ScheduledTask,
    ScheduleFilter,
    SchedulePatch,
    Settlement,
    SettleResult,
    Task,
    TaskEvent,
    TaskFilter,
    TaskHistory,
    TaskOptions,
    TouchOptions,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")
Read: TypeAlias = Callable[[httpx.Response], T]
List: TypeAlias = list  # the classes below have methods of this name


class AsyncBelfry:
    """A client of a Belfry cluster. One is meant for a whole process. Each changing call carries an idempotency key, so
    that its repeats at other addresses have no further effect."""

    def __init__(self, addresses: str | Sequence[str] | None = None, **options: Unpack[Options]) -> None:
        """The addresses are base URLs of nodes of one cluster. Absent, those of BELFRY_ADDR, between commas."""
        self._start(Core(addresses, **options))

    @classmethod
    def _of(cls, core: Core) -> Self:
        """Returns a client that shares the settings and the repeats of another one."""
        client = cls.__new__(cls)
        client._start(core)
        return client

    def _start(self, core: Core) -> None:
        self._core = core
        self._verify = core.ssl_context or httpx.create_ssl_context()
        self._idle: deque[httpx.AsyncClient] = deque()
        self.queues = AsyncQueues(self)
        self.schedules = AsyncSchedules(self)
        self.operations = AsyncOperations(self)

    async def aclose(self) -> None:
        """Closes the connections."""
        while self._idle:
            await self._idle.pop().aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @overload
    async def schedule(
        self, id: str | None = None, *, delay: Duration, **task: Unpack[TaskOptions]
    ) -> ScheduledTask: ...

    @overload
    async def schedule(
        self, id: str | None = None, *, fire_at: Instant, **task: Unpack[TaskOptions]
    ) -> ScheduledTask: ...

    async def schedule(self, id: str | None = None, **task: Any) -> ScheduledTask:
        """Stores a task, or atomically replaces the one with its id, in any state. The service makes an absent id.
        `if_none_match="*"` schedules once."""
        if id is None:
            return await self._ask(ScheduledTask, "POST", self._core.root + "/tasks", **_asked(task))
        return await self._ask(ScheduledTask, "PUT", self._task(id), **_asked(task))

    async def get(self, id: str, *, consistency: Literal["stale"] | None = None, **call: Unpack[CallOptions]) -> Task:
        """Reads a task or its tombstone. `stale` asks the nearest replica."""
        return await self._ask(Task, "GET", self._task(id) + query_of({"consistency": consistency}), options=call)

    def list(self, **choice: Unpack[TaskFilter]) -> AsyncIterator[Task]:
        """Yields all tasks that the filter selects. A task that is there throughout comes once."""
        return self._pages(Task, "tasks", choice)

    async def cancel(self, id: str, **call: Unpack[CallOptions]) -> Outcome:
        """Ends a task, and returns the final outcome."""
        outcome: Outcome = (await self._raw("DELETE", self._task(id), options=call))["outcome"]
        return outcome

    async def touch(self, id: str, **touch: Unpack[TouchOptions]) -> ScheduledTask:
        """Starts the delay of a task again from now."""
        return await self._ask(ScheduledTask, "POST", self._task(id) + "/touch", **_asked(touch))

    async def patch(self, id: str, **patch: Unpack[PatchOptions]) -> Task:
        """Changes a waiting task. None restores a default."""
        return await self._ask(Task, "PATCH", self._task(id), **_asked(patch))

    async def fire(self, id: str, **call: Unpack[CallOptions]) -> Task:
        """Makes a task due now. One that waits for its next attempt is attempted now."""
        return await self._ask(Task, "POST", self._task(id) + "/fire", {}, call)

    async def history(self, id: str, *, limit: int | None = None, **call: Unpack[CallOptions]) -> TaskHistory:
        """Returns the events of a task that are still kept, also of one that is gone."""
        path = self._task(id) + "/history" + query_of({"limit": limit})
        return await self._ask(TaskHistory, "GET", path, options=call)

    async def events(self, **choice: Unpack[EventFilter]) -> AsyncIterator[TaskEvent]:
        """Yields events as they happen. After a failure it resumes behind the last: none is lost or comes twice."""
        following = Following(self._core, choice)
        while True:
            name, url, headers = following.begin()
            try:
                async with (
                    self._connection() as http,
                    http.stream("GET", url, headers=headers, timeout=following.limit) as answer,
                ):
                    if answer.status_code != 200:
                        judge(answer.status_code, answer.headers, await answer.aread(), name)
                    async for part in answer.aiter_bytes():
                        for event in following.read(part):
                            yield event
                following.end()
                if following.ends:
                    return
            except httpx.HTTPError as err:
                following.failed(failure_of(err, name))
            except BelfryError as failure:
                following.failed(failure)
            await asyncio.sleep(following.next_pause())

    async def batch(self, ops: Iterable[BatchOp], **call: Unpack[CallOptions]) -> AsyncIterator[BatchResult]:
        """Makes many calls, and yields their results in order. Operations that find no leader for now are repeated."""
        for chunk in chunks(self._core, ops, call):
            await self._send_chunk(chunk)
            for result in chunk.results():
                yield result

    async def _send_chunk(self, chunk: Chunk) -> None:
        while (pause := chunk.next_pause()) is not None:
            await asyncio.sleep(pause)
            await self._send(chunk.request(), chunk.read)

    async def lease(
        self,
        queue: str,
        *,
        max: int | None = None,
        wait: Duration | None = None,
        lease: Duration | None = None,
        **call: Unpack[CallOptions],
    ) -> List[LeasedTask]:
        """Takes due tasks of a queue that is pulled. Returns once there is one, or none when the wait ends."""
        demand = _given(max=max, wait=wait, lease=lease)
        path = f"{self._queue(queue)}/lease"
        content = await self._raw("POST", path, demand, call, 0.0 if wait is None else seconds(wait))
        return [answer_of(LeasedTask, task) for task in content["tasks"]]

    async def settle(self, queue: str, **settlement: Unpack[Settlement]) -> List[SettleResult]:
        """Ends or extends leases by their receipts. Each result has its own status."""
        content = await self._raw("POST", f"{self._queue(queue)}/settle", **_asked(settlement))
        return [answer_of(SettleResult, result) for result in content["results"]]

    async def preview(self, repeat: Repeat, next: int | None = None, **call: Unpack[CallOptions]) -> Preview:
        """Returns the instants of a rule. Stores nothing."""
        return await self._ask(Preview, "POST", "/v1/preview", _given(repeat=repeat, next=next), call)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        **call: Unpack[CallOptions],
    ) -> Any:
        """Makes any other call of the contract, such as those of operators. Returns the JSON of the answer, and
        the bytes of an answer of another media type."""
        content = None if body is None else encode(body)
        return await self._send(Request(method, path + query_of(query or {}), content, call), _any)

    async def _pages(self, kind: type[T], name: str, choice: Mapping[str, Any]) -> AsyncIterator[T]:
        members, call = split(choice)
        while True:
            page = await self._raw("GET", f"{self._core.root}/{name}{query_of(members)}", options=call)
            for item in page[name]:
                yield answer_of(kind, item)
            if not (cursor := page.get("next_cursor")):
                return
            members["cursor"] = cursor

    async def _ask(
        self, kind: type[T], method: str, path: str, content: object = None, options: CallOptions | None = None
    ) -> T:
        return answer_of(kind, await self._raw(method, path, content, options))

    async def _raw(
        self,
        method: str,
        path: str,
        content: object = None,
        options: CallOptions | None = None,
        wait: float = 0.0,
    ) -> dict[str, Any]:
        body = None if content is None else encode(content)
        request = Request(method, path, body, options or {}, wait=wait)
        return await self._send(request, lambda answer: _object(answer, request.name))

    async def _send(self, request: Request, read: Read[T]) -> T:
        """Sends a request until it has a final answer, and reads the answer."""
        call = Call(self._core, request)
        while True:
            url, headers, limit = call.begin()
            try:
                async with self._connection() as http:
                    answer = await http.request(
                        request.method, url, content=request.body, headers=headers, timeout=limit
                    )
                judge(answer.status_code, answer.headers, answer.content, request.name)
                result = read(answer)
            except httpx.HTTPError as err:
                pause = call.failed(failure_of(err, request.name))
            except BelfryError as failure:
                pause = call.failed(failure)
            else:
                self._core.refund()
                return result
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[httpx.AsyncClient]:
        """Lends a client of httpx to one request. Each keeps a single connection, since httpx looks at all connections
        of a client at each request: with 64 callers of one client, a request takes twice the processor time."""
        try:
            http = self._idle.pop()
        except IndexError:
            http = httpx.AsyncClient(verify=self._verify)
        try:
            yield http
        finally:
            self._idle.append(http)

    def _task(self, id: str) -> str:
        return f"{self._core.root}/tasks/{segment(id, 'id')}"

    def _queue(self, queue: str) -> str:
        return f"{self._core.root}/queues/{segment(queue, 'queue')}"


class AsyncQueues:
    """The policies and dead letters of queues."""

    def __init__(self, belfry: AsyncBelfry) -> None:
        self._belfry = belfry

    async def put(self, queue: str, **policy: Unpack[QueuePolicy]) -> Queue:
        """Replaces the whole policy. An absent field is the default."""
        return await self._belfry._ask(Queue, "PUT", self._belfry._queue(queue), **_asked(policy))

    async def patch(self, queue: str, **patch: Unpack[QueuePatch]) -> Queue:
        return await self._belfry._ask(Queue, "PATCH", self._belfry._queue(queue), **_asked(patch))

    async def get(self, queue: str, **call: Unpack[CallOptions]) -> Queue:
        return await self._belfry._ask(Queue, "GET", self._belfry._queue(queue), options=call)

    def list(self, **choice: Unpack[QueueFilter]) -> AsyncIterator[Queue]:
        return self._belfry._pages(Queue, "queues", choice)

    async def delete(self, queue: str, **call: Unpack[CallOptions]) -> None:
        """Deletes the policy of a queue without tasks."""
        await self._belfry._raw("DELETE", self._belfry._queue(queue), options=call)

    async def pause(self, queue: str, **call: Unpack[CallOptions]) -> Queue:
        return await self._belfry._ask(Queue, "POST", self._belfry._queue(queue) + "/pause", options=call)

    async def resume(self, queue: str, **call: Unpack[CallOptions]) -> Queue:
        return await self._belfry._ask(Queue, "POST", self._belfry._queue(queue) + "/resume", options=call)

    async def replay_dead(self, queue: str, **choice: Unpack[DeadFilter]) -> int:
        """Schedules dead letters again, and returns their number."""
        return await self._dead("POST", queue, "/dead/replay", choice)

    async def drop_dead(self, queue: str, **choice: Unpack[DeadFilter]) -> int:
        """Removes dead letters, and returns their number."""
        return await self._dead("DELETE", queue, "/dead", choice)

    async def _dead(self, method: str, queue: str, rest: str, choice: DeadFilter) -> int:
        members, call = split(choice)
        path = self._belfry._queue(queue) + rest + query_of(members)
        count: int = (await self._belfry._raw(method, path, options=call))["count"]
        return count


class AsyncSchedules:
    """Schedules run a task again and again. The occurrences are tasks with the ids `id@1`, `id@2`, …"""

    def __init__(self, belfry: AsyncBelfry) -> None:
        self._belfry = belfry

    async def put(self, id: str, **schedule: Unpack[NewSchedule]) -> Schedule:
        """Replaces all settings. The numbers of the occurrences go on."""
        return await self._ask("PUT", id, "", **_asked(schedule))

    async def patch(self, id: str, **patch: Unpack[SchedulePatch]) -> Schedule:
        return await self._ask("PATCH", id, "", **_asked(patch))

    async def get(self, id: str, **call: Unpack[CallOptions]) -> Schedule:
        return await self._ask("GET", id, "", options=call)

    def list(self, **choice: Unpack[ScheduleFilter]) -> AsyncIterator[Schedule]:
        return self._belfry._pages(Schedule, "schedules", choice)

    async def delete(self, id: str, **call: Unpack[CallOptions]) -> None:
        await self._belfry._raw("DELETE", self._path(id), options=call)

    async def pause(self, id: str, note: str | None = None, **call: Unpack[CallOptions]) -> Schedule:
        return await self._ask("POST", id, "/pause", _given(note=note), call)

    async def resume(self, id: str, note: str | None = None, **call: Unpack[CallOptions]) -> Schedule:
        return await self._ask("POST", id, "/resume", _given(note=note), call)

    async def fire(self, id: str, **call: Unpack[CallOptions]) -> FiredOccurrence:
        """Runs an occurrence now, beside the rule."""
        return await self._belfry._ask(FiredOccurrence, "POST", self._path(id) + "/fire", {}, call)

    async def skip(self, id: str, **call: Unpack[CallOptions]) -> Schedule:
        """Passes over the next occurrence."""
        return await self._ask("POST", id, "/skip", {}, call)

    async def backfill(self, id: str, start: Instant, end: Instant, **call: Unpack[CallOptions]) -> Schedule:
        """Runs the rule's instants of the past."""
        return await self._ask("POST", id, "/backfill", {"from": start, "to": end}, call)

    async def occurrences(
        self, id: str, *, next: int | None = None, last: int | None = None, **call: Unpack[CallOptions]
    ) -> Occurrences:
        path = self._path(id) + "/occurrences" + query_of({"next": next, "last": last})
        return await self._belfry._ask(Occurrences, "GET", path, options=call)

    async def _ask(
        self, method: str, id: str, rest: str, content: object = None, options: CallOptions | None = None
    ) -> Schedule:
        return await self._belfry._ask(Schedule, method, self._path(id) + rest, content, options)

    def _path(self, id: str) -> str:
        return f"{self._belfry._core.root}/schedules/{segment(id, 'id')}"


class AsyncOperations:
    """Operations make one call on every task that passes a filter. The cluster carries them on by itself."""

    def __init__(self, belfry: AsyncBelfry) -> None:
        self._belfry = belfry

    async def begin(self, **operation: Unpack[NewOperation]) -> Operation:
        return await self._belfry._ask(Operation, "POST", self._all(), **_asked(operation))

    async def count(self, **operation: Unpack[NewOperation]) -> OperationCount:
        """Counts the tasks that the operation would match now."""
        content, call = split(operation)
        return await self._belfry._ask(OperationCount, "POST", self._all(), {**content, "dry_run": True}, call)

    async def get(self, id: str, **call: Unpack[CallOptions]) -> Operation:
        return await self._belfry._ask(Operation, "GET", f"/v1/operations/{segment(id, 'id')}", options=call)

    async def list(self, **call: Unpack[CallOptions]) -> List[Operation]:
        content = await self._belfry._raw("GET", "/v1/operations", options=call)
        return [answer_of(Operation, one) for one in content["operations"]]

    async def stop(self, id: str, **call: Unpack[CallOptions]) -> Operation:
        """Stops an operation where it is."""
        return await self._belfry._ask(Operation, "DELETE", f"/v1/operations/{segment(id, 'id')}", options=call)

    def _all(self) -> str:
        return self._belfry._core.root + "/operations"


def _given(**members: Any) -> dict[str, Any]:
    """Returns the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def _asked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content and the options of a call, as arguments."""
    content, options = split(arguments)
    return {"content": content, "options": options}


def _object(answer: httpx.Response, name: str) -> dict[str, Any]:
    """Returns the JSON of an answer, and as `created` whether its status was 201."""
    content = json_of(answer.content, name) if answer.content else {}
    return {**content, "created": answer.status_code == 201}


def _any(answer: httpx.Response) -> Any:
    """Returns the JSON of an answer, or the bytes of one of another media type. An empty answer is None."""
    if answer.headers.get("content-type", "").startswith("application/json"):
        return json_of(answer.content, "request")
    return answer.content or None
