"""Celery's tasks as payloads: Belfry keeps the time, and pushes a due task onto the list of Redis that Celery's workers
read."""

from __future__ import annotations

import base64
from typing import Any

from celery import Signature
from kombu.serialization import dumps


def message(task: Signature, task_id: str) -> dict[str, Any]:
    """Returns the payload that runs a task such as `close.s(1042)` once it stands in the list of a queue of Celery. The
    target of that is `redis://host/0?list=celery&push=left`: a queue's list has its name. The options of the signature
    hold, such as `expires` as a datetime. Its countdown and eta do not: they are Belfry's `delay` and `fire_at`."""
    app = task.app
    options = {name: value for name, value in task.options.items() if name not in ("countdown", "eta", "task_id")}
    sent = app.amqp.create_task_message(task_id, task.task, task.args, task.kwargs, **options)
    content_type, encoding, body = dumps(sent.body, app.conf.task_serializer)  # type: ignore[no-untyped-call]
    return {
        "body": base64.b64encode(body if isinstance(body, bytes) else body.encode()).decode(),
        "content-type": content_type,
        "content-encoding": encoding,
        "headers": sent.headers,
        "properties": {
            **sent.properties,
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": "celery"},
            "delivery_mode": 2,
            "delivery_tag": task_id,
            "priority": 0,
        },
    }
