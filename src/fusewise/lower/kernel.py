"""Kernel IR: one region under one schedule, ready to print as Triton or C++.

A kernel iterates over its axes. Parallel axes are independent of each other; reduce axes are summed (or otherwise
reduced) over. Instructions are in SSA form: the id of a value is its position in `Kernel.body`. A value varies along
the axes in `Kernel.varies[id]`: one that varies along a reduce axis is an element value, any other is a row value.

Order of execution, for each point of the parallel axes:
    for each point of the loop axes, one after the other (once where there are none):
        `before`, then for each pass: a loop over the reduce axes that runs `elem` and feeds `reduces`; then `after`.
    `final`: a loop over the reduce axes for what depends on the sums over the loop axes.
An element instruction may be in several passes: it is computed again there, unless `carried` holds its id: then it
keeps its value on chip from the first pass on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fusewise.ir.affine import Index
from fusewise.ir.dtypes import DType
from fusewise.ir.graph import Origin
from fusewise.ir.ops import OPS
from fusewise.ir.sizes import Size, prod
from fusewise.plan.schedule import CppSchedule as CppSchedule
from fusewise.plan.schedule import Schedule as Schedule
from fusewise.plan.schedule import TritonSchedule as TritonSchedule

Role = Literal["in", "out"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop.

    Attributes:
        name: its name in index expressions.
        size: it runs from 0 to size - 1.
        reduce: the row: reduced over, and held or walked by one program.
        loop: rows that one program takes one after the other, to sum over them as it goes.
    """

    name: str
    size: Size
    reduce: bool = False
    loop: bool = False


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that the kernel reads or writes; indexes into it count elements.

    Attributes:
        name: name of the kernel's parameter.
        dtype: type of a stored element.
        role: `in` or `out`. An `out` buffer may not overlap an `in` buffer, but for `over`.
        node: the graph node whose value it holds.
        extent: offset of its last element.
        over: of an `out` buffer, the graph's input whose memory it is. Where the kernel also reads that input, it does
            so at each point before it stores to it, and nowhere else.
        seed: it holds the seed of random numbers, one int64, which a kernel for a GPU may also take as a number.
    """

    name: str
    dtype: DType
    role: Role
    node: int
    extent: Size = 0
    over: int | None = None
    seed: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    """A number. Floats may be infinite, NaN or -0.0."""

    value: bool | int | float
    dtype: DType


@dataclass(frozen=True, slots=True)
class SizeOf:
    """A size (polynomial over the kernel's size parameters) as a value."""

    expr: Size
    dtype: DType


@dataclass(frozen=True, slots=True)
class IndexOf:
    """An index expression as a value (i64 or i32)."""

    index: Index
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load:
    """`buffer[index]` where `mask` holds (None: everywhere), else `other`. Nothing is read where the mask is false."""

    buffer: int
    index: Index
    dtype: DType
    mask: int | None = None
    other: bool | int | float = 0


@dataclass(frozen=True, slots=True)
class Compute:
    """A pointwise op of `ir.ops` on values; `dtype` is the result's."""

    op: str
    args: tuple[int, ...]
    dtype: DType
    origin: Origin = field(default=Origin(), compare=False)


@dataclass(frozen=True, slots=True)
class Random:
    """Random bits of element number `element` under (seed, slot); see `ir.philox`.

    `keep` gives bool, True with `keep_prob`; `uniform` gives f32 in [0, 1).
    """

    kind: Literal["keep", "uniform"]
    seed: int
    element: Index
    slot: int
    keep_prob: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Reduce:
    """Reduces element value `arg` over every reduce axis, to a row value.

    `op` is sum, prod, max, min, any, all, argmax or argmin. sum and prod accumulate in `dtype` (wrapping for integers);
    max and min give NaN where a NaN is met; argmax and argmin give the smallest `position` (an i64 index over the
    reduce axes) among the equals, and the first NaN's where there is one.

    With `over_loop` the value is reduced over the loop axes instead, at each point of the reduce axes: an accumulator a
    point of the row, fed once a row in the order of the rows (sum, prod, max, min, any, all). Its id stands in the
    `elem` of the pass that feeds it; the result is known in `final`.

    A `centred` sum is that of the squares of what `arg` is off its mean over the reduce axes. It stands beside the
    plain sum of the same `arg`, in the same pass of a row that is read in turns (`lower.moments`).
    """

    op: str
    arg: int
    dtype: DType
    position: Index | None = None
    origin: Origin = field(default=Origin(), compare=False)
    over_loop: bool = False
    centred: bool = False

    @property
    def is_row_sum(self) -> bool:
        """True for a plain sum over the reduce axes."""
        return self.op == "sum" and not self.over_loop and not self.centred


@dataclass(frozen=True, slots=True)
class Store:
    """Writes `value` (of the buffer's dtype) to `buffer[index]`."""

    buffer: int
    index: Index
    value: int


@dataclass(frozen=True, slots=True)
class Check:
    """The call fails as eager's would (`error` with `message`) where the bool value `cond` is false.

    `mask`: a bool value; where it is false nothing is checked. `error`: a name of `ir.ops.ERRORS`.
    """

    cond: int
    message: str
    mask: int | None = None
    error: str = "IndexError"


Instr: TypeAlias = Const | SizeOf | IndexOf | Load | Compute | Random | Reduce | Store | Check


@dataclass(frozen=True, slots=True)
class Pass:
    """One loop over the reduce axes: what runs in it, which reductions it feeds, what follows it."""

    elem: tuple[int, ...]
    reduces: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One generated kernel.

    Its parameters are `buffers` in order (pointers), then `sizes` in order (64-bit integers).

    Attributes:
        name: a C identifier.
        axes: parallel axes, outermost first, then loop axes, then reduce axes.
        buffers, sizes: parameters; `sizes` are names of size symbols.
        body: the instructions.
        varies: for each instruction the axes along which its value varies.
        before, passes, final: order of execution (see above).
        carried: element values kept on chip between passes.
    """

    name: str
    axes: tuple[Axis, ...]
    buffers: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    body: tuple[Instr, ...]
    varies: tuple[frozenset[str], ...]
    before: tuple[int, ...]
    passes: tuple[Pass, ...]
    carried: frozenset[int]
    schedule: Schedule
    final: tuple[int, ...] = ()

    @property
    def parallel(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes if not a.reduce and not a.loop)

    @property
    def loop(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes if a.loop)

    @property
    def reduce(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.axes if a.reduce)

    @property
    def reduce_size(self) -> Size:
        """Elements along the reduce axes together; 1 where there are none."""
        return prod(a.size for a in self.reduce)

    def axis_sizes(self) -> dict[str, Size]:
        """Size of each axis by name."""
        return {a.name: a.size for a in self.axes}

    def is_element(self, value: int) -> bool:
        """True where the value varies along a reduce axis."""
        return any(a.name in self.varies[value] for a in self.reduce)


def operands(instr: Instr) -> tuple[int, ...]:
    """Ids of the values that an instruction reads, index expressions and masks included."""
    match instr:
        case Compute(args=args):
            return args
        case Reduce(arg=arg):
            return (arg,)
        case Random(seed=seed, element=element):
            return (seed, *(a.node for a in element.loaded()))
        case Load(index=index, mask=mask):
            return (*(a.node for a in index.loaded()), *(() if mask is None else (mask,)))
        case Store(index=index, value=value):
            return (*(a.node for a in index.loaded()), value)
        case IndexOf(index=index):
            return tuple(a.node for a in index.loaded())
        case Check(cond=cond, mask=mask):
            return (cond,) if mask is None else (cond, mask)
        case _:
            return ()


def arithmetic(instrs: Iterable[Instr]) -> float:
    """Instructions that one point of the axes takes, by the costs of `ir.ops`; an access of memory is half a one."""
    total = 0.0
    for instr in instrs:
        match instr:
            case Compute(op=op) | Reduce(op=op):
                total += OPS[op].cost
            case Random(kind=kind):
                total += OPS[kind].cost
            case Load() | Store():
                total += 0.5
    return total


def result_dtype(instr: Instr) -> DType | None:
    """Type of an instruction's value; None for a store or a check."""
    return None if isinstance(instr, (Store, Check)) else instr.dtype
