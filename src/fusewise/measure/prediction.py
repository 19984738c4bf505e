"""Predicted against measured: the cost model held against a results file, for the device that the file was made on.

Nothing runs: each program is planned and its kernels are compiled for the device, which need not be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import Traced, trace_fn
from fusewise.config import Options
from fusewise.device.figures import Figure
from fusewise.errors import FusewiseError, UsageError
from fusewise.lower.registers import predict_registers
from fusewise.measure.machine import commit, now, versions
from fusewise.measure.program import Program
from fusewise.measure.results import BenchResult, BenchRow
from fusewise.measure.stats import median, percentile
from fusewise.pipeline import compiler_for, machine_of, plan_captured
from fusewise.plan.cost import Machine
from fusewise.plan.plan import KernelStep, OpaqueStep

SCHEMA = "fusewise-predictions/1"
_SEED = "fusewise.seed"  # a wall without work beside its launch

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class KernelPrediction:
    """One kernel.

    Attributes:
        predicted_us: its time.
        bound_by: what binds it; empty where it is so small that only its floor is known.
        regs_predicted, regs_compiled: registers a thread, before and after compiling; None where it was not compiled.
    """

    name: str
    predicted_us: float
    bound_by: str
    regs_predicted: int
    regs_compiled: int | None


@dataclass(frozen=True, slots=True)
class ProgramPrediction:
    """One row of a results file.

    Attributes:
        predicted_us, measured_us: one call of the program.
        measured_with: commit of the code that was measured.
        kernels: its kernels, forward and backward.
    """

    name: str
    direction: str
    size: str
    dtype: str
    predicted_us: float
    measured_us: float
    measured_with: str | None
    kernels: tuple[KernelPrediction, ...]

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return self.predicted_us / self.measured_us - 1


@dataclass(frozen=True, slots=True)
class Predictions:
    """All rows, and those left out with the reason."""

    device: str
    rows: tuple[ProgramPrediction, ...]
    left_out: tuple[tuple[str, str], ...]

    @property
    def median_error(self) -> float:
        """Median of the errors' sizes."""
        return median([abs(r.error) for r in self.rows])

    @property
    def p90_error(self) -> float:
        """Their 90th percentile."""
        return percentile([abs(r.error) for r in self.rows], 0.9)

    @property
    def registers_within(self) -> float:
        """Share of the compiled kernels whose registers were predicted within 15% or 8 registers."""
        pairs = [(k.regs_predicted, k.regs_compiled) for r in self.rows for k in r.kernels if k.regs_compiled]
        return sum(abs(a - b) <= max(8, 0.15 * b) for a, b in pairs) / len(pairs) if pairs else 1.0

    def to_json(self) -> dict[str, Any]:
        """As a document of the schema `fusewise-predictions/1`."""
        return {
            "schema": SCHEMA,
            "device": self.device,
            "median_error": self.median_error,
            "p90_error": self.p90_error,
            "registers_within": self.registers_within,
            "rows": [asdict(r) | {"error": r.error} for r in self.rows],
            "left_out": [list(item) for item in self.left_out],
            "versions": versions(),
            "commit": commit(),
            "date": now(),
        }


def predict_results(
    results: BenchResult, programs: dict[str, Program], device: str, names: Sequence[str], show: Progress
) -> Predictions:
    """Predicts each row of a results file.

    Args:
        device: the GPU that the file was made on (`h200`).
        names: programs; none: all.

    Raises:
        UsageError: no row of the file can be predicted.
    """
    machine = _as_measured(machine_of(device), results)
    rows: list[ProgramPrediction] = []
    left_out: list[tuple[str, str]] = []
    wanted = [r for r in results.rows if "fusewise" in r.times_us and (not names or r.name in names)]
    for number, row in enumerate(wanted):
        label = f"{row.name} {row.direction} {row.size} {row.dtype}"
        show(number / len(wanted), label)
        if row.name not in programs:
            left_out.append((label, "the catalogue has no such program"))
            continue
        try:
            found = _predict(row, programs[row.name], machine)
        except FusewiseError as cause:
            left_out.append((label, cause.problem))
            continue
        if isinstance(found, str):
            left_out.append((label, found))
        else:
            rows.append(found)
    show(1.0, "done")
    if not rows:
        raise UsageError("no row of the results file can be predicted.", "; ".join(" ".join(x) for x in left_out[:3]))
    return Predictions(machine.name, tuple(rows), tuple(left_out))


def _as_measured(machine: Machine, results: BenchResult) -> Machine:
    """The machine with the copy rate and the launch time of the run itself."""
    if machine.gpu is None:
        raise UsageError(f"{machine.name} is not a GPU.", "Name the GPU that the results are from: --device h200")
    rate = results.ceilings["copy_gbps"] * 1e9
    launch = results.ceilings["empty_kernel_us"]
    doc = "ceilings of the results file"
    figures = {
        "copy_bytes_per_s": Figure(rate, "calibrated", doc),
        "launch_us": Figure(launch, "calibrated", doc),
    }
    return replace(machine, gpu=machine.gpu.with_figures(figures), bytes_per_s=rate, launch_us=launch)


def _predict(row: BenchRow, program: Program, machine: Machine) -> ProgramPrediction | str:
    """The row predicted, or why it cannot be."""
    kernels: list[KernelPrediction] = []
    total_us = 0.0
    launches = 0
    for traced in _traced(row, program):
        captured = import_graph(traced.gm, traced.example_inputs, "balanced", "cuda")
        plan, built = plan_captured(captured, Options(), machine, compiler_for(machine, "balanced"))
        total_us += sum(launch.predicted_us for launch in plan.launches)
        launches += len(plan.launches) + len(plan.walls)
        for step in plan.steps:
            if isinstance(step, KernelStep):
                regs = predict_registers(built[step.name])
                if (known := step.prediction) is None:
                    kernels.append(KernelPrediction(step.name, step.predicted_us, "", regs, None))
                else:
                    found = KernelPrediction(step.name, step.predicted_us, known.bound_by, regs, known.regs_per_thread)
                    kernels.append(found)
            elif isinstance(step, OpaqueStep):
                name = captured.opaques[plan.graph[step.node].attr("key")].name
                if not name.startswith(_SEED):
                    return f"{name} runs as PyTorch's own kernel, which is not modelled"
                total_us += machine.launch_us
    measured = row.kernels.get("fusewise")
    if measured is not None and measured != launches:
        return f"{measured} kernels were measured, and today's plan has {launches}"
    measured_us = row.times_us["fusewise"].median
    return ProgramPrediction(
        row.name, row.direction, row.size, row.dtype, total_us, measured_us, row.commit, tuple(kernels)
    )


def _traced(row: BenchRow, program: Program) -> list[Traced]:
    with FakeTensorMode(allow_non_fake_inputs=True):
        function, arguments = program.make(row.shape, row.dtype, "cpu", row.direction)
    torch._dynamo.reset()
    return trace_fn(function, arguments, {}, "cuda")
