"""The one place that wires the stages together: FX graph -> graph -> plan -> kernels -> source -> callable."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fusewise import trace
from fusewise.capture.captured import (
    ArgInput,
    Captured,
    ConstantOutput,
    InputOutput,
    SizeOutput,
    TensorInput,
    TensorOutput,
)
from fusewise.capture.importer import import_graph
from fusewise.codegen.triton import module
from fusewise.config import Options, Policy
from fusewise.device import CpuModel, Figure, calibrated, load_gpu, probe_cpu
from fusewise.device.model import GpuModel
from fusewise.errors import Unsupported
from fusewise.ir.graph import Graph
from fusewise.ir.sizes import Size
from fusewise.ir.verifier import check
from fusewise.lower.build import build_kernel
from fusewise.lower.bundle import bundle_kernels
from fusewise.lower.cpu_work import price_cpu
from fusewise.lower.fission import Refined, refine
from fusewise.lower.kernel import Kernel
from fusewise.lower.launch import LaunchUnit, launch_units
from fusewise.lower.price import Compile, Pricer
from fusewise.lower.tune import pin, tune
from fusewise.plan.cost import Machine
from fusewise.plan.gpu_schedule import choose_gpu_schedule
from fusewise.plan.partition import Cut
from fusewise.plan.plan import KernelStep, Plan, make_plan
from fusewise.plan.resources import Resources
from fusewise.plan.schedule import KernelShape, Schedule, choose_cpp_schedule
from fusewise.runtime.program import Launch, Opaque, Output, Signature, build_program

Call = Callable[[list[Any]], list[Any]]

_CPU_COPY_BYTES_PER_S = 12e9  # a core's share of the copy rate where nobody has measured this machine's


@dataclass(frozen=True, slots=True)
class Compiled:
    """Everything that one compile made.

    Attributes:
        role: `forward`, `backward` or `inference`.
        captured: what capture handed on.
        plan: what runs.
        kernels: by name.
        source: the C++ unit or the Triton module; empty where there is no kernel.
        program: the generated Python that runs the steps.
        seconds: wall time of each stage.
    """

    role: str
    captured: Captured
    plan: Plan
    kernels: Mapping[str, Kernel]
    source: str
    program: str
    seconds: Mapping[str, float] = field(default_factory=dict)


def machine_of(device: str, use_measured: bool = True) -> Machine:
    """The planner's view of a device: `cpu`, `cuda` (the GPU that is present), or the name of a GPU (`h200`).

    Args:
        use_measured: this user's measured rates where there are any; else a GPU's data sheet alone, the same anywhere.
    """
    if device == "cpu":
        return cpu_machine(calibrated(probe_cpu()) if use_measured else probe_cpu())
    model = present_gpu(device) if device.startswith("cuda") else load_gpu(device)
    if use_measured:
        model = calibrated(model)
    known = model.known_figures()
    measured = "copy_bytes_per_s" in known
    return Machine(
        name=model.name,
        kind="gpu",
        bytes_per_s=known["copy_bytes_per_s"].value if measured else model.dram_bytes_per_s,
        launch_us=model.launch_us,
        instructions_per_s=model.sm_count * 128 * model.clock_hz,
        units=model.sm_count,
        cache_bytes=model.l2_bytes,
        source="calibrated" if measured else "datasheet",
        compute_capability=_capability(model),
        gpu=model,
    )


def cpu_machine(cpu: CpuModel) -> Machine:
    """The planner's view of a processor; a copy rate that nobody has measured is modelled."""
    if cpu.figures.copy_bytes_per_s is None:
        rate = Figure(_CPU_COPY_BYTES_PER_S * cpu.cores, "modelled", "typical share of a core x cores")
        cpu = cpu.with_figures({"copy_bytes_per_s": rate})
    copy = cpu.figure("copy_bytes_per_s")
    return Machine(
        name=cpu.title,
        kind="cpu",
        bytes_per_s=copy.value,
        launch_us=cpu.launch_us,
        instructions_per_s=cpu.fp32_flops_per_s / 2,
        units=cpu.cores,
        cache_bytes=cpu.l3_bytes,
        source=copy.source,
        cpu=cpu,
    )


