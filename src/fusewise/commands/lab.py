"""`fusewise lab`: where fusion stops paying, measured on this machine or compiled for another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fusewise.commands.common import FINDING, JsonOption, check_output, console, errors, print_json, progress_bar, say
from fusewise.errors import EnvironmentFailure, UnknownName, UsageError

if TYPE_CHECKING:
    from fusewise.device import GpuModel
    from fusewise.lab.backend import Backend
    from fusewise.lab.offline import CompiledModes
    from fusewise.lab.run import Result
    from fusewise.lab.spec import Settings


def lab(
    verb: Annotated[str, typer.Argument(help="naive, fused, fat, sweep, modes or phases.", show_default=False)],
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, or a GPU's name; none: the GPU where there is one, else the CPU.")
    ] = None,
    n: Annotated[int | None, typer.Option(help="Elements; none: 2^24, and three sizes for sweep and phases.")] = None,
    k: Annotated[
        str | None, typer.Option(help="Stages, several with commas; none: 2,3,4,6,8 for sweep, else 4.")
    ] = None,
    block: Annotated[int | None, typer.Option(help="Threads a block; none: 256. GPU only.")] = None,
    grid: Annotated[int | None, typer.Option(help="Blocks; none: one memory access a thread. GPU only.")] = None,
    runs: Annotated[int, typer.Option(help="Timed runs of each row, at least 30.")] = 50,
    warmup: Annotated[int, typer.Option(help="Untimed runs of each row before them.")] = 10,
    fat_temps: Annotated[
        str | None, typer.Option(help="Values kept alive, several with commas; none: 8 to 240 for fat, else 48.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Results file; beside it a .json with all that was recorded.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Figure: .png, .svg or .pdf.")] = None,
    published: Annotated[bool, typer.Option("--published", help="The original's own protocol.")] = False,
    json: JsonOption = False,
) -> None:
    """A chain of k pointwise stages, unfused and fused, and what live values cost: where fusion stops paying.

    \b
    fusewise lab sweep --csv sweep.csv --plot sweep.png
    fusewise lab fat --fat-temps 8,48,128,240
    fusewise lab modes --device rtx5090        a GPU that is not here: compiled, not timed

    \b
    naive    one kernel a stage; the same with the published copies, and replayed without launches
    fused    one kernel, by elements a memory access
    fat      fused with values that stay alive; the same arithmetic without them; residency alone
    sweep    naive against fused over k, at a launch-bound, a cache-resident and a memory-bound size
    modes    naive, fused and fat at one size, with registers and occupancy
    phases   two kernels against one with a barrier across the grid

    Every row is compared with the exact result, bit for bit, before and after it is timed; a row that differs ends in
    exit code 1. Rows of a group take turns. Ends with what the figures say, and the next step.
    """
    from fusewise.lab.spec import VERBS, Settings

    chosen = next((known for known in VERBS if known == verb), None)
    if chosen is None:
        raise UnknownName("experiment of the lab", verb, VERBS)
    settings = Settings(
        n=n,
        k=_numbers("k", k),
        block=block,
        grid=grid,
        runs=runs,
        warmup=warmup,
        fat_temps=_numbers("fat-temps", fat_temps),
        published=published,
    )
    _check_files(csv, plot)
    backend, model = _machine(device, chosen == "modes", settings)
    if backend is None:
        assert model is not None
        _compile_only(model, settings, csv, plot, json)
        return
    from fusewise.lab.results import to_document, write_csv
    from fusewise.lab.run import run
    from fusewise.lab.verdict import verdict_of
    from fusewise.measure.guard import refuse_under_profiler

    refuse_under_profiler()
    with progress_bar(silent=json) as show:
        found = run(chosen, settings, backend, show)
    words = verdict_of(found)
    if csv is not None:
        write_csv(csv, found)
    if plot is not None:
        from fusewise.lab.plot import draw

        draw(found, plot, model)
    if json:
        print_json({**to_document(found), "verdict": words})
    else:
        _print(found, words)
        for file in (csv, plot):
            if file is not None:
                say(f"written to {file}", style="dim")
    if found.wrong:
        errors.print(f"finding: {len(found.wrong)} rows do not give the exact result", markup=False, style="red")
        raise typer.Exit(FINDING)


def _numbers(name: str, text: str | None) -> tuple[int, ...] | None:
    """Whole numbers with commas between them."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        found = tuple(int(part) for part in parts)
    except ValueError:
        raise UsageError(f"{name} is {text!r}, but must be whole numbers with commas, such as 2,4,8.") from None
    if not found:
        raise UsageError(f"{name} is empty: give at least one whole number.")
    return tuple(dict.fromkeys(found))


