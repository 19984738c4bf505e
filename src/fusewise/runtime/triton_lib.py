"""Device functions that generated Triton kernels call.

Functions named after an op are CUDA's own, with the bits of eager's kernels where subnormals are kept (the GPU tests
compare every f32 input); `fast_*` are cheaper and meant for results that are rounded to 16 bits next.
"""

# No `from __future__ import annotations`: Triton reads the annotations of constexpr parameters.

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice

from fusewise.runtime.triton_half import (  # noqa: F401  (kernels find every function in this module)
    add_bf16,
    add_f16,
    maximum_bf16,
    maximum_f16,
    minimum_bf16,
    minimum_f16,
    mul_bf16,
    mul_f16,
    round_bf16,
    round_f16,
    scale_bf16,
    sub_bf16,
    sub_f16,
    to_bf16,
    to_f16,
    widen_bf16,
)
from fusewise.runtime.triton_interpret import from_libdevice, interpreted, jit


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


# ---- functions of libdevice


@from_libdevice(np.exp)
def exp(x: tl.tensor) -> tl.tensor:
    """e^x."""
    return libdevice.exp(x)


@from_libdevice(np.exp2)
def exp2(x: tl.tensor) -> tl.tensor:
    """2^x."""
    return libdevice.exp2(x)


@from_libdevice(np.expm1)
def expm1(x: tl.tensor) -> tl.tensor:
    """e^x - 1."""
    return libdevice.expm1(x)


@from_libdevice(np.log)
def log(x: tl.tensor) -> tl.tensor:
    """Natural logarithm."""
    return libdevice.log(x)


@from_libdevice(np.log2)
def log2(x: tl.tensor) -> tl.tensor:
    """Logarithm to base 2."""
    return libdevice.log2(x)


@from_libdevice(np.log10)
def log10(x: tl.tensor) -> tl.tensor:
    """Logarithm to base 10."""
    return libdevice.log10(x)


@from_libdevice(np.log1p)
def log1p(x: tl.tensor) -> tl.tensor:
    """log(1 + x)."""
    return libdevice.log1p(x)


@from_libdevice(lambda x: 1 / np.sqrt(x))
def rsqrt(x: tl.tensor) -> tl.tensor:
    """1 / sqrt(x)."""
    return libdevice.rsqrt(x)


@from_libdevice(np.sin)
def sin(x: tl.tensor) -> tl.tensor:
    """Sine."""
    return libdevice.sin(x)


@from_libdevice(np.cos)
def cos(x: tl.tensor) -> tl.tensor:
    """Cosine."""
    return libdevice.cos(x)


@from_libdevice(np.tan)
def tan(x: tl.tensor) -> tl.tensor:
    """Tangent."""
    return libdevice.tan(x)


@from_libdevice(np.arcsin)
def asin(x: tl.tensor) -> tl.tensor:
    """Inverse sine."""
    return libdevice.asin(x)


@from_libdevice(np.arccos)
def acos(x: tl.tensor) -> tl.tensor:
    """Inverse cosine."""
    return libdevice.acos(x)


@from_libdevice(np.arctan)
def atan(x: tl.tensor) -> tl.tensor:
    """Inverse tangent."""
    return libdevice.atan(x)


@from_libdevice(np.arctan2)
def atan2(y: tl.tensor, x: tl.tensor) -> tl.tensor:
    """Angle of the point (x, y)."""
    return libdevice.atan2(y, x)


@from_libdevice(np.sinh)
def sinh(x: tl.tensor) -> tl.tensor:
    """Hyperbolic sine."""
    return libdevice.sinh(x)


@from_libdevice(np.cosh)
def cosh(x: tl.tensor) -> tl.tensor:
    """Hyperbolic cosine."""
    return libdevice.cosh(x)


@from_libdevice(np.tanh)
def tanh(x: tl.tensor) -> tl.tensor:
    """Hyperbolic tangent."""
    return libdevice.tanh(x)


@from_libdevice(np.arcsinh)
def asinh(x: tl.tensor) -> tl.tensor:
    """Inverse hyperbolic sine."""
    return libdevice.asinh(x)


@from_libdevice(np.arccosh)
def acosh(x: tl.tensor) -> tl.tensor:
    """Inverse hyperbolic cosine."""
    return libdevice.acosh(x)


@from_libdevice(np.arctanh)
def atanh(x: tl.tensor) -> tl.tensor:
    """Inverse hyperbolic tangent."""
    return libdevice.atanh(x)


@from_libdevice(_erf)
def erf(x: tl.tensor) -> tl.tensor:
    """Error function."""
    return libdevice.erf(x)


@from_libdevice(lambda x: 1 - _erf(x))
def erfc(x: tl.tensor) -> tl.tensor:
    """Complementary error function."""
    return libdevice.erfc(x)


