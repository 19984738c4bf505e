"""Hand-written kernels for the C++ code generator, run for real and in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fusewise.ir.affine import Index, Loaded, axis
from fusewise.ir.dtypes import BOOL, I64, DType
from fusewise.ir.ops import OPS
from fusewise.ir.rounding import NUMPY, Array, bf16_from_bits, bf16_to_bits, round_bf16
from fusewise.ir.sizes import Size, symbols_of
from fusewise.lower.interp import run_kernel
from fusewise.lower.kernel import (
    Axis,
    Buffer,
    Check,
    Compute,
    Const,
    CppSchedule,
    IndexOf,
    Instr,
    Kernel,
    Load,
    Random,
    Reduce,
    Role,
    SizeOf,
    Store,
    operands,
)
from fusewise.lower.passes import make_passes


def at(*terms: tuple[str, Size], const: Size = 0) -> Index:
    """Index from (axis, step) pairs."""
    index = Index((), const)
    for name, step in terms:
        index = index + axis(name) * step
    return index


def loaded(value: int) -> Index:
    """The index that is value `value`."""
    return Index(((Loaded(value, ()), 1),))


@dataclass
class Make:
    """Builds a kernel: instructions in order, `varies` and the passes worked out."""

    name: str
    axes: Sequence[Axis]
    vector: str | None
    carry: bool = False
    threads: bool = True
    buffers: list[Buffer] = field(default_factory=list)
    body: list[Instr] = field(default_factory=list)
    varies: list[frozenset[str]] = field(default_factory=list)

    def buffer(self, name: str, dtype: DType, role: Role = "in") -> int:
        self.buffers.append(Buffer(name, dtype, role, len(self.buffers)))
        return len(self.buffers) - 1

    def put(self, instr: Instr) -> int:
        axes: frozenset[str] = frozenset().union(*(self.varies[o] for o in operands(instr)), frozenset())
        match instr:
            case Load(index=i) | Store(index=i) | IndexOf(index=i) | Random(element=i):
                axes |= i.axes()
            case Reduce(over_loop=over_loop):
                axes -= {a.name for a in self.axes if (a.loop if over_loop else a.reduce)}
        self.body.append(instr)
        self.varies.append(axes)
        return len(self.body) - 1

    def const(self, value: bool | int | float, dtype: DType) -> int:
        return self.put(Const(value, dtype))

    def size(self, expr: Size, dtype: DType = I64) -> int:
        return self.put(SizeOf(expr, dtype))

    def index(self, index: Index, dtype: DType = I64) -> int:
        return self.put(IndexOf(index, dtype))

    def load(
        self, name: str, dtype: DType, index: Index, mask: int | None = None, other: bool | int | float = 0
    ) -> int:
        known = {b.name: i for i, b in enumerate(self.buffers)}
        buffer = known[name] if name in known else self.buffer(name, dtype)
        return self.put(Load(buffer, index, dtype, mask, other))

    def op(self, name: str, *args: int, dtype: DType | None = None) -> int:
        if dtype is None:
            dtype = BOOL if OPS[name].result == "bool" else self.body[args[-1]].dtype  # type: ignore[union-attr]
        return self.put(Compute(name, args, dtype))

    def reduce(
        self, op: str, arg: int, dtype: DType | None = None, position: Index | None = None, over_loop: bool = False
    ) -> int:
        if dtype is None:
            dtype = I64 if position is not None else self.body[arg].dtype  # type: ignore[union-attr]
        return self.put(Reduce(op, arg, dtype, position, over_loop=over_loop))

    def random(self, kind: str, seed: int, element: Index, slot: int, keep_prob: float, dtype: DType) -> int:
        given = self.body[seed]
        if isinstance(given, Load):
            self.buffers[given.buffer] = replace(self.buffers[given.buffer], seed=True)
        return self.put(Random(kind, seed, element, slot, keep_prob, dtype))  # type: ignore[arg-type]

    def check(self, cond: int, mask: int | None = None) -> int:
        return self.put(Check(cond, "index out of range", mask))

    def store(self, name: str, index: Index, value: int) -> None:
        dtype = self.body[value].dtype  # type: ignore[union-attr]
        known = {b.name: i for i, b in enumerate(self.buffers)}
        buffer = known[name] if name in known else self.buffer(name, dtype, "out")
        self.put(Store(buffer, index, value))

    def done(self) -> Kernel:
        reduce = {a.name for a in self.axes if a.reduce}
        is_element = [bool(v & reduce) for v in self.varies]
        order = make_passes(self.body, is_element, lambda _: self.carry)
        sizes: list[Size] = [a.size for a in self.axes]
        for instr in self.body:
            match instr:
                case Load(index=i) | Store(index=i):
                    sizes += [i.const, *(c for _, c in i.terms)]
                case SizeOf(expr=expr):
                    sizes.append(expr)
        return Kernel(
            name=self.name,
            axes=tuple(self.axes),
            buffers=tuple(self.buffers),
            sizes=tuple(sorted(symbols_of(sizes))),
            body=tuple(self.body),
            varies=tuple(self.varies),
            before=order.before,
            passes=order.passes,
            carried=order.carried,
            schedule=CppSchedule(self.vector, self.threads),
            final=order.final,
        )


@dataclass
class Case:
    """A kernel, its inputs and the size of each output.

    Attributes:
        inputs: values of the `in` buffers by name, flat; bf16 as f32.
        outputs: number of elements of the `out` buffers by name.
        sizes: values of the size symbols.
        ulps: largest distance from the interpreter, in units in the last place of the largest result (0: none at all).
        exact: outputs that have to agree to the last bit all the same.
    """

    kernel: Kernel
    inputs: Mapping[str, Array]
    outputs: Mapping[str, int]
    sizes: Mapping[str, int] = field(default_factory=dict)
    ulps: int = 0
    exact: frozenset[str] = frozenset()


def to_stored(value: Array, dtype: DType) -> Array:
    """The bits that a kernel reads."""
    if dtype.name == "bf16":
        return bf16_to_bits(value)
    return np.ascontiguousarray(value, NUMPY[dtype.name])


def from_stored(value: Array, dtype: DType) -> Array:
    return bf16_from_bits(value) if dtype.name == "bf16" else value


def expected(case: Case) -> dict[str, Array]:
    """What the interpreter computes."""
    buffers: list[Array] = []
    for buffer in case.kernel.buffers:
        if buffer.role == "in":
            value = case.inputs[buffer.name]
            if buffer.dtype.name == "bf16":
                value = round_bf16(value)
            buffers.append(value.astype(NUMPY[buffer.dtype.name]))
        else:
            buffers.append(np.zeros(case.outputs[buffer.name], NUMPY[buffer.dtype.name]))
    run_kernel(case.kernel, buffers, case.sizes)
    return {b.name: v for b, v in zip(case.kernel.buffers, buffers, strict=True) if b.role == "out"}


def actual(case: Case, function: object) -> dict[str, Array]:
    """What the compiled kernel computes. Outputs are poisoned, and guarded at both ends."""
    arguments: list[int] = []
    held: list[Array] = []
    outputs: dict[str, tuple[Array, int, DType]] = {}
    for buffer in case.kernel.buffers:
        if buffer.role == "in":
            stored = to_stored(case.inputs[buffer.name], buffer.dtype)
            held.append(stored)
            arguments.append(stored.ctypes.data)
            continue
        count = case.outputs[buffer.name]
        kind = np.dtype(np.uint16) if buffer.dtype.name == "bf16" else NUMPY[buffer.dtype.name]
        room = np.frombuffer(bytearray(b"\x5a" * ((count + 2 * GUARD) * kind.itemsize)), kind)
        outputs[buffer.name] = (room, count, buffer.dtype)
        arguments.append(room.ctypes.data + GUARD * kind.itemsize)
    code = function(*arguments, *(case.sizes[s] for s in case.kernel.sizes))  # type: ignore[operator]
    if code > 0:
        raise IndexError(case.kernel.body[code - 1].message)  # type: ignore[union-attr]
    assert code == 0
    out: dict[str, Array] = {}
    for name, (room, count, dtype) in outputs.items():
        edges = np.concatenate([room[:GUARD], room[GUARD + count :]])
        assert (edges.view(np.uint8) == 0x5A).all(), f"{name}: written beyond its ends"
        out[name] = from_stored(room[GUARD : GUARD + count].copy(), dtype)
    return out


GUARD = 64


def compare(case: Case, got: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    """Fails where an output is further from the interpreter's than the case allows."""
    for buffer in case.kernel.buffers:
        if buffer.role == "in":
            continue
        value, expect = got[buffer.name], want[buffer.name]
        where = f"{case.kernel.name}.{buffer.name}"
        if case.ulps == 0 or value.dtype.kind != "f" or buffer.name in case.exact:
            np.testing.assert_array_equal(value, expect, err_msg=where)
            if value.dtype.kind == "f":
                number = ~np.isnan(expect)
                np.testing.assert_array_equal(np.signbit(value)[number], np.signbit(expect)[number], err_msg=where)
            continue
        step = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[buffer.dtype.name]
        scale = np.abs(expect[np.isfinite(expect)]).max(initial=0.0)
        np.testing.assert_allclose(value, expect, rtol=case.ulps * step, atol=case.ulps * step * scale, err_msg=where)
