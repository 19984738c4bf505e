"""Region -> instructions: each value computed once at each index, views folded into the indexes of the loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusewise.errors import IRError
from fusewise.ir import affine
from fusewise.ir.affine import Index, Loaded
from fusewise.ir.dtypes import BOOL, I64, DType
from fusewise.ir.graph import Graph, Node
from fusewise.ir.indexing import At, operand_at, resolve
from fusewise.ir.sizes import Size, contiguous_strides, norm, same
from fusewise.lower.kernel import (
    Buffer,
    Check,
    Compute,
    Const,
    IndexOf,
    Instr,
    Load,
    Random,
    Reduce,
    Role,
    SizeOf,
    Store,
    operands,
)
from fusewise.plan.region import Region

Layouts = Mapping[int, tuple[Size, ...]]


@dataclass(frozen=True, slots=True)
class Body:
    """Instructions of one region before it has a schedule.

    Attributes:
        axes: size of each axis.
        reduce: the axes reduced over.
        loop: the axes that one program walks row by row.
        buffers: what is read and written, inputs first.
        instrs: the instructions, each after its operands.
        varies: for each instruction the axes along which its value varies.
    """

    axes: Mapping[str, Size]
    reduce: frozenset[str]
    loop: frozenset[str]
    buffers: tuple[Buffer, ...]
    instrs: tuple[Instr, ...]
    varies: tuple[frozenset[str], ...]


def lower_body(graph: Graph, region: Region, stores: tuple[int, ...], layouts: Layouts) -> Body:
    """The instructions of `region`.

    Args:
        stores: native values that the region writes to memory.
        layouts: element strides of the values in memory: of what the region reads and stores at least.
    """
    lowering = _Lowering(graph, region, layouts)
    for value in stores:
        lowering.store(value)
    return lowering.finish()


class _Lowering:
    def __init__(self, graph: Graph, region: Region, layouts: Layouts) -> None:
        self.graph = graph
        self.region = region
        self.layouts = layouts
        self.instrs: list[Instr] = []
        self.varies: list[frozenset[str]] = []
        self.numbers: dict[Instr, int] = {}
        self.memo: dict[tuple[int, At, int | None], int] = {}
        self.buffers: list[Buffer] = []
        self.buffer_of: dict[tuple[int, str], int] = {}

    # ---- emitting

    def emit(self, instr: Instr) -> int:
        found = self.numbers.get(instr)
        if found is not None and not isinstance(instr, Const):
            return found
        if isinstance(instr, Const):
            key = Const(repr(instr.value), instr.dtype)  # type: ignore[arg-type]  # -0.0 and NaN by their text
            if key in self.numbers:
                return self.numbers[key]
            self.numbers[key] = len(self.instrs)
        number = len(self.instrs)
        self.instrs.append(instr)
        self.numbers.setdefault(instr, number)
        self.varies.append(self._varies(instr))
        return number

    def _varies(self, instr: Instr) -> frozenset[str]:
        axes: set[str] = set()
        for operand in operands(instr):
            axes |= self.varies[operand]
        match instr:
            case IndexOf(index=index) | Load(index=index) | Store(index=index):
                axes |= index.axes()
            case Random(element=element):
                axes |= element.axes()
            case Reduce(over_loop=over_loop):
                axes -= self.region.loop if over_loop else self.region.reduce
            case _:
                pass
        return frozenset(axes)

    def const(self, value: bool | int | float, dtype: DType) -> int:
        return self.emit(Const(value, dtype))

    def size(self, size: Size) -> int:
        return self.const(size, I64) if isinstance(size, int) else self.emit(SizeOf(size, I64))

    def compute(self, op: str, *args: int, dtype: DType, node: Node | None = None) -> int:
        return self.emit(Compute(op, args, dtype, node.origin) if node else Compute(op, args, dtype))

    def both(self, a: int | None, b: int | None) -> int | None:
        if a is None or b is None or a == b:
            return b if a is None else a
        return self.compute("and", a, b, dtype=BOOL)

    def buffer(self, node: int, role: Role) -> int:
        key = (node, role)
        if key not in self.buffer_of:
            self.buffer_of[key] = len(self.buffers)
            name = f"{role}{len(self.buffers)}"
            described = self.graph[node]
            extent: Size = 0
            for size, stride in zip(described.shape, self.layouts[node], strict=True):
                extent = norm(extent + (size - 1) * stride)
            self.buffers.append(Buffer(name, described.dtype, role, node, extent))
        return self.buffer_of[key]

    def _mark_seed(self, value: int) -> None:
        instr = self.instrs[value]
        if isinstance(instr, Load):
            self.buffers[instr.buffer] = replace(self.buffers[instr.buffer], seed=True)

    def offset(self, node: int, at: At) -> Index:
        total = Index()
        for index, stride in zip(at, self.layouts[node], strict=True):
            total = total + index * stride
        return total

    # ---- values

    def store(self, value: int) -> None:
        at = self.region.at[value]
        number = self.value(value, at, None)
        self.emit(Store(self.buffer(value, "out"), self.offset(value, at), number))

    def value(self, node: int, at: At, mask: int | None) -> int:
        """Id of the value of `node` at `at`; under `mask` nothing is read where it is false."""
        # operands first on a stack of our own: chains of thousands of ops must not recurse
        stack = [(node, at, mask, False)]
        while stack:
            number, where, under, ready = stack.pop()
            number, where = resolve(self.graph, number, where, self.region.axes)
            if self._is_native(number, where):
                under = None  # it is computed at every point: a reduction must not lose what one reader masks
            key = (number, where, under)
            if key in self.memo or (number, where, None) in self.memo:
                continue
            if not ready:
                stack.append((number, where, under, True))
                if not self._is_load(number):
                    stack.extend((n, a, under, False) for n, a in self._plain_operands(number, where))
                continue
            self.memo[key] = self._make(number, where, under)
        return self._known(node, at, mask)

    def _known(self, node: int, at: At, mask: int | None) -> int:
        node, at = resolve(self.graph, node, at, self.region.axes)
        free = self.memo.get((node, at, None))
        return free if free is not None else self.memo[node, at, mask]

    def _is_native(self, node: int, at: At) -> bool:
        return node in self.region.at and self.region.at[node] == at

    def _is_load(self, node: int) -> bool:
        # a value that another region happens to store is no reason: that region may run later
        return node in self.region.reads

    def _plain_operands(self, number: int, at: At) -> list[tuple[int, At]]:
        node = self.graph[number]
        group = node.info.group
        if group == "reduce":
            return [(node.args[0], self._reduction_operand(number, at))]
        if group in ("pointwise", "random"):
            return [(arg, operand_at(self.graph, node, p, at, self.region.axes)) for p, arg in enumerate(node.args)]
        return []

    def _reduction_operand(self, number: int, at: At) -> At:
        if not self._is_native(number, at):
            raise IRError(f"reduction %{number} is read at {at}, where the region does not compute it")
        return self.region.operand[number]

    def _make(self, number: int, at: At, mask: int | None) -> int:
        node = self.graph[number]
        if self._is_load(number):
            place = self.offset(number, at)
            if mask is not None and not self.varies[mask] <= place.axes() and self._certainly_inside(node, at):
                mask = None  # one load for all that read it: a seed must not vary with a mask
            return self.emit(Load(self.buffer(number, "in"), place, node.dtype, mask))
        args = [self._known(n, a, mask) for n, a in self._plain_operands(number, at)]
        match node.op:
            case "const":
                return self.const(node.attr("value").value, node.dtype)
            case "size":
                return self.emit(SizeOf(node.attr("expr"), I64))
            case "iota":
                return self.emit(IndexOf(at[node.attr("dim")], I64))
            case "pad":
                return self._pad(node, at, mask)
            case "cat":
                return self._cat(node, at, mask)
            case "gather":
                return self._gather(node, at, mask)
            case "keep" | "uniform":
                element = Index()
                for index, stride in zip(at, contiguous_strides(node.shape), strict=True):
                    element = element + index * stride
                self._mark_seed(args[0])
                prob = node.attr("keep_prob") if node.op == "keep" else 1.0
                return self.emit(Random(node.op, args[0], element, node.attr("slot"), prob, node.dtype))
            case "guard":
                self.emit(Check(args[0], node.attr("message"), mask, node.attr("error")))
                return args[1]
            case _ if node.info.group == "reduce":
                return self._reduce(node, args[0])
            case _ if node.info.group == "pointwise":
                return self.compute(node.op, *args, dtype=node.dtype, node=node)
            case _:
                raise IRError(f"%{number} ({node.op}) is neither in memory nor computable in a kernel")

    def _reduce(self, node: Node, arg: int) -> int:
        if not self.region.over(node.id):
            # every reduced size is 1: the result is the operand
            return (
                self.const(0, I64) if node.op in ("argmax", "argmin") else self.compute("copy", arg, dtype=node.dtype)
            )
        if self.region.is_column(node.id):
            return self.emit(Reduce(node.op, arg, node.dtype, None, node.origin, over_loop=True))
        inner = [self.region.operand[node.id][d] for d in node.attr("dims")]
        if not self.varies[arg] & self.region.reduce:
            arg = self._spread(arg)
        position = None
        if node.op in ("argmax", "argmin"):
            position = Index()
            sizes = [self.graph[node.args[0]].shape[d] for d in node.attr("dims")]
            for index, stride in zip(inner, contiguous_strides(sizes), strict=True):
                position = position + index * stride
        return self.emit(Reduce(node.op, arg, node.dtype, position, node.origin))

    def _spread(self, arg: int) -> int:
        """`arg` as an element value: chosen at every point of the reduce axes."""
        spot = Index()
        for name in sorted(self.region.reduce):
            spot = spot + affine.axis(name)
        always = self.compute("ge", self.emit(IndexOf(spot, I64)), self.const(0, I64), dtype=BOOL)
        dtype = _dtype(self.instrs[arg])
        return self.compute("where", always, arg, self.const(0, dtype), dtype=dtype)

    def _inside(self, index: Index, low: Size, high: Size) -> int | None:
        """bool value: low <= index < high; None where that is certain."""
        tests: list[int] = []
        at_least = affine.upper_bound(index - low, self.region.axes)
        position: int | None = None
        if not (isinstance(index.const, int) and isinstance(low, int) and index.const >= low and at_least is not None):
            position = self.emit(IndexOf(index, I64))
            tests.append(self.compute("ge", position, self.size(low), dtype=BOOL))
        top = affine.upper_bound(index, self.region.axes)
        certain = isinstance(top, int) and isinstance(high, int) and top < high
        if not certain:
            position = self.emit(IndexOf(index, I64)) if position is None else position
            tests.append(self.compute("lt", position, self.size(high), dtype=BOOL))
        result: int | None = None
        for test in tests:
            result = self.both(result, test)
        return result

    def _certainly_inside(self, node: Node, at: At) -> bool:
        """True where no point of the axes leads out of the value."""
        axes = self.region.axes
        for index, size in zip(at, node.shape, strict=True):
            top = affine.upper_bound(index, axes)
            if top is None or not (isinstance(index.const, int) and index.const >= 0):
                return False
            room = norm(size - top)
            if not (room > 0 if isinstance(room, int) else room.is_positive):
                return False
        return True

    def _pad(self, node: Node, at: At, mask: int | None) -> int:
        source = self.graph[node.args[0]]
        where = operand_at(self.graph, node, 0, at, self.region.axes)
        inside: int | None = None
        for index, size in zip(where, source.shape, strict=True):
            inside = self.both(inside, self._inside(index, 0, size))
        # Lying in the source makes a read safe, whatever was passed on the way. With those conditions in the mask as
        # well, an element that a chain of n shifts reaches in 3^n ways would be computed as often.
        value = self.value(source.id, where, inside)
        if inside is None:
            return value
        fill = self.const(node.attr("value").value, node.dtype)
        return self.compute("where", inside, value, fill, dtype=node.dtype, node=node)

    def _cat(self, node: Node, at: At, mask: int | None) -> int:
        dim = node.attr("dim")
        result: int | None = None
        start: Size = 0
        beside: int | None = None  # the mask of the other dims, which all parts have alike; as in `_pad`
        for d, (index, size) in enumerate(zip(at, node.shape, strict=True)):
            if mask is not None and d != dim:
                beside = self.both(beside, self._inside(index, 0, size))
        parts: list[tuple[int, int | None]] = []
        for position, arg in enumerate(node.args):
            stop = start + self.graph[arg].shape[dim]
            if same(start, stop):
                continue
            inside = self._inside(at[dim], start, stop)
            where = operand_at(self.graph, node, position, at, self.region.axes)
            parts.append((self.value(arg, where, self.both(beside, inside)), inside))
            start = stop
        for value, inside in reversed(parts):
            if result is None or inside is None:
                result = value
            else:
                result = self.compute("where", inside, value, result, dtype=node.dtype, node=node)
        if result is None:
            return self.const(0, node.dtype)
        return result

    def _gather(self, node: Node, at: At, mask: int | None) -> int:
        value, index = (self.graph[a] for a in node.args)
        dim = node.attr("dim")
        number = self.value(index.id, operand_at(self.graph, node, 1, at, self.region.axes), mask)
        if index.dtype != I64:
            number = self.compute("cast", number, dtype=I64)
        size, zero = self.size(value.shape[dim]), self.const(0, I64)
        negative = self.compute("lt", number, zero, dtype=BOOL)
        wrapped = self.compute("where", negative, self.compute("add", number, size, dtype=I64), number, dtype=I64)
        inside = self.both(self.compute("ge", wrapped, zero, dtype=BOOL), self.compute("lt", wrapped, size, dtype=BOOL))
        assert inside is not None
        self.emit(Check(inside, "index out of range", mask, node.attr("error") if node.has("error") else "IndexError"))
        where = operand_at(self.graph, node, 0, at, self.region.axes)
        where = tuple(Index(((Loaded(wrapped, ()), 1),)) if d == dim else i for d, i in enumerate(where))
        return self.value(value.id, where, self.both(mask, inside))

    # ---- the end

    def finish(self) -> Body:
        """Drops what no store or check needs; inputs come before outputs in the parameters."""
        order = needed(self.instrs)
        number_of = {old: new for new, old in enumerate(order)}
        used = {i.buffer for n in order if isinstance(i := self.instrs[n], (Load, Store))}
        ranked = sorted(used, key=lambda b: (self.buffers[b].role == "out", b))
        buffer_of = {old: new for new, old in enumerate(ranked)}
        buffers = tuple(replace(b, name=f"{b.role}{i}") for i, b in ((buffer_of[o], self.buffers[o]) for o in ranked))
        return Body(
            self.region.axes,
            self.region.reduce,
            self.region.loop,
            buffers,
            tuple(renumber(self.instrs[n], number_of, buffer_of) for n in order),
            tuple(self.varies[n] for n in order),
        )


def needed(instrs: Sequence[Instr]) -> list[int]:
    """The instructions that a store or a check needs, themselves included."""
    live: set[int] = set()
    stack = [i for i, instr in enumerate(instrs) if isinstance(instr, (Store, Check))]
    while stack:
        number = stack.pop()
        if number not in live:
            live.add(number)
            stack.extend(operands(instrs[number]))
    return sorted(live)


def reordered(body: Body, order: Sequence[int]) -> Body:
    """The body with the instructions `order` in that order; what they read is among them and stands before them."""
    number_of = {old: new for new, old in enumerate(order)}
    buffers = {number: number for number in range(len(body.buffers))}
    instrs = tuple(renumber(body.instrs[n], number_of, buffers) for n in order)
    return replace(body, instrs=instrs, varies=tuple(body.varies[n] for n in order))


def renumber(instr: Instr, value: Mapping[int, int], buffer: Mapping[int, int]) -> Instr:
    """`instr` with value ids and buffer numbers replaced."""

    def index(i: Index) -> Index:
        return affine.map_loaded(i, lambda a: Index(((Loaded(value[a.node], ()), 1),)))

    match instr:
        case Compute(op=op, args=args, dtype=dtype, origin=origin):
            return Compute(op, tuple(value[a] for a in args), dtype, origin)
        case Reduce(arg=arg):
            return replace(instr, arg=value[arg])
        case Load(buffer=number, index=i, dtype=dtype, mask=mask, other=other):
            return Load(buffer[number], index(i), dtype, None if mask is None else value[mask], other)
        case Store(buffer=number, index=i, value=stored):
            return Store(buffer[number], index(i), value[stored])
        case Random(kind=kind, seed=seed, element=element, slot=slot, keep_prob=prob, dtype=dtype):
            return Random(kind, value[seed], index(element), slot, prob, dtype)
        case IndexOf(index=i, dtype=dtype):
            return IndexOf(index(i), dtype)
        case Check(cond=cond, message=message, mask=mask, error=error):
            return Check(value[cond], message, None if mask is None else value[mask], error)
        case _:
            return instr


def _dtype(instr: Instr) -> DType:
    assert not isinstance(instr, (Store, Check))
    return instr.dtype
