"""`fusewise bench`: programs of the catalogue, timed for every contender in one run."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from fusewise.commands.common import (
    FINDING,
    INTERRUPTED,
    JsonOption,
    check_output,
    console,
    errors,
    print_json,
    progress_bar,
    say,
)
from fusewise.commands.verify import check_device
from fusewise.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from fusewise.measure.contenders import Contender
    from fusewise.measure.prediction import Predictions
    from fusewise.measure.program import Program
    from fusewise.measure.results import BenchResult

SIZES = ("tiny", "small", "full")
PROGRAM_FILE = "<fusewise program>"  # as `fusewise.runtime.program` names its code
RESULTS_FOLDER = Path("benchmarks", "results")
TABLE_CONTENDERS = ("eager", "inductor", "inductor-max", "inductor-all", "liger", "fusewise")


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Programs; none: all.", show_default=False)] = None,
    size: Annotated[str, typer.Option(help="tiny, small or full; several with commas.")] = "small",
    baseline: Annotated[
        str,
        typer.Option(
            help="eager, inductor, inductor-max, inductor-all; of Fusewise's other plans fusewise-whole (no kernel"
            " split, launches shared), fusewise-split (the opposite), fusewise-unfused; several with commas."
        ),
    ] = "eager,inductor",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dtype: Annotated[str | None, typer.Option(help="fp32, bf16, fp16; none: each program's own.")] = None,
    direction: Annotated[str | None, typer.Option(help="forward or train; none: both.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Samples of each contender.")] = 30,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Seconds for the timing of one case; none: all rounds.")
    ] = None,
    overheads: Annotated[bool, typer.Option(help="Also time calls on tiny tensors.")] = False,
    out: Annotated[Path | None, typer.Option(help="Results file; default: in benchmarks/results/.")] = None,
    table: Annotated[Path | None, typer.Option(help="Page whose marked table is written anew.")] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Results file of --table, --predict or --plot, once for each: nothing is timed."),
    ] = None,
    predict: Annotated[
        bool, typer.Option("--predict", help="Hold the cost model against the results file of --from.")
    ] = False,
    grid: Annotated[
        bool, typer.Option("--grid", help="Rows by columns of softmax and layer_norm instead of the sizes.")
    ] = False,
    most: Annotated[int | None, typer.Option(min=1, help="Most elements of a point of --grid; none: 2^28.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Heat map of --grid, or of the files of --from: .png, .svg or .pdf.")
    ] = None,
    list_names: Annotated[bool, typer.Option("--list", help="Only list the programs.")] = False,
    json: JsonOption = False,
) -> None:
    """Time programs of benchmarks/ for eager, torch.compile and Fusewise in one run, interleaved.

    \b
    fusewise bench chain softmax --size small --baseline eager,inductor,inductor-max
    fusewise bench --device cuda --size full
    fusewise bench --device cuda --size full --baseline fusewise-whole,fusewise-split
    fusewise bench --table README.md --from benchmarks/results/cpu-small.json
    fusewise bench --predict --device h200 --from benchmarks/results/h200-full.json
    fusewise bench --predict --device cpu --from benchmarks/results/cpu-small.json
    fusewise bench --grid softmax --most 1048576 --plot heat.png
    fusewise bench --plot heat.png --from grid-1.json --from grid-2.json

    Prints the median of each contender and its share of the floor, and writes medians with p10 and p90, bytes, kernels
    and compile times to a results file (docs/bench-schema.md). A time that the hardware does not allow, or outputs that
    differ from eager's, end in exit code 1. Under a profiler nothing is written.

    On a GPU each kernel of Fusewise's contenders is timed as well: --predict then holds the model against every one of
    them, and, where the file has fusewise-whole and fusewise-split, says whether the planner chose the fastest.

    Ctrl-C ends the run after what was measured so far, which is printed and written.
    """
    if results and (table is not None) + predict + (plot is not None) != 1:
        goes = "--from goes with --table or --predict or --plot, one of them."
        raise UsageError(goes, "fusewise bench --table README.md --from FILE.json")
    if predict and not results:
        raise UsageError("--predict needs a results file.", "fusewise bench --predict --device h200 --from FILE.json")
    if table is not None and not table.is_file():
        raise UsageError(f"no page {table}.")
    if grid and (results or list_names or size != "small"):
        raise UsageError("--grid times sizes of its own: leave out --size, --from and --list.", "See --most.")
    if most is not None and not grid:
        raise UsageError("--most goes with --grid.", f"fusewise bench --grid --most {most}")
    if plot is not None:
        if not grid and not results:
            raise UsageError("--plot goes with --grid or --from.", "fusewise bench --grid --plot heat.png")
        _check_plot(plot)
    if results and plot is not None:
        if out is not None:
            raise UsageError("--out goes with a run or --predict: --plot --from only draws.")
        from fusewise.commands.grid import show_files

        show_files(results, plot, names or (), dtype, direction, json)
        return
    from fusewise.measure.program import load_catalogue, select

    if predict and results:
        check_output(out)
        _predict(results, device, tuple(names or ()), out, json)
        return
    if results and table is not None:
        from fusewise.measure.results import load_results

        _write_table(table, [load_results(file) for file in results])
        return
    catalogue = load_catalogue()
    if list_names:
        _list(catalogue, json)
        return
    programs = select(catalogue, tuple(names or ()))
    check_device(device)
    sizes = ["grid"] if grid else _split("size", size, SIZES)
    file = out or _default_file(device, sizes, tuple(names or ()))
    check_output(file)

    from fusewise.measure import bench as engine
    from fusewise.measure.contenders import contenders_named
    from fusewise.measure.guard import refuse_under_profiler
    from fusewise.measure.results import to_json, write_results

    refuse_under_profiler()  # before the minutes that a run takes
    if grid:
        from fusewise.commands.grid import cases_of_grid, show_grid

        cases = cases_of_grid(names or (), device, dtype, direction, most)
    else:
        dtypes, directions = [dtype] if dtype else None, [direction] if direction else None
        cases = engine.bench_cases(programs, sizes, device, dtypes, directions)
    if not cases:
        raise UsageError("no program has that size, dtype and direction.", "fusewise bench --list")
    contenders = [_ours(c) for c in contenders_named([*baseline.split(","), "fusewise"], count_kernels)]
    settings = engine.Settings(rounds=rounds, budget_s=budget, overheads=overheads)
    from fusewise import trace
    from fusewise.config import make_options
    from fusewise.explanation import stages_of
    from fusewise.stages import keep

    trace.clear()
    with progress_bar(silent=json) as show:
        found = engine.run_cases(cases, contenders, device, settings, show)
    keep(f"fusewise bench {' '.join(names or ())}".strip(), stages_of(trace.compiled(), make_options()))
    if file is not None:
        write_results(file, found)
    if json:
        import json as codec

        print_json(codec.loads(to_json(found)))
    else:
        print_result(found)
        if file is not None:
            say(f"written to {file}")
    if grid:
        show_grid(found.rows, plot, quiet=json)
    if table is not None:
        _write_table(table, [found])
    if len(found.rows) < len(cases):
        errors.print(f"interrupted: {len(found.rows)} of {len(cases)} cases were measured.", style="red")
        raise typer.Exit(INTERRUPTED)
    for finding in found.findings:
        errors.print(f"finding: {finding}", markup=False, style="red")
    if found.findings:
        raise typer.Exit(FINDING)


def count_kernels(call: Callable[[], object]) -> int:
    """Kernels and PyTorch ops that the generated programs of Fusewise run in one call: a `KernelCounter`."""
    steps = re.compile(r"launch_\w+|op\d+")
    total = 0

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal total
        if event == "call" and frame.f_code.co_filename == PROGRAM_FILE:
            total += sum(steps.fullmatch(name) is not None for name in frame.f_globals)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return total


def _split(kind: str, text: str, known: tuple[str, ...]) -> list[str]:
    parts = [p.strip() for p in text.split(",") if p.strip()]
    for part in parts:
        if part not in known:
            raise UnknownName(kind, part, known)
    return parts


def _check_plot(plot: Path) -> None:
    """Raises where no figure can be written: before the minutes that a run takes."""
    from fusewise.lab.plot import check_plot

    check_output(plot)
    check_plot(plot)


def _default_file(device: str, sizes: list[str], names: tuple[str, ...]) -> Path | None:
    """`benchmarks/results/cpu-small.json`; None outside a checkout."""
    if not RESULTS_FOLDER.parent.is_dir():
        return None
    RESULTS_FOLDER.mkdir(exist_ok=True)
    where = device
    if device.startswith("cuda"):
        import torch

        where = torch.cuda.get_device_name(device) if torch.cuda.is_available() else device
    slug = re.sub(r"[^a-z0-9]+", "-", where.lower()).strip("-")
    return RESULTS_FOLDER / f"{'-'.join([slug, *sizes, *names])}.json"


def _ours(contender: Contender) -> Contender:
    """Fusewise through its own backend object: it need not be installed to be found."""
    if contender.name != "fusewise":
        return contender
    import fusewise

    return replace(contender, compile=fusewise.compile)


def _list(catalogue: Mapping[str, Program], json: bool) -> None:
    from fusewise.report.terminal import table_of

    if json:
        print_json(
            [
                {"name": p.name, "sizes": p.sizes, "dtypes": p.dtypes, "directions": p.directions, "note": p.note}
                for p in catalogue.values()
            ]
        )
        return
    table = table_of("program", "directions", "types", "what it is")
    for program in catalogue.values():
        table.add_row(program.name, ", ".join(program.directions), ", ".join(program.dtypes), program.note)
    console.print(table)


def print_result(found: BenchResult) -> None:
    """One row a case: floor, and each contender's median and share of floor."""
    from rich.text import Text

    from fusewise.report.format import format_us
    from fusewise.report.terminal import table_of

    names = list(dict.fromkeys(name for row in found.rows for name in row.times_us))
    right = "right"
    table = table_of("program", ("floor", right), *((n, right) for n in names), "verified")
    for row in found.rows:
        shape = " ".join(f"{key} {value}" for key, value in row.shape.items())
        floor = format_us(row.floor_us) + (f"\ncopy {format_us(row.copy_us.median)}" if row.copy_us else "")
        cells = [f"{row.name} {row.direction}\n{row.dtype} {shape}", floor]
        for name in names:
            if name in row.times_us:
                cells.append(f"{format_us(row.times_us[name].median)}\n{100 * row.share_of_floor[name]:.0f}% of floor")
            else:
                cells.append("failed" if name in row.failures else "-")
        verdict = Text("yes", style="green") if row.verified else Text("NO", style="red")
        table.add_row(*cells, verdict if row.verified or row.mismatched else Text("-"))
        for name, why in row.failures.items():
            errors.print(f"{row.name} {row.direction}: {name} failed: {why}", markup=False, style="yellow")
    console.print(table)


