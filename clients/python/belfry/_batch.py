"""The parts of a batch."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import httpx

from ._core import Core, Request, answer_of, json_of
from ._wire import encode, seconds
from .errors import BelfryConnectionError, BelfryTimeoutError, problem_error
from .types import BatchOp, BatchResult, CallOptions

_MAX_LINES = 1_000
_MAX_BYTES = 4 << 20


class Chunk:
    """Lines of a batch that are sent together, and those again that find no leader for now."""

    def __init__(self, core: Core, lines: list[bytes], options: CallOptions) -> None:
        self._core = core
        self._lines = lines
        self._options = options
        self._results: list[BatchResult | None] = [None] * len(lines)
        self._open: list[int] = []
        self._deadline = core.clock() + seconds(options.get("timeout", core.timeout))
        self._pause = 0.0

    def next_pause(self) -> float | None:
        """Returns the pause before the next request, or None if there is none."""
        self._open = [i for i, result in enumerate(self._results) if _passing(result)]
        pause, self._pause = self._pause, min(max(2 * self._pause, 0.02), 1.0)
        if not self._open or (pause > 0 and self._core.clock() + pause >= self._deadline):
            return None
        return pause

    def request(self) -> Request:
        body = b"".join(self._lines[i] + b"\n" for i in self._open)
        return Request("POST", self._core.root + "/batch", body, self._options, "application/x-ndjson")

    def read(self, answer: httpx.Response) -> None:
        """Takes the results of the last request."""
        name = "POST " + self._core.root + "/batch"
        lines = [json_of(line, name) for line in answer.content.split(b"\n") if line]
        for line in lines:
            if "id" not in line:
                raise problem_error(line.get("problem", {"status": line["status"]}), name)
        if len(lines) < len(self._open):
            raise BelfryConnectionError(f"{name}: the answer broke off", "unknown")
        for i, line in zip(self._open, lines, strict=False):
            self._results[i] = answer_of(BatchResult, line)

    def results(self) -> Iterator[BatchResult]:
        for result in self._results:
            if result is None:
                raise BelfryTimeoutError("batch: no answer in time", "unknown")
            yield result


def chunks(core: Core, ops: Iterable[BatchOp], options: CallOptions) -> Iterator[Chunk]:
    """Yields the operations in chunks. Each operation has an idempotency key."""
    lines: list[bytes] = []
    size = 0
    for op in ops:
        line = encode({**op, "key": op.get("key") or str(uuid.uuid4())})
        if len(lines) == _MAX_LINES or (lines and size + len(line) > _MAX_BYTES):
            yield Chunk(core, lines, options)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield Chunk(core, lines, options)


def _passing(result: BatchResult | None) -> bool:
    """Reports whether an operation is sent again."""
    if result is None or result.status in (502, 503, 504):
        return True
    if result.status != 429:
        return False
    problem = result.problem or {"status": 429}
    return "retry_after" in problem or not problem.get("type", "").endswith("quota-exceeded")
