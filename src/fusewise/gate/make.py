"""Makes the plan that a file keeps: of this checkout, with data sheets alone, so that it is the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

from fusewise import __version__
from fusewise.config import Options
from fusewise.errors import UsageError
from fusewise.explanation import Explained, Progress, explain
from fusewise.gate.state import BreakState, DeviceState, GraphState, KernelState, PlanState, Request, WallState
from fusewise.report.documents import Explanation, GraphPlan, KernelRow
from fusewise.report.format import format_place
from fusewise.runtime.triton_compile import require_triton

TOOLS = ("torch", "triton")


def planned(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    devices: Sequence[str],
    options: Options,
    name: str = "",
    progress: Progress | None = None,
) -> Explained:
    """The plan of one call for each device, from data sheets; registers are those of compiled kernels.

    Raises:
        CompilerMissing: no triton, and a device is a GPU.
        UsageError: `cuda`, which is another GPU on each machine; or the function cannot be traced.
        UnknownName: no such device.
    """
    for device in devices:
        if device.startswith("cuda"):
            raise UsageError(f"a plan is for a named GPU, and {device!r} may be any.", "Name it: --device h200")
    if any(device != "cpu" for device in devices):
        require_triton()
    return explain(function, args, kwargs, devices, options, name, progress, use_measured=False, candidates=False)


def toolchain() -> dict[str, str]:
    """Versions of what decides a plan, without the build that they are of; what is not installed is left out."""
    found = {"fusewise": __version__}
    for tool in TOOLS:
        try:
            found[tool] = metadata.version(tool).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return found


def state_of(explanation: Explanation, request: Request) -> PlanState:
    """What a file keeps of a plan."""
    return PlanState(
        request,
        toolchain(),
        tuple(
            BreakState(stop.reason, format_place(stop.line.file, stop.line.line), stop.line.text)
            for stop in explanation.graph_breaks
        ),
        tuple(DeviceState(d.device, tuple(map(_graph, d.graphs))) for d in explanation.devices),
    )


def _graph(graph: GraphPlan) -> GraphState:
    walls = tuple(
        WallState(w.op, w.reason, format_place(w.line.file, w.line.line), w.line.text, w.dram_bytes)
        for w in graph.walls
    )
    return GraphState(graph.role, tuple(map(_kernel, graph.kernels)), walls, graph.eager_reason)


def _kernel(kernel: KernelRow) -> KernelState:
    found = kernel.resources
    used = found if found is not None and found.source == "compiled" else None
    return KernelState(
        name=kernel.name,
        ops=kernel.ops,
        lines=tuple(format_place(line.file, line.line) for line in kernel.lines),
        dram_bytes=kernel.dram_bytes,
        unfused_bytes=kernel.unfused_bytes,
        regs_per_thread=used.regs_per_thread if used else None,
        spill_bytes=used.spill_bytes if used else None,
        shared_bytes=used.shared_bytes if used else None,
        problem=found.note if found is not None and used is None else "",
    )
