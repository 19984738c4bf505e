"""The demo on tiny programs, and each example: they run and say what they promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusewise import demo
from fusewise.cli import app
from fusewise.commands import demo as command
from fusewise.measure.results import to_json

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def tiny() -> demo.Demo:
    return demo.run_demo("cpu", size="tiny", baselines=("eager",))


def test_plan_proof_and_times(tiny: demo.Demo) -> None:
    block, chain = tiny.explanations
    assert [g.role for g in block.devices[0].graphs] == ["forward", "backward"]
    lines = {line.text for k in block.devices[0].kernels for line in k.lines}
    assert 'hidden = F.gelu(self.up(self.norm2(x)), approximate="tanh")' in lines
    assert len(chain.devices[0].kernels) == 1
    for verification in tiny.verifications:
        assert verification.ok, verification
        assert not verification.eager_graphs
    assert any(c.name == "gradient of norm1.weight" for c in tiny.verifications[0].checks)
    for row in tiny.bench.rows:
        assert row.verified, row.verify_note
        assert set(row.times_us) == {"eager", "fusewise"} and row.floor_us > 0


def test_the_command_prints_all_three(tiny: demo.Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run_demo", lambda device, show: tiny)
    done = CliRunner().invoke(app, ["demo"])
    for part in ("What runs", "The proof", "Times", "transformer block", "chain of 8 stages", "time(eager)"):
        assert part in done.output
    assert done.exit_code == (0 if tiny.ok else 1)
    document = json.loads(CliRunner().invoke(app, ["demo", "--json"]).output)
    assert document["bench"] == json.loads(to_json(tiny.bench)) and len(document["verifications"]) == 2
    assert command.__doc__


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    if path.stem == "torch_compile_backend" and "Invalid backend" in done.stderr:
        pytest.skip("Fusewise is not installed here: torch.compile finds a backend by its entry point")
    if path.stem == "explain_for_h200" and "no triton" in done.stdout:
        pytest.skip("no triton: nothing is compiled for an absent GPU")
    assert done.returncode == 0, done.stdout + done.stderr
    expected = {
        "compile_function": ("largest difference to eager", "inference: fused_"),
        "train_module": ("step 40  loss 0.",),
        "explain_for_h200": ("NVIDIA H200", "NVIDIA L4", "0 bytes spilled"),
        "verify_function": ("Verified:", "gradient of q"),
        "torch_compile_backend": ("conservative: equal bit for bit: True",),
    }
    for part in expected[path.stem]:
        assert part in done.stdout
