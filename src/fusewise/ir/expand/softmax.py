"""Softmax, log-softmax, their gradients, and log-sum-exp: in f32 for 16-bit floats, in three passes over the row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusewise.errors import Unsupported
from fusewise.ir.builder import Value
from fusewise.ir.dtypes import DType, compute_dtype
from fusewise.ir.expand.common import dims_of, floating, own
from fusewise.ir.expand.table import Context, expands
from fusewise.ir.sizes import is_zero_numel


def _row(x: Value, dim: int) -> list[int]:
    return [dim % len(x.shape)]


def _shifted(c: Context, x: Value, dim: int) -> tuple[Value, Value]:
    """(x - max, sum of exp(x - max)), the sum with its dim kept; a row of -inf gives NaN, as in eager."""
    off = x - c.b.reduce("max", x, _row(x, dim), True)
    return off, c.b.reduce("sum", c.b.op("exp", off), _row(x, dim), True)


@expands("aten._softmax.default")
def _softmax(c: Context, x: Value, dim: int, half_to_float: bool) -> Value:
    v = floating(c, x)
    if not x.shape:
        return c.give(c.b.op("exp", v - v))
    off, total = _shifted(c, v, dim)
    return c.give(c.b.op("exp", off) / total)


@expands("aten._safe_softmax.default")
def _safe_softmax(c: Context, x: Value, dim: int, dtype: DType | None = None) -> Value:
    v = x.cast(c.out.dtype).cast(compute_dtype(c.out.dtype))
    if not x.shape:
        raise Unsupported("a safe softmax of a scalar")
    off, total = _shifted(c, v, dim)
    masked = c.b.reduce("all", v.eq(-math.inf), _row(x, dim), True)
    return c.give(c.b.where(masked, 0.0, c.b.op("exp", off) / total))


@expands("aten._log_softmax.default")
def _log_softmax(c: Context, x: Value, dim: int, half_to_float: bool) -> Value:
    v = floating(c, x)
    if not x.shape:
        return c.give(v - v)
    off, total = _shifted(c, v, dim)
    return c.give(off - c.b.op("log", total))


@expands("aten._softmax_backward_data.default")
def _softmax_backward(c: Context, grad: Value, output: Value, dim: int, input_dtype: DType) -> Value:
    dy, y = own(grad), own(output)
    if not output.shape:
        return c.give(dy - dy)
    weighted = dy * y
    total = c.b.reduce("sum", weighted, _row(output, dim), True)
    if c.device == "cpu":
        return c.give((dy - total) * y)
    return c.give(c.b.op("fma", -y, total, weighted))


@expands("aten._log_softmax_backward_data.default")
def _log_softmax_backward(c: Context, grad: Value, output: Value, dim: int, input_dtype: DType) -> Value:
    dy, y = own(grad), own(output)
    if not output.shape:
        return c.give(dy - dy)
    total = c.b.reduce("sum", dy, _row(output, dim), True)
    return c.give(dy - c.b.op("exp", y) * total)


@expands("aten.logsumexp.default")
def _logsumexp(c: Context, x: Value, dim: int | Sequence[int], keepdim: bool = False) -> Value:
    v = floating(c, x)
    if not x.shape or is_zero_numel(x.shape):
        raise Unsupported("logsumexp of a scalar or of no elements")
    dims = dims_of(dim, len(x.shape))
    top = c.b.reduce("max", v, dims, True)
    # an infinite maximum is not subtracted: inf - inf would be NaN
    top = c.b.where(c.b.op("abs", top).eq(math.inf), 0.0, top)
    total = c.b.reduce("sum", c.b.op("exp", v - top), dims, True)
    return c.give(c.b.reshape(c.b.op("log", total) + top, c.out.shape))
