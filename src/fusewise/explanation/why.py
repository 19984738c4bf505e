"""Answers `--why A B`: why two things run as one kernel or do not, with both ways compiled where both exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import PurePath

from fusewise.errors import UnknownName, UsageError
from fusewise.explanation.graph import NOT_TRIED, NOT_TRIED_MEANING, GraphExplainer, predicted_from
from fusewise.explanation.places import ops_of
from fusewise.explanation.resources import build_for
from fusewise.lower.cpu_work import cpu_work_of
from fusewise.lower.kernel import Kernel
from fusewise.lower.price import Pricer
from fusewise.pipeline import compiler_for, lower_step
from fusewise.plan.cpu_cost import CpuPrediction, predict_cpu
from fusewise.plan.decisions import REASONS
from fusewise.plan.gpu_cost import Prediction
from fusewise.plan.plan import KernelStep, OpaqueStep, kernel_step
from fusewise.plan.prepare import layout_of
from fusewise.plan.region import Region
from fusewise.plan.replay import Candidate, Part, replay
from fusewise.report.documents import AlternativeKernel, KernelRow, Why
from fusewise.report.format import short_op

OTHER_GRAPHS = "graphs", "they belong to different graphs, which run one after the other"
INLINED = "inlined", "it has no kernel of its own: its readers compute it where they need it"

_LINE = re.compile(r"(?:(?P<file>[^:]+):)?(?P<line>\d+)")
_SUGGESTED_LINES = 5


def answer(graphs: Sequence[GraphExplainer], pair: tuple[str, str], fuel: int | None = None) -> tuple[Why, ...]:
    """One answer for each graph of a device that holds both.

    Args:
        pair: each the name of a kernel or a wall, an ATen op (`gelu`), or a line (`12`, `model.py:12`).
        fuel: of the plans.

    Raises:
        UnknownName: no graph has such a name.
        UsageError: no operator comes from such a line, or both name the same operators.
    """
    found = [(graph, _nodes(graph, pair[0]), _nodes(graph, pair[1])) for graph in graphs]
    for side, text in enumerate(pair, start=1):
        if not any(row[side] for row in found):
            raise _unknown(graphs, text)
    both = [(graph, left, right) for graph, left, right in found if left and right]
    answers = [_Asked(graph, *sides, fuel).answer() for graph, *nodes in both if (sides := _apart(*nodes)) is not None]
    if both and not answers:
        raise UsageError(f"{pair[0]!r} and {pair[1]!r} name the same operators.", "Name two that differ.")
    if not answers:
        code, meaning = OTHER_GRAPHS
        roles = [next(g.role for g, *nodes in found if nodes[side]) for side in (0, 1)]
        detail = f"{pair[0]} in {roles[0]}, {pair[1]} in {roles[1]}"
        return (Why(graphs[0].device, roles[0], *pair, False, code, meaning, detail),)
    return tuple(answers)


# ---- names


def _nodes(graph: GraphExplainer, text: str) -> frozenset[int]:
    """Nodes of a graph that a text names."""
    if text in graph.names:
        return frozenset(node for node, owner in graph.owner.items() if graph.names[owner] == text)
    line = _LINE.fullmatch(text)
    if line is not None:
        return frozenset(
            node.id
            for node in graph.graph
            if node.origin.line == int(line["line"])
            and (line["file"] is None or PurePath(node.origin.file).name == PurePath(line["file"]).name)
        )
    return frozenset(node.id for node in graph.graph if text in _op_names(node.origin.aten))


def _op_names(aten: str) -> tuple[str, ...]:
    """`gelu`, `aten.gelu` and `aten.gelu.default` for the last of them; as users call them, `softmax` for
    `aten._softmax.default` and `layer_norm` for `aten.native_layer_norm.default`.
    """
    if not aten:
        return ()
    public = short_op(aten).lstrip("_")
    return short_op(aten), public, public.removeprefix("native_"), aten.rpartition(".")[0], aten


def _unknown(graphs: Sequence[GraphExplainer], text: str) -> UsageError:
    line = _LINE.fullmatch(text)
    if line is not None:
        lines = {node.origin.line for graph in graphs for node in graph.graph if node.origin.line}
        near = sorted(sorted(lines, key=lambda n: abs(n - int(line["line"])))[:_SUGGESTED_LINES])
        return UsageError(f"no operator comes from line {text}.", f"Lines with operators near it: {_listed(near)}.")
    known = {name for graph in graphs for name in graph.names}
    known |= {short_op(node.origin.aten) for graph in graphs for node in graph.graph if node.origin.aten}
    return UnknownName("kernel, operator or line", text, known)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _apart(left: frozenset[int], right: frozenset[int]) -> tuple[frozenset[int], frozenset[int]] | None:
    """Both without what they share (a line that holds the other's op); None where nothing else is left."""
    if left <= right:
        return (left, right - left) if right - left else None
    return left - right, right


# ---- one pair in one graph


@dataclass(slots=True)
class _Asked:
    graph: GraphExplainer
    left: frozenset[int]
    right: frozenset[int]
    fuel: int | None

    def answer(self) -> Why:
        holders = self.graph.holders()
        owner = self.graph.owner
        # a constant that several ops use says nothing of where they run
        own = ([n for n in nodes if n in owner] or nodes for nodes in (self.left, self.right))
        left, right = (_steps(holders, nodes) for nodes in own)
        shared = sorted(left & right)
        if shared:
            return self._fused(shared[0])
        return self._separate(*self._closest(left, right))

    def _why(self, first: str, second: str, fused: bool, code: str, meaning: str) -> Why:
        graph = self.graph
        rates = graph.plan.machine.source
        held = tuple(row for row in graph.row.held_back if {first, second} & {row.kernel, *row.runs_as})
        return Why(graph.device, graph.role, first, second, fused, code, meaning, rate_source=rates, held_back=held)

    def _wanted(self, left: Region, right: Region) -> bool:
        return not self.left.isdisjoint(left.at) and not self.right.isdisjoint(right.at)

    def _candidates(self) -> list[Candidate]:
        return [c for c in replay(self.graph.plan, self.fuel, self._wanted) if c.alternative is not None]

    def _fused(self, step: int) -> Why:
        """The merge that brought the two into one kernel; a later one only made it grow."""
        name = self.graph.names[step]
        why = self._why(name, name, True, *INLINED)
        whole = {node for node, owner in self.graph.owner.items() if owner == step}
        for candidate in reversed(self._candidates()):
            if candidate.decision.taken and candidate.decision.consumer in whole:
                found = self._with_kernels(why, candidate)
                row = _of_row(next(row for row in self.graph.row.kernels if row.name == name))
                return replace(found, whole=None if row == found.together else row)
        return why

    def _separate(self, first: int, second: int) -> Why:
        names = self.graph.names[first], self.graph.names[second]
        if names[0] == names[1]:
            return self._why(*names, True, "saves-launch", REASONS["saves-launch"])
        why = self._why(*names, False, NOT_TRIED, NOT_TRIED_MEANING)
        rows = {row.name: row for row in self.graph.row.kernels}
        known = tuple(_of_row(rows[name]) for name in names if name in rows)
        for number in (first, second):
            step = self.graph.plan.steps[number]
            if isinstance(step, OpaqueStep):
                detail = f"{self.graph.names[number]}: {self.graph.wall_reason(step)}"
                return replace(why, code="wall", meaning=REASONS["wall"], detail=detail, apart=known)
        for candidate in reversed(self._candidates()):
            decision = candidate.decision
            ends = {self.graph.owner.get(decision.producer), self.graph.owner.get(decision.consumer)}
            if not decision.taken and ends == {first, second}:
                return self._with_kernels(why, candidate)
        return replace(why, apart=known)

    def _closest(self, left: frozenset[int], right: frozenset[int]) -> tuple[int, int]:
        """The two steps between which most bytes pass; the first of each side where none do."""
        numbers: dict[str, list[int]] = {}
        for number, name in enumerate(self.graph.names):
            numbers.setdefault(name, []).append(number)
        between: dict[tuple[int, int], int] = {}
        for pair in self.graph.row.not_fused:
            for a, b in product(numbers[pair.first], numbers[pair.second]):
                if (a in left and b in right) or (a in right and b in left):
                    between[a, b] = pair.bytes_between
        return max(between, key=lambda p: between[p]) if between else (min(left), min(right))

    def _with_kernels(self, why: Why, candidate: Candidate) -> Why:
        """The answer with the reason of the decision, and both ways compiled."""
        decision, found = candidate.decision, candidate.alternative
        assert found is not None
        return replace(
            why,
            code=decision.code,
            meaning=REASONS[decision.code],
            detail=decision.detail,
            bytes_saved=decision.bytes_saved,
            gain_us=decision.gain_us,
            apart=(self._kernel(found.left, "first"), self._kernel(found.right, "second")),
            together=None if found.merged is None else self._kernel(found.merged, "both"),
        )

    def _kernel(self, part: Part, tag: str) -> AlternativeKernel:
        """One kernel that might have been, or that is one of the plan's own."""
        graph, nodes = self.graph, tuple(sorted(part.region.nodes))
        for launch, row in graph.rows_of:
            if [(step.nodes, step.writes) for step in launch.steps] == [(nodes, part.writes)]:
                return _of_row(row)
        step = kernel_step(graph.graph, part.region, part.writes, graph.plan.machine, {}, 0)
        step = replace(step, name=f"{step.name.rpartition('_')[0]}_{tag}")
        kernel, prediction = self._lower(step)
        resources = None if graph.gpu is None else build_for(graph.gpu, kernel, graph.options.policy).resources
        return AlternativeKernel(
            name=step.name,
            ops=ops_of(graph.graph, nodes),
            dram_bytes=step.dram_bytes,
            predicted_us=step.predicted_us if prediction is None else prediction.time_us,
            resources=resources,
            predicted_from=predicted_from(prediction),
        )

    def _lower(self, step: KernelStep) -> tuple[Kernel, Prediction | CpuPrediction | None]:
        """The kernel of a step as the pipeline would make it, and its time as the pipeline would predict it."""
        graph, machine = self.graph, self.graph.plan.machine
        layouts = {v: layout_of(graph.graph, v) for v in (*step.reads, *step.writes)}
        if graph.gpu is None:
            kernel = lower_step(graph.graph, step, layouts, machine)
            if machine.cpu is None:
                return kernel, None
            return kernel, predict_cpu(machine.cpu, cpu_work_of(graph.plan, step, kernel))
        pricer = Pricer(graph.gpu, compiler_for(machine, graph.options.policy))
        priced = pricer.price(replace(graph.plan, layouts=layouts), step)
        return priced.kernel, priced.prediction


def _of_row(row: KernelRow) -> AlternativeKernel:
    return AlternativeKernel(row.name, row.ops, row.dram_bytes, row.predicted_us, row.resources, row.predicted_from)


def _steps(holders: dict[int, frozenset[int]], nodes: Iterable[int]) -> frozenset[int]:
    return frozenset().union(*(holders[n] for n in nodes))
