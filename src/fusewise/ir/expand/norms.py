"""Layer, RMS, group and batch norm with their gradients.

Statistics are computed in f32 for 16-bit floats (f64 for f64) by two passes: the mean, then the mean of squared
deviations. What is returned is cast to the dtype that PyTorch reports, which differs by device (a CPU saves the
statistics of a bf16 layer norm in bf16).
"""

from __future__ import annotations

from collections.abc import Sequence

from fusewise.errors import Unsupported
from fusewise.ir.builder import Value
from fusewise.ir.dtypes import DType
from fusewise.ir.expand.common import count_of, number, real, tensors
from fusewise.ir.expand.reductions import mean_of
from fusewise.ir.expand.table import Context, Result, expands
from fusewise.ir.sizes import Size, divide, is_zero_numel


def _refuse_empty(x: Value) -> None:
    if is_zero_numel(x.shape):
        raise Unsupported("a norm of no elements")


def _inverse_root(c: Context, x: Value) -> Value:
    """1 / sqrt(x): two roundings on a CPU, one function on a GPU."""
    return 1.0 / c.b.op("sqrt", x) if c.device == "cpu" else c.b.op("rsqrt", x)


def statistics(c: Context, x: Value, dims: Sequence[int], eps: float) -> tuple[Value, Value, Value]:
    """(mean, deviations from it, 1 / sqrt(variance + eps)) over `dims`, dims kept."""
    mean = mean_of(c, x, dims, True)
    off = x - mean
    variance = mean_of(c, off * off, dims, True)
    return mean, off, _inverse_root(c, variance + eps)


def _affine(c: Context, x: Value, weight: Value | None, bias: Value | None) -> Value:
    """x * weight + bias, each optional, the parameters already of a shape that broadcasts."""
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


def _parameter(weight: Value | None, dtype: DType) -> Value | None:
    return None if weight is None else weight.cast(dtype)


# ---- layer norm


def _trailing(x: Value, normalized_shape: Sequence[Size]) -> list[int]:
    rank = len(x.shape)
    return list(range(rank - len(normalized_shape), rank))


@expands("aten.native_layer_norm.default")
def _layer_norm(
    c: Context, x: Value, normalized_shape: Sequence[Size], weight: Value | None, bias: Value | None, eps: float
) -> Result:
    _refuse_empty(x)
    v = real(x)
    mean, off, inverse = statistics(c, v, _trailing(x, normalized_shape), number(eps))
    out = _affine(c, off * inverse, _parameter(weight, v.dtype), _parameter(bias, v.dtype))
    return tensors(c, (out, mean, inverse))


def _column_sum(c: Context, value: Value, rank: int) -> Value:
    """Sum over all but the last `rank` dims."""
    lead = list(range(len(value.shape) - rank))
    return c.b.reduce("sum", value, lead) if lead else value


@expands("aten.native_layer_norm_backward.default")
def _layer_norm_backward(
    c: Context,
    grad: Value,
    x: Value,
    normalized_shape: Sequence[Size],
    mean: Value,
    inverse: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Sequence[bool],
) -> Result:
    _refuse_empty(x)
    v = real(x)
    dy = grad.cast(v.dtype)
    dims = _trailing(x, normalized_shape)
    rstd = inverse.cast(v.dtype)
    normal = (v - mean.cast(v.dtype)) * rstd
    scaled = dy if weight is None else dy * weight.cast(v.dtype)
    dx = _norm_input_gradient(c, scaled, normal, rstd, dims) if output_mask[0] else None
    dweight = _column_sum(c, dy * normal, len(dims)) if output_mask[1] else None
    dbias = _column_sum(c, dy, len(dims)) if output_mask[2] else None
    return tensors(c, (dx, dweight, dbias))


def _norm_input_gradient(c: Context, dy: Value, normal: Value, rstd: Value, dims: Sequence[int]) -> Value:
    """rstd (dy - mean(dy) - normal mean(dy normal)): the gradient through mean and variance over `dims`."""
    mean_dy = mean_of(c, dy, dims, True)
    mean_product = mean_of(c, dy * normal, dims, True)
    return (dy - mean_dy - normal * mean_product) * rstd


