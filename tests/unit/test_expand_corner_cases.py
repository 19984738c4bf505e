"""What an expansion refuses, and the numbers that compilers get wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from fusewise.errors import Unsupported
from fusewise.ir.expand import TABLE
from fusewise.ir.interp import run
from tests.unit.rows import graph_of, ours_and_eager, to_numpy

FLOAT, HALF = torch.randn(4, 5), torch.randn(4, 5).bfloat16()
INTS, FLAGS = torch.tensor([[-7, 7, 3, 0]]), torch.tensor([True, False])


def _one(name: str, *args: Any, device: str = "cpu", **kwargs: Any) -> list[Any]:
    """The first result as a list, from the interpreter."""
    graph, tensors = graph_of(name, args, kwargs, device)
    found: list[Any] = run(graph, [to_numpy(t) for t in tensors])[0].tolist()
    return found


REFUSED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("aten.pow.Tensor_Tensor", [INTS, INTS], {}),
    ("aten.index.Tensor", [FLOAT, [torch.tensor([0]), torch.tensor([1])]], {}),
    ("aten.as_strided.default", [FLOAT, [2], [3]], {}),
    ("aten.empty_like.default", [FLOAT], {}),
    ("aten.view.dtype", [FLOAT, torch.int16], {}),
    ("aten.scatter.value", [FLOAT, 1, torch.tensor([[0, 1]]), 1.0], {}),
    ("aten.binary_cross_entropy.default", [torch.rand(3), torch.rand(3)], {}),
    ("aten.bitwise_and.Tensor", [FLOAT, FLOAT], {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_refused(name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        graph_of(name, args, kwargs)


EAGERS_BITS_VARY: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("aten.add.Tensor", [HALF, HALF], {"alpha": 0.3}),
    ("aten.rsqrt.default", [HALF.abs()], {}),
    ("aten.fmod.Tensor", [FLOAT, FLOAT], {}),
    ("aten.maximum.default", [FLOAT, FLOAT], {}),
    ("aten.amax.default", [FLOAT, [1]], {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), EAGERS_BITS_VARY, ids=lambda v: v if isinstance(v, str) else "")
def test_stays_eager_under_the_conservative_policy_alone(name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    assert TABLE[name].is_exact_on("cpu")
    graph_of(name, args, kwargs, policy="balanced")
    with pytest.raises(Unsupported):
        graph_of(name, args, kwargs, policy="conservative")


def test_fused_sums_are_not_exact() -> None:
    for name in ("aten.sum.dim_IntList", "aten._softmax.default", "aten.native_layer_norm.default", "aten.erf.default"):
        assert not TABLE[name].is_exact_on("cpu") and not TABLE[name].is_exact_on("cuda")
    assert TABLE["aten.sqrt.default"].is_exact_on("cuda") and not TABLE["aten.sqrt.default"].is_exact_on("cpu")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_floor_division_of_floats(device: str) -> None:
    top, by = torch.tensor([1.0, 0.5, 6.0]), torch.tensor([0.1, 0.1, 0.2])
    assert _one("aten.floor_divide.default", top, by, device=device) == [9.0, 4.0, 29.0]


def test_products_with_zero_keep_their_nan() -> None:
    got = _one("aten.mul.Tensor", torch.tensor([math.nan, math.inf, 1.0]), 0)
    assert math.isnan(got[0]) and math.isnan(got[1]) and got[2] == 0.0


def test_minimum_of_bytes_above_four() -> None:
    assert _one("aten.amin.default", (torch.arange(103) + 5).to(torch.uint8), [0]) == 5


def test_wide_integers_are_not_narrowed() -> None:
    assert _one("aten.mul.Tensor", torch.arange(5), 10**9) == [i * 10**9 for i in range(5)]


def test_integer_division_by_a_number() -> None:
    low = torch.iinfo(torch.int32).min
    value = torch.tensor([-7, 7, low], dtype=torch.int32)
    assert _one("aten.div.Tensor_mode", value, 2, rounding_mode="floor") == [-4, 3, low // 2]
    assert _one("aten.div.Tensor_mode", value, -1, rounding_mode="floor") == [7, -7, low]
    assert _one("aten.remainder.Scalar", value, -3) == [-1, -2, -2]
    assert _one("aten.fmod.Scalar", value, -3) == [-1, 1, -2]


@pytest.mark.parametrize("name", ["aten.floor_divide.default", "aten.remainder.Tensor", "aten.fmod.Tensor"])
def test_integer_division_by_zero_raises_where_eager_does(name: str) -> None:
    args = [torch.tensor([5, -5]), torch.tensor([0, 0])]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        _one(name, *args)
    assert len(_one(name, *args, device="cuda")) == 2


def test_masked_rows_of_a_softmax() -> None:
    row = torch.full((1, 3), -math.inf)
    assert all(map(math.isnan, _one("aten._softmax.default", row, 1, False)[0]))
    assert _one("aten._safe_softmax.default", row, 1) == [[0.0, 0.0, 0.0]]


def test_variance_of_a_large_mean() -> None:
    value = torch.tensor([1e4 + 1, 1e4 + 2, 1e4 + 3])
    assert _one("aten.var.correction", value, [0], correction=0) == pytest.approx(2 / 3, rel=1e-6)


def test_dropout_gradient_drops() -> None:
    grad = torch.tensor([1.0, math.inf, 3.0])
    mask = torch.tensor([True, True, False])
    assert _one("aten.native_dropout_backward.default", grad, mask, 2.0) == [2.0, math.inf, 0.0]


def test_a_wide_scalar_beside_half_floats() -> None:
    """0.1 is rounded to bf16 before an addition and stays f32 in a product, as in eager."""
    x = torch.tensor([1.0, 3.0, 257.0]).bfloat16()
    for name in ("aten.add.Tensor", "aten.mul.Tensor"):
        ((ours, eager),) = ours_and_eager(name, [x, 0.1])
        assert torch.equal(ours, eager)


@pytest.mark.parametrize("name", ["aten.gather.default", "aten.index_select.default", "aten.embedding.default"])
@pytest.mark.parametrize("wrong", [-1, 4])
def test_index_out_of_range_raises(name: str, wrong: int) -> None:
    index = torch.tensor([0, 1])
    x = torch.randn(4, 4)
    args: dict[str, list[Any]] = {
        "aten.gather.default": [x, 0, index[:, None]],
        "aten.index_select.default": [x, 0, index],
        "aten.embedding.default": [x, index],
    }
    graph, tensors = graph_of(name, args[name])
    arrays = [np.where(to_numpy(t) == 1, wrong, to_numpy(t)) if t is not x else to_numpy(t) for t in tensors]
    with pytest.raises(RuntimeError if name == "aten.gather.default" else IndexError, match="out of range"):
        run(graph, arrays)


def test_an_index_of_a_loss_out_of_range_raises() -> None:
    graph, tensors = graph_of("aten.nll_loss_forward.default", [FLOAT, torch.tensor([0, 1, 2, 9]), None, 1, -100])
    with pytest.raises(IndexError):
        run(graph, [to_numpy(t) for t in tensors])
