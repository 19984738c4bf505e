"""Explains what Fusewise makes of a function, for this machine or for a GPU that is not here; nothing is run.

The function is traced on fake tensors. For each device the captured graphs are planned, the kernels are generated, and
those for a GPU are compiled for it, so that registers, spills and shared memory are read off the result.
"""

from __future__ import annotations

import linecache
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from fusewise.capture.captured import Captured
from fusewise.capture.importer import import_graph
from fusewise.capture.trace import Traced, trace_fn
from fusewise.config import Options
from fusewise.device import GpuModel, calibrated, load, load_gpu
from fusewise.device.occupancy import occupancy
from fusewise.errors import CompileFailed, CompilerMissing, FusewiseError, UsageError
from fusewise.ir.graph import Graph, Origin
from fusewise.ir.printer import print_graph
from fusewise.lower.kernel import Kernel
from fusewise.lower.printer import print_kernel
from fusewise.pipeline import Compiled, machine_of, plan_captured, present_gpu
from fusewise.plan.cost import Machine, time_us, value_bytes
from fusewise.plan.decisions import REASONS, Decision
from fusewise.plan.plan import KernelStep, OpaqueStep, Plan
from fusewise.plan.printer import print_plan
from fusewise.report.documents import (
    DevicePlan,
    Explanation,
    GraphBreak,
    GraphPlan,
    KernelResources,
    KernelRow,
    NotFused,
    SourceLine,
    Wall,
)
from fusewise.report.format import short_op
from fusewise.stages import KernelStages

NOT_TRIED = "not-tried"
NOT_TRIED_MEANING = "the planner saw no way to join them"

_NO_EXPANSION = "no expansion"  # the importer's word for an op that nothing generates

_FAKE_TENSORS = "torch._subclasses.fake_tensor"
_GRAPH_BREAKS = "torch._dynamo.symbolic_convert.__graph_breaks"
_BREAK_PLACE = re.compile(r"in user code at (?P<file>[^\n]*):(?P<line>\d+)\s*\n")
_BREAK_REASON = re.compile(r"Graph Break Reason:[^\n]*\n\n?(?P<why>[^\n]+)")


class Progress(Protocol):
    """Told how far the explanation is."""

    def __call__(self, share: float, text: str) -> None:
        """Show it."""
        ...


@dataclass(frozen=True, slots=True)
class Explained:
    """An explanation and the stages of the kernels that it is about."""

    explanation: Explanation
    stages: tuple[KernelStages, ...]


def explain(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    devices: Sequence[str],
    options: Options,
    name: str = "",
    progress: Progress | None = None,
) -> Explained:
    """What each device would run for one call of a function, and for its backward where a result requires grad.

    Args:
        args, kwargs: the inputs; nothing is read from them but shapes, types and devices.
        devices: `cpu`, `cuda` (the GPU that is here) or names of GPUs.

    Raises:
        UnknownName: no such device.
        UsageError: the function cannot be traced on these inputs.
    """
    show: Progress = progress or (lambda share, text: None)
    devices = list(dict.fromkeys(devices))
    for device in devices:
        _check_device(device)
    show(0.0, "tracing")
    home = default_device((args, kwargs))
    traces: dict[str | None, list[Traced]] = {}
    with _graph_breaks() as breaks:
        for target in dict.fromkeys(_retarget(d, home) for d in devices):
            traces[target] = _trace(function, args, kwargs, target, options)
    plans: list[DevicePlan] = []
    stages: list[KernelStages] = []
    for number, device in enumerate(devices):

        def show_device(share: float, text: str, number: int = number, device: str = device) -> None:
            show((number + share) / len(devices), f"{device}: {text}")

        target = _retarget(device, home)
        plan, made = _explain_device(traces[target], device, target, options, show_device)
        plans.append(plan)
        stages += made
    show(1.0, "done")
    name = name or getattr(function, "__name__", type(function).__name__)
    return Explained(Explanation(name, options.policy, tuple(plans), tuple(breaks.values())), tuple(stages))


def default_device(args: Any) -> str:
    """The device that the tensors among the inputs are on: `cuda` or `cpu`."""
    from torch.utils._pytree import tree_leaves

    kinds = {leaf.device.type for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)}
    return "cuda" if "cuda" in kinds else "cpu"


