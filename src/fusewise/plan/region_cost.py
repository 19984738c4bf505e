"""Predicted time of a region before it is lowered, for the choice of what to fuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusewise.ir.graph import Graph
from fusewise.ir.sizes import hint
from fusewise.plan.cost import Machine, time_us
from fusewise.plan.cpu_cost import FRESH_BYTES, CpuWork, class_of, predict_cpu
from fusewise.plan.region import Region, elements
from fusewise.plan.schedule import THREADS_FROM

PIECE = 4096
"""Elements that a core takes at a time where nothing is reduced, or where rows are few."""


def region_us(
    machine: Machine,
    graph: Graph,
    region: Region,
    read_bytes: float,
    writes: Sequence[int],
    lanes: Mapping[str, float],
    live: float,
    touched: float | None = None,
) -> float:
    """Predicted time of a region as one kernel.

    Args:
        read_bytes: least bytes that it reads.
        writes: bytes of each value that it stores.
        lanes: of `lanes_of`, and whatever it computes beside.
        live: of `live_values`.
        touched: bytes that stand in a CPU's caches; None: its own.
    """
    if machine.cpu is None:
        return time_us(machine, read_bytes + sum(writes), sum(lanes.values()))
    hints = graph.hints()
    points, rows = elements(region, hints), 1
    for name, size in region.axes.items():
        if name not in region.reduce and name not in region.loop:
            rows *= max(1, hint(size, hints))
    work = CpuWork(
        read_bytes=read_bytes,
        write_bytes=sum(writes),
        lanes=lanes,
        points=points,
        live=live,
        pieces=max(-(-points // PIECE), rows if region.reduce else 1),
        threads=points >= THREADS_FROM,
        fresh_bytes=sum(w for w in writes if w >= FRESH_BYTES),
        touched_bytes=touched,
    )
    return predict_cpu(machine.cpu, work).time_us


def lanes_of(machine: Machine, graph: Graph, region: Region, hints: Mapping[str, int]) -> dict[str, float]:
    """Instructions of a region by class; accesses of memory are left out."""
    lanes: dict[str, float] = {}
    for node, at in region.at.items():
        own = 1
        for name in frozenset().union(*(i.axes() for i in region.operand.get(node, at))):
            own *= max(1, hint(region.axes[name], hints))
        add_lanes(lanes, machine, graph, node, own)
    return lanes


def add_lanes(lanes: dict[str, float], machine: Machine, graph: Graph, node: int, points: int) -> None:
    """Counts the instructions of a node at so many points; on a GPU all are of one class."""
    found = graph[node]
    kind, each = "plain", found.info.cost
    if machine.cpu is not None:
        kind, each = class_of(found.op, found.dtype, [graph[a].dtype for a in found.args])
    lanes[kind] = lanes.get(kind, 0.0) + each * points


def live_values(graph: Graph, region: Region) -> float:
    """Most 4-byte values of one element alive at once, in the order of the graph; what a row shares is left out.

    Of two regions as one it is at most the sum of both.
    """
    axes_of = {n: frozenset().union(*(i.axes() for i in at)) if at else frozenset() for n, at in region.at.items()}
    widest = max(map(len, axes_of.values()), default=0)
    last: dict[int, int] = {}
    order = sorted(region.at)
    args = {node: [graph.root(a) for a in graph[node].args] for node in order}
    for node in order:
        last.update(dict.fromkeys(args[node], node))
    alive = peak = 0.0
    ends: dict[int, float] = {}
    for node in order:
        for arg in args[node]:
            if arg in region.reads and arg not in axes_of and graph[arg].shape:
                axes_of[arg] = axes_of[node]
                alive += _open(graph, arg, last[arg], ends)
        if node in last and len(axes_of[node]) == widest:
            alive += _open(graph, node, last[node], ends)
        peak = max(peak, alive)
        alive -= ends.pop(node, 0.0)
    return peak


def _open(graph: Graph, value: int, end: int, ends: dict[int, float]) -> float:
    """Registers of a value that is alive from here on."""
    width = max(0.5, graph[value].dtype.bytes / 4)
    ends[end] = ends.get(end, 0.0) + width
    return width
