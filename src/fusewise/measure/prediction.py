"""Predicted against measured: the cost model held against a results file, for the device that the file was made on.

Nothing runs: each program is planned and its kernels are compiled for the device, which need not be there. On a CPU
they are lowered; the bench empties its caches before each call, so what a program takes in and writes is main memory's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fusewise.capture.captured import Captured
from fusewise.capture.importer import import_graph
from fusewise.capture.trace import Traced, trace_fn
from fusewise.config import Options
from fusewise.device.calibration import calibrated
from fusewise.device.cpu import CpuModel, cpu_of_document, probe_cpu
from fusewise.device.figures import Figure
from fusewise.device.model import GpuModel
from fusewise.errors import FusewiseError, UsageError
from fusewise.lower.cpu_work import cpu_work_of
from fusewise.lower.kernel import Kernel
from fusewise.lower.registers import predict_registers
from fusewise.measure.choices import ALTERNATIVES, SPLIT, SUBJECT, WHOLE, Choice, choice_of, summary_of
from fusewise.measure.machine import commit, now, versions
from fusewise.measure.program import Program
from fusewise.measure.results import BenchResult, BenchRow, KernelTime
from fusewise.measure.stats import median, percentile
from fusewise.pipeline import compiler_for, cpu_machine, machine_of, plan_captured
from fusewise.plan.cost import Machine
from fusewise.plan.cpu_cost import CpuWork, predict_cpu
from fusewise.plan.gpu_cost import Prediction
from fusewise.plan.plan import KernelStep, Plan, read_bytes

SCHEMA = "fusewise-predictions/1"
_CEILINGS = "ceilings of the results file"
_SEED = "fusewise.seed"  # a wall without work beside its call
_OPTIONS: dict[str, dict[str, Any]] = {SUBJECT: {}} | {name: ALTERNATIVES[name] for name in (WHOLE, SPLIT)}
WORST_KERNELS = 10  # of a report
SHORT_US = 15.0  # measured; of shorter launches the clock shows the launch more than the kernel

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class KernelPrediction:
    """One kernel.

    Attributes:
        predicted_us: its time.
        bound_by: what binds it; empty where it is so small that only its floor is known.
        regs_predicted, regs_compiled: registers a thread, before and after compiling; None where it was not compiled.
            On a CPU the vector registers wanted at once.
    """

    name: str
    predicted_us: float
    bound_by: str
    regs_predicted: int
    regs_compiled: int | None


@dataclass(frozen=True, slots=True)
class LaunchPrediction:
    """One launch of a program on a GPU, a kernel or a bundle of them, beside its duration on the device.

    Attributes:
        kernel: the launch's name.
        predicted_us: its time without what a launch takes, which the device's clock does not see.
        measured_us: median duration.
        bound_by: what binds the kernel; empty for a bundle, and where it is so small that only its floor is known.
    """

    kernel: str
    predicted_us: float
    measured_us: float
    bound_by: str

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return self.predicted_us / self.measured_us - 1

    @property
    def is_short(self) -> bool:
        """True where the measured time says little about the kernel."""
        return self.measured_us < SHORT_US


@dataclass(frozen=True, slots=True)
class ProgramPrediction:
    """One contender of one row of a results file.

    Attributes:
        predicted_us, measured_us: one call of the program. What `walls` take is missing in what is predicted.
        measured_with: commit of the code that was measured.
        kernels: its kernels, forward and backward.
        contender: which of Fusewise's.
        launches: those whose own time the file has.
        unmatched: kernels that were timed and are none of the plan's: PyTorch's own.
        walls: what runs as PyTorch's own kernel, which is not modelled: only the launches can be compared.
    """

    name: str
    direction: str
    size: str
    dtype: str
    predicted_us: float
    measured_us: float
    measured_with: str | None
    kernels: tuple[KernelPrediction, ...]
    contender: str = SUBJECT
    launches: tuple[LaunchPrediction, ...] = ()
    unmatched: tuple[str, ...] = ()
    walls: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The row's, for the reader."""
        return f"{self.name} {self.direction} {self.size} {self.dtype}"

    @property
    def error(self) -> float | None:
        """Predicted / measured - 1; None where there are walls."""
        return None if self.walls else self.predicted_us / self.measured_us - 1

    def to_json(self) -> dict[str, Any]:
        """Its fields, with each error."""
        launches = [asdict(launch) | {"error": launch.error} for launch in self.launches]
        return asdict(self) | {"error": self.error, "launches": launches}


