"""Reductions. 16-bit floats are reduced in f32 and rounded once; sums of integers and bools are i64, as in eager."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusewise.errors import Unsupported
from fusewise.ir import affine
from fusewise.ir.builder import Scalar, Value
from fusewise.ir.dtypes import BOOL, I64, U8, DType, compute_dtype
from fusewise.ir.expand.common import count_of, dims_of, number, only_eager_is_exact, own, truth
from fusewise.ir.expand.table import Context, Result, expands
from fusewise.ir.sizes import is_zero_numel, same

Dims = int | Sequence[int] | None


def wide(c: Context, x: Value, dtype: DType | None = None) -> Value:
    """A tensor in the type that a sum accumulates in: first the result's (or given) dtype, then its compute type."""
    goal = dtype or c.out.dtype
    return x.cast(goal).cast(compute_dtype(goal))


def _reduced(c: Context, name: str, x: Value, dims: Dims, keepdim: bool) -> Value:
    """Reduces over `dims` to the shape of `x` without them (of size 1 with `keepdim`)."""
    if not x.shape:
        return x
    return c.b.reduce(name, x, dims_of(dims, len(x.shape)), keepdim)


def _refuse_empty(x: Value, dims: Dims) -> None:
    """Raises `Unsupported` where a reduction without an identity sees no elements: eager's own op then raises."""
    if is_zero_numel(x.shape[d] for d in dims_of(dims, len(x.shape))):
        raise Unsupported("a reduction of no elements without an identity")


