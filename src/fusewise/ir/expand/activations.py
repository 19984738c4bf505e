"""Activation functions and their gradients, each as eager's kernel computes it.

All are computed in f32 for 16-bit floats and rounded once at the end.
"""

from __future__ import annotations

import math

from fusewise.errors import Unsupported
from fusewise.ir.builder import Scalar, Value
from fusewise.ir.dtypes import F32
from fusewise.ir.expand.common import number, only_eager_is_exact, real, stored
from fusewise.ir.expand.table import Context, Result, expands
from fusewise.ir.rounding import round_scalar
from fusewise.ir.sizes import contiguous_strides, divide, same_all

SQRT_HALF = math.sqrt(0.5)
TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
GELU_BETA = math.sqrt(2.0) * TWO_OVER_SQRT_PI * 0.5  # sqrt(2 / pi)
GELU_KAPPA = 0.044715
# eager writes 1 / 6 as a float in every type
ONE_SIXTH = round_scalar(1.0 / 6.0, F32)


def sigmoid(c: Context, x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + c.b.op("exp", -x))


def _fused(c: Context, a: Value, b: Value | float, d: Value) -> Value:
    """a * b + d: one fma where eager's CUDA compiler makes one, two roundings on a CPU."""
    return a * b + d if c.device == "cpu" else c.b.op("fma", a, b, d)


@expands("aten.gelu.default")
def _gelu(c: Context, x: Value, approximate: str = "none") -> Value:
    v = real(x)
    if approximate == "tanh":
        inner = _fused(c, v * v * v, GELU_KAPPA, v) * GELU_BETA
        return c.give(0.5 * v * (1.0 + c.b.op("tanh", inner)))
    return c.give(v * 0.5 * (1.0 + c.b.op("erf", v * SQRT_HALF)))


@expands("aten.gelu_backward.default")
def _gelu_backward(c: Context, grad: Value, x: Value, approximate: str = "none") -> Value:
    v, dy = real(x), real(grad)
    if approximate == "tanh":
        square = v * v
        inner = _fused(c, square * v, GELU_KAPPA, v) * GELU_BETA
        tanh = c.b.op("tanh", inner)
        left, right = 0.5 * v, 1.0 + tanh
        inner_slope = (1.0 + square * (3.0 * GELU_KAPPA)) * GELU_BETA
        return c.give(dy * (0.5 * right + left * (1.0 - tanh * tanh) * inner_slope))
    cdf = 0.5 * (1.0 + c.b.op("erf", v * SQRT_HALF))
    pdf = c.b.op("exp", v * v * -0.5) * (TWO_OVER_SQRT_PI * SQRT_HALF * 0.5)
    return c.give(dy * _fused(c, v, pdf, cdf))


@expands("aten.silu.default", exactness="cuda")
def _silu(c: Context, x: Value) -> Value:
    v = real(x)
    return c.give(v / (1.0 + c.b.op("exp", -v)))


@expands("aten.silu_backward.default")
def _silu_backward(c: Context, grad: Value, x: Value) -> Value:
    v = real(x)
    s = sigmoid(c, v)
    return c.give(real(grad) * s * (1.0 + v * (1.0 - s)))


def _tanh_softplus(c: Context, x: Value) -> Value:
    return c.b.op("tanh", c.b.op("log1p", c.b.op("exp", x)))


@expands("aten.mish.default", exactness="cuda")
def _mish(c: Context, x: Value) -> Value:
    v = real(x)
    return c.give(v * _tanh_softplus(c, v))


@expands("aten.mish_backward.default")
def _mish_backward(c: Context, grad: Value, x: Value) -> Value:
    v = real(x)
    t = _tanh_softplus(c, v)
    return c.give(real(grad) * (t + v * sigmoid(c, v) * (1.0 - t * t)))


@expands("aten.softplus.default", exactness="cuda")
def _softplus(c: Context, x: Value, beta: Scalar = 1, threshold: Scalar = 20) -> Value:
    v = real(x)
    scaled = v * number(beta)
    soft = c.b.op("log1p", c.b.op("exp", scaled)) / number(beta)
    return c.give(c.b.where(scaled > number(threshold), v, soft))


@expands("aten.softplus_backward.default", exactness="cuda")
def _softplus_backward(c: Context, grad: Value, x: Value, beta: Scalar, threshold: Scalar) -> Value:
    v, dy = real(x), real(grad)
    scaled = v * number(beta)
    z = c.b.op("exp", scaled)
    return c.give(c.b.where(scaled > number(threshold), dy, dy * z / (z + 1.0)))


