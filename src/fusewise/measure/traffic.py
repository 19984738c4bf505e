"""What a call does: operators and their bytes, kernels on the device and their times, the peak of allocated bytes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fusewise.errors import EnvironmentFailure
from fusewise.measure.results import KernelTime
from fusewise.measure.stats import median

Call = Callable[[], object]


class KernelCounter(Protocol):
    """Says how many kernels one call of a contender launches; None where it cannot tell.

    On a GPU every contender is counted by `device_kernels`; a contender brings a counter of its own for the CPU.
    """

    def __call__(self, call: Call) -> int | None:
        """Count; may run the call."""
        ...


# Operators that allocate, or give another view of memory: they move no bytes.
_ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
_NO_TRAFFIC = frozenset({"detach", "alias", "lift_fresh", "_unsafe_view", "is_same_size"})
# Operators that read of their first tensor only what their index picks.
_GATHERS = frozenset({"index", "index_select", "gather", "embedding", "nll_loss_forward"})
# Operators that write their first tensor, or one like it, without reading it.
_FILLS = frozenset({"zero_", "fill_", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"})


# What the CUDA profiler records of itself and of the driver beside the kernels.
_PROFILER_OVERHEADS = frozenset(
    {
        "Activity Buffer Request",
        "Buffer Flush",
        "Command Buffer Full",
        "Instrumentation",
        "Lazy Function Loading",
        "Resource",
        "Runtime Triggered Module Loading",
    }
)


PROFILED_CALLS = 9  # of each contender whose kernels are timed one by one


class KernelTimesWarning(UserWarning):
    """The kernels of a contender could not be timed one by one; its row has none of their times."""


@dataclass(frozen=True, slots=True)
class OperatorTraffic:
    """One ATen operator as it ran: its name, and the bytes it reads and writes once."""

    name: str
    dram_bytes: int


def tensor_dram_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the distinct elements of a tensor: a broadcast axis counts once."""
    distinct = math.prod(n for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0 or n == 0)
    return distinct * tensor.element_size()


