"""The chain's exact result, and the published figures that follow from counting passes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fusewise.lab import published
from fusewise.lab.chain import (
    INPUT_PERIOD,
    expected,
    first_difference,
    has_relu,
    make_input,
    published_passes,
    scale_of,
    shift_of,
)


def nearest(exact: Fraction) -> np.float32:
    """The fp32 number nearest to an exact one, ties to even."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.int32)) & 1))


@pytest.mark.parametrize("fma", [True, False])
def test_every_stage_rounds_as_it_says(fma: bool) -> None:
    n, k = 500, 5
    values = list(make_input(n))
    for stage in range(k):
        a, b = Fraction(float(scale_of(stage))), Fraction(float(shift_of(stage)))
        for i, value in enumerate(values):
            product = a * Fraction(float(value))
            total = nearest(product + b) if fma else nearest(Fraction(float(nearest(product))) + b)
            values[i] = max(total, np.float32(0)) if has_relu(stage) else total
    assert first_difference(expected(n, k, fma), np.array(values)) is None


def test_a_product_and_a_sum_differ_from_a_fused_one() -> None:
    assert first_difference(expected(4096, 8, True), expected(4096, 8, False)) is not None


def test_the_input_repeats_and_a_rotated_result_starts_elsewhere() -> None:
    n = 2 * INPUT_PERIOD
    assert np.array_equal(make_input(n)[:INPUT_PERIOD], make_input(n)[INPUT_PERIOD:])
    assert np.array_equal(expected(1024, 3, True, rotate=512)[:512], expected(1024, 3, True)[512:])


def test_a_difference_is_found_where_it_is() -> None:
    wanted = expected(64, 2, True)
    wrong = wanted.copy()
    wrong[17] = np.nan
    assert first_difference(wrong, wanted) == 17
    assert first_difference(wanted, wanted) is None
    assert first_difference(wanted[:32], wanted[32:]) == 0


def test_passes_of_the_published_naive_time() -> None:
    assert [published_passes(k) for k in published.KS] == [4, 4, 6, 8, 10]


def test_without_copies_the_published_ratios_lie_at_their_bound() -> None:
    found = [round(published.without_copies(k), 2) for k in published.KS]
    assert found[0] == 1.94 and found[-1] == 7.85
    assert all(0.95 * k < ratio <= k for k, ratio in zip(published.KS, found, strict=True))