def _capability(model: GpuModel) -> int:
    digits = re.sub(r"\D", "", str(getattr(model.arch, "name", model.arch)))
    return int(digits or 0)


def present_gpu(device: str) -> GpuModel:
    """The model of the CUDA device that is present."""
    properties = torch.cuda.get_device_properties(torch.device(device))
    short = re.sub(r"nvidia|geforce|tesla|[^a-z0-9]", "", properties.name.lower())
    from fusewise.device import list_names

    for name in sorted(list_names(), key=len, reverse=True):
        if name in short:
            return load_gpu(name)
    raise Unsupported(
        f"no device file describes {properties.name}",
        "Write one and name its folder in FUSEWISE_DEVICE_DIR; `fusewise device show h200` prints an example.",
    )


def plan_captured(
    captured: Captured, options: Options, machine: Machine, compiler: Compile | None = None
) -> tuple[Plan, dict[str, Kernel]]:
    """Plan and kernels of a captured graph for a machine.

    Args:
        compiler: compiles kernels for a GPU while it is planned (`compiler_for`), so that schedules and splits go by
            what the machine code uses; None: registers and instructions are modelled, and nothing is compiled.
    """
    if options.check:
        check(captured.graph)

    def make(cuts: Sequence[Cut]) -> Plan:
        return make_plan(captured.graph, machine, options.fuel, options.policy, cuts)

    if machine.gpu is not None:
        fission = options.fission if options.fuel is None else "never"
        pricer = Pricer(machine.gpu, compiler)
        refined = refine(make, pricer, fission)
        if options.tune or options.schedules:
            refined = _choose_schedules(refined, pricer, captured.graph.device, options)
        plan = refined.plan
        if options.side_by_side != "never":
            forced = options.side_by_side == "always"
            plan = bundle_kernels(plan, refined.priced, machine.gpu, options.fuel, forced)
        kernels = refined.kernels
    else:
        plan = make(())
        kernels = {step.name: lower_step(plan.graph, step, plan.layouts, machine) for step in plan.kernels}
        if machine.cpu is not None:
            plan = price_cpu(plan, kernels, machine.cpu)
    if options.check:
        check(plan.graph)
    return plan, kernels


def _choose_schedules(refined: Refined, pricer: Pricer, device: str, options: Options) -> Refined:
    """The kernels under the schedules that the options pin, then, with `tune`, under the fastest; prints those."""
    refined = pin(refined, pricer, dict(options.schedules))
    if not options.tune or not device.startswith("cuda") or not torch.cuda.is_available():
        return refined
    from fusewise.runtime.kernel_timer import KernelTimer

    refined, pins = tune(refined, pricer, KernelTimer(device, options.policy == "conservative"))
    if pins:
        print(f"fusewise: to pin this choice: schedules={pins}", file=sys.stderr)
    return refined


def lower_step(
    graph: Graph,
    step: KernelStep,
    layouts: Mapping[int, tuple[Size, ...]],
    machine: Machine,
    schedule: Schedule | None = None,
) -> Kernel:
    """The kernel of one step of a plan, under the schedule given, or the one that suits the machine."""
    masked = machine.kind == "gpu"
    choose = _scheduler(machine) if schedule is None else lambda shape: schedule
    return build_kernel(graph, step.region, step.writes, layouts, step.name, choose, masked, dict(step.over))


def _scheduler(machine: Machine) -> Callable[[KernelShape], Schedule]:
    if machine.kind == "cpu":
        return choose_cpp_schedule
    return lambda shape: choose_gpu_schedule(shape, machine.units)[0]


def compiler_for(machine: Machine, policy: Policy) -> Compile | None:
    """Compiles for the planned GPU, which need not be there; None for a CPU, and where there is no Triton."""
    from fusewise.runtime.triton_compile import GpuTarget, has_triton, resources

    gpu = machine.gpu
    if gpu is None or not has_triton():
        return None
    target = GpuTarget(gpu.arch.name if gpu.vendor == "amd" else machine.compute_capability)

    def compile_kernel(kernel: Kernel) -> Resources:
        source = module([kernel], policy == "conservative", "amd" if gpu.vendor == "amd" else "nvidia")
        return resources(source, [kernel], target)[kernel.name]

    return compile_kernel


