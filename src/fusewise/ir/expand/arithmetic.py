"""Arithmetic of two and three operands.

Python numbers beside 16-bit tensors: a TensorIterator rounds them to the tensor's type, except in the kernels that keep
them in f32 (mul, div, addcmul, addcdiv, lerp). Seen by experiment on a CPU; CUDA kernels are named where they differ.
"""

from __future__ import annotations

import math

from fusewise.errors import Unsupported
from fusewise.ir.builder import Scalar, Value
from fusewise.ir.dtypes import F16, F32
from fusewise.ir.expand.common import (
    Operand,
    is_number,
    kept,
    number,
    only_eager_is_exact,
    own,
    refuse_zeros,
    rounded,
    stored,
    truth,
    with_sign,
)
from fusewise.ir.expand.table import Context, expands
from fusewise.ir.rounding import round_scalar


def _is_bool(c: Context) -> bool:
    return c.promoted.kind == "bool"


def _scalar_side(c: Context, x: Operand) -> Value:
    """An operand of add and sub: on a CPU rounded as stored, on a GPU a number stays in f32."""
    return stored(c, x) if c.device == "cpu" else kept(c, x)


@expands("aten.add.Tensor", "aten.add.Scalar", exactness="exact")
def _add(c: Context, a: Operand, b: Operand, alpha: Scalar = 1) -> Value:
    if _is_bool(c):
        return c.give(c.b.op("or", stored(c, a), stored(c, b)) if alpha else stored(c, a))
    return c.give(_plus(c, a, b, alpha))


@expands("aten.sub.Tensor", "aten.sub.Scalar", exactness="exact")
def _sub(c: Context, a: Operand, b: Operand, alpha: Scalar = 1) -> Value:
    if _is_bool(c):
        raise Unsupported("subtraction of bool tensors")
    return c.give(_plus(c, a, b, -alpha))


@expands("aten.rsub.Tensor", "aten.rsub.Scalar", exactness="exact")
def _rsub(c: Context, a: Operand, b: Operand, alpha: Scalar = 1) -> Value:
    if _is_bool(c):
        raise Unsupported("subtraction of bool tensors")
    return c.give(_plus(c, b, a, -alpha))


def _plus(c: Context, a: Operand, b: Operand, alpha: Scalar) -> Value:
    """a + alpha * b as eager has it: one fma on floats (CPU and CUDA), wrapping on integers."""
    x, y = _scalar_side(c, a), _scalar_side(c, b)
    if alpha == 1:
        return x + y
    if alpha == -1:
        return x - y
    if not c.promoted.is_float:
        return x + y * c.b.const(int(alpha), c.promoted)
    if c.promoted.is_half and c.device == "cpu":
        only_eager_is_exact(c, "a CPU rounds alpha * b to 16 bits in the last elements of a row and not in the others")
    return c.b.op("fma", y, stored(c, alpha) if c.device == "cpu" else c.compute(alpha), x)


@expands("aten.mul.Tensor", "aten.mul.Scalar", exactness="exact")
def _mul(c: Context, a: Operand, b: Operand) -> Value:
    if _is_bool(c):
        return c.give(c.b.op("and", stored(c, a), stored(c, b)))
    left = stored(c, a) if c.device == "cpu" else kept(c, a)
    return c.give(left * kept(c, b))


def _quotient(c: Context, a: Operand, b: Operand) -> Value:
    """a / b in the compute type. CUDA's kernel multiplies by the reciprocal of a number."""
    left = stored(c, a) if c.device == "cpu" else kept(c, a)
    if c.device != "cpu" and is_number(b):
        return left * _reciprocal_of(number(b), left)
    return left / kept(c, b)


def _reciprocal_of(x: float, like: Value) -> float:
    """1 / x rounded to the type of `like`, x rounded first, as CUDA's kernels have it."""
    divisor = round_scalar(x, like.dtype)
    if divisor == 0:
        return math.copysign(math.inf, divisor)
    return round_scalar(1.0 / divisor, like.dtype)


@expands("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", exactness="exact")
def _div(c: Context, a: Operand, b: Operand) -> Value:
    return c.give(_quotient(_as_float(c), a, b))


