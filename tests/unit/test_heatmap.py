"""The numbers of a grid's heat map, and that it is drawn."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from fusewise.measure.grid import Grid, Point, grid_of
from fusewise.measure.results import BenchRow
from fusewise.measure.stats import Summary
from fusewise.report.heatmap import draw, format_extent, format_names, format_ratio
from tests.unit.test_measure_results import ROW


def row(rows: int, cols: int, direction: str = "forward", **times_us: float) -> BenchRow:
    times = {name.replace("_", "-"): Summary(time, time, time, 30) for name, time in times_us.items()}
    return replace(ROW, shape={"rows": rows, "cols": cols}, direction=direction, times_us=times)  # type: ignore[arg-type]


ROWS = (
    row(16, 64, eager=8.0, inductor=6.0, fusewise=3.0),
    row(1, 4096, eager=4.5, inductor=5.0, fusewise=5.0),
    row(1, 64, "train", eager=9.5, fusewise_whole=1.0, fusewise=10.0),
)


def test_each_point_is_held_against_the_best_of_the_others() -> None:
    grid = grid_of(ROWS)
    assert [(p.name, p.direction, p.dtype, p.device) for p in grid.panels] == [
        ("layer_norm", "forward", "bf16", "a device"),
        ("layer_norm", "train", "bf16", "a device"),
    ]
    assert grid.panels[0].points == (Point(1, 4096, "eager", 5.0, 4.5), Point(16, 64, "inductor", 3.0, 6.0))
    assert [p.speedup for p in grid.panels[0].points] == [0.9, 2.0]
    assert [p.slower for p in grid.panels[0].points] == [True, False]
    assert [(panel.direction, p.speedup, p.slower) for panel, p in grid.points] == [
        ("forward", 0.9, True),
        ("train", 0.95, False),  # our own other plans are no contenders
        ("forward", 2.0, False),
    ]
    assert grid.others == ("eager", "inductor") and grid.left_out == ()


def test_of_a_point_that_was_timed_twice_the_last_counts() -> None:
    again = row(16, 64, eager=3.0, fusewise=4.0)
    assert grid_of((*ROWS, again)).panels[0].points[1] == Point(16, 64, "eager", 4.0, 3.0)
    elsewhere = replace(again, device="another device")
    assert [len(panel.points) for panel in grid_of((*ROWS, elsewhere)).panels] == [2, 1, 1]


def test_what_is_no_point_is_named() -> None:
    rows = (row(1, 16, eager=1.0), row(1, 16, fusewise=1.0), replace(ROW, name="chain", size="full", shape={"n": 8}))
    assert grid_of(rows) == Grid(
        (), (), ("layer_norm forward small bf16", "layer_norm forward small bf16", "chain train full bf16")
    )


@pytest.mark.parametrize(
    ("rows", "panels"),
    [(ROWS, 2), (ROWS[:1], 1), ((*ROWS, replace(ROWS[0], dtype="fp32", device="another device")), 3)],
)
def test_a_grid_is_drawn(tmp_path: Path, rows: tuple[BenchRow, ...], panels: int) -> None:
    pytest.importorskip("matplotlib")
    grid, path = grid_of(rows), tmp_path / "heat.png"
    assert len(grid.panels) == panels
    draw(grid, path)
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG") and struct.unpack(">I", head[16:20]) == (1400,)
    draw(grid, tmp_path / "heat.svg")
    assert "<svg" in (tmp_path / "heat.svg").read_text(encoding="utf-8")


def test_what_a_cell_says() -> None:
    ratios = [0.5, 0.949, 0.994, 0.996, 1.84, 9.94, 9.96, 123.4]
    assert [format_ratio(r) for r in ratios] == ["0.50x", "0.95x", "0.99x", "1.0x", "1.8x", "9.9x", "10x", "123x"]
    extents = [1, 16, 1000, 1024, 65536, 2**18, 2**22]
    assert [format_extent(e) for e in extents] == ["1", "16", "1000", "1k", "64k", "256k", "4M"]
    assert format_names(["eager"]) == "eager"
    assert format_names(["eager", "inductor", "liger"]) == "eager, inductor and liger"
