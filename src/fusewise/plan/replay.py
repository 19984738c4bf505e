"""The candidates of a finished plan with both sides as they were when each was tried: the partition run once more.

A compile keeps decisions alone, since regions of every step on the way would take memory that grows with the square of
the graph. Who wants to explain them runs the same partition again and looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fusewise.plan.decisions import Decision
from fusewise.plan.partition import Partitioner
from fusewise.plan.plan import Plan
from fusewise.plan.region import CannotMerge, Region, merge

Wanted = Callable[[Region, Region], bool]


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel that might have been: a region, and the values that it would write to memory."""

    region: Region
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Both ways to run a candidate: as two kernels, or as one (None where that is not possible)."""

    left: Part
    right: Part
    merged: Part | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate fusion as it was tried.

    Attributes:
        decision: what came of it.
        before_us: predicted time of the kernels as they were; None where the partition could not be repeated.
        sizes: number of graph nodes of producer and consumer, before.
        merged_size: number of nodes of the region that they became; 0 where they did not.
        alternative: the kernels themselves, where they were asked for.
    """

    decision: Decision
    before_us: float | None = None
    sizes: tuple[int, int] = (0, 0)
    merged_size: int = 0
    alternative: Alternative | None = None

    @property
    def after_us(self) -> float | None:
        """Predicted time after the fusion."""
        return None if self.before_us is None else self.before_us - self.decision.gain_us


def replay(plan: Plan, fuel: int | None = None, wanted: Wanted = lambda left, right: False) -> tuple[Candidate, ...]:
    """A candidate for each decision of a plan, in the same order; of splits of compiled kernels the decision alone.

    Args:
        fuel: of the plan's own compile.
        wanted: tells of two regions whether the alternative is to be kept.
    """
    needed = {p.base for p in plan.outputs} | {p.base for wall in plan.walls for p in wall.operands}
    best: list[Candidate] = []
    for frugal in (False, True):
        recorder = _Recorder(plan, frozenset(needed), fuel, frugal, wanted)
        recorder.run()
        same = _common(plan.decisions, recorder.candidates)
        if len(same) > len(best):
            best = same
        if len(best) == len(plan.decisions):
            break
    rest = [Candidate(decision) for decision in plan.decisions[len(best) :]]
    return (*best, *rest)


def _common(decisions: Iterable[Decision], candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates as far as they are those of the decisions."""
    found: list[Candidate] = []
    for decision, candidate in zip(decisions, candidates, strict=False):
        if _key(decision) != _key(candidate.decision):
            break
        found.append(candidate)
    return found


def _key(decision: Decision) -> tuple[object, ...]:
    # not the detail: it may name axes, which are numbered anew in each run
    return decision.kind, decision.producer, decision.consumer, decision.taken, decision.code


class _Recorder(Partitioner):
    """A partitioner that notes what each decision was about."""

    def __init__(self, plan: Plan, needed: frozenset[int], fuel: int | None, frugal: bool, wanted: Wanted) -> None:
        super().__init__(plan.graph, needed, plan.machine, fuel, frugal, plan.apart)
        self.wanted = wanted
        self.candidates: list[Candidate] = []

    def _try_merge(self, producer: int, consumer: int, kind: str) -> bool:
        left, right = self.regions[producer], self.regions[consumer]
        before = self._time(left, left.reads) + self._time(right, right.reads)
        sizes = len(left.at), len(right.at)
        parts = None
        if self.wanted(left, right) or self.wanted(right, left):
            parts = self._part(producer), self._part(consumer)
        shared = self._shared(producer, consumer) if kind == "siblings" else ()
        taken = super()._try_merge(producer, consumer, kind)
        decision = self.decisions[-1]
        alternative = None
        if parts is not None:
            merged = self._part(consumer) if taken else self._merged(decision, parts[0], parts[1], shared)
            alternative = Alternative(parts[0], parts[1], merged)
        merged_size = len(self.regions[consumer].at) if taken else 0
        self.candidates.append(Candidate(decision, before, sizes, merged_size, alternative))
        return taken

    def _try_inline(self, value: int, owner: int, readers: list[int], opened: set[int]) -> bool:
        regions = [self.regions[number] for number in (owner, *readers)]
        before = sum(self._time(region, region.reads) for region in regions)
        known, sizes = len(self.decisions), (len(regions[0].at), len(regions[1].at))
        taken = super()._try_inline(value, owner, readers, opened)
        self.candidates += [Candidate(decision, before, sizes) for decision in self.decisions[known:]]
        return taken

    def _part(self, number: int) -> Part:
        region = self.regions[number]
        writes = {v for v in region.nodes if v in self.needed or self.readers.get(v, set()) - {number}}
        return Part(region.copy(), tuple(sorted(writes)))

    def _merged(self, decision: Decision, left: Part, right: Part, shared: Iterable[int]) -> Part | None:
        """What a refused fusion would have made; None where it cannot be."""
        if decision.code == "cycle":
            return None
        try:
            region = merge(self.graph, left.region, right.region, shared)
        except CannotMerge:
            return None
        pair = {decision.producer, decision.consumer}
        writes = {v for v in (*left.writes, *right.writes) if v in self.needed or self.readers.get(v, set()) - pair}
        return Part(region, tuple(sorted(writes)))