def _as_float(c: Context) -> Context:
    """The context with the promoted dtype turned to the result's where it is an integer (true division)."""
    if c.promoted.is_float:
        return c
    return Context(c.b, c.outs, c.out.dtype, c.device, c.policy)


@expands("aten.div.Tensor_mode", "aten.div.Scalar_mode", exactness="exact")
def _div_mode(c: Context, a: Operand, b: Operand, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return _div(c, a, b)
    if rounding_mode == "floor":
        return _floor_divide(c, a, b)
    if not c.promoted.is_float:
        return c.give(_integer_op(c, "truncdiv", a, b))
    quotient = _quotient(c, a, b)
    if c.promoted.is_half and isinstance(b, Value):
        quotient = rounded(quotient, c.promoted)  # the quotient is a 16-bit value before trunc
    return c.give(c.b.op("trunc", quotient))


@expands("aten.floor_divide.default", "aten.floor_divide.Scalar", exactness="exact")
def _floor_divide(c: Context, a: Operand, b: Operand) -> Value:
    if not c.promoted.is_float:
        return c.give(_integer_op(c, "floordiv", a, b))
    if c.promoted.is_half:
        only_eager_is_exact(c, "floor division of 16-bit floats rounds each step")
    _refuse_fmod(c)
    x, y = stored(c, a), kept(c, b)
    # as Python divides: (a - fmod(a, b)) / b, corrected for signs and for the rounding of the quotient
    mod = c.b.op("fmod", x, y)
    if c.device != "cpu" and is_number(b) and number(b) != 0:
        quotient = (x - mod) * _reciprocal_of(number(b), x)
        plain = x * _reciprocal_of(number(b), x)
    else:
        quotient = (x - mod) / y
        plain = x / y
    down = mod.ne(0) & (y < 0).ne(mod < 0)
    quotient = c.b.where(down, quotient - 1, quotient)
    floor = c.b.op("floor", quotient)
    floor = c.b.where((quotient - floor) > 0.5, floor + 1, floor)
    floor = c.b.where(quotient.eq(0), c.b.op("copysign", 0.0, plain), floor)
    return c.give(c.b.where(y.eq(0), x / y, floor))


def _integer_op(c: Context, name: str, a: Operand, b: Operand) -> Value:
    """Integer division. Eager raises on a zero divisor on a CPU."""
    if _is_bool(c):
        raise Unsupported("division of bool tensors")
    if is_number(b) and b == 0:
        raise Unsupported("integer division by zero")
    divisor = stored(c, b)
    if c.device == "cpu" and not is_number(b):
        divisor = c.b.guard(divisor.ne(0), divisor, "ZeroDivisionError")
    return c.b.op(name, stored(c, a), divisor)


def _refuse_fmod(c: Context) -> None:
    """Keeps fmod of floats eager under the conservative policy on a CPU."""
    if c.device == "cpu":
        only_eager_is_exact(c, "a CPU's vector fmod gives NaN where the quotient overflows, its scalar one is exact")


@expands("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor", exactness="exact")
def _remainder(c: Context, a: Operand, b: Operand) -> Value:
    if not c.promoted.is_float:
        rest = _integer_op(c, "truncrem", a, b)
        divisor = stored(c, b)
        off = rest.ne(0) & (rest < 0).ne(divisor < 0)
        return c.give(c.b.where(off, rest + divisor, rest))
    _refuse_fmod(c)
    x, y = stored(c, a), stored(c, b)
    mod = c.b.op("fmod", x, y)
    off = mod.ne(0) & (y < 0).ne(mod < 0)
    return c.give(c.b.where(off, mod + y, mod))


@expands("aten.fmod.Tensor", "aten.fmod.Scalar", exactness="exact")
def _fmod(c: Context, a: Operand, b: Operand) -> Value:
    if not c.promoted.is_float:
        return c.give(_integer_op(c, "truncrem", a, b))
    _refuse_fmod(c)
    return c.give(c.b.op("fmod", stored(c, a), stored(c, b)))


@expands("aten.pow.Tensor_Scalar", exactness="exact")
def _pow_scalar(c: Context, a: Value, exponent: Scalar) -> Value:
    power = number(exponent)
    # x * x is rounded once in every type; eager's f16 and bf16 kernels round x * x again before x * x * x
    if not c.promoted.is_float or not (power in (0, 1, 2) or (power == 3 and c.promoted == F32)):
        only_eager_is_exact(c, "eager's kernels have other code for powers that are not 0, 1, 2 (or 3 on f32)")
    if not c.promoted.is_float:
        return c.give(_integer_power(c, stored(c, a), power))
    x = stored(c, a)
    if power == 0:
        return c.give(c.b.const(1, x.dtype))
    if power == 1:
        return c.give(x)
    return c.give(_special_power(c, x, power) or c.b.op("pow", x, power))


def _special_power(c: Context, x: Value, power: float) -> Value | None:
    """The exponents for which eager's kernels have code of their own."""
    if power == 2:
        return x * x
    if power == 3:
        return x * x * x
    if power == -2:
        return 1.0 / (x * x)
    if abs(power) == 0.5 and c.device == "cpu" and c.promoted == F16:
        return None  # eager's own f16 kernel has no root: (-inf) ** 0.5 is inf there
    if power == 0.5:
        return c.b.op("sqrt", x)
    if power == -0.5:
        return c.b.op("rsqrt", x) if c.device != "cpu" else 1.0 / c.b.op("sqrt", x)
    if power == -1:
        return 1.0 / x
    return None


def _integer_power(c: Context, x: Value, power: float) -> Value:
    """x ** power on integers by repeated squaring (wrapping)."""
    if power < 0 or power != int(power) or x.dtype.kind == "bool":
        raise Unsupported("an integer raised to a negative or bool power")
    out, square, rest = c.b.const(1, x.dtype), x, int(power)
    while rest:
        if rest & 1:
            out = out * square
        rest >>= 1
        if rest:
            square = square * square
    return out


@expands("aten.pow.Tensor_Tensor", exactness="inexact")
def _pow(c: Context, a: Value, b: Value) -> Value:
    if not c.promoted.is_float:
        raise Unsupported("integer power of a tensor")
    return c.give(c.b.op("pow", stored(c, a), stored(c, b)))


@expands("aten.pow.Scalar", exactness="inexact")
def _pow_of_scalar(c: Context, a: Scalar, b: Value) -> Value:
    if number(a) == 1:
        return c.give(c.b.const(1, c.out.dtype))
    if not c.promoted.is_float:
        raise Unsupported("integer power of a tensor")
    if c.device == "cpu" and number(a) == 2:
        return c.give(c.b.op("exp2", stored(c, b)))
    return c.give(c.b.op("pow", stored(c, a), stored(c, b)))


@expands("aten.atan2.default", exactness="inexact")
def _atan2(c: Context, a: Value, b: Value) -> Value:
    f = _as_float(c)
    return c.give(c.b.op("atan2", stored(f, a), stored(f, b)))


@expands("aten.copysign.Tensor", "aten.copysign.Scalar", exactness="exact")
def _copysign(c: Context, a: Operand, b: Operand) -> Value:
    f = _as_float(c)
    return c.give(c.b.op("copysign", stored(f, a), with_sign(f, stored(f, b), f.promoted)))


@expands("aten.hypot.default", exactness="inexact")
def _hypot(c: Context, a: Value, b: Value) -> Value:
    x, y = c.b.op("abs", stored(c, a)), c.b.op("abs", stored(c, b))
    # scaled by the larger, so that no square overflows; an infinity wins over a NaN
    big, small = c.b.op("maximum", x, y), c.b.op("minimum", x, y)
    ratio = c.b.where(big.eq(0), 0.0, small / c.b.where(big.eq(0), 1.0, big))
    length = big * c.b.op("sqrt", c.b.op("fma", ratio, ratio, 1.0))
    infinite = x.eq(math.inf) | y.eq(math.inf)
    return c.give(c.b.where(infinite, math.inf, length))


@expands("aten.maximum.default", exactness="exact")
def _maximum(c: Context, a: Value, b: Value) -> Value:
    if _is_bool(c):
        return c.give(c.b.op("or", stored(c, a), stored(c, b)))
    refuse_zeros(c)
    return c.give(c.b.op("maximum", stored(c, a), stored(c, b)))


@expands("aten.minimum.default", exactness="exact")
def _minimum(c: Context, a: Value, b: Value) -> Value:
    if _is_bool(c):
        return c.give(c.b.op("and", stored(c, a), stored(c, b)))
    refuse_zeros(c)
    return c.give(c.b.op("minimum", stored(c, a), stored(c, b)))


def _ignoring_nan(c: Context, name: str, a: Value, b: Value) -> Value:
    x, y = stored(c, a), stored(c, b)
    if not c.promoted.is_float:
        return c.b.op(name, x, y)
    if c.device == "cpu":
        only_eager_is_exact(c, "a CPU gives NaN beside a signaling NaN, and the other operand beside a quiet one")
    chosen = c.b.op(name, x, y)
    if c.device == "cpu":
        # of equal operands the first, which tells the zeros apart
        chosen = c.b.where(x < y if name == "maximum" else x > y, y, x)
    return c.b.where(x.ne(x), y, c.b.where(y.ne(y), x, chosen))


@expands("aten.fmax.default", exactness="exact")
def _fmax(c: Context, a: Value, b: Value) -> Value:
    if _is_bool(c):
        return _maximum(c, a, b)
    return c.give(_ignoring_nan(c, "maximum", a, b))


@expands("aten.fmin.default", exactness="exact")
def _fmin(c: Context, a: Value, b: Value) -> Value:
    if _is_bool(c):
        return _minimum(c, a, b)
    return c.give(_ignoring_nan(c, "minimum", a, b))


@expands("aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other", exactness="cuda")
def _xlogy(c: Context, a: Operand, b: Operand) -> Value:
    f = _as_float(c)
    x, y = stored(f, a), stored(f, b)
    value = c.b.where(x.eq(0), 0.0, x * c.b.op("log", y))
    return c.give(c.b.where(y.ne(y), math.nan, value))


@expands(
    "aten.special_xlog1py.default",
    "aten.special_xlog1py.self_scalar",
    "aten.special_xlog1py.other_scalar",
    exactness="cuda",
)
def _xlog1py(c: Context, a: Operand, b: Operand) -> Value:
    f = _as_float(c)
    x, y = stored(f, a), stored(f, b)
    value = c.b.where(x.eq(0), 0.0, x * c.b.op("log1p", y))
    return c.give(c.b.where(y.ne(y), math.nan, value))


@expands("aten.logaddexp.default", exactness="cuda")
def _logaddexp(c: Context, a: Value, b: Value) -> Value:
    x, y = stored(c, a), stored(c, b)
    high = c.b.op("maximum", x, y)
    gap = c.b.op("abs", x - y)
    value = high + c.b.op("log1p", c.b.op("exp", -gap))
    # two equal infinities: their difference is NaN
    return c.give(c.b.where(x.eq(y) & c.b.op("abs", x).eq(math.inf), x, value))


@expands("aten.heaviside.default", exactness="exact")
def _heaviside(c: Context, a: Value, b: Value) -> Value:
    x, y = stored(c, a), stored(c, b)
    if _is_bool(c):
        return c.give(c.b.op("or", x, ~x & y))
    return c.give(c.b.where(x.eq(0), y, (x > 0).cast(x.dtype)))


@expands("aten.addcmul.default", exactness="inexact")
def _addcmul(c: Context, a: Value, b: Value, d: Value, value: Scalar = 1) -> Value:
    x, y, z = stored(c, a), stored(c, b), stored(c, d)
    factor = c.compute(value)
    if not c.promoted.is_float:
        return c.give(x + factor * y * z)
    if c.device == "cpu":
        return c.give(x + factor * y * z)
    return c.give(c.b.op("fma", factor, y * z, x))


@expands("prims.fma.default", exactness="inexact")
def _fma(c: Context, a: Operand, b: Operand, d: Operand) -> Value:
    """a * b + d, rounded once: what Dynamo writes for the products of an optimiser's step."""
    if not c.promoted.is_float:
        raise Unsupported("a fused multiply-add of integers")
    return c.give(c.b.op("fma", c.compute(a), c.compute(b), c.compute(d)))


@expands("aten.addcdiv.default", exactness="exact")
def _addcdiv(c: Context, a: Value, b: Value, d: Value, value: Scalar = 1) -> Value:
    x, y, z = stored(c, a), stored(c, b), stored(c, d)
    factor = c.compute(value)
    if not c.promoted.is_float:
        raise Unsupported("addcdiv of integers")
    if c.device == "cpu":
        return c.give(x + factor * y / z)
    return c.give(c.b.op("fma", factor, y / z, x))


def _lerp(c: Context, start: Value, end: Value, weight: Value) -> Value:
    """self + w (end - self) where |w| < 0.5, else end - (end - self) (1 - w)."""
    span = end - start
    near = c.b.op("fma", weight, span, start)
    far = c.b.op("fma", -span, 1.0 - weight, end)
    return c.b.where(c.b.op("abs", weight) < 0.5, near, far)


@expands("aten.lerp.Scalar", exactness="exact")
def _lerp_scalar(c: Context, a: Value, b: Value, weight: Scalar) -> Value:
    return c.give(_lerp(c, own(a), own(b), c.compute(weight)))


@expands("aten.lerp.Tensor", exactness="cuda")
def _lerp_tensor(c: Context, a: Value, b: Value, weight: Value) -> Value:
    return c.give(_lerp(c, own(a), own(b), own(weight)))


def _integers(c: Context, name: str, a: Operand, b: Operand) -> Value:
    if c.promoted.is_float:
        raise Unsupported("bitwise arithmetic on floats")
    return c.give(c.b.op(name, stored(c, a), stored(c, b)))


@expands(
    "aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar", "aten.bitwise_and.Scalar_Tensor",
    "aten.__and__.Tensor", "aten.__and__.Scalar", exactness="exact",
)  # fmt: skip
def _bitwise_and(c: Context, a: Operand, b: Operand) -> Value:
    return _integers(c, "and", a, b)


@expands(
    "aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar", "aten.bitwise_or.Scalar_Tensor",
    "aten.__or__.Tensor", "aten.__or__.Scalar", exactness="exact",
)  # fmt: skip
def _bitwise_or(c: Context, a: Operand, b: Operand) -> Value:
    return _integers(c, "or", a, b)


@expands(
    "aten.bitwise_xor.Tensor", "aten.bitwise_xor.Scalar", "aten.bitwise_xor.Scalar_Tensor",
    "aten.__xor__.Tensor", "aten.__xor__.Scalar", exactness="exact",
)  # fmt: skip
def _bitwise_xor(c: Context, a: Operand, b: Operand) -> Value:
    return _integers(c, "xor", a, b)


@expands(
    "aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar", "aten.bitwise_left_shift.Scalar_Tensor",
    "aten.__lshift__.Tensor", "aten.__lshift__.Scalar", exactness="exact",
)  # fmt: skip
def _left_shift(c: Context, a: Operand, b: Operand) -> Value:
    return _integers(c, "shl", a, b)


@expands(
    "aten.bitwise_right_shift.Tensor", "aten.bitwise_right_shift.Tensor_Scalar",
    "aten.bitwise_right_shift.Scalar_Tensor", "aten.__rshift__.Tensor", "aten.__rshift__.Scalar", exactness="exact",
)  # fmt: skip
def _right_shift(c: Context, a: Operand, b: Operand) -> Value:
    return _integers(c, "shr", a, b)


@expands("aten.logical_and.default", exactness="exact")
def _logical_and(c: Context, a: Value, b: Value) -> Value:
    return c.give(truth(a) & truth(b))


@expands("aten.logical_or.default", exactness="exact")
def _logical_or(c: Context, a: Value, b: Value) -> Value:
    return c.give(truth(a) | truth(b))


@expands("aten.logical_xor.default", exactness="exact")
def _logical_xor(c: Context, a: Value, b: Value) -> Value:
    return c.give(truth(a).ne(truth(b)))
