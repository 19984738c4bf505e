"""The plan of one graph: which kernels and walls run, in which order, what each reads and writes."""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusewise.config import Policy
from fusewise.ir.graph import Graph
from fusewise.ir.sizes import Size
from fusewise.plan.cost import Machine, value_bytes
from fusewise.plan.cpu_cost import CpuPrediction
from fusewise.plan.decisions import Decision, HeldBack
from fusewise.plan.gpu_cost import Prediction
from fusewise.plan.memory import allowed_bytes, peak_bytes
from fusewise.plan.partition import Cut, Partition, Partitioner
from fusewise.plan.prepare import Placement, insert_copies, layout_of, place, split_reductions
from fusewise.plan.region import Region, elements
from fusewise.plan.region_cost import lanes_of, live_values, region_us
from fusewise.plan.statistics import keep_wide, split_statistics
from fusewise.plan.traffic import unfused_bytes
from fusewise.plan.writes import Writes, choose_writes, without_copies


@dataclass(frozen=True, slots=True)
class KernelStep:
    """One generated kernel.

    Attributes:
        name: a C identifier, made of the ATen ops that it holds.
        region: what it computes.
        reads: values from memory that it reads.
        writes: values that it writes to memory.
        nodes: the graph nodes that it computes, ascending.
        dram_bytes: least bytes that it moves, by the hints.
        unfused_bytes: bytes that one eager kernel an ATen op would move for the same nodes.
        predicted_us: modelled time.
        prediction: its parts, where the kernel itself was priced: a GPU's compiled, a CPU's lowered.
        over: values that it writes straight into the memory of an input: (value, input).
    """

    name: str
    region: Region
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    nodes: tuple[int, ...]
    dram_bytes: int
    unfused_bytes: int
    predicted_us: float
    prediction: Prediction | CpuPrediction | None = None
    over: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class OpaqueStep:
    """One PyTorch op run as it is: graph node, and the real tensor behind each operand."""

    node: int
    operands: tuple[Placement, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Kernels that run side by side in one launch.

    Attributes:
        name: of the launch, a C identifier.
        members: names of kernel steps that stand side by side among the plan's steps, in that order.
        predicted_us: modelled time of the launch.
    """

    name: str
    members: tuple[str, ...]
    predicted_us: float


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a plan: a kernel, or the members of a bundle; attributes as theirs."""

    name: str
    steps: tuple[KernelStep, ...]
    predicted_us: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs.

    Attributes:
        graph: the graph as planned (after copies were inserted and reductions split).
        machine: the device that it is planned for.
        steps: in order of execution.
        layouts: element strides of every value in memory.
        outputs: where each output of the graph lies.
        decisions: every candidate fusion, taken or refused.
        apart: the cuts that it was planned with.
        late: outputs, by position, that are copied to the inputs that `graph.writes` names when all steps are done.
        bundles: kernels that share a launch.
        held_back: kernels that registers hold back, with the ways that were weighed.
    """

    graph: Graph
    machine: Machine
    steps: tuple[KernelStep | OpaqueStep, ...]
    layouts: Mapping[int, tuple[Size, ...]]
    outputs: tuple[Placement, ...]
    decisions: tuple[Decision, ...]
    apart: tuple[Cut, ...] = ()
    late: tuple[int, ...] = ()
    bundles: tuple[Bundle, ...] = ()
    held_back: tuple[HeldBack, ...] = ()

    @property
    def kernels(self) -> tuple[KernelStep, ...]:
        return tuple(s for s in self.steps if isinstance(s, KernelStep))

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of kernels, in order."""
        by_name = {s.name: s for s in self.kernels}
        first = {b.members[0]: b for b in self.bundles}
        inside = {name for b in self.bundles for name in b.members}
        found: list[Launch] = []
        for name, step in by_name.items():
            if name in first:
                bundle = first[name]
                steps = tuple(by_name[member] for member in bundle.members)
                found.append(Launch(bundle.name, steps, bundle.predicted_us))
            elif name not in inside:
                found.append(Launch(name, (step,), step.predicted_us))
        return tuple(found)

    @property
    def walls(self) -> tuple[OpaqueStep, ...]:
        return tuple(s for s in self.steps if isinstance(s, OpaqueStep))


def make_plan(
    graph: Graph,
    machine: Machine,
    fuel: int | None = None,
    policy: Policy = "balanced",
    apart: Sequence[Cut] = (),
) -> Plan:
    """Plans a graph for a machine.

    Args:
        fuel: the greatest number of fusions.
        policy: `conservative` keeps the order of every reduction; `aggressive` also keeps f32 across 16-bit values that
            never reach memory.
        apart: see `Partitioner`.
    """
    if policy == "aggressive":
        graph = keep_wide(graph)
    if policy != "conservative":
        graph = split_reductions(split_statistics(graph, machine), machine)
    whole, late = graph, frozenset[int]()
    while True:
        graph = insert_copies(without_copies(whole, late))
        plan = _plan(graph, machine, fuel, apart, late)
        if set(plan.late) == late:
            return plan
        late = frozenset(plan.late)  # planned again without the copies that cannot be made in place


def _plan(graph: Graph, machine: Machine, fuel: int | None, apart: Sequence[Cut], late: frozenset[int]) -> Plan:
    """The plan of a prepared graph; `late` names writes that are made at the end, its own `late` may name more."""
    outputs = tuple(_placed(graph, o) for o in graph.outputs)
    operands = {n.id: tuple(_placed(graph, a) for a in n.args) for n in graph if n.op == "opaque"}
    kept = frozenset(p.base for p in outputs)
    needed = kept.union(*({p.base for p in ps} for ps in operands.values()))

    def run(frugal: bool) -> tuple[Partition, list[KernelStep | OpaqueStep], Writes, int]:
        partition = Partitioner(graph, needed, machine, fuel, frugal, apart).run()
        steps, writes = _steps(graph, partition, operands, machine, late)
        return partition, steps, writes, _peak_bytes(graph, steps, kept)

    partition, steps, writes, peak = run(frugal=False)
    if peak > allowed_bytes(graph):
        other = run(frugal=True)
        if other[-1] < peak:
            partition, steps, writes, peak = other
    layouts = {n.id: layout_of(graph, n.id) for n in graph if n.op in ("input", "result") or n.id in partition.stored}
    return Plan(graph, machine, tuple(steps), layouts, outputs, partition.decisions, tuple(apart), writes.late)


def _steps(
    graph: Graph,
    partition: Partition,
    operands: Mapping[int, tuple[Placement, ...]],
    machine: Machine,
    late: frozenset[int],
) -> tuple[list[KernelStep | OpaqueStep], Writes]:
    steps: list[KernelStep | OpaqueStep] = []
    used: dict[str, int] = {}
    results: dict[int, list[int]] = {}
    for node in graph:
        if node.op == "result":
            results.setdefault(node.args[0], []).append(node.id)
    unfused = unfused_bytes(graph, {n: unit for unit, region in partition.regions.items() for n in region.nodes})
    before = _before(graph, partition.regions, operands)
    walls = {wall: [p.base for p in places] for wall, places in operands.items()}
    layouts = {i: layout_of(graph, i) for i in graph.inputs}
    made = choose_writes(graph, partition.regions, walls, layouts, before, late)
    for unit in _order(partition.regions, before):
        if unit in partition.regions:
            region = partition.regions[unit]
            writes = tuple(sorted(v for v in region.nodes if v in partition.stored))
            step = kernel_step(graph, region, writes, machine, used, unfused[unit])
            steps.append(replace(step, over=tuple((v, made.over[v]) for v in writes if v in made.over)))
        else:
            steps.append(OpaqueStep(unit, operands[unit], tuple(results.get(unit, ()))))
    return steps, made


def _peak_bytes(graph: Graph, steps: Sequence[KernelStep | OpaqueStep], outputs: frozenset[int]) -> int:
    return peak_bytes(
        graph,
        [
            (s.reads, set(s.writes) - dict(s.over).keys())
            if isinstance(s, KernelStep)
            else ([p.base for p in s.operands], s.results)
            for s in steps
        ],
        outputs,
    )


def _placed(graph: Graph, value: int) -> Placement:
    found = place(graph, value)
    assert found is not None, "insert_copies leaves no value without a place"
    return found


def _before(
    graph: Graph, regions: Mapping[int, Region], operands: Mapping[int, tuple[Placement, ...]]
) -> dict[int, set[int]]:
    """For each unit, a region or a wall, those whose values it reads."""
    owner = {n: number for number, region in regions.items() for n in region.nodes}
    for node in graph:
        if node.op in ("opaque", "result"):
            owner[node.id] = node.id if node.op == "opaque" else node.args[0]
    before: dict[int, set[int]] = {}
    for number, region in regions.items():
        before[number] = {owner[v] for v in region.reads if v in owner} - {number}
    for wall, places in operands.items():
        before[wall] = {owner[p.base] for p in places if p.base in owner}
    return before


def _order(regions: Mapping[int, Region], before: Mapping[int, set[int]]) -> list[int]:
    """Units in order of execution: as eager runs them as far as the fusions allow, which keeps its peak memory."""
    after: dict[int, list[int]] = {u: [] for u in before}
    for unit, needs in before.items():
        for need in needs:
            after[need].append(unit)
    key = {u: max(regions[u].nodes) if u in regions else u for u in before}
    waiting = {u: len(n) for u, n in before.items()}
    ready = [(key[u], u) for u, n in waiting.items() if n == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for follower in after[unit]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, (key[follower], follower))
    assert len(order) == len(before), "the regions form a cycle"
    return order


def kernel_step(
    graph: Graph, region: Region, writes: tuple[int, ...], machine: Machine, used: dict[str, int], unfused: int
) -> KernelStep:
    """The step that runs a region as one kernel.

    Args:
        writes: native values that it stores.
        used: how often each stem of a name was given; counted on.
        unfused: bytes that one eager kernel an ATen op would move.
    """
    hints = graph.hints()
    reads = tuple(sorted(region.reads))
    written = [value_bytes(graph, v, hints) for v in writes]
    read = sum(read_bytes(graph, region, v, hints) for v in reads)
    nodes = tuple(sorted(region.nodes))
    lanes = lanes_of(machine, graph, region, hints)
    return KernelStep(
        name=_name(graph, nodes, used),
        region=region,
        reads=reads,
        writes=writes,
        nodes=nodes,
        dram_bytes=read + sum(written),
        unfused_bytes=unfused,
        predicted_us=region_us(machine, graph, region, read, written, lanes, live_values(graph, region)),
    )


def read_bytes(graph: Graph, region: Region, value: int, hints: Mapping[str, int]) -> int:
    """Least bytes of `value` that a region reads: all of it, or an element a point and place."""
    most = elements(region, hints) * graph[value].dtype.bytes * len(region.reads[value])
    return min(value_bytes(graph, value, hints), most)


def _name(graph: Graph, nodes: tuple[int, ...], used: dict[str, int]) -> str:
    """For example `fused_gelu_add_native_layer_norm_0`."""
    words: dict[str, None] = {}
    for n in nodes:
        # `aten.gelu.default`, `fusewise.keep.default`: the op without namespace and overload
        aten = graph[n].origin.aten or graph[n].op
        words[re.sub(r"\W", "_", aten.split(".")[1 if "." in aten else 0])] = None
    stem = "fused_" + "_".join(list(words)[:4]).strip("_")
    used[stem] = used.get(stem, -1) + 1
    return f"{stem}_{used[stem]}"
