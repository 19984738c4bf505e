"""What is one kernel on one device and not on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusewise.explanation.graph import NOT_TRIED, GraphExplainer
from fusewise.explanation.places import source_line
from fusewise.report.documents import FusionDifference, SourceLine


@dataclass(frozen=True, slots=True)
class Link:
    """Two ATen calls of which one reads the other's result.

    Attributes:
        ops, lines: of the call that makes the value and of the one that reads it.
        code: why no kernel holds both; empty where one does.
    """

    ops: tuple[str, str]
    lines: tuple[SourceLine, SourceLine]
    code: str


Links = Mapping[tuple[str, str], Link]


def links_of(graph: GraphExplainer) -> Links:
    """The links of a planned graph, by the names of the two calls in the captured program."""
    codes = {(p.first, p.second): p.code for p in graph.row.not_fused}
    kernels = graph.holders()
    found: dict[tuple[str, str], Link] = {}
    for node in graph.graph:
        for arg in node.args:
            arg = graph.graph.root(arg)
            maker, reader = graph.graph[arg].origin, node.origin
            if not maker.call or not reader.call or maker.call == reader.call:
                continue
            code = _code(graph, kernels[arg], kernels[node.id], codes)
            known = found.get((maker.call, reader.call))
            if known is None or (known.code and not code):
                lines = source_line(maker), source_line(reader)
                found[maker.call, reader.call] = Link((maker.aten, reader.aten), lines, code)
    return found


def differences(
    devices: Sequence[str], roles: Sequence[str], links: Sequence[Sequence[Links]]
) -> tuple[FusionDifference, ...]:
    """The links that are fused on some devices and not on others.

    Args:
        devices: names.
        roles: of the graphs.
        links: for each device those of each graph; a graph that runs as eager has none.
    """
    found: list[FusionDifference] = []
    for number, role in enumerate(roles):
        by_device = [graphs[number] for graphs in links]
        everywhere = [key for key in by_device[0] if all(key in other for other in by_device[1:])]
        for key in everywhere:
            codes = [graph[key].code for graph in by_device]
            if any(codes) and not all(codes):
                link = by_device[0][key]
                fused = tuple(d for d, code in zip(devices, codes, strict=True) if not code)
                apart = {d: code for d, code in zip(devices, codes, strict=True) if code}
                found.append(FusionDifference(role, link.ops, link.lines, fused, apart))
    return tuple(found)


def _code(
    graph: GraphExplainer, makers: frozenset[int], readers: frozenset[int], codes: Mapping[tuple[str, str], str]
) -> str:
    if makers & readers or not makers or not readers:
        return ""
    pairs = [(graph.names[a], graph.names[b]) for a in sorted(makers) for b in sorted(readers)]
    return next((codes[pair] for pair in pairs if pair in codes), NOT_TRIED)
