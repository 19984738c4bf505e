"""`fusewise bench --grid`: the cases of the rows-by-columns grid, and what the times of one show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fusewise.commands.common import console, errors, print_json, say
from fusewise.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from fusewise.measure.bench import BenchCase
    from fusewise.measure.grid import Grid
    from fusewise.measure.results import BenchRow

WORST_SHOWN = 10
NEXT = "fusewise bench --grid --plot heat.png"


def cases_of_grid(
    names: Sequence[str], device: str, dtype: str | None, direction: str | None, most: int | None
) -> list[BenchCase]:
    """The grid's cases of these programs, of all for no names; what is None is the grid's own.

    Raises:
        UnknownName: a program, dtype or direction that the grid does not have.
        UsageError: no case is left.
    """
    from fusewise.measure.program import DIRECTIONS, load_grid

    asked = {"dtype": dtype, "most_elements": most}
    grid_cases = load_grid()
    programs = {case.program.name for case in grid_cases(device)}
    for name in names:
        if name not in programs:
            raise UnknownName("program of the grid", name, programs)
    if direction is not None and direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    cases = [
        case
        for case in grid_cases(device, **{key: value for key, value in asked.items() if value is not None})
        if (not names or case.program.name in names) and direction in (None, case.case.direction)
    ]
    if not cases:
        raise UsageError("no point of the grid has that direction and as few elements.", NEXT)
    return cases


def show_files(
    files: Sequence[Path], plot: Path, names: Sequence[str], dtype: str | None, direction: str | None, json: bool
) -> None:
    """Draws the rows of results files together, those of these programs, dtype and direction.

    Raises:
        UnknownName: a program, dtype or direction that the files do not have.
        UsageError: no row can be drawn.
    """
    from fusewise.measure.results import load_results

    rows: list[BenchRow] = [row for file in files for row in load_results(file).rows]
    for field, asked in (("name", names), ("dtype", [dtype]), ("direction", [direction])):
        wanted = [value for value in asked if value is not None]
        known = {getattr(row, field) for row in rows}
        for value in wanted:
            if value not in known:
                raise UnknownName(f"{field} in these results", value, known)
        rows = [row for row in rows if not wanted or getattr(row, field) in wanted]
    grid = show_grid(rows, plot, quiet=json)
    if not grid.panels:
        raise UsageError("no row of these results is a point of a grid: there is nothing to draw.", NEXT)
    if json:
        print_json(asdict(grid))


def show_grid(rows: Sequence[BenchRow], plot: Path | None, quiet: bool = False) -> Grid:
    """Draws the rows, if there is a point among them, and prints how many are slower than the best of the others."""
    from fusewise.measure.grid import grid_of

    grid = grid_of(rows)
    if not quiet:
        _print_worst(grid)
    for label in grid.left_out:
        errors.print(f"left out: {label}: no rows and columns, or not timed for both", markup=False, style="yellow")
    if plot is not None and grid.panels:
        from fusewise.report.heatmap import draw

        draw(grid, plot)
        if not quiet:
            say(f"drawn to {plot}")
    return grid


def _print_worst(grid: Grid) -> None:
    """The worst last, and then all points in one line."""
    from fusewise.report.format import format_count, format_us
    from fusewise.report.heatmap import format_names, format_ratio
    from fusewise.report.terminal import table_of

    points = grid.points
    if not points:
        say("0 points with times of fusewise and of another contender")
        return
    slower = [(panel, point) for panel, point in points if point.slower]
    if slower:
        right = "right"
        columns = (("rows", right), ("columns", right), ("fusewise", right), ("best other", right), ("speed-up", right))
        table = table_of("program", *columns)
        for panel, p in reversed(slower[:WORST_SHOWN]):
            times = format_us(p.ours_us), f"{p.other} {format_us(p.other_us)}"
            label = f"{panel.name} {panel.direction} {panel.dtype}"
            table.add_row(label, f"{p.rows:,}", f"{p.cols:,}", *times, format_ratio(p.speedup))
        console.print(table)
    panel, worst = points[0]
    say(
        f"{format_count(len(points), 'point')}, {len(slower)} slower than the best of {format_names(grid.others)}"
        f" by more than 5%; the worst: {panel.name} {panel.direction} {worst.rows}x{worst.cols} {panel.dtype},"
        f" {format_ratio(worst.speedup)} of {worst.other}"
    )
