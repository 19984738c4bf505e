"""Ways to run a kernel that registers hold back: as plain data, and as a rich table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from fusewise.report.format import format_bytes, format_share, format_us
from fusewise.report.tables import table_of


@dataclass(frozen=True, slots=True)
class WayRow:
    """One way to run a kernel that registers hold back.

    Attributes:
        kind: `plain`, `cap`, `shared-spill`, `setmaxnreg` or `split`.
        name: in words: `capped at 96`.
        taken: whether the kernel runs so.
        problem: why there is no such kernel, or why it was not compiled; empty where there are figures.
        time_us: predicted time; of a split of both kernels together.
        regs_per_thread, spill_bytes, occupancy: of a split the most, the sum and the least of its kernels.
        shared_spill_bytes: shared memory of a block that holds spilled registers.
        schedule: as the option `schedules` names it; empty for a split.
    """

    kind: str
    name: str
    taken: bool
    problem: str
    time_us: float | None
    regs_per_thread: int | None
    spill_bytes: int | None
    occupancy: float | None
    shared_spill_bytes: int
    schedule: str


@dataclass(frozen=True, slots=True)
class HeldBackRow:
    """A kernel that registers hold back, and the ways to run it.

    Attributes:
        kernel: its name when it was found; where it was split the plan has no such kernel.
        runs_as: the kernels of the plan that do its work.
        ways: the plain kernel first.
    """

    kernel: str
    runs_as: tuple[str, ...]
    ways: tuple[WayRow, ...]


def ways_tables(rows: Sequence[HeldBackRow]) -> list[Table]:
    """A table for each kernel that is held back."""
    return [_table(row) for row in rows]


def _table(row: HeldBackRow) -> Table:
    right = "right"
    heads = ("registers", "spilled", "occupancy", "predicted")
    title = f"{row.kernel}: registers hold it back; the ways to run it"
    table = table_of("way", *((head, right) for head in heads), "", title=title)
    for way in row.ways:
        verdict = Text("taken", style="bold green") if way.taken else Text(way.problem, style="dim")
        table.add_row(Text(way.name, style="bold" if way.taken else ""), *_figures(way), verdict)
    return table


def _figures(way: WayRow) -> list[str]:
    if way.time_us is None:
        return ["-", "-", "-", "-"]
    regs = "-" if way.regs_per_thread is None else str(way.regs_per_thread)
    spilled = "-" if way.spill_bytes is None else f"{way.spill_bytes} B"
    if way.shared_spill_bytes:
        spilled += f", {format_bytes(way.shared_spill_bytes)} shared"
    return [regs, spilled, format_share(way.occupancy), format_us(way.time_us)]