def compile_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options, role: str) -> Call:
    """Compiles one FX graph; the result takes the arguments in a list, which it empties.

    Raises:
        FusewiseError: a stage failed; the caller then runs the graph as it is.
    """
    clock = _Clock()
    captured = import_graph(gm, example_inputs, options.policy, strict=options.strict)
    clock.lap("capture")
    device = captured.graph.device
    machine = machine_of(device)
    plan, kernels = plan_captured(captured, options, machine, compiler_for(machine, options.policy))
    clock.lap("plan")
    units = launch_units(plan, kernels)
    source, launches, stream = build_kernels(units, device, options.policy == "conservative")
    clock.lap("build")
    call, program = build_program(plan, units, launches, opaques_of(captured, plan), _signature(captured, role), stream)
    compiled = Compiled(role, captured, plan, kernels, source, program, clock.seconds)
    trace.record(compiled)
    call._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd then hands over the list and keeps no reference
    return call


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now


def build_kernels(kernels: Mapping[str, LaunchUnit], device: str, exact: bool) -> tuple[str, dict[str, Launch], str]:
    """(source, function of each launch, text of the stream argument).

    Args:
        exact: on a GPU, every function with eager's bits; a CPU's kernels have one form of each.
    """
    if not kernels:
        return "", {}, ""
    if device == "cpu":
        from fusewise.codegen.cpp import unit
        from fusewise.runtime.cpp import build

        source = unit([kernel for kernel in kernels.values() if isinstance(kernel, Kernel)])
        library = build(source)
        return source, {name: library.function(name) for name in kernels}, ""
    from fusewise.runtime.index_width import choose_by_size, narrow_variant
    from fusewise.runtime.triton import build_launchers

    narrow = {name: variant for name, k in kernels.items() if (variant := narrow_variant(k)) is not None}
    variants = [*kernels.values(), *narrow.values()]
    source = module(variants, exact)
    built = build_launchers(source, variants, device, later=narrow.keys())
    launches = {
        name: choose_by_size(k, built[narrow[name].name], built[name]) if name in narrow else built[name]
        for name, k in kernels.items()
    }
    stream = f"torch._C._cuda_getCurrentRawStream({torch.device(device).index or 0})"
    return source, launches, stream


def opaques_of(captured: Captured, plan: Plan) -> dict[int, Opaque]:
    """The PyTorch calls of a plan, by graph node."""
    found: dict[int, Opaque] = {}
    for step in plan.steps:
        if not isinstance(step, KernelStep):
            call = captured.opaques[plan.graph[step.node].attr("key")]
            found[step.node] = Opaque(call.bind(), call.results)
    return found


def _signature(captured: Captured, role: str) -> Signature:
    outputs: list[Output] = []
    for kind in captured.outputs:
        match kind:
            case TensorOutput(index=index, scalar=scalar):
                outputs.append(Output("scalar" if scalar else "tensor", index))
            case SizeOutput(expr=expr):
                outputs.append(Output("size", expr))
            case ConstantOutput(value=value):
                outputs.append(Output("object", value))
            case InputOutput(position=position):
                outputs.append(Output("input", position))
    return Signature(
        tensors=tuple(i for i, kind in enumerate(captured.inputs) if isinstance(kind, TensorInput)),
        constants=captured.constants,
        outputs=tuple(outputs),
        arguments=len(captured.inputs),
        uses_inputs=any(_reads_inputs(call.args) or _reads_inputs(call.kwargs) for call in captured.opaques),
        check_strides=role == "backward",
    )


def _reads_inputs(value: Any) -> bool:
    if isinstance(value, ArgInput):
        return True
    if isinstance(value, Mapping):
        return any(map(_reads_inputs, value.values()))
    if isinstance(value, slice):
        return any(map(_reads_inputs, (value.start, value.stop, value.step)))
    return isinstance(value, (list, tuple)) and any(map(_reads_inputs, value))