@dataclass(frozen=True, slots=True)
class Predictions:
    """All rows, and those left out with the reason.

    Attributes:
        device: name of the device's model.
        rows: of the contender `fusewise`.
        note: whose figures were used where they are not those of the machine that was measured; else empty.
        alternatives: rows of `fusewise-whole` and `fusewise-split`, where the file has them.
        choices: whether the planner's choice was the fastest, for rows with times of all three.
        launch_us: what a launch takes, of the file with the longest.
    """

    device: str
    rows: tuple[ProgramPrediction, ...]
    left_out: tuple[tuple[str, str], ...]
    note: str = ""
    alternatives: tuple[ProgramPrediction, ...] = ()
    choices: tuple[Choice, ...] = ()
    launch_us: float = 0.0

    @property
    def errors(self) -> tuple[float, ...]:
        """Sizes of the errors of the programs that have no walls."""
        return tuple(abs(r.error) for r in self.rows if r.error is not None)

    @property
    def median_error(self) -> float | None:
        """Their median; None where there are none."""
        return median(self.errors) if self.errors else None

    @property
    def p90_error(self) -> float | None:
        """Their 90th percentile; None where there are none."""
        return percentile(self.errors, 0.9) if self.errors else None

    @property
    def registers_within(self) -> float | None:
        """Share of the compiled kernels whose registers were predicted within 15% or 8 registers; None on a CPU."""
        pairs = [(k.regs_predicted, k.regs_compiled) for r in self.rows for k in r.kernels if k.regs_compiled]
        return sum(abs(a - b) <= max(8, 0.15 * b) for a, b in pairs) / len(pairs) if pairs else None

    @property
    def launches(self) -> tuple[tuple[ProgramPrediction, LaunchPrediction], ...]:
        """Each launch with a time of its own and the row it was timed in; one that several contenders share is once."""
        found: dict[tuple[str, str, float, int], tuple[ProgramPrediction, LaunchPrediction]] = {}
        for row in (*self.rows, *self.alternatives):
            for number, launch in enumerate(row.launches):
                repeat = sum(other.kernel == launch.kernel for other in row.launches[:number])
                found.setdefault((row.label, launch.kernel, launch.predicted_us, repeat), (row, launch))
        return tuple(found.values())

    @property
    def worst_launches(self) -> list[tuple[ProgramPrediction, LaunchPrediction]]:
        """The greatest errors, the worst first; short launches left out."""
        long = [(row, launch) for row, launch in self.launches if not launch.is_short]
        return sorted(long, key=lambda pair: -abs(pair[1].error))[:WORST_KERNELS]

    @property
    def kernel_errors(self) -> tuple[float, ...]:
        """Sizes of the launches' errors, short ones left out."""
        return tuple(abs(launch.error) for _, launch in self.launches if not launch.is_short)

    @property
    def launched_errors(self) -> tuple[float, ...]:
        """Sizes of the errors of all launches, short ones too, what a launch takes included on both sides."""
        extra = self.launch_us
        return tuple(abs((x.predicted_us + extra) / (x.measured_us + extra) - 1) for _, x in self.launches)

    def to_json(self) -> dict[str, Any]:
        """As a document of the schema `fusewise-predictions/1`: docs/bench-schema.md."""
        errors = self.kernel_errors
        return {
            "schema": SCHEMA,
            "device": self.device,
            "note": self.note,
            "median_error": self.median_error,
            "p90_error": self.p90_error,
            "median_kernel_error": median(errors) if errors else None,
            "p90_kernel_error": percentile(errors, 0.9) if errors else None,
            "kernels_compared": len(errors),
            "median_launched_error": median(self.launched_errors) if errors else None,
            "p90_launched_error": percentile(self.launched_errors, 0.9) if errors else None,
            "kernels_too_short": len(self.launches) - len(errors),
            "worst_kernels": [_in_its_row(row, launch) for row, launch in self.worst_launches],
            "registers_within": self.registers_within,
            "rows": [r.to_json() for r in self.rows],
            "alternatives": [r.to_json() for r in self.alternatives],
            "choices": summary_of(self.choices),
            "left_out": [list(item) for item in self.left_out],
            "versions": versions(),
            "commit": commit(),
            "date": now(),
        }


