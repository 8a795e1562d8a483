import time

import pytest
from conftest import SECRET

from belfry.receiver import MemoryFences, Receiver, VerificationError


def test_a_delivery_has_its_fields(signed):
    headers, body = signed({"order": 1}, ce_subject="a%20b", belfry_fence="9007199254740993")
    delivery = Receiver([SECRET]).verify({name.title(): value for name, value in headers.items()}, body)
    assert (delivery.task, delivery.webhook_id, delivery.attempt) == ("a b", "msg_1", 1)
    assert (delivery.fence, delivery.payload, delivery.due.year) == (9007199254740993, {"order": 1}, 2026)
    assert len(delivery.tasks) == 1
    assert "order" not in repr(delivery)


class Refusing:
    def admit(self, task, fence):
        return False


@pytest.mark.parametrize(
    ("changes", "options", "status"),
    [
        ({"belfry_fence": "x"}, {}, 400),
        ({"belfry_attempt": ""}, {}, 400),
        ({"ce_subject": "%ff"}, {}, 400),
        ({"ce_time": "soon"}, {}, 400),
        ({"webhook_signature": "v1,x"}, {}, 401),
        ({"webhook_timestamp": "1_0"}, {}, 400),
        ({}, {"now": lambda: time.time() + 400}, 401),
        ({}, {"fences": Refusing()}, 409),
        ({}, {"max_body": 1}, 413),
    ],
)
def test_refusals_have_a_status(signed, changes, options, status):
    with pytest.raises(VerificationError) as caught:
        Receiver([SECRET], **options).verify(*signed({}, **changes))
    assert caught.value.status == status


def test_a_body_that_is_not_json_is_refused_and_bytes_stay_bytes(signed):
    headers, body = signed("x")
    assert Receiver([SECRET]).verify({**headers, "content-type": "text/plain"}, body).payload == b'"x"'
    batch = {"content-type": "application/cloudevents-batch+json"}
    for payload in ([], {}, [1]):
        headers, body = signed(payload)
        with pytest.raises(VerificationError, match="not an array of events"):
            Receiver([SECRET]).verify({**headers, **batch}, body)


def test_a_batch_marks_its_stale_tasks(signed):
    def event(subject, fence):
        return {
            "id": "msg_" + subject,
            "subject": subject,
            "source": "/v1/queues/q",
            "time": "2026-01-02T03:04:05Z",
            "belfryattempt": 1,
            "belfryfence": fence,
            "data": {"snake_case": 1},
        }

    fences = MemoryFences()
    fences.admit("a", 6)
    headers, body = signed(
        [event("a", "5"), event("b", "9007199254740993")], content_type="application/cloudevents-batch+json"
    )
    first, second = Receiver([SECRET], fences=fences).verify(headers, body).tasks
    assert (first.task, first.stale, first.payload) == ("a", True, {"snake_case": 1})
    assert (second.task, second.stale, second.fence) == ("b", False, 9007199254740993)


def test_fences_forget_the_tasks_seen_longest_ago():
    fences = MemoryFences(2)
    assert [fences.admit("a", 2), fences.admit("a", 1), fences.admit("a", 2)] == [True, False, True]
    fences.admit("b", 1)
    fences.admit("c", 1)
    assert fences.admit("a", 1)


@pytest.mark.parametrize("secrets", [[], ["bfy_abc"], ["whsec_"], ["whsec_abcä"], ["whsec_abc"], "whsec_abc"])
def test_wrong_secrets_are_refused_and_not_shown(secrets):
    with pytest.raises(ValueError, match=r"^(?!.*abc)"):
        Receiver(secrets)
