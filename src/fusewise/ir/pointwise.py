"""The pointwise primitives in numpy: the arithmetic of each op, to the bit where IEEE 754 or integers fix it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fusewise.errors import IRError
from fusewise.ir.dtypes import DType
from fusewise.ir.rounding import NUMPY, Array, round_bf16


def cast(value: Array, dtype: DType) -> Array:
    """`value` converted as C++ does it: to a 16-bit float by way of f32, to bool by != 0."""
    if dtype.kind == "bool":
        return value != 0 if value.dtype != np.bool_ else value
    if dtype.is_half:
        single = value.astype(np.float32)
        return round_bf16(single) if dtype.name == "bf16" else single.astype(np.float16)
    return value.astype(NUMPY[dtype.name])


def compute(op: str, args: Sequence[Array], dtype: DType) -> Array:
    """The result of pointwise op `op`, of `dtype`."""
    if op == "cast":
        return cast(args[0], dtype)
    if op in _DOUBLE:
        # f32 in f64, rounded once; f64 as numpy has it
        wide = [a.astype(np.float64) for a in args]
        return np.asarray(_DOUBLE[op](*wide)).astype(NUMPY[dtype.name])
    if op not in _PLAIN:
        raise IRError(f"the interpreter does not know {op!r}")
    out = np.asarray(_PLAIN[op](*args))
    if dtype.name == "bf16" and out.dtype == np.float32:
        out = round_bf16(out)
    return out.astype(NUMPY[dtype.name], copy=False)


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    mapped = np.frompyfunc(function, 1, 1)

    def apply(value: Array) -> Array:
        return np.asarray(mapped(value), dtype=np.float64)

    return apply


def _rsqrt(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


_DOUBLE: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "rsqrt": _rsqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "pow": np.power,
    "atan2": np.arctan2,
}


def _not(x: Array) -> Array:
    return np.logical_not(x) if x.dtype == np.bool_ else np.invert(x)


def _truncdiv(a: Array, b: Array) -> Array:
    quotient = np.floor_divide(a, b)
    # floor differs from truncation by one where the signs differ and there is a remainder
    return np.where((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)), quotient + 1, quotient).astype(a.dtype)


def _truncrem(a: Array, b: Array) -> Array:
    return np.fmod(a, b)


def _shl(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0).astype(a.dtype)), 0).astype(a.dtype)


def _shr(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    shifted = np.right_shift(a, np.where(inside, b, 0).astype(a.dtype))
    return np.where(inside, shifted, np.where(a < 0, -1, 0).astype(a.dtype)).astype(a.dtype)


def _maximum(a: Array, b: Array) -> Array:
    """+0 is above -0."""
    greater = np.maximum(a, b)
    return np.where((a == 0) & (b == 0), a + b, greater) if a.dtype.kind == "f" else greater


def _minimum(a: Array, b: Array) -> Array:
    return -_maximum(-a, -b) if a.dtype.kind == "f" else np.minimum(a, b)


def _fma(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float64:
        return np.asarray(np.frompyfunc(_fma_double, 3, 1)(a, b, c), dtype=np.float64)
    # The product of two f32 is exact in f64. Their sum with c is rounded to odd there (Boldo and Melquiond 2008), which
    # makes the second rounding, to f32, the only one that counts.
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = np.asarray(total).view(np.int64)
    nudge = np.where((error != 0) & np.isfinite(total) & ((bits & 1) == 0), 1, 0)
    toward = np.where((error > 0) == (total > 0), nudge, -nudge)
    return (bits + toward).view(np.float64).astype(np.float32)


def _fma_double(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # the sign of a zero
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_PLAIN: dict[str, Callable[..., Any]] = {
    "copy": np.asarray,
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "sqrt": np.sqrt,
    "not": _not,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "minimum": _minimum,
    "maximum": _maximum,
    "truncdiv": _truncdiv,
    "floordiv": np.floor_divide,
    "truncrem": _truncrem,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shl,
    "shr": _shr,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "where": np.where,
    "fma": _fma,
}