def _predict(files: Sequence[Path], device: str, names: tuple[str, ...], out: Path | None, json: bool) -> None:
    """Prints predicted beside measured for each row of results files, the worst misses last."""
    import json as codec

    from fusewise.measure.prediction import predict_results
    from fusewise.measure.program import load_catalogue, select
    from fusewise.measure.results import load_results
    from fusewise.report.format import format_us
    from fusewise.report.terminal import table_of

    catalogue = load_catalogue()
    select(catalogue, names)
    with progress_bar(silent=json) as show:
        found = predict_results([load_results(file) for file in files], catalogue, device, names, show)
    if out is not None:
        out.write_text(codec.dumps(found.to_json(), indent=1) + "\n", encoding="utf-8")
    if json:
        print_json(found.to_json())
        return
    right = "right"
    table = table_of("program", ("predicted", right), ("measured", right), ("error", right), "slowest kernel, bound by")
    whole = [(row, row.error) for row in found.rows if row.error is not None]
    for row, error in sorted(whole, key=lambda pair: abs(pair[1])):
        slowest = max(row.kernels, key=lambda k: k.predicted_us)
        cells = format_us(row.predicted_us), format_us(row.measured_us), f"{error:+.0%}"
        why = f"{slowest.name}, {slowest.bound_by or 'its floor'}"
        table.add_row(f"{row.name} {row.direction} {row.size} {row.dtype}", *cells, why)
    console.print(table)
    for label, reason in found.left_out:
        say(f"left out: {label}: {reason}")
    for row in found.rows:
        if row.walls:
            say(f"kernels only: {row.label}: {', '.join(row.walls)} as PyTorch's own, which is not modelled")
    if found.median_error is not None and found.p90_error is not None:
        say(f"median error {found.median_error:.1%}, 90th percentile {found.p90_error:.1%}, {len(whole)} programs")
    _print_kernels(found)
    _print_choices(found)
    if found.registers_within is not None:
        say(f"registers within 15% or 8 of the compiled kernel: {found.registers_within:.0%}")
    if found.note:
        say(found.note)


