"""The place in a stream of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._core import Core, Request, answer_of, json_of, lasting, log
from ._wire import Lines, query_of
from .errors import BelfryError, problem_error
from .types import EventFilter, TaskEvent

HEARTBEAT = 15.0  # seconds between two heartbeats of the service


class Following:
    """Follows events over broken streams. Each new stream begins behind the last event."""

    def __init__(self, core: Core, choice: EventFilter) -> None:
        self._core = core
        self._members: dict[str, Any] = dict(choice)
        self._pause = 0.2
        self.ends = choice.get("follow") is False
        self.limit = core.attempt_timeout + HEARTBEAT
        """Seconds of silence after which a stream is given up."""

    def begin(self) -> tuple[str, str, dict[str, str]]:
        """Begins a stream, and returns its name, URL and headers."""
        self._lines = Lines()
        self._address = self._core.address
        request = Request("GET", self._core.root + "/events" + query_of(self._members), None, {})
        headers = {**self._core.headers(request), "accept": "application/x-ndjson"}
        self._name = request.name
        return request.name, self._address + request.path, headers

    def read(self, part: bytes) -> Iterator[TaskEvent]:
        """Yields the events that end in a part of the stream."""
        for line in self._lines.feed(part):
            content = json_of(line, self._name)
            if "problem" in content:
                raise problem_error(content["problem"], self._name)
            if "heartbeat" in content:
                continue
            event = answer_of(TaskEvent, content)
            if event.id is not None:
                self._members["after"] = event.id
                self._members.pop("since", None)
                self._pause = 0.2
            yield event

    def end(self) -> None:
        self._lines.end(self._name)

    def failed(self, failure: BelfryError) -> None:
        """Raises a failure that would come again."""
        if lasting(failure):
            raise failure
        self._core.move_on(self._address)
        log.debug("resuming events: %s", failure)

    def next_pause(self) -> float:
        """Returns the pause before the next stream. It grows while no event comes."""
        pause, self._pause = self._pause, min(2 * self._pause, 5.0)
        return pause