class _OperatorLog(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[OperatorTraffic] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if not (func.is_view or name in _ALLOCATIONS or name in _NO_TRAFFIC):
            self.operators.append(OperatorTraffic(name, _operator_bytes(name, (args, kwargs), result)))
        return result


def _operator_bytes(name: str, arguments: Any, result: Any) -> int:
    inputs = _distinct_tensors(arguments)
    outputs = _distinct_tensors(result)
    read = sum(tensor_dram_bytes(t) for t in inputs)
    if name in _GATHERS:
        read += tensor_dram_bytes(outputs[0]) - tensor_dram_bytes(inputs[0])
    elif name in _FILLS:
        read -= tensor_dram_bytes(inputs[0])
    elif name == "nll_loss_backward":  # needs the shape of its second tensor, not the values
        read -= tensor_dram_bytes(inputs[1])
    return read + sum(tensor_dram_bytes(t) for t in outputs)


def _distinct_tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of a nested value; one that is named twice is read once."""
    return list({id(t): t for t in tree_leaves(value) if isinstance(t, torch.Tensor)}.values())


def operator_traffic(call: Call) -> list[OperatorTraffic]:
    """The ATen operators that an eager call runs, backward included, with their bytes.

    Views and allocations are left out. Gathers count what they pick, a loss's gather one element a row.
    """
    log = _OperatorLog()
    with log:
        call()
    return log.operators


def eager_kernels(call: Call) -> int:
    """Operators of an eager call that compute or copy something: its kernels on a CPU."""
    return len(operator_traffic(call))


def _quiet_profile(activity: ProfilerActivity) -> profile:
    """A profiler that does not print a line of its own whenever it starts and stops."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    return profile(activities=[activity], profile_memory=activity is ProfilerActivity.CPU)


def device_kernels(call: Call) -> int:
    """Kernels, copies and fills that one call launches on the GPU, as the CUDA profiler records them."""
    call()
    torch.cuda.synchronize()
    with _quiet_profile(ProfilerActivity.CUDA) as profiler:
        call()
        torch.cuda.synchronize()
    return len(_device_events(profiler.events() or []))


def device_kernel_times(call: Call, flush: Call, calls: int = PROFILED_CALLS) -> tuple[KernelTime, ...]:
    """Each kernel, copy and fill of one call, in order of launch: its median duration on the GPU, the cache cold.

    Args:
        flush: empties the last-level cache; runs before each call and launches one kernel, which is left out.
        calls: how many are profiled.

    Raises:
        EnvironmentFailure: the profiler recorded nothing, or not the same kernels for each call.
    """
    for _ in range(2):
        flush()
        call()
    torch.cuda.synchronize()
    with _quiet_profile(ProfilerActivity.CUDA) as profiler:
        for _ in range(calls):
            flush()
            call()
        torch.cuda.synchronize()
    return median_kernel_times(_device_events(profiler.events() or []), calls)


def median_kernel_times(events: Sequence[Any], calls: int) -> tuple[KernelTime, ...]:
    """The launches of one call from the device's events of several, each call preceded by one event of a flush.

    A kernel that a call launches more than once stands there as often, in order of launch. Calls are told apart by
    their number of events alone, since a program may hold a kernel of the flush's name.

    Raises:
        EnvironmentFailure: there are no events, or not the same ones for each call.
    """
    ordered = sorted(events, key=lambda event: float(event.time_range.start))
    size = len(ordered) // calls
    if size < 2:
        raise EnvironmentFailure("the profiler recorded no kernels.", "May this user profile the GPU?")
    rounds = [ordered[i : i + size] for i in range(0, len(ordered), size)]
    names = [event.name for event in rounds[0]]
    if any([event.name for event in events_of_call] != names for events_of_call in rounds):
        raise EnvironmentFailure("the profiler recorded other kernels from call to call.")
    durations = [[float(event.time_range.elapsed_us()) for event in launch] for launch in zip(*rounds, strict=True)]
    return tuple(KernelTime(name, median(times)) for name, times in zip(names[1:], durations[1:], strict=True))


def _device_events(events: Iterable[Any]) -> list[Any]:
    """Those of a profiler's events that are kernels, copies and fills on the GPU."""
    return [
        event
        for event in events
        if event.device_type.name == "CUDA" and not event.is_user_annotation and event.name not in _PROFILER_OVERHEADS
    ]


# In a wrapper that Inductor generates, each such line runs one kernel: its own C++ and Triton kernels, library calls,
# and ATen operators.
_INDUCTOR_CALL = re.compile(
    r"^\s+(?:\w+ = )?(?:cpp_\w+|triton_\w+\.run|extern_kernels\.\w+|torch\.ops\.[\w.]+|aten\.[\w.]+)\(", re.MULTILINE
)


def kernels_in_wrapper(source: str) -> int:
    """Kernel calls in the `call` function of a wrapper that Inductor generated."""
    body = source.partition("def call(")[2].partition("\ndef ")[0]
    return len(_INDUCTOR_CALL.findall(body))


@contextmanager
def inductor_wrappers() -> Iterator[list[str]]:
    """Collects the source of each wrapper that Inductor generates inside the block."""
    from torch._inductor.graph import GraphLowering

    sources: list[str] = []
    kept = GraphLowering.save_output_code
    GraphLowering.save_output_code = staticmethod(sources.append)
    try:
        yield sources
    finally:
        GraphLowering.save_output_code = staticmethod(kept)  # type: ignore[arg-type]


def peak_bytes(call: Call, device: str) -> int | None:
    """The most memory that one call holds above what was held before it; None where it was not recorded.

    On a GPU the caching allocator's own count. On a CPU the profiler's record of each allocation through PyTorch's
    allocator; what a library allocates by itself is not seen.
    """
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device)) - before
    with _quiet_profile(ProfilerActivity.CPU) as profiler:
        call()
    results = profiler.profiler.kineto_results if profiler.profiler else None
    if results is None:
        return None
    changes = sorted((event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]")
    held = peak = 0
    for _, change in changes:
        held += change
        peak = max(peak, held)
    return peak
