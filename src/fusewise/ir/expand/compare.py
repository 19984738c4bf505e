"""Comparisons, selection, bounds."""

from __future__ import annotations

import math

from fusewise.ir.builder import Scalar, Value
from fusewise.ir.expand.common import Operand, number, only_eager_is_exact, own, refuse_zeros, stored
from fusewise.ir.expand.table import Context, expands


def _comparison(name: str) -> None:
    def expansion(c: Context, a: Operand, b: Operand) -> Value:
        return c.give(c.b.op(name, stored(c, a), stored(c, b)))

    expands(f"aten.{name}.Tensor", f"aten.{name}.Scalar", exactness="exact")(expansion)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name)


def _selected(c: Context, cond: Value, then: Operand, other: Operand) -> Value:
    dtype = c.out.dtype
    condition = cond if cond.dtype.kind == "bool" else cond.ne(0)  # a u8 condition is taken as bool
    return c.give(c.b.where(condition, stored(c, then, dtype), stored(c, other, dtype)))


@expands(
    "aten.where.self",
    "aten.where.ScalarOther",
    "aten.where.ScalarSelf",
    "aten.where.Scalar",
    exactness="exact",
)
def _where(c: Context, cond: Value, then: Operand, other: Operand) -> Value:
    return _selected(c, cond, then, other)


@expands("aten.masked_fill.Scalar", "aten.masked_fill.Tensor", exactness="exact")
def _masked_fill(c: Context, x: Value, mask: Value, value: Operand) -> Value:
    return _selected(c, mask, value, x)


def _at_least(c: Context, x: Value, low: Value) -> Value:
    """x where it is not below `low`; a NaN stays. Beside a bound of 0 a -0 stays on a CPU and gives 0 on a GPU."""
    return c.b.where(x < low, low, x) if c.device == "cpu" else c.b.op("maximum", x, low)


def _at_most(c: Context, x: Value, high: Value) -> Value:
    return c.b.where(x > high, high, x) if c.device == "cpu" else c.b.op("minimum", x, high)


@expands("aten.clamp.default", exactness="exact")
def _clamp(c: Context, x: Value, low: Scalar | None = None, high: Scalar | None = None) -> Value:
    bounds = [number(b) for b in (low, high) if b is not None]
    if any(math.isnan(b) for b in bounds):
        return c.give(c.b.full(x.shape, math.nan, c.out.dtype))
    value = stored(c, x)
    if low is not None:
        value = _at_least(c, value, stored(c, low))
    if high is not None:
        value = _at_most(c, value, stored(c, high))
    return c.give(value)


@expands("aten.clamp_min.default", exactness="exact")
def _clamp_min(c: Context, x: Value, low: Scalar) -> Value:
    return _clamp(c, x, low, None)


@expands("aten.clamp_max.default", exactness="exact")
def _clamp_max(c: Context, x: Value, high: Scalar) -> Value:
    return _clamp(c, x, None, high)


@expands("aten.clamp.Tensor", exactness="exact")
def _clamp_tensor(c: Context, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    refuse_zeros(c)
    value = stored(c, x)
    if low is not None:
        value = c.b.op("maximum", value, stored(c, low))
    if high is not None:
        value = c.b.op("minimum", value, stored(c, high))
    return c.give(value)


@expands("aten.clamp_min.Tensor", exactness="exact")
def _clamp_min_tensor(c: Context, x: Value, low: Value) -> Value:
    return _clamp_tensor(c, x, low, None)


@expands("aten.clamp_max.Tensor", exactness="exact")
def _clamp_max_tensor(c: Context, x: Value, high: Value) -> Value:
    return _clamp_tensor(c, x, None, high)


@expands("aten.relu.default", exactness="exact")
def _relu(c: Context, x: Value) -> Value:
    value = own(x)
    return c.give(_at_least(c, value, c.b.const(0, value.dtype)))


@expands("aten.hardtanh.default", "aten.relu6.default", exactness="exact")
def _hardtanh(c: Context, x: Value, low: Scalar = 0, high: Scalar = 6) -> Value:
    value = own(x)
    value = _at_least(c, value, stored(c, low, x.dtype))
    return c.give(_at_most(c, value, stored(c, high, x.dtype)))


@expands("aten.hardtanh_backward.default", exactness="exact")
def _hardtanh_backward(c: Context, grad: Value, x: Value, low: Scalar, high: Scalar) -> Value:
    if c.device == "cpu":
        only_eager_is_exact(c, "what a CPU gives for a NaN depends on the element's place")
    value = own(x)
    outside = (value <= number(low)) | (value >= number(high))
    return c.give(c.b.where(outside, 0, own(grad)))


def _threshold_of(c: Context, x: Value, threshold: Scalar) -> Value:
    """The threshold in the type of the comparison: a CPU compares in f32, a GPU rounds it to a 16-bit type first."""
    if c.device == "cpu":
        return c.lift(threshold, own(x).dtype)
    return stored(c, threshold, x.dtype)


@expands("aten.threshold.default", exactness="exact")
def _threshold(c: Context, x: Value, threshold: Scalar, value: Scalar) -> Value:
    below = own(x) <= _threshold_of(c, x, threshold)
    return c.give(c.b.where(below, stored(c, value, x.dtype), own(x)))


@expands("aten.threshold_backward.default", exactness="exact")
def _threshold_backward(c: Context, grad: Value, x: Value, threshold: Scalar) -> Value:
    below = own(x) <= _threshold_of(c, x, threshold)
    return c.give(c.b.where(below, 0, own(grad).cast(own(x).dtype)))
