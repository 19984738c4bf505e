"""Device functions that generated Triton kernels call.

Functions named after an op give the bits of CUDA's own math library where FACTS of the project say so; `fast_*` are
cheaper and meant for results that are rounded to 16 bits next. Under Triton's interpreter (TRITON_INTERPRET=1), which
has no libdevice, the libdevice functions are numpy's: interpreter runs prove indexing and masks, not bits.
"""

# No `from __future__ import annotations`: Triton reads the annotations of constexpr parameters.

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

F = TypeVar("F", bound=Callable[..., Any])

INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))


def _jit(fn: F) -> F:
    return cast(F, triton.jit(fn))


def _from_libdevice(body: Callable[..., Any], result: Any = None) -> Callable[[F], F]:
    """Compiles the function, or under the interpreter stands `body` (on numpy arrays) in its place.

    Args:
        result: type of the result there; None: that of the first operand.
    """

    def decorate(fn: F) -> F:
        return cast(F, _elementwise(body, result)) if INTERPRETED.value else _jit(fn)

    return decorate


def _elementwise(body: Callable[..., Any], result: Any) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        first = next(a for a in args if isinstance(a, tl.tensor))
        with np.errstate(all="ignore"):
            data = np.asarray(body(*map(_to_numpy, args)))
        return _from_numpy(data, first.type.scalar if result is None else result)

    return run


def _to_numpy(value: Any) -> Any:
    """The array behind an interpreted tensor; bf16, of which the interpreter keeps the bits, as f32."""
    if not isinstance(value, tl.tensor):
        return value
    data = value.handle.data
    if value.type.scalar == tl.bfloat16:
        return (data.astype(np.uint32) << 16).view(np.float32)
    return data


def _from_numpy(data: Any, dtype: Any) -> Any:
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    if dtype == tl.bfloat16:
        data = (_round_bf16(data).view(np.uint32) >> 16).astype(np.uint16)
    array = data.astype(_get_np_dtype(dtype))
    shape = list(array.shape)
    # The interpreter keeps a scalar as an array of one element.
    return tl.tensor(TensorHandle(array.reshape(shape or [1]), dtype), tl.block_type(dtype, shape) if shape else dtype)


def _round_bf16(x: Any) -> Any:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32("nan"), rounded).astype(np.float32)


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


# ---- functions of libdevice


@_from_libdevice(np.exp)
def exp(x: tl.tensor) -> tl.tensor:
    """e^x."""
    return libdevice.exp(x)


@_from_libdevice(np.exp2)
def exp2(x: tl.tensor) -> tl.tensor:
    """2^x."""
    return libdevice.exp2(x)


@_from_libdevice(np.expm1)
def expm1(x: tl.tensor) -> tl.tensor:
    """e^x - 1."""
    return libdevice.expm1(x)


@_from_libdevice(np.log)
def log(x: tl.tensor) -> tl.tensor:
    """Natural logarithm."""
    return libdevice.log(x)


@_from_libdevice(np.log2)
def log2(x: tl.tensor) -> tl.tensor:
    """Logarithm to base 2."""
    return libdevice.log2(x)


@_from_libdevice(np.log10)
def log10(x: tl.tensor) -> tl.tensor:
    """Logarithm to base 10."""
    return libdevice.log10(x)


@_from_libdevice(np.log1p)
def log1p(x: tl.tensor) -> tl.tensor:
    """log(1 + x)."""
    return libdevice.log1p(x)


@_from_libdevice(lambda x: 1 / np.sqrt(x))
def rsqrt(x: tl.tensor) -> tl.tensor:
    """1 / sqrt(x)."""
    return libdevice.rsqrt(x)


@_from_libdevice(np.sin)
def sin(x: tl.tensor) -> tl.tensor:
    """Sine."""
    return libdevice.sin(x)


@_from_libdevice(np.cos)
def cos(x: tl.tensor) -> tl.tensor:
    """Cosine."""
    return libdevice.cos(x)


@_from_libdevice(np.tan)
def tan(x: tl.tensor) -> tl.tensor:
    """Tangent."""
    return libdevice.tan(x)


@_from_libdevice(np.arcsin)
def asin(x: tl.tensor) -> tl.tensor:
    """Inverse sine."""
    return libdevice.asin(x)


@_from_libdevice(np.arccos)
def acos(x: tl.tensor) -> tl.tensor:
    """Inverse cosine."""
    return libdevice.acos(x)


@_from_libdevice(np.arctan)
def atan(x: tl.tensor) -> tl.tensor:
    """Inverse tangent."""
    return libdevice.atan(x)


