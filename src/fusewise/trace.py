"""What Fusewise compiled in this process: the last compiles, for `explain`, `show` and tests."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fusewise.pipeline import Compiled

_KEPT = 256

_lock = threading.Lock()
_compiled: deque[tuple[str, Compiled]] = deque(maxlen=_KEPT)
_counters: Counter[str] = Counter()


def record(compiled: Compiled) -> None:
    """Notes one compile."""
    from torch._guards import CompileContext

    number = CompileContext.current_compile_id()
    with _lock:
        _compiled.append((str(number or ""), compiled))
        _counters[f"compiled.{compiled.role}"] += 1


def count(name: str, amount: int = 1) -> None:
    """Adds to a counter, for example `fallback.codegen`."""
    with _lock:
        _counters[name] += amount


def counters() -> dict[str, int]:
    """Every counter since the last `clear`."""
    with _lock:
        return dict(_counters)


def compiled() -> list[Compiled]:
    """The compiles since the last `clear`, oldest first (the newest 256)."""
    return [made for _, made in compiled_by()]


def compiled_by() -> list[tuple[str, Compiled]]:
    """The same, each with the number that PyTorch gives the compile (`0/1`: the first function, its second compile)."""
    with _lock:
        return list(_compiled)


def last() -> Compiled | None:
    """The newest compile, or None."""
    with _lock:
        return _compiled[-1][1] if _compiled else None


def clear() -> None:
    """Forgets compiles and counters."""
    with _lock:
        _compiled.clear()
        _counters.clear()
