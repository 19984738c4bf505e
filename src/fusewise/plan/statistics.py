"""Statistics of rows that do not fit on chip, or are too few to fill the device: in parts, then combined.

A softmax needs a row's maximum and the sum of exponentials below it, a norm its mean and the sum of squared deviations
from it: each a reduction that waits for another, so two reads of the row before the one that writes the result. In
parts that fit on chip both come out of one read:

    max = max_p(m_p)          sum of exp = sum_p(s_p exp(m_p - max))
    sum = sum_p(t_p)          squared deviations = sum_p(q_p + n_p (t_p / n_p - mean)^2)

with m_p, s_p, t_p, q_p the part's own statistics and n_p its length. The first is the rescaling of an online softmax
(Milakov and Gimelshein, 2018), the second the pairwise update of Chan, Golub and LeVeque (1979).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fusewise.ir import affine
from fusewise.ir.builder import Builder, Value
from fusewise.ir.dtypes import F32
from fusewise.ir.graph import Graph, Node
from fusewise.ir.indexing import operand_at
from fusewise.ir.sizes import Size, contiguous_strides, hint, prod, same
from fusewise.plan.cost import Machine

_LONGEST_ROW = {"gpu": 1 << 15, "cpu": 1 << 17}  # elements of a row that stay on chip between passes
_LONGEST_CACHED = 1 << 16  # elements of a row that a GPU reads again from its cache
_MANY_ROWS = 4  # rows a multiprocessor from which each is better taken by one program
_FULL = 0.9  # of the programs that the waves of a launch have room for
_PART = {"gpu": 1 << 13, "cpu": 1 << 14}  # elements of a part that a program holds with room to spare
_LEAST_PART = {"gpu": 1 << 10, "cpu": 1 << 12}
# Elements of a row above which many programs are faster than one, though only few rows are there. H200, softmax of one
# row, bf16: 16384 elements take 7.1 us in one program and 9.8 us in parts, 65536 take 12.7 and 10.3 us.
_LEAST_OF_FEW = {"gpu": 1 << 15, "cpu": 1 << 14}


@dataclass(frozen=True, slots=True)
class _Cut:
    """How the reduced dims of a value are cut: neighbouring dims `run`, taken as one, into `parts`."""

    run: range
    parts: int


@dataclass(slots=True)
class _Chain:
    """Two reductions over the same dims of `x`, the second of a function of the first."""

    first: int
    second: int
    x: int
    cut: _Cut
    made: dict[str, Value] = field(default_factory=dict)


def split_statistics(graph: Graph, machine: Machine) -> Graph:
    """The graph with long or few rows' statistics in parts. Orders of summation change; nothing else does."""
    chains = _softmaxes(graph, machine) + _moments(graph, machine)
    if not chains:
        return graph
    emitters: dict[int, Callable[[_Copy, Node], Value]] = {}
    for chain in chains:
        if chain.first in emitters or chain.second in emitters:
            continue
        first, second = _EMITTERS[graph[chain.first].op]
        emitters[chain.first] = functools.partial(first, chain=chain)
        emitters[chain.second] = functools.partial(second, chain=chain)
    return _Copy(graph).run(emitters)


def keep_wide(graph: Graph) -> Graph:
    """The graph without the roundings of f32 values to 16 bits and back between two ops (the aggressive policy)."""
    emitters: dict[int, Callable[[_Copy, Node], Value]] = {}
    for node in graph:
        if node.op == "cast" and node.dtype == F32:
            inner = graph[node.args[0]]
            if inner.op == "cast" and inner.dtype.is_half and graph[inner.args[0]].dtype == F32:
                emitters[node.id] = functools.partial(_emit_source, source=inner.args[0])
    return _Copy(graph).run(emitters) if emitters else graph


def _emit_source(to: _Copy, node: Node, source: int) -> Value:
    return to.values[source]


# ---- finding the chains