@expands("aten.sum.dim_IntList", exactness="inexact")
def _sum(c: Context, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    return c.give(_reduced(c, "sum", wide(c, x), dim, keepdim))


@expands("aten.sum.default", exactness="inexact")
def _sum_all(c: Context, x: Value, *, dtype: DType | None = None) -> Value:
    return _sum(c, x)


@expands("aten.trace.default")
def _trace(c: Context, x: Value) -> Value:
    rows, columns = x.shape
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Unsupported("a trace of symbolic sizes")
    step = affine.axis("o0")
    return c.give(_reduced(c, "sum", wide(c, c.b.view(x, (min(rows, columns),), [step, step])), None, False))


@expands("aten.nansum.default", exactness="inexact")
def _nansum(c: Context, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    value = wide(c, x)
    if c.out.dtype.is_float:
        value = c.b.where(value.ne(value), 0.0, value)
    return c.give(_reduced(c, "sum", value, dim, keepdim))


def mean_of(c: Context, x: Value, dims: Dims, keepdim: bool) -> Value:
    """Sum over count; a NaN for no elements."""
    chosen = dims_of(dims, len(x.shape))
    return _reduced(c, "sum", x, chosen, keepdim) / c.b.size(count_of(x, chosen)).cast(x.dtype)


@expands("aten.mean.dim", exactness="inexact")
def _mean(c: Context, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    if not c.out.dtype.is_float:
        raise Unsupported("a mean of integers")
    return c.give(mean_of(c, wide(c, x), dim, keepdim))


@expands("aten.mean.default", exactness="inexact")
def _mean_all(c: Context, x: Value, *, dtype: DType | None = None) -> Value:
    return _mean(c, x)


@expands("aten.prod.dim_int", exactness="inexact")
def _prod(c: Context, x: Value, dim: int, keepdim: bool = False, *, dtype: DType | None = None) -> Value:
    return c.give(_reduced(c, "prod", wide(c, x), dim, keepdim))


@expands("aten.prod.default", exactness="inexact")
def _prod_all(c: Context, x: Value, *, dtype: DType | None = None) -> Value:
    return c.give(_reduced(c, "prod", wide(c, x), None, False))


def _extreme(c: Context, name: str, x: Value, dims: Dims, keepdim: bool) -> Value:
    """Maximum or minimum; of bools any or all."""
    _refuse_empty(x, dims)
    if x.dtype.is_float:
        only_eager_is_exact(c, "the sign of a zero among zeros of both signs depends on the order of a reduction")
    if x.dtype == BOOL:
        return _reduced(c, "any" if name == "max" else "all", x, dims, keepdim)
    return _reduced(c, name, own(x), dims, keepdim)


@expands("aten.amax.default", exactness="exact")
def _amax(c: Context, x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return c.give(_extreme(c, "max", x, dim, keepdim))


@expands("aten.amin.default", exactness="exact")
def _amin(c: Context, x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return c.give(_extreme(c, "min", x, dim, keepdim))


@expands("aten.aminmax.default", exactness="exact")
def _aminmax(c: Context, x: Value, *, dim: int | None = None, keepdim: bool = False) -> Result:
    return c.give(_extreme(c, "min", x, dim, keepdim)), c.give(_extreme(c, "max", x, dim, keepdim), 1)


@expands("aten.max.default", exactness="exact")
def _max_all(c: Context, x: Value) -> Value:
    return c.give(_extreme(c, "max", x, None, False))


@expands("aten.min.default", exactness="exact")
def _min_all(c: Context, x: Value) -> Value:
    return c.give(_extreme(c, "min", x, None, False))


def _position(c: Context, name: str, x: Value, dims: Dims, keepdim: bool) -> Value:
    _refuse_empty(x, dims)
    value = x.cast(U8) if x.dtype == BOOL else own(x)
    if not x.shape:
        return c.b.const(0, I64)
    return c.b.reduce(name, value, dims_of(dims, len(x.shape)), keepdim)


@expands("aten.max.dim", exactness="exact")
def _max(c: Context, x: Value, dim: int, keepdim: bool = False) -> Result:
    return c.give(_extreme(c, "max", x, dim, keepdim)), c.give(_position(c, "argmax", x, dim, keepdim), 1)


@expands("aten.min.dim", exactness="exact")
def _min(c: Context, x: Value, dim: int, keepdim: bool = False) -> Result:
    return c.give(_extreme(c, "min", x, dim, keepdim)), c.give(_position(c, "argmin", x, dim, keepdim), 1)


@expands("aten.argmax.default", exactness="exact")
def _argmax(c: Context, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return c.b.reshape(_position(c, "argmax", x, dim, keepdim), c.out.shape)


@expands("aten.argmin.default", exactness="exact")
def _argmin(c: Context, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return c.b.reshape(_position(c, "argmin", x, dim, keepdim), c.out.shape)


@expands("aten.any.dim", "aten.any.dims", "aten.any.default", exactness="exact")
def _any(c: Context, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return c.give(_reduced(c, "any", truth(x), dim, keepdim))


@expands("aten.all.dim", "aten.all.dims", "aten.all.default", exactness="exact")
def _all(c: Context, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return c.give(_reduced(c, "all", truth(x), dim, keepdim))


@expands("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList", exactness="exact")
def _count_nonzero(c: Context, x: Value, dim: Dims = None) -> Value:
    return c.give(_reduced(c, "sum", truth(x).cast(c.out.dtype), dim, False))


# ---- variance


def moments(c: Context, x: Value, dims: Sequence[int]) -> tuple[Value, Value, Value]:
    """(mean, deviations, sum of squared deviations), dims kept: two passes, never E[x^2] - E[x]^2."""
    mean = mean_of(c, x, dims, True)
    off = x - mean
    return mean, off, c.b.reduce("sum", off * off, dims, True) if x.shape else off * off


def _variance(
    c: Context, x: Value, dim: Dims, correction: Scalar | None, zero_of_equals: bool = False
) -> tuple[Value, Value]:
    """(variance, mean), dims kept; the divisor is count - correction, at least 0.

    A mean of equal values is rounded, so their variance is not always 0; with `zero_of_equals` it is, as Welford's
    (eager's) is. A standard deviation needs that: its gradient is 0 at 0 and of the size of 1 beside it.
    """
    value = own(x)
    if not value.dtype.is_float:
        raise Unsupported("a variance of integers")
    dims = dims_of(dim, len(x.shape))
    mean, _, squares = moments(c, value, dims)
    if zero_of_equals and x.shape:
        least, most = (c.b.reduce(name, value, dims, True) for name in ("min", "max"))
        squares = c.b.where(least.eq(most), most - least, squares)  # the difference of infinities is NaN
    count = c.b.size(count_of(x, dims)).cast(value.dtype)
    divisor = count - number(1 if correction is None else correction)
    divisor = c.b.where(divisor < 0, 0.0, divisor)
    return squares / divisor, mean


def _fit(c: Context, value: Value, which: int = 0) -> Value:
    """A result with its dims kept, in the shape that PyTorch gives it."""
    spec = c.outs[which]
    if spec is None:
        raise Unsupported("a result that PyTorch does not give")
    return c.give(c.b.reshape(value, spec.shape), which)


@expands("aten.var.correction", exactness="inexact")
def _var(c: Context, x: Value, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False) -> Value:
    return _fit(c, _variance(c, x, dim, correction)[0])


@expands("aten.var.dim", exactness="inexact")
def _var_dim(c: Context, x: Value, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Value:
    return _fit(c, _variance(c, x, dim, int(unbiased))[0])


@expands("aten.var.default", exactness="inexact")
def _var_all(c: Context, x: Value, unbiased: bool = True) -> Value:
    return _fit(c, _variance(c, x, None, int(unbiased))[0])


@expands("aten.std.correction", exactness="inexact")
def _std(c: Context, x: Value, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False) -> Value:
    return _fit(c, c.b.op("sqrt", _variance(c, x, dim, correction, True)[0]))


@expands("aten.std.dim", exactness="inexact")
def _std_dim(c: Context, x: Value, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Value:
    return _std(c, x, dim, correction=int(unbiased))


@expands("aten.std.default", exactness="inexact")
def _std_all(c: Context, x: Value, unbiased: bool = True) -> Value:
    return _std(c, x, None, correction=int(unbiased))


@expands("aten.var_mean.correction", exactness="inexact")
def _var_mean(
    c: Context, x: Value, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> Result:
    variance, mean = _variance(c, x, dim, correction)
    return _fit(c, variance), _fit(c, mean, 1)


@expands("aten.std_mean.correction", exactness="inexact")
def _std_mean(
    c: Context, x: Value, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> Result:
    variance, mean = _variance(c, x, dim, correction, True)
    return _fit(c, c.b.op("sqrt", variance)), _fit(c, mean, 1)


# ---- norms of vectors


def _vector_norm(c: Context, x: Value, order: Scalar, dims: Dims, keepdim: bool) -> Value:
    value = c.b.op("abs", wide(c, x))
    p = number(order)
    if p != 0 and all(same(x.shape[d], 1) for d in dims_of(dims, len(x.shape))):
        # one element's norm is its absolute value, unrounded; its gradient then cancels to 0 where eager's does
        return _reduced(c, "max", value, dims, keepdim)
    if p in (math.inf, -math.inf):
        _refuse_empty(x, dims)
        return _reduced(c, "max" if p > 0 else "min", value, dims, keepdim)
    if p == 0:
        return _reduced(c, "sum", value.ne(0).cast(value.dtype), dims, keepdim)
    if p == 1:
        return _reduced(c, "sum", value, dims, keepdim)
    if p == 2:
        return c.b.op("sqrt", _reduced(c, "sum", value * value, dims, keepdim))
    if p == 4:
        # products and roots are rounded correctly, a GPU's pow is not, and a gradient takes the norm to the third power
        square = value * value
        return c.b.op("sqrt", c.b.op("sqrt", _reduced(c, "sum", square * square, dims, keepdim)))
    return c.b.op("pow", _reduced(c, "sum", c.b.op("pow", value, p), dims, keepdim), 1.0 / p)


@expands("aten.linalg_vector_norm.default", exactness="inexact")
def _linalg_vector_norm(
    c: Context,
    x: Value,
    ord: Scalar = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Value:
    return c.give(_vector_norm(c, x, ord, dim, keepdim))


@expands("aten.norm.ScalarOpt_dim", exactness="inexact")
def _norm_dim(c: Context, x: Value, p: Scalar | None, dim: Dims, keepdim: bool = False) -> Value:
    return c.give(_vector_norm(c, x, 2 if p is None else p, dim, keepdim))


@expands("aten.norm.ScalarOpt_dim_dtype", exactness="inexact")
def _norm_dim_dtype(
    c: Context, x: Value, p: Scalar | None, dim: Dims, keepdim: bool = False, *, dtype: DType | None = None
) -> Value:
    return c.give(_vector_norm(c, x, 2 if p is None else p, dim, keepdim))


@expands("aten.norm.Scalar", exactness="inexact")
def _norm(c: Context, x: Value, p: Scalar = 2) -> Value:
    return c.give(_vector_norm(c, x, p, None, False))


@expands("aten.norm.ScalarOpt_dtype", exactness="inexact")
def _norm_dtype(c: Context, x: Value, p: Scalar | None, *, dtype: DType | None = None) -> Value:
    return c.give(_vector_norm(c, x, 2 if p is None else p, None, False))