def explain_compiled(compiled: Compiled, options: Options) -> tuple[GraphPlan, list[KernelStages]]:
    """The same of a graph that was compiled already, and the stages of its kernels."""
    device = compiled.captured.graph.device
    explainer = _GraphExplainer(
        compiled.captured, compiled.plan, compiled.kernels, compiled.role, device, _gpu_of(device), options
    )
    return explainer.graph_plan(), explainer.stages


def stages_of(compiled: Iterable[Compiled], options: Options) -> list[KernelStages]:
    """The stages of every kernel of some compiled graphs; a graph of which they cannot be made is left out."""
    found: list[KernelStages] = []
    for one in compiled:
        with suppress(FusewiseError):
            found += explain_compiled(one, options)[1]
    return found


# ---- tracing


def _trace(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], device: str | None, options: Options
) -> list[Traced]:
    logger = logging.getLogger(_FAKE_TENSORS)  # prints a traceback of what is told in one line below
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        return trace_fn(function, args, kwargs, device, policy=options.policy)
    except FusewiseError:
        raise
    except Exception as cause:  # whatever the user's function raises on such inputs
        raise UsageError(f"the function cannot be traced on these inputs: {_cause(cause)}") from cause
    finally:
        logger.setLevel(level)


def _cause(error: BaseException) -> str:
    """Kind and first line of what the user's own code raised, without torch.compile's wrapping."""
    while error.__cause__ is not None and type(error).__module__.startswith("torch._dynamo"):
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = next((line for line in lines if "got " in line and "Error(" in line), lines[0] if lines else "")
    inner = re.search(r"got (\w+(?:Error|Exception))\((['\"])(.*?)\2\)", found)
    return f"{inner[1]}: {inner[3]}" if inner else f"{type(error).__name__}: {found}"


@contextmanager
def _graph_breaks() -> Iterator[dict[tuple[str, int], GraphBreak]]:
    """Collects what torch.compile logs about graph breaks inside the block, by place."""
    found: dict[tuple[str, int], GraphBreak] = {}

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            place, why = _BREAK_PLACE.search(text), _BREAK_REASON.search(text)
            if place is None:
                return
            file, line = place["file"], int(place["line"])
            reason = why["why"].strip() if why else "torch.compile cannot follow this"
            found.setdefault((file, line), GraphBreak(reason, _source_line(Origin("", file, line))))

    logger = logging.getLogger(_GRAPH_BREAKS)
    collector, level, propagate = Collector(logging.DEBUG), logger.level, logger.propagate
    logger.addHandler(collector)
    logger.setLevel(logging.DEBUG)
    logger.propagate = bool(level) and propagate  # silent where nobody had asked for this log
    try:
        yield found
    finally:
        logger.removeHandler(collector)
        logger.setLevel(level)
        logger.propagate = propagate


# ---- devices


def _check_device(device: str) -> None:
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            raise UsageError("this machine has no CUDA device.", "Name a GPU to explain for, such as h200.")
    elif device != "cpu":
        load(device)


def _retarget(device: str, home: str) -> str | None:
    """The kind of device to trace for where it is another than the one that the inputs are on."""
    kind = "cpu" if device == "cpu" else "cuda"
    return None if kind == home else kind


def _gpu_of(device: str) -> GpuModel | None:
    if device == "cpu":
        return None
    return calibrated(present_gpu(device) if device.startswith("cuda") else load_gpu(device))


def _explain_device(
    graphs: Sequence[Traced], device: str, target: str | None, options: Options, show: Progress
) -> tuple[DevicePlan, list[KernelStages]]:
    gpu = _gpu_of(device)
    machine = machine_of(device)
    rows: list[GraphPlan] = []
    stages: list[KernelStages] = []
    notes: dict[str, None] = {}
    for number, traced in enumerate(graphs):
        show(number / max(len(graphs), 1), f"planning and compiling {traced.role}")
        try:
            captured = import_graph(traced.gm, traced.example_inputs, options.policy, target, options.strict)
            plan, kernels = plan_captured(captured, options, machine)
            explainer = _GraphExplainer(captured, plan, kernels, traced.role, device, gpu, options)
            row = explainer.graph_plan()
        except Exception as cause:  # the backend runs such a graph as eager, whatever the failure
            if options.strict:
                raise
            problem = cause.problem if isinstance(cause, FusewiseError) else f"{type(cause).__name__}: {cause}"
            rows.append(GraphPlan(traced.role, (), (), (), 0, problem))
            continue
        rows.append(row)
        stages += explainer.stages
        notes |= explainer.notes
    title = gpu.title if gpu else machine.name
    plan_of = DevicePlan(
        device, title, machine.bytes_per_s, machine.launch_us, machine.source, tuple(rows), tuple(notes)
    )
    return plan_of, stages


