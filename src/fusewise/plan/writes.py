"""Which of a program's writes to its arguments a kernel makes itself, straight into the argument's memory.

Everything in the graph reads an argument as it was before the call. So the kernel that writes one runs after all others
that read it, and reads it itself only at the point that it then writes. A write that cannot be made so is a copy at the
end of the call, from memory of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from fusewise.ir.graph import Graph, live_nodes
from fusewise.ir.sizes import Size, hint, norm, same
from fusewise.plan.region import Region

Units = dict[int, set[int]]


@dataclass(frozen=True, slots=True)
class Writes:
    """How the writes of a graph are made.

    Attributes:
        over: a value that a kernel stores, and the input whose memory it stores it to.
        late: positions among the graph's outputs that are copied to their inputs at the end.
    """

    over: Mapping[int, int]
    late: tuple[int, ...]


def choose_writes(
    graph: Graph,
    regions: Mapping[int, Region],
    walls: Mapping[int, Iterable[int]],
    layouts: Mapping[int, tuple[Size, ...]],
    before: Units,
    late: Collection[int] = (),
) -> Writes:
    """The writes that can be made in place.

    Args:
        regions: the kernels by their ids.
        walls: for each PyTorch op the values in memory that it takes.
        layouts: element strides of the inputs.
        before: for each kernel and PyTorch op those that must run before it; what a write adds is added.
        late: writes that are known to be made at the end.
    """
    over: dict[int, int] = {}
    refused = list(late)
    viewed = _viewed_inputs(graph, walls)
    checks = any(n.op in ("gather", "guard") for n in graph)
    owner = {value: number for number, region in regions.items() for value in region.nodes}
    for output, position in graph.writes.items():
        if output in late:
            continue
        value, target = graph.outputs[output], graph.inputs[position]
        unit = owner.get(value)
        # a check that fails must leave the caller's tensors as they were
        if (
            unit is None
            or checks
            or target in viewed
            or not _is_safe(graph, regions[unit], value, target, layouts[target])
        ):
            refused.append(output)
            continue
        readers = {n for n, region in regions.items() if target in region.reads}
        readers |= {wall for wall, values in walls.items() if target in values}
        readers.discard(unit)
        if _reaches(before, unit, readers):
            refused.append(output)
            continue
        before[unit] |= readers
        over[value] = target
    return Writes(over, tuple(sorted(refused)))


def _viewed_inputs(graph: Graph, walls: Mapping[int, Iterable[int]]) -> frozenset[int]:
    """Inputs in whose memory a result of a PyTorch op may lie."""
    inside: dict[int, frozenset[int]] = {i: frozenset((i,)) for i in graph.inputs}
    for node in graph:
        if node.op == "result" and graph[node.args[0]].has("aliases"):
            inside[node.id] = frozenset().union(*(inside.get(v, ()) for v in walls[node.args[0]]))
    return frozenset().union(*(found for value, found in inside.items() if value not in graph.inputs))


def _is_safe(
    graph: Graph,
    region: Region,
    value: int,
    target: int,
    strides: tuple[Size, ...],
) -> bool:
    """True where a kernel of `region` may store `value` to the memory of the input `target`."""
    if not is_injective(graph[target].shape, strides, graph.hints()):
        return False
    parallel = {a for a, n in region.axes.items() if a not in region.reduce | region.loop and not same(n, 1)}
    if not parallel <= region.at_axes(value):
        return False  # several programs would write one element
    if target not in region.reads:
        return True
    if any(at != region.at[value] for at in region.reads[target]):
        return False
    # of a loop over rows only a GPU's kernel holds each row on chip; elsewhere the last pass over a row stores
    return not region.loop or graph.device != "cpu"


def is_injective(shape: tuple[Size, ...], strides: tuple[Size, ...], hints: Mapping[str, int]) -> bool:
    """True where no two elements of a tensor can share memory, whatever its sizes are at the call."""
    dims = [(stride, size) for size, stride in zip(shape, strides, strict=True) if not same(size, 1)]
    reach: Size = 1
    for stride, size in sorted(dims, key=lambda d: (hint(d[0], hints), hint(d[1], hints))):
        room = norm(stride - reach)
        if not (room >= 0 if isinstance(room, int) else room.is_nonnegative):
            return False
        reach = norm(reach + (size - 1) * stride)
    return True


def _reaches(before: Units, unit: int, targets: set[int]) -> bool:
    """True where one of `targets` must run after `unit`."""
    seen: set[int] = set()
    stack = list(targets)
    while stack:
        number = stack.pop()
        if number == unit:
            return True
        if number not in seen:
            seen.add(number)
            stack.extend(before[number])
    return False


def without_copies(graph: Graph, late: Collection[int]) -> Graph:
    """The graph in which what is written at the end is copied from where it lies, with no copy in between."""
    if not late:
        return graph
    outputs = list(graph.outputs)
    for output in late:
        node = graph[outputs[output]]
        if node.op == "copy":
            outputs[output] = node.args[0]
    live = sorted(live_nodes(graph.nodes, [*outputs, *graph.inputs]))
    number = {old: new for new, old in enumerate(live)}
    return replace(
        graph,
        nodes=tuple(replace(graph[n], id=number[n], args=tuple(number[a] for a in graph[n].args)) for n in live),
        inputs=tuple(number[i] for i in graph.inputs),
        outputs=tuple(number[o] for o in outputs),
        strides={number[n]: s for n, s in graph.strides.items() if n in number},
    )
