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
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import Traced, trace_fn
from fusewise.config import Options
from fusewise.device import GpuModel, calibrated, load, load_gpu
from fusewise.errors import FusewiseError, UsageError
from fusewise.explanation.candidates import candidate_rows
from fusewise.explanation.differences import Links, differences, links_of
from fusewise.explanation.graph import GraphExplainer
from fusewise.explanation.places import source_line
from fusewise.explanation.why import answer
from fusewise.ir.graph import Origin
from fusewise.pipeline import Compiled, compiler_for, machine_of, plan_captured, present_gpu
from fusewise.plan.replay import replay
from fusewise.report.documents import DevicePlan, Explanation, FusionDifference, GraphBreak, GraphPlan, Why
from fusewise.stages import KernelStages

_LOUD = ("torch._subclasses.fake_tensor", "torch._dynamo.variables.tensor")  # pages of what we tell in one line
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
    why: tuple[str, str] | None = None,
    use_measured: bool = True,
    candidates: bool = True,
) -> Explained:
    """What each device would run for one call of a function, and for its backward where a result requires grad.

    Args:
        args, kwargs: the inputs; nothing is read from them but shapes, types and devices.
        devices: `cpu`, `cuda` (the GPU that is here) or names of GPUs.
        why: two kernels, ATen ops or lines of which to say why they are one kernel or not.
        use_measured: plan with the rates that this user has measured; else with the data sheets alone.
        candidates: also tell every fusion that was tried.

    Raises:
        UnknownName: no such device, or nothing of the name that `why` asks about.
        UsageError: the function cannot be traced on these inputs.
    """
    show: Progress = progress or (lambda share, text: None)
    devices = list(dict.fromkeys(devices))
    for device in devices:
        _check_device(device)
    linecache.checkcache()  # a file may have changed since an earlier call
    show(0.0, "tracing")
    home = default_device((args, kwargs))
    traces: dict[str | None, list[Traced]] = {}
    with _graph_breaks() as breaks:
        for target in dict.fromkeys(_retarget(d, home) for d in devices):
            traces[target] = _trace(function, args, kwargs, target, options)
    found: list[_DeviceExplained] = []
    for number, device in enumerate(devices):

        def show_device(share: float, text: str, number: int = number, device: str = device) -> None:
            show((number + share) / len(devices), f"{device}: {text}")

        target = _retarget(device, home)
        asked = _Asked(device, target, options, why, use_measured, candidates)
        found.append(_explain_device(traces[target], asked, show_device))
    show(1.0, "done")
    explanation = Explanation(
        name or getattr(function, "__name__", type(function).__name__),
        options.policy,
        tuple(one.plan for one in found),
        tuple(breaks.values()),
        _differences(found),
        tuple(reply for one in found for reply in one.why),
    )
    return Explained(explanation, tuple(stage for one in found for stage in one.stages))


def default_device(args: Any) -> str:
    """The device that the tensors among the inputs are on: `cuda` or `cpu`."""
    from torch.utils._pytree import tree_leaves

    kinds = {leaf.device.type for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)}
    return "cuda" if "cuda" in kinds else "cpu"


def explain_compiled(compiled: Compiled, options: Options) -> tuple[GraphPlan, list[KernelStages]]:
    """The same of a graph that was compiled already, and the stages of its kernels; candidates are left out."""
    device = compiled.captured.graph.device
    explainer = GraphExplainer(
        compiled.captured, compiled.plan, compiled.kernels, compiled.role, device, _gpu_of(device), options
    )
    return explainer.row, explainer.stages


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
    loggers = [logging.getLogger(name) for name in _LOUD]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        return trace_fn(function, args, kwargs, device, policy=options.policy)
    except FusewiseError:
        raise
    except (Exception, SystemExit) as cause:  # whatever the user's function raises on such inputs
        raise UsageError(f"the function cannot be traced on these inputs: {_cause(cause)}") from cause
    finally:
        for logger, level in zip(loggers, levels, strict=True):
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
            found.setdefault((file, line), GraphBreak(reason, source_line(Origin("", file, line))))

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


def _gpu_of(device: str, use_measured: bool = True) -> GpuModel | None:
    if device == "cpu":
        return None
    model = present_gpu(device) if device.startswith("cuda") else load_gpu(device)
    return calibrated(model) if use_measured else model


@dataclass(slots=True)
class _DeviceExplained:
    """What was found for one device; `links` has an entry a graph, empty where it runs as eager."""

    plan: DevicePlan
    links: list[Links] = field(default_factory=list)
    stages: list[KernelStages] = field(default_factory=list)
    why: tuple[Why, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be told of one device; `target` is the kind of device to trace for where it is not the inputs'."""

    device: str
    target: str | None
    options: Options
    why: tuple[str, str] | None
    use_measured: bool
    candidates: bool


def _explain_device(graphs: Sequence[Traced], asked: _Asked, show: Progress) -> _DeviceExplained:
    device, target, options, why = asked.device, asked.target, asked.options, asked.why
    gpu = _gpu_of(device, asked.use_measured)
    machine = machine_of(device, asked.use_measured)
    title = gpu.title if gpu else machine.name
    rows: list[GraphPlan] = []
    explainers: list[GraphExplainer] = []
    found = _DeviceExplained(DevicePlan(device, title, machine.bytes_per_s, machine.launch_us, machine.source, ()))
    notes: dict[str, None] = {}
    for number, traced in enumerate(graphs):
        show(number / max(len(graphs), 1), f"planning and compiling {traced.role}")
        try:
            captured = import_graph(traced.gm, traced.example_inputs, options.policy, target, options.strict)
            plan, kernels = plan_captured(captured, options, machine, compiler_for(machine, options.policy))
            explainer = GraphExplainer(captured, plan, kernels, traced.role, device, gpu, options)
            row = explainer.row
            if asked.candidates:
                row = replace(row, candidates=candidate_rows(explainer, replay(plan, options.fuel)))
        except Exception as cause:  # the backend runs such a graph as eager, whatever the failure
            if options.strict:
                raise
            problem = cause.problem if isinstance(cause, FusewiseError) else f"{type(cause).__name__}: {cause}"
            rows.append(GraphPlan(traced.role, (), (), (), 0, problem))
            found.links.append({})
            continue
        rows.append(row)
        explainers.append(explainer)
        found.links.append(links_of(explainer))
        found.stages += explainer.stages
        notes |= explainer.notes
    if why is not None and explainers:
        show(1.0, f"compiling both ways to run {why[0]} and {why[1]}")
        found.why = answer(explainers, why, options.fuel)
    found.plan = replace(found.plan, graphs=tuple(rows), notes=tuple(notes))
    return found


def _differences(found: Sequence[_DeviceExplained]) -> tuple[FusionDifference, ...]:
    """None where the devices run different graphs, as a CPU may beside a GPU."""
    roles = [[graph.role for graph in one.plan.graphs] for one in found]
    if len(found) < 2 or any(other != roles[0] for other in roles[1:]):
        return ()
    return differences([one.plan.device for one in found], roles[0], [one.links for one in found])