def _check_files(csv: Path | None, plot: Path | None) -> None:
    """Raises before the minutes that a run takes."""
    if csv is not None and csv.suffix == ".json":
        raise UsageError(f"{csv.name} cannot be written: its JSON lies beside it: name it .csv.")
    check_output(csv)
    check_output(plot)
    if plot is not None:
        from fusewise.lab.plot import check_plot

        check_plot(plot)


def _machine(device: str | None, may_compile_only: bool, settings: Settings) -> tuple[Backend | None, GpuModel | None]:
    """What runs the rows and the model of its GPU; no backend: the GPU of the model is not here."""
    from fusewise.lab.driver import need_driver, open_driver

    device = device and device.lower()
    if device == "cpu":
        return _cpu(), None
    if device is None or device == "cuda":
        driver = need_driver() if device == "cuda" else open_driver()
        if driver is None:
            return _cpu(), None
    else:
        from fusewise.device.model import load_gpu

        wanted = load_gpu(device)
        driver = open_driver()
        if driver is None or _model_name(driver.name) != wanted.name:
            if may_compile_only and not settings.published:
                return None, wanted
            here = "has no GPU that CUDA can reach" if driver is None else f"has a {driver.name}"
            raise EnvironmentFailure(
                f"the lab times kernels where they run, and this machine {here}.",
                f"Compile for it and read registers and occupancy: fusewise lab modes --device {wanted.name}",
            )
    from fusewise.lab.gpu import GpuBackend, model_of

    model = model_of(driver.name)
    return GpuBackend(driver, model, settings.block), model


def _cpu() -> Backend:
    from fusewise.lab.cpu import CpuBackend

    return CpuBackend()


def _model_name(device_name: str) -> str | None:
    from fusewise.lab.gpu import model_of

    try:
        return model_of(device_name).name
    except UnknownName:
        return None


def _compile_only(model: GpuModel, settings: Settings, csv: Path | None, plot: Path | None, json: bool) -> None:
    from fusewise.lab.offline import compile_modes, verdict_of

    if csv is not None:
        raise UsageError(f"--csv holds times, and this machine has no {model.title} to take them.", "Take --json.")
    found = compile_modes(model, settings)
    words = verdict_of(found)
    if plot is not None:
        from fusewise.lab.plot import draw_compiled

        draw_compiled(found, plot)
    if json:
        print_json({**found.as_dict(), "verdict": words})
    else:
        _print_compiled(found, words)


def _print(found: Result, words: tuple[str, ...]) -> None:
    from rich.text import Text

    from fusewise.lab.run import groups_of
    from fusewise.report.format import format_us
    from fusewise.report.terminal import table_of

    right = "right"
    on_gpu = any(row.occ_blocks_per_sm is not None for row in found.rows)
    resources = [("registers", right), ("spilled B", right), ("blocks an SM", right)] if on_gpu else []
    columns = [("median", right), ("p10 to p90", right), ("GB/s", right), *resources]
    for group in groups_of(found.rows):
        size = f"{group[0].regime}-bound" if group[0].regime == "launch" else group[0].regime
        title = f"k = {group[0].k}, n = {group[0].n:,}{f' ({size})' if size else ''}"
        table = table_of("row", *columns, "exact", title=title)
        for row in group:
            cells = [format_us(1e3 * row.median_ms), f"{format_us(1e3 * row.p10_ms)} to {format_us(1e3 * row.p90_ms)}"]
            cells.append(f"{row.gbps:,.0f}")
            if on_gpu:
                cells += [str(row.regs_per_thread), str(row.spill_bytes), str(row.occ_blocks_per_sm)]
            exact = Text("yes", style="green") if row.verified else Text("NO", style="bold red")
            table.add_row(row.tag, *cells, exact)
        console.print(table)
    for key, value in found.machine.items():
        say(f"{key}: {value}", style="dim")
    say("")
    for sentence in words:
        say(sentence, style="bold" if sentence.startswith("Next: ") else "")


def _print_compiled(found: CompiledModes, words: tuple[str, ...]) -> None:
    from fusewise.report.terminal import table_of

    right = "right"
    numbers = [("registers", right), ("spilled B", right), ("shared B", right), ("blocks an SM", right)]
    table = table_of("kernel", *numbers, ("occupancy", right), "limit", ("steps at", right))
    table.title = f"{found.title}, {found.block} threads a block: compiled by {found.compiler}, not timed"
    for row in found.rows:
        near = "/".join("-" if step is None else str(step) for step in (row.next_regs_down, row.next_regs_up))
        table.add_row(
            f"{row.tag}, k = {row.k}",
            str(row.regs_per_thread),
            str(row.spill_store_bytes + row.spill_load_bytes),
            str(row.shared_bytes),
            str(row.blocks_per_sm),
            f"{100 * row.occupancy:.0f}%",
            row.limiter,
            near,
        )
    console.print(table)
    for sentence in words:
        say(sentence, style="bold" if sentence.startswith("Next: ") else "")
