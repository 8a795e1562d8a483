"""Workers consume a queue that is pulled: they call a handler for each task as it comes due."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from ._async import AsyncBelfry
from ._core import lasting, log
from ._sync import Belfry
from ._wire import seconds
from .errors import BelfryError
from .types import Duration, LeasedTask, SettleResult

_MAX_RECEIPTS = 1_000
_MAX_SETTLES = 4  # requests at once


class RetryIn(Exception):
    """Raised by a handler: the attempt failed, and the next one comes after this delay in place of the backoff."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = delay


class Release(Exception):
    """Raised by a handler: the task goes back to its queue, and the attempt does not count."""


class StoppedError(Exception):
    """Handlers still ran when the grace of a stop was over."""


@dataclass(slots=True)
class TaskContext:
    """The surroundings of a handler."""

    attempt: int
    """1, 2, …"""
    fence: int
    """Rises with every grant of the task."""
    webhook_id: str
    """The same for all attempts of an occurrence."""
    lost: bool = False
    """Whether the lease is lost: another consumer may have the task, or it was scheduled anew."""
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)

    def wait(self, timeout: float) -> bool:
        """Waits in the handler of a Worker until its work is no longer wanted, and returns whether it is so: the lease
        is lost, or the grace of a stop is over. The handler of an AsyncWorker is cancelled instead."""
        return self._ended.wait(timeout)


Handler: TypeAlias = Callable[[LeasedTask, TaskContext], object]
"""Handles one task. A return acknowledges it; an exception fails the attempt. See also RetryIn and Release."""

AsyncHandler: TypeAlias = Callable[[LeasedTask, TaskContext], Awaitable[object]]

_Verb = Literal["ack", "nack", "extend", "release"]
_VERBS: tuple[_Verb, ...] = ("ack", "nack", "extend", "release")  # the order of the results


@dataclass(slots=True, eq=False)
class _Running:
    task: LeasedTask
    context: TaskContext
    ends: float
    """The end of the lease by this process's clock."""
    work: asyncio.Future[object]

    def cancel(self) -> None:
        self.context._ended.set()
        self.work.cancel()


@dataclass(slots=True)
class _Settling:
    verb: _Verb
    item: Any
    done: asyncio.Future[SettleResult]


class AsyncWorker:
    """Calls a coroutine function for each task. A handler is cancelled when its lease is lost."""

    def __init__(
        self,
        belfry: AsyncBelfry,
        queue: str,
        handler: AsyncHandler,
        *,
        concurrency: int = 64,
        lease: Duration = "10s",
        grace: Duration = "30s",
        wait: Duration = "20s",
    ) -> None:
        """Concurrency is the number of handlers at once. Leases have the length `lease`, and are extended while
        handlers run. After a stop the handlers may go on for the grace. One lease call waits for a task for `wait`."""
        if concurrency < 1:
            raise ValueError("concurrency is less than 1")
        self._belfry = belfry
        self._queue = queue
        self._handler = handler
        self._concurrency = concurrency
        self._lease = lease
        self._lease_time = seconds(lease)
        self._grace = seconds(grace)
        self._wait = wait
        self._stopping = False
        self._taking: asyncio.Task[None] | None = None
        self._running: set[_Running] = set()
        self._freed = asyncio.Event()
        self._settles: list[_Settling] = []
        self._sending: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Takes no more tasks. The run ends once the handlers have ended and their outcomes are settled."""
        self._stopping = True
        if self._taking is not None:
            self._taking.cancel()

    async def run(self) -> None:
        """Runs until a stop, or until it is cancelled, which stops it too. Waits out failures of nodes. Raises if the
        service refuses the queue or the options, and if handlers still run when the grace is over."""
        self._taking = asyncio.create_task(self._take())
        extending = asyncio.create_task(self._extend())
        try:
            await asyncio.wait({self._taking})
        finally:
            self._taking.cancel()
            try:
                await self._drain()
            finally:
                extending.cancel()
        if not self._taking.cancelled():
            self._taking.result()

    async def _take(self) -> None:
        pause = 0.02
        while not self._stopping:
            free = min(self._concurrency - len(self._running), _MAX_RECEIPTS)
            if free <= 0:
                self._freed.clear()
                await self._freed.wait()
                continue
            try:
                tasks = await self._belfry.lease(self._queue, max=free, wait=self._wait, lease=self._lease)
            except BelfryError as failure:
                if lasting(failure):
                    raise
                log.warning("leasing from %s failed: %s", self._queue, failure)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 5.0)
                continue
            pause = 0.02
            for task in tasks:
                self._begin(task)

    def _begin(self, task: LeasedTask) -> None:
        context = TaskContext(task.attempt, task.fence, task.webhook_id)
        work = asyncio.ensure_future(self._handler(task, context))
        running = _Running(task, context, asyncio.get_running_loop().time() + self._lease_time, work)
        self._running.add(running)
        work.add_done_callback(lambda _: self._ended(running))

    def _ended(self, running: _Running) -> None:
        """Settles the outcome of a handler. Its lease is extended until that is done."""
        receipt = running.task.receipt
        error = None if running.work.cancelled() else running.work.exception()
        if running not in self._running:
            return  # the run has given it up
        if running.work.cancelled() and running.context.lost:
            self._free(running)
            return
        if running.work.cancelled() or isinstance(error, Release):
            settling = self._settle("release", receipt)
        elif error is None:
            settling = self._settle("ack", receipt)
        else:
            nack: dict[str, Any] = {"receipt": receipt, "reason": _cut(str(error) or type(error).__name__)}
            if isinstance(error, RetryIn):
                nack["delay"] = error.delay
            settling = self._settle("nack", nack)
        settling.add_done_callback(lambda done: self._settled(running, done))

    def _settled(self, running: _Running, done: asyncio.Future[SettleResult]) -> None:
        self._free(running)
        if failure := done.exception():
            log.warning("the outcome of task %s was not settled: %s", running.task.id, failure)
        elif done.result().status != 200:
            log.warning("the lease of task %s had ended", running.task.id)

    def _free(self, running: _Running) -> None:
        self._running.discard(running)
        self._freed.set()

    async def _extend(self) -> None:
        """Extends the leases of which half is over. One that cannot be extended is lost when it ends by this clock."""
        while True:
            await asyncio.sleep(self._lease_time / 4)
            now = asyncio.get_running_loop().time()
            for running in list(self._running):
                if running.context.lost or running.ends - now > self._lease_time / 2:
                    continue
                if running.ends <= now:
                    self._lose(running)
                    continue
                item = {"receipt": running.task.receipt, "lease": self._lease}
                self._settle("extend", item).add_done_callback(partial(self._extended, running, now))

    def _extended(self, running: _Running, asked: float, done: asyncio.Future[SettleResult]) -> None:
        if failure := done.exception():
            log.warning("the lease of task %s was not extended: %s", running.task.id, failure)
        elif done.result().status == 200 and done.result().outcome is None:
            running.ends = asked + self._lease_time
        elif not running.work.done():
            self._lose(running)

    def _lose(self, running: _Running) -> None:
        running.context.lost = True
        running.cancel()

    def _settle(self, verb: _Verb, item: Any) -> asyncio.Future[SettleResult]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[SettleResult] = loop.create_future()
        self._settles.append(_Settling(verb, item, done))
        if len(self._settles) == 1:
            loop.call_soon(self._flush)
        return done

    def _flush(self) -> None:
        """Sends the outcomes that came during earlier requests."""
        while self._settles and len(self._sending) < _MAX_SETTLES:
            chunk, self._settles = self._settles[:_MAX_RECEIPTS], self._settles[_MAX_RECEIPTS:]
            sending = asyncio.create_task(self._send(chunk))
            self._sending.add(sending)
            sending.add_done_callback(self._sent)

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._sending.discard(sending)
        self._flush()

    async def _send(self, chunk: list[_Settling]) -> None:
        chunk.sort(key=lambda one: _VERBS.index(one.verb))
        settlement: dict[str, Any] = {}
        for one in chunk:
            settlement.setdefault(one.verb, []).append(one.item)
        try:
            results = await self._belfry.settle(self._queue, **settlement)
            for one, result in zip(chunk, results, strict=True):
                one.done.set_result(result)
        except Exception as failure:  # the futures hand it on
            for one in chunk:
                if not one.done.done():
                    one.done.set_exception(failure)

    async def _drain(self) -> None:
        if await self._idle(self._grace):
            return
        for running in list(self._running):
            running.cancel()
        if not await self._idle(1.0):
            left, self._running = self._running, set()
            raise StoppedError(f"{len(left)} handlers still run, and the grace is over")

    async def _idle(self, timeout: float) -> bool:
        """Waits until no handler runs, and returns whether it came to that."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while self._running:
            self._freed.clear()
            try:
                await asyncio.wait_for(self._freed.wait(), deadline - loop.time())
            except asyncio.TimeoutError:
                return False
        return True