@_from_libdevice(np.arctan2)
def atan2(y: tl.tensor, x: tl.tensor) -> tl.tensor:
    """Angle of the point (x, y)."""
    return libdevice.atan2(y, x)


@_from_libdevice(np.sinh)
def sinh(x: tl.tensor) -> tl.tensor:
    """Hyperbolic sine."""
    return libdevice.sinh(x)


@_from_libdevice(np.cosh)
def cosh(x: tl.tensor) -> tl.tensor:
    """Hyperbolic cosine."""
    return libdevice.cosh(x)


@_from_libdevice(np.tanh)
def tanh(x: tl.tensor) -> tl.tensor:
    """Hyperbolic tangent."""
    return libdevice.tanh(x)


@_from_libdevice(np.arcsinh)
def asinh(x: tl.tensor) -> tl.tensor:
    """Inverse hyperbolic sine."""
    return libdevice.asinh(x)


@_from_libdevice(np.arccosh)
def acosh(x: tl.tensor) -> tl.tensor:
    """Inverse hyperbolic cosine."""
    return libdevice.acosh(x)


@_from_libdevice(np.arctanh)
def atanh(x: tl.tensor) -> tl.tensor:
    """Inverse hyperbolic tangent."""
    return libdevice.atanh(x)


@_from_libdevice(_erf)
def erf(x: tl.tensor) -> tl.tensor:
    """Error function."""
    return libdevice.erf(x)


@_from_libdevice(lambda x: 1 - _erf(x))
def erfc(x: tl.tensor) -> tl.tensor:
    """Complementary error function."""
    return libdevice.erfc(x)