def _in_its_row(row: ProgramPrediction, launch: LaunchPrediction) -> dict[str, Any]:
    place = {key: getattr(row, key) for key in ("name", "direction", "size", "dtype", "contender")}
    return place | asdict(launch) | {"error": launch.error}


def predict_results(
    files: Sequence[BenchResult], programs: dict[str, Program], device: str, names: Sequence[str], show: Progress
) -> Predictions:
    """Predicts each row of results files, for each contender that splits kernels or does not.

    Args:
        files: of one machine; each one's ceilings count for its rows.
        device: the GPU that the files were made on (`h200`), or `cpu`.
        names: programs; none: all.

    Raises:
        UsageError: no row of the files can be predicted.
    """
    notes: dict[str, None] = {}
    rows: list[ProgramPrediction] = []
    alternatives: list[ProgramPrediction] = []
    left_out: list[tuple[str, str]] = []
    choices: list[Choice] = []
    wanted = [[r for r in f.rows if SUBJECT in r.times_us and (not names or r.name in names)] for f in files]
    done, count = 0, sum(map(len, wanted))
    title, launch_us = device, 0.0
    for results, chosen in zip(files, wanted, strict=True):
        if device == "cpu":
            cpu, note = _cpu_as_measured(results)
            machine = cpu_machine(cpu)
            notes |= {note: None} if note else {}
        else:
            machine = _as_measured(machine_of(device), results)
            title, launch_us = machine.name, max(launch_us, machine.launch_us)
        for row in chosen:
            label = f"{row.name} {row.direction} {row.size} {row.dtype}"
            show(done / count, label)
            done += 1
            found = _predict_row(row, programs, machine, results)
            predicted = {name: p for name, p in found.items() if isinstance(p, ProgramPrediction)}
            for name, prediction in found.items():
                if isinstance(prediction, str):
                    left_out.append((label if name == SUBJECT else f"{label} {name}", prediction))
                elif name == SUBJECT:
                    rows.append(prediction)
                else:
                    alternatives.append(prediction)
            choice = choice_of(row, {n: (p.predicted_us, p.kernels) for n, p in predicted.items()})
            choices += [] if choice is None else [choice]
    show(1.0, "done")
    if not rows:
        raise UsageError("no row of the results files can be predicted.", "; ".join(": ".join(x) for x in left_out[:3]))
    note = " ".join(notes)
    return Predictions(title, tuple(rows), tuple(left_out), note, tuple(alternatives), tuple(choices), launch_us)


def _predict_row(
    row: BenchRow, programs: Mapping[str, Program], machine: Machine, results: BenchResult
) -> dict[str, ProgramPrediction | str]:
    """The row's prediction by contender, or why there is none; where `fusewise` has none the others are not tried."""
    if row.name not in programs:
        return {SUBJECT: "the catalogue has no such program"}
    found: dict[str, ProgramPrediction | str] = {}
    try:
        device = "cpu" if machine.cpu else "cuda"
        graphs = [
            (traced, import_graph(traced.gm, traced.example_inputs, "balanced", device))
            for traced in _traced(row, programs[row.name], device)
        ]
        for contender in _OPTIONS:
            if contender in row.times_us and not isinstance(found.get(SUBJECT), str):
                found[contender] = _predict(row, contender, graphs, machine, results)
    except FusewiseError as cause:
        found[SUBJECT] = cause.problem
    return found