# ---- one graph


class _GraphExplainer:
    """Rows of one planned graph, and the stages of its kernels."""

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
        self.graph_text = print_graph(plan.graph)
        self.plan_text = print_plan(plan, [reason.reason for reason in captured.reasons])

    def graph_plan(self) -> GraphPlan:
        rows = tuple(self._kernel(step) for step in self.plan.kernels)
        walls = tuple(self._wall(step) for step in self.plan.walls)
        taken = sum(d.taken for d in self.plan.decisions)
        return GraphPlan(self.role, rows, walls, tuple(self._not_fused()), taken)

    def _kernel(self, step: KernelStep) -> KernelRow:
        origins = [self.graph[n].origin for n in step.nodes]
        machine = self.plan.machine
        kernel = self.kernels[step.name]
        texts = {"graph": self.graph_text, "plan": self.plan_text, "ir": print_kernel(kernel)}
        resources, cubin = None, None
        if self.gpu is not None:
            resources, cubin = self._compile(step, self.gpu, texts)
        else:
            from fusewise.codegen.cpp import unit

            texts["cpp"] = unit([kernel])
        self.stages.append(KernelStages(step.name, self.device, self.role, texts, cubin))
        return KernelRow(
            name=step.name,
            ops=_ops(self.graph, step.nodes),
            lines=_lines(origins),
            unfused_bytes=step.unfused_bytes,
            dram_bytes=step.dram_bytes,
            floor_us=_floor_us(machine, step.dram_bytes),
            predicted_us=step.predicted_us,
            resources=resources,
        )

    def _compile(self, step: KernelStep, gpu: GpuModel, texts: dict[str, str]) -> tuple[KernelResources, bytes | None]:
        """Generates Triton, compiles it for the GPU, and reads what it uses; adds to `texts`."""
        from fusewise.codegen.triton import module
        from fusewise.runtime.gpu_resources import read_resources
        from fusewise.runtime.triton_compile import GpuTarget, compile_kernel

        kernel = self.kernels[step.name]
        exact = self.options.policy == "conservative"
        source = module([kernel], exact, "amd" if gpu.vendor == "amd" else "nvidia")
        texts["triton"] = source
        arch: int | str = gpu.arch.name if gpu.vendor == "amd" else int(gpu.arch.name.replace(".", ""))
        try:
            compiled = compile_kernel(source, kernel, GpuTarget(arch))
            used = read_resources(compiled, kernel, sass=False)
        except (CompilerMissing, CompileFailed) as cause:
            self.notes[f"Registers are unknown: {cause.problem}. {cause.remedy}".strip()] = None
            return KernelResources("unknown", note=cause.problem), None
        if "ptx" in compiled.asm:
            texts["ptx"] = compiled.asm["ptx"]
        threads = used.num_warps * gpu.arch.warp_size
        held = occupancy(gpu.arch, used.regs_per_thread, used.shared_bytes, threads)
        resources = KernelResources(
            source="compiled",
            regs_per_thread=used.regs_per_thread,
            spill_store_bytes=used.spill_store_bytes,
            spill_load_bytes=used.spill_load_bytes,
            shared_bytes=used.shared_bytes,
            threads_per_block=threads,
            blocks_per_sm=held.blocks_per_sm,
            occupancy=held.fraction,
            limiter=held.limiter,
        )
        return resources, compiled.asm.get("cubin")

    def _wall(self, step: OpaqueStep) -> Wall:
        call = self.captured.opaques[self.graph[step.node].attr("key")]
        moved = {p.base for p in step.operands} | set(step.results)
        return Wall(
            name=self.names[id(step)],
            op=call.name,
            reason=_wall_reason(call.reason),
            line=_source_line(call.origin),
            dram_bytes=sum(value_bytes(self.graph, v, self.hints) for v in moved),
        )

    # ---- neighbours

    def _not_fused(self) -> Iterator[NotFused]:
        owner = _owners(self.plan)
        decisions = self._refusals(owner)
        seen: set[tuple[int, int]] = set()
        steps = self.plan.steps
        for number, step in enumerate(steps):
            for value in _reads(step):
                maker = owner.get(value)
                if maker is None or maker == number or (maker, number) in seen:
                    continue
                seen.add((maker, number))
                between = sum(value_bytes(self.graph, v, self.hints) for v in _reads(step) if owner.get(v) == maker)
                yield self._pair(steps[maker], step, decisions.get((maker, number)), between)
        for (a, b), decision in decisions.items():
            if (a, b) not in seen and (b, a) not in seen and decision.kind == "siblings":
                yield self._pair(steps[a], steps[b], decision, decision.bytes_saved)

    def _refusals(self, owner: Mapping[int, int]) -> dict[tuple[int, int], Decision]:
        """The last refusal of each pair of steps; one to merge says more than one to compute again."""
        found: dict[tuple[int, int], Decision] = {}
        for decision in self.plan.decisions:
            a, b = owner.get(decision.producer), owner.get(decision.consumer)
            if decision.taken or decision.kind == "horizontal" or a is None or b is None or a == b:
                continue
            if decision.kind != "inline" or (a, b) not in found:
                found[a, b] = decision
        return found

    def _pair(
        self, first: KernelStep | OpaqueStep, second: KernelStep | OpaqueStep, why: Decision | None, between: int
    ) -> NotFused:
        wall = first if isinstance(first, OpaqueStep) else second if isinstance(second, OpaqueStep) else None
        if wall is not None:
            call = self.captured.opaques[self.graph[wall.node].attr("key")]
            detail = f"{self.names[id(wall)]}: {_wall_reason(call.reason)}"
            code, meaning = "wall", REASONS["wall"]
        elif why is not None:
            code, meaning, detail = why.code, REASONS[why.code], why.detail
        else:
            code, meaning, detail = NOT_TRIED, NOT_TRIED_MEANING, ""
        return NotFused(self.names[id(first)], self.names[id(second)], code, meaning, detail, between)


