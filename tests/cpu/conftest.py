"""What tests on a CPU share."""

from __future__ import annotations

import pytest

from fusewise.measure import timers


@pytest.fixture(autouse=True, scope="session")
def small_cache() -> None:
    """Timers clear a small cache before each run: a server's of 300 MiB takes a tenth of a second each time, and what
    the tests time is not judged by its time."""
    patch = pytest.MonkeyPatch()
    patch.setattr(timers, "last_level_cache_bytes", lambda: 1 << 20)
