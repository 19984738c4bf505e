"""A plan without any fusion, and one that also stores what it sums: the two sides of the proof of a plan's fusions."""

from __future__ import annotations

from dataclasses import replace

from fusewise.ir.graph import Graph, Node
from fusewise.plan.partition import FUSED_GROUPS, Partitioner
from fusewise.plan.plan import KernelStep, OpaqueStep, Plan
from fusewise.plan.prepare import layout_of


def unfused(plan: Plan) -> Plan:
    """The plan's graph with a kernel for each node that computes, gathers, pads or joins; every value in memory.

    The graph is the one that was planned: copies inserted, reductions and statistics split. Only views, constants and
    positions stand inside the kernels that read them. Names are `alone_NODE_OP`.
    """
    graph = plan.graph
    made = frozenset(n.id for n in graph if n.info.group in (*FUSED_GROUPS, "load"))
    regions = Partitioner(graph, made, plan.machine, fuel=0).run().regions
    walls = {s.node: s for s in plan.steps if isinstance(s, OpaqueStep)}
    steps: list[KernelStep | OpaqueStep] = []
    for number in sorted([*regions, *walls]):
        if number in walls:
            steps.append(walls[number])
            continue
        region = regions[number]
        name = f"alone_{number}_{graph[number].op}"
        steps.append(KernelStep(name, region, tuple(sorted(region.reads)), (number,), (number,), 0, 0, 0.0))
    layouts = {n.id: layout_of(graph, n.id) for n in graph if n.op in ("input", "result") or n.id in regions}
    return Plan(graph, plan.machine, tuple(steps), layouts, plan.outputs, ())


def reassociates(node: Node) -> bool:
    """True for a reduction whose bits depend on the order in which it is taken: a sum or product of floats."""
    return node.op in ("sum", "prod") and node.dtype.is_float


def with_sums_stored(plan: Plan) -> Plan:
    """The plan with each kernel also writing its floating-point sums and products to memory."""
    graph = plan.graph
    steps = tuple(_with_sums(graph, s) if isinstance(s, KernelStep) else s for s in plan.steps)
    stored = {v for s in steps if isinstance(s, KernelStep) for v in s.writes}
    layouts = {**plan.layouts, **{v: layout_of(graph, v) for v in stored}}
    return replace(plan, steps=steps, layouts=layouts)


def _with_sums(graph: Graph, step: KernelStep) -> KernelStep:
    sums = {n for n in step.nodes if reassociates(graph[n])}
    return replace(step, writes=tuple(sorted(sums.union(step.writes))))
