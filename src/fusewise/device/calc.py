"""The hand calculation of a fusion, from bytes alone: neither torch nor a compiler is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from fusewise.device.figures import Figure
from fusewise.device.model import DeviceModel, GpuModel
from fusewise.device.roofline import stream_bytes_per_s
from fusewise.errors import UsageError

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}


@dataclass(frozen=True, slots=True)
class RateBound:
    """Lower bounds of both forms at one memory rate.

    Attributes:
        rate: the rate in bytes a second, with its source.
        naive_ms: unfused bytes / rate.
        fused_ms: fused bytes / rate.
    """

    rate: Figure
    naive_ms: float
    fused_ms: float


@dataclass(frozen=True, slots=True)
class FusionCalc:
    """A chain of memory-bound kernels, unfused and fused.

    Attributes:
        device: name of the device.
        tensor_bytes: bytes of each tensor.
        kernels: kernels of the unfused chain.
        inputs: tensors that the whole chain reads.
        naive_bytes: bytes that the unfused chain reads and writes.
        fused_bytes: bytes that one fused kernel reads and writes.
        cap: naive_bytes / fused_bytes, the most that fusion can gain while memory is the limit.
        at_peak: bounds at the datasheet's memory rate; None for a CPU, whose rate no document tells.
        at_copy_rate: bounds at the measured copy rate; None where it has not been measured.
    """

    device: str
    tensor_bytes: int
    kernels: int
    inputs: int
    naive_bytes: int
    fused_bytes: int
    cap: float
    at_peak: RateBound | None
    at_copy_rate: RateBound | None


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """What a faster kernel does for the whole program (Amdahl's law).

    Attributes:
        share: the kernel's share of the time before.
        kernel_speedup: time of the kernel before / after.
        speedup: time of the program before / after, 1 / (1 - share + share / kernel_speedup).
        limit: the same for an infinitely fast kernel, 1 / (1 - share); None where that has no limit.
    """

    share: float
    kernel_speedup: float
    speedup: float
    limit: float | None


def calc_fusion(tensor_bytes: int, kernels: int, device: DeviceModel, inputs: int = 1) -> FusionCalc:
    """Bytes and lower bounds of a chain of pointwise kernels over tensors of one size.

    Each of the kernels reads the one before it and writes its result; `inputs` - 1 further tensors are each
    read by one of them. The fused kernel reads every input once and writes the last result.

    Raises:
        UsageError: an amount below 1.
        NotCalibrated: a CPU whose copy rate has not been measured.
    """
    for name, amount in (("tensor_bytes", tensor_bytes), ("kernels", kernels), ("inputs", inputs)):
        if amount < 1:
            raise UsageError(f"{name} is {amount}, but must be at least 1.")
    naive_bytes = (2 * kernels + inputs - 1) * tensor_bytes
    fused_bytes = (inputs + 1) * tensor_bytes
    stream_bytes_per_s(device)  # raises here rather than answer without any bound
    peak = device.figures.dram_bytes_per_s if isinstance(device, GpuModel) else None
    return FusionCalc(
        device=device.name,
        tensor_bytes=tensor_bytes,
        kernels=kernels,
        inputs=inputs,
        naive_bytes=naive_bytes,
        fused_bytes=fused_bytes,
        cap=naive_bytes / fused_bytes,
        at_peak=_bound(peak, naive_bytes, fused_bytes),
        at_copy_rate=_bound(device.figures.copy_bytes_per_s, naive_bytes, fused_bytes),
    )


def calc_end_to_end(share: float, speedup: float) -> EndToEnd:
    """The whole program's gain from a kernel that is `share` of its time and becomes `speedup` times faster.

    Raises:
        UsageError: a share outside 0 to 1, or a speedup that is not above 0.
    """
    if not 0 <= share <= 1:
        raise UsageError(f"share is {share}, but must be from 0 to 1.", "A third of the time is 0.333, not 33.")
    if not speedup > 0:
        raise UsageError(f"speedup is {speedup}, but must be above 0.")
    return EndToEnd(
        share=share,
        kernel_speedup=speedup,
        speedup=1 / (1 - share + share / speedup),
        limit=1 / (1 - share) if share < 1 else None,
    )


def parse_bytes(text: str) -> int:
    """Bytes of a size such as "1GB" (10^9), "1.5 GiB" (2^30 each) or "4096".

    Raises:
        UsageError: not a size, or not a whole number of bytes above 0.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise UsageError(f"{text!r} is not a size.", "Write it as 1GB (10^9 bytes), 1.5GiB (2^30 each), 512MB or 4096.")
    size = Decimal(match[1]) * unit
    if size < 1 or size != int(size):
        raise UsageError(f"{text!r} is not a whole number of bytes above 0.")
    return int(size)


def _bound(rate: Figure | None, naive_bytes: int, fused_bytes: int) -> RateBound | None:
    if rate is None:
        return None
    return RateBound(rate, naive_bytes / rate.value * 1e3, fused_bytes / rate.value * 1e3)