def _print_kernels(found: Predictions) -> None:
    """Kernels one by one: the errors' sizes, and the worst misses, the worst last."""
    from fusewise.measure.prediction import SHORT_US
    from fusewise.measure.stats import median, percentile
    from fusewise.report.format import format_us
    from fusewise.report.terminal import table_of

    errors = found.kernel_errors
    if not errors:
        return
    right = "right"
    table = table_of("kernel", ("predicted", right), ("measured", right), ("error", right), "bound by", "program")
    for row, launch in reversed(found.worst_launches):
        cells = format_us(launch.predicted_us), format_us(launch.measured_us), f"{launch.error:+.0%}"
        table.add_row(launch.kernel, *cells, launch.bound_by, f"{row.label} {row.contender}")
    console.print(table)
    short = len(found.launches) - len(errors)
    say(
        f"kernels one by one: median error {median(errors):.1%}, 90th percentile {percentile(errors, 0.9):.1%},"
        f" {len(errors)} kernels ({short} of less than {SHORT_US:g} us not counted);"
        f" of all, with their launches: {median(found.launched_errors):.1%},"
        f" {percentile(found.launched_errors, 0.9):.1%}"
    )


def _print_choices(found: Predictions) -> None:
    """The planner's choice beside what it chose from, the worst loss last."""
    from fusewise.measure.choices import SPLIT, SUBJECT, UNFUSED, WHOLE, summary_of
    from fusewise.report.format import format_us
    from fusewise.report.terminal import table_of

    total = summary_of(found.choices)
    if total is None:
        return
    names = (SUBJECT, WHOLE, SPLIT, UNFUSED)
    right = "right"
    table = table_of("program", *((n, right) for n in names), ("loss", right), "choice", "faster: measured, predicted")
    for c in sorted(found.choices, key=lambda choice: choice.loss):
        times = [format_us(c.times_us[n]) if n in c.times_us else "-" for n in names]
        verdict = "right" if c.right else f"wrong, {c.fastest} is faster"
        order = f"{c.measured_order}, {c.predicted_order or 'not predicted'}"
        table.add_row(c.label, *times, f"{c.loss:.1%}", verdict, order)
    console.print(table)
    say(
        f"the planner's choice was the fastest in {total['right']} of {total['count']} programs"
        f" ({total['share_right']:.0%}), within {total['noise']:.0%} or the spread of the times;"
        f" worst loss {total['worst_loss']:.1%}, {total['worst']}"
    )
    say(f"whole or split: the faster one predicted in {total['orders_right']} of {total['orders']} programs")


def _write_table(page: Path, results: Sequence[BenchResult]) -> None:
    """Writes the page's marked table anew; raises `ResultsInvalid` where the page has no place for it."""
    from fusewise.measure.results import caption, markdown_table, replace_table

    rows = [row for found in results for row in found.rows]
    present = {name for row in rows for name in row.times_us}
    contenders = [name for name in TABLE_CONTENDERS if name in present]
    captions = "\n\n".join(dict.fromkeys(map(caption, results)))
    text = f"{markdown_table(rows, contenders)}\n\n{captions}"
    page.write_text(replace_table(page.read_text(encoding="utf-8"), text), encoding="utf-8")
    say(f"table written to {page}")