@_from_libdevice(np.power)
def pow(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x^y."""
    return libdevice.pow(x, y)


@_from_libdevice(np.fmod)
def fmod(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """Remainder of x / y with the sign of x."""
    return libdevice.fmod(x, y)


@_from_libdevice(np.copysign)
def copysign(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """|x| with the sign of y."""
    return libdevice.copysign(x, y)


@_from_libdevice(np.rint)
def rint(x: tl.tensor) -> tl.tensor:
    """Nearest integer, halves to even."""
    return libdevice.rint(x)


@_from_libdevice(np.trunc)
def trunc(x: tl.tensor) -> tl.tensor:
    """Integer part."""
    return libdevice.trunc(x)


@_from_libdevice(np.sqrt)
def sqrt_rn(x: tl.tensor) -> tl.tensor:
    """Square root, correctly rounded."""
    return libdevice.sqrt_rn(x)


@_from_libdevice(np.divide)
def div_rn(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """Quotient, correctly rounded."""
    return libdevice.div_rn(x, y)


# ---- cheaper forms


@_from_libdevice(np.exp2)
def fast_exp2(x: tl.tensor) -> tl.tensor:
    """2^x in f32 by ex2.approx: relative error 2^-22; subnormal results are 0."""
    return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@_from_libdevice(lambda x: 1 / x)
def fast_rcp(x: tl.tensor) -> tl.tensor:
    """1 / x in f32 by rcp.approx: 1 ulp; 0 where 2^126 < |x|."""
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@_jit
def fast_exp(x: tl.tensor) -> tl.tensor:
    """e^x in f32: relative error about 2^-22 + |x| 2^-24."""
    return fast_exp2(x * 1.4426950408889634)


@_jit
def fast_div(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x / y in f32, 2 ulp; 0 where 2^126 < |y|."""
    return x * fast_rcp(y)


@_jit
def fast_gate_tanh(x: tl.tensor, scale: tl.constexpr) -> tl.tensor:
    """(1 + tanh(scale x)) / 2 in f32, relative error about 2^-21: 1 / (1 + exp(-2 scale x))."""
    return fast_rcp(1.0 + fast_exp2(x * (-2.8853900817779268 * scale)))


@_jit
def fast_gate_erf(x: tl.tensor, scale: tl.constexpr) -> tl.tensor:
    """(1 + erf(scale x)) / 2 in f32, relative error below 2^-17.

    exp(t^2) erfc(t) for t >= 0 is s times a polynomial of degree 5 in s = 1 / (1 + 0.44 t), fitted on [0, 9.6] for the
    least greatest relative error (2^-17.5).
    """
    s = fast_rcp(tl.fma(tl.abs(x), 0.44 * scale, 1.0))
    p = tl.fma(s, -0.07305157273483887, 0.1753229812425052)
    p = tl.fma(s, p, 0.02036865058837776)
    p = tl.fma(s, p, 0.13179186895254706)
    p = tl.fma(s, p, 0.12128499946820573)
    p = tl.fma(s, p, 0.12428049797713524)
    tail = p * s * fast_exp2(x * x * (-1.4426950408889634 * scale * scale))
    return tl.where(x < 0.0, tail, 1.0 - tail)


@_jit
def fast_tanh_absolute(x: tl.tensor, scale: tl.constexpr) -> tl.tensor:
    """tanh(scale x) in f32 with an absolute error near 2^-22: enough where a number of size 1 is added next."""
    return 1.0 - fast_rcp(tl.fma(fast_exp2(x * (2.8853900817779268 * scale)), 0.5, 0.5))


@_jit
def fast_tanh(x: tl.tensor) -> tl.tensor:
    """tanh(x) in f32 with a relative error below 2^-17 everywhere.

    By exp, where 1 - 2 / (1 + e^2x) does not cancel; else by the Taylor series to x^7 (next term below 2^-17 at 0.35).
    """
    square = x * x
    tail = tl.fma(square, tl.fma(square, -17.0 / 315.0, 2.0 / 15.0), -1.0 / 3.0) * square
    return tl.where(tl.abs(x) < 0.35, tl.fma(x, tail, x), fast_tanh_absolute(x, 1.0))


@_jit
def rsqrt_full(x: tl.tensor) -> tl.tensor:
    """1 / sqrt(x), subnormals included, which Triton's build of libdevice flushes to 0."""
    tiny = tl.abs(x) < 1.1754943508222875e-38
    return rsqrt(tl.where(tiny, x * 16777216.0, x)) * tl.where(tiny, 4096.0, 1.0)


@_jit
def div_by_row(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x / y in f32, within 2 ulp, for a y that many elements share: two multiplications an element.

    y is scaled into the range whose reciprocal is a normal number; the scale goes to x first, where it can only
    overflow or vanish if the quotient does.
    """
    size = tl.abs(y)
    scale = tl.where(size > 1.2676506002282294e30, 5.421010862427522e-20, 1.0)
    scale = tl.where(size < 7.888609052210118e-31, 1.8446744073709552e19, scale)
    return (x * scale) * tl.div_rn(1.0, y * scale)


# ---- 16-bit floats, two in one instruction where the compiler by itself would take one at a time


@_from_libdevice(_round_bf16)
def round_bf16(x: tl.tensor) -> tl.tensor:
    """f32 rounded to the nearest bf16, ties to even, as f32. A single conversion runs at a quarter of the rate."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 t; cvt.rn.bf16x2.f32 t, $3, $2; shl.b32 $0, t, 16; and.b32 $1, t, 0xffff0000; }",
        "=r,=r,r,r",
        [x],
        dtype=tl.float32,
        is_pure=True,
        pack=2,
    )


@_from_libdevice(lambda x: x.astype(np.float16))
def round_f16(x: tl.tensor) -> tl.tensor:
    """f32 rounded to the nearest f16, ties to even, as f32."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 t; .reg .b16 l, h; cvt.rn.f16x2.f32 t, $3, $2; mov.b32 {l, h}, t;"
        " cvt.f32.f16 $0, l; cvt.f32.f16 $1, h; }",
        "=r,=r,r,r",
        [x],
        dtype=tl.float32,
        is_pure=True,
        pack=2,
    )


@_from_libdevice(lambda x: x, tl.float32)
def widen_bf16(x: tl.tensor) -> tl.tensor:
    """bf16 to f32."""
    return tl.inline_asm_elementwise(
        "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;", "=r,=r,r", [x], dtype=tl.float32, is_pure=True, pack=2
    )


@_from_libdevice(np.add)
def add_bf16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x + y, rounded once. Not every GPU adds bf16, but all from cc 8.0 have its fma."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 one; mov.b32 one, 0x3f803f80; fma.rn.bf16x2 $0, $1, one, $2; }",
        "=r,r,r",
        [x, y],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=2,
    )


@_from_libdevice(np.subtract)
def sub_bf16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x - y, rounded once."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 m; mov.b32 m, 0xbf80bf80; fma.rn.bf16x2 $0, $2, m, $1; }",
        "=r,r,r",
        [x, y],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=2,
    )


@_from_libdevice(np.multiply)
def mul_bf16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x * y, rounded once; -0 is what changes no product."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 z; mov.b32 z, 0x80008000; fma.rn.bf16x2 $0, $1, $2, z; }",
        "=r,r,r",
        [x, y],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=2,
    )


@_from_libdevice(np.add)
def add_f16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x + y, rounded once."""
    return tl.inline_asm_elementwise(
        "add.rn.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2
    )


@_from_libdevice(np.subtract)
def sub_f16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x - y, rounded once."""
    return tl.inline_asm_elementwise(
        "sub.rn.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2
    )


@_from_libdevice(np.multiply)
def mul_f16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x * y, rounded once."""
    return tl.inline_asm_elementwise(
        "mul.rn.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2
    )


@_jit
def to_bf16(x: tl.tensor) -> tl.tensor:
    """f32 to bf16, to nearest even."""
    if INTERPRETED:  # whose conversion cuts off
        x = round_bf16(x)
    return x.to(tl.bfloat16)


@_jit
def to_f16(x: tl.tensor) -> tl.tensor:
    """f32 to f16, to nearest even."""
    return x.to(tl.float16)


# ---- rounding to integers; the FTZ forms of libdevice would turn floor(-1e-40) into -0


@_jit
def floor(x: tl.tensor) -> tl.tensor:
    """Greatest integer not above x; keeps -0."""
    nearest = rint(x)
    return tl.where(nearest > x, nearest - 1.0, nearest)


@_jit
def neg(x: tl.tensor) -> tl.tensor:
    """-x for floats, with the sign of zero (Triton's own minus is 0 - x)."""
    return x * -1.0


@_jit
def ceil(x: tl.tensor) -> tl.tensor:
    """Least integer not below x; gives -0 for -1 < x < 0."""
    return neg(floor(neg(x)))


@_jit
def minimum(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The smaller one; NaN where one is NaN."""
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@_jit
def maximum(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The larger one; NaN where one is NaN."""
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


# ---- integers


@_jit
def floordiv(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """a / b rounded down (Triton's // rounds toward 0)."""
    quotient = a // b
    rest = a - quotient * b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)


@_jit
def shl(a: tl.tensor, b: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """a << b; 0 where b is outside [0, bits)."""
    inside = (b >= 0) & (b < bits)
    return tl.where(inside, a << tl.where(inside, b, 0).to(b.dtype), 0).to(a.dtype)


@_jit
def shr(a: tl.tensor, b: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """a >> b, arithmetic; where b is outside [0, bits): all bits of the sign."""
    inside = (b >= 0) & (b < bits)
    return a >> tl.where(inside, b, bits - 1).to(b.dtype)


@_jit
def shr_unsigned(a: tl.tensor, b: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """a >> b for unsigned types; 0 where b is outside [0, bits)."""
    inside = b < bits
    return tl.where(inside, a >> tl.where(inside, b, 0).to(b.dtype), 0).to(a.dtype)


# ---- reductions along one axis of a tile


@_jit
def _mul(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a * b


@_jit
def _or(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a | b


@_jit
def _and(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a & b


@_jit
def argmax_pair(a: tl.tensor, i: tl.tensor, b: tl.tensor, j: tl.tensor) -> tl.tensor:
    """Of (value, position) pairs the larger value's; the first NaN's where there is one; the first of equals."""
    a_nan = a != a
    b_nan = b != b
    equal = (a == b) | (a_nan & b_nan)
    first = (a > b) | (a_nan & (b == b)) | (equal & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@_jit
def argmin_pair(a: tl.tensor, i: tl.tensor, b: tl.tensor, j: tl.tensor) -> tl.tensor:
    """Of (value, position) pairs the smaller value's; the first NaN's where there is one; the first of equals."""
    a_nan = a != a
    b_nan = b != b
    equal = (a == b) | (a_nan & b_nan)
    first = (a < b) | (a_nan & (b == b)) | (equal & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@_jit
def _reduce_sum(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.sum(x, axis, keep_dims=keep, dtype=x.dtype)


@_jit
def _reduce_prod(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x, axis, _mul, keep_dims=keep)


@_jit
def _reduce_max(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x, axis, maximum, keep_dims=keep)


@_jit
def _reduce_min(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x, axis, minimum, keep_dims=keep)


@_jit
def _reduce_any(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x.to(tl.int32), axis, _or, keep_dims=keep) != 0


@_jit
def _reduce_all(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x.to(tl.int32), axis, _and, keep_dims=keep) != 0


@_jit
def _reduce_argmax(x: tl.tensor, position: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce((x, position), axis, argmax_pair, keep_dims=keep)[1]


@_jit
def _reduce_argmin(x: tl.tensor, position: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce((x, position), axis, argmin_pair, keep_dims=keep)[1]


def _interpreted(body: Callable[..., Any], jitted: Callable[..., Any]) -> Callable[..., Any]:
    """`jitted`, or under the interpreter (which runs combine functions element by element) numpy's `body`."""
    if not INTERPRETED.value:
        return jitted

    def run(*args: Any) -> Any:
        *tensors, axis, keep = args
        with np.errstate(all="ignore"):
            data = np.asarray(body(*(t.handle.data for t in tensors), int(axis), bool(keep)))
        return _from_numpy(data, tensors[-1].type.scalar)

    return run


def _numpy_arg(better: Callable[..., Any], x: Any, position: Any, axis: int, keep: bool) -> Any:
    nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    best = np.where(nan.any(axis, keepdims=True), nan, x == better(x, axis, keepdims=True))
    top = np.iinfo(position.dtype).max
    return np.where(best, position, top).min(axis, keepdims=keep)


reduce_sum = _interpreted(lambda x, a, k: np.sum(x, a, keepdims=k, dtype=x.dtype), _reduce_sum)
reduce_prod = _interpreted(lambda x, a, k: np.prod(x, a, keepdims=k, dtype=x.dtype), _reduce_prod)
reduce_max = _interpreted(lambda x, a, k: np.max(x, a, keepdims=k), _reduce_max)
reduce_min = _interpreted(lambda x, a, k: np.min(x, a, keepdims=k), _reduce_min)
reduce_any = _interpreted(lambda x, a, k: np.any(x, a, keepdims=k), _reduce_any)
reduce_all = _interpreted(lambda x, a, k: np.all(x, a, keepdims=k), _reduce_all)
reduce_argmax = _interpreted(lambda x, p, a, k: _numpy_arg(np.max, x, p, a, k), _reduce_argmax)
reduce_argmin = _interpreted(lambda x, p, a, k: _numpy_arg(np.min, x, p, a, k), _reduce_argmin)


# ---- random bits: `fusewise.ir.philox` says what they are


@_jit
def philox(seed: tl.tensor, block: tl.tensor, slot: tl.constexpr, stream: tl.constexpr) -> tl.tensor:
    """Four uint32 words of each block number (int32 or int64); `seed` is a scalar int64."""
    k0 = seed.to(tl.uint32)
    k1 = (seed >> 32).to(tl.uint32)
    c0 = block.to(tl.uint32)
    if block.dtype == tl.int64:
        c1 = (block >> 32).to(tl.uint32)
    else:
        c1 = tl.zeros_like(c0)
    c2 = tl.zeros_like(c0) + slot
    c3 = tl.zeros_like(c0) + stream
    for _ in tl.static_range(10):
        high0 = tl.umulhi(c0, tl.full((), 0xD2511F53, tl.uint32))
        high1 = tl.umulhi(c2, tl.full((), 0xCD9E8D57, tl.uint32))
        low0 = c0 * 0xD2511F53
        low1 = c2 * 0xCD9E8D57
        c0 = high1 ^ c1 ^ k0
        c1 = low1
        c2 = high0 ^ c3 ^ k1
        c3 = low0
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    return c0, c1, c2, c3


@_jit
def keep8(seed: tl.tensor, block: tl.tensor, slot: tl.constexpr, threshold: tl.constexpr) -> tl.tensor:
    """`keep` of the eight elements of each block, side by side along the last axis."""
    w0, w1, w2, w3 = philox(seed, block, slot, 0)
    words = tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3))
    return tl.interleave((words & 0xFFFF) < threshold, (words >> 16) < threshold)


@_jit
def keep1(seed: tl.tensor, element: tl.tensor, slot: tl.constexpr, threshold: tl.constexpr) -> tl.tensor:
    """`keep` of each element, by one call an element."""
    w0, w1, w2, w3 = philox(seed, element // 8, slot, 0)
    place = element % 8
    word = tl.where(place < 4, tl.where(place < 2, w0, w1), tl.where(place < 6, w2, w3))
    return tl.where(place % 2 == 0, word & 0xFFFF, word >> 16) < threshold


@_jit
def _unit(word: tl.tensor) -> tl.tensor:
    # int32 holds 24 bits and converts in one instruction
    return (word >> 8).to(tl.int32).to(tl.float32) * 5.9604644775390625e-8


@_jit
def uniform4(seed: tl.tensor, block: tl.tensor, slot: tl.constexpr) -> tl.tensor:
    """`uniform` of the four elements of each block, side by side along the last axis."""
    w0, w1, w2, w3 = philox(seed, block, slot, 1)
    return _unit(tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3)))


@_jit
def uniform1(seed: tl.tensor, element: tl.tensor, slot: tl.constexpr) -> tl.tensor:
    """`uniform` of each element, by one call an element."""
    w0, w1, w2, w3 = philox(seed, element // 4, slot, 1)
    place = element % 4
    return _unit(tl.where(place < 2, tl.where(place < 1, w0, w1), tl.where(place < 3, w2, w3)))
