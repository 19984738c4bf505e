"""Graph -> graph: copies where a real tensor cannot be a view, long reductions in two steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fusewise.ir.graph import Graph, Node
from fusewise.ir.indexing import strided
from fusewise.ir.sizes import Size, contiguous_strides, hint, prod, same
from fusewise.plan.cost import Machine


@dataclass(frozen=True, slots=True)
class Placement:
    """A real tensor as a view of a value in memory: element strides and offset over `base`."""

    base: int
    strides: tuple[Size, ...]
    offset: Size


_WITHOUT_MEMORY = ("const", "size", "iota")  # ops whose values are computed where they are read


def layout_of(graph: Graph, value: int) -> tuple[Size, ...]:
    """Element strides of `value` where it is stored: eager's where they are fixed, else row-major."""
    fixed = graph.strides.get(value)
    return fixed if fixed is not None else contiguous_strides(graph[value].shape)


def place(graph: Graph, value: int) -> Placement | None:
    """Where the real tensor of `value` lies; None where it must be copied to have its strides."""
    base = graph.root(value)
    if graph[base].op in _WITHOUT_MEMORY:
        return None
    found = strided(graph, value, {base: layout_of(graph, base)})
    if found is None:
        return None
    _, strides, offset = found
    wanted = graph.strides.get(value)
    if wanted is not None:
        pairs = zip(graph[value].shape, strides, wanted, strict=True)
        if not all(same(n, 1) or same(a, b) for n, a, b in pairs):
            return None
        strides = wanted
    return Placement(base, strides, offset)


def insert_copies(graph: Graph) -> Graph:
    """Outputs and operands of opaque ops that no view over memory can be, as `copy` nodes."""
    graph = _store_shared_constants(graph, _misplaced(graph))
    missing = _misplaced(graph)
    if not missing:
        return graph
    made: dict[int, int] = {}
    nodes: list[Node] = []
    number: dict[int, int] = {}
    strides: dict[int, tuple[Size, ...]] = {}
    for node in graph:
        source = made if node.op == "opaque" else {}
        args = tuple(source.get(a, number[a]) for a in node.args)
        new = replace(node, id=len(nodes), args=args)
        nodes.append(new)
        number[node.id] = new.id
        if node.id in graph.strides:
            strides[new.id] = graph.strides[node.id]
        if node.id in missing:
            copy = Node(len(nodes), "copy", (new.id,), node.shape, node.dtype, (), node.origin)
            nodes.append(copy)
            made[node.id] = copy.id
            if node.id in graph.strides:
                strides[copy.id] = graph.strides[node.id]
    return Graph(
        tuple(nodes),
        tuple(number[i] for i in graph.inputs),
        tuple(made.get(o, number[o]) for o in graph.outputs),
        strides,
        graph.symbols,
        graph.device,
        graph.writes,
    )


def _misplaced(graph: Graph) -> set[int]:
    real = set(graph.outputs).union(*(n.args for n in graph if n.op == "opaque"))
    return {v for v in real if place(graph, v) is None}


def _store_shared_constants(graph: Graph, misplaced: set[int]) -> Graph:
    """A constant tensor of which several results are views, as a `copy` node: eager's views of it share memory."""
    views: dict[int, int] = {}
    for value in misplaced:
        above, base = value, value
        while graph[base].info.group == "view":
            above, base = base, graph[base].args[0]
        if graph[base].op in _WITHOUT_MEMORY:
            # a constant is a number: the tensor is the first view of it
            made = above if graph[base].op == "const" else base
            views[made] = views.get(made, 0) + 1
    shared = {made for made, count in views.items() if count > 1}
    if not shared:
        return graph

    def emitter(nodes: list[Node], node: Node) -> int:
        nodes.append(replace(node, id=len(nodes)))
        nodes.append(Node(len(nodes), "copy", (len(nodes) - 1,), node.shape, node.dtype, (), node.origin))
        return len(nodes) - 1

    return _rebuild(graph, dict.fromkeys(shared, emitter))


def split_reductions(graph: Graph, machine: Machine) -> Graph:
    """Long reductions with few results as two steps, so that every unit of the device has work.

    sum over n becomes a sum over n / s for each of s parts, then a sum over s. Only where s divides the reduced sizes:
    then the parts are a reshape and cost nothing.
    """
    hints = graph.hints()
    wanted: dict[int, tuple[range, int]] = {}
    for node in graph:
        found = _parts(graph, node, machine, hints)
        if found is not None:
            wanted[node.id] = found
    if not wanted:
        return graph
    return _rebuild(graph, {n: _splitter(*cut) for n, cut in wanted.items()})


