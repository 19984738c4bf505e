"""The bench: times programs for every contender in one run, interleaved, and compares the outputs it timed."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

import torch

from fusewise.device.calibration import calibrated
from fusewise.device.cpu import figures_document, probe_cpu
from fusewise.errors import EnvironmentFailure, FusewiseError, UnknownName
from fusewise.measure import machine
from fusewise.measure.check import Verification, verify_contender
from fusewise.measure.contenders import (
    Contender,
    cold_caches,
    contenders_named,
    own_entry,
    peers_of,
    warm_up,
)
from fusewise.measure.floors import Ceilings, best_of, floor_of, is_impossible, measure_ceilings
from fusewise.measure.overhead import measure_overheads
from fusewise.measure.program import DIRECTIONS, DTYPES, Case, Cost, Function, Program
from fusewise.measure.results import BenchResult, BenchRow, CallOverhead, KernelTime
from fusewise.measure.stats import median, summarize
from fusewise.measure.timers import Call, Timer, interleave, make_timer
from fusewise.measure.traffic import (
    KernelCounter,
    KernelTimesWarning,
    device_kernel_times,
    device_kernels,
    inductor_wrappers,
    kernels_in_wrapper,
    peak_bytes,
)
from fusewise.measure.workload import Workload, prepare

# fp64 comparisons hold a program's tensors several times over, four times as wide.
VERIFY_MEMORY_FACTOR = 8


class Progress(Protocol):
    """Told what the bench does; `share` of the whole run, 0 to 1, lies behind."""

    def __call__(self, share: float, text: str) -> None:
        """Show it."""
        ...


@dataclass(frozen=True, slots=True)
class BenchCase:
    """One row to be: a program, the name of its size, its dtype's name, and the case that these give."""

    program: Program
    size: str
    dtype: str
    case: Case

    @property
    def label(self) -> str:
        """For progress and errors."""
        return f"{self.program.name} {self.case.direction} {self.size} {self.dtype}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run measures.

    Attributes:
        rounds: samples of each contender.
        budget_s: time after which a case stops early, with at least seven samples; None: all rounds.
        subject: the contender whose results are compared with eager's.
        count_fusewise_kernels: counts the kernels that Fusewise launches in a call on a CPU; None: not counted.
        overheads: also measure what a call costs the host.
    """

    rounds: int = 30
    budget_s: float | None = None
    subject: str = "fusewise"
    count_fusewise_kernels: KernelCounter | None = None
    overheads: bool = False


@dataclass(frozen=True, slots=True)
class _Started:
    """A contender that ran once on a case."""

    contender: Contender
    entry: Function
    call: Call
    compile_s: float | None
    wrappers: list[str]


@dataclass(frozen=True, slots=True)
class _Measured:
    """What was seen of one case; the floor comes later, from ceilings taken before and after all cases."""

    samples: dict[str, list[float]]
    copy: list[float]
    kernels: dict[str, int | None]
    kernel_times: dict[str, tuple[KernelTime, ...]]
    peaks: dict[str, int | None]
    compile_s: dict[str, float]
    failures: dict[str, str]
    verification: Verification


def bench_cases(
    programs: Iterable[Program],
    sizes: Sequence[str],
    device: str,
    dtypes: Sequence[str] | None = None,
    directions: Sequence[str] | None = None,
) -> list[BenchCase]:
    """The cases of these programs: every size, dtype and direction that a program has of those asked for.

    Args:
        dtypes: None: each program's first.
        directions: None: all of a program's.

    Raises:
        UnknownName: a size, dtype or direction that no program has.
    """
    programs = list(programs)
    _check_names("dtype", dtypes or (), DTYPES)
    _check_names("direction", directions or (), DIRECTIONS)
    _check_names("size", sizes, {size for program in programs for size in program.sizes})
    cases = []
    for program in programs:
        for size in (s for s in sizes if s in program.sizes):
            for dtype in (d for d in dtypes or program.dtypes[:1] if d in program.dtypes):
                for direction in program.directions:
                    if directions is None or direction in directions:
                        case = program.case(size, dtype, device, direction)
                        cases.append(BenchCase(program, size, dtype, case))
    return cases


def _check_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            raise UnknownName(kind, name, known)


def run(
    programs: Iterable[Program],
    sizes: Sequence[str] = ("small",),
    baselines: Sequence[str] = ("eager", "inductor", "inductor-max"),
    device: str = "cpu",
    *,
    dtypes: Sequence[str] | None = None,
    directions: Sequence[str] | None = None,
    settings: Settings = Settings(),
    progress: Progress | None = None,
) -> BenchResult:
    """Time programs for these baselines, for Fusewise, and for their own peers where those are installed.

    Raises:
        UnknownName: a baseline, size, dtype or direction that does not exist.
        EnvironmentFailure: no such device, or a case that does not fit in its memory.
    """
    cases = bench_cases(programs, sizes, device, dtypes, directions)
    names = (*baselines, settings.subject)
    contenders = contenders_named(names, settings.count_fusewise_kernels)
    return run_cases(cases, contenders, device, settings, progress)


def run_cases(
    cases: Sequence[BenchCase],
    contenders: Sequence[Contender],
    device: str,
    settings: Settings = Settings(),
    progress: Progress | None = None,
) -> BenchResult:
    """Time these cases for these contenders; ceilings are measured first, on the same device.

    A contender that fails to compile or to run is recorded in the row with the reason, and the others go on. After an
    interrupt the result holds the cases that were measured until then, if there are any.
    """
    show: Progress = progress or (lambda share, text: None)
    _check_device(device, cases)
    show(0.0, "measuring the device")
    with_flops = sorted({c.dtype for c in cases if c.program.cost(c.case).flops})
    before = measure_ceilings(device, with_flops)
    timer = make_timer(device)
    for contender in contenders:
        if contender.compiles:
            show(0.0, f"starting {contender.name}")
            warm_up(contender, device)
    date = machine.now()
    measured = []
    for i, bench_case in enumerate(cases):

        def show_case(share: float, text: str, i: int = i, label: str = bench_case.label) -> None:
            show((i + share) / len(cases), f"{label}: {text}")

        try:
            measured.append(_measure(bench_case, contenders, timer, settings, show_case))
        except KeyboardInterrupt:
            if not measured:
                raise
            break
    complete = len(measured) == len(cases)
    overheads: tuple[CallOverhead, ...] = ()
    if settings.overheads and complete:
        show(1.0, "timing calls on tiny tensors")
        overheads = measure_overheads(contenders, device)
    # Another process may have slowed the first measurement, and a low ceiling would make good times look impossible.
    show(1.0, "measuring the device again")
    ceilings = best_of(before, measure_ceilings(device, with_flops))
    stand = _Stand(machine.device_name(device), machine.versions(), machine.commit(), date)
    rows = tuple(_row(case, seen, ceilings, stand) for case, seen in zip(cases[: len(measured)], measured, strict=True))
    show(1.0, "done")
    host = {"device": stand.device, "host": machine.device_name("cpu"), "threads": str(torch.get_num_threads())}
    cpu = figures_document(calibrated(probe_cpu())) if torch.device(device).type == "cpu" else {}
    return BenchResult(rows, asdict(ceilings), host, overheads, cpu)


def _check_device(device: str, cases: Sequence[BenchCase]) -> None:
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise EnvironmentFailure(
            "this machine has no CUDA device.", "Run with --device cpu, or on a machine that has one."
        )
    free = machine.free_cpu_bytes()
    if torch.device(device).type != "cpu" or free is None:
        return
    for bench_case in cases:
        needed = VERIFY_MEMORY_FACTOR * bench_case.program.cost(bench_case.case).least_bytes
        if needed > free:
            raise EnvironmentFailure(
                f"{bench_case.label} needs about {needed / 1e9:.0f} GB of memory; {free / 1e9:.0f} GB are free.",
                "Ask for --size small, with --grid for --most 1048576, or run it on a GPU.",
            )


def _measure(
    bench_case: BenchCase, contenders: Sequence[Contender], timer: Timer, settings: Settings, show: Progress
) -> _Measured:
    program, case = bench_case.program, bench_case.case
    torch._dynamo.reset()
    gc.collect()
    workload = prepare(program, case)
    everyone = (*contenders, *peers_of(program, case))
    runs: dict[str, _Started] = {}
    failures: dict[str, str] = {}
    for i, contender in enumerate(everyone):
        show(0.5 * i / len(everyone), f"compiling {contender.name}")
        started = _start(contender, workload, timer)
        if isinstance(started, _Started):
            runs[contender.name] = started
        else:
            failures[contender.name] = _reason(started)
    calls = {name: started.call for name, started in runs.items()}
    copy = _copy(program.cost(case), case.device)
    samples = _time(calls | ({_COPY: copy} if copy else {}), timer, settings, show)
    del copy  # its tensors
    show(0.9, "counting kernels and bytes")
    kernels = {name: _count_kernels(started, case.device) for name, started in runs.items()}
    kernel_times = _time_kernels(bench_case, runs, timer)
    peaks = {name: peak_bytes(started.call, case.device) for name, started in runs.items()}
    show(0.95, "comparing")
    return _Measured(
        copy=samples.pop(_COPY, []),
        samples=samples,
        kernels=kernels,
        kernel_times=kernel_times,
        peaks=peaks,
        compile_s={name: r.compile_s for name, r in runs.items() if r.compile_s is not None},
        failures=failures,
        verification=_verify(program, workload, runs, failures, settings.subject),
    )


@dataclass(frozen=True, slots=True)
class _Stand:
    """What all rows of a run stood on."""

    device: str
    versions: dict[str, str]
    commit: str | None
    date: str


def _row(bench_case: BenchCase, seen: _Measured, ceilings: Ceilings, stand: _Stand) -> BenchRow:
    program, case = bench_case.program, bench_case.case
    cost = program.cost(case)
    floor = floor_of(cost, bench_case.dtype, ceilings)
    times = {name: summarize(values) for name, values in seen.samples.items()}
    return BenchRow(
        name=program.name,
        direction=case.direction,
        size=bench_case.size,
        shape=dict(case.size),
        dtype=bench_case.dtype,
        device=stand.device,
        floor_us=floor.time_us,
        floor_bound=floor.bound,
        floor_two_read_us=floor.two_read_us,
        least_bytes=cost.least_bytes,
        unfused_bytes=cost.unfused_bytes,
        flops=cost.flops,
        traffic_gain=cost.traffic_gain,
        times_us=times,
        share_of_floor={name: floor.time_us / t.median for name, t in times.items()},
        achieved_gbps={name: cost.least_bytes / t.median / 1e3 for name, t in times.items()},
        peak_bytes=seen.peaks,
        kernels=seen.kernels,
        compile_s=seen.compile_s,
        verified=seen.verification.compared and seen.verification.equal,
        mismatched=seen.verification.compared and not seen.verification.equal,
        verify_note=seen.verification.note,
        impossible=tuple(name for name, t in times.items() if is_impossible(t.median, floor)),
        failures=seen.failures,
        versions=stand.versions,
        commit=stand.commit,
        date=stand.date,
        kernel_times=seen.kernel_times,
        copy_us=summarize(seen.copy) if seen.copy else None,
    )


def _start(contender: Contender, workload: Workload, timer: Timer) -> _Started | Exception:
    """Compile with cold caches and time the first call against two warm ones; the error of one that fails."""
    work = workload.cloned() if workload.inplace or contender.owns_args else workload
    caches = cold_caches(contender, workload.case.device) if contender.compiles else nullcontext()
    # The error is caught inside the caches' block, which else keeps and reports its folder.
    with caches, inductor_wrappers() as wrappers, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compilers warn about the caches that are off on purpose
        try:
            function = own_entry(work.function) if contender.compiles else work.function
            seconds = []
            begin = time.perf_counter()
            entry = contender.compile(function)
            call = work.step(entry)
            for _ in range(3):
                call()
                timer.wait()
                seconds.append(time.perf_counter() - begin)
                begin = time.perf_counter()
        except Exception as error:
            return error
    compile_s = max(seconds[0] - median(seconds[1:]), 0.0) if contender.compiles else None
    return _Started(contender, entry, call, compile_s, wrappers if contender.inductor else [])


_COPY = "a copy of the least bytes"


def _copy(cost: Cost, device: str) -> Call | None:
    """A plain copy that reads and writes a program's least bytes: what the memory gives at this size; None without
    room for it.
    """
    try:
        source = torch.ones(cost.least_bytes // 2, dtype=torch.uint8, device=device)
        target = torch.ones_like(source)
    except (RuntimeError, MemoryError):
        return None
    return partial(target.copy_, source)


def _time(calls: Mapping[str, Call], timer: Timer, settings: Settings, show: Progress) -> dict[str, list[float]]:
    total = max(len(calls) * settings.rounds, 1)
    done = 0

    def tick(name: str) -> None:
        nonlocal done
        done += 1
        show(0.5 + 0.4 * done / total, f"timing {name}")

    return interleave(timer, calls, settings.rounds, budget_s=settings.budget_s, progress=tick)


def _count_kernels(started: _Started, device: str) -> int | None:
    if torch.device(device).type == "cuda":
        return device_kernels(started.call)
    if started.wrappers:
        return sum(kernels_in_wrapper(source) for source in started.wrappers)
    counter = started.contender.count_cpu_kernels
    return None if counter is None else counter(started.call)


def _time_kernels(
    bench_case: BenchCase, runs: Mapping[str, _Started], timer: Timer
) -> dict[str, tuple[KernelTime, ...]]:
    """Each kernel of Fusewise's contenders on a GPU: the cost model is held against them."""
    found: dict[str, tuple[KernelTime, ...]] = {}
    if torch.device(bench_case.case.device).type != "cuda":
        return found
    for name, started in runs.items():
        if not name.startswith("fusewise"):
            continue
        try:
            found[name] = device_kernel_times(started.call, timer.flush)
        except Exception as error:  # the times of the whole call stand without them
            message = f"no kernel times of {name} for {bench_case.label}: {_reason(error)}"
            warnings.warn(message, KernelTimesWarning, stacklevel=2)
    return found


def _verify(
    program: Program,
    workload: Workload,
    runs: Mapping[str, _Started],
    failures: Mapping[str, str],
    subject: str,
) -> Verification:
    if subject not in runs:
        return Verification(False, False, f"{subject} did not run: {failures.get(subject, 'not asked for')}")
    started = runs[subject]
    try:
        return verify_contender(program, workload, started.contender, started.entry)
    except (torch.OutOfMemoryError, MemoryError):
        return Verification(False, False, "the fp64 reference does not fit in memory")


def _reason(error: Exception) -> str:
    """The first line of an error, with its kind."""
    if isinstance(error, FusewiseError):
        return error.problem
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]
