"""The time of a load from memory that waits for the one before: a walk along a ring of random places."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch

from fusewise.errors import EnvironmentFailure
from fusewise.measure.cpu_rates import Compile
from fusewise.measure.timers import last_level_cache_bytes, make_timer

_FEW, _MANY = 16, 272  # loads of a walk, all in one kernel
_RUNS = 60
_LEAST_BYTES = 2**26


def measure_latency_ns(device: str, compile_function: Compile) -> float:
    """Nanoseconds of one load by one thread, where nothing else asks the memory for anything.

    Args:
        device: "cpu" or "cuda[:index]".
        compile_function: `fusewise.compile`.

    Raises:
        EnvironmentFailure: a longer walk took no longer: other work disturbs the measurement.
    """
    places = max(_LEAST_BYTES, 2 * _cache_bytes(device)) // 8
    order = torch.randperm(places, device=device)
    ring = torch.empty_like(order)
    ring[order] = order.roll(-1)  # each place holds the next one's number
    timer = _Clock() if torch.device(device).type == "cpu" else make_timer(device)
    torch._dynamo.reset()
    best = []
    with torch.no_grad():
        for loads in (_FEW, _MANY):
            walk = compile_function(_walk(loads))
            # no walk meets the places of another, which a cache may still hold
            starts = [order[n * _MANY :][:1] for n in range(_RUNS)]
            walk(ring, starts[0])
            best.append(min(timer.start(partial(walk, ring, start))() for start in starts[1:]))
    few, many = best
    if many <= few:
        raise EnvironmentFailure(
            "the latency of this memory cannot be told: other work disturbs the measurement.",
            "Run it again when the machine does nothing else.",
        )
    return (many - few) * 1e3 / (_MANY - _FEW)


class _Clock:
    """Wall time of a call, the caches left as they are: a flush takes the code away too, and its time varies more."""

    def start(self, call: Callable[[], torch.Tensor]) -> Callable[[], float]:
        begin = time.perf_counter_ns()
        call()
        took_us = (time.perf_counter_ns() - begin) / 1e3
        return lambda: took_us


def _walk(loads: int) -> Callable[..., torch.Tensor]:
    def walk(ring: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        for _ in range(loads):
            place = ring[place]
        return place

    return walk


def _cache_bytes(device: str) -> int:
    if torch.device(device).type == "cpu":
        return last_level_cache_bytes()
    return int(torch.cuda.get_device_properties(device).L2_cache_size)
