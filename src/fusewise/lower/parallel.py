"""Several compiles side by side: compilers are processes, or run outside Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def side_by_side(function: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    """`function` of each item, in order, on as many threads as there are cores; the first error is raised."""
    threads = min(len(items), os.cpu_count() or 1)
    if threads < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))
