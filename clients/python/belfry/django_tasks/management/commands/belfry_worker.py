"""The command that runs the tasks of a backend."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.tasks import task_backends

from belfry.django_tasks import BelfryBackend
from belfry.worker import Worker


class Command(BaseCommand):
    help = "Runs the tasks that were enqueued with Belfry, until SIGTERM or SIGINT."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--backend", default="default", help="name of the backend in TASKS")
        parser.add_argument("--queue", action="append", help="a queue to work on; all of the backend unless given")
        parser.add_argument("--concurrency", type=int, default=16, help="threads of each queue")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, BelfryBackend):
            raise CommandError(f"the backend {options['backend']} is not Belfry's")
        queues = options["queue"] or sorted(backend.queues)
        if not queues:
            raise CommandError("the backend names no queues: give each one with --queue")
        workers = [Worker(backend.client, queue, backend.run, concurrency=options["concurrency"]) for queue in queues]

        def stop(*_: object) -> None:
            for worker in workers:
                worker.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        with ThreadPoolExecutor(len(workers)) as pool:
            for ended in as_completed([pool.submit(worker.run) for worker in workers]):
                stop()  # if one fails, all end
                ended.result()
