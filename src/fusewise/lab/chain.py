"""The chain of the lab: what it computes, the exact result, and how often each form of it passes over memory.

y = (1 + 0.01 (s + 1)) x + 0.001 (s + 1) for stage s, then ReLU where s is even; fp32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

INPUT_PERIOD = 65521
"""The input repeats after so many elements: a prime, so that an element read from the wrong place shows."""

ELEMENT_BYTES = 4


def scale_of(stage: int) -> np.float32:
    """The factor of a stage, rounded to fp32 once."""
    return np.float32(1 + 0.01 * (stage + 1))


def shift_of(stage: int) -> np.float32:
    """The summand of a stage, rounded to fp32 once."""
    return np.float32(0.001 * (stage + 1))


def has_relu(stage: int) -> bool:
    """True where a ReLU follows."""
    return stage % 2 == 0


def make_input(n: int, seed: int = 0) -> Floats:
    """`n` numbers of both signs that repeat after `INPUT_PERIOD`."""
    period = np.random.default_rng(seed).standard_normal(INPUT_PERIOD, dtype=np.float32)
    return np.resize(period, n)


def expected(n: int, k: int, fma: bool, rotate: int = 0, seed: int = 0) -> Floats:
    """The exact result of `k` stages on `make_input(n)`.

    Args:
        fma: a stage rounds once (a fused multiply-add, as our GPU kernels ask for) or twice (our CPU kernels).
        rotate: element i of the result belongs to input element (i + rotate) mod n.
    """
    values = make_input(min(n, INPUT_PERIOD), seed)
    for stage in range(k):
        a, b = scale_of(stage), shift_of(stage)
        values = _fma(a, values, b) if fma else a * values + b
        if has_relu(stage):
            values = np.maximum(values, np.float32(0))
    whole = np.resize(values, n)
    return np.roll(whole, -rotate) if rotate else whole


def _fma(a: np.float32, x: Floats, b: np.float32) -> Floats:
    """a x + b rounded once: the product is exact in fp64, the sum is rounded to odd there, and then to fp32."""
    product = np.float64(a) * x.astype(np.float64)
    total = product + np.float64(b)
    seen = total - product
    rest = (product - (total - seen)) + (np.float64(b) - seen)  # what the sum lost (two-sum, exact)
    even = (total.view(np.int64) & 1) == 0
    odd = np.where((rest != 0) & even, np.nextafter(total, np.copysign(np.inf, rest)), total)
    return odd.astype(np.float32)


def first_difference(found: NDArray[Any], wanted: NDArray[Any]) -> int | None:
    """Index of the first element that is not equal; None where all are."""
    if found.shape == wanted.shape and np.array_equal(found, wanted):
        return None
    different = np.flatnonzero(~(found == wanted))
    return int(different[0]) if different.size else 0


# ---- passes over memory: one reads n elements and writes n elements


def naive_passes(k: int) -> int:
    """One pass a stage: the least that unfused kernels do, so that naive / fused is at most k while traffic binds."""
    return k


def published_copies(k: int) -> int:
    """Device copies in the published naive time: the input first, and the result where it ends in the first buffer."""
    return 1 + (k % 2 == 0)


def published_passes(k: int) -> int:
    """Passes that the published naive time holds: 4, 4, 6, 8, 10 for k = 2, 3, 4, 6, 8."""
    return k + published_copies(k)
