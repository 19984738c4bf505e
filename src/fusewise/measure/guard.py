"""Results are refused under a profiler: it slows what it watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import torch

from fusewise.errors import ProfilerActive

# What Nsight Systems, Nsight Compute and other CUPTI clients set in the process that they watch.
PROFILER_VARIABLES = frozenset(
    {"CUDA_INJECTION64_PATH", "CUDA_INJECTION32_PATH", "NVTX_INJECTION64_PATH", "QUADD_INJECTION_PROXY"}
)
PROFILER_PREFIXES = ("NV_COMPUTE_PROFILER", "NV_NSIGHT_INJECTION", "NSYS_")


def profiler_in(names: Iterable[str]) -> str | None:
    """The first name of an environment variable that a profiler sets."""
    for name in sorted(names):
        if name in PROFILER_VARIABLES or name.startswith(PROFILER_PREFIXES):
            return name
    return None


def active_profiler() -> str | None:
    """What watches this process, in words; None for nothing that is known."""
    variable = profiler_in(os.environ)
    if variable is not None:
        return f"the environment variable {variable} is set, as a CUDA profiler does"
    if torch._C._autograd._profiler_enabled():
        return "torch.profiler is running"
    if sys.getprofile() is not None:
        return "a Python profiler is running"
    return None


def refuse_under_profiler() -> None:
    """Raise `ProfilerActive` if something watches this process."""
    watcher = active_profiler()
    if watcher is not None:
        raise ProfilerActive(
            f"no results are written under a profiler: {watcher}.",
            "Run the bench once more without it; profile with another command.",
        )
