"""Summaries of samples: median with 10th and 90th percentile, geometric mean of ratios."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """Median, 10th and 90th percentile of `runs` samples, in the samples' own unit."""

    median: float
    p10: float
    p90: float
    runs: int


def percentile(samples: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the samples lie, linear between neighbours.

    Raises:
        ValueError: no samples, or a share outside 0 to 1.
    """
    if not samples:
        raise ValueError("no samples")
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share {share} is not between 0 and 1")
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two in the middle."""
    return percentile(samples, 0.5)


def summarize(samples: Sequence[float]) -> Summary:
    """Median, p10 and p90 of the samples; raises ValueError where there are none."""
    return Summary(median(samples), percentile(samples, 0.1), percentile(samples, 0.9), len(samples))


def geometric_mean(ratios: Iterable[float]) -> float:
    """exp of the mean logarithm; raises ValueError for no ratios or one that is not positive."""
    values = list(ratios)
    if not values or min(values) <= 0:
        raise ValueError("a geometric mean needs positive ratios, at least one")
    return math.exp(sum(math.log(v) for v in values) / len(values))
