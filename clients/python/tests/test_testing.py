import sys

import pytest

from belfry.testing import BelfryDev


def test_a_missing_program_is_named():
    with pytest.raises(RuntimeError, match="BELFRY_BINARY"):
        BelfryDev("/no/such/belfry")


def test_a_program_that_ends_is_shown_with_its_words():
    with pytest.raises(RuntimeError, match="can't open file"):
        BelfryDev(sys.executable)


def test_a_failed_attempt_is_repeated_under_the_same_webhook_id(belfry_dev):
    answers = [500, 200]
    shop = belfry_dev.receiver(lambda delivery: answers.pop(0))
    belfry_dev.client.schedule("t", delay="48h", target={"url": shop.url}, payload=[1])
    assert belfry_dev.advance("47h59m") == 0
    assert belfry_dev.advance("1h") == 2
    first, second = shop.next(), shop.next()
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.webhook_id == second.webhook_id
    assert (first.task, first.payload, first.due) == ("t", [1], second.due)
    with pytest.raises(AssertionError, match="2 came before"):
        shop.next(timeout=0)
