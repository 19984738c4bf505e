"""What one launch of a GPU kernel does to memory: programs, turns of its loops, bytes of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fusewise.errors import IRError
from fusewise.ir.affine import Div, Index, Mod
from fusewise.ir.pointwise import compute
from fusewise.ir.rounding import NUMPY, Array
from fusewise.ir.sizes import hint
from fusewise.lower.kernel import Compute, Const, IndexOf, Kernel, Load, SizeOf, Store, TritonSchedule, operands
from fusewise.plan.resources import Turn, Work

_SMALL_BYTES = 64 * 1024  # a tensor of which the first-level cache, if of no others, keeps all
_SAMPLES = 4096  # points at which a mask is looked at


def work_of(kernel: Kernel, hints: Mapping[str, int]) -> Work:
    """What one launch of `kernel` does under its `TritonSchedule`, sizes by the hints."""
    return _Counting(kernel, hints).work()


class _Counting:
    def __init__(self, kernel: Kernel, hints: Mapping[str, int]) -> None:
        if not isinstance(kernel.schedule, TritonSchedule):
            raise IRError(f"kernel {kernel.name} has no Triton schedule")
        self.kernel = kernel
        self.schedule = kernel.schedule
        self.hints = hints
        self.sizes = {a.name: max(1, hint(a.size, hints)) for a in kernel.axes}
        self.dim_of = dict.fromkeys(self.schedule.y_axes, "y") | dict.fromkeys(self.schedule.x_axes, "x")
        self.dim_of |= {a.name: "r" for a in kernel.reduce} | {a.name: "l" for a in kernel.loop}
        self.length = {d: math.prod(self.sizes[a] for a, at in self.dim_of.items() if at == d) for d in "yxrl"}
        schedule = self.schedule
        blocks = {"y": schedule.y_block, "x": schedule.x_block, "r": schedule.r_block, "l": schedule.l_block}
        self.tiles = {d: -(-self.length[d] // blocks[d]) for d in "yxrl"}
        self.shares = _Shares(kernel, self.sizes, hints)
        self.small: dict[Load, float] = {}
        self.small_asked = 0.0

    def work(self) -> Work:
        kernel = self.kernel
        walked = bool(kernel.reduce) and not self.schedule.persistent
        inside = {v for step in kernel.passes for v in (*step.elem, *step.after)}
        straight = set(kernel.before) | set(kernel.final)
        loops: list[Turn] = []
        if kernel.loop:
            rows = {v for v in inside | straight if any(a.name in kernel.varies[v] for a in kernel.loop)}
            rows |= {v for v in inside if isinstance(kernel.body[v], Store)} - set(kernel.final)
            loops.append(self._turn(rows, self.tiles["l"]))
            straight = (inside | straight) - rows
        elif walked:
            for step in kernel.passes:
                if step.elem:
                    loops.append(self._turn(step.elem, self.tiles["r"]))
                straight |= set(step.after)
        else:
            straight |= inside
        outside = self._turn(straight, 1)
        return Work(
            programs=self.tiles["y"] * self.tiles["x"],
            straight=outside,
            loops=tuple(loops),
            pipelined=self.schedule.num_stages if kernel.loop or walked else 1,
            read_share=self._read_shares(),
            near_bytes=sum(self.small.values()),
            near_asked_bytes=self.small_asked,
        )

    def _turn(self, values: Iterable[int], turns: int) -> Turn:
        moved = {"in": 0.0, "out": 0.0}
        for value in values:
            instr = self.kernel.body[value]
            if isinstance(instr, (Load, Store)):
                share = self.shares.of(instr.mask) if isinstance(instr, Load) and instr.mask is not None else 1.0
                buffer = self.kernel.buffers[instr.buffer]
                tile_bytes = self._points(value) * buffer.dtype.bytes
                distinct = self._distinct_bytes(value, buffer.dtype.bytes)
                if isinstance(instr, Load) and distinct <= _SMALL_BYTES:
                    self.small[instr] = distinct
                    self.small_asked += turns * tile_bytes * share
                    continue
                moved[buffer.role] += tile_bytes * share
        return Turn(turns, moved["in"], moved["out"])

    def _distinct_bytes(self, value: int, size: int) -> int:
        """Bytes that all programs together touch."""
        return size * math.prod(self.sizes[a] for a in self.kernel.varies[value])

    def _points(self, value: int) -> float:
        """Elements of one tile of a value, those past the end of an axis left out."""
        dims = {self.dim_of[a] for a in self.kernel.varies[value]}
        return math.prod(self.length[d] / self.tiles[d] for d in dims)

    def _read_shares(self) -> dict[int, float]:
        found: dict[int, float] = {}
        for instr in self.kernel.body:
            if isinstance(instr, Load):
                node = self.kernel.buffers[instr.buffer].node
                share = 1.0 if instr.mask is None else self.shares.of(instr.mask)
                found[node] = max(found.get(node, 0.0), share)
        return found


class _Shares:
    """For masks that follow from indexes alone the share of points where they hold, by sampling."""

    def __init__(self, kernel: Kernel, sizes: Mapping[str, int], hints: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.hints = hints
        draw = np.random.default_rng(0)
        self.points = {name: draw.integers(0, size, _SAMPLES) for name, size in sizes.items()}
        self.known: dict[int, Array | None] = {}

    def of(self, mask: int) -> float:
        instr = self.kernel.body[mask]
        if isinstance(instr, Compute) and instr.op == "and":
            return min(self.of(a) for a in instr.args)  # one of them may depend on data
        value = self._value(mask)
        return 1.0 if value is None else float(np.mean(np.broadcast_to(value, (_SAMPLES,))))

    def _value(self, number: int) -> Array | None:
        stack = [number]
        while stack:
            at = stack[-1]
            waiting = [o for o in operands(self.kernel.body[at]) if o not in self.known]
            if waiting:
                stack += waiting
            else:
                self.known[stack.pop()] = self._make(at)
        return self.known[number]

    def _make(self, number: int) -> Array | None:
        match self.kernel.body[number]:
            case Const(value=value, dtype=dtype):
                return np.asarray(value, NUMPY[dtype.name])
            case SizeOf(expr=expr, dtype=dtype):
                return np.asarray(hint(expr, self.hints), NUMPY[dtype.name])
            case IndexOf(index=index, dtype=dtype):
                place = self._index(index)
                return None if place is None else place.astype(NUMPY[dtype.name])
            case Compute(op=op, args=args, dtype=dtype):
                values = [self.known[a] for a in args]
                if any(v is None for v in values):
                    return None
                with np.errstate(all="ignore"):
                    return compute(op, [v for v in values if v is not None], dtype)
            case _:
                return None

    def _index(self, index: Index) -> Array | None:
        total: Any = np.asarray(hint(index.const, self.hints), np.int64)
        for atom, coef in index.terms:
            if isinstance(atom, str):
                part: Any = self.points[atom]
            elif isinstance(atom, (Div, Mod)):
                part, by = self._index(atom.arg), hint(atom.by, self.hints)
                if part is not None:
                    part = part // by if isinstance(atom, Div) else part % by
            else:
                part = None
            if part is None:
                return None
            total = total + part * hint(coef, self.hints)
        return np.asarray(total)
