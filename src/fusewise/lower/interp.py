"""Runs kernel IR in numpy: the oracle that the lowering and both code generators are tested against.

Every value is an array with one dim an axis of the kernel (size 1 along axes on which it does not vary). Buffers are
flat arrays of elements; bf16 is held as f32 rounded to bf16.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping, Sequence

import numpy as np

from fusewise.ir import philox
from fusewise.ir.affine import Div, Index, Mod
from fusewise.ir.ops import ERRORS
from fusewise.ir.pointwise import compute
from fusewise.ir.reductions import reduce
from fusewise.ir.rounding import NUMPY, Array, round_scalar
from fusewise.ir.sizes import Size
from fusewise.lower.kernel import Check, Compute, Const, IndexOf, Kernel, Load, Random, Reduce, SizeOf, Store


def run_kernel(kernel: Kernel, buffers: Sequence[Array], sizes: Mapping[str, int] | None = None) -> None:
    """Runs `kernel` on flat `buffers` (in its order); outputs are written in place.

    Raises:
        IndexError: a `Check` fails.
    """
    with np.errstate(all="ignore"):
        _Run(kernel, buffers, dict(sizes or {})).run()


class _Run:
    def __init__(self, kernel: Kernel, buffers: Sequence[Array], sizes: dict[str, int]) -> None:
        self.kernel = kernel
        self.buffers = buffers
        self.sizes = sizes
        rank = len(kernel.axes)
        self.extent = {a.name: self.size(a.size) for a in kernel.axes}
        self.grid: dict[str, Array] = {}
        for place, axis in enumerate(kernel.axes):
            shape = [1] * rank
            shape[place] = self.extent[axis.name]
            self.grid[axis.name] = np.arange(self.extent[axis.name], dtype=np.int64).reshape(shape)
        self.values: MutableMapping[int, Array] = {}

    def size(self, size: Size) -> int:
        return size if isinstance(size, int) else int(size.subs({s: self.sizes[str(s)] for s in size.free_symbols}))

    def index(self, index: Index) -> Array:
        total = np.full([1] * len(self.kernel.axes), self.size(index.const), dtype=np.int64)
        for atom, coef in index.terms:
            if isinstance(atom, str):
                part = self.grid[atom]
            elif isinstance(atom, Div):
                part = self.index(atom.arg) // self.size(atom.by)
            elif isinstance(atom, Mod):
                part = self.index(atom.arg) % self.size(atom.by)
            else:
                part = self.values[atom.node].astype(np.int64)
            total = total + part * self.size(coef)
        return total

    def full(self, value: Array, axes: frozenset[str]) -> Array:
        """`value` spread over every point of `axes`."""
        shape = tuple(self.extent[a.name] if a.name in axes else 1 for a in self.kernel.axes)
        return np.broadcast_to(value, np.broadcast_shapes(value.shape, shape))

    def run(self) -> None:
        for number, instr in enumerate(self.kernel.body):
            varies = self.kernel.varies[number]
            match instr:
                case Const(value=value, dtype=dtype):
                    number_value = round_scalar(value, dtype) if dtype.is_float else value
                    self.values[number] = np.full([1] * len(self.kernel.axes), number_value, NUMPY[dtype.name])
                case SizeOf(expr=expr, dtype=dtype):
                    self.values[number] = np.full([1] * len(self.kernel.axes), self.size(expr), NUMPY[dtype.name])
                case IndexOf(index=index, dtype=dtype):
                    self.values[number] = self.index(index).astype(NUMPY[dtype.name])
                case Load():
                    self.values[number] = self.load(instr, varies)
                case Compute(op=op, args=args, dtype=dtype):
                    self.values[number] = compute(op, [self.values[a] for a in args], dtype)
                case Random():
                    self.values[number] = self.random(instr)
                case Reduce():
                    self.values[number] = self.reduce(instr)
                case Store(buffer=buffer, index=index, value=stored):
                    spread = self.full(self.values[stored], varies)
                    place = np.broadcast_to(self.index(index), spread.shape)
                    self.buffers[buffer][place] = spread
                case Check(cond=cond, message=message, mask=mask, error=error):
                    holds = self.values[cond] if mask is None else self.values[cond] | ~self.values[mask]
                    if not holds.all():
                        raise ERRORS[error](message)

    def load(self, instr: Load, varies: frozenset[str]) -> Array:
        place = self.full(self.index(instr.index), varies)
        source = self.buffers[instr.buffer]
        if instr.mask is None:
            return np.asarray(source[place])
        mask = np.broadcast_to(self.values[instr.mask], place.shape)
        out = np.full(place.shape, instr.other, dtype=source.dtype)
        out[mask] = source[place[mask]]
        return out

    def random(self, instr: Random) -> Array:
        seed = int(self.values[instr.seed].reshape(-1)[0])
        element = self.index(instr.element)
        if instr.kind == "keep":
            return philox.keep(seed, instr.slot, element, instr.keep_prob)
        return philox.uniform(seed, instr.slot, element)

    def reduce(self, instr: Reduce) -> Array:
        if instr.over_loop:
            walked = tuple(i for i, a in enumerate(self.kernel.axes) if a.loop)
            rows = self.full(self.values[instr.arg], frozenset(a.name for a in self.kernel.loop))
            return np.expand_dims(reduce(instr.op, rows, walked, instr.dtype), walked)
        places = tuple(i for i, a in enumerate(self.kernel.axes) if a.reduce)
        spread = self.full(self.values[instr.arg], frozenset(a.name for a in self.kernel.reduce))
        if instr.centred:
            mean = np.expand_dims(reduce("sum", spread, places, instr.dtype), places) / math.prod(
                spread.shape[i] for i in places
            )
            spread = (spread - mean) ** 2
        if instr.position is None:
            return np.expand_dims(reduce(instr.op, spread, places, instr.dtype), places)
        # the smallest position among the equals, whatever the order of the axes
        positions = np.broadcast_to(self.index(instr.position), spread.shape)
        best = np.expand_dims(reduce("max" if instr.op == "argmax" else "min", spread, places, instr.dtype), places)
        hit = np.where(np.isnan(best), np.isnan(spread), spread == best) if spread.dtype.kind == "f" else spread == best
        chosen: Array = np.where(hit, positions, np.iinfo(np.int64).max)
        return np.asarray(chosen.min(axis=places, keepdims=True))
