"""Workers on a node of their own."""

import asyncio
import logging
import threading

import pytest

from belfry import AsyncBelfry, NotFoundError, problem_error
from belfry.worker import AsyncWorker, Release, RetryIn, StoppedError, Worker


def test_outcomes_of_a_thread_are_settled(belfry):
    belfry.schedule(
        "thread", delay="0s", queue="threads", retry={"max_attempts": 5, "delays": ["100ms"]}, payload={"n": 1}
    )
    outcomes = [ValueError("broken"), RetryIn("100ms", "soon"), Release(), None]
    seen = []

    def handle(task, context):
        seen.append((task.payload["n"], context.attempt, context.webhook_id, threading.current_thread().name))
        if outcome := outcomes.pop(0):
            raise outcome
        worker.stop()

    worker = Worker(belfry, "threads", handle, concurrency=2)
    worker.run()
    assert [attempt for _, attempt, _, _ in seen] == [1, 2, 3, 3]
    assert len({webhook_id for _, _, webhook_id, _ in seen}) == 1
    assert all(name.startswith("belfry-threads") for *_, name in seen)
    task = belfry.get("thread")
    assert task.state == "delivered"
    assert [attempt.error for attempt in task.history] == ["broken", "soon", ""]


def test_a_worker_that_was_stopped_before_it_runs_takes_nothing(belfry):
    belfry.schedule("untouched", delay="0s", queue="stopped")
    worker = Worker(belfry, "stopped", lambda task, context: None)
    worker.stop()
    worker.run()
    assert belfry.get("untouched").attempts == 0


def test_a_thread_learns_of_its_lost_lease(belfry):
    belfry.schedule("lost", delay="0s", queue="losing")
    began = threading.Event()
    lost = []

    def handle(task, context):
        began.set()
        lost.append(context.wait(30) and context.lost)
        worker.stop()

    worker = Worker(belfry, "losing", handle, lease="400ms")
    running = threading.Thread(target=worker.run)
    running.start()
    assert began.wait(10)
    belfry.schedule("lost", delay="1h", queue="losing")
    running.join(20)
    assert lost == [True]
    assert belfry.get("lost").state == "scheduled"


def test_a_thread_that_outlives_the_grace_is_named_and_may_release(belfry):
    belfry.schedule("stubborn", delay="0s", queue="graceless")
    belfry.schedule("polite", delay="0s", queue="graceless")
    go_on = threading.Event()
    ended = threading.Event()
    both = threading.Barrier(2)

    def handle(task, context):
        both.wait(10)
        worker.stop()
        if task.id == "polite":
            assert context.wait(30)
            raise Release
        assert go_on.wait(30)
        ended.set()

    worker = Worker(belfry, "graceless", handle, grace="50ms")
    with pytest.raises(StoppedError, match="1 handlers"):
        worker.run()
    assert belfry.get("polite").attempts == 0
    go_on.set()
    assert ended.wait(10)


def test_a_coroutine_is_cancelled_when_the_grace_is_over(belfry, node):
    belfry.schedule("slow", delay="0s", queue="coroutines")
    seen = []

    async def run():
        async def handle(task, context):
            worker.stop()
            try:
                await asyncio.sleep(30)
            finally:
                seen.append(context.lost)

        async with AsyncBelfry(node.url, key="", namespace="") as client:
            worker = AsyncWorker(client, "coroutines", handle, grace="50ms")
            await worker.run()

    asyncio.run(run())
    assert seen == [False]
    task = belfry.get("slow")
    assert (task.state, task.attempts) == ("ready", 0)


def test_a_cancelled_run_settles_its_outcomes(belfry, node):
    belfry.schedule("cancelled-run", delay="0s", queue="cancelled")

    async def run():
        began, end = asyncio.Event(), asyncio.Event()

        async def handle(task, context):
            began.set()
            await end.wait()

        async with AsyncBelfry(node.url, key="", namespace="") as client:
            running = asyncio.create_task(AsyncWorker(client, "cancelled", handle).run())
            await began.wait()
            running.cancel()
            end.set()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(run())
    assert belfry.get("cancelled-run").state == "delivered"


def test_leases_of_long_handlers_are_extended(belfry, node):
    belfry.schedule("long", delay="0s", queue="longs")

    async def run():
        extended = asyncio.Event()

        class Client(AsyncBelfry):
            async def settle(self, queue, **settlement):
                results = await super().settle(queue, **settlement)
                if settlement.get("extend"):
                    assert [result.status for result in results] == [200]
                    extended.set()
                return results

        async def handle(task, context):
            await extended.wait()
            worker.stop()

        async with Client(node.url, key="", namespace="") as client:
            worker = AsyncWorker(client, "longs", handle, lease="1s")
            await worker.run()

    asyncio.run(run())
    task = belfry.get("long")
    assert (task.state, task.attempts) == ("delivered", 1)


class Failing:
    """A client whose leases fail."""

    def __init__(self, *failures):
        self.failures = list(failures)

    async def lease(self, queue, **demand):
        raise self.failures.pop(0)


def test_failures_of_nodes_are_waited_out_and_refusals_end_the_run(caplog):
    caplog.set_level(logging.WARNING, "belfry")
    refused = problem_error({"type": "urn:belfry:problem:queue-not-found", "status": 404})
    client = Failing(problem_error({"status": 503, "detail": "no leader"}), refused)
    with pytest.raises(NotFoundError):
        asyncio.run(AsyncWorker(client, "q", None).run())
    assert "no leader" in caplog.text


def test_a_worker_needs_a_handler_at_once():
    with pytest.raises(ValueError, match="concurrency"):
        AsyncWorker(Failing(), "q", None, concurrency=0)