# ---- RMS norm


@expands("aten._fused_rms_norm.default")
def _rms_norm(
    c: Context, x: Value, normalized_shape: Sequence[Size], weight: Value | None, eps: float | None
) -> Result:
    _refuse_empty(x)
    v = real(x)
    dims = _trailing(x, normalized_shape)
    small = _EPSILON[x.dtype.name] if eps is None else number(eps)
    inverse = c.b.op("rsqrt", mean_of(c, v * v, dims, True) + small)
    return tensors(c, (_affine(c, v * inverse, _parameter(weight, v.dtype), None), inverse))


_EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-23, "bf16": 2.0**-23}


@expands("aten._fused_rms_norm_backward.default")
def _rms_norm_backward(
    c: Context,
    grad: Value,
    x: Value,
    normalized_shape: Sequence[Size],
    inverse: Value,
    weight: Value | None,
    output_mask: Sequence[bool],
) -> Result:
    _refuse_empty(x)
    v = real(x)
    dy = grad.cast(v.dtype)
    dims = _trailing(x, normalized_shape)
    rstd = inverse.cast(v.dtype)
    normal = v * rstd
    scaled = dy if weight is None else dy * weight.cast(v.dtype)
    dx = (scaled - normal * mean_of(c, scaled * normal, dims, True)) * rstd if output_mask[0] else None
    dweight = _column_sum(c, dy * normal, len(dims)) if output_mask[1] else None
    return tensors(c, (dx, dweight))


# ---- group norm


def _groups(c: Context, x: Value, n: Size, channels: Size, pixels: Size, groups: int) -> Value:
    """x as [n, groups, channels of a group, pixels]."""
    per_group = divide(channels, groups)
    if per_group is None:
        raise Unsupported(f"{channels} channels in {groups} groups")
    return c.b.reshape(x, (n, groups, per_group, pixels))


def _per_channel(c: Context, weight: Value | None, groups: int, dtype: DType) -> Value | None:
    """A channel parameter as [groups, channels of a group, 1]."""
    if weight is None:
        return None
    per_group = divide(weight.shape[0], groups)
    if per_group is None:
        raise Unsupported(f"{weight.shape[0]} channels in {groups} groups")
    return c.b.reshape(weight.cast(dtype), (groups, per_group, 1))


@expands("aten.native_group_norm.default")
def _group_norm(
    c: Context,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: Size,
    channels: Size,
    pixels: Size,
    groups: int,
    eps: float,
) -> Result:
    _refuse_empty(x)
    v = _groups(c, real(x), n, channels, pixels, groups)
    mean, _, inverse = statistics(c, v, (2, 3), number(eps))
    scale, shift = (_per_channel(c, p, groups, v.dtype) for p in (weight, bias))
    # as in eager's kernels: a product and a sum an element, with what a group and a channel share computed beforehand
    steep = inverse if scale is None else scale * inverse
    level = -mean * steep if shift is None else shift - mean * steep
    out = c.b.reshape(v * steep + level, x.shape)
    flat = [c.b.reshape(s, (n, groups)) for s in (mean, inverse)]
    return tensors(c, (out, flat[0], flat[1]))


