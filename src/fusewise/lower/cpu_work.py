"""What one call of a CPU kernel does, counted in its instructions under its `CppSchedule`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusewise.device.cpu import CpuModel
from fusewise.errors import IRError
from fusewise.ir.affine import Index
from fusewise.ir.sizes import hint
from fusewise.lower.kernel import (
    Check,
    Compute,
    Const,
    CppSchedule,
    IndexOf,
    Kernel,
    Load,
    Random,
    Reduce,
    SizeOf,
    Store,
    operands,
    result_dtype,
)
from fusewise.plan.cost import value_bytes
from fusewise.plan.cpu_cost import FRESH_BYTES, CpuWork, class_of, predict_cpu
from fusewise.plan.plan import KernelStep, Plan, read_bytes
from fusewise.plan.region_cost import PIECE

_PHILOX = 30.0  # gathered elements' worth of a random number that is drawn alone: 10 rounds for one element
_TURNED = 3.0  # instructions a vector of a load along another axis: squares are read, turned and read again
_COLUMNS = 64  # results of sums down columns that a core makes at a time


def cpu_work_of(plan: Plan, step: KernelStep, kernel: Kernel) -> CpuWork:
    """The work of one step of a plan, sizes by the hints; a kernel for a GPU raises `IRError`."""
    graph, hints = plan.graph, plan.graph.hints()
    over = dict(step.over)
    writes = {v: value_bytes(graph, v, hints) for v in step.writes}
    counted = _Counting(kernel, hints)
    return CpuWork(
        read_bytes=sum(read_bytes(graph, step.region, v, hints) for v in step.reads),
        write_bytes=sum(writes.values()),
        lanes=counted.lanes(),
        points=counted.points,
        live=counted.live(),
        across_calls=counted.across_calls(),
        pieces=counted.pieces(),
        threads=counted.schedule.threads,
        vectors=counted.schedule.vector_axis is not None,
        fresh_bytes=sum(size for v, size in writes.items() if size >= FRESH_BYTES and v not in over),
    )


def price_cpu(plan: Plan, kernels: Mapping[str, Kernel], cpu: CpuModel) -> Plan:
    """The plan with each kernel's time as its own instructions and bytes give it."""

    def priced(step: KernelStep) -> KernelStep:
        found = predict_cpu(cpu, cpu_work_of(plan, step, kernels[step.name]))
        return replace(step, predicted_us=found.time_us, prediction=found)

    return replace(plan, steps=tuple(priced(s) if isinstance(s, KernelStep) else s for s in plan.steps))


