"""Ceilings measured on this machine in this run, and the floor that they set for a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import torch

from fusewise.measure.program import DTYPES, Cost
from fusewise.measure.timers import Call, Timer, make_timer, time_us

Bound = Literal["bytes", "flops", "launch"]

# A time below this share of the floor cannot be: bytes counted wrongly, or the cache was warm.
IMPOSSIBLE_SHARE = 0.95

STREAM_BYTES = {"cuda": 2**30, "cpu": 128 * 2**20}
MATMUL_SIDES = {"cuda": (4096, 8192), "cpu": (1024,)}
_MATMUL_US = 2e6  # about as long a product of one type and size is timed


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The best this device did in this run.

    Attributes:
        copy_gbps: bytes read and written a second by a copy, in 1e9.
        two_read_one_write_gbps: the same for an addition of two tensors.
        read_gbps: the same for a reduction to one number.
        matmul_tflops: 1e12 floating-point operations a second of a square matrix product, by dtype name; of 16-bit
            types at least fp32's: a processor without instructions for them does better in fp32.
        empty_kernel_us: time of an operation on one element, measured as any other.
    """

    copy_gbps: float
    two_read_one_write_gbps: float
    read_gbps: float
    matmul_tflops: Mapping[str, float]
    empty_kernel_us: float

    @property
    def stream_gbps(self) -> float:
        """The fastest of the three streams."""
        return max(self.copy_gbps, self.two_read_one_write_gbps, self.read_gbps)


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time that the hardware allows a program.

    Attributes:
        time_us: max of least bytes / stream rate, flops / matmul rate, time of an empty kernel.
        bound: which of the three it is.
        two_read_us: the same where a row or group is read twice; None where that does not arise.
        impossible_us: a measured time below this is a mistake of the measurement.
    """

    time_us: float
    bound: Bound
    two_read_us: float | None
    impossible_us: float


def floor_of(cost: Cost, dtype: str, ceilings: Ceilings) -> Floor:
    """The floor of one case under these ceilings; a dtype without a matmul rate counts bytes and launch only."""

    def stream_us(dram_bytes: int) -> float:
        return dram_bytes / ceilings.stream_gbps / 1e3

    rate = ceilings.matmul_tflops.get(dtype)
    flops_us = cost.flops / rate / 1e6 if rate else 0.0
    others = max(flops_us, ceilings.empty_kernel_us)
    bytes_us = stream_us(cost.least_bytes)
    bound: Bound = "bytes"
    if others > bytes_us:
        bound = "flops" if flops_us > ceilings.empty_kernel_us else "launch"
    hard_us = stream_us(cost.least_bytes if cost.hard_bytes is None else cost.hard_bytes)
    return Floor(
        time_us=max(bytes_us, others),
        bound=bound,
        two_read_us=None if cost.two_read_bytes is None else max(stream_us(cost.two_read_bytes), others),
        impossible_us=IMPOSSIBLE_SHARE * max(hard_us, others),
    )


def is_impossible(time_us: float, floor: Floor) -> bool:
    """True for a time that the hardware does not allow."""
    return time_us < floor.impossible_us


def measure_ceilings(device: str, dtypes: Iterable[str] = (), rounds: int = 20) -> Ceilings:
    """Measure the ceilings of "cpu" or "cuda", each as the best of `rounds` runs.

    Args:
        dtypes: names of the types whose matrix product is timed.
    """
    timer = make_timer(device)
    with torch.no_grad():
        copy_gbps, add_gbps, read_gbps = _streams_gbps(timer, device, rounds)
        one = torch.ones(1, device=device)
        return Ceilings(
            copy_gbps=copy_gbps,
            two_read_one_write_gbps=add_gbps,
            read_gbps=read_gbps,
            matmul_tflops=_matmul_rates(timer, device, dtypes, rounds),
            empty_kernel_us=min(time_us(timer, lambda: one.fill_(0.0), rounds)),
        )


def best_of(one: Ceilings, other: Ceilings) -> Ceilings:
    """The better of two measurements of the same device, figure by figure."""
    rates = {**one.matmul_tflops}
    for dtype, rate in other.matmul_tflops.items():
        rates[dtype] = max(rate, rates.get(dtype, rate))
    return Ceilings(
        copy_gbps=max(one.copy_gbps, other.copy_gbps),
        two_read_one_write_gbps=max(one.two_read_one_write_gbps, other.two_read_one_write_gbps),
        read_gbps=max(one.read_gbps, other.read_gbps),
        matmul_tflops=rates,
        empty_kernel_us=min(one.empty_kernel_us, other.empty_kernel_us),
    )


def _streams_gbps(timer: Timer, device: str, rounds: int) -> tuple[float, float, float]:
    """Copy, two reads and a write, read only."""
    tensor = STREAM_BYTES[torch.device(device).type]
    a, b, c = (torch.ones(tensor // 4, device=device) for _ in range(3))

    def best_us(call: Call) -> float:
        return min(time_us(timer, call, rounds))

    # Of the two reductions either may be bound by arithmetic: the faster one is nearer to the memory's rate.
    read_us = min(best_us(a.sum), best_us(a.amax))
    copy_us, add_us = best_us(lambda: c.copy_(a)), best_us(lambda: torch.add(a, b, out=c))
    return 2 * tensor / copy_us / 1e3, 3 * tensor / add_us / 1e3, tensor / read_us / 1e3


def _matmul_rates(timer: Timer, device: str, dtypes: Iterable[str], rounds: int) -> dict[str, float]:
    @cache
    def rate(dtype: str) -> float:
        return _matmul_tflops(timer, device, dtype, rounds)

    return {d: max(rate(d), rate("fp32")) if DTYPES[d].itemsize == 2 else rate(d) for d in dtypes}


def _matmul_tflops(timer: Timer, device: str, dtype: str, rounds: int) -> float:
    rates = []
    for side in MATMUL_SIDES[torch.device(device).type]:
        a, b = (torch.randn(side, side, device=device).to(DTYPES[dtype]) for _ in range(2))
        product = partial(torch.mm, a, b, out=torch.empty_like(a))
        (first_us,) = time_us(timer, product, 1, warmup=0)
        # a product of seconds is not repeated as often as the others
        fewer = min(rounds, max(1, round(_MATMUL_US / first_us)))
        rates.append(2 * side**3 / min(first_us, *time_us(timer, product, fewer)) / 1e6)
    return max(rates)
