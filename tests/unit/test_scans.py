"""Scans along an outer axis are turned to run along the inner one, with the same values and strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from fusewise.capture.importer import import_graph
from fusewise.capture.scans import scan_along_rows

aten = torch.ops.aten


def _graph(f: Callable[..., torch.Tensor], x: torch.Tensor) -> GraphModule:
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        return make_fx(f, tracing_mode="real")(fake)


def _scans(gm: GraphModule) -> list[tuple[int, tuple[int, ...]]]:
    """(dim, shape of the operand) of each scan."""
    found = [n for n in gm.graph.nodes if n.target in (aten.cumsum.default, aten.cumprod.default)]
    return [(n.args[1], tuple(n.args[0].meta["val"].shape)) for n in found]


@pytest.mark.parametrize(
    ("shape", "dim"), [((1024, 8), 0), ((3, 600, 5), 1), ((600, 2, 3), 0), ((600, 5), -2), ((2, 600, 2, 2), 1)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.bool])
def test_a_long_column_is_scanned_as_a_row(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    x = (torch.randn(shape) > 0).to(dtype) if dtype == torch.bool else (torch.randn(shape) * 4).to(dtype)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, dim).neg()

    gm = _graph(f, x)
    assert scan_along_rows(gm) == 1
    gm.recompile()
    ((along, operand),) = _scans(gm)
    assert along == len(shape) - 1 and operand[-1] == shape[dim]
    result, eager = gm(x), f(x)
    assert result.dtype == eager.dtype and result.stride() == eager.stride()
    if dtype.is_floating_point:
        exact = f(x.double())
        eager_error = (eager.double() - exact).abs().max()
        assert (result.double() - exact).abs().max() <= 1.5 * eager_error + 2 * torch.finfo(
            dtype
        ).eps * exact.abs().max()
    else:
        assert torch.equal(result, eager)


@pytest.mark.parametrize("dtype", [None, torch.float64])
def test_the_type_of_the_result_is_kept(dtype: torch.dtype | None) -> None:
    x = torch.rand(700, 3) + 0.5
    gm = _graph(lambda x: torch.cumprod(x, 0, dtype=dtype), x)
    assert scan_along_rows(gm) == 1
    gm.recompile()
    torch.testing.assert_close(gm(x), torch.cumprod(x, 0, dtype=dtype))


@pytest.mark.parametrize(
    ("shape", "dim"), [((8, 1024), 1), ((1024,), 0), ((64, 8), 0), ((1024, 3, 1 << 14), 0), ((0, 8), 0), ((), 0)]
)
def test_others_are_left_alone(shape: tuple[int, ...], dim: int) -> None:
    gm = _graph(lambda x: torch.cumsum(x, dim), torch.zeros(shape))
    before = _scans(gm)
    assert scan_along_rows(gm) == 0
    assert _scans(gm) == before


def test_only_where_the_order_may_change_and_on_a_gpu() -> None:
    x = torch.randn(1024, 8)
    for policy, device, turned in (
        ("conservative", "cuda", False),
        ("balanced", "cpu", False),
        ("balanced", "cuda", True),
        ("aggressive", "cuda", True),
    ):
        gm = _graph(lambda x: [torch.cumsum(x, 0)], x)  # type: ignore[arg-type,return-value]
        import_graph(gm, [x], policy, device)
        ((along, _),) = _scans(gm)
        assert (along == 1) == turned
