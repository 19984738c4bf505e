"""Functions of one operand, casts and copies."""

from __future__ import annotations

import math
from typing import Any

from fusewise.errors import Unsupported
from fusewise.ir.builder import Value
from fusewise.ir.dtypes import BOOL, F64, DType
from fusewise.ir.expand.common import floating, number, only_eager_is_exact, own, stored, truth, with_sign
from fusewise.ir.expand.table import Context, Exactness, expands


def _float_op(name: str, exactness: Exactness = "inexact") -> None:
    """A float function that is one primitive; integers are computed in the default float type."""

    def expansion(c: Context, x: Value) -> Value:
        return c.give(c.b.op(name, floating(c, x)))

    expands(f"aten.{name}.default", exactness=exactness)(expansion)


# The functions of CUDA's libdevice, which Triton brings; every f32 and 16-bit input was compared.
for _name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atanh",
    "erfc",
):  # fmt: skip
    _float_op(_name, "cuda")
for _name in ("asin", "acos", "atan", "asinh", "acosh", "erf"):
    _float_op(_name)
_float_op("sqrt", "cuda")  # a CPU's vector library is not correctly rounded


@expands("aten.rsqrt.default", exactness="exact")
def _rsqrt(c: Context, x: Value) -> Value:
    value = floating(c, x)
    if c.device == "cpu":
        if x.dtype.is_half:
            only_eager_is_exact(
                c, "a CPU rounds the root to 16 bits in the last elements of a row and not in the others"
            )
        return c.give(1.0 / c.b.op("sqrt", value))
    if value.dtype == F64:
        only_eager_is_exact(c, "its bits are proven for f32 and 16-bit floats only")
    return c.give(c.b.op("rsqrt", value))


@expands("aten.reciprocal.default", exactness="exact")
def _reciprocal(c: Context, x: Value) -> Value:
    return c.give(1.0 / floating(c, x))


def _rounding(name: str, primitive: str) -> None:
    """Rounding to a whole number; the identity on integers."""

    def expansion(c: Context, x: Value) -> Value:
        if not x.dtype.is_float:
            return c.give(c.b.op("copy", x))
        return c.give(c.b.op(primitive, own(x)))

    expands(f"aten.{name}.default", exactness="exact")(expansion)


_rounding("floor", "floor")
_rounding("ceil", "ceil")
_rounding("trunc", "trunc")
_rounding("fix", "trunc")
_rounding("round", "round")


@expands("aten.round.decimals")
def _round_decimals(c: Context, x: Value, decimals: int = 0) -> Value:
    if not x.dtype.is_float:
        raise Unsupported("rounding integers to decimals")
    value, scale = own(x), 10.0 ** abs(decimals)
    if decimals >= 0:
        return c.give(c.b.op("round", value * scale) / scale)
    return c.give(c.b.op("round", value / scale) * scale)


@expands("aten.frac.default", exactness="exact")
def _frac(c: Context, x: Value) -> Value:
    value = own(x)
    return c.give(value - c.b.op("trunc", value))


@expands("aten.neg.default", exactness="exact")
def _neg(c: Context, x: Value) -> Value:
    if x.dtype == BOOL:
        raise Unsupported("negation of a bool tensor")
    return c.give(-own(x))


@expands("aten.abs.default", exactness="exact")
def _abs(c: Context, x: Value) -> Value:
    return c.give(x if x.dtype == BOOL else c.b.op("abs", own(x)))


@expands("aten.square.default", exactness="exact")
def _square(c: Context, x: Value) -> Value:
    value = own(x)
    return c.give(value * value)


@expands("aten.sign.default", "aten.sgn.default", exactness="exact")
def _sign(c: Context, x: Value) -> Value:
    if x.dtype == BOOL:
        return c.give(c.b.op("copy", x))
    value = own(x)
    # a NaN is neither above nor below 0 and gives 0, as in eager
    return c.give((value > 0).cast(value.dtype) - (value < 0).cast(value.dtype))


@expands("aten.signbit.default", exactness="exact")
def _signbit(c: Context, x: Value) -> Value:
    if x.dtype.kind in ("bool", "uint"):
        return c.give(c.b.full(x.shape, False, BOOL))
    if not x.dtype.is_float:
        return c.give(own(x) < 0)
    return c.give(c.b.op("copysign", 1.0, with_sign(c, own(x), x.dtype)) < 0)


@expands("aten.isnan.default", exactness="exact")
def _isnan(c: Context, x: Value) -> Value:
    if not x.dtype.is_float:
        return c.give(c.b.full(x.shape, False, BOOL))
    value = own(x)
    return c.give(value.ne(value))


