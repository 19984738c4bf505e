"""A results file of a GPU that is not there, with times of kernels and of what the planner chose from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("triton")

from typer.testing import CliRunner

from fusewise.cli import app
from fusewise.measure.results import KernelTime, load_results, write_results
from fusewise.measure.stats import Summary

ROOT = Path(__file__).parents[2]
# as the profiler names them: the row kernel, and its two halves where it is split
WHOLE, HALF = "fused_native_layer_norm_0", "fused_native_layer_norm_1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The layer norm of a measured file, as whole, and as split with a slower second kernel."""
    measured = load_results(ROOT / "benchmarks" / "results" / "h200-full.json")
    (row,) = (r for r in measured.rows if (r.name, r.direction) == ("layer_norm", "forward"))
    times = {"fusewise": row.times_us["fusewise"], "fusewise-whole": row.times_us["fusewise"]}
    times["fusewise-split"] = Summary(200.0, 199.0, 201.0, 30)
    kernels: dict[str, tuple[KernelTime, ...]] = {
        "fusewise": (KernelTime(WHOLE, 66.0),),
        "fusewise-whole": (KernelTime(WHOLE, 66.2),),
        "fusewise-split": (KernelTime(WHOLE, 99.0), KernelTime(HALF, 200.0)),
    }
    counts: dict[str, int | None] = {name: len(launches) for name, launches in kernels.items()}
    row = replace(row, times_us=times, kernel_times=kernels, kernels=counts)
    path = tmp_path / "run.json"
    write_results(path, replace(measured, rows=(row,)))
    return path


def test_predicted_beside_measured(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.json"
    asked = ["bench", "--predict", "--device", "h200", "--from", str(file), "--out", str(out)]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    found = json.loads(out.read_text())
    assert found["left_out"] == []
    assert [r["contender"] for r in found["rows"] + found["alternatives"]] == [
        "fusewise",
        "fusewise-whole",
        "fusewise-split",
    ]
    (launch,) = found["rows"][0]["launches"]
    (kernel,) = found["rows"][0]["kernels"]
    assert launch["kernel"] == kernel["name"] == WHOLE and launch["measured_us"] == 66.0
    launch_us = load_results(file).ceilings["empty_kernel_us"]
    assert launch["predicted_us"] == pytest.approx(kernel["predicted_us"] - launch_us)
    # whole once for both that run it, and the two halves
    assert (found["kernels_compared"], found["kernels_too_short"]) == (3, 0)
    assert found["worst_kernels"][0]["kernel"] == HALF
    assert found["choices"]["right"] == found["choices"]["count"] == 1
    assert found["choices"]["rows"][0]["same_plans"] == [["fusewise", "fusewise-whole"]]
    assert found["choices"]["orders_right"] == found["choices"]["orders"] == 1
    text = " ".join(shown.output.split())
    assert f"kernels one by one: median error {found['median_kernel_error']:.1%}" in text
    assert "the planner's choice was the fastest in 1 of 1 programs (100%)" in text
    assert HALF in text
