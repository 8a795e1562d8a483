"""A backend of Django's tasks (`django.tasks`, Django 6.0 and later). The command `belfry_worker` runs the tasks."""

from __future__ import annotations

from datetime import datetime
from traceback import format_exception
from typing import Any

from django.db import close_old_connections
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
from django.tasks.signals import task_enqueued, task_finished, task_started
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.json import normalize_json
from django.utils.module_loading import import_string

import belfry
from belfry import worker
from belfry.types import LeasedTask, TaskOptions


class BelfryBackend(BaseTaskBackend):
    """Tasks wait in queues of Belfry's, of the same names. The options are those of a client, and its `addresses`."""

    supports_defer = True
    supports_async_task = True
    supports_priority = True
    supports_get_result = False  # Belfry keeps no return values

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.client = belfry.Belfry(**self.options)
        self.worker_id = get_random_string(32)

    def enqueue(self, task: Task[..., Any], args: Any, kwargs: Any) -> Any:
        self.validate_task(task)
        result = self._result(
            task, get_random_string(32), TaskResultStatus.READY, list(args), kwargs, enqueued_at=timezone.now()
        )
        content: TaskOptions = {
            "queue": task.queue_name,
            "priority": _priority(task.priority),
            "payload": {"task": task.module_path, "args": result.args, "kwargs": result.kwargs},
        }
        if task.run_after is None:
            self.client.schedule(result.id, delay="0s", **content)
        else:
            after = task.run_after
            fire_at = after if timezone.is_aware(after) else timezone.make_aware(after)
            self.client.schedule(result.id, fire_at=fire_at, **content)
        task_enqueued.send(type(self), task_result=result)
        return result

    def run(self, leased: LeasedTask, context: worker.TaskContext) -> None:
        """Runs a task that was enqueued: the handler of a worker. An exception of the task fails its attempt."""
        content = leased.payload
        task = import_string(content["task"])
        if not isinstance(task, Task):
            raise TypeError(f"{content['task']} is not a task")
        began = timezone.now()
        result = self._result(
            task,
            leased.id,
            TaskResultStatus.RUNNING,
            content["args"],
            content["kwargs"],
            enqueued_at=leased.created_at,
            started_at=began,
            worker_ids=[""] * (context.attempt - 1) + [self.worker_id],
        )
        close_old_connections()
        task_started.send(type(self), task_result=result)
        try:
            first: tuple[Any, ...] = (TaskContext(task_result=result),) if task.takes_context else ()
            value = normalize_json(task.call(*first, *result.args, **result.kwargs))
        except Exception as err:
            self._finish(result, TaskResultStatus.FAILED, error=err)
            raise
        else:
            self._finish(result, TaskResultStatus.SUCCESSFUL, value=value)
        finally:
            close_old_connections()

    def _finish(
        self, result: TaskResult[..., Any], status: Any, *, value: Any = None, error: Exception | None = None
    ) -> None:
        if error is not None:
            kind = f"{type(error).__module__}.{type(error).__qualname__}"
            result.errors.append(TaskError(exception_class_path=kind, traceback="".join(format_exception(error))))
        for name, member in {"status": status, "finished_at": timezone.now(), "_return_value": value}.items():
            object.__setattr__(result, name, member)  # a frozen dataclass, as Django's own backends change it
        task_finished.send(type(self), task_result=result)

    def _result(
        self,
        task: Task[..., Any],
        id: str,
        status: Any,
        args: list[Any],
        kwargs: dict[str, Any],
        *,
        enqueued_at: datetime,
        started_at: datetime | None = None,
        worker_ids: list[str] | None = None,
    ) -> TaskResult[..., Any]:
        return TaskResult(
            task=task,
            id=id,
            status=status,
            enqueued_at=enqueued_at,
            started_at=started_at,
            last_attempted_at=started_at,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=worker_ids or [],
        )


def _priority(priority: int) -> int:
    """Returns Belfry's priority, 1 to 5 with 1 first, of Django's, -100 to 100 with 100 first."""
    return 3 - round(priority / 50)
