"""Programs over axes of no and one element on a CUDA device, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from fusewise import trace
from fusewise.backend import backend_for
from fusewise.config import make_options
from tests.small_axes import DTYPES, SHAPES, gathers, pairs, reductions

pytestmark = pytest.mark.gpu

STRICT = backend_for(make_options(strict=True, check=True))


def equals_eager(function: Callable[..., Any], *args: Any) -> None:
    torch._dynamo.reset()
    trace.clear()
    result = torch.compile(function, backend=STRICT, dynamic=False)(*args)
    torch.cuda.synchronize()
    for ours, eager in zip(tree_leaves(result), tree_leaves(function(*args)), strict=True):
        # eager's own layer norm of one element is 0 but for a residue
        tight = {} if ours.dtype.itemsize > 2 else {"rtol": 1.6e-2, "atol": 1e-3}
        torch.testing.assert_close(ours, eager, equal_nan=True, **tight)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_axes_of_no_and_one_element(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, y = (torch.randn(shape, device="cuda").to(dtype) for _ in range(2))
    equals_eager(reductions, x, y, torch.randn(shape[:1], device="cuda").to(dtype))
    assert trace.compiled()[-1].kernels
    for count in (0, 1):
        equals_eager(gathers, x, torch.zeros(min(count, shape[0]), dtype=torch.int64, device="cuda"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty_programs_in_one_launch(dtype: torch.dtype) -> None:
    xs, ys = ([torch.randn(shape, device="cuda").to(dtype) for shape in SHAPES] for _ in range(2))
    equals_eager(pairs, xs, ys)
    assert trace.compiled()[-1].plan.bundles


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (7, 3)], ids=str)
def test_quantiles_and_their_gradients(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    start = torch.randn(shape, device="cuda", dtype=dtype)

    def quantiles(x: torch.Tensor) -> list[torch.Tensor]:
        found = [
            f(x, 0.3, 0, interpolation=i) for f in (torch.quantile, torch.nanquantile) for i in ("linear", "higher")
        ]
        return [*found, torch.quantile(x, torch.tensor([0.0, 0.5, 1.0], device="cuda", dtype=dtype))]

    def run(function: Callable[..., Any]) -> list[torch.Tensor]:
        x = start.clone().requires_grad_()
        results = function(x)
        torch.autograd.backward([r.sum() for r in results])
        assert x.grad is not None
        return [*(r.detach() for r in results), x.grad]

    torch._dynamo.reset()
    for ours, eager in zip(run(torch.compile(quantiles, backend=STRICT)), run(quantiles), strict=True):
        torch.testing.assert_close(ours, eager)