def _relu6_shifted(c: Context, x: Value) -> Value:
    """min(max(x + 3, 0), 6); a NaN stays."""
    shifted = x + 3.0
    shifted = c.b.where(shifted < 0, 0.0, shifted)
    return c.b.where(shifted > 6, 6.0, shifted)


def _sixth(c: Context, x: Value) -> Value:
    """x / 6: a division on a CPU, a product with the rounded 1/6 on a GPU."""
    return x / 6.0 if c.device == "cpu" else x * ONE_SIXTH


@expands("aten.hardswish.default", exactness="exact")
def _hardswish(c: Context, x: Value) -> Value:
    v = real(x)
    return c.give(_sixth(c, v * _relu6_shifted(c, v)))


@expands("aten.hardswish_backward.default", exactness="cuda")
def _hardswish_backward(c: Context, grad: Value, x: Value) -> Value:
    v, dy = real(x), real(grad)
    inside = dy * (v / 3.0 + 0.5)
    return c.give(c.b.where(v <= -3.0, 0.0, c.b.where(v < 3.0, inside, dy)))


@expands("aten.hardsigmoid.default", exactness="exact")
def _hardsigmoid(c: Context, x: Value) -> Value:
    return c.give(_sixth(c, _relu6_shifted(c, real(x))))


@expands("aten.hardsigmoid_backward.default", exactness="exact")
def _hardsigmoid_backward(c: Context, grad: Value, x: Value) -> Value:
    v = real(x)
    return c.give(c.b.where((v > -3.0) & (v < 3.0), real(grad) * ONE_SIXTH, 0.0))


@expands("aten.leaky_relu.default", exactness="exact")
def _leaky_relu(c: Context, x: Value, slope: Scalar = 0.01) -> Value:
    v = real(x)
    return c.give(c.b.where(v > 0, v, v * number(slope)))


@expands("aten.leaky_relu_backward.default", exactness="exact")
def _leaky_relu_backward(c: Context, grad: Value, x: Value, slope: Scalar, is_result: bool = False) -> Value:
    dy = real(grad)
    return c.give(c.b.where(real(x) > 0, dy, dy * number(slope)))


@expands("aten.elu.default", exactness="cuda")
def _elu(c: Context, x: Value, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1) -> Value:
    v = real(x)
    negative = c.b.op("expm1", v * number(input_scale)) * _product(c, v, alpha, scale)
    return c.give(c.b.where(v >= 0, v * number(scale), negative))


def _product(c: Context, like: Value, a: Scalar, b: Scalar) -> Value:
    """a * b, multiplied in the type of `like`."""
    return c.b.const(a, like.dtype) * number(b)


@expands("aten.celu.default", exactness="cuda")
def _celu(c: Context, x: Value, alpha: Scalar = 1.0) -> Value:
    return _elu(c, x, alpha, 1.0, 1.0 / number(alpha))


@expands("aten.selu.default", exactness="cuda")
def _selu(c: Context, x: Value) -> Value:
    return _elu(c, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)


@expands("aten.elu_backward.default", exactness="cuda")
def _elu_backward(
    c: Context, grad: Value, alpha: Scalar, scale: Scalar, input_scale: Scalar, is_result: bool, x: Value
) -> Value:
    v, dy = real(x), real(grad)
    negative_scale = _product(c, v, alpha, scale)
    if is_result:
        negative = dy * number(input_scale) * (v + negative_scale)
    else:
        negative = dy * number(input_scale) * negative_scale * c.b.op("exp", v * number(input_scale))
    return c.give(c.b.where(v <= 0, negative, dy * number(scale)))


@expands("aten.sigmoid_backward.default")
def _sigmoid_backward(c: Context, grad: Value, y: Value) -> Value:
    s = real(y)
    return c.give(real(grad) * (1.0 - s) * s)


@expands("aten.tanh_backward.default")
def _tanh_backward(c: Context, grad: Value, y: Value) -> Value:
    t = real(y)
    return c.give(real(grad) * (1.0 - t * t))


@expands("aten.logit_backward.default", exactness="cuda")
def _logit_backward(c: Context, grad: Value, x: Value, eps: float | None = None) -> Value:
    v, dy = real(x), real(grad)
    slope = dy / (v * (1.0 - v))
    if eps is None or number(eps) < 0:
        return c.give(c.b.where((v < 0) | (v > 1), math.nan, slope))
    low, high = stored(c, number(eps), x.dtype), 1.0 - stored(c, number(eps), x.dtype)
    return c.give(c.b.where((v < low) | (v > high), 0.0, slope))