@expands("aten.native_group_norm_backward.default")
def _group_norm_backward(
    c: Context,
    grad: Value,
    x: Value,
    mean: Value,
    inverse: Value,
    weight: Value | None,
    n: Size,
    channels: Size,
    pixels: Size,
    groups: int,
    output_mask: Sequence[bool],
) -> Result:
    _refuse_empty(x)
    v = _groups(c, real(x), n, channels, pixels, groups)
    dy = _groups(c, grad.cast(v.dtype), n, channels, pixels, groups)
    centre, rstd = (c.b.reshape(s.cast(v.dtype), (n, groups, 1, 1)) for s in (mean, inverse))
    scale = _per_channel(c, weight, groups, v.dtype)
    # sums over the pixels of a channel first: what a group and a channel need of them is then small, so that groups
    # which do not fit on chip are read twice, not once more for each sum
    db = c.b.reduce("sum", dy, (3,), keepdim=True)
    ds = c.b.reduce("sum", dy * (v - centre), (3,), keepdim=True) * rstd
    dx = None
    if output_mask[0]:
        count = c.b.size(db.shape[2] * pixels, v.dtype)
        first, second = (c.b.reduce("sum", s if scale is None else s * scale, (2,), True) / count for s in (db, ds))
        # rstd (dy scale - first - normal second), with what a group and a channel share taken out of the products of
        # each element: two fma an element, and no product of small numbers is rounded away before rstd makes it large
        steep = rstd if scale is None else scale * rstd
        dx = c.b.reshape(dy * steep - ((v - centre) * (second * rstd * rstd) + first * rstd), x.shape)
    dweight = c.b.reshape(c.b.reduce("sum", ds, (0,)), (channels,)) if output_mask[1] else None
    dbias = c.b.reshape(c.b.reduce("sum", db, (0,)), (channels,)) if output_mask[2] else None
    return tensors(c, (dx, dweight, dbias))


# ---- batch norm


def _but_channel(x: Value) -> list[int]:
    return [d for d in range(len(x.shape)) if d != 1]


def _over_pixels(c: Context, parameter: Value, x: Value, dtype: DType) -> Value:
    """A channel vector as [1, channels, 1, ...]."""
    shape = [1 if d != 1 else n for d, n in enumerate(x.shape)]
    return c.b.reshape(parameter.cast(dtype), shape)


def _scale_shift(c: Context, value: Value, x: Value, weight: Value | None, bias: Value | None) -> Value:
    scale, shift = (None if p is None else _over_pixels(c, p, x, value.dtype) for p in (weight, bias))
    return _affine(c, value, scale, shift)


def _by_running(
    c: Context, x: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value, eps: float
) -> Value:
    v = real(x)
    centre = _over_pixels(c, mean, x, v.dtype)
    inverse = _inverse_root(c, _over_pixels(c, variance, x, v.dtype) + eps)
    return _scale_shift(c, (v - centre) * inverse, x, weight, bias)


def _train(
    c: Context, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value, Value]:
    """(normalised, batch mean, 1 / sqrt(variance + eps), variance), the statistics as channel vectors."""
    _refuse_empty(x)
    v, dims = real(x), _but_channel(x)
    mean = mean_of(c, v, dims, True)
    off = v - mean
    variance = mean_of(c, off * off, dims, True)
    inverse = _inverse_root(c, variance + eps)
    out = _scale_shift(c, off * inverse, x, weight, bias)
    channels = (x.shape[1],)
    return out, c.b.reshape(mean, channels), c.b.reshape(inverse, channels), c.b.reshape(variance, channels)


def _running(c: Context, running: Value | None, batch: Value, momentum: float) -> Value | None:
    """momentum * batch + (1 - momentum) * running."""
    if running is None:
        return None
    old = real(running)
    return batch.cast(old.dtype) * momentum + old * (1.0 - momentum)


def _unbiased(c: Context, x: Value, variance: Value) -> Value:
    """variance * n / (n - 1), n the number of elements of a channel."""
    count = c.b.size(count_of(x, _but_channel(x))).cast(variance.dtype)
    return variance * (count / (count - 1.0))


def _saved_empty(c: Context, which: int) -> Value | None:
    spec = c.outs[which]
    return None if spec is None else c.b.full(spec.shape, 0.0, spec.dtype)


def _saved_running(c: Context, x: Value, mean: Value, variance: Value, eps: float) -> tuple[Value | None, Value | None]:
    """Results 1 and 2 without training: the statistics that were used, which a GPU gives; a CPU gives empty tensors."""
    spec = c.outs[1]
    if spec is None or spec.shape == (0,):
        return _saved_empty(c, 1), _saved_empty(c, 2)
    dtype = real(x).dtype
    return c.give(c.b.op("copy", mean).cast(dtype), 1), c.give(_inverse_root(c, variance.cast(dtype) + eps), 2)


