"""The backend of Django's tasks, with the settings of README.md."""

import os
import signal
import sys
from datetime import timedelta

import pytest
from conftest import snippets
from django.core.management import CommandError, call_command
from django.tasks import task, task_backends
from django.tasks.signals import task_finished, task_started
from django.utils import timezone

from belfry.django_tasks import BelfryBackend, _priority

ran = []


@task(priority=50, takes_context=True)
def add(context, a, b):
    ran.append((a + b, context.attempt, context.task_result.id))
    return a + b


@task(queue_name="mails")
async def fail_once(order):
    ran.append(order)
    if len(ran) == 1:
        raise KeyError("secret")


@pytest.fixture
def work(belfry):
    """Returns a function that runs the command until a number of tasks were finished, and returns their results."""
    ran.clear()
    del task_backends["default"]  # the next one is of this node
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    results, started = [], []

    def work(count, **options):
        def finished(sender, task_result, **_):
            results.append(task_result)
            if len(results) == count:
                os.kill(os.getpid(), signal.SIGTERM)

        def begun(sender, task_result, **_):
            started.append(task_result.status)

        task_finished.connect(finished)
        task_started.connect(begun)
        try:
            call_command("belfry_worker", concurrency=2, **options)
        finally:
            task_finished.disconnect(finished)
            task_started.disconnect(begun)
        assert started == ["RUNNING"] * count
        return results

    yield work
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_task_is_run_by_the_command(work, belfry):
    enqueued = add.enqueue(1, b=2)
    assert (enqueued.status, belfry.get(enqueued.id).priority) == ("READY", 2)
    (result,) = work(1)
    assert ran == [(3, 1, enqueued.id)]
    assert (result.id, result.status, result.return_value) == (enqueued.id, "SUCCESSFUL", 3)
    assert belfry.get(enqueued.id).state == "delivered"


def test_a_failed_coroutine_is_attempted_again(work, belfry):
    belfry.queues.put("mails", retry={"delays": ["100ms"]})
    enqueued = fail_once.enqueue(1042)
    failed, successful = work(2, queue=["mails"])
    assert ran == [1042, 1042]
    assert [failed.status, successful.status] == ["FAILED", "SUCCESSFUL"]
    assert failed.errors[0].exception_class is KeyError
    assert (failed.attempts, successful.attempts) == (1, 2)
    assert belfry.get(enqueued.id).state == "delivered"


def test_a_task_of_the_readme_waits_for_its_time(work, belfry):
    module = type(sys)("readme_django_tasks")
    sys.modules[module.__name__] = module
    exec(snippets()["django_tasks"], module.__dict__)
    (waiting,) = belfry.list(queue="mails", state="scheduled")
    assert timedelta(days=1, hours=23) < waiting.fire_at - timezone.now() <= timedelta(days=2)
    belfry.fire(waiting.id)
    (result,) = work(1, queue=["mails"])
    del sys.modules[module.__name__]
    assert (result.id, result.status) == (waiting.id, "SUCCESSFUL")


def test_only_tasks_are_run(belfry):
    belfry.schedule("no-task", delay="0s", queue="other", payload={"task": "os.getcwd", "args": [], "kwargs": {}})
    (leased,) = belfry.lease("other", max=1, wait="10s")
    with pytest.raises(TypeError, match=r"os\.getcwd is not a task"):
        BelfryBackend("default", {}).run(leased, None)


def test_capabilities_are_those_of_the_readme():
    backend = task_backends["default"]
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_priority
    assert not backend.supports_get_result
    with pytest.raises(NotImplementedError):
        backend.get_result("x")
    assert [_priority(number) for number in (100, 75, 50, 0, -50, -100)] == [1, 1, 2, 3, 4, 5]
    assert isinstance(backend, BelfryBackend)


def test_the_command_needs_a_backend_of_belfrys_with_queues(monkeypatch):
    monkeypatch.setattr(task_backends["default"], "queues", set())
    with pytest.raises(CommandError, match="names no queues"):
        call_command("belfry_worker")
    monkeypatch.setitem(task_backends.settings, "other", {"BACKEND": "django.tasks.backends.dummy.DummyBackend"})
    with pytest.raises(CommandError, match="not Belfry"):
        call_command("belfry_worker", backend="other")
