"""`fusewise bisect`: a fault that only a fusion shows is found, and what no fusion does is not blamed on one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from fusewise.cli import app
from fusewise.config import make_options
from fusewise.proof import bisect as bisect_module
from fusewise.proof.bisect import bisect_slower, bisect_wrong
from fusewise.proof.inputs import CALLER
from fusewise.proof.run import verify
from tests.faults import plant

SOURCE = """
import torch

def f(x):
    b = torch.relu(x * 3).abs() - 2
    return torch.tanh(b.exp() * 0.25) + x
"""


def test_the_fusion_at_fault_is_named_with_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "model.py"
    file.write_text(SOURCE)
    command = ["bisect", f"{file}:f", "--input", "x:f32[9,50]", "--no-hard", "--inference", "--json"]
    done = CliRunner().invoke(app, command)
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["ok"] and "Every result is right" in found["answer"]

    plant(monkeypatch, "abs", beside="exp", instead="floor")
    plant(monkeypatch, "sub", beside="exp", instead="add")
    done = CliRunner().invoke(app, command)
    found = json.loads(done.stdout)
    assert done.exit_code == 1 and found["found"] and found["fusions"] > found["culprit"]["number"] >= 1
    sides = [set(found["culprit"][s]["ops"]) for s in ("first", "second")]
    assert any("aten.sub.Tensor" in s for s in sides) and any("aten.exp.default" in s for s in sides)
    assert not any({"aten.sub.Tensor", "aten.exp.default"} <= s for s in sides)
    assert {line["line"] for s in ("first", "second") for line in found["culprit"][s]["lines"]} == {5, 6}
    limit = found["culprit"]["fuel"] - 1
    assert any(f"FUSEWISE_FUEL={limit} " in line for line in found["details"])
    # the limit that it names makes it right, and one fusion more makes it wrong again
    scope: dict[str, Any] = {}
    exec(SOURCE, scope)
    with torch.no_grad():
        for fuel, right in ((limit, True), (limit + 1, False)):
            options = make_options(fuel=fuel)
            assert verify(scope["f"], (torch.randn(9, 50),), {}, options, sets=[CALLER])[0].ok is right


def test_a_fault_of_backward_and_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fusions of all graphs count together; a barrier where the text says cures it."""
    plant(monkeypatch, "neg", beside="sin", instead="abs")
    x = torch.rand(40, requires_grad=True)
    found = bisect_wrong(lambda x: torch.cos(x * 2), (x,), {}, make_options(), hard=False)
    assert found.culprit is not None and found.culprit.role == "backward"
    assert found.culprit.fuel < found.culprit.number
    assert {found.trials[0].ok, found.trials[1].ok} == {True, False}
    text = str(found)
    assert "makes it wrong" in text and "torch.cos(x * 2)" in text and "fusewise.barrier(...)" in text


def test_an_op_that_is_wrong_by_itself_is_no_fusions_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "exp", beside="exp", instead="tanh")
    found = bisect_wrong(lambda x: x.exp() + 1, (torch.rand(30),), {}, make_options(), hard=False)
    assert found.found and found.culprit is None and "without any fusion" in found.answer


def test_the_first_fusion_that_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are made up: a call costs more once its kernels are fewer than three."""

    def made_up(timer: Any, calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        kernels = {name: len(call.__self__.compiled[-1].plan.kernels) for name, call in calls.items()}  # type: ignore[attr-defined]
        return {name: 20.0 if count < 3 else 10.0 for name, count in kernels.items()}

    monkeypatch.setattr(bisect_module, "_medians", made_up)
    found = bisect_slower(lambda x: (x.exp() + 1).relu(), (torch.rand(30),), {}, make_options())
    assert found.found and found.culprit is not None and found.fusions == 3
    assert found.culprit.number == 2 and [t.time_us for t in found.trials] == [10.0, 10.0, 20.0]
    assert "time(with) / time(without) = 2.00" in found.answer


def test_times_are_taken_for_real() -> None:
    found = bisect_slower(lambda x: x.exp(), (torch.rand(5000),), {}, make_options())
    assert found.fusions == 0 and not found.found and not found.trials
    found = bisect_slower(lambda x: x.exp() + 1, (torch.rand(5000),), {}, make_options())
    assert found.fusions == 1 and [t.fusions for t in found.trials] == [0, 1]
    assert all(t.time_us is not None and t.time_us > 0 for t in found.trials)
