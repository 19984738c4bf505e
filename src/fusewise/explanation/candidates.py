"""Every candidate fusion of a planned graph, with what is known of both sides of the choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusewise.explanation.graph import GraphExplainer
from fusewise.explanation.places import source_line
from fusewise.plan.decisions import REASONS
from fusewise.plan.replay import Candidate
from fusewise.report.documents import CandidateRow, CandidateSide, Figures, KernelResources


def candidate_rows(graph: GraphExplainer, candidates: Iterable[Candidate]) -> tuple[CandidateRow, ...]:
    """A row for each candidate.

    Registers and occupancy are those of the finished plan's kernels: they are known where a side is one of these, and
    where the fusion made one of these.
    """
    return tuple(_row(graph, candidate) for candidate in candidates)


def figures(predicted_us: float | None, resources: Sequence[KernelResources | None]) -> Figures:
    """Figures of kernels that run one after the other."""
    known = [r for r in resources if r is not None and r.source == "compiled"]
    if not known or len(known) < len(resources):
        return Figures(predicted_us)
    return Figures(
        predicted_us,
        regs_per_thread=max(r.regs_per_thread or 0 for r in known),
        spill_bytes=sum(r.spill_bytes or 0 for r in known),
        occupancy=min(r.occupancy or 0.0 for r in known),
        resources_source="compiled",
    )


def _row(graph: GraphExplainer, candidate: Candidate) -> CandidateRow:
    decision = candidate.decision
    sides = [_side(graph, n, size) for n, size in zip(_ends(candidate), candidate.sizes, strict=True)]
    apart = [_resources(graph, side.kernel, side.nodes) for side in sides]
    merges = decision.taken and decision.kind != "inline"
    together = _resources(graph, sides[1].kernel, sum(candidate.sizes)) if merges else None
    return CandidateRow(
        kind=decision.kind,
        first=sides[0],
        second=sides[1],
        taken=decision.taken,
        code=decision.code,
        meaning=REASONS[decision.code],
        detail=decision.detail,
        bytes_saved=decision.bytes_saved,
        gain_us=decision.gain_us,
        before=figures(candidate.before_us, apart),
        after=figures(candidate.after_us, [together]),
    )


def _ends(candidate: Candidate) -> tuple[int, int]:
    return candidate.decision.producer, candidate.decision.consumer


def _side(graph: GraphExplainer, node: int, size: int) -> CandidateSide:
    origin = graph.graph[node].origin
    owner = graph.owner.get(node)
    kernel = "" if owner is None else graph.names[owner]
    return CandidateSide(origin.aten or graph.graph[node].op, source_line(origin), size, kernel)


def _resources(graph: GraphExplainer, kernel: str, nodes: int) -> KernelResources | None:
    """What a kernel of the plan takes, where it holds just so many nodes: it is then the side that was tried."""
    for step, row in zip(graph.plan.kernels, graph.row.kernels, strict=True):
        if step.name == kernel and len(step.nodes) == nodes:
            return row.resources
    return None