_SPLIT_OPS = ("sum", "prod", "max", "min", "any", "all")
_COLUMN_TILE = {"gpu": 64, "cpu": 64}  # results that one program makes where the reduced axis is not the inner one
_PROGRAMS = {"gpu": 4, "cpu": 4}  # programs a unit that keep the device busy
_LEAST_PART = {"gpu": 64, "cpu": 256}  # elements a part below which two steps cost more than they gain
_LEAST_TOTAL = {"gpu": 1 << 16, "cpu": 1 << 18}
# elements that one program reduces in no more time than a launch takes: of a row, of each of the columns of a tile
_SHORT_ROW = {"gpu": 1 << 15, "cpu": 1 << 14}
_SHORT_COLUMN = {"gpu": 1 << 12, "cpu": 1 << 14}
# Rows that are summed across by a kernel of their own, beside that which walks along them: programs that each take some
# of the rows, for both sums, would be few (H200, backward of a layer norm of 16 x 16384: 20 us in 4 programs).
_FEW_ROWS = {"gpu": 64, "cpu": 0}
_LONGEST_ROW = {"gpu": 1 << 13, "cpu": 1 << 16}  # sums a point of the row that a program can keep on chip


def _parts(graph: Graph, node: Node, machine: Machine, hints: Mapping[str, int]) -> tuple[range, int] | None:
    """(neighbouring dims, number of parts) in which a reduction is split, or None."""
    if node.op not in _SPLIT_OPS:
        return None
    source = graph[node.args[0]].shape
    dims = node.attr("dims")
    results = 1
    for size in node.shape:
        results *= max(1, hint(size, hints))
    total = results
    for d in dims:
        total *= hint(source[d], hints)
    column = len(source) - 1 not in dims
    beside_rows = column and results <= _LONGEST_ROW[machine.kind] and _has_row_reduction(graph, source)
    short = (_SHORT_COLUMN if column else _SHORT_ROW)[machine.kind]
    if not beside_rows and (total < _LEAST_TOTAL[machine.kind] or total // results <= short):
        return None
    programs = -(-results // _COLUMN_TILE[machine.kind]) if column else results
    wanted = machine.units * _PROGRAMS[machine.kind]
    if beside_rows:
        programs, wanted = 1, machine.units
    if beside_rows and total // results <= _FEW_ROWS[machine.kind]:
        return None
    if programs * 2 > wanted and not beside_rows:
        return None
    target = -(-wanted // programs)
    best: tuple[range, int] | None = None
    for run in _runs(dims):
        size = prod(source[d] for d in run)
        if not isinstance(size, int):
            continue
        least = 1 if beside_rows else _LEAST_PART[machine.kind]
        limit = min(2 * target, max(1, total // results // least), size // 4)
        part = max((p for p in range(1, limit + 1) if size % p == 0), default=1)
        if part > 1 and (best is None or part > best[1]):
            best = (run, part)
    return best


def _runs(dims: tuple[int, ...]) -> list[range]:
    """Runs of neighbouring dims."""
    found: list[range] = []
    for d in dims:
        if found and found[-1].stop == d:
            found[-1] = range(found[-1].start, d + 1)
        else:
            found.append(range(d, d + 1))
    return found


def _has_row_reduction(graph: Graph, shape: tuple[Size, ...]) -> bool:
    """True where some reduction over the inner dim walks the same rows: one pass can then make both."""
    return any(
        node.info.group == "reduce"
        and same(graph[node.args[0]].shape[-1], shape[-1])
        and len(graph[node.args[0]].shape) - 1 in node.attr("dims")
        and same(prod(graph[node.args[0]].shape), prod(shape))
        for node in graph
    )


def _splitter(run: range, parts: int) -> Callable[[list[Node], Node], int]:
    """Emits a reduction whose neighbouring dims `run`, taken as one, are cut into `parts`."""

    def emit(nodes: list[Node], node: Node) -> int:
        source = nodes[node.args[0]]
        dims = node.attr("dims")
        size = prod(source.shape[d] for d in run)
        assert isinstance(size, int)
        shape = (*source.shape[: run.start], parts, size // parts, *source.shape[run.stop :])
        parted = Node(len(nodes), "reshape", (source.id,), shape, source.dtype, (), node.origin)
        nodes.append(parted)
        moved = 2 - len(run)
        inner = tuple(
            sorted({d for d in dims if d < run.start} | {run.start + 1} | {d + moved for d in dims if d >= run.stop})
        )
        kept = tuple(s for i, s in enumerate(shape) if i not in inner)
        partial = Node(len(nodes), node.op, (parted.id,), kept, node.dtype, (("dims", inner),), node.origin)
        nodes.append(partial)
        spot = sum(1 for i in range(run.start) if i not in inner)
        final = Node(len(nodes), node.op, (partial.id,), node.shape, node.dtype, (("dims", (spot,)),), node.origin)
        nodes.append(final)
        return final.id

    return emit


def _rebuild(graph: Graph, emitters: Mapping[int, Callable[[list[Node], Node], int]]) -> Graph:
    nodes: list[Node] = []
    number: dict[int, int] = {}
    for node in graph:
        moved = replace(node, args=tuple(number[a] for a in node.args))
        if node.id in emitters:
            number[node.id] = emitters[node.id](nodes, moved)
        else:
            nodes.append(replace(moved, id=len(nodes)))
            number[node.id] = len(nodes) - 1
    return Graph(
        tuple(nodes),
        tuple(number[i] for i in graph.inputs),
        tuple(number[o] for o in graph.outputs),
        {number[i]: s for i, s in graph.strides.items()},
        graph.symbols,
        graph.device,
        graph.writes,
    )
