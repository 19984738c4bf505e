"""`tune=True` on a CUDA GPU: schedules by the clock, in forward and backward."""

from __future__ import annotations

import pytest
import torch

from fusewise import trace
from fusewise.backend import Backend
from fusewise.config import make_options

pytestmark = pytest.mark.gpu


def test_forward_and_backward_are_timed_and_pinned(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(4096, 2048, device="cuda", requires_grad=True)
    w = torch.randn(2048, device="cuda", requires_grad=True)

    def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(torch.nn.functional.silu(x), (2048,), w)

    trace.clear()
    compiled = torch.compile(norm, backend=Backend(make_options(tune=True, strict=True)))
    out = compiled(x, w)
    out.sum().backward()
    lines = [line for line in capfd.readouterr().err.splitlines() if "to pin this choice" in line]
    assert [one.role for one in trace.compiled()] == ["forward", "backward"]
    assert len(lines) == 2
    for one, line in zip(trace.compiled(), lines, strict=True):
        assert any(f"'{step.name}': 'x" in line for step in one.plan.kernels)
    torch.testing.assert_close(out, norm(x, w))
