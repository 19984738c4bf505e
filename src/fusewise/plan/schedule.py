"""How a kernel is tiled, and what a schedule is chosen from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class AxisShape:
    """One axis of a kernel: its size by the hints, whether that is its size for good, and its role."""

    name: str
    size: int
    static: bool
    reduce: bool
    loop: bool = False


@dataclass(frozen=True, slots=True)
class KernelShape:
    """What a schedule is chosen from.

    Attributes:
        axes: parallel axes, outermost first, then loop axes, then reduce axes.
        unit_bytes: for each axis the bytes that the kernel moves by accesses with step 1 along it.
        access_bytes: bytes of an element of each load and store that varies along some axis.
        reads, writes: bytes that the kernel reads and writes, by the hints.
        passes: loops over the row.
        live_elements: element values that are alive at once when the row is on chip.
        instructions: arithmetic a point of the axes (from `ir.ops`).
        max_offset: greatest element offset of an access.
        drawn_along: axes along which neighbours draw their random numbers from one block.
        vector_bytes: bytes that every row reads of tensors that vary along the reduce axes alone, a norm's weight say.
    """

    axes: tuple[AxisShape, ...]
    unit_bytes: Mapping[str, int]
    access_bytes: tuple[int, ...]
    reads: int
    writes: int
    passes: int
    live_elements: int
    instructions: float
    max_offset: int
    drawn_along: frozenset[str] = frozenset()
    vector_bytes: int = 0

    @property
    def parallel(self) -> tuple[AxisShape, ...]:
        return tuple(a for a in self.axes if not a.reduce and not a.loop)

    @property
    def loop(self) -> tuple[AxisShape, ...]:
        return tuple(a for a in self.axes if a.loop)

    @property
    def reduce(self) -> tuple[AxisShape, ...]:
        return tuple(a for a in self.axes if a.reduce)

    @property
    def parallel_size(self) -> int:
        total = 1
        for axis in self.parallel:
            total *= axis.size
        return total

    @property
    def reduce_size(self) -> int:
        total = 1
        for axis in self.reduce:
            total *= axis.size
        return total


@dataclass(frozen=True, slots=True)
class TritonSchedule:
    """How a kernel is tiled on a GPU.

    The parallel axes are flattened, in order, into two tile dims: `y_axes` (may be empty) and `x_axes`; the reduce
    axes into a third, r. A program computes `y_block` x `x_block` points (powers of two) of the parallel axes.

    Attributes:
        r_block: elements along r in one tile (a power of two); for a persistent row at least the whole row.
        persistent: True where the whole row is held in one tile: every pass sees the same registers.
        num_warps: warps a program, a power of two.
        num_stages: pipeline depth of the loop over r (`tl.range`).
        index_bits: 32, or 64 where an offset may pass 2^31 - 1.
        l_block: rows that a program takes at a time, where it walks rows to sum over them (a power of two).
        maxnreg: most registers a thread that the assembler may use (the launch option of that name), what does not fit
            is spilled; None: as many as it likes.
        spill_to_shared: registers are spilled to shared memory first (PTX's pragma `enable_smem_spilling`).
    """

    y_axes: tuple[str, ...]
    x_axes: tuple[str, ...]
    y_block: int
    x_block: int
    r_block: int
    persistent: bool
    num_warps: int
    num_stages: int = 1
    index_bits: int = 32
    maxnreg: int | None = None
    spill_to_shared: bool = False
    l_block: int = 1

    def tile_points(self, reduces: bool) -> int:
        """Points of the axes that one tile covers; of a kernel that `reduces`, along r too."""
        return self.y_block * self.x_block * self.l_block * (self.r_block if reduces else 1)


@dataclass(frozen=True, slots=True)
class CppSchedule:
    """How a kernel is looped on a CPU.

    The parallel axes other than the vector axis are one flattened parallel loop. The vector axis is run in vectors.

    Attributes:
        vector_axis: the axis run in vectors: a parallel one, a reduce one, or None (scalar code).
        threads: False where the work is too small to share between cores.
    """

    vector_axis: str | None
    threads: bool


Schedule: TypeAlias = TritonSchedule | CppSchedule


def schedule_text(schedule: TritonSchedule) -> str:
    """A schedule as the option `schedules` names it: `x4 r2048 w8 s3 n96 shared`.

    That is its tile (`y`, `l` and `r` where it has them), warps, stages beyond one, and what the assembler is told: the
    most registers a thread, and that spills go to shared memory.
    """
    parts = [f"x{schedule.x_block}"]
    if schedule.y_axes:
        parts.insert(0, f"y{schedule.y_block}")
    if schedule.l_block > 1:
        parts.append(f"l{schedule.l_block}")
    if schedule.r_block > 1:
        parts.append(f"r{schedule.r_block}")
    parts.append(f"w{schedule.num_warps}")
    if schedule.num_stages > 1:
        parts.append(f"s{schedule.num_stages}")
    if schedule.maxnreg is not None:
        parts.append(f"n{schedule.maxnreg}")
    if schedule.spill_to_shared:
        parts.append("shared")
    return " ".join(parts)


THREADS_FROM = 1 << 15
"""Points of the axes below which sharing between cores costs more than it saves."""


def choose_cpp_schedule(shape: KernelShape) -> CppSchedule:
    """Vectors along the axis on which most bytes are contiguous; the innermost parallel axis on a tie."""
    threads = math.prod(axis.size for axis in shape.axes) >= THREADS_FROM
    best: str | None = None
    # sums over the loop axes are kept a point of the row: the row is what runs in vectors
    for axis in shape.reduce if shape.loop else (*shape.parallel, *shape.reduce):
        if axis.size > 1 and (best is None or shape.unit_bytes.get(axis.name, 0) >= shape.unit_bytes.get(best, 0)):
            best = axis.name
    return CppSchedule(vector_axis=best, threads=threads)