def _wall_reason(reason: str) -> str:
    return "no kernel is generated for this op" if reason == _NO_EXPANSION else reason


def _step_names(plan: Plan, captured: Captured) -> dict[int, str]:
    """Name of each step; walls of one op are numbered."""
    names: dict[int, str] = {}
    used: dict[str, int] = {}
    for step in plan.steps:
        if isinstance(step, KernelStep):
            names[id(step)] = step.name
            continue
        op = short_op(captured.opaques[plan.graph[step.node].attr("key")].name)
        used[op] = used.get(op, 0) + 1
        names[id(step)] = op if used[op] == 1 else f"{op} #{used[op]}"
    return names


def _owners(plan: Plan) -> dict[int, int]:
    """For each value the position of the step that makes it."""
    owner: dict[int, int] = {}
    for number, step in enumerate(plan.steps):
        made = step.nodes if isinstance(step, KernelStep) else (step.node, *step.results)
        owner |= dict.fromkeys(made, number)
    return owner


def _reads(step: KernelStep | OpaqueStep) -> tuple[int, ...]:
    return step.reads if isinstance(step, KernelStep) else tuple(dict.fromkeys(p.base for p in step.operands))


def _floor_us(machine: Machine, dram_bytes: int) -> float:
    """The least time of those bytes at the machine's memory rate, or of an empty kernel."""
    return max(time_us(machine, dram_bytes, 0.0, launches=0), machine.launch_us)


def _ops(graph: Graph, nodes: Sequence[int]) -> tuple[str, ...]:
    """The ATen calls behind some nodes, in order.

    A call may have become several nodes, and several calls may share a source line: nodes of one op and line are one
    call where they read each other.
    """
    call: dict[int, int] = {}  # node -> the first node of its call
    for n in nodes:
        call[n] = n
        for arg in graph[n].args:
            while graph[arg].info.group == "view":
                arg = graph[arg].args[0]
            if arg in call and graph[arg].origin == graph[n].origin:
                first, other = sorted((_first(call, arg), _first(call, n)))
                call[other] = first
    return tuple(graph[n].origin.aten for n in nodes if _first(call, n) == n and graph[n].origin.aten)


def _first(call: dict[int, int], node: int) -> int:
    while call[node] != node:
        node = call[node]
    return node


def _lines(origins: Iterable[Origin]) -> tuple[SourceLine, ...]:
    places = {(o.file, o.line): _source_line(o) for o in origins if o.file}
    return tuple(places[place] for place in sorted(places))


def _source_line(origin: Origin) -> SourceLine:
    text = linecache.getline(origin.file, origin.line).strip() or origin.text
    return SourceLine(origin.file, origin.line, text)
