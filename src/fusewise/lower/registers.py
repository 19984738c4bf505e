"""Predicts the registers of a GPU kernel from what is alive in it, before anything is compiled.

A value takes (elements a thread) x (its bytes / 4) registers, narrow ones packed. A kernel is a sequence of stages: a
pass over the row, or what stands between two passes. ptxas cannot move work out of its stage, and within one it chooses
between two orders. Element by element, what enters turns into what is left for later, so a stage holds the larger of
the two beside what passes through and the sums of a walked row. Instruction by instruction, as Triton writes them, all
elements of every value that is not yet used up are alive. From that follow

* what the kernel needs: the first order, and a share of what the second would hold beyond it, since ptxas does not find
  the best order. The share grows with the length of a stage, as ptxas looks ahead only so far, and where a tile changes
  its layout in shared memory, since elements then wait for each other. Loads fly together, so at least a part of them
  is held at once;
* what it gets: up to the count with which the multiprocessor is full of threads registers cost nothing, and ptxas uses
  them to keep more loads in flight, in a loop by unrolling it. Beyond that a count is worth as much as the largest one
  with which as many programs reside, and ptxas goes some way to it, or back to the next smaller one where it is near.

The weights were fitted on every kernel that planning the catalogue compiles, in two types and two sizes, as Triton 3.7
and its ptxas compile them for cc 9.0, and checked on those of others (cc 8.0 and 12.0, under their own limits).
`bench --predict` prints predicted beside compiled. What is missed most: rows that are walked in tiles of which each
thread holds several columns, and functions that branch, such as `sin` of f32, around which nothing is moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fusewise.device.arch import Arch
from fusewise.errors import IRError
from fusewise.ir.dtypes import BOOL, DType
from fusewise.lower.kernel import (
    Check,
    Compute,
    Const,
    IndexOf,
    Instr,
    Kernel,
    Load,
    Reduce,
    SizeOf,
    Store,
    TritonSchedule,
    arithmetic,
    operands,
    result_dtype,
)
from fusewise.plan.resources import Resources, Section

_BASE = 13.0  # addresses, masks, the program's number
_SHARE = 0.27  # of what the order of the instructions holds beyond the least
_CROSSING_SHARE, _CROSSING = 0.6, 5.0  # the same where a tile changes its layout, and addresses in shared memory
_SHORT, _LONG = 180, 300  # instructions of a stage from which the share grows, and from which it is all
_IN_FLIGHT, _IN_FLIGHT_WALKED = 0.6, 0.8  # of what a stage loads is held at once
_LOOP, _PIPELINED = 3.0, 8.0  # counters and moving addresses; those in shared memory of a walked row
_BOOL = 0.7  # of a register for one that is computed: some stay predicates
_NOT_AGAIN = 0.65  # of what is needed; the rest is computed again before anything is spilled
_SPARE = 0.8  # of what would be alive in the order of the instructions, where registers cost nothing
_GIVEN_UP, _FILLED = 0.35, 0.6  # of the way between two counts that matter: what is saved, and what is taken besides

_LEAST = 8  # registers of a thread
_VECTOR_BYTES = 16  # widest access of a thread

_Free = Const | SizeOf | IndexOf | Store | Check


@dataclass(frozen=True, slots=True)
class _Stage:
    """A stretch of the kernel in order of execution.

    Attributes:
        first, last: positions from `first` up to `last` in the sequence.
        sums: registers of the accumulators that a walked row feeds in it.
    """

    first: int
    last: int
    sums: float


def predict_registers(kernel: Kernel, arch: Arch) -> int:
    """Registers a thread of a kernel under its `TritonSchedule`: no more than `arch` allows, and than its cap."""
    return _Lives(kernel, arch).registers()


def predict_resources(kernel: Kernel, arch: Arch) -> Resources:
    """Resources on a multiprocessor of `arch`, as far as they can be told without compiling."""
    schedule = _schedule(kernel)
    tile = schedule.tile_points(bool(kernel.reduce))
    executed = max(1, round(arithmetic(kernel.body) * tile / (schedule.num_warps * arch.warp_size)))
    lives = _Lives(kernel, arch)
    spilled = lives.spilled_bytes()
    return Resources(
        regs_per_thread=lives.registers(),
        spill_store_bytes=spilled,
        spill_load_bytes=spilled,
        stack_bytes=spilled,
        shared_bytes=0,
        num_warps=schedule.num_warps,
        straight=Section({"float": executed}),
    )


def _schedule(kernel: Kernel) -> TritonSchedule:
    if not isinstance(kernel.schedule, TritonSchedule):
        raise IRError(f"kernel {kernel.name} has no Triton schedule")
    return kernel.schedule


class _Lives:
    """Live ranges of a kernel's values in order of execution."""

    def __init__(self, kernel: Kernel, arch: Arch) -> None:
        self.kernel = kernel
        self.arch = arch
        self.schedule = _schedule(kernel)
        self.dim_of = dict.fromkeys(self.schedule.y_axes, "y") | dict.fromkeys(self.schedule.x_axes, "x")
        self.dim_of |= {a.name: "r" for a in kernel.reduce} | {a.name: "l" for a in kernel.loop}
        self.blocks = {"y": self.schedule.y_block, "x": self.schedule.x_block, "l": self.schedule.l_block}
        self.blocks["r"] = self.schedule.r_block if kernel.reduce else 1
        self.sizes = kernel.axis_sizes()
        self.accesses = self._accesses()
        self.held = self._held()
        self.walks = bool(kernel.reduce) and not self.schedule.persistent
        self.summed = self._summed()
        self.sequence: list[int] = []
        self.stages: list[_Stage] = []
        self._add(kernel.before)
        for step in kernel.passes:
            self._add(step.elem, self._sums(step.reduces) if self.walks else 0.0)
            self._add((*step.reduces, *step.after))
        self._add(kernel.final)
        self.made: dict[int, int] = {}
        self.used: dict[int, int] = {}
        # as `used`, by others than reductions: those take a value as it is made
        self.kept: dict[int, int] = {}
        for place, value in enumerate(self.sequence):
            self.made.setdefault(value, place)
            instr = kernel.body[value]
            self.used.update(dict.fromkeys(operands(instr), place))
            if not isinstance(instr, Reduce):
                self.kept.update(dict.fromkeys(operands(instr), place))

    def _add(self, values: Iterable[int], sums: float = 0.0) -> None:
        first = len(self.sequence)
        self.sequence.extend(values)
        if len(self.sequence) > first:
            self.stages.append(_Stage(first, len(self.sequence), sums))

    # ---- the tile of one thread

    def _accesses(self) -> dict[str, int]:
        """Loads and stores that are contiguous along each dim of the tile."""
        found: dict[str, int] = {}
        for instr in self.kernel.body:
            if isinstance(instr, (Load, Store)):
                dims = {self.dim_of[a] for a in instr.index.axes() if instr.index.coefficient(a) == 1}
                for dim in dims:
                    if self.blocks[dim] > 1:
                        found[dim] = found.get(dim, 0) + 1
        return found

    def _held(self) -> dict[str, int]:
        """Elements of a tile that one thread holds along each dim, as Triton spreads them.

        A thread takes as many side by side as one access may have; the lanes of a warp, then the warps, fill the inner
        dim first; what is left over, each thread repeats.
        """
        dims = sorted((d for d in "rlxy" if self.blocks[d] > 1), key=lambda d: -self.accesses.get(d, 0))
        lanes, warps = self.arch.warp_size, self.schedule.num_warps
        each = max(1, math.prod(self.blocks.values()) // (lanes * warps))
        narrow = min((b.dtype.bytes for b in self.kernel.buffers), default=4)
        vector = min(max(1, _VECTOR_BYTES // narrow), each)
        held = dict.fromkeys(self.blocks, 1)
        for dim in dims:
            block = self.blocks[dim]
            across = max(1, min(lanes, block // min(vector, block)))
            down = max(1, min(warps, block // (min(vector, block) * across)))
            held[dim] = max(1, block // (across * down))
            lanes, warps, vector = lanes // across, warps // down, 1
        return held

    def _crosses(self) -> bool:
        """True where accesses are contiguous along several dims of a pointwise tile."""
        return not self.kernel.reduce and len(self.accesses) > 1

    def elements(self, value: int) -> int:
        """Elements of a value that one thread holds; neighbours that are the same for good are one."""
        varies = self.kernel.varies[value]
        return math.prod(self.held[d] // math.gcd(self.held[d], self._same(d, varies)) for d in self.held)

    def _same(self, dim: str, varies: frozenset[str]) -> int:
        """How many neighbours along a dim are the same for a value that varies along some of its axes; 0: all."""
        run = 1
        for axis in reversed([a for a, d in self.dim_of.items() if d == dim]):
            if axis in varies:
                return run
            size = self.sizes[axis]
            run *= size if isinstance(size, int) else 1
        return 0

    def size(self, value: int) -> float:
        """Registers of a value; numbers and positions are made where they are needed."""
        instr = self.kernel.body[value]
        if isinstance(instr, _Free):
            return 0.0
        dtype = result_dtype(instr)
        assert dtype is not None, "stores and checks have no value"
        width = _width(dtype) if isinstance(instr, Load) or dtype != BOOL else _BOOL
        return self.elements(value) * width

    def _sums(self, reduces: Iterable[int]) -> float:
        """Registers of accumulators, of which each point of the tile has its own."""
        found = [i for v in reduces if isinstance(i := self.kernel.body[v], Reduce)]
        centred = {i.arg for i in found if i.centred}  # such a sum keeps the plain one too
        total = 0.0
        for instr in found:
            kept = 2 if instr.position is not None or instr.centred else 0 if instr.arg in centred else 1
            total += math.prod(self.held.values()) * _width(instr.dtype) * kept
        return total

    def _summed(self) -> frozenset[int]:
        """Values that are loaded to be reduced over the row and nothing else: a thread adds them up as they come."""
        body = self.kernel.body
        readers: dict[int, list[int]] = {}
        for value, instr in enumerate(body):
            for operand in operands(instr):
                readers.setdefault(operand, []).append(value)
        found: set[int] = set()
        for value in reversed(range(len(body))):
            instr = body[value]
            loaded = isinstance(instr, Load) or (
                isinstance(instr, Compute) and instr.op == "cast" and isinstance(body[instr.args[0]], Load)
            )
            if loaded and value in readers and all(r in found or _is_sum(body[r]) for r in readers[value]):
                found.add(value)
        return frozenset(found)

    # ---- registers

    def registers(self) -> int:
        """Registers that ptxas gives the kernel."""
        most = self._most()
        programs = max(1, min(self.arch.max_blocks_per_sm, self.arch.max_threads_per_sm // self._threads()))
        free = min(most, self._share_of(programs))
        needed = self.needed()
        if needed <= free:
            looping = self.walks or self._loops()
            found = free if looping else max(needed, min(free, self._fixed() + _SPARE * self._ordered()))
        elif needed >= most:
            found = most
        else:
            while self._share_of(programs) < needed:
                programs -= 1
            above, below = min(most, self._share_of(programs)), self._share_of(programs + 1)
            near = needed - below < _GIVEN_UP * (above - below)
            found = below if near else needed + _FILLED * (above - needed)
        return max(_LEAST, min(round(found), self.schedule.maxnreg or most))

    def spilled_bytes(self) -> int:
        """Bytes that a thread spills."""
        return 4 * max(0, round(_NOT_AGAIN * self.needed()) - self._most())

    def _most(self) -> int:
        """Registers that a thread may have at most, for one program to reside."""
        return min(self.arch.max_registers_per_thread, self._share_of(1))

    def _threads(self) -> int:
        """Threads of a program."""
        return self.arch.warp_size * self.schedule.num_warps

    def _share_of(self, programs: int) -> int:
        """Registers a thread with which as many programs reside; a warp is given registers in units."""
        unit = self.arch.register_alloc_unit // self.arch.warp_size
        return self.arch.registers_per_sm // (self._threads() * programs) // unit * unit

    def needed(self) -> float:
        """Registers with which nothing is computed again or spilled."""
        return self._fixed() + max((self._stage(stage) for stage in self.stages), default=0.0)

    def _fixed(self) -> float:
        """Registers over the whole kernel: addresses, and sums over rows."""
        summed = [i for i in self.kernel.body if isinstance(i, Reduce) and i.over_loop] if self._loops() else []
        sums = sum(self.elements(i.arg) * _width(i.dtype) for i in summed)
        loops = self.walks or self._loops()
        pipelined = self.walks and self.schedule.num_stages > 1
        return _BASE + sums + _LOOP * loops + _PIPELINED * pipelined + _CROSSING * self._crosses()

    def _loops(self) -> bool:
        """True where rows are walked; those that are all taken at once need no loop."""
        loop = self.kernel.loop
        return bool(loop) and math.prod(self.sizes[a.name] for a in loop) != self.schedule.l_block

    def _stage(self, stage: _Stage) -> float:
        """Registers of a stage beside those of the whole kernel."""
        through, read, left = stage.sums, 0.0, 0.0
        for value, made in self.made.items():
            last = self.kept.get(value, -1)
            if self._is_repeated(value) or last < stage.first:
                continue
            if stage.first <= made < stage.last <= last:
                left += self.size(value)
            elif made < stage.first and last >= stage.last:
                through += self.size(value)
            elif made < stage.first:
                read += self.size(value)
        least = through + max(read, left)
        ordered = stage.sums + self._alive(stage)
        grown = min(1.0, max(0.0, (stage.last - stage.first - _SHORT) / (_LONG - _SHORT)))
        share = _CROSSING_SHARE if self._crosses() else _SHARE
        share += (1 - share) * grown
        inside = range(stage.first, stage.last)
        fresh = (self.sequence[p] for p in inside if self._is_fresh(p))
        loaded = sum(self._streamed(v) for v in fresh if isinstance(self.kernel.body[v], Load))
        flying = _IN_FLIGHT_WALKED * loaded if self.walks else _IN_FLIGHT * min(loaded, ordered)
        return max(least + share * max(0.0, ordered - least), through - stage.sums + read + flying)

    def _ordered(self) -> float:
        """Most registers in the order of the instructions, with all that is loaded to be summed up in flight."""
        return max((s.sums + self._alive(s) + self._summed_in(s) for s in self.stages), default=0.0)

    def _summed_in(self, stage: _Stage) -> float:
        inside = range(stage.first, stage.last)
        return sum(self.size(self.sequence[p]) for p in inside if self._is_fresh(p) and self.sequence[p] in self.summed)

    def _alive(self, stage: _Stage) -> float:
        """Most registers of a stage where each instruction is done for all elements before the next one."""
        ends: dict[int, float] = {}
        for value, made in self.made.items():
            if made < stage.first <= self.kept.get(value, -1) and not self._is_repeated(value):
                ends[self.used[value]] = ends.get(self.used[value], 0.0) + self.size(value)
        peak = alive = sum(ends.values())
        last = {o: p for p in range(stage.first, stage.last) for o in operands(self.kernel.body[self.sequence[p]])}
        for place in range(stage.first, stage.last):
            value = self.sequence[place]
            ending = ends.pop(place, 0.0)
            if self._is_fresh(place):
                size = self._streamed(value)
                end = (last if self._is_repeated(value) else self.used).get(value, stage.last)
                ends[end] = ends.get(end, 0.0) + size
                alive += size
                peak = max(peak, alive - min(ending, size))  # a result takes the place of what it is made of
            alive -= ending
        return peak

    def _is_repeated(self, value: int) -> bool:
        """True for a value of a walked row: each pass makes its own, which does not outlive a turn."""
        return self.walks and self.kernel.is_element(value)

    def _is_fresh(self, place: int) -> bool:
        """True where a value is made at a place of the sequence, and not only named again."""
        value = self.sequence[place]
        return self._is_repeated(value) or self.made[value] == place

    def _streamed(self, value: int) -> float:
        """Registers of a value, of which those that are only summed up are held one at a time along the row."""
        return self.size(value) / (self.held["r"] if value in self.summed else 1)


def _is_sum(instr: Instr) -> bool:
    return isinstance(instr, Reduce) and not instr.over_loop


def _width(dtype: DType) -> float:
    """32-bit registers of one element."""
    return dtype.bytes / 4
