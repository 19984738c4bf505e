"""How Fusewise compares over rows by columns: the numbers of a heat map. This module needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusewise.measure.results import OURS, BenchRow

SLOWER = 0.95  # a speed-up below it counts as slower: by more than 5%


@dataclass(frozen=True, slots=True)
class Point:
    """One shape, timed for Fusewise and for others.

    Attributes:
        other: the fastest of the other contenders; Fusewise's other plans are none.
        ours_us, other_us: median times.
    """

    rows: int
    cols: int
    other: str
    ours_us: float
    other_us: float

    @property
    def speedup(self) -> float:
        """Time of the fastest other contender / Fusewise's."""
        return self.other_us / self.ours_us

    @property
    def slower(self) -> bool:
        """True where Fusewise loses more than 5%."""
        return self.speedup < SLOWER


@dataclass(frozen=True, slots=True)
class Panel:
    """The points of one program, direction, dtype and device."""

    name: str
    direction: str
    dtype: str
    device: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """All points of some results.

    Attributes:
        others: whom Fusewise was compared with, in the rows' order.
        left_out: labels of rows that are not rows by columns, or lack a time of Fusewise or of all others.
    """

    panels: tuple[Panel, ...]
    others: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def points(self) -> list[tuple[Panel, Point]]:
        """Every point with its panel, the least speed-up first."""
        return sorted(((panel, p) for panel in self.panels for p in panel.points), key=lambda pair: pair[1].speedup)


def grid_of(rows: Sequence[BenchRow]) -> Grid:
    """The points that rows of the bench give; of rows of the same point the last counts."""
    panels: dict[tuple[str, str, str, str], dict[tuple[int, int], Point]] = {}
    others: dict[str, None] = {}
    left_out = []
    for row in rows:
        times = {name: time.median for name, time in row.times_us.items() if not name.startswith(OURS)}
        if row.shape.keys() != {"rows", "cols"} or OURS not in row.times_us or not times:
            left_out.append(f"{row.name} {row.direction} {row.size} {row.dtype}")
            continue
        others |= dict.fromkeys(times)
        best = min(times, key=times.__getitem__)
        point = Point(row.shape["rows"], row.shape["cols"], best, row.times_us[OURS].median, times[best])
        panel = panels.setdefault((row.name, row.direction, row.dtype, row.device), {})
        panel[point.rows, point.cols] = point
    return Grid(
        tuple(Panel(*key, tuple(points[shape] for shape in sorted(points))) for key, points in panels.items()),
        tuple(others),
        tuple(left_out),
    )
