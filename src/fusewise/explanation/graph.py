"""Rows of one planned graph: its kernels, its walls, and the neighbours that stayed apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace

from fusewise.capture.captured import Captured
from fusewise.config import Options
from fusewise.device import GpuModel
from fusewise.explanation.held_back import held_back_rows
from fusewise.explanation.places import lines_of, ops_of, source_line
from fusewise.explanation.resources import build_for
from fusewise.ir.printer import print_graph
from fusewise.lower.kernel import Kernel
from fusewise.lower.launch import LaunchUnit, launch_units, members_of
from fusewise.lower.printer import print_kernel
from fusewise.plan.cost import Machine, time_us, value_bytes
from fusewise.plan.cpu_cost import CpuPrediction
from fusewise.plan.decisions import REASONS, Decision
from fusewise.plan.gpu_cost import Prediction
from fusewise.plan.plan import KernelStep, Launch, OpaqueStep, Plan
from fusewise.plan.printer import print_plan
from fusewise.report.documents import CpuUse, GraphPlan, KernelResources, KernelRow, NotFused, Wall
from fusewise.report.format import short_op
from fusewise.stages import KernelStages

NOT_TRIED = "not-tried"
NOT_TRIED_MEANING = "the planner saw no way to join them"

_NO_EXPANSION = "no expansion"  # the importer's word for an op that nothing generates

Step = KernelStep | OpaqueStep


class GraphExplainer:
    """One planned graph: `row` holds its kernels, walls and refused neighbours, `stages` the kernels' texts.

    Attributes:
        captured, plan, kernels: what the pipeline made.
        role: of the graph.
        device, gpu: what it is planned for; `gpu` is None for a CPU.
        names: of the steps, in order: a launch's (several kernels may share one), or a wall's op.
        owner: position of the step that makes each value; a value that its readers compute has none.
        notes: what a reader must know, such as a missing compiler.
        rows_of: each launch and its row.
    """

    def __init__(
        self,
        captured: Captured,
        plan: Plan,
        kernels: Mapping[str, Kernel],
        role: str,
        device: str,
        gpu: GpuModel | None,
        options: Options,
    ) -> None:
        self.captured = captured
        self.plan = plan
        self.graph = plan.graph
        self.hints = plan.graph.hints()
        self.kernels = kernels
        self.role = role
        self.device = device
        self.gpu = gpu
        self.options = options
        self.notes: dict[str, None] = {}
        self.stages: list[KernelStages] = []
        self.names = _step_names(plan, captured)
        self.owner = _owners(plan)
        self.graph_text = print_graph(plan.graph)
        self.plan_text = print_plan(plan, [reason.reason for reason in captured.reasons])
        units = launch_units(plan, kernels)
        self.rows_of = tuple((launch, self._kernel(launch, units[launch.name])) for launch in plan.launches)
        walls = tuple(
            self._wall(step, name)
            for step, name in zip(plan.steps, self.names, strict=True)
            if isinstance(step, OpaqueStep)
        )
        taken = sum(d.taken for d in plan.decisions if d.kind != "fission")
        self.row = GraphPlan(
            role,
            tuple(row for _, row in self.rows_of),
            walls,
            _by_launch(self._not_fused()),
            taken,
            held_back=held_back_rows(plan, self.names, self.owner),
        )

    def holders(self) -> dict[int, frozenset[int]]:
        """For each node the positions of the steps that compute it: the one that owns it, or those of its readers."""
        users = self.graph.users()
        found: dict[int, frozenset[int]] = {}
        for node in reversed(self.graph.nodes):
            own = self.owner.get(node.id)
            readers = frozenset().union(*(found[u] for u in users[node.id]))
            found[node.id] = readers if own is None else frozenset((own,))
        return found

    def wall_reason(self, step: OpaqueStep) -> str:
        """Why a step runs as PyTorch's own kernel."""
        reason = self.captured.opaques[self.graph[step.node].attr("key")].reason
        return "no kernel is generated for this op" if reason == _NO_EXPANSION else reason

    def _kernel(self, launch: Launch, unit: LaunchUnit) -> KernelRow:
        nodes = sorted(n for step in launch.steps for n in step.nodes)
        ir = "\n".join(print_kernel(kernel) for kernel in members_of(unit))
        texts = {"graph": self.graph_text, "plan": self.plan_text, "ir": ir}
        resources: KernelResources | None = None
        cubin = None
        if self.gpu is not None:
            build = build_for(self.gpu, unit, self.options.policy)
            resources, cubin = build.resources, build.cubin
            texts |= build.texts
            if build.problem:
                self.notes[f"Registers (~) are modelled, not compiled: {build.problem}"] = None
        elif isinstance(unit, Kernel):
            from fusewise.codegen.cpp import unit as cpp_unit

            texts["cpp"] = cpp_unit([unit])
        self.stages.append(KernelStages(launch.name, self.device, self.role, texts, cubin))
        dram_bytes = sum(step.dram_bytes for step in launch.steps)
        prediction = launch.steps[0].prediction if len(launch.steps) == 1 else None
        return KernelRow(
            name=launch.name,
            ops=ops_of(self.graph, nodes),
            lines=lines_of([self.graph[n].origin for n in nodes]),
            unfused_bytes=sum(step.unfused_bytes for step in launch.steps),
            dram_bytes=dram_bytes,
            floor_us=_floor_us(self.plan.machine, dram_bytes, prediction),
            predicted_us=launch.predicted_us,
            resources=resources,
            predicted_from=predicted_from(prediction),
            bound_by="" if prediction is None else prediction.bound_by,
            members=tuple(step.name for step in launch.steps) if len(launch.steps) > 1 else (),
            cpu=_cpu_use(prediction),
        )

    def _wall(self, step: OpaqueStep, name: str) -> Wall:
        call = self.captured.opaques[self.graph[step.node].attr("key")]
        moved = {p.base for p in step.operands} | set(step.results)
        return Wall(
            name=name,
            op=call.name,
            reason=self.wall_reason(step),
            line=source_line(call.origin),
            dram_bytes=sum(value_bytes(self.graph, v, self.hints) for v in moved),
        )

    # ---- neighbours

    def _not_fused(self) -> Iterator[NotFused]:
        decisions = self._refusals()
        seen: set[tuple[int, int]] = set()
        steps = self.plan.steps
        for number, step in enumerate(steps):
            for value in reads_of(step):
                maker = self.owner.get(value)
                if maker is None or maker == number or (maker, number) in seen:
                    continue
                seen.add((maker, number))
                between = sum(
                    value_bytes(self.graph, v, self.hints) for v in reads_of(step) if self.owner.get(v) == maker
                )
                yield self._pair(maker, number, decisions.get((maker, number)), between)
        for (a, b), decision in decisions.items():
            known = (a, b) in seen or (b, a) in seen or self.names[a] == self.names[b]
            if not known and decision.kind == "siblings":
                yield self._pair(a, b, decision, decision.bytes_saved)

    def _refusals(self) -> dict[tuple[int, int], Decision]:
        """The last refusal of each pair of steps; one to merge says more than one to compute again."""
        found: dict[tuple[int, int], Decision] = {}
        for decision in self.plan.decisions:
            a, b = self.owner.get(decision.producer), self.owner.get(decision.consumer)
            if decision.taken or decision.kind in ("horizontal", "launch") or a is None or b is None or a == b:
                continue
            if decision.kind != "inline" or (a, b) not in found:
                found[a, b] = decision
        return found

    def _pair(self, first: int, second: int, why: Decision | None, between: int) -> NotFused:
        wall = next((n for n in (first, second) if isinstance(self.plan.steps[n], OpaqueStep)), None)
        if wall is not None:
            step = self.plan.steps[wall]
            assert isinstance(step, OpaqueStep)
            code, meaning, detail = "wall", REASONS["wall"], f"{self.names[wall]}: {self.wall_reason(step)}"
        elif why is not None:
            code, meaning, detail = why.code, REASONS[why.code], why.detail
        else:
            code, meaning, detail = NOT_TRIED, NOT_TRIED_MEANING, ""
        return NotFused(self.names[first], self.names[second], code, meaning, detail, between)


