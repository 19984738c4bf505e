"""Predicts the registers of a GPU kernel from what is alive in it, before anything is compiled.

A value takes (elements a thread) x (its bytes / 4) registers, narrow ones packed. At each stage of the kernel (a pass
over the row, or what stands between two passes) three things add up: what is held over the stage, the larger of what
it loads and of what it leaves for later, and sums over rows. The weights were fitted on the kernels of the catalogue
as ptxas compiles them for cc 9.0; `bench --predict` prints predicted beside compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fusewise.errors import IRError
from fusewise.ir.dtypes import DType
from fusewise.lower.kernel import (
    Check,
    Const,
    IndexOf,
    Kernel,
    Load,
    Random,
    Reduce,
    SizeOf,
    Store,
    TritonSchedule,
    arithmetic,
    operands,
    result_dtype,
)
from fusewise.plan.resources import Resources, Section

_BASE = 11.0
_A_BUFFER, _AN_INDEX = 0.45, 0.65  # addresses, most of which share their parts
_HELD = 0.58  # of what is held over a stage: the assembler computes a part of it again
_LOADED = 0.74  # of what a stage loads is in flight at once
_LEFT = 0.96  # of what a stage leaves for later ones
_ALIVE = 0.37  # a further value alive inside a stage
_SHORT, _LONG = 200, 600  # instructions of a stage: the elements of a thread are taken in turn up to the one, and
# side by side from the other on, since the assembler looks no further ahead
_RANDOM = 2.0
_ROW_LOOP, _WALK, _WIDE_INDEX = 33.0, 19.0, 4.0  # pipelined loop over rows, loop over the row, 64-bit indexes
_LEAST, _MOST = 8, 255

_Instr = Const | SizeOf | IndexOf | Store | Check


@dataclass(frozen=True, slots=True)
class _Stage:
    """A stretch of the kernel in order of execution: positions from `first` up to `last` in the sequence."""

    first: int
    last: int


def predict_registers(kernel: Kernel) -> int:
    """Registers a thread of a kernel under its `TritonSchedule`, without spilling at most 255."""
    return _Lives(kernel).registers()


def predict_resources(kernel: Kernel) -> Resources:
    """Resources as far as they can be told without compiling."""
    schedule = _schedule(kernel)
    tile = schedule.y_block * schedule.x_block * (schedule.r_block if kernel.reduce else 1)
    executed = max(1, round(arithmetic(kernel.body) * tile / (schedule.num_warps * 32)))
    wanted = _Lives(kernel).wanted()
    spilled = 4 * max(0, round(wanted) - _MOST)
    return Resources(
        regs_per_thread=predict_registers(kernel),
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

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.schedule = _schedule(kernel)
        self.dim_of = dict.fromkeys(self.schedule.y_axes, "y") | dict.fromkeys(self.schedule.x_axes, "x")
        self.dim_of |= {a.name: "r" for a in kernel.reduce} | {a.name: "l" for a in kernel.loop}
        self.walks = bool(kernel.reduce) and not self.schedule.persistent
        self.most_elements = max((self.elements(v) for v in range(len(kernel.body))), default=1.0)
        self.sequence: list[int] = []
        self.stages: list[_Stage] = []
        self._add(kernel.before)
        for step in kernel.passes:
            self._add(step.elem)
            self._add((*step.reduces, *step.after))
        self._add(kernel.final)
        self.made: dict[int, int] = {}
        self.used: dict[int, int] = {}
        for place, value in enumerate(self.sequence):
            self.made.setdefault(value, place)
            self.used.update(dict.fromkeys(operands(kernel.body[value]), place))

    def _add(self, values: Iterable[int]) -> None:
        first = len(self.sequence)
        self.sequence.extend(values)
        if len(self.sequence) > first:
            self.stages.append(_Stage(first, len(self.sequence)))

    def registers(self) -> int:
        return max(_LEAST, min(_MOST, round(self.wanted())))

    def wanted(self) -> float:
        """Registers that the kernel would take if there were no limit."""
        kernel = self.kernel
        indexes = {i.index for i in kernel.body if isinstance(i, (Load, Store)) and i.index.terms}
        total = _BASE + _A_BUFFER * len(kernel.buffers) + _AN_INDEX * len(indexes)
        total += sum(
            self.elements(i.arg) * _width(i.dtype) for i in kernel.body if isinstance(i, Reduce) and i.over_loop
        )
        total += max((self._stage(stage) for stage in self.stages), default=0.0)
        total += _ROW_LOOP * bool(kernel.loop) + _WALK * self.walks + _WIDE_INDEX * (self.schedule.index_bits == 64)
        return total

    def _stage(self, stage: _Stage) -> float:
        body = self.kernel.body
        inside = self.sequence[stage.first : stage.last]
        held = left = 0.0
        for value, made in self.made.items():
            if self.walks or self.elements(value) <= 1:
                continue  # over a row that is walked, element values do not outlive a turn
            if made < stage.first <= self.used.get(value, -1):
                held += self.size(value)
            elif stage.first <= made < stage.last <= self._last_reader(value):
                left += self.size(value)
        loaded = sum(self.size(v) for v in inside if isinstance(body[v], Load) and self.elements(v) > 1)
        drawn = any(isinstance(body[v], Random) for v in inside)
        alive = self._alive(stage)
        together = min(1.0, max(0.0, (len(inside) - _SHORT) / (_LONG - _SHORT)))
        inner = _LOADED * loaded + (1 - together) * _ALIVE * max(0.0, alive - 1) + together * alive * self.most_elements
        return _HELD * held + max(inner, _LEFT * left) + _RANDOM * drawn

    def _last_reader(self, value: int) -> int:
        """Place of the last reader that is no reduction of the row: those take a value as it is made."""
        body = self.kernel.body
        last = -1
        for place in range(self.made[value] + 1, self.used.get(value, -1) + 1):
            reader = body[self.sequence[place]]
            if value in operands(reader) and not isinstance(reader, Reduce):
                last = place
        return last

    def _alive(self, stage: _Stage) -> float:
        """Most values of one element alive at once inside a stage, in registers."""
        alive = peak = 0.0
        ends: dict[int, float] = {}
        for place in range(stage.first, stage.last):
            value = self.sequence[place]
            full = self.elements(value) >= self.most_elements and self.kernel.varies[value]
            if self.made[value] == place and value in self.used and full and self.size(value):
                width = max(0.5, _width(self._dtype(value)))
                alive += width
                ends[self.used[value]] = ends.get(self.used[value], 0.0) + width
            peak = max(peak, alive)
            alive -= ends.pop(place, 0.0)
        return peak

    def elements(self, value: int) -> float:
        """Elements of a value that one thread holds."""
        blocks = {"y": self.schedule.y_block, "x": self.schedule.x_block, "r": self.schedule.r_block, "l": 1}
        points = math.prod(blocks[d] for d in {self.dim_of[a] for a in self.kernel.varies[value]})
        return max(1.0, points / (32 * self.schedule.num_warps))

    def size(self, value: int) -> float:
        """Registers of a value; numbers and positions are made where they are needed."""
        if isinstance(self.kernel.body[value], _Instr):
            return 0.0
        return self.elements(value) * _width(self._dtype(value))

    def _dtype(self, value: int) -> DType:
        dtype = result_dtype(self.kernel.body[value])
        assert dtype is not None, "stores and checks have no value"
        return dtype


def _width(dtype: DType) -> float:
    """32-bit registers of one element."""
    return dtype.bytes / 4