@expands("aten._native_batch_norm_legit_no_training.default")
def _batch_norm_eval(
    c: Context,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    momentum: float,
    eps: float,
) -> Result:
    out = _by_running(c, x, weight, bias, mean, variance, number(eps))
    return c.give(out), *_saved_running(c, x, mean, variance, number(eps))


@expands("aten._native_batch_norm_legit.no_stats")
def _batch_norm_no_stats(
    c: Context, x: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> Result:
    out, mean, inverse, _ = _train(c, x, weight, bias, number(eps))
    return tensors(c, (out, mean, inverse))


@expands("aten._native_batch_norm_legit_functional.default")
def _batch_norm_functional(
    c: Context,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> Result:
    if not training:
        out = c.give(_by_running(c, x, weight, bias, running_mean, running_var, number(eps)))
        mean, variance = c.b.op("copy", running_mean), c.b.op("copy", running_var)
        saved = _saved_running(c, x, running_mean, running_var, number(eps))
        return out, *saved, c.give(mean, 3), c.give(variance, 4)
    out, mean, inverse, variance = _train(c, x, weight, bias, number(eps))
    new_mean = _running(c, running_mean, mean, number(momentum))
    new_var = _running(c, running_var, _unbiased(c, x, variance), number(momentum))
    return tensors(c, (out, mean, inverse, new_mean, new_var))


@expands("aten._batch_norm_with_update_functional.default")
def _batch_norm_with_update(
    c: Context,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> Result:
    out, mean, inverse, variance = _train(c, x, weight, bias, number(eps))
    new_mean = _running(c, running_mean, mean, number(momentum))
    new_var = _running(c, running_var, _unbiased(c, x, variance), number(momentum))
    first = tensors(c, (out, mean, inverse))
    last = c.give(_given(new_mean), 4), c.give(_given(new_var), 5)
    return *first, _saved_empty(c, 3), *last


def _given(value: Value | None) -> Value:
    if value is None:
        raise Unsupported("a batch norm without running statistics")
    return value


@expands("aten.batch_norm_backward.default")
def _batch_norm_backward_reserve(
    c: Context,
    grad: Value,
    x: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    saved_mean: Value | None,
    saved_inverse: Value | None,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: Value,
) -> Result:
    return _batch_norm_backward(
        c, grad, x, weight, running_mean, running_var, saved_mean, saved_inverse, update, eps, output_mask
    )


@expands("aten.native_batch_norm_backward.default")
def _batch_norm_backward(
    c: Context,
    grad: Value,
    x: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    saved_mean: Value | None,
    saved_inverse: Value | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Result:
    _refuse_empty(x)
    v = real(x)
    dy, dims = grad.cast(v.dtype), _but_channel(x)
    if train:
        if saved_mean is None or saved_inverse is None:
            raise Unsupported("a batch norm's gradient without saved statistics")
        centre, rstd = (_over_pixels(c, s, x, v.dtype) for s in (saved_mean, saved_inverse))
    else:
        if running_mean is None or running_var is None:
            raise Unsupported("a batch norm's gradient without running statistics")
        centre = _over_pixels(c, running_mean, x, v.dtype)
        rstd = _inverse_root(c, _over_pixels(c, running_var, x, v.dtype) + number(eps))
    normal = (v - centre) * rstd
    dx: Value | None = None
    if output_mask[0]:
        core = _norm_input_gradient(c, dy, normal, rstd, dims) if train else dy * rstd
        dx = core if weight is None else core * _over_pixels(c, weight, x, v.dtype)
    dweight = c.b.reduce("sum", dy * normal, dims) if output_mask[1] else None
    dbias = c.b.reduce("sum", dy, dims) if output_mask[2] else None
    return tensors(c, (dx, dweight, dbias))
