"""Which of the user's calls and lines graph nodes come from."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence

from fusewise.ir.graph import Graph, Origin
from fusewise.report.documents import SourceLine


def ops_of(graph: Graph, nodes: Sequence[int]) -> tuple[str, ...]:
    """The ATen calls behind some nodes, in order.

    A call may have become several nodes, and several calls may share a source line: nodes of one op and line are one
    call where they read each other.
    """
    call: dict[int, int] = {}  # node -> the first node of its call
    for n in nodes:
        call[n] = n
        for arg in graph[n].args:
            arg = graph.root(arg)
            if arg in call and graph[arg].origin == graph[n].origin:
                first, other = sorted((_first(call, arg), _first(call, n)))
                call[other] = first
    return tuple(graph[n].origin.aten for n in nodes if _first(call, n) == n and graph[n].origin.aten)


def _first(call: dict[int, int], node: int) -> int:
    while call[node] != node:
        node = call[node]
    return node


def lines_of(origins: Iterable[Origin]) -> tuple[SourceLine, ...]:
    """The user's lines of some origins, ascending."""
    places = {(o.file, o.line): source_line(o) for o in origins if o.file}
    return tuple(places[place] for place in sorted(places))


def source_line(origin: Origin) -> SourceLine:
    """The user's line of an origin, with its code."""
    text = linecache.getline(origin.file, origin.line).strip() or origin.text
    return SourceLine(origin.file, origin.line, text)