def _cpu_use(prediction: Prediction | CpuPrediction | None) -> CpuUse | None:
    if not isinstance(prediction, CpuPrediction):
        return None
    return CpuUse(**{f.name: getattr(prediction, f.name) for f in fields(CpuUse)})


def predicted_from(prediction: Prediction | CpuPrediction | None) -> str:
    """What a kernel's predicted time goes by: its compiled code, or a model alone."""
    return "modelled" if prediction is None else prediction.source


def reads_of(step: Step) -> tuple[int, ...]:
    """Values from memory that a step reads."""
    return step.reads if isinstance(step, KernelStep) else tuple(dict.fromkeys(p.base for p in step.operands))


def _step_names(plan: Plan, captured: Captured) -> list[str]:
    """Name of each step; walls of one op are numbered."""
    names: list[str] = []
    used: dict[str, int] = {}
    launches = {step.name: launch.name for launch in plan.launches for step in launch.steps}
    for step in plan.steps:
        if isinstance(step, KernelStep):
            names.append(launches[step.name])
            continue
        op = short_op(captured.opaques[plan.graph[step.node].attr("key")].name)
        used[op] = used.get(op, 0) + 1
        names.append(op if used[op] == 1 else f"{op} #{used[op]}")
    return names


def _by_launch(pairs: Iterable[NotFused]) -> tuple[NotFused, ...]:
    """One row for each pair of launches: kernels that share one are told together."""
    found: dict[tuple[str, str], NotFused] = {}
    for pair in pairs:
        known = found.get((pair.first, pair.second))
        more = 0 if known is None else known.bytes_between
        found[pair.first, pair.second] = replace(known or pair, bytes_between=pair.bytes_between + more)
    return tuple(found.values())


def _owners(plan: Plan) -> dict[int, int]:
    owner: dict[int, int] = {}
    for number, step in enumerate(plan.steps):
        made = step.nodes if isinstance(step, KernelStep) else (step.node, *step.results)
        owner |= dict.fromkeys(made, number)
    return owner


def _floor_us(machine: Machine, dram_bytes: int, prediction: Prediction | CpuPrediction | None) -> float:
    """The least time of those bytes at the memory's rate, on a CPU that of the cache that holds them, or of no work."""
    if isinstance(prediction, CpuPrediction):
        return max(prediction.memory_us, prediction.launch_us)
    return max(time_us(machine, dram_bytes, 0.0, launches=0), machine.launch_us)