class Worker:
    """Calls a function for each task, in threads. A long handler asks `context.wait` or `context.lost` now and then
    whether its work is still wanted, since Python cannot end a thread."""

    def __init__(
        self,
        belfry: Belfry,
        queue: str,
        handler: Handler,
        *,
        concurrency: int = 16,
        lease: Duration = "10s",
        grace: Duration = "30s",
        wait: Duration = "20s",
    ) -> None:
        """The settings are those of AsyncWorker. Concurrency is the number of threads."""
        self._belfry = belfry
        self._handler = handler
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix=f"belfry-{queue}")
        self._start = partial(
            AsyncWorker,
            queue=queue,
            handler=self._handle,
            concurrency=concurrency,
            lease=lease,
            grace=grace,
            wait=wait,
        )
        self._stopping = False
        self._inner: tuple[asyncio.AbstractEventLoop, AsyncWorker] | None = None

    def stop(self) -> None:
        """Takes no more tasks. The run ends once the handlers have ended and their outcomes are settled. Threads and
        handlers of signals may call it."""
        self._stopping = True
        if (inner := self._inner) is not None:
            loop, worker = inner
            with suppress(RuntimeError):  # the run has just ended
                loop.call_soon_threadsafe(worker.stop)

    def run(self) -> None:
        """Runs until a stop. Waits out failures of nodes. Raises if the service refuses the queue or the options, and
        if handlers still run when the grace is over."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        try:
            async with AsyncBelfry._of(self._belfry._core) as belfry:
                worker = self._start(belfry)
                self._inner = asyncio.get_running_loop(), worker
                if self._stopping:
                    worker.stop()
                await worker.run()
        finally:
            self._inner = None
            self._pool.shutdown(wait=False)

    async def _handle(self, task: LeasedTask, context: TaskContext) -> None:
        """Runs the handler in a thread, and outlives a cancel in the run, since the thread does too."""
        work = asyncio.get_running_loop().run_in_executor(self._pool, self._handler, task, context)
        while True:
            try:
                await asyncio.shield(work)
                return
            except asyncio.CancelledError:
                if work.done() or self._inner is None:
                    raise


def _cut(reason: str) -> str:
    """Returns the 512 bytes of a reason that the service keeps."""
    return reason.encode(errors="replace")[:512].decode(errors="ignore")
