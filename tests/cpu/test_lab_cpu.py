"""The lab on this CPU, at small sizes: every row exact, files written, bad usage in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fusewise.cli import app
from fusewise.errors import UsageError
from fusewise.lab.cpu import CpuBackend
from fusewise.lab.run import run
from fusewise.lab.spec import Settings, Spec, Verb

SMALL = Settings(n=8192, k=(2, 3), runs=30, warmup=1, fat_temps=(8, 48))


@pytest.fixture(scope="module")
def backend() -> CpuBackend:
    return CpuBackend()


@pytest.mark.parametrize("verb", ["sweep", "fat", "phases"])
def test_rows_are_exact(verb: Verb, backend: CpuBackend) -> None:
    found = run(verb, SMALL, backend)
    assert found.rows and not found.wrong
    assert all(row.p10_ms <= row.median_ms <= row.p90_ms and row.occ_blocks_per_sm is None for row in found.rows)
    assert "load average, before" in found.machine and "compiler" in found.machine


def test_the_probe_is_computed_and_not_thrown_away(backend: CpuBackend) -> None:
    """Where the sum meets the sentinel it is stored: so the values exist, and fat and thin add up the same ones."""
    from fusewise.lab import cpu_source
    from fusewise.runtime.cpp import build

    n, lanes = 64, backend.bounds.plain_width
    x = np.zeros(n, dtype=np.float32)
    sums = {}
    for kind in ("fat", "thin"):
        source = cpu_source.source_of(Spec(kind, 1, n, lanes, 8))  # type: ignore[arg-type]
        kernel = build(source.replace("sum == sentinel", "sum != sentinel")).function(cpu_source.ENTRY)
        y = np.empty_like(x)
        buffers = [x.ctypes.data, x.ctypes.data, x.ctypes.data, y.ctypes.data]
        assert kernel(*buffers, n, 1, cpu_source.SENTINEL_BITS, 1) == 0
        sums[kind] = y
    v = np.float32(0.001)  # the chain of one stage at 0
    values = [v + np.float32(j) for j in range(8)]
    for j in range(8):
        values[j] = values[j] * np.float32(0.5) + values[(j + 1) % 8]
    assert np.array_equal(sums["fat"], sums["thin"])
    assert sums["fat"][0] == pytest.approx(float(sum(values)), rel=1e-6)


def test_a_gpu_s_options_are_refused(backend: CpuBackend) -> None:
    with pytest.raises(UsageError, match="are a GPU's"):
        run("fused", Settings(n=64, block=128), backend)


def test_the_command_writes_what_it_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    csv, plot = tmp_path / "run.csv", tmp_path / "run.png"
    small = ["--device", "cpu", "--n", "8192", "--k", "2,3", "--runs", "30", "--csv", str(csv), "--plot", str(plot)]
    done = CliRunner().invoke(app, ["lab", "sweep", *small, "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["verdict"][-1].startswith("Next: ")
    assert csv.read_text(encoding="utf-8").startswith("tag,k,n,block,grid,median_ms,p10_ms,p90_ms,occ_blocks_per_sm\n")
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["rows"] == document["rows"]
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["swep"], "unknown experiment of the lab 'swep'. Did you mean sweep?"),
        (["sweep", "--k", "two"], "k is 'two', but must be whole numbers"),
        (["sweep", "--k", ","], "k is empty"),
        (["sweep", "--device", "h20"], "unknown device 'h20'"),
        (["sweep", "--device", "cpu", "--csv", "run.json"], "run.json cannot be written"),
    ],
)
def test_bad_usage_ends_in_one_line(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["lab", *arguments])
    assert isinstance(done.exception, UsageError) and done.exception.problem.startswith(said)
