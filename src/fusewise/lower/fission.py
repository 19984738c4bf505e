"""Splits kernels that their own parts would beat: too many values alive at once for the registers of a thread.

A plan is made by bytes and launches alone. Where a kernel, compiled, spills, or keeps so few programs resident that
latency binds it, it is planned again with a cut through it, at the places where least has to pass through memory; the
plan with the cut stays where the compiled parts together are predicted to be faster than the whole, with whatever
relief the device has for it (`lower.relief`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from fusewise.config import Fission
from fusewise.ir.graph import Graph
from fusewise.lower.kernel import Kernel
from fusewise.lower.price import MUST_GAIN, Priced, Pricer
from fusewise.lower.relief import relieve, split_way, trouble_of
from fusewise.plan.cost import value_bytes
from fusewise.plan.decisions import Decision, HeldBack, Way
from fusewise.plan.partition import Cut
from fusewise.plan.plan import KernelStep, Plan
from fusewise.plan.schedule import Schedule

MakePlan = Callable[[Sequence[Cut]], Plan]
_Key = tuple[tuple[int, ...], tuple[int, ...]]  # nodes and writes of a kernel, which stay where names change

_CUTS = 2  # places tried in one kernel
_LARGE = 400  # nodes of a kernel of which one cut is tried: it takes seconds to compile
_LEAST_SHARE = 0.2  # of a kernel's arithmetic on either side of a cut
_MOST_SPLITS = 8  # kernels looked at in one graph
_FEW_NODES = 8  # of a kernel that holds nothing worth cutting


@dataclass(frozen=True, slots=True)
class Refined:
    """A plan whose kernels were compiled and priced, and those kernels by name."""

    plan: Plan
    priced: dict[str, Priced]

    @property
    def time_us(self) -> float:
        """Predicted time of all kernels."""
        return sum(p.time_us for p in self.priced.values())

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels by name."""
        return {name: p.kernel for name, p in self.priced.items()}


def refine(make: MakePlan, pricer: Pricer, fission: Fission = "auto") -> Refined:
    """The plan with compiled schedules, and with kernels relieved or split where that is predicted to be faster.

    Args:
        make: plans the graph with the given cuts.
        fission: `auto`, `never`, or `always`: each kernel with a place to cut is cut, however the times are predicted,
            and none is relieved.
    """
    cuts: list[Cut] = []
    chosen: dict[_Key, Schedule] = {}
    best = _priced(make(cuts), pricer, chosen)
    decisions: list[Decision] = []
    held: list[HeldBack] = []
    seen: set[frozenset[int]] = set()
    forced = fission == "always"
    for _ in range(_MOST_SPLITS):
        step = next((s for s in best.plan.kernels if _is_next(s, best, seen, forced)), None)
        if step is None:
            break
        seen.add(frozenset(step.nodes))
        relief = None
        places, problem = _places(best, step, fission)
        if not forced and trouble_of(best.priced[step.name]).held_back:
            relief = relieve(best.plan, step, best.priced[step.name], pricer)
            chosen[step.nodes, step.writes] = relief.best.kernel.schedule
            best = Refined(best.plan, best.priced | {step.name: relief.best})
        must_us = inf if forced else best.time_us - (1 - MUST_GAIN) * best.priced[step.name].time_us
        split = Way("split", "split in two", problem=problem)
        tried: list[tuple[Refined, Cut]] = []
        for cut in places:
            plan = make([*cuts, cut])
            if _least_us(plan, best, pricer) < must_us:
                tried.append((_priced(plan, pricer, chosen), cut))
            else:
                split = replace(split, problem="parts that ran at their floors would be no faster")
        if tried:
            found, cut = min(tried, key=lambda item: item[0].time_us)
            split = replace(split_way(_parts(found, cut)), taken=found.time_us < must_us)
            decisions.append(_decision(best, found, step, cut, split.taken))
            if split.taken:
                best, cuts = found, [*cuts, cut]
        if relief is not None:
            name = split.name if split.taken else relief.best_name
            ways = tuple(replace(way, taken=way.name == name) for way in (*relief.ways, split))
            held.append(HeldBack(step.name, step.nodes, ways))
    plan = replace(best.plan, decisions=(*best.plan.decisions, *decisions), held_back=tuple(held))
    return with_predictions(plan, best.priced)


def with_predictions(plan: Plan, priced: dict[str, Priced]) -> Refined:
    """A plan whose steps hold the predicted times of its kernels."""

    def told(step: KernelStep) -> KernelStep:
        found = priced[step.name]
        return replace(step, predicted_us=found.time_us, prediction=found.prediction)

    return Refined(replace(plan, steps=tuple(told(s) if isinstance(s, KernelStep) else s for s in plan.steps)), priced)


