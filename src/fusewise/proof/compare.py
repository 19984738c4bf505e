"""When a fused result equals eager's: the rule, in one place.

Under `conservative` every bit must be eager's (a NaN equals a NaN whatever its payload).

Under the other policies, with the same computation in fp64 as the judge, a floating result of n elements may be off by
no more than

    over all elements, root mean square:  error(fused) <= r error(eager) + (1/4 + 2 / sqrt(n)) epsilon
    at each element:  |fused - fp64| <= r max |eager - fp64| + 2 units in the last place of fp64's value

with r = 1.5 (1 + 3 / sqrt(n)). r is 1.5 but for the uncertainty of an error that n elements tell: two roundings of
equal quality differ by that much, and a result of a single number may be lucky in eager. Epsilon is relative to the
result's size and no smaller than the spacing of subnormal numbers. A NaN or an infinity must be eager's or fp64's (the
two part where a difference that is 0 in eager's rounding meets an infinity); where eager itself overflows and fp64 does
not, nothing is asked of the element. Integers and truth values must be equal. Where no fp64 result is known, the result
must be as close to eager's as `torch.testing` asks for its type. The constants are those of the bench
(`fusewise.measure.check`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from fusewise.measure.check import ELEMENT_EPSILONS, ERROR_RATIO, RMS_EPSILONS

SAMPLING = 3.0  # standard deviations of a ratio of two errors that n elements each tell

BIT_RULE = "every bit must be eager's"
ERROR_RULE = "error against fp64 at most 1.5 times eager's own, and 2 units in the last place"
CLOSE_RULE = "as close to eager as torch.testing asks (no fp64 result is known)"
EQUAL_RULE = "must be equal"

# Relative and absolute tolerance of torch.testing.assert_close by type.
_CLOSE: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
}

_BITS: dict[int, torch.dtype] = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a comparison found.

    Attributes:
        bit_equal: every bit is the same, NaN payloads aside.
        max_ulp: largest distance between fused and eager in units in the last place, over elements where both are
            finite; None for other types than floating ones.
        error, eager_error: root-mean-square error relative to fp64; None where there is no fp64 result.
        ok: the rule holds.
        rule: the rule that was applied, or what is wrong with type or shape.
        first: index of the first element for which it does not hold.
    """

    bit_equal: bool
    max_ulp: int | None
    error: float | None
    eager_error: float | None
    ok: bool
    rule: str
    first: tuple[int, ...] | None = None


def compare(fused: torch.Tensor, eager: torch.Tensor, fp64: torch.Tensor | None, exact: bool) -> Outcome:
    """Compares one result with eager's and with fp64's.

    Args:
        exact: ask for eager's bits.
    """
    if fused.shape != eager.shape or fused.dtype != eager.dtype or fused.device.type != eager.device.type:
        kinds = [f"{t.dtype} {list(t.shape)} on {t.device}".removeprefix("torch.") for t in (fused, eager)]
        return Outcome(False, None, None, None, False, f"{kinds[0]}, and eager gives {kinds[1]}")
    fused, eager = fused.detach().contiguous(), eager.detach().contiguous()
    if not fused.is_floating_point() or fused.dtype not in _CLOSE:
        return _compare_exactly(fused, eager, EQUAL_RULE)
    same = same_bits(fused, eager)
    rule = BIT_RULE if exact else CLOSE_RULE if fp64 is None else ERROR_RULE
    if same.all():
        known = None if fp64 is None else _relative(eager, fp64.detach(), fp64.isfinite() & eager.isfinite())
        return Outcome(True, 0, known, known, True, rule)
    ulp = max_ulp(fused, eager)
    if fp64 is None:
        wrong = ~same if exact else ~_close(fused, eager)
        return Outcome(False, ulp, None, None, *_verdict(wrong, rule))
    fp64 = fp64.detach()
    counted = fp64.isfinite() & eager.isfinite() & fused.isfinite()
    error, eager_error = _relative(fused, fp64, counted), _relative(eager, fp64, counted)
    if exact:
        wrong = ~same
    else:
        wrong = _outside(fused, eager, fp64) & ~same
        limit = _ratio(fused) * eager_error + _rounding(fp64, counted, torch.finfo(fused.dtype))
        if not wrong.any() and error > limit:
            distance = torch.where(counted, (fused.double() - fp64).abs(), 0.0)
            wrong = distance == distance.max()
            rule = f"error {error:.3g} over all elements, and {limit:.3g} is allowed"
    return Outcome(False, ulp, error, eager_error, *_verdict(wrong, rule))


