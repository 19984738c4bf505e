"""PyTorch's own samples of a few operators of each kind; `opinfo.py` runs all of them, `report.py` counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from fusewise.backend import backend_for
from fusewise.config import make_options
from tests.peer.opinfo import DTYPES, compare, repeated, run_op
from tests.peer.report import merged

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
    assert repeated([value], [value.clone()]) == "" and "second call" in repeated([value], [value + 1e-7])


def test_the_report_counts() -> None:
    def row(op: str, status: str, detail: str = "", error: float | None = None) -> dict[str, Any]:
        fields = {"op": op, "dtype": "f32", "status": status, "samples": 2, "detail": detail, "seconds": 0.1}
        return fields | {"error": error, "eager_error": 0.5 if error else None}

    settings = {"device": "cpu", "samples": 2, "backward": True, "shard": "0/2", "commit": "abc"}
    first = {"settings": settings, "rows": [row("add", "passed", error=0.4), row("exp", "passed", error=1.0)]}
    second = {
        "settings": settings,
        "rows": [row("rand", "skipped", "random numbers"), row("sub", "failed", "result 0")],
    }
    found = merged([first, second])
    assert found["commit"] == "abc" and found["settings"] == {"device": "cpu", "samples": 2, "backward": True}
    assert found["counts"] == found["by_dtype"]["f32"] == {"passed": 2, "skipped": 1, "failed": 1}
    assert found["skipped"] == {"random numbers": ["rand f32"]} and found["failed"][0]["op"] == "sub"
    errors = found["errors"]
    assert errors["rows"] == 2 and errors["equal_or_better"] == 1
    assert errors["above_1.5_times_eager"] == ["exp f32"] and errors["largest_ratios"][0]["ratio"] == 2.0