@from_libdevice(np.power)
def pow(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x^y."""
    return libdevice.pow(x, y)


@from_libdevice(np.fmod)
def fmod(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """Remainder of x / y with the sign of x."""
    return libdevice.fmod(x, y)


@from_libdevice(np.copysign)
def copysign(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """|x| with the sign of y."""
    return libdevice.copysign(x, y)


@from_libdevice(np.rint)
def rint(x: tl.tensor) -> tl.tensor:
    """Nearest integer, halves to even."""
    return libdevice.rint(x)


@from_libdevice(np.trunc)
def trunc(x: tl.tensor) -> tl.tensor:
    """Integer part."""
    return libdevice.trunc(x)


@from_libdevice(np.sqrt)
def sqrt_rn(x: tl.tensor) -> tl.tensor:
    """Square root, correctly rounded."""
    return libdevice.sqrt_rn(x)


@from_libdevice(np.divide)
def div_rn(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """Quotient, correctly rounded."""
    return libdevice.div_rn(x, y)


# ---- cheaper forms


@from_libdevice(np.exp2)
def fast_exp2(x: tl.tensor) -> tl.tensor:
    """2^x in f32 by ex2.approx: relative error 2^-22; subnormal results are 0."""
    return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@from_libdevice(lambda x: 1 / x)
def fast_rcp(x: tl.tensor) -> tl.tensor:
    """1 / x in f32 by rcp.approx: 1 ulp; 0 where 2^126 < |x|."""
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@from_libdevice(lambda x: x)
def unknown(x: tl.tensor) -> tl.tensor:
    """`x`, f32 or f64, of which the compiler knows nothing."""
    if x.dtype.primitive_bitwidth == 64:
        return tl.inline_asm_elementwise("mov.b64 $0, $1;", "=l,l", [x], dtype=tl.float64, is_pure=True, pack=1)
    else:
        return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)


@jit
def fast_exp(x: tl.tensor) -> tl.tensor:
    """e^x in f32: relative error about 2^-22 + |x| 2^-24."""
    return fast_exp2(x * 1.4426950408889634)


@jit
def fast_div(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x / y in f32, 2 ulp; 0 where 2^126 < |y|."""
    return x * fast_rcp(y)


@jit
def fast_gate_tanh(x: tl.tensor, scale: tl.constexpr) -> tl.tensor:
    """(1 + tanh(scale x)) / 2 in f32, relative error about 2^-21: 1 / (1 + exp(-2 scale x))."""
    return fast_rcp(1.0 + fast_exp2(x * (-2.8853900817779268 * scale)))


@jit
def fast_gate_tanh_cubic(x: tl.tensor, scale: tl.constexpr, k: tl.constexpr) -> tl.tensor:
    """(1 + tanh(scale (x + k x^3))) / 2 in f32, relative error as of `fast_gate_tanh`."""
    step = -2.8853900817779268 * scale
    return fast_rcp(1.0 + fast_exp2(x * tl.fma(x * x, step * k, step)))


@jit
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


@jit
def fast_tanh_absolute(x: tl.tensor, scale: tl.constexpr) -> tl.tensor:
    """tanh(scale x) in f32 with an absolute error near 2^-22: enough where a number of size 1 is added next."""
    return 1.0 - fast_rcp(tl.fma(fast_exp2(x * (2.8853900817779268 * scale)), 0.5, 0.5))


@jit
def fast_tanh_absolute_cubic(x: tl.tensor, scale: tl.constexpr, k: tl.constexpr) -> tl.tensor:
    """`fast_tanh_absolute` of scale (x + k x^3)."""
    step = 2.8853900817779268 * scale
    return 1.0 - fast_rcp(tl.fma(fast_exp2(x * tl.fma(x * x, step * k, step)), 0.5, 0.5))


@jit
def fast_tanh(x: tl.tensor) -> tl.tensor:
    """tanh(x) in f32 with a relative error below 2^-17 everywhere.

    By exp, where 1 - 2 / (1 + e^2x) does not cancel; else by the Taylor series to x^7 (next term below 2^-17 at 0.35).
    """
    square = x * x
    tail = tl.fma(square, tl.fma(square, -17.0 / 315.0, 2.0 / 15.0), -1.0 / 3.0) * square
    return tl.where(tl.abs(x) < 0.35, tl.fma(x, tail, x), fast_tanh_absolute(x, 1.0))


@jit
def rsqrt_full(x: tl.tensor) -> tl.tensor:
    """1 / sqrt(x), subnormals included, which Triton's build of libdevice flushes to 0."""
    tiny = tl.abs(x) < 1.1754943508222875e-38
    return rsqrt(tl.where(tiny, x * 16777216.0, x)) * tl.where(tiny, 4096.0, 1.0)


@jit
def div_by_row(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x / y in f32, within 2 ulp, for a y that many elements share: two multiplications an element.

    y is scaled into the range whose reciprocal is a normal number; the scale goes to x first, where it can only
    overflow or vanish if the quotient does.
    """
    size = tl.abs(y)
    scale = tl.where(size > 1.2676506002282294e30, 5.421010862427522e-20, 1.0)
    scale = tl.where(size < 7.888609052210118e-31, 1.8446744073709552e19, scale)
    return (x * scale) * tl.div_rn(1.0, y * scale)


# ---- rounding to integers; the FTZ forms of libdevice would turn floor(-1e-40) into -0


@jit
def floor(x: tl.tensor) -> tl.tensor:
    """Greatest integer not above x; keeps -0."""
    nearest = rint(x)
    return tl.where(nearest > x, nearest - 1.0, nearest)


@jit
def neg(x: tl.tensor) -> tl.tensor:
    """-x for floats, with the sign of zero (Triton's own minus is 0 - x)."""
    return x * -1.0


@jit
def ceil(x: tl.tensor) -> tl.tensor:
    """Least integer not below x; gives -0 for -1 < x < 0."""
    return neg(floor(neg(x)))


@jit
def minimum(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The smaller one; NaN where one is NaN."""
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@jit
def maximum(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The larger one; NaN where one is NaN."""
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


# ---- integers


@jit
def floordiv(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """a / b rounded down (Triton's // rounds toward 0)."""
    quotient = a // b
    rest = a - quotient * b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)


@jit
def shl(a: tl.tensor, b: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """a << b; 0 where b is outside [0, bits)."""
    inside = (b >= 0) & (b < bits)
    return tl.where(inside, a << tl.where(inside, b, 0).to(b.dtype), 0).to(a.dtype)


@jit
def shr(a: tl.tensor, b: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """a >> b, arithmetic; where b is outside [0, bits): all bits of the sign."""
    inside = (b >= 0) & (b < bits)
    return a >> tl.where(inside, b, bits - 1).to(b.dtype)


@jit
def shr_unsigned(a: tl.tensor, b: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """a >> b for unsigned types; 0 where b is outside [0, bits)."""
    inside = b < bits
    return tl.where(inside, a >> tl.where(inside, b, 0).to(b.dtype), 0).to(a.dtype)


@from_libdevice(lambda x: np.clip(x, -(2**31), 2**31 - 1), tl.int32)
def clamp_i32(x: tl.tensor) -> tl.tensor:
    """int64 as int32, what does not fit as the least or the greatest one.

    In assembly, since LLVM would make a comparison with it one of 64 bits again.
    """
    return tl.inline_asm_elementwise("cvt.sat.s32.s64 $0, $1;", "=r,l", [x], dtype=tl.int32, is_pure=True, pack=1)


@jit
def clamp_i32_portable(x: tl.tensor) -> tl.tensor:
    """The same without assembly."""
    return tl.minimum(tl.maximum(x, -2147483648), 2147483647).to(tl.int32)


# ---- reductions along one axis of a tile


@jit
def _mul(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a * b


@jit
def _or(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a | b


@jit
def _and(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a & b


@jit
def argmax_pair(a: tl.tensor, i: tl.tensor, b: tl.tensor, j: tl.tensor) -> tl.tensor:
    """Of (value, position) pairs the larger value's; the first NaN's where there is one; the first of equals."""
    a_nan = a != a
    b_nan = b != b
    equal = (a == b) | (a_nan & b_nan)
    first = (a > b) | (a_nan & (b == b)) | (equal & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@jit
def argmin_pair(a: tl.tensor, i: tl.tensor, b: tl.tensor, j: tl.tensor) -> tl.tensor:
    """Of (value, position) pairs the smaller value's; the first NaN's where there is one; the first of equals."""
    a_nan = a != a
    b_nan = b != b
    equal = (a == b) | (a_nan & b_nan)
    first = (a < b) | (a_nan & (b == b)) | (equal & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@jit
def _reduce_sum(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.sum(x, axis, keep_dims=keep, dtype=x.dtype)


@jit
def _reduce_prod(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x, axis, _mul, keep_dims=keep)


@jit
def _reduce_max(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x, axis, maximum, keep_dims=keep)


@jit
def _reduce_min(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x, axis, minimum, keep_dims=keep)


@jit
def _reduce_any(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x.to(tl.int32), axis, _or, keep_dims=keep) != 0


@jit
def _reduce_all(x: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce(x.to(tl.int32), axis, _and, keep_dims=keep) != 0


@jit
def _reduce_argmax(x: tl.tensor, position: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce((x, position), axis, argmax_pair, keep_dims=keep)[1]


@jit
def _reduce_argmin(x: tl.tensor, position: tl.tensor, axis: tl.constexpr, keep: tl.constexpr) -> tl.tensor:
    return tl.reduce((x, position), axis, argmin_pair, keep_dims=keep)[1]


def _numpy_arg(better: Callable[..., Any], x: Any, position: Any, axis: int, keep: bool) -> Any:
    nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    best = np.where(nan.any(axis, keepdims=True), nan, x == better(x, axis, keepdims=True))
    top = np.iinfo(position.dtype).max
    return np.where(best, position, top).min(axis, keepdims=keep)


reduce_sum = interpreted(lambda x, a, k: np.sum(x, a, keepdims=k, dtype=x.dtype), _reduce_sum)
reduce_prod = interpreted(lambda x, a, k: np.prod(x, a, keepdims=k, dtype=x.dtype), _reduce_prod)
reduce_max = interpreted(lambda x, a, k: np.max(x, a, keepdims=k), _reduce_max)
reduce_min = interpreted(lambda x, a, k: np.min(x, a, keepdims=k), _reduce_min)
reduce_any = interpreted(lambda x, a, k: np.any(x, a, keepdims=k), _reduce_any)
reduce_all = interpreted(lambda x, a, k: np.all(x, a, keepdims=k), _reduce_all)
reduce_argmax = interpreted(lambda x, p, a, k: _numpy_arg(np.max, x, p, a, k), _reduce_argmax)
reduce_argmin = interpreted(lambda x, p, a, k: _numpy_arg(np.min, x, p, a, k), _reduce_argmin)


# ---- random bits: `fusewise.ir.philox` says what they are


@jit
def seed_of(given: tl.tensor) -> tl.tensor:
    """The seed that a kernel was given: the number itself, or what its address holds."""
    if given.dtype.is_ptr():
        return tl.load(given)
    else:
        return given.to(tl.int64)


@jit
def philox(seed: tl.tensor, block: tl.tensor, slot: tl.constexpr, stream: tl.constexpr) -> tl.tensor:
    """Four uint32 words of each block number (int32 or int64); `seed` is a scalar int64."""
    rounds: tl.constexpr = 7 if stream == 0 else 10
    k0 = seed.to(tl.uint32)
    k1 = (seed >> 32).to(tl.uint32)
    c0 = block.to(tl.uint32)
    if block.dtype == tl.int64:
        c1 = (block >> 32).to(tl.uint32)
    else:
        c1 = tl.zeros_like(c0)
    c2 = tl.zeros_like(c0) + slot
    c3 = tl.zeros_like(c0) + stream
    for _ in tl.static_range(rounds):
        # one wide product gives both halves
        wide0 = c0.to(tl.uint64) * tl.full((), 0xD2511F53, tl.uint64)
        wide1 = c2.to(tl.uint64) * tl.full((), 0xCD9E8D57, tl.uint64)
        c0 = (wide1 >> 32).to(tl.uint32) ^ c1 ^ k0
        c1 = wide1.to(tl.uint32)
        c2 = (wide0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c3 = wide0.to(tl.uint32)
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    return c0, c1, c2, c3


@jit
def keep8(seed: tl.tensor, block: tl.tensor, slot: tl.constexpr, threshold: tl.constexpr) -> tl.tensor:
    """`keep` of the eight elements of each block, side by side along the last axis."""
    w0, w1, w2, w3 = philox(seed, block, slot, 0)
    words = tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3))
    if threshold > 0xFFFF:
        return tl.interleave(words == words, words == words)
    limit = tl.full((), threshold << 16, tl.uint32)
    return tl.interleave((words << 16) < limit, words < limit)


@jit
def keep1(seed: tl.tensor, element: tl.tensor, slot: tl.constexpr, threshold: tl.constexpr) -> tl.tensor:
    """`keep` of each element, by one call an element."""
    w0, w1, w2, w3 = philox(seed, element // 8, slot, 0)
    place = element % 8
    word = tl.where(place < 4, tl.where(place < 2, w0, w1), tl.where(place < 6, w2, w3))
    return tl.where(place % 2 == 0, word & 0xFFFF, word >> 16) < threshold


@jit
def _unit(word: tl.tensor) -> tl.tensor:
    # int32 holds 24 bits and converts in one instruction
    return (word >> 8).to(tl.int32).to(tl.float32) * 5.9604644775390625e-8


@jit
def uniform4(seed: tl.tensor, block: tl.tensor, slot: tl.constexpr) -> tl.tensor:
    """`uniform` of the four elements of each block, side by side along the last axis."""
    w0, w1, w2, w3 = philox(seed, block, slot, 1)
    return _unit(tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3)))


@jit
def uniform1(seed: tl.tensor, element: tl.tensor, slot: tl.constexpr) -> tl.tensor:
    """`uniform` of each element, by one call an element."""
    w0, w1, w2, w3 = philox(seed, element // 4, slot, 1)
    place = element % 4
    return _unit(tl.where(place < 2, tl.where(place < 1, w0, w1), tl.where(place < 3, w2, w3)))