def cheapest_cuts(graph: Graph, step: KernelStep) -> list[Cut]:
    """Ways to cut a kernel in two, least bytes through memory first.

    The nodes are lined up so that what makes one output stands together; a cut is a place in that line.
    """
    line = _line(graph, step)
    total = sum(graph[n].info.cost for n in line)
    if len(line) < _FEW_NODES or total <= 0:
        return []
    inside = set(line)
    written = set(step.writes)
    readers: dict[int, list[int]] = {}
    place = {n: i for i, n in enumerate(line)}
    for n in line:
        for value in _operands(graph, n, inside):
            readers.setdefault(value, []).append(place[n])
    hints = graph.hints()
    size = {v: value_bytes(graph, v, hints) for v in readers}
    found: list[tuple[int, int]] = []
    done = 0.0
    for at in range(1, len(line)):
        done += graph[line[at - 1]].info.cost
        if not _LEAST_SHARE <= done / total <= 1 - _LEAST_SHARE:
            continue
        moved = 0
        for value, places in readers.items():
            if max(places) < at:
                continue
            if value not in inside:
                moved += size[value] if min(places) < at else 0  # read by both sides
            elif place[value] < at:
                moved += size[value] * (1 if value in written else 2)
        found.append((moved, at))
    chosen: list[int] = []
    for _, at in sorted(found):
        if all(abs(at - other) > len(line) // 10 for other in chosen):
            chosen.append(at)
        if len(chosen) == (_CUTS if len(line) <= _LARGE else 1):
            break
    return [(frozenset(line[:at]), frozenset(line[at:])) for at in chosen]


def _line(graph: Graph, step: KernelStep) -> list[int]:
    """The nodes of a kernel in an order in which each comes after its operands: output by output, depth first."""
    inside = set(step.nodes)
    line: list[int] = []
    done: set[int] = set()
    for root in (*step.writes, *step.nodes):
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in done:
                continue
            if ready:
                done.add(node)
                line.append(node)
                continue
            stack.append((node, True))
            stack.extend((v, False) for v in reversed(_operands(graph, node, inside)) if v in inside and v not in done)
    return line


def _operands(graph: Graph, node: int, inside: set[int]) -> list[int]:
    """What a node reads, views looked through."""
    found: dict[int, None] = {}
    for arg in graph[node].args:
        while graph[arg].info.group == "view" and arg not in inside:
            arg = graph[arg].args[0]
        if graph[arg].shape:
            found[arg] = None
    return list(found)


def _priced(plan: Plan, pricer: Pricer, chosen: Mapping[_Key, Schedule]) -> Refined:
    """A plan's kernels, those that were looked at before under the schedules chosen then."""
    priced: dict[str, Priced] = {}
    for step, found in zip(plan.kernels, pricer.price_all(plan, plan.kernels), strict=True):
        schedule = chosen.get((step.nodes, step.writes), found.kernel.schedule)
        if schedule != found.kernel.schedule:
            found = pricer.price_kernel(plan, step, replace(found.kernel, schedule=schedule))
        priced[step.name] = found
    return Refined(plan, priced)


def _least_us(plan: Plan, before: Refined, pricer: Pricer) -> float:
    """Time of a plan if each kernel that is new in it ran at its floor: what no compiling is needed for."""
    known = {(s.nodes, s.writes): before.priced[s.name].time_us for s in before.plan.kernels}
    return sum(known.get((s.nodes, s.writes)) or pricer.floor_us(s.dram_bytes) for s in plan.kernels)


def _is_next(step: KernelStep, refined: Refined, seen: set[frozenset[int]], forced: bool) -> bool:
    nodes = frozenset(step.nodes)
    if forced:
        return not any(nodes <= whole for whole in seen)
    trouble = trouble_of(refined.priced[step.name])
    return nodes not in seen and (trouble.held_back or trouble.too_large)


def _places(refined: Refined, step: KernelStep, fission: Fission) -> tuple[list[Cut], str]:
    """(the cuts of a kernel that are tried; where there are none, why)."""
    if fission == "never":
        return [], "the options rule it out"
    if fission == "auto" and not trouble_of(refined.priced[step.name]).too_large:
        return [], "its parts would issue as many instructions"
    found = cheapest_cuts(refined.plan.graph, step)
    return found, "" if found else "there is no place to cut it"


def _parts(refined: Refined, cut: Cut) -> list[Priced]:
    """The kernels of a plan that a cut made."""
    nodes = cut[0] | cut[1]
    return [refined.priced[s.name] for s in refined.plan.kernels if not nodes.isdisjoint(s.nodes)]


def _decision(before: Refined, after: Refined, step: KernelStep, cut: Cut, taken: bool) -> Decision:
    whole = before.priced[step.name]
    parts = _parts(after, cut)
    moved = sum(s.dram_bytes for s in after.plan.kernels) - sum(s.dram_bytes for s in before.plan.kernels)
    detail = f"whole: {_text(whole)}; apart: {', '.join(map(_text, parts))}"
    code = "registers" if taken else "whole-is-faster"
    gain = before.time_us - after.time_us
    return Decision("fission", max(cut[0]), max(cut[1]), taken, code, detail, -moved, gain)


def _text(priced: Priced) -> str:
    if priced.used is None or priced.prediction is None:
        return f"{priced.time_us:.1f} us (floor)"
    spilled = priced.used.spill_store_bytes + priced.used.spill_load_bytes
    return (
        f"{priced.used.regs_per_thread} registers, {spilled} bytes spilled,"
        f" occupancy {priced.prediction.residency.fraction:.0%}, {priced.time_us:.1f} us"
    )
