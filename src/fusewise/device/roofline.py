"""Least times that the hardware allows, one resource at a time: small functions that a cost model adds up.

Times are in microseconds. A function of one rate takes what the kernel does in total, over all threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fusewise.device.cpu import CpuModel
from fusewise.device.figures import Figure
from fusewise.device.model import DeviceModel, GpuModel
from fusewise.errors import NotCalibrated, UsageError

Bound = Literal["memory", "compute", "launch"]


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time of a piece of work.

    Attributes:
        time_us: the time.
        bound_by: the resource that sets it.
        figure: the rate or the time that was used for that resource, with its source.
    """

    time_us: float
    bound_by: Bound
    figure: Figure


def stream_bytes_per_s(device: DeviceModel) -> Figure:
    """The best known rate of the device's memory: the measured copy, else the datasheet's peak.

    Raises:
        NotCalibrated: a CPU whose copy rate has not been measured; no document tells it.
    """
    if device.figures.copy_bytes_per_s is not None:
        return device.figures.copy_bytes_per_s
    if isinstance(device, GpuModel):
        return device.figures.dram_bytes_per_s
    raise NotCalibrated(
        f"the memory rate of {device.name} ({device.title}) has not been measured.",
        "Run: fusewise device calibrate",
    )


def matmul_flops_per_s(device: DeviceModel) -> Figure:
    """The best known matrix rate: the measured one, else the peak (bf16 of a GPU, fp32 of a CPU)."""
    if device.figures.matmul_flops_per_s is not None:
        return device.figures.matmul_flops_per_s
    if isinstance(device, CpuModel):
        return device.figures.fp32_flops_per_s
    return device.figures.bf16_tensor_flops_per_s


def floor_us(dram_bytes: float, flops: float, device: DeviceModel) -> Floor:
    """max(bytes / stream rate, flops / matmul rate, time of an empty kernel).

    Args:
        dram_bytes: least bytes to read and write.
        flops: operations of the contractions in the work (a multiply-add is two); 0 where it has none.
        device: a device, calibrated or not.

    Raises:
        UsageError: a negative amount.
        NotCalibrated: see `stream_bytes_per_s`.
    """
    _not_negative(dram_bytes=dram_bytes, flops=flops)
    stream = stream_bytes_per_s(device)
    matmul = matmul_flops_per_s(device)
    return max(
        Floor(dram_bytes / stream.value * 1e6, "memory", stream),
        Floor(flops / matmul.value * 1e6, "compute", matmul),
        Floor(device.launch_us, "launch", device.figures.launch_us),
        key=lambda floor: floor.time_us,
    )


def bytes_in_flight(active_sms: int, warps_per_sm: int, bytes_per_thread: float, warp_size: int = 32) -> float:
    """Bytes that resident threads have asked for before the first of them is used.

    Args:
        active_sms: SMs that hold a block.
        warps_per_sm: resident warps on each.
        bytes_per_thread: bytes that a thread asks for before it uses the first.
        warp_size: threads a warp.
    """
    return active_sms * warps_per_sm * warp_size * bytes_per_thread


def saturating_bytes(gpu: GpuModel) -> float:
    """Bytes in flight that reach the full memory rate: rate x latency (Little's law)."""
    return stream_bytes_per_s(gpu).value * gpu.dram_latency_s


def memory_us(dram_bytes: float, in_flight_bytes: float, gpu: GpuModel) -> float:
    """bytes / (peak x min(1, bytes in flight / (peak x latency))); the peak is `stream_bytes_per_s`.

    Raises:
        UsageError: bytes to move and none in flight, or a negative amount.
    """
    _not_negative(dram_bytes=dram_bytes, in_flight_bytes=in_flight_bytes)
    if dram_bytes == 0:
        return 0.0
    if in_flight_bytes == 0:
        raise UsageError("in_flight_bytes is 0: such a kernel never moves its bytes.")
    share = min(1.0, in_flight_bytes / saturating_bytes(gpu))
    return dram_bytes / (stream_bytes_per_s(gpu).value * share) * 1e6


def l2_us(l2_bytes: float, gpu: GpuModel) -> float:
    """Time to move bytes between the SMs and the last-level cache."""
    _not_negative(l2_bytes=l2_bytes)
    return l2_bytes / gpu.l2_bytes_per_s * 1e6


def issue_us(instructions: float, gpu: GpuModel) -> float:
    """Issue slots: thread instructions of every kind / (SMs x issue lanes x clock)."""
    return lanes_us(instructions, gpu.arch.issue_lanes_per_sm, gpu)


def fma_us(operations: float, gpu: GpuModel) -> float:
    """fp32 additions, multiplications and multiply-adds, each one lane for one clock."""
    _not_negative(operations=operations)
    return operations / (gpu.fp32_flops_per_s / 2) * 1e6


def int_us(additions: float, multiplications: float, gpu: GpuModel) -> float:
    """int32 work: additions (and comparisons) and multiplications share the lanes, at their own rates."""
    return lanes_us(additions, gpu.arch.int32_lanes_per_sm, gpu) + lanes_us(
        multiplications, gpu.arch.int32_mul_lanes_per_sm, gpu
    )


def special_us(operations: float, gpu: GpuModel) -> float:
    """Special functions as the hardware has them: exp2, log2, reciprocal, reciprocal root, sine, cosine."""
    return lanes_us(operations, gpu.arch.sfu_lanes_per_sm, gpu)


def waves(blocks: int, blocks_per_sm: int, gpu: GpuModel) -> float:
    """Blocks of a grid / blocks resident at once; a kernel that cannot be launched raises `UsageError`."""
    if blocks < 0 or blocks_per_sm < 1:
        raise UsageError(f"{blocks} blocks at {blocks_per_sm} an SM: a launch needs one resident block.")
    return blocks / (blocks_per_sm * gpu.sm_count)


def tail_factor(blocks: int, blocks_per_sm: int, gpu: GpuModel) -> float:
    """Time of a grid of equal blocks / time if its last wave were full as the others: ceil(waves) / waves."""
    count = waves(blocks, blocks_per_sm, gpu)
    return math.ceil(count) / count if count else 1.0


def lanes_us(operations: float, lanes_per_sm: int, gpu: GpuModel) -> float:
    """A unit of so many lanes on each SM: operations of all threads / (SMs x lanes x clock)."""
    _not_negative(operations=operations)
    return operations / (gpu.sm_count * lanes_per_sm * gpu.clock_hz) * 1e6


def _not_negative(**amounts: float) -> None:
    for name, amount in amounts.items():
        if not amount >= 0:
            raise UsageError(f"{name} is {amount}, but must not be negative.")
