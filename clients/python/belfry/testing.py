"""Tests with a real node whose clock is set ahead."""

from __future__ import annotations

import atexit
import json
import os
import queue
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ._sync import Belfry
from .types import Duration, instant

if TYPE_CHECKING:
    from typing_extensions import Self

_START_TIME = 30.0  # seconds


@dataclass(slots=True, kw_only=True)
class Received:
    """One attempt as its receiver saw it."""

    task: str
    webhook_id: str
    """The same for all attempts of an occurrence."""
    attempt: int
    due: datetime
    headers: Mapping[str, str] = field(repr=False)
    """With names in lower case."""
    body: bytes
    payload: Any
    """None if the body is not JSON."""


Respond = Callable[[Received], int | None]
"""Returns the status that answers a delivery. None stands for 204."""


class BelfryDev:
    """A node of its own for tests: `belfry dev`. Any number run side by side. The program is BELFRY_BINARY, or `belfry`
    of the PATH. It is never downloaded."""

    def __init__(self, binary: str | None = None) -> None:
        binary = binary or os.environ.get("BELFRY_BINARY") or "belfry"
        try:
            self._process = subprocess.Popen(
                [binary, "dev", "--http", "127.0.0.1:0"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except FileNotFoundError:
            raise RuntimeError(f"{binary} was not found: name the program in BELFRY_BINARY") from None
        atexit.register(self._process.kill)
        self._receivers: list[TestReceiver] = []
        self._ready: queue.Queue[str | None] = queue.Queue()
        self._text: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        try:
            url = self._ready.get(timeout=_START_TIME)
        except queue.Empty:
            url = None
        if url is None:
            self._process.kill()
            self._end()
            raise RuntimeError(f"{binary} dev did not start:\n{''.join(self._text)}")
        self.url = url
        self.client = Belfry(url, key="", namespace="")

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._text.append(line)
                if found := re.match(r"ready: (http:\S+)", line):
                    self._ready.put(found[1])
        self._ready.put(None)

    def advance(self, by: Duration) -> int:
        """Sets the clock ahead. Tasks come due in order. Returns the number of attempts and leases that began."""
        answer = self.client.request("POST", "/v1/dev/advance", body={"by": by}, timeout=300)
        begun: int = answer["begun"]
        return begun

    def receiver(self, respond: Respond | None = None) -> TestReceiver:
        """Starts a receiver of webhooks on this machine."""
        receiver = TestReceiver(respond)
        self._receivers.append(receiver)
        return receiver

    def close(self) -> None:
        """Ends the node and the receivers."""
        for receiver in self._receivers:
            receiver.close()
        self.client.close()
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait()
        atexit.unregister(self._process.kill)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TestReceiver:
    """Records deliveries."""

    __test__ = False  # no test of pytest's

    def __init__(self, respond: Respond | None = None) -> None:
        self.all: list[Received] = []
        self._arrived: queue.Queue[Received] = queue.Queue()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_delivery(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                delivery = _received({name.lower(): value for name, value in self.headers.items()}, body)
                receiver.all.append(delivery)
                receiver._arrived.put(delivery)
                self.send_response((respond(delivery) if respond else None) or 204)
                self.send_header("content-length", "0")
                self.end_headers()

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET = handle_delivery

            def log_message(self, format: str, *args: Any) -> None:
                """The deliveries are recorded, and need no log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def next(self, timeout: float = 10.0) -> Received:
        """Returns the first delivery that no call of next has returned yet. Waits up to 10 seconds of real time."""
        try:
            return self._arrived.get(timeout=timeout)
        except queue.Empty:
            text = f"no further delivery came to {self.url}; {len(self.all)} came before"
            raise AssertionError(text) from None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _received(headers: Mapping[str, str], body: bytes) -> Received:
    try:
        payload = json.loads(body)
    except ValueError:
        payload = None
    return Received(
        task=unquote(headers.get("ce-subject", "")),
        webhook_id=headers.get("webhook-id", ""),
        attempt=int(headers["belfry-attempt"]),
        due=instant(headers["belfry-due"]),
        headers=headers,
        body=body,
        payload=payload,
    )