def _softmaxes(graph: Graph, machine: Machine) -> list[_Chain]:
    """sum(exp(x - max(x)))."""
    found = []
    for node in graph:
        if node.op != "sum" or graph[node.args[0]].op != "exp":
            continue
        off = graph[graph[node.args[0]].args[0]]
        if off.op != "sub":
            continue
        first = _spread_row(graph, off, 1)
        if first is None or graph[first].op != "max" or graph[first].args[0] != off.args[0]:
            continue
        dims = node.attr("dims")
        whole = _cached_rows(graph, off.args[0], dims, machine) >= _MANY_ROWS * machine.units
        if graph[first].attr("dims") == dims and not whole:
            cut = _cut(graph, off.args[0], dims, machine)
            if cut is not None:
                found.append(_Chain(first, node.id, off.args[0], cut))
    return found


def _cached_rows(graph: Graph, x: int, dims: Sequence[int], machine: Machine) -> int:
    """The rows of `x`, where a GPU's cache keeps each for the passes that follow the first; else 0.

    H200, softmax of 2048 x 65536 bf16: 146 us so, 195 us in parts. Group norm, SiLU and dropout of 512 rows of 65536
    bf16: 53 us by two reads in one kernel, 66 us in parts.
    """
    hints = graph.hints()
    lengths = [hint(size, hints) for d, size in enumerate(graph[x].shape) if d in dims]
    rows = math.prod(hint(size, hints) for size in graph[x].shape) // max(1, math.prod(lengths))
    source, steps = _steps(graph, x)
    if machine.kind != "gpu" or not _is_one_run(lengths, [steps[d] for d in dims]):
        return 0
    length = math.prod(lengths)
    running = length * graph[source].dtype.bytes * 2 * machine.units  # two programs a multiprocessor
    return rows if length <= _LONGEST_CACHED and running <= 0.75 * machine.cache_bytes else 0


def _is_one_run(lengths: Sequence[int], steps: Sequence[int]) -> bool:
    """True where the elements of a row lie side by side."""
    inner = 1
    for step, length in sorted(zip(steps, lengths, strict=True)):
        if step != inner and length != 1:
            return False
        inner *= length
    return True


def _full_waves(rows: int, machine: Machine) -> bool:
    """True where rows, two at a time on each multiprocessor, leave none idle at first and few at the end."""
    waves = rows / (2 * machine.units)
    return waves >= max(1, _FULL * math.ceil(waves))


def _moments(graph: Graph, machine: Machine) -> list[_Chain]:
    """sum((x - sum(x) / n)^2); left whole where one program reads its row for both at once (`lower.moments`)."""
    found = []
    for node in graph:
        square = graph[node.args[0]] if node.op == "sum" else None
        if square is None or square.op != "mul" or square.args[0] != square.args[1]:
            continue
        off = graph[square.args[0]]
        if off.op != "sub":
            continue
        mean = _spread_row(graph, off, 1)
        if mean is None or graph[mean].op != "div":
            continue
        first = graph.root(graph[mean].args[0])
        x, dims = off.args[0], node.attr("dims")
        if graph[first].op != "sum" or graph[first].args[0] != x or graph[first].attr("dims") != dims:
            continue
        length, count = prod(graph[x].shape[d] for d in dims), graph[graph[mean].args[1]]
        if count.op != "const" or not isinstance(length, int) or count.attr("value").value != length:
            continue
        if not _full_waves(_cached_rows(graph, x, dims, machine), machine):
            cut = _cut(graph, x, dims, machine)
            if cut is not None:
                found.append(_Chain(first, node.id, x, cut))
    return found


def _spread_row(graph: Graph, node: Node, position: int) -> int | None:
    """The row value that an operand spreads over the row: through views that only add or repeat dims."""
    value = node.args[position]
    while graph[value].info.group == "view":
        if graph[value].op != "view":
            return None
        value = graph[value].args[0]
    return value