def _as_measured(machine: Machine, results: BenchResult) -> Machine:
    """The GPU with the copy rate and the launch time of the run itself."""
    assert machine.gpu is not None, "every device but the CPU is a GPU"
    rate = results.ceilings["copy_gbps"] * 1e9
    launch = results.ceilings["empty_kernel_us"]
    figures = {
        "copy_bytes_per_s": Figure(rate, "calibrated", _CEILINGS),
        "launch_us": Figure(launch, "calibrated", _CEILINGS),
    }
    return replace(machine, gpu=machine.gpu.with_figures(figures), bytes_per_s=rate, launch_us=launch)


def _cpu_as_measured(results: BenchResult) -> tuple[CpuModel, str]:
    """The processor of the run with its copy rate, and a note where its other figures are this machine's instead."""
    title, note = results.machine["device"], ""
    if results.cpu:
        cpu = cpu_of_document(title, results.cpu, "the results file")
    else:
        cpu = calibrated(probe_cpu())
        if not title.startswith(f"{cpu.title},"):
            note = (
                f"The results file holds no figures of its processor ({title}) but the copy rate;"
                f" the others are those of {cpu.title}, {cpu.cores} cores of {cpu.clock_hz / 1e6:.0f} MHz."
            )
    return cpu.with_figures({"copy_bytes_per_s": _usual_copy_rate(results)}), note


