"""How many blocks of a kernel an SM can hold, and at which register counts that changes.

The rules are those of NVIDIA's own occupancy calls (CUDA 13, compute capability 8.0 and later) and, with
other numbers, of LLVM's AMDGPU target:

* a warp's registers are rounded up to the allocation unit and live in one sub-partition of the SM, so the SM
  holds sub-partitions x floor(registers of one / registers of a warp) warps;
* a block's shared memory and the driver's reserve are rounded up together to the allocation unit;
* the SM's shared memory is the split that was asked for, or the smallest that holds one block.

Warps of a block need not be a multiple of the sub-partitions: they are only spread over them. The launch
check that rounds them up binds nowhere that the rules above do not, since a block may use all registers of
an SM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusewise.device.arch import Arch
from fusewise.errors import UsageError

Limiter = Literal["threads", "warps", "blocks", "registers", "shared", "barriers"]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Residency of one kernel on one SM.

    Attributes:
        blocks_per_sm: resident blocks; 0: the kernel cannot be launched.
        warps_per_sm: resident warps.
        limiter: what stops one more block. Where several do, the first of: threads (the block is too large
            to launch), warps, blocks, registers, shared, barriers.
        fraction: resident warps / most warps of the SM.
        next_regs_down: largest smaller number of registers a thread that gives more blocks, or None.
        next_regs_up: smallest larger number of registers a thread that gives fewer blocks, or None.
    """

    blocks_per_sm: int
    warps_per_sm: int
    limiter: Limiter
    fraction: float
    next_regs_down: int | None
    next_regs_up: int | None


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of register counts, both ends included, with one residency."""

    regs_from: int
    regs_to: int
    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limiter: Limiter


def occupancy(
    arch: Arch,
    regs_per_thread: int,
    shared_bytes_per_block: int,
    threads_per_block: int,
    carveout_percent: int | None = None,
    barriers_per_block: int = 1,
) -> Occupancy:
    """Blocks of a kernel that one SM holds.

    Args:
        arch: limits of the SM.
        regs_per_thread: registers a thread, as the compiler reports them (on AMD: of the unified file).
        shared_bytes_per_block: static and dynamic shared memory, without the driver's reserve; above the
            default limit the launch is taken to opt in.
        threads_per_block: threads a block.
        carveout_percent: preferred share of shared memory in the SM's largest split; None: the largest.
        barriers_per_block: named barriers that the kernel uses.

    Raises:
        UsageError: a negative count, a block without threads, a carveout outside 0 to 100.
    """
    _check(regs_per_thread, shared_bytes_per_block, threads_per_block, carveout_percent, barriers_per_block)
    others = _other_limits(arch, shared_bytes_per_block, threads_per_block, carveout_percent, barriers_per_block)
    by_registers = _blocks_by_registers(arch, regs_per_thread, threads_per_block)
    blocks, limiter = _tightest(others, by_registers)
    cap = min(others.values())
    warps = blocks * _warps_per_block(arch, threads_per_block)
    fewer = max_regs_for_blocks(arch, blocks, threads_per_block) if blocks else None
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=warps,
        limiter=limiter,
        fraction=warps / arch.max_warps_per_sm,
        next_regs_down=max_regs_for_blocks(arch, blocks + 1, threads_per_block) if blocks < cap else None,
        # A count above the most that a thread can name is never compiled: there is no step there.
        next_regs_up=fewer + 1 if fewer is not None and fewer < arch.max_registers_per_thread else None,
    )


def max_regs_for_blocks(arch: Arch, blocks: int, threads_per_block: int) -> int | None:
    """Most registers a thread with which the register file holds so many blocks; None: none does.

    Only registers are looked at: warps, shared memory and the rest may hold fewer.
    """
    if blocks < 1:
        raise UsageError(f"blocks is {blocks}, but must be at least 1.")
    warps_per_part = -(-blocks * _warps_per_block(arch, threads_per_block) // arch.sub_partitions)
    units = arch.registers_per_sm // arch.sub_partitions // arch.register_alloc_unit // warps_per_part
    regs = min(units * arch.register_alloc_unit // arch.warp_size, arch.max_registers_per_thread)
    return regs or None


def staircase(
    arch: Arch,
    shared_bytes_per_block: int,
    threads_per_block: int,
    regs_from: int = 16,
    regs_to: int | None = None,
    carveout_percent: int | None = None,
    barriers_per_block: int = 1,
) -> tuple[Step, ...]:
    """Residency against registers a thread, from `regs_from` to `regs_to` (default: the most there can be).

    Arguments and errors are those of `occupancy`; a range that is empty or that no thread can have raises
    `UsageError`.
    """
    most = arch.max_registers_per_thread
    last = most if regs_to is None else regs_to
    if not 0 <= regs_from <= last <= most:
        raise UsageError(f"registers from {regs_from} to {last}: must rise, within 0 to {most}.")
    steps: list[Step] = []
    regs = regs_from
    while regs <= last:
        here = occupancy(arch, regs, shared_bytes_per_block, threads_per_block, carveout_percent, barriers_per_block)
        end = last if here.next_regs_up is None else min(last, here.next_regs_up - 1)
        steps.append(Step(regs, end, here.blocks_per_sm, here.warps_per_sm, here.fraction, here.limiter))
        regs = end + 1
    return tuple(steps)


def _check(regs: int, shared_bytes: int, threads: int, carveout_percent: int | None, barriers: int) -> None:
    for name, value, least in (
        ("regs_per_thread", regs, 0),
        ("shared_bytes_per_block", shared_bytes, 0),
        ("threads_per_block", threads, 1),
        ("barriers_per_block", barriers, 0),
    ):
        if value < least:
            raise UsageError(f"{name} is {value}, but must be at least {least}.")
    if carveout_percent is not None and not 0 <= carveout_percent <= 100:
        raise UsageError(f"carveout_percent is {carveout_percent}, but must be from 0 to 100.")


def _warps_per_block(arch: Arch, threads_per_block: int) -> int:
    return -(-threads_per_block // arch.warp_size)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _other_limits(
    arch: Arch, shared_bytes: int, threads: int, carveout_percent: int | None, barriers: int
) -> dict[Limiter, int]:
    """Blocks that each resource but registers allows."""
    limits: dict[Limiter, int] = {
        "warps": arch.max_warps_per_sm // _warps_per_block(arch, threads),
        "blocks": arch.max_blocks_per_sm,
        "shared": _blocks_by_shared(arch, shared_bytes, carveout_percent),
    }
    if threads > arch.max_threads_per_block:
        limits["threads"] = 0
    if arch.block_barriers_per_sm and barriers:
        limits["barriers"] = arch.block_barriers_per_sm // barriers
    return limits


def _tightest(others: dict[Limiter, int], by_registers: int) -> tuple[int, Limiter]:
    blocks = min(by_registers, *others.values())
    order: tuple[Limiter, ...] = ("threads", "warps", "blocks", "registers", "shared", "barriers")
    limits = others | {"registers": by_registers}
    return blocks, next(name for name in order if limits.get(name) == blocks)


def _blocks_by_registers(arch: Arch, regs: int, threads: int) -> int:
    if regs > arch.max_registers_per_thread:
        return 0
    per_warp = _round_up(max(regs, 1) * arch.warp_size, arch.register_alloc_unit)
    warps = arch.registers_per_sm // arch.sub_partitions // per_warp * arch.sub_partitions
    return warps // _warps_per_block(arch, threads)


def _blocks_by_shared(arch: Arch, shared_bytes: int, carveout_percent: int | None) -> int:
    if shared_bytes > arch.shared_bytes_per_block_max:
        return 0
    per_block = _round_up(shared_bytes + arch.shared_reserved_per_block, arch.shared_alloc_unit)
    if per_block == 0:
        return arch.max_blocks_per_sm
    percent = 100 if carveout_percent is None else carveout_percent
    preferred = _split_for(arch, percent * arch.shared_bytes_per_sm // 100)
    available = preferred if preferred >= per_block else _split_for(arch, per_block)
    return available // per_block


def _split_for(arch: Arch, wanted_bytes: int) -> int:
    """The smallest split of shared memory and L1 that gives so many bytes of shared memory."""
    return next(split for split in arch.shared_splits if split >= wanted_bytes)
