"""The repeats of calls, by a clock of the test's."""

import pickle
import traceback

import httpx
import pytest

from belfry import (
    BelfryConnectionError,
    BelfryTimeoutError,
    InvalidError,
    PreconditionError,
    ProtocolError,
    QuotaError,
    UnavailableError,
    problem_error,
)
from belfry._core import Call, Core, Request, failure_of, judge
from belfry.errors import refusal


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def call_of(core, method="PUT", **options):
    return Call(core, Request(method, "/v1/tasks/t?label=secret", b"{}", options))


def problem(status, kind, **members):
    return problem_error({"type": f"urn:belfry:problem:{kind}", "status": status, **members})


BROKEN = BelfryConnectionError("broke", "unknown")
CLOSED = BelfryConnectionError("refused", "no")


def test_each_address_is_asked_at_once_and_then_a_pause_follows():
    core = Core(["http://a", "b:1/"], clock=Clock(), key="")
    call = call_of(core)
    urls, keys, pauses = [], set(), []
    for failure in (BROKEN, CLOSED, BROKEN):
        url, headers, _ = call.begin()
        urls.append(url.partition("/v1")[0])
        keys.add(headers["idempotency-key"])
        pauses.append(call.failed(failure))
    assert urls == ["http://a", "http://b:1", "http://a"]
    assert len(keys) == 1
    assert pauses[0] == 0 < pauses[1] <= 0.04 < 2 * pauses[2]
    assert core.address == "http://b:1"


def test_two_calls_leave_a_broken_address_once():
    core = Core("http://a,http://b,http://c", key="")
    first, second = call_of(core), call_of(core)
    first.begin()
    second.begin()
    first.failed(BROKEN)
    second.failed(BROKEN)
    assert core.address == "http://b"


def test_the_budget_bounds_the_repeats_of_all_calls():
    core = Core("http://a", retry_budget=2, key="")
    call = call_of(core)
    for _ in range(2):
        call.begin()
        call.failed(BROKEN)
    call.begin()
    with pytest.raises(BelfryConnectionError):
        call.failed(BROKEN)
    for _ in range(5):
        core.refund()
    other = call_of(core)
    other.begin()
    other.failed(BROKEN)


@pytest.mark.parametrize(
    ("failure", "committed"),
    [(CLOSED, "no"), (BROKEN, "unknown"), (problem(503, "not-committed"), "unknown")],
)
def test_a_timeout_tells_whether_the_call_may_have_happened(failure, committed):
    clock = Clock()
    call = call_of(Core("http://a", clock=clock, key=""), timeout=1)
    call.begin()
    call.failed(failure)
    clock.now += 0.9995
    _, _, limit = call.begin()
    assert limit == pytest.approx(0.001, abs=1e-3)
    with pytest.raises(BelfryTimeoutError) as caught:
        call.failed(failure)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.committed == committed
    assert caught.value.__cause__ is failure


def test_retry_after_counts_where_waiting_helps():
    core = Core("http://a,http://b", key="")
    limited = call_of(core)
    limited.begin()
    assert limited.failed(problem(429, "overloaded", retry_after=3)) == 3
    assert core.address == "http://a"
    used_up = call_of(core)
    used_up.begin()
    with pytest.raises(QuotaError):
        used_up.failed(problem(429, "quota-exceeded", quota="max_pending"))
    single = call_of(Core("http://a", key=""))
    single.begin()
    assert single.failed(problem(503, "not-ready", retry_after=2)) == 2


def test_a_get_has_no_key_and_a_stored_key_stays():
    assert "idempotency-key" not in call_of(Core(key=""), "GET").begin()[1]
    assert call_of(Core(key=""), idempotency_key="mine").begin()[1]["idempotency-key"] == "mine"


def test_settings_come_from_the_environment_and_the_key_file_is_read_anew(monkeypatch, tmp_path):
    file = tmp_path / "key"
    monkeypatch.setenv("BELFRY_ADDR", "http://a,http://b")
    monkeypatch.setenv("BELFRY_KEY_FILE", str(file))
    monkeypatch.setenv("BELFRY_NAMESPACE", "orders")
    core = Core()
    assert core.addresses == ["http://a", "http://b"]
    assert core.root == "/v1/namespaces/orders"
    for key in ("bfy_one", "bfy_two"):
        file.write_text(key + "\n")
        assert call_of(core).begin()[1]["authorization"] == f"Bearer {key}"


@pytest.mark.parametrize("addresses", ["http://user:bfy_secret@a", "http://bfy_secret@a", "ftp://a", "http://", []])
def test_wrong_addresses_are_refused_without_their_secrets(addresses):
    with pytest.raises(ValueError, match=r"^(?!.*bfy_secret)"):
        Core(addresses)


def test_a_key_with_a_line_break_is_refused_without_being_shown():
    with pytest.raises(ValueError, match=r"^(?!.*bfy_secret)"):
        call_of(Core(key="bfy_secret\n")).begin()


def test_errors_show_no_key():
    err = refusal(502, {}, b"authorization: Bearer bfy_secret", "PUT /v1/tasks/t")
    assert (err.status, err.type, err.committed) == (502, "", "unknown")
    assert "bfy_secret" not in "".join(traceback.format_exception(err)) + repr(err)
    sent = httpx.LocalProtocolError("Illegal header value b'Bearer bfy_secret\\n'")
    failure = failure_of(sent, "GET /")
    assert isinstance(failure, ProtocolError)
    assert "bfy_secret" not in str(failure)


def test_redirects_are_refused():
    judge(204, {}, b"", "GET /")
    with pytest.raises(ProtocolError):
        judge(307, {"location": "http://elsewhere"}, b"", "GET /")


def test_an_error_names_its_field_and_limit_and_can_be_pickled():
    err = problem(400, "invalid-field", field="priority", detail="is 9", limit="1 to 5")
    assert str(err) == "400 priority is 9 (limit 1 to 5)"
    copy = pickle.loads(pickle.dumps(err))
    assert (type(copy), str(copy), copy.field, copy.committed) == (InvalidError, str(err), "priority", "no")
    late = pickle.loads(pickle.dumps(BROKEN))
    assert (str(late), late.committed) == ("broke", "unknown")


def test_the_task_of_a_failed_precondition_is_there():
    task = {
        "id": "t",
        "queue": "q",
        "fire_at": "2099-01-01T00:00:00.000Z",
        "content_type": "application/json",
        "state": "scheduled",
        "attempts": 0,
        "next_attempt_at": None,
        "last_error": "",
        "revision": 7,
        "shard": 0,
        "created_at": "2026-01-01T00:00:00.000Z",
    }
    err = problem(412, "precondition-failed", task=task)
    assert isinstance(err, PreconditionError)
    assert (err.task.id, err.task.fire_at.year, err.schedule) == ("t", 2099, None)


def test_problems_without_a_body_or_of_a_later_service_are_errors():
    assert type(problem(400, "a-new-type")).__name__ == "ProblemError"
    broken = refusal(503, {"content-type": "application/problem+json", "retry-after": "2"}, b"[", "GET /")
    assert (broken.status, broken.retry_after, broken.committed) == (503, 2, "unknown")
    assert isinstance(problem(503, "not-ready"), UnavailableError)
