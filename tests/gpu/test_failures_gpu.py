"""Failure is safe on a GPU too: each step fails by injection, and the call still returns eager's result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

pytest.importorskip("triton")

from fusewise.backend import Backend
from fusewise.config import make_options
from fusewise.runtime import triton as launching

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    yield


def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(F.gelu(x @ w) + 1, (64,)) * 2


def train(fn: Callable[..., torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    out = fn(x, w)
    out.square().sum().backward()
    assert x.grad is not None and w.grad is not None
    return [out.detach(), x.grad, w.grad]


def raising(problem: Exception) -> Callable[..., Any]:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise problem

    return broken


STEPS = {
    "codegen": "fusewise.pipeline.module",
    "compile": "fusewise.runtime.triton.compile_kernel",
    "load": "fusewise.runtime.triton._bind",
}


@pytest.mark.parametrize(
    "problem", [RuntimeError("not today"), torch.OutOfMemoryError("not today")], ids=["error", "memory"]
)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_is_eager(step: str, problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEPS[step], raising(problem))
    compiled = torch.compile(model, backend=Backend(make_options()))
    x, w = torch.randn(32, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            for ours, eager in zip(train(compiled, x, w), train(model, x, w), strict=True):
                torch.testing.assert_close(ours, eager)
    ours = [str(c.message) for c in caught if "fusewise" in str(c.message)]
    assert 1 <= len(ours) <= 2 and all("not today" in text for text in ours), ours
    assert counters["fusewise"]["fallbacks"] >= 1


def test_a_variant_that_a_later_call_needs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pointer that is not aligned to 16 bytes asks for the general variant, which is compiled at that call."""
    compile_kernel = launching.compile_kernel

    def aligned_only(source: str, kernel: Any, target: Any, aligned: bool, numbers: bool) -> Any:
        if not aligned:
            raise RuntimeError("no general variant today")
        return compile_kernel(source, kernel, target, aligned, numbers)

    monkeypatch.setattr(launching, "compile_kernel", aligned_only)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 2

    compiled = torch.compile(fn, backend=Backend(make_options()))
    whole = torch.randn(4097, device="cuda")
    torch.testing.assert_close(compiled(whole[:4096]), fn(whole[:4096]))
    with pytest.warns(UserWarning, match="no general variant today"):
        torch.testing.assert_close(compiled(whole[1:]), fn(whole[1:]))
    torch.testing.assert_close(compiled(whole[:4096]), fn(whole[:4096]))
    assert counters["fusewise"]["fallbacks"] == 1


def test_memory_that_is_out_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole memory of the GPU is not there for one more result: eager's error, and the next call is fine."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 2

    compiled = torch.compile(fn, backend=Backend(make_options()), dynamic=True)
    small = torch.randn(1000, device="cuda")
    torch.testing.assert_close(compiled(small), fn(small))
    torch.cuda.empty_cache()
    large = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.7) // 4, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        compiled(large)
    del large
    torch.testing.assert_close(compiled(small), fn(small))