def _cut(graph: Graph, x: int, dims: Sequence[int], machine: Machine) -> _Cut | None:
    """How to cut the rows of `x`, or None where they fit on chip and fill the device."""
    hints = graph.hints()
    shape = graph[x].shape
    length = prod(shape[d] for d in dims)
    if not isinstance(length, int):
        return None
    rows = 1
    for d, size in enumerate(shape):
        if d not in dims:
            rows *= max(1, hint(size, hints))
    least, most = _LEAST_PART[machine.kind], _PART[machine.kind]
    few = rows * 2 <= machine.units and length >= _LEAST_OF_FEW[machine.kind]
    if length <= _LONGEST_ROW[machine.kind] and not few:
        return None
    if few:
        most = max(least, min(most, rows * length // (4 * machine.units)))
    _, steps = _steps(graph, x)
    outer = max(dims, key=lambda d: steps[d])
    options = [range(outer, outer + 1)]
    if list(dims) == list(range(dims[0], dims[-1] + 1)) and outer == dims[0]:
        options.append(range(dims[0], dims[-1] + 1))
    best: tuple[float, _Cut] | None = None
    for run in options:
        size = prod(shape[d] for d in run)
        assert isinstance(size, int)
        for parts in range(2, min(size, length // least) + 1):
            part = length // parts
            if size % parts or part > 2 * most:
                continue
            # a tile is a power of two: what it exceeds the part by is wasted, and so is a part far from the size wanted
            waste = (1 << (part - 1).bit_length()) / part + abs(math.log2(part / most)) / 8
            if best is None or waste < best[0]:
                best = waste, _Cut(run, parts)
            if part < most // 8:
                break
    return best[1] if best is not None else None


def _steps(graph: Graph, x: int) -> tuple[int, list[int]]:
    """The largest tensor that `x` is computed from point by point, and the element stride there of each dim of `x`."""
    shape = graph[x].shape
    hints = graph.hints()
    sizes: dict[str, Size] = {f"v{d}": s for d, s in enumerate(shape)}
    at = tuple(affine.constant(0) if same(s, 1) else affine.axis(f"v{d}") for d, s in enumerate(shape))
    node = graph[x]
    while node.op not in ("input", "result") and node.info.group in ("pointwise", "view") and node.args:
        if node.info.group == "pointwise" and not at:
            break
        place = max(range(len(node.args)), key=lambda i: len(_varying(graph, graph[node.args[i]])))
        at = operand_at(graph, node, place, at, sizes)
        node = graph[node.args[place]]
    strides = graph.strides.get(node.id) or contiguous_strides(node.shape)
    offset = affine.Index()
    for index, stride in zip(at, strides, strict=True):
        offset = offset + index * stride
    found = [abs(hint(offset.coefficient(f"v{d}"), hints)) for d in range(len(shape))]
    plain = [hint(s, hints) for s in contiguous_strides(shape)]
    return node.id, found if any(found) else plain


def _varying(graph: Graph, node: Node) -> tuple[Size, ...]:
    source = graph[graph.root(node.id)]
    return tuple(s for s in source.shape if not same(s, 1))


# ---- writing them in parts


class _Copy:
    """Copies a graph node by node into a builder, with some nodes emitted anew."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.b = Builder(graph.device)
        self.values: list[Value] = []

    def run(self, emitters: Mapping[int, Callable[[_Copy, Node], Value]]) -> Graph:
        for name, info in self.graph.symbols.items():
            self.b.symbol(name, info)
        for node in self.graph:
            self.b.origin = node.origin
            emit = emitters.get(node.id)
            self.values.append(emit(self, node) if emit else self.b.copy(node, [self.values[a] for a in node.args]))
            if node.id in self.graph.strides:
                self.b.set_strides(self.values[-1], self.graph.strides[node.id])
        return self.b.finish([self.values[o] for o in self.graph.outputs], self.graph.writes)

    def parted(self, chain: _Chain) -> Value:
        """The rows with each cut into parts, the number of the part a dim of its own."""
        x, run = self.values[chain.x], chain.cut.run
        size = prod(x.shape[d] for d in run)
        assert isinstance(size, int)
        part = size // chain.cut.parts
        return self.b.reshape(x, (*x.shape[: run.start], chain.cut.parts, part, *x.shape[run.stop :]))


def _inner_dims(chain: _Chain, node: Node) -> list[int]:
    """The reduced dims of the parted rows."""
    run, moved = chain.cut.run, 2 - len(chain.cut.run)
    dims = node.attr("dims")
    return sorted({d for d in dims if d < run.start} | {run.start + 1} | {d + moved for d in dims if d >= run.stop})


def _part_dim(chain: _Chain, node: Node) -> int:
    """Place of the dim of the parts in a part's statistic, the reduced dims being dropped."""
    return sum(1 for d in range(chain.cut.run.start) if d not in node.attr("dims"))


def _over_parts(to: _Copy, chain: _Chain, node: Node, row: Value, shape: tuple[Size, ...]) -> Value:
    """A row's statistic repeated for each of its parts."""
    place = _part_dim(chain, node)
    index = [affine.axis(f"o{d if d < place else d + 1}") for d in range(len(row.shape))]
    sized = [affine.constant(0) if same(s, 1) else i for i, s in zip(index, row.shape, strict=True)]
    return to.b.view(row, shape, sized)


def _spread(to: _Copy, chain: _Chain, node: Node, part: Value, parted: Value) -> Value:
    """A part's statistic repeated over the part."""
    kept = [d for d in range(len(parted.shape)) if d not in _inner_dims(chain, node)]
    index = [affine.constant(0) if same(s, 1) else affine.axis(f"o{d}") for d, s in zip(kept, part.shape, strict=True)]
    return to.b.view(part, parted.shape, index)


def _emit_max(to: _Copy, node: Node, chain: _Chain) -> Value:
    parted = to.parted(chain)
    part = to.b.reduce("max", parted, _inner_dims(chain, node))
    # a part that is wholly masked adds nothing; its own maximum would give NaN
    safe = to.b.where(part.eq(-math.inf), 0.0, part)
    powers = to.b.op("exp", parted - _spread(to, chain, node, safe, parted))
    chain.made["part"], chain.made["sum"] = part, to.b.reduce("sum", powers, _inner_dims(chain, node))
    return to.b.reduce("max", part, [_part_dim(chain, node)])


def _emit_exp_sum(to: _Copy, node: Node, chain: _Chain) -> Value:
    part = chain.made["part"]
    top = _over_parts(to, chain, node, to.values[chain.first], part.shape)
    scaled = chain.made["sum"] * to.b.op("exp", part - top)
    return to.b.reduce("sum", scaled, [_part_dim(chain, node)])


def _emit_sum(to: _Copy, node: Node, chain: _Chain) -> Value:
    parted = to.parted(chain)
    inner = _inner_dims(chain, node)
    count = to.b.size(prod(parted.shape[d] for d in inner), parted.dtype)
    total = to.b.reduce("sum", parted, inner)
    mean = total / count
    off = parted - _spread(to, chain, node, mean, parted)
    chain.made["mean"], chain.made["count"] = mean, count
    chain.made["squares"] = to.b.reduce("sum", off * off, inner)
    return to.b.reduce("sum", total, [_part_dim(chain, node)])


def _emit_squares(to: _Copy, node: Node, chain: _Chain) -> Value:
    part = chain.made["mean"]
    total = to.values[chain.first]
    length = prod(to.graph[chain.x].shape[d] for d in node.attr("dims"))
    mean = _over_parts(to, chain, node, total / to.b.size(length, part.dtype), part.shape)
    off = part - mean
    return to.b.reduce("sum", chain.made["squares"] + chain.made["count"] * (off * off), [_part_dim(chain, node)])


_EMITTERS = {"max": (_emit_max, _emit_exp_sum), "sum": (_emit_sum, _emit_squares)}
