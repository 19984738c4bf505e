"""PyTorch's own samples of a few operators of each kind; `opinfo.py` runs all of them, `report.py` counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from fusewise.backend import backend_for
from fusewise.config import make_options
from tests.peer.opinfo import DTYPES, Case, Row, Worker, compare, is_deterministic, moved, run_cases, run_op
from tests.peer.report import merged, report

OPS = {
    "pointwise": ("where", "clamp", "floor_divide", "remainder", "nn.functional.gelu"),
    "reduction": ("sum", "amax", "argmax", "var_mean", "softmax"),
    "view": ("cat", "flip", "nn.functional.pad", "unfold"),
    "index": ("gather", "index_select", "nn.functional.embedding"),
    "composite": ("nn.functional.layer_norm", "nn.functional.cross_entropy"),
}
BY_NAME: dict[str, Any] = {op.name: op for op in reversed(op_db)}


@pytest.mark.parametrize("name", [name for kind in OPS.values() for name in kind])
def test_samples_are_as_in_eager(name: str) -> None:
    backend = backend_for(make_options(strict=True, check=True))
    op = BY_NAME[name]
    ran = 0
    for short in ("f32", "bf16", "i32"):
        if DTYPES[short] in op.supported_dtypes("cpu"):
            row = run_op(op, name, short, "cpu", 3, True, backend)
            assert row.status == "passed", f"{row.dtype}: {row.detail}"
            ran += row.samples
    assert ran


def test_the_comparison_finds_differences() -> None:
    value = torch.linspace(-1, 1, 12).reshape(3, 4)
    assert compare([value], [value.clone()], None) == ""
    assert "strides" in compare([value], [value.t().contiguous().t()], None)
    assert "results" in compare([value], [], None)
    assert "float64" in compare([value], [value.double()], None)
    assert compare([value * 1.01], [value], None) and compare([value * 1.01], [value], [value.double()])
    assert "differs at 1 of 3" in compare([torch.tensor([1, 2, 3])], [torch.tensor([1, 2, 4])], None)
    holed = value.masked_fill(value > 0.5, torch.nan)
    assert "NaN" in compare([value], [holed], None) and "NaN" in compare([holed], [value], [value.double()])
    assert "infinities" in compare([value], [value / 0], None)
    assert compare([value], [holed], [value.double()]) == "", "nothing is asked where eager alone has no number"
    assert moved([value, value], [value.clone(), value + 1e-7]) == {1}


def test_the_report_counts() -> None:
    def row(op: str, status: str, detail: str = "", error: float | None = None) -> dict[str, Any]:
        fields = {"op": op, "dtype": "f32", "status": status, "samples": 2, "detail": detail, "seconds": 0.1}
        return fields | {"error": error, "eager_error": 0.5 if error else None}

    settings = {"device": "cpu", "samples": 2, "backward": True}
    head = {"settings": settings, "device": "a CPU", "versions": {"torch": "2"}, "commit": "abc", "date": "today"}

    def text(asked: list[str], *rows: dict[str, Any]) -> str:
        return "".join(f"{json.dumps(line)}\n" for line in (head | {"cases": [[op, "f32"] for op in asked]}, *rows))

    in_part = row("var", "passed", "compared: some")
    first = text(["add", "exp", "var"], row("add", "passed", error=0.4), row("exp", "passed", error=1.0), in_part)
    second = text(["rand", "sub"], row("rand", "skipped", "random numbers"), row("sub", "failed", "result 0"))
    cut = text(["mul", "div"], row("mul", "passed")) + '{"op": "div", "dt'
    found = merged([report(first), report(second), report(cut)])
    assert found["commit"] == "abc" and found["settings"] == settings and found["device"] == "a CPU"
    assert found["passed_in_part"] == {"compared: some": ["var f32"]}
    assert [row["op"] for row in found["failed"]] == ["sub", "div"] and "run ended" in found["failed"][1]["detail"]
    assert found["counts"] == found["by_dtype"]["f32"] == {"passed": 4, "skipped": 1, "failed": 2}
    assert found["skipped"] == {"random numbers": ["rand f32"]}
    errors = found["errors"]
    assert errors["rows"] == 2 and errors["equal_or_better"] == 1
    assert errors["above_1.5_times_eager"] == ["exp f32"] and errors["largest_ratios"][0]["ratio"] == 2.0


WORKER = """
import json, os, sys, time
for line in sys.stdin:
    case = json.loads(line)
    if case["op"] == "dies":
        os.abort()
    if case["op"] == "hangs":
        time.sleep(60)
    row = {"op": case["op"], "dtype": case["dtype"], "status": "passed", "samples": 1, "detail": str(os.getpid())}
    print(json.dumps({"row": row, "last": case["op"] == "last"}), flush=True)
    if case["op"] == "last":
        break
"""


def test_a_process_that_dies_or_hangs_fails_its_case_alone(tmp_path: Path) -> None:
    names = ["add", "dies", "sub", "hangs", "mul", "last", "div", "dies"]
    started: list[int] = []

    def start(number: int) -> Worker:
        started.append(number)
        return Worker([sys.executable, "-c", WORKER], tmp_path / f"{number}.log")

    found: list[Row] = []
    run_cases([Case(i, name, "f32") for i, name in enumerate(names)], 1, start, 5.0, found.append, life=2)
    assert [row.op for row in found] == names
    failed = {row.op: row.detail for row in found if row.status == "failed"}
    assert set(failed) == {"dies", "hangs"} and "SIGABRT" in failed["dies"] and "no result after" in failed["hangs"]
    assert len(started) == 4, "one at first, one after each case that failed or was its process's last, but at the end"
    assert "dies f32: the process died" in (tmp_path / "0.log").read_text()


def test_several_processes_run_every_case_once(tmp_path: Path) -> None:
    todo = [Case(i, f"op{i}", "f32") for i in range(12)]
    found: list[Row] = []
    command = [sys.executable, "-c", WORKER]
    run_cases(todo, 3, lambda number: Worker(command, tmp_path / f"{number}.log"), 30.0, found.append)
    assert sorted(row.op for row in found) == sorted(case.op for case in todo)
    assert all(row.status == "passed" for row in found)


def test_what_pytorch_says_of_a_kernel_s_determinism_is_heard() -> None:
    def puts() -> None:
        torch.zeros(4).put_(torch.tensor([0, 0]), torch.ones(2))

    assert not is_deterministic(puts)
    assert is_deterministic(lambda: torch.ones(3).sum())
    assert not torch.are_deterministic_algorithms_enabled()
