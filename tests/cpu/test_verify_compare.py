"""The rule of equality: bits, units in the last place, errors against fp64, special values."""

from __future__ import annotations

import math

import pytest
import torch

from fusewise.proof.compare import BIT_RULE, CLOSE_RULE, ERROR_RULE, compare, max_ulp

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NAN, INF = math.nan, math.inf


def t(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def wide(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_ulp_counts_representable_values(dtype: torch.dtype) -> None:
    one = t(1.0, dtype=dtype)
    up = torch.nextafter(one, t(2.0, dtype=dtype))
    down = torch.nextafter(one, t(0.0, dtype=dtype))
    assert (max_ulp(one, one), max_ulp(one, up), max_ulp(down, up)) == (0, 1, 2)


@pytest.mark.parametrize("dtype", FLOATS)
def test_ulp_across_zero(dtype: torch.dtype) -> None:
    least = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    assert max_ulp(t(0.0, dtype=dtype), t(-0.0, dtype=dtype)) == 0
    assert max_ulp(t(-least, dtype=dtype), t(least, dtype=dtype)) == 2


def test_ulp_of_values_far_apart_and_not_finite() -> None:
    top = torch.finfo(torch.float64).max
    assert max_ulp(wide(-top), wide(top)) == torch.iinfo(torch.int64).max
    assert max_ulp(t(NAN, INF), t(1.0, 2.0)) == 0


def test_bits() -> None:
    found = compare(t(1.0, -0.0, NAN, INF), t(1.0, -0.0, NAN, INF), None, exact=True)
    assert found.ok and found.bit_equal and found.rule == BIT_RULE
    found = compare(t(1.0, 0.0), t(1.0, -0.0), None, exact=True)
    assert not found.ok and not found.bit_equal and found.first == (1,) and found.max_ulp == 0
    assert compare(t(1.0, 0.0), t(1.0, -0.0), wide(1.0, 0.0), exact=False).ok


def test_nan_payload_does_not_count() -> None:
    other = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert compare(other, t(NAN), None, exact=True).bit_equal


def test_an_error_as_large_as_eagers_is_fine_and_a_larger_one_is_not() -> None:
    exact = torch.linspace(1.0, 2.0, 1000, dtype=torch.float64)
    eager = (exact + 1e-4).float()
    assert compare((exact - 1e-4).float(), eager, exact, exact=False).ok
    found = compare((exact + 3e-4).float(), eager, exact, exact=False)
    assert not found.ok and found.error == pytest.approx(3 * (found.eager_error or 0), rel=1e-2)


def test_one_wrong_element_among_many() -> None:
    exact = torch.ones(100, 100, dtype=torch.float64)
    fused = exact.float()
    fused[37, 5] = 1.001
    found = compare(fused, exact.float(), exact, exact=False)
    assert not found.ok and found.first == (37, 5) and found.rule == ERROR_RULE


def test_two_units_in_the_last_place_are_rounding() -> None:
    value = t(1.0)
    for _ in range(2):
        value = torch.nextafter(value, t(2.0))
    others = torch.ones(1000)
    fused = torch.cat([value, others])
    assert compare(fused, torch.ones(1001), torch.ones(1001, dtype=torch.float64), exact=False).ok


@pytest.mark.parametrize(
    ("fused", "eager", "fp64", "ok"),
    [
        (NAN, NAN, NAN, True),
        (1.0, NAN, NAN, False),
        (NAN, 1.0, 1.0, False),
        (INF, INF, INF, True),
        (-INF, INF, INF, False),
        (INF, 1.0, 1.0, False),
        (1.0, INF, 1e300, True),  # eager overflows on its own
        (NAN, INF, 1e300, True),
        (INF, INF, 1e300, True),
        (0.0, 0.0, NAN, True),  # eager is the judge where fp64 is not finite
        (5.0, 0.0, NAN, False),
    ],
)
def test_special_values(fused: float, eager: float, fp64: float, ok: bool) -> None:
    assert compare(t(1.0, fused), t(1.0, eager), wide(1.0, fp64), exact=False).ok is ok


def test_subnormal_results_may_be_off_by_their_own_spacing() -> None:
    least = torch.finfo(torch.float32).smallest_normal * torch.finfo(torch.float32).eps
    assert compare(t(3 * least), t(2 * least), wide(2 * least), exact=False).ok
    assert not compare(t(9 * least), t(2 * least), wide(2 * least), exact=False).ok


def test_without_fp64_as_close_as_torch_testing_asks() -> None:
    eager = torch.ones(10)
    assert compare(eager * (1 + 1e-6), eager, None, exact=False).ok
    found = compare(eager * (1 + 1e-4), eager, None, exact=False)
    assert not found.ok and found.rule == CLOSE_RULE


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_integers_are_equal_or_not(dtype: torch.dtype) -> None:
    a = torch.tensor([1, 0, 1]).to(dtype)
    assert compare(a, a.clone(), None, exact=False).ok
    found = compare(a, torch.tensor([1, 0, 0]).to(dtype), None, exact=False)
    assert not found.ok and found.first == (2,)


def test_types_and_shapes() -> None:
    assert "float32 [2] on cpu, and eager gives" in compare(torch.ones(2), torch.ones(3), None, exact=False).rule
    assert not compare(torch.ones(2), torch.ones(2).double(), None, exact=False).ok


@pytest.mark.parametrize("dtype", FLOATS)
def test_zero_size_and_scalars(dtype: torch.dtype) -> None:
    empty = torch.empty(0, 3, dtype=dtype)
    assert compare(empty, empty.clone(), empty.double(), exact=False).ok
    one = torch.tensor(1.0, dtype=dtype)
    assert compare(one, one.clone(), one.double(), exact=True).ok
    assert compare(one, one + 1, one.double() + 1, exact=False).first == ()


def test_strided_results() -> None:
    a = torch.arange(12.0).view(3, 4).t()
    assert compare(a, a.contiguous(), a.double(), exact=True).ok


def test_an_infinity_may_be_that_of_fp64_where_eager_has_a_nan() -> None:
    fp64 = torch.tensor([math.inf, -math.inf, math.nan, 1.0], dtype=torch.float64)
    eager = torch.tensor([math.nan, -math.inf, math.nan, 1.0])
    assert compare(torch.tensor([math.inf, -math.inf, math.nan, 1.0]), eager, fp64, exact=False).ok
    assert not compare(torch.tensor([-math.inf, -math.inf, math.nan, 1.0]), eager, fp64, exact=False).ok
    assert not compare(torch.tensor([math.inf, math.inf, math.nan, 1.0]), eager, fp64, exact=False).ok
    assert not compare(torch.tensor([math.inf, -math.inf, math.nan, 1.0]), eager, fp64, exact=True).ok
