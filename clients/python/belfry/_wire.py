"""The JSON of requests, queries and lines, and durations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from .errors import PREFIX, BelfryConnectionError, InvalidError
from .types import Duration, Problem, Seconds

# Members whose content is the caller's.
OPAQUE = frozenset({"payload", "append", "labels", "headers", "group_weights"})


def encode(content: object) -> bytes:
    """Returns the JSON of a request on one line."""
    return json.dumps(plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def plain(value: Any, field: str = "") -> Any:
    """Returns a value of a request with texts in place of datetimes and timedeltas."""
    if isinstance(value, Mapping):
        return {
            name: member if name in OPAQUE else plain(member, f"{field}.{name}" if field else name)
            for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(item, field) for item in value]
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise invalid(field, "has no time zone")
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    return value


def invalid(field: str, detail: str, limit: str | None = None) -> InvalidError:
    """Returns the error of an argument that never reached the service, in the service's form."""
    problem: Problem = {"type": PREFIX + "invalid-field", "status": 400, "field": field, "detail": detail}
    if limit is not None:
        problem["limit"] = limit
    return InvalidError(problem)


def segment(text: str, field: str) -> str:
    """Returns the path's part of an id. A URL would swallow an empty one and dots, and lead to another call."""
    try:
        if text not in ("", ".", ".."):
            return quote(text, safe="")
    except UnicodeEncodeError:
        pass  # half of a surrogate pair has no encoding
    raise invalid(field, f"is {text!a}", "[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}")


def query_of(members: Mapping[str, Any]) -> str:
    """Returns the query of a filter, with its question mark, or an empty text. Lists repeat their name. None is
    left out."""
    pairs = []
    for name, value in members.items():
        if value is None:
            continue
        if name == "label":
            value = [f"{label}:{text}" for label, text in value.items()]
        for one in value if isinstance(value, list | tuple) else (value,):
            text = str(one).lower() if isinstance(one, bool) else plain(one, name)
            pairs.append((name, text))
    return "?" + urlencode(pairs) if pairs else ""


_unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_part = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|[smhd])")


def seconds(value: Duration | Seconds) -> float:
    """Returns the seconds of a time in any form but ISO 8601's."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return value
    if not re.fullmatch(rf"(?:{_part.pattern})+", value):
        raise ValueError(f"{value!r} is not a duration such as 30s")
    return sum(float(amount) * _unit[unit] for amount, unit in _part.findall(value))


class Lines:
    """Splits the parts of a body into lines. A line may have any other kind of line break of Unicode in it."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, part: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + part).split(b"\n")
        return [line for line in lines if line]

    def end(self, call: str) -> None:
        """Fails if the body ends within a line."""
        if self._rest:
            raise BelfryConnectionError(f"{call}: the answer broke off within a line", "unknown")
