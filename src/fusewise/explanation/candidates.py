"""Every candidate fusion of a planned graph, with what is known of both sides of the choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusewise.explanation.graph import GraphExplainer
from fusewise.explanation.places import source_line
from fusewise.plan.decisions import REASONS, Decision
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
    known = [r for r in resources if r is not None and r.regs_per_thread is not None]
    if not known or len(known) < len(resources):
        return Figures(predicted_us)
    return Figures(
        predicted_us,
        regs_per_thread=max(r.regs_per_thread or 0 for r in known),
        spill_bytes=sum(r.spill_bytes or 0 for r in known),
        occupancy=min(r.occupancy or 0.0 for r in known),
        resources_source="compiled" if all(r.source == "compiled" for r in known) else "modelled",
    )


def _row(graph: GraphExplainer, candidate: Candidate) -> CandidateRow:
    decision = candidate.decision
    sides = [_side(graph, n, size) for n, size in zip(_ends(candidate), candidate.sizes, strict=True)]
    if decision.kind == "fission":
        before, after = _split(graph, decision)
    else:
        before = figures(candidate.before_us, [_resources(graph, side.kernel, side.nodes) for side in sides])
        after = figures(candidate.after_us, [_resources(graph, sides[1].kernel, candidate.merged_size)])
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
        before=before,
        after=after,
    )


def _split(graph: GraphExplainer, decision: Decision) -> tuple[Figures, Figures]:
    """Figures of a kernel and of its parts: those that the plan has; of the others the time, by the predicted gain."""
    steps = {graph.owner.get(n) for n in (decision.producer, decision.consumer)}
    names = {graph.names[n] for n in steps if n is not None}
    rows = [row for row in graph.row.kernels if row.name in names]
    time_us = sum(row.predicted_us for row in rows)
    source = "compiled" if all(row.predicted_from == "compiled" for row in rows) else "modelled"
    here = replace(figures(time_us, [row.resources for row in rows]), time_source=source)
    gain_us = decision.gain_us
    other = Figures(time_us + gain_us if decision.taken else time_us - gain_us, source)
    return (other, here) if decision.taken else (here, other)


def _ends(candidate: Candidate) -> tuple[int, int]:
    return candidate.decision.producer, candidate.decision.consumer


def _side(graph: GraphExplainer, node: int, size: int) -> CandidateSide:
    origin = graph.graph[node].origin
    owner = graph.owner.get(node)
    kernel = "" if owner is None else graph.names[owner]
    return CandidateSide(origin.aten or graph.graph[node].op, source_line(origin), size, kernel)


def _resources(graph: GraphExplainer, kernel: str, nodes: int) -> KernelResources | None:
    """What a kernel of the plan takes, where it holds just so many nodes: it is then the side that was tried."""
    for launch, row in graph.rows_of:
        if launch.name == kernel and [len(step.nodes) for step in launch.steps] == [nodes]:
            return row.resources
    return None