class _Counting:
    def __init__(self, kernel: Kernel, hints: Mapping[str, int]) -> None:
        if not isinstance(kernel.schedule, CppSchedule):
            raise IRError(f"kernel {kernel.name} has no C++ schedule")
        self.kernel = kernel
        self.schedule = kernel.schedule
        self.hints = hints
        self.sizes = {a.name: max(1, hint(a.size, hints)) for a in kernel.axes}
        self.points = math.prod(self.sizes.values())
        self.loops: list[Sequence[int]] = [kernel.before, kernel.final]
        for step in kernel.passes:
            self.loops += [[*step.elem, *step.reduces], step.after]

    def lanes(self) -> dict[str, float]:
        """Lanes by class; an element value counts once in each pass that computes it."""
        found: Counter[str] = Counter()
        seen: set[int] = set()
        for loop in self.loops:
            for value in loop:
                if value in seen and value in self.kernel.carried:
                    continue
                seen.add(value)
                kind, each = self._one(value)
                found[kind] += each * self._executed(value)  # type: ignore[assignment]  # a part of one is meant
        return {kind: lanes for kind, lanes in found.items() if lanes}

    def _executed(self, value: int) -> int:
        """How often an instruction is executed, in elements; a reduction as often as its operand is made."""
        instr = self.kernel.body[value]
        axes = self.kernel.varies[instr.arg if isinstance(instr, Reduce) else value]
        if isinstance(instr, Store):
            axes = axes | instr.index.axes()
        return math.prod(self.sizes[a] for a in axes)

    def _one(self, value: int) -> tuple[str, float]:
        """(class, lanes of 4 bytes) of an element of an instruction."""
        body = self.kernel.body
        match body[value]:
            case Compute(op=op, args=args, dtype=dtype):
                return class_of(op, dtype, [t for a in args if (t := result_dtype(body[a])) is not None])
            case Reduce(op=op, dtype=dtype, over_loop=over_loop):
                kind, each = class_of(op, dtype, [])
                return kind, each + (2 if over_loop else 0)  # the sums of a row lie in memory
            case Random(kind=kind, element=element):
                apart = self.kernel.varies[body[value].seed] or not self._is_contiguous(element)  # type: ignore[union-attr]
                return ("gather", _PHILOX) if apart else class_of(kind, body[value].dtype, [])  # type: ignore[union-attr]
            case Load(index=index) | Store(index=index):
                return self._access(index, body[value])
            case Check():
                return "plain", 2.0
            case IndexOf(index=index):
                return ("plain", 1.0) if self._is_contiguous(index) else ("gather", 1.0)
            case _:
                return "plain", 0.0

    def _access(self, index: Index, instr: object) -> tuple[str, float]:
        if self._is_contiguous(index):
            return "plain", 1.0
        turned = not self.kernel.reduce and any(
            a.name != self.schedule.vector_axis and hint(index.coefficient(a.name), self.hints) == 1
            for a in self.kernel.parallel
        )
        if isinstance(instr, Load) and turned and index.is_affine:
            return "plain", _TURNED
        return "gather", 1.0

    def _is_contiguous(self, index: Index) -> bool:
        """True where neighbours on the vector axis are neighbours in memory, or one and the same."""
        axis = self.schedule.vector_axis
        if axis is None or any(axis in self.kernel.varies[a.node] for a in index.loaded()):
            return axis is None
        rest = Index(tuple((a, c) for a, c in index.terms if a != axis), index.const)
        return axis not in rest.axes() and hint(index.coefficient(axis), self.hints) in (0, 1)

    # ---- registers

    def live(self) -> float:
        """Most 4-byte vectors alive at once inside one loop, accumulators included."""
        return max((self._in_order(loop)[0] for loop in self.loops), default=0.0)

    def across_calls(self) -> float:
        """Vectors that wait for a call, over all calls of an element."""
        return sum(self._in_order(loop)[1] for loop in self.loops)

    def _in_order(self, loop: Sequence[int]) -> tuple[float, float]:
        body = self.kernel.body
        inside = [v for v in sorted(loop) if self._is_vector(v)]
        last = {operand: v for v in inside for operand in operands(body[v])}
        alive = peak = float(sum(isinstance(body[v], Reduce) for v in inside))
        waiting = 0.0
        ends: dict[int, float] = {}
        for value in inside:
            instr = body[value]
            called = isinstance(instr, Compute) and self._one(value)[0] == "transcendental"
            ending = ends.pop(value, 0.0)
            if called:
                waiting += alive - ending
            if value in last and not isinstance(instr, (Const, SizeOf, Reduce)):
                dtype = result_dtype(instr)
                width = 1.0 if dtype is None else max(0.5, dtype.bytes / 4)
                ends[last[value]] = ends.get(last[value], 0.0) + width
                alive += width
            peak = max(peak, alive)
            alive -= ending
        return peak, waiting

    def _is_vector(self, value: int) -> bool:
        instr = self.kernel.body[value]
        axis = self.schedule.vector_axis
        return axis in self.kernel.varies[instr.arg if isinstance(instr, Reduce) else value]

    # ---- sharing between cores

    def pieces(self) -> int:
        """Equal parts that the cores share."""
        kernel, vector = self.kernel, self.schedule.vector_axis
        outer = math.prod(self.sizes[a.name] for a in kernel.parallel if a.name != vector)
        if any(a.name == vector for a in kernel.parallel):
            outer *= -(-self.sizes[vector or ""] // (_COLUMNS if kernel.reduce else PIECE))
        return max(outer, -(-self.points // PIECE) if kernel.reduce else 1)
