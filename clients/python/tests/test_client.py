"""The calls without asyncio, on a node. The conformance suite plays those with asyncio."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from belfry import InvalidError, NotFoundError, PreconditionError, ProblemError

LATER = datetime(2099, 1, 2, 3, 4, 5, 678_000, timezone(timedelta(hours=1)))


def test_a_task_is_scheduled_read_changed_and_cancelled(belfry):
    task = belfry.schedule("t", delay=timedelta(hours=48), payload={"größe": None}, labels={"a": "b"})
    assert (task.id, task.created, task.state) == ("t", True, "scheduled")
    assert belfry.get("t", consistency="stale").payload == {"größe": None}
    assert belfry.patch("t", fire_at=LATER, labels={"a": None}).fire_at == LATER
    assert not belfry.touch("t", delay="1h", payload=[1]).created
    assert belfry.touch("t", append=[2]).payload == [1, 2]
    with pytest.raises(PreconditionError) as caught:
        belfry.schedule("t", delay="1h", if_none_match="*")
    assert caught.value.task.id == "t"
    revision = belfry.get("t").revision
    assert belfry.schedule("t", delay="1h", if_match=revision).previous == "scheduled"
    with pytest.raises(PreconditionError):
        belfry.cancel("t", if_match=revision)
    assert belfry.cancel("t") == "cancelled"
    assert [event.type for event in belfry.history("t").events][-1] == "cancelled"
    with pytest.raises(ProblemError) as caught:
        belfry.fire("t")
    assert (caught.value.type, caught.value.state) == ("wrong-state", "cancelled")


def test_exactly_one_time_is_needed(belfry):
    for times in ({}, {"delay": "1h", "fire_at": LATER}):
        with pytest.raises(InvalidError):
            belfry.schedule("no", **times)
    with pytest.raises(InvalidError) as caught:
        belfry.schedule("no", delay="1h", colour="red")
    assert caught.value.field == "colour"


def test_an_id_derives_from_the_key(belfry):
    first = belfry.schedule(delay="1h", idempotency_key="mine")
    assert belfry.schedule(delay="1h", idempotency_key="mine").id == first.id


def test_a_batch_is_sent_in_chunks_and_a_list_has_all_pages(belfry):
    ops = [{"op": "schedule", "id": f"batch-{i}", "delay": "1h"} for i in range(1_001)]
    results = list(belfry.batch([*ops, {"op": "cancel", "id": "batch-none"}]))
    assert [result.status for result in results] == [201] * 1_001 + [404]
    assert results[-1].problem["type"] == "urn:belfry:problem:task-not-found"
    assert len({task.id for task in belfry.list(prefix="batch-", limit=300)}) == 1_001


def test_leases_are_settled(belfry):
    assert belfry.lease("leased", max=1, wait="10ms") == []
    belfry.schedule("leased", delay="0s", queue="leased")
    (task,) = belfry.lease("leased", max=1, wait=timedelta(seconds=10), lease="1m")
    assert (task.id, task.attempt) == ("leased", 1)
    assert [one.status for one in belfry.settle("leased", extend=[{"receipt": task.receipt, "lease": "2m"}])] == [200]
    assert [one.status for one in belfry.settle("leased", ack=[task.receipt])] == [200]
    assert belfry.get("leased").state == "delivered"


def test_queues(belfry):
    queue = belfry.queues.put("policy", max_in_flight=5, retry={"delays": ["1s", timedelta(seconds=5)]})
    assert (queue.max_in_flight, queue.retry) == (5, {"delays": ["1s", "5s"]})
    assert belfry.queues.patch("policy", max_in_flight=None).max_in_flight is None
    assert belfry.queues.pause("policy").paused
    assert not belfry.queues.resume("policy").paused
    assert belfry.queues.get("policy").counts.scheduled == 0
    assert [one.queue for one in belfry.queues.list(prefix="policy")] == ["policy"]
    assert belfry.queues.replay_dead("policy", prefix="x") == belfry.queues.drop_dead("policy") == 0
    belfry.queues.delete("policy")
    with pytest.raises(NotFoundError):
        belfry.queues.delete("policy")


def test_schedules(belfry):
    put = belfry.schedules.put("s", repeat={"every": "1h"}, task={"queue": "sq"})
    assert belfry.schedules.patch("s", note="x", if_match=put.revision).note == "x"
    assert belfry.schedules.pause("s", "holiday").note == "holiday"
    assert not belfry.schedules.resume("s").paused
    assert belfry.schedules.fire("s").id == "s@1"
    past = datetime.now(timezone.utc) - timedelta(hours=2)
    assert belfry.schedules.backfill("s", past, past + timedelta(hours=1)).id == "s"
    assert len(belfry.schedules.occurrences("s", next=2).next) == 2
    assert belfry.schedules.get("s").id == belfry.schedules.skip("s").id
    assert [one.id for one in belfry.schedules.list(queue="sq")] == ["s"]
    belfry.schedules.delete("s")


def test_operations(belfry):
    belfry.schedule("many-1", delay="1h")
    operation = belfry.operations.begin(op="cancel", filter={"prefix": "many-"})
    assert operation.id in {one.id for one in belfry.operations.list()}
    assert belfry.operations.get(operation.id).kind == "bulk"
    with pytest.raises(NotFoundError):
        belfry.operations.stop("none")


def test_other_calls(belfry):
    assert belfry.request("GET", "/v1/nodes")["nodes"][0]["alive"]
    assert belfry.request("GET", "/metrics").startswith(b"#")
    with pytest.raises(ProblemError) as caught:
        belfry.request("GET", "/v1/none")
    assert caught.value.type == "unknown-route"


def test_threads_share_a_client(belfry):
    with ThreadPoolExecutor(8) as pool:
        tasks = list(pool.map(lambda i: belfry.schedule(f"thread-{i}", delay="1h"), range(64)))
    assert {task.id for task in tasks} == {f"thread-{i}" for i in range(64)}
