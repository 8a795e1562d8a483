"""Calls that mypy judges. An ignored error that does not occur is an error itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from belfry import AsyncBelfry, Belfry, LeasedTask, ScheduledTask, Task
from belfry.types import BatchOp, BatchResult, TaskEvent

if TYPE_CHECKING:
    from typing_extensions import assert_type


def threads(belfry: Belfry, at: datetime) -> None:
    assert_type(belfry.schedule("t", delay=timedelta(hours=48), payload=[1]), ScheduledTask)
    assert_type(belfry.schedule(fire_at=at, labels={"a": "b"}, timeout=2), ScheduledTask)
    assert_type(belfry.list(state=["dead"]), Iterator[Task])
    assert_type(belfry.lease("q", max=1), list[LeasedTask])
    belfry.schedule("t")  # type: ignore[call-overload]
    belfry.schedule("t", delay="1h", fire_at=at)  # type: ignore[call-overload]
    belfry.schedule("t", delay=5)  # type: ignore[call-overload]
    belfry.schedule("t", delay="1h", colour="red")  # type: ignore[call-overload]
    belfry.schedule("t", delay="1h", target={"method": "POST"})  # type: ignore[call-overload]
    belfry.list(state="gone")  # type: ignore[arg-type]
    belfry.operations.begin(filter={"queue": "q"})  # type: ignore[call-arg]
    no_id: BatchOp = {"op": "cancel"}  # type: ignore[assignment]
    no_touch: BatchOp = {"op": "cancel", "id": "t", "delay": "1h"}  # type: ignore[assignment, misc]
    belfry.batch([no_id, no_touch])


async def coroutines(belfry: AsyncBelfry) -> None:
    assert_type(await belfry.schedule("t", delay="1h"), ScheduledTask)
    assert_type(belfry.events(type=["dead"]), AsyncIterator[TaskEvent])
    assert_type(belfry.batch([]), AsyncIterator[BatchResult])
    print(belfry.schedule("t", delay="1h").state)  # type: ignore[attr-defined]
