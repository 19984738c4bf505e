"""`fusewise plan`, `check` and `assert_plan` on real programs: exit codes, what is named, the same file everywhere."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from fusewise.device import Calibration
from fusewise.device.calibration import store
from fusewise.errors import CompileFailed, CompilerMissing, UnknownName, UsageError
from fusewise.gate.state import read_state
from fusewise.runtime import triton_compile
from fusewise.testing import assert_plan
from tests.cpu.test_verify_cli import run

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton")

ROOT = Path(__file__).parents[2]
SOURCE = """
import torch
import torch.nn.functional as F

def block(x, w):
    h = F.gelu(x)
    return F.rms_norm(h, h.shape[-1:], w)

def example_inputs():
    return torch.randn(256, 512), torch.ones(512)
"""
RETURN = "    return F.rms_norm("


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def saved(file: Path) -> Path:
    plan = file.parent / "ci" / "plan.json"
    plan.parent.mkdir()
    code, out, _ = run("plan", f"{file}:block", "--save", plan, "--inference")
    assert code == 0 and "1 kernel" in out and f"written to {plan}" in out
    return plan


def test_what_is_saved(file: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = read_state(saved)
    assert state.request.devices == ("h200",) and state.request.inference
    assert state.toolchain["torch"] == torch.__version__.partition("+")[0] and state.toolchain["triton"]
    ((graph,),) = (d.graphs for d in state.devices)
    (kernel,) = graph.kernels
    assert kernel.lines == ("model.py:6", "model.py:7") and kernel.regs_per_thread and kernel.spill_bytes == 0
    # the path is kept relative to the plan, and found from any folder
    monkeypatch.chdir(file.parent)
    assert run("plan", "model.py:block", "--save", "ci/plan.json", "--inference")[0] == 0
    assert read_state(saved) == state and state.request.target == "../model.py:block"
    assert str(file.parent) not in saved.read_text()
    monkeypatch.chdir(saved.parent)
    assert run("check", "plan.json")[:2] == (
        0,
        "../model.py:block on h200, policy balanced, against plan.json\nAs saved.\n",
    )


def test_worse_then_accepted_then_better(file: Path, saved: Path) -> None:
    file.write_text(SOURCE.replace(RETURN, f"    torch._dynamo.graph_break()\n    h = h.cumsum(0)\n{RETURN}"))
    before = saved.read_text()
    code, out, _ = run("check", saved)
    assert code == 1 and saved.read_text() == before
    for part in (
        "worse: 1 graph break, 0 before",
        "model.py:7 torch._dynamo.graph_break()",
        "worse: h200: 1 wall, 0 before",
        "inference aten.cumsum.default model.py:8 h = h.cumsum(0)",
        "worse: h200: 2 kernels, 1 before",
        f"fusewise check {saved} --accept",
    ):
        assert part in out
    document = json.loads(run("check", saved, "--json")[1])
    assert not document["ok"] and {f["kind"] for f in document["findings"]} >= {
        "graph breaks",
        "walls",
        "kernels",
        "bytes",
    }
    code, out, _ = run("check", saved, "--accept")
    assert code == 0 and "The new plan is kept" in out and "worse:" in out
    assert run("check", saved)[0] == 0
    file.write_text(SOURCE)
    code, out, _ = run("check", saved)
    assert "better: 0 graph breaks, 1 before" in out and "better: h200: 0 walls, 1 before" in out
    # one kernel for two may need more registers than either, which is then said
    assert code == ("worse:" in out)


def test_another_triton_is_named(saved: Path) -> None:
    document = json.loads(saved.read_text())
    document["toolchain"]["triton"] = "3.0.0"
    saved.write_text(json.dumps(document))
    code, out, _ = run("check", saved)
    assert code == 0 and "saved with triton 3.0.0: registers, spills and shared memory may differ" in out


def test_what_this_user_measured_plays_no_part(file: Path, saved: Path) -> None:
    before = saved.read_text()
    store(Calibration("h200", "2026-01-01", {"copy_bytes_per_s": 1e12, "launch_us": 50.0}))
    assert run("plan", f"{file}:block", "--save", saved, "--inference")[0] == 0
    assert saved.read_text() == before


def test_bad_input(file: Path, saved: Path) -> None:
    for arguments, error, message in (
        (["check", file.parent / "none.json"], UsageError, "no file"),
        (["check", file], UsageError, "holds no plan"),
        (["plan", f"{file}:block", "--device", "h20"], UnknownName, "Did you mean h200"),
        (["plan", f"{file}:block", "--device", "cuda"], UsageError, "for a named GPU"),
        (["plan", f"{file}:block", "--save", file.parent / "none" / "plan.json"], UsageError, "no folder"),
    ):
        with pytest.raises(error, match=message):
            run(*arguments)
    file.unlink()
    with pytest.raises(UsageError, match="no file"):
        run("check", saved)


def test_a_kernel_that_cannot_be_compiled_is_a_fallback(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise CompileFailed("ptxas refuses the kernel")

    monkeypatch.setattr(triton_compile, "compile_kernel", refuse)
    code, out, _ = run("check", saved)
    assert code == 1 and "worse: h200: 1 fallback, 0 before" in out and "ptxas refuses the kernel" in out
    with pytest.raises(AssertionError, match="1 fallback, at most 0"):
        assert_plan(torch.relu, torch.empty(64, device="meta"))


def test_without_triton_there_is_no_gate(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_compile.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompilerMissing, match="no triton"):  # exit code 3
        run("check", saved)


def test_the_file_is_the_same_in_every_process(file: Path, saved: Path) -> None:
    """Here and in a process with another order of sets, an empty cache and no checks."""
    other = saved.parent / "other.json"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": str(ROOT / "src"),
        "FUSEWISE_CACHE_DIR": str(file.parent / "other"),
        "TRITON_CACHE_DIR": str(file.parent / "triton"),
        "FUSEWISE_CHECK": "0",
    }
    command = [sys.executable, "-m", "fusewise", "plan", f"{file}:block", "--inference", "--save", str(other)]
    subprocess.run(command, env=os.environ | environment, check=True, capture_output=True, timeout=300)
    assert other.read_text() == saved.read_text()


# ---- assert_plan


def norm_then_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (F.rms_norm(F.gelu(x), (x.shape[-1],)) @ w) * 2


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(64, 128, device="meta"), torch.empty(128, 128, device="meta")


def test_a_plan_within_its_limits() -> None:
    found = assert_plan(norm_then_product, *inputs(), max_kernels=2, max_walls=1, max_regs_per_thread=128)
    assert found.devices[0].device == "h200" and len(found.devices[0].kernels) == 2


def test_each_limit_that_is_passed_is_named() -> None:
    def broken(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return norm_then_product(x, w)

    with pytest.raises(AssertionError) as caught:
        assert_plan(
            broken,
            *inputs(),
            device=["h200", "l4"],
            max_kernels=1,
            max_walls=0,
            max_regs_per_thread=8,
            max_dram_bytes=10,
            max_spill_bytes=-1,
        )
    lines = str(caught.value).splitlines()
    assert lines[0] == "the plan of broken costs more than it may:"
    assert lines[1] == "  1 graph break, at most 0:" and "torch._dynamo.graph_break()" in lines[2]
    for device in ("h200", "l4"):
        for part in ("2 kernels, at most 1:", "1 wall, at most 0:", "moves ", "0 bytes a thread spilled, at most -1"):
            assert any(line.startswith(f"  {device}: {part}") for line in lines), (device, part)
        assert any(
            f"{device}: " in line and "registers a thread, at most 8: inference fused_" in line for line in lines
        )
    assert any("aten.mm.default: a product" in line and "test_gate.py" in line for line in lines)
    assert "fusewise.explain(broken" in lines[-1]


def test_limits_may_be_lifted() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    assert_plan(broken, torch.empty(8), device="cpu", max_graph_breaks=None)
    with pytest.raises(UnknownName, match="policy"):
        assert_plan(broken, torch.empty(8), policy="bold")  # type: ignore[arg-type]
