"""`fusewise bench --grid`: a few of its points on a CPU, the heat map, and what does not belong together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fusewise.cli import app
from fusewise.errors import UnknownName, UsageError
from fusewise.measure import bench
from fusewise.measure.program import load_grid
from fusewise.measure.results import load_results, write_results
from fusewise.measure.stats import Summary
from tests.unit.test_measure_results import RESULT, ROW

ROOT = Path(__file__).parents[2]
SMALL = ("--grid", "--most", "64", "--dtype", "fp32", "--baseline", "eager", "--rounds", "3", "--budget", "0.1")


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["bench", *(str(a) for a in arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_few_points_are_timed(tmp_path: Path) -> None:
    file = tmp_path / "grid.json"
    code, out, err = run("softmax", *SMALL, "--out", file)
    found = load_results(file)
    assert code == (1 if found.findings else 0), err
    assert [row.shape for row in found.rows] == [{"rows": 1, "cols": 16}, {"rows": 1, "cols": 64}]
    assert [(row.size, row.dtype, row.verified) for row in found.rows] == [
        ("1x16", "fp32", True),
        ("1x64", "fp32", True),
    ]
    assert "2 points, " in out and "slower than the best of eager by more than 5%; the worst: softmax forward 1x" in out


def test_the_grid_is_found_by_folder() -> None:
    assert load_grid(ROOT / "benchmarks")("cpu", "fp32", 16)[0].label == "softmax forward 1x16 fp32"


def test_files_are_joined_and_drawn_and_the_slow_points_named(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot, first, second = tmp_path / "heat.png", tmp_path / "1.json", tmp_path / "2.json"
    times = {"eager": Summary(10.0, 9.0, 11.0, 7), "fusewise": Summary(16.0, 15.0, 17.0, 7)}
    slow = replace(ROW, shape={"rows": 1, "cols": 16}, times_us=times)
    write_results(first, replace(RESULT, rows=(replace(ROW, name="softmax", direction="forward"),)))
    write_results(second, replace(RESULT, rows=(slow,)))
    code, out, _ = run("--plot", plot, "--from", first, "--from", second)
    assert code == 0 and plot.read_bytes().startswith(b"\x89PNG")
    assert (
        "2 points, 1 slower than the best of eager by more than 5%; the worst: layer_norm train 1x16 bf16, 0.62x" in out
    )
    assert "eager 10.0 us" in out and f"drawn to {plot}" in out
    document = json.loads(run("layer_norm", "--plot", plot, "--from", first, "--from", second, "--json")[1])
    (panel,) = document["panels"]
    assert panel["points"] == [{"rows": 1, "cols": 16, "other": "eager", "ours_us": 16.0, "other_us": 10.0}]
    with pytest.raises(UnknownName, match="Did you mean softmax"):
        run("softmix", "--plot", plot, "--from", first)
    lone = replace(slow, times_us={"eager": times["eager"]})
    write_results(second, replace(RESULT, rows=(lone,)))
    with pytest.raises(UsageError, match="nothing to draw"):
        run("--plot", plot, "--from", second)


def test_an_interrupted_grid_is_written_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    measure, seen = bench._measure, list[Any]()

    def interrupted(*args: Any) -> Any:
        seen.append(args)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return measure(*args)

    monkeypatch.setattr(bench, "_measure", interrupted)
    plot, file = tmp_path / "heat.png", tmp_path / "grid.json"
    code, out, err = run("layer_norm", *SMALL, "--direction", "train", "--plot", plot, "--out", file)
    assert code == 130 and "interrupted: 1 of 2 cases" in err and "1 point, " in out
    assert [row.direction for row in load_results(file).rows] == ["train"] and plot.is_file()


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    plot = tmp_path / "heat.png"
    for arguments, said in (
        (["--plot", plot], "--plot goes with --grid or --from"),
        (["--list", "--plot", plot], "--plot goes with --grid or --from"),
        (["--grid", "--size", "full"], "--grid times sizes of its own"),
        (["--grid", "--list"], "--grid times sizes of its own"),
        (["--grid", "--plot", plot, "--from", "x.json"], "--grid times sizes of its own"),
        (["--most", 64], "--most goes with --grid"),
        (["--predict", "--plot", plot, "--from", "x.json"], "--predict or --plot, one of them"),
        (["--plot", plot, "--from", "x.json", "--out", "y.json"], "only draws"),
        (["--grid", "--direction", "back"], "unknown direction 'back'"),
        (["--grid", "--dtype", "fp61"], "unknown dtype of softmax 'fp61'"),
        (["chain", "--grid"], "unknown program of the grid 'chain'"),
        (["softmax", "--grid", "--direction", "train"], "no point of the grid"),
        (["--grid", "--most", 15], "no point of the grid"),
    ):
        with pytest.raises(UsageError) as caught:
            run(*arguments)
        assert said in caught.value.problem


def test_a_figure_that_cannot_be_written_is_told_first(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for plot, said in ((tmp_path / "heat.gif", "not a figure"), (tmp_path / "missing" / "heat.png", "no folder")):
        with pytest.raises(UsageError, match=said):
            run("--grid", "--plot", plot)
