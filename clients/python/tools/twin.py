"""Writes belfry/_sync.py, the client without asyncio, from belfry/_async.py. A test compares both."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "belfry"

WORDS = {
    r'"""The client for asyncio\. .*?"""': '"""The client. tools/twin.py made this file of _async.py."""',
    r"\b(async|await) ": "",
    r"\bAsync([A-Z])": r"\1",
    r"\basyncio\b": "time",
    r"\ba(close|read|iter_bytes)\b": r"\1",
    r"\basynccontextmanager\b": "contextmanager",
    r"\b__a(enter|exit)__": r"__\1__",
}


def twin() -> str:
    text = (PACKAGE / "_async.py").read_text()
    for pattern, word in WORDS.items():
        text = re.sub(pattern, word, text)
    for command in (["check", "--quiet", "--select", "I,UP028", "--fix", "--unsafe-fixes"], ["format", "--quiet"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", PACKAGE / "_sync.py", "-"],
            input=text,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    return text


if __name__ == "__main__":
    (PACKAGE / "_sync.py").write_text(twin())