@expands("aten.log_sigmoid_forward.default", exactness="cuda")
def _log_sigmoid(c: Context, x: Value) -> Result:
    strides = c.out.strides
    if c.device == "cpu" and not same_all(strides, contiguous_strides(x.shape)):
        raise Unsupported(
            "a CPU's kernel gives a row-major result, and PyTorch describes it with the operand's strides"
        )
    v = real(x)
    e = c.b.op("exp", -c.b.op("abs", v))
    out = c.give(c.b.where(v < 0, v, c.b.where(v.ne(v), v, 0.0)) - c.b.op("log1p", e))
    spec = c.outs[1]
    if spec is None:
        return out, None
    # a CPU keeps exp(-|x|) for the backward, a GPU an empty tensor
    if len(spec.shape) == len(x.shape) and spec.shape == x.shape:
        return out, c.give(e, 1)
    return out, c.b.full(spec.shape, 0.0, spec.dtype)


@expands("aten.log_sigmoid_backward.default", exactness="cuda")
def _log_sigmoid_backward(c: Context, grad: Value, x: Value, buffer: Value) -> Value:
    v, dy = real(x), real(grad)
    e = c.b.op("exp", -c.b.op("abs", v)) if c.device != "cpu" else real(buffer)
    negative = v < 0
    slope = negative.cast(v.dtype)
    sign = c.b.where(negative, 1.0, c.b.const(-1.0, v.dtype))
    return c.give(dy * (slope - sign * (e / (1.0 + e))))


def _halves(c: Context, x: Value, dim: int) -> tuple[Value, Value]:
    dim %= len(x.shape)
    half = divide(x.shape[dim], 2)
    if half is None:
        raise Unsupported(f"glu of a size that 2 does not divide ({x.shape[dim]})")
    return c.b.slice(x, dim, 0, half), c.b.slice(x, dim, half, half)


@expands("aten.glu.default")
def _glu(c: Context, x: Value, dim: int = -1) -> Value:
    a, b = _halves(c, x, dim)
    return c.give(real(a) * sigmoid(c, real(b)))


@expands("aten.glu_backward.default")
def _glu_backward(c: Context, grad: Value, x: Value, dim: int) -> Value:
    a, b = (real(v) for v in _halves(c, x, dim))
    dy, s = real(grad), sigmoid(c, b)
    da, db = s * dy, (1.0 - s) * s * dy * a
    return c.give(c.b.cat([da.cast(x.dtype), db.cast(x.dtype)], dim % len(x.shape)))


@expands("aten.prelu.default", "aten._prelu_kernel.default", exactness="exact")
def _prelu(c: Context, x: Value, weight: Value) -> Value:
    v = real(x)
    return c.give(c.b.where(v > 0, v, v * real(weight)))


@expands("aten._prelu_kernel_backward.default", exactness="exact")
def _prelu_backward(c: Context, grad: Value, x: Value, weight: Value) -> Result:
    v, dy = real(x), real(grad)
    positive = v > 0
    return (
        c.give(c.b.where(positive, dy, real(weight) * dy), 0),
        c.give(c.b.where(positive, 0.0, v * dy), 1),
    )


@expands("aten.hardshrink.default", exactness="exact")
def _hardshrink(c: Context, x: Value, lambd: Scalar = 0.5) -> Value:
    v = real(x)
    inside = (v >= stored(c, -number(lambd), x.dtype)) & (v <= stored(c, number(lambd), x.dtype))
    return c.give(c.b.where(inside, 0.0, v))


@expands("aten.softshrink.default", exactness="exact")
def _softshrink(c: Context, x: Value, lambd: Scalar = 0.5) -> Value:
    if c.device == "cpu":
        only_eager_is_exact(c, "the sign of a CPU's zeros depends on the element's place")
    v = real(x)
    shrink = number(lambd)
    low = c.b.where(v < -shrink, v + shrink, 0.0)
    return c.give(c.b.where((v > shrink) | v.ne(v), v - shrink, low))


@expands("aten.hardshrink_backward.default", "aten.softshrink_backward.default", exactness="exact")
def _shrink_backward(c: Context, grad: Value, x: Value, lambd: Scalar) -> Value:
    if c.device == "cpu":
        only_eager_is_exact(c, "what a CPU gives for a NaN depends on the element's place")
    v = real(x)
    inside = (v >= stored(c, -number(lambd), x.dtype)) & (v <= stored(c, number(lambd), x.dtype))
    return c.give(c.b.where(inside, 0.0, real(grad)))


@expands("aten.native_dropout_backward.default", exactness="exact")
def _native_dropout_backward(c: Context, grad: Value, mask: Value, scale: float) -> Value:
    if not grad.dtype.is_float:
        raise Unsupported("the gradient of a dropout of integers")
    dy = real(grad)
    return c.give(mask.cast(dy.dtype) * dy * number(scale))
