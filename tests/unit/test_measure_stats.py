from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusewise.measure.stats import Summary, geometric_mean, median, percentile, summarize

samples = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60)


@given(samples, st.floats(0.0, 1.0))
def test_percentile_is_numpys(values: list[float], share: float) -> None:
    assert percentile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9)


def test_summary_does_not_depend_on_order() -> None:
    assert summarize([5.0, 1.0, 3.0, 2.0, 4.0]) == Summary(median=3.0, p10=1.4, p90=4.6, runs=5)


def test_median_of_an_even_count_lies_between() -> None:
    assert median([4.0, 1.0]) == 2.5


@given(samples)
def test_geometric_mean_of_ratios_and_of_their_inverses(values: list[float]) -> None:
    assert geometric_mean(values) * geometric_mean(1 / v for v in values) == pytest.approx(1.0)


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [-1.0]])
def test_geometric_mean_refuses(values: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        geometric_mean(values)


def test_percentile_refuses() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        percentile([1.0], 1.5)