def _usual_copy_rate(results: BenchResult) -> Figure:
    """Of the copies beside the rows, the larger half: the best copy of a run, which floors take, is often twice as fast
    as the usual one on a processor that others share.
    """
    seen = sorted((row.least_bytes, row.copy_us.median) for row in results.rows if row.copy_us is not None)
    if not seen:
        return Figure(results.ceilings["copy_gbps"] * 1e9, "calibrated", _CEILINGS)
    large = seen[len(seen) // 2 :]
    return Figure(median([moved / us * 1e6 for moved, us in large]), "calibrated", "the copies beside the rows")


def _predict(
    row: BenchRow,
    contender: str,
    graphs: Sequence[tuple[Traced, Captured]],
    machine: Machine,
    results: BenchResult,
) -> ProgramPrediction | str:
    """The row predicted for a contender, or why it cannot be."""
    options = Options(**_OPTIONS[contender])
    kernels: list[KernelPrediction] = []
    launched: list[tuple[str, float, str]] = []
    calls: list[tuple[str, CpuWork, float]] = []
    total_us = 0.0
    launches = 0
    walls: dict[str, None] = {}
    for traced, captured in graphs:
        plan, built = plan_captured(captured, options, machine, compiler_for(machine, "balanced"))
        launches += len(plan.launches)
        if machine.gpu is not None:
            total_us += sum(launch.predicted_us for launch in plan.launches)
            own = {step.name: _gpu_kernel(step, built[step.name], machine.gpu) for step in plan.kernels}
            kernels += own.values()
            for launch in plan.launches:
                bound_by = own[launch.name].bound_by if launch.name in own else ""
                launched.append((launch.name, launch.predicted_us - machine.launch_us, bound_by))
        else:
            calls += _cpu_calls(traced, plan, built)
        for step in plan.walls:
            name = captured.opaques[plan.graph[step.node].attr("key")].name
            if not name.startswith(_SEED):
                walls[name] = None
            elif machine.cpu is not None:  # a GPU's seed is drawn on the host, ahead of the kernels
                launches += 1
                total_us += results.ceilings["empty_kernel_us"]
    measured = row.kernels.get(contender)
    if not walls and measured is not None and measured != launches:
        return f"{measured} kernels were measured, and today's plan has {launches}"
    if machine.cpu is not None:
        kernels = _cpu_kernels(machine.cpu, calls)
        total_us += sum(k.predicted_us for k in kernels) + _host_us(results, row.direction)
    matched, unmatched = match_launches(launched, row.kernel_times.get(contender, ()))
    return ProgramPrediction(
        row.name,
        row.direction,
        row.size,
        row.dtype,
        total_us,
        row.times_us[contender].median,
        row.commit,
        tuple(kernels),
        contender,
        matched,
        unmatched,
        tuple(walls),
    )


def match_launches(
    predicted: Sequence[tuple[str, float, str]], measured: Sequence[KernelTime]
) -> tuple[tuple[LaunchPrediction, ...], tuple[str, ...]]:
    """(launches of a plan beside their durations, names of the measured kernels that are none of them).

    A name that stands in forward and backward is matched in order of launch, where both sides have it equally often.

    Args:
        predicted: (name, time without the launch in us, what binds it), in order.
    """
    waiting: dict[str, list[float]] = {}
    for kernel in measured:
        waiting.setdefault(kernel.kernel, []).append(kernel.time_us)
    counts = Counter(name for name, _, _ in predicted)
    known = {name for name, times in waiting.items() if len(times) == counts[name]}
    found = tuple(LaunchPrediction(n, us, waiting[n].pop(0), bound) for n, us, bound in predicted if n in known)
    return found, tuple(kernel.kernel for kernel in measured if kernel.kernel not in known)


def _gpu_kernel(step: KernelStep, kernel: Kernel, gpu: GpuModel) -> KernelPrediction:
    regs = predict_registers(kernel, gpu.arch)
    known = step.prediction
    if not isinstance(known, Prediction):
        return KernelPrediction(step.name, step.predicted_us, "", regs, None)
    return KernelPrediction(step.name, step.predicted_us, known.bound_by, regs, known.regs_per_thread)


def _cpu_calls(traced: Traced, plan: Plan, built: Mapping[str, Kernel]) -> list[tuple[str, CpuWork, float]]:
    """(name, work, bytes that are in no cache) of each kernel of a graph.

    Those are what it writes and what it is the first to read: of a backward the gradients that come in, since the
    forward has touched the rest.
    """
    names = [n.name for n in traced.gm.graph.nodes if n.op == "placeholder"]
    cold = {
        i
        for i in plan.graph.inputs
        if traced.role != "backward" or names[plan.graph[i].attr("position")].startswith("tangents")
    }
    found: list[tuple[str, CpuWork, float]] = []
    for step in plan.kernels:
        work = cpu_work_of(plan, step, built[step.name])
        first = sum(read_bytes(plan.graph, step.region, v, plan.graph.hints()) for v in step.reads if v in cold)
        cold.difference_update(step.reads)
        found.append((step.name, work, work.write_bytes + first))
    return found


def _cpu_kernels(cpu: CpuModel, calls: Sequence[tuple[str, CpuWork, float]]) -> list[KernelPrediction]:
    touched = sum(work.moved_bytes for _, work, _ in calls)
    found: list[KernelPrediction] = []
    for name, work, cold_bytes in calls:
        kernel = predict_cpu(cpu, replace(work, touched_bytes=touched), cold_bytes)
        found.append(KernelPrediction(name, kernel.time_us, kernel.bound_by, kernel.live_registers, None))
    return found


def _host_us(results: BenchResult, direction: str) -> float:
    """Time of a call with next to nothing to do, where the run has measured it: a CPU's kernels wait for it."""
    calls = [o.call_us.median for o in results.overheads if (o.contender, o.direction) == ("fusewise", direction)]
    return calls[0] if calls else 0.0


def _traced(row: BenchRow, program: Program, device: str) -> list[Traced]:
    # a CPU's results are of sizes that fit the host
    with nullcontext() if device == "cpu" else FakeTensorMode(allow_non_fake_inputs=True):
        function, arguments = program.make(row.shape, row.dtype, "cpu", row.direction)
    torch._dynamo.reset()
    return trace_fn(function, arguments, {}, None if device == "cpu" else device)
