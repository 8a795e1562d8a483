"""The fixture belfry_dev for pytest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import BelfryDev


@pytest.fixture
def belfry_dev() -> Iterator[BelfryDev]:
    """A node of its own, whose clock the test sets ahead."""
    from .testing import BelfryDev  # programs whose tests do not use it do not load it

    with BelfryDev() as dev:
        yield dev
