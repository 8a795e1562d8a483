"""Measures the client against loops of httpx alone, by turns. BELFRY_ADDR names a cluster; without it, the bench starts
`belfry dev`. ROUNDS and SECONDS set the number of turns and the length of each."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from belfry import AsyncBelfry, LeasedTask, problem_error
from belfry.testing import BelfryDev
from belfry.worker import AsyncWorker, TaskContext

ROUNDS = int(os.environ.get("ROUNDS", "15"))
SECONDS = float(os.environ.get("SECONDS", "1"))
CALLERS = 64
LIMITS = httpx.Limits(max_connections=CALLERS, max_keepalive_connections=CALLERS)


async def calls_of(call: Callable[[str], Awaitable[Any]]) -> float:
    """Makes a call again and again by all callers, and returns the calls in a second."""
    run = uuid.uuid4().hex
    began = time.perf_counter()

    async def caller(number: int) -> int:
        calls = 0
        while time.perf_counter() - began < SECONDS:
            await call(f"bench-{run}-{number}-{calls}")
            calls += 1
        return calls

    calls = sum(await asyncio.gather(*(caller(number) for number in range(CALLERS))))
    return calls / (time.perf_counter() - began)


async def tasks_of(belfry: AsyncBelfry, count: int, consume: Callable[[str, int], Awaitable[None]]) -> float:
    """Fills a queue with due tasks, and returns the tasks that consume handles in a second."""
    queue = f"bench-{uuid.uuid4().hex}"
    await belfry.queues.put(queue, paused=True, keep_done="1s")
    ops: Any = (
        {"op": "schedule", "id": f"{queue}-{i}", "delay": "0s", "queue": queue, "payload": {"i": i}}
        for i in range(count)
    )
    async for result in belfry.batch(ops):
        if result.problem is not None:
            raise problem_error(result.problem)
    await belfry.queues.resume(queue)
    began = time.perf_counter()
    await consume(queue, count)
    return count / (time.perf_counter() - began)


async def compare(name: str, client: Callable[[], Awaitable[float]], bare: Callable[[], Awaitable[float]]) -> None:
    """Prints the medians of both, and of the ratios of their turns."""
    await client()
    await bare()  # the first turn warms up
    turns = [(await client(), await bare()) for _ in range(ROUNDS)]
    ours, theirs = (round(statistics.median(one)) for one in zip(*turns, strict=True))
    ratio = statistics.median(one / other for one, other in turns)
    print(f"{name}: client {ours}/s, bare {theirs}/s, ratio {ratio:.2f}")


async def main(base: str) -> None:
    async with AsyncBelfry(base, key="", namespace="") as belfry, httpx.AsyncClient(limits=LIMITS) as http:

        async def by_client(id: str) -> Any:
            return await belfry.schedule(id, delay="48h", payload={"order": 1042})

        async def send(method: str, path: str, content: Any) -> Any:
            answer = await http.request(method, base + path, json=content)
            return answer.raise_for_status().json()

        async def by_httpx(id: str) -> Any:
            return await send("PUT", f"/v1/tasks/{id}", {"delay": "48h", "payload": {"order": 1042}})

        async def work_by_client(queue: str, left: int) -> None:
            async def handle(task: LeasedTask, context: TaskContext) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    worker.stop()

            worker = AsyncWorker(belfry, queue, handle, concurrency=CALLERS)
            await worker.run()

        async def work_by_httpx(queue: str, left: int) -> None:
            """Leases up to 64 tasks, and acknowledges them while the next ones are leased."""
            settling: asyncio.Task[Any] | None = None
            while left > 0:
                demand = {"max": CALLERS, "wait": "1s", "lease": "10s"}
                tasks = (await send("POST", f"/v1/queues/{queue}/lease", demand))["tasks"]
                left -= len(tasks)
                if settling is not None:
                    await settling
                    settling = None
                if tasks:
                    ack = {"ack": [task["receipt"] for task in tasks]}
                    settling = asyncio.create_task(send("POST", f"/v1/queues/{queue}/settle", ack))
            if settling is not None:
                await settling

        await compare("schedule, 64 callers", lambda: calls_of(by_client), lambda: calls_of(by_httpx))
        count = int(SECONDS * 5_000)
        await compare(
            "worker, concurrency 64",
            lambda: tasks_of(belfry, count, work_by_client),
            lambda: tasks_of(belfry, count, work_by_httpx),
        )


if address := os.environ.get("BELFRY_ADDR"):
    asyncio.run(main(address.split(",")[0]))
else:
    with BelfryDev() as dev:
        asyncio.run(main(dev.url))