def same_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """True where the bits are the same, or both are NaN."""
    bits = _BITS[a.dtype.itemsize]
    return (a.view(bits) == b.view(bits)) | (a.isnan() & b.isnan())


def max_ulp(a: torch.Tensor, b: torch.Tensor) -> int:
    """The largest number of representable values between two finite elements."""
    finite = a.isfinite() & b.isfinite()
    if not finite.any():
        return 0
    places = [torch.where(finite, _place(t), 0) for t in (a, b)]
    high, low = torch.maximum(*places), torch.minimum(*places)
    # fp64's places span more than int64 can subtract: far apart counts as the most that it can
    gap = torch.where((high >= 0) & (low < 0) & (high > low + torch.iinfo(torch.int64).max), -1, high - low)
    return torch.iinfo(torch.int64).max if (gap < 0).any() else int(gap.max())


def _place(t: torch.Tensor) -> torch.Tensor:
    """A whole number for each value such that neighbours in value are neighbours in number; -0 is 0."""
    bits = t.view(_BITS[t.dtype.itemsize])
    least = torch.iinfo(bits.dtype).min
    wide = bits.to(torch.int64)
    return torch.where(wide < 0, least - wide, wide)


def _compare_exactly(fused: torch.Tensor, eager: torch.Tensor, rule: str) -> Outcome:
    wrong = fused != eager
    if fused.is_floating_point() or fused.is_complex():
        wrong &= ~(fused.isnan() & eager.isnan())
    ok, rule, first = _verdict(wrong, rule)
    return Outcome(ok, None, None, None, ok, rule, first)


def _verdict(wrong: torch.Tensor, rule: str) -> tuple[bool, str, tuple[int, ...] | None]:
    """(ok, rule, index of the first wrong element)."""
    if not wrong.any():
        return True, rule, None
    place = int(wrong.flatten().to(torch.uint8).argmax())
    return False, rule, tuple(int(i) for i in torch.unravel_index(torch.tensor(place), wrong.shape))


def _close(fused: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    rtol, atol = _CLOSE[fused.dtype]
    return torch.isclose(fused.double(), eager.double(), rtol=rtol, atol=atol, equal_nan=True)


def _relative(value: torch.Tensor, fp64: torch.Tensor, counted: torch.Tensor) -> float:
    distance = torch.where(counted, value.double() - fp64, 0.0).norm()
    size = torch.where(counted, fp64, 0.0).norm()
    return float(distance / size) if size > 0 else float(distance)


def _ratio(fused: torch.Tensor) -> float:
    return ERROR_RATIO * (1 + SAMPLING / math.sqrt(max(fused.numel(), 1)))


def _rounding(fp64: torch.Tensor, counted: torch.Tensor, info: torch.finfo) -> float:
    """What rounding alone may add to the root-mean-square error; of few elements any may be off by two units."""
    number = max(int(counted.sum()), 1)
    size = float(torch.where(counted, fp64, 0.0).norm()) / math.sqrt(number)
    spacing = info.smallest_normal * info.eps
    unit = max(info.eps, spacing / size) if size else spacing
    return (RMS_EPSILONS + ELEMENT_EPSILONS / math.sqrt(number)) * unit


def _outside(fused: torch.Tensor, eager: torch.Tensor, fp64: torch.Tensor) -> torch.Tensor:
    """True at each element that the rule forbids."""
    info = torch.finfo(fused.dtype)
    finite = fp64.isfinite() & eager.isfinite()
    off = torch.where(finite, (eager.double() - fp64).abs(), 0.0)
    own = off.max() if off.numel() else off.sum()
    unit = (info.eps * fp64.abs()).clamp(min=info.smallest_normal * info.eps)
    distance = (fused.double() - fp64).abs()
    too_far = finite & ~(distance <= _ratio(fused) * own + ELEMENT_EPSILONS * unit)
    # Not finite in fp64: its value or eager's. Eager overflows on its own: nothing is asked.
    agrees = (fused.isnan() & fp64.isnan()) | (fused.double() == fp64)
    special = ~fp64.isfinite() & ~_close(fused, eager) & ~agrees
    return too_far | special
