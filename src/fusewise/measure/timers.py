"""Times of calls with a cold cache: contenders take turns, round by round, and every sample is returned.

Between runs a buffer larger than the last-level cache is written. It pushes the inputs out, and it leaves as many
dirty lines behind as a run leaves behind itself, so that the memory traffic within a run is the program's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import torch

Call = Callable[[], object]
Progress = Callable[[str], None]

CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNKNOWN_CPU_CACHE_BYTES = 64 * 2**20  # where the system does not say: more than most cores have
CUDA_FLUSH_BYTES = 256 * 2**20  # at least twice the L2 of any GPU so far
SIZE_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


class Timer(Protocol):
    """Times calls on one device."""

    def flush(self) -> None:
        """Push everything out of the last-level cache; on a GPU one kernel, which the host does not wait for."""
        ...

    def start(self, call: Call) -> Callable[[], float]:
        """Flush the cache and run the call; the function returned gives its time in us, waiting if need be."""
        ...

    def wait(self) -> None:
        """Return when the device has done all that was asked of it."""
        ...


def last_level_cache_bytes(folder: Path = CPU_CACHES) -> int:
    """Size of this machine's largest CPU cache, as the kernel reports it."""
    sizes = []
    for entry in sorted(folder.glob("index*/size")):
        text = entry.read_text(encoding="ascii").strip()
        unit = SIZE_UNITS.get(text[-1:], 1)
        digits = text.rstrip("KMG")
        if digits.isdigit():
            sizes.append(int(digits) * unit)
    return max(sizes, default=UNKNOWN_CPU_CACHE_BYTES)


class CpuTimer:
    """Wall time of a call, after a buffer of twice the last-level cache was written."""

    def __init__(self) -> None:
        self._buffer = torch.empty(2 * last_level_cache_bytes(), dtype=torch.uint8)

    def flush(self) -> None:
        """See `Timer`."""
        self._buffer.fill_(1)

    def start(self, call: Call) -> Callable[[], float]:
        """See `Timer`; the call has ended when this returns."""
        self.flush()
        begin = time.perf_counter_ns()
        call()
        elapsed_us = (time.perf_counter_ns() - begin) / 1e3
        return lambda: elapsed_us

    def wait(self) -> None:
        """Nothing to wait for."""


_HEAD_START_CYCLES = 2_000_000  # about a millisecond at a GPU's clock


class CudaTimer:
    """Time between two events around a call, after a buffer larger than the L2 was written.

    The GPU is kept busy for a millisecond before the first event, so that the host, which prepares and launches the
    call meanwhile, is ahead of it: what is timed is the work of the GPU, with the gaps between its kernels where a
    program needs more launches than that millisecond covers. The host's own cost is `measure.overhead`'s.
    """

    def __init__(self, device: str = "cuda") -> None:
        self._device = torch.device(device)
        l2_bytes = int(torch.cuda.get_device_properties(self._device).L2_cache_size)
        size = max(CUDA_FLUSH_BYTES, 2 * l2_bytes)
        self._buffer = torch.empty(size, dtype=torch.uint8, device=self._device)

    def flush(self) -> None:
        """See `Timer`."""
        self._buffer.fill_(1)

    def start(self, call: Call) -> Callable[[], float]:
        """See `Timer`; the function returned waits for the GPU."""
        begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self.flush()
        torch.cuda._sleep(_HEAD_START_CYCLES)  # type: ignore[no-untyped-call]
        begin.record()
        call()
        end.record()

        def elapsed_us() -> float:
            end.synchronize()
            return float(begin.elapsed_time(end)) * 1e3

        return elapsed_us

    def wait(self) -> None:
        """Wait for all streams of the device."""
        torch.cuda.synchronize(self._device)


def make_timer(device: str) -> Timer:
    """The timer of "cpu" or "cuda[:index]"."""
    return CpuTimer() if torch.device(device).type == "cpu" else CudaTimer(device)


def interleave(
    timer: Timer,
    calls: Mapping[str, Call],
    rounds: int,
    *,
    warmup: int = 3,
    budget_s: float | None = None,
    least_rounds: int = 7,
    progress: Progress | None = None,
) -> dict[str, list[float]]:
    """Samples in us of each call, taken in turns; each round starts with another call.

    Args:
        calls: what to time, by name.
        rounds: samples of each call.
        warmup: runs of each call before the first round.
        budget_s: stop after `least_rounds` once this much time has passed; None: all rounds.
        progress: called with the name of each call that was run.
    """
    names = list(calls)
    for name in names:
        for _ in range(warmup):
            calls[name]()
    timer.wait()
    begun = time.monotonic()
    pending: dict[str, list[Callable[[], float]]] = {name: [] for name in names}
    for done in range(rounds):
        if budget_s is not None and done >= least_rounds and time.monotonic() - begun > budget_s:
            break
        shift = done % len(names) if names else 0
        for name in names[shift:] + names[:shift]:
            pending[name].append(timer.start(calls[name]))
            if progress is not None:
                progress(name)
    timer.wait()
    return {name: [elapsed() for elapsed in samples] for name, samples in pending.items()}


def time_us(timer: Timer, call: Call, rounds: int = 20, warmup: int = 3) -> list[float]:
    """Samples in us of one call."""
    return interleave(timer, {"": call}, rounds, warmup=warmup)[""]
