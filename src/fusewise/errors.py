"""Every failure that Fusewise can report, one class each.

The first line of a message stands alone; what follows says what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class FusewiseError(Exception):
    """Base of every error that Fusewise raises on purpose.

    Args:
        problem: one line that stands alone.
        remedy: what the reader can do; printed on the lines below.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}\n{remedy}" if remedy else problem)


class UsageError(FusewiseError):
    """The caller's input does not fit: a wrong name, option, file or shape (exit code 2)."""


class EnvironmentFailure(FusewiseError):
    """The machine lacks something that the request needs: a compiler, a library, a device (exit code 3)."""


class UnknownName(UsageError):
    """A name that is not in a fixed set; the message offers the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(names)}."
        super().__init__(f"unknown {kind} {name!r}. {hint}")
        self.near = near


class IRError(FusewiseError):
    """A graph or a kernel that breaks a rule of the IR: always a defect of the pass that made it."""


class Unsupported(FusewiseError):
    """An op, dtype or layout that Fusewise does not lower; the op then runs as PyTorch's own kernel."""


class CompilerMissing(EnvironmentFailure):
    """No C++ compiler, or no triton, where a kernel must be built."""


class CompileFailed(FusewiseError):
    """The compiler refused a generated source; the message names the kernel and holds its first error."""


class CacheFailure(FusewiseError):
    """The kernel cache cannot be read or written (full, read-only, damaged)."""


class LaunchFailed(FusewiseError):
    """A compiled kernel could not be loaded or launched."""


class OutOfMemory(LaunchFailed, MemoryError):
    """A kernel found no memory for its intermediate values."""


class DeviceDataError(FusewiseError):
    """A device file with a missing or impossible figure."""


class NotCalibrated(EnvironmentFailure):
    """A figure of this machine that no document tells and nobody has measured yet."""


class ProfilerActive(EnvironmentFailure):
    """A profiler is attached: times taken now are not results."""


class ResultsInvalid(FusewiseError):
    """A results file that does not fit the bench's schema; the message names the row and the field."""


class VerifyMismatch(FusewiseError):
    """A fused result that differs from eager's by more than the policy allows."""