@expands("aten.isinf.default", exactness="exact")
def _isinf(c: Context, x: Value) -> Value:
    if not x.dtype.is_float:
        return c.give(c.b.full(x.shape, False, BOOL))
    return c.give(c.b.op("abs", own(x)).eq(math.inf))


@expands("aten.isfinite.default", exactness="exact")
def _isfinite(c: Context, x: Value) -> Value:
    if not x.dtype.is_float:
        return c.give(c.b.full(x.shape, True, BOOL))
    return c.give(c.b.op("abs", own(x)) < math.inf)


@expands("aten.isposinf.default", exactness="exact")
def _isposinf(c: Context, x: Value) -> Value:
    if not x.dtype.is_float:
        return c.give(c.b.full(x.shape, False, BOOL))
    return c.give(own(x).eq(math.inf))


@expands("aten.isneginf.default", exactness="exact")
def _isneginf(c: Context, x: Value) -> Value:
    if not x.dtype.is_float:
        return c.give(c.b.full(x.shape, False, BOOL))
    return c.give(own(x).eq(-math.inf))


_LARGEST = {
    "f64": 1.7976931348623157e308,
    "f32": 3.4028234663852886e38,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
}


@expands("aten.nan_to_num.default", exactness="exact")
def _nan_to_num(
    c: Context, x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    if not x.dtype.is_float:
        return c.give(c.b.op("copy", x))
    value = own(x)
    top = _LARGEST[x.dtype.name]
    for_nan = stored(c, 0.0 if nan is None else number(nan), x.dtype)
    for_high = stored(c, top if posinf is None else number(posinf), x.dtype)
    for_low = stored(c, -top if neginf is None else number(neginf), x.dtype)
    out = c.b.where(value.eq(math.inf), for_high, c.b.where(value.eq(-math.inf), for_low, value))
    return c.give(c.b.where(value.ne(value), for_nan, out))


@expands("aten.logical_not.default", exactness="exact")
def _logical_not(c: Context, x: Value) -> Value:
    return c.give(~truth(x))


@expands("aten.bitwise_not.default", exactness="exact")
def _bitwise_not(c: Context, x: Value) -> Value:
    if x.dtype.is_float:
        raise Unsupported("bitwise arithmetic on floats")
    return c.give(~x)


def _scaled(name: str, factor: float) -> None:
    def expansion(c: Context, x: Value) -> Value:
        return c.give(floating(c, x) * factor)

    expands(f"aten.{name}.default", exactness="exact")(expansion)


_scaled("deg2rad", math.pi / 180)
_scaled("rad2deg", 180 / math.pi)


@expands("aten.sinc.default", exactness="cuda")
def _sinc(c: Context, x: Value) -> Value:
    value = floating(c, x)
    product = value * math.pi
    return c.give(c.b.where(value.eq(0), 1.0, c.b.op("sin", product) / product))


@expands("aten.sigmoid.default", exactness="cuda")
def _sigmoid(c: Context, x: Value) -> Value:
    return c.give(1.0 / (1.0 + c.b.op("exp", -floating(c, x))))


@expands("aten.logit.default", exactness="inexact")
def _logit(c: Context, x: Value, eps: float | None = None) -> Value:
    value = floating(c, x)
    if eps is not None:
        dtype = x.dtype if x.dtype.is_float else c.out.dtype
        low, high = stored(c, number(eps), dtype), stored(c, 1.0 - number(eps), dtype)
        value = c.b.where(value < low, low, c.b.where(value > high, high, value))
    return c.give(c.b.op("log", value / (1.0 - value)))


# ---- casts and copies


def _convert(c: Context, x: Value, dtype: DType | None = None, **_layout: Any) -> Value:
    """A new tensor of the result's dtype; through f32 between the 16-bit floats and the other types, as in C++."""
    if x.dtype == c.out.dtype:
        return c.give(c.b.op("copy", x))
    return c.give(x)


expands("aten._to_copy.default", exactness="exact")(_convert)
expands("prims.convert_element_type.default", exactness="exact")(_convert)


@expands("aten.clone.default", "aten.lift_fresh_copy.default", "aten.contiguous.default", exactness="exact")
def _clone(c: Context, x: Value, *_args: Any, **_layout: Any) -> Value:
    return c.give(c.b.op("copy", x))


@expands(
    "aten.alias.default",
    "aten.detach.default",
    "aten.lift_fresh.default",
    "prims.view_of.default",
    exactness="exact",
)
def _alias(c: Context, x: Value) -> Value:
    return c.give(x)


@expands("aten.copy.default", exactness="exact")
def _copy(c: Context, destination: Value, source: Value, non_blocking: bool = False) -> Value:
    value = source if source.dtype != c.out.dtype else c.b.op("copy", source)
    return c.give(value)
