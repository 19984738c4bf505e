"""Tensors made from nothing: constants, ranges, triangles."""

from __future__ import annotations

from typing import Any

from fusewise.errors import Unsupported
from fusewise.ir.builder import Value
from fusewise.ir.dtypes import I64, compute_dtype
from fusewise.ir.expand.common import Operand, is_number, own, stored
from fusewise.ir.expand.table import Context, expands
from fusewise.ir.sizes import Size


def _filled(c: Context, value: Operand) -> Value:
    """The result's shape full of one number, rounded to the result's dtype."""
    if is_number(value):
        return c.b.full(c.out.shape, value, c.out.dtype)
    return c.give(c.lift(value, c.out.dtype))


@expands("aten.full.default", "aten.full_like.default", "aten.new_full.default", exactness="exact")
def _full(c: Context, _like: object, *rest: Any, **_layout: Any) -> Value:
    return _filled(c, rest[-1])


@expands(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.zero.default",
    exactness="exact",
)
def _zeros(c: Context, *_args: Any, **_layout: Any) -> Value:
    return _filled(c, 0)


@expands("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default", exactness="exact")
def _ones(c: Context, *_args: Any, **_layout: Any) -> Value:
    return _filled(c, 1)


@expands("aten.scalar_tensor.default", exactness="exact")
def _scalar_tensor(c: Context, value: Operand, **_layout: Any) -> Value:
    return _filled(c, value)


@expands("aten.fill.Scalar", "aten.fill.Tensor", exactness="exact")
def _fill(c: Context, _x: Value, value: Operand) -> Value:
    return _filled(c, value)


@expands(
    "aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default", "aten.empty_strided.default",
    "aten.new_empty_strided.default", exactness="inexact",
)  # fmt: skip
def _empty(c: Context, *_args: Any, **_layout: Any) -> Value:
    raise Unsupported("an uninitialised tensor")


def _range(c: Context, start: Operand, step: Operand) -> Value:
    """start + i * step: in i64 for integers, in f64 (f32 on a GPU) for floats, as eager's kernels count."""
    index = c.b.iota(c.out.shape, 0)
    dtype = c.out.dtype
    if not dtype.is_float:
        return c.give(c.lift(start, I64) + index * c.lift(step, I64))
    wide = compute_dtype(dtype)
    return c.give(c.b.op("fma", index.cast(wide), c.lift(step, wide), c.lift(start, wide)))


@expands("aten.arange.default", exactness="inexact")
def _arange(c: Context, end: Operand, **_layout: Any) -> Value:
    return _range(c, 0, 1)


@expands("aten.arange.start", exactness="inexact")
def _arange_start(c: Context, start: Operand, end: Operand, **_layout: Any) -> Value:
    return _range(c, start, 1)


@expands("aten.arange.start_step", exactness="inexact")
def _arange_step(c: Context, start: Operand, end: Operand, step: Operand = 1, **_layout: Any) -> Value:
    return _range(c, start, step)


@expands("prims.iota.default", exactness="exact")
def _iota(c: Context, length: Size, *, start: Operand, step: Operand, **_layout: Any) -> Value:
    return _range(c, start, step)


@expands("aten.linspace.default")
def _linspace(c: Context, start: Operand, end: Operand, steps: Size, **_layout: Any) -> Value:
    dtype = c.out.dtype
    if not dtype.is_float or not isinstance(steps, int):
        raise Unsupported("a linspace of integers or of a symbolic length")
    wide = compute_dtype(dtype)
    first, last = c.lift(start, wide), c.lift(end, wide)
    if steps == 1:
        return c.give(first)
    step = (last - first) / c.b.const(steps - 1, wide)
    index = c.b.iota(c.out.shape, 0)
    # counted from the nearer end, so that both ends are exact
    up = first + step * index.cast(wide)
    down = last - step * (c.b.const(steps - 1, I64) - index).cast(wide)
    return c.give(c.b.where(index < steps // 2, up, down))


@expands("aten.eye.default", "aten.eye.m", exactness="exact")
def _eye(c: Context, *_sizes: Any, **_layout: Any) -> Value:
    rows, columns = c.b.iota(c.out.shape, 0), c.b.iota(c.out.shape, 1)
    return c.give(rows.eq(columns))


def _triangle(c: Context, x: Value, diagonal: int, lower: bool) -> Value:
    rank = len(x.shape)
    rows, columns = c.b.iota(x.shape, rank - 2), c.b.iota(x.shape, rank - 1)
    edge = rows + c.lift(diagonal, I64)
    keep = columns <= edge if lower else columns >= edge
    value = own(x)
    return c.give(c.b.where(keep, value, stored(c, 0, x.dtype)))


@expands("aten.tril.default", exactness="exact")
def _tril(c: Context, x: Value, diagonal: int = 0) -> Value:
    return _triangle(c, x, diagonal, lower=True)


@expands("aten.triu.default", exactness="exact")
def _triu(c: Context, x: Value, diagonal: int = 0) -> Value:
    return _triangle(c, x, diagonal, lower=False)
