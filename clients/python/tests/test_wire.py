import json
from datetime import datetime, timedelta, timezone

import pytest

from belfry import BelfryConnectionError, InvalidError
from belfry._core import answer_of
from belfry._wire import Lines, encode, query_of, seconds, segment
from belfry.errors import ProtocolError
from belfry.types import LeasedTask, Schedule, TaskEvent

BERLIN = timezone(timedelta(hours=1))


def test_times_become_texts_and_the_payload_stays():
    out = encode(
        {
            "fire_at": datetime(2026, 1, 2, 3, 4, 5, 678_000, BERLIN),
            "retry": {"delays": [timedelta(milliseconds=100), "5s"]},
            "payload": {"größe": [1, None], "fire_at": "x"},
        }
    )
    assert json.loads(out) == {
        "fire_at": "2026-01-02T03:04:05.678000+01:00",
        "retry": {"delays": ["100000us", "5s"]},
        "payload": {"größe": [1, None], "fire_at": "x"},
    }
    assert "größe".encode() in out
    assert b"\n" not in encode({"payload": "a\nb"})


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"fire_at": datetime(2026, 1, 2)}, "fire_at"),
        ({"repeat": {"start": datetime(2026, 1, 2)}}, "repeat.start"),
        ({"or_schedule": {"fire_at": datetime(2026, 1, 2)}}, "or_schedule.fire_at"),
    ],
)
def test_an_instant_without_a_time_zone_is_refused(content, field):
    with pytest.raises(InvalidError) as caught:
        encode(content)
    assert caught.value.field == field


@pytest.mark.parametrize("id", ["", ".", "..", "\ud800"])
def test_ids_that_a_url_would_swallow_never_leave(id):
    with pytest.raises(InvalidError) as caught:
        segment(id, "id")
    assert (caught.value.field, caught.value.committed) == ("id", "no")


def test_queries_repeat_lists_and_pair_labels():
    assert query_of({}) == query_of({"limit": None}) == ""
    members = {"due_after": datetime(1970, 1, 1, tzinfo=timezone.utc), "state": ["dead", "ready"]}
    assert query_of({**members, "label": {"a": "b"}, "follow": False}) == (
        "?due_after=1970-01-01T00%3A00%3A00%2B00%3A00&state=dead&state=ready&label=a%3Ab&follow=false"
    )


def test_durations():
    times = ["500ms", "1.5s", "1h30m", "7d", timedelta(seconds=2), 3, 0.5]
    assert [seconds(one) for one in times] == [0.5, 1.5, 5_400, 604_800, 2, 3, 0.5]
    for wrong in ("", "1", "s", "PT1S", "1s-"):
        with pytest.raises(ValueError, match="is not a duration"):
            seconds(wrong)


def test_lines_break_at_line_feeds_alone():
    lines = Lines()
    assert lines.feed('{"a":"\x85\u2028'.encode()) == []
    assert lines.feed(b'"}\n\n{}\n{') == ['{"a":"\x85\u2028"}'.encode(), b"{}"]
    with pytest.raises(BelfryConnectionError) as caught:
        lines.end("GET /")
    assert caught.value.committed == "unknown"


TASK = {
    "id": "t",
    "queue": "q",
    "fire_at": "2099-01-01T00:00:00.000Z",
    "payload": {"secret": 1},
    "content_type": "application/json",
    "state": "firing",
    "attempts": 1,
    "next_attempt_at": None,
    "last_error": "",
    "revision": 9007199254740993,
    "shard": 0,
    "created_at": "2026-01-01T00:00:00.000Z",
    "webhook_id": "w",
    "lease_ends_at": "2099-01-01T00:00:00.000Z",
    "receipt": "a-receipt",
    "attempt": 1,
    "fence": 18446744073709551615,
    "history": [{"attempt": 1, "fence": 1, "started_at": None, "ended_at": None, "node": "", "error": "x"}],
    "of_a_later_service": True,
}


def test_answers_become_objects():
    task = answer_of(LeasedTask, TASK)
    assert task.fire_at == datetime(2099, 1, 1, tzinfo=timezone.utc)
    assert (task.fence, task.revision, task.next_attempt_at) == (18446744073709551615, 9007199254740993, None)
    assert task.history[0].error == "x"
    assert "secret" not in repr(task)
    assert "a-receipt" not in repr(task)
    assert answer_of(TaskEvent, {"type": "gap"}).task == ""


def test_answers_without_their_members_are_refused():
    for kind, content in ((LeasedTask, {"id": "t"}), (Schedule, {}), (LeasedTask, {**TASK, "fire_at": 1})):
        with pytest.raises(ProtocolError) as caught:
            answer_of(kind, content)
        assert caught.value.committed == "unknown"
