"""Losses and their gradients. `reduction` is 0 for none, 1 for the mean, 2 for the sum, as in ATen."""

from __future__ import annotations

from fusewise.errors import Unsupported
from fusewise.ir import affine
from fusewise.ir.affine import Index
from fusewise.ir.builder import Value
from fusewise.ir.dtypes import I64
from fusewise.ir.expand.common import number, own, rounded, stored
from fusewise.ir.expand.indexing import checked
from fusewise.ir.expand.reductions import mean_of
from fusewise.ir.expand.table import Context, Result, expands
from fusewise.ir.sizes import Size, prod

MEAN, SUM = 1, 2


def _reduce(c: Context, loss: Value, reduction: int) -> Value:
    """The loss of each element, or their mean or sum."""
    if reduction == MEAN:
        loss = mean_of(c, loss, None, False)
    elif reduction == SUM and loss.shape:
        loss = c.b.reduce("sum", loss)
    return c.give(loss)


def _share(c: Context, value: Value, reduction: int, factor: float = 1.0) -> Value:
    """What the gradient of the reduction multiplies by: factor, over the number of elements for a mean."""
    one = c.b.const(factor, value.dtype)
    return one / c.b.size(prod(value.shape)).cast(value.dtype) if reduction == MEAN else one


@expands("aten.mse_loss.default")
def _mse(c: Context, x: Value, target: Value, reduction: int = MEAN) -> Value:
    gap = stored(c, x) - stored(c, target)
    return _reduce(c, gap * gap, reduction)


@expands("aten.mse_loss_backward.default")
def _mse_backward(c: Context, grad: Value, x: Value, target: Value, reduction: int) -> Value:
    gap = stored(c, x) - stored(c, target)
    return c.give(_share(c, gap, reduction, 2.0) * gap * stored(c, grad))


@expands("aten.smooth_l1_loss.default")
def _smooth_l1(c: Context, x: Value, target: Value, reduction: int = MEAN, beta: float = 1.0) -> Value:
    z = c.b.op("abs", stored(c, x) - stored(c, target))
    loss = c.b.where(z < number(beta), 0.5 * z * z / number(beta), z - 0.5 * number(beta))
    return _reduce(c, loss, reduction)


@expands("aten.smooth_l1_loss_backward.default")
def _smooth_l1_backward(c: Context, grad: Value, x: Value, target: Value, reduction: int, beta: float) -> Value:
    gap, dy = stored(c, x) - stored(c, target), stored(c, grad)
    share = _share(c, gap, reduction)
    inside = share * gap * dy / number(beta)
    outside = c.b.where(gap < 0, -share * dy, share * dy)
    return c.give(c.b.where(c.b.op("abs", gap) < number(beta), inside, outside))


@expands("aten.huber_loss.default")
def _huber(c: Context, x: Value, target: Value, reduction: int = MEAN, delta: float = 1.0) -> Value:
    z, d = c.b.op("abs", stored(c, x) - stored(c, target)), number(delta)
    return _reduce(c, c.b.where(z < d, 0.5 * z * z, (z - 0.5 * d) * d), reduction)


@expands("aten.huber_loss_backward.default")
def _huber_backward(c: Context, grad: Value, x: Value, target: Value, reduction: int, delta: float) -> Value:
    gap, dy, d = stored(c, x) - stored(c, target), stored(c, grad), number(delta)
    share = _share(c, gap, reduction)
    outside = c.b.where(gap < 0, -share * dy * d, share * dy * d)
    return c.give(c.b.where(c.b.op("abs", gap) < d, share * gap * dy, outside))


@expands("aten.soft_margin_loss_backward.default")
def _soft_margin_backward(c: Context, grad: Value, x: Value, target: Value, reduction: int) -> Value:
    t = stored(c, target)
    z = c.b.op("exp", -t * stored(c, x))
    # z / (1 + z), not 1 / (1 + z) - 1: that cancels where the margin is wide
    share = _share(c, z, reduction, -1.0)
    return c.give(t * z * share / (z + 1.0) * stored(c, grad))


def _log_at_least(c: Context, log: Value) -> Value:
    """Logarithms of probabilities are held at -100, as eager holds them; a NaN stays."""
    return c.b.where(log < -100.0, -100.0, log)


@expands("aten.binary_cross_entropy.default")
def _bce(c: Context, x: Value, target: Value, weight: Value | None = None, reduction: int = MEAN) -> Value:
    if c.device == "cpu":
        raise Unsupported("binary cross entropy: eager raises for an input outside [0, 1]")
    p, t = stored(c, x), stored(c, target)
    miss, hit = c.b.op("log1p", -p), c.b.op("log", p)
    loss = (t - 1.0) * _log_at_least(c, miss) - t * _log_at_least(c, hit)
    return _reduce(c, loss if weight is None else loss * stored(c, weight), reduction)


@expands("aten.binary_cross_entropy_backward.default")
def _bce_backward(
    c: Context, grad: Value, x: Value, target: Value, weight: Value | None = None, reduction: int = MEAN
) -> Value:
    p, t = stored(c, x), stored(c, target)
    spread = (1.0 - p) * p
    spread = c.b.where(spread < 1e-12, 1e-12, spread)
    out = stored(c, grad) * (p - t) / spread
    if weight is not None:
        out = out * stored(c, weight)
    return c.give(out * _share(c, p, reduction) if reduction == MEAN else out)


@expands("aten.binary_cross_entropy_with_logits.default")
def _bce_with_logits(
    c: Context,
    x: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = MEAN,
) -> Value:
    v, t = stored(c, x), stored(c, target)
    low = c.b.where(v > 0, 0.0, v)
    log_sigmoid = low - c.b.op("log1p", c.b.op("exp", -c.b.op("abs", v)))
    if pos_weight is not None:
        log_sigmoid = log_sigmoid * ((stored(c, pos_weight) - 1.0) * t + 1.0)
    loss = (1.0 - t) * v - log_sigmoid
    return _reduce(c, loss if weight is None else loss * stored(c, weight), reduction)


@expands("aten.soft_margin_loss.default")
def _soft_margin(c: Context, x: Value, target: Value, reduction: int = MEAN) -> Value:
    # three ops in eager, each rounded: in f16 the exponential overflows early
    product = rounded(-stored(c, target) * stored(c, x), c.promoted)
    return _reduce(c, c.b.op("log1p", rounded(c.b.op("exp", product), c.promoted)), reduction)


# ---- negative log likelihood


class _Classes:
    """The operands of an nll loss: [classes], [n, classes] or [n, classes, ...] and a class index for each row."""

    def __init__(self, c: Context, x: Value, target: Value, weight: Value | None, ignore_index: int) -> None:
        self.dim = 0 if len(x.shape) == 1 else 1
        self.classes: Size = x.shape[self.dim]
        self.rows = tuple(n for d, n in enumerate(x.shape) if d != self.dim)
        at = c.b.reshape(target.cast(I64), self.rows)
        self.ignored = at.eq(ignore_index)
        # an ignored row reads class 0, and what it reads is dropped
        self.at = checked(c, c.b.where(self.ignored, 0, at), self.classes)
        self.dtype = own(x).dtype
        self.weight = self._weights(c, weight)

    def _weights(self, c: Context, weight: Value | None) -> Value:
        """The weight of each row: its class's, 0 where it is ignored."""
        if weight is None:
            return (~self.ignored).cast(self.dtype)
        axes = [affine.axis(f"o{d}") for d in range(len(self.rows))]
        return c.b.where(self.ignored, 0.0, c.b.gather(weight, self.at, 0, self.rows, [None], axes).cast(self.dtype))

    def picked(self, c: Context, x: Value) -> Value:
        """x at each row's class."""
        axes = [affine.axis(f"o{d}") for d in range(len(self.rows))]
        others = iter(axes)
        where: list[Index | None] = [None if d == self.dim else next(others) for d in range(len(x.shape))]
        return c.b.gather(x, self.at, self.dim, self.rows, where, axes).cast(self.dtype)


@expands("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default")
def _nll_loss(c: Context, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int) -> Result:
    rows = _Classes(c, x, target, weight, ignore_index)
    loss = c.b.where(rows.ignored, 0.0, -rows.picked(c, x) * rows.weight)
    if reduction == 0:
        # eager leaves the total weight of a batch at 0 here, and that of a single row at its weight
        weights = c.b.const(0, rows.dtype) if rows.rows else rows.weight
        return c.give(c.b.reshape(loss, c.out.shape)), c.give(weights, 1)
    total = c.b.reduce("sum", loss) if rows.rows else loss
    weights = c.b.reduce("sum", rows.weight) if rows.rows else rows.weight
    return c.give(total / weights if reduction == MEAN else total), c.give(weights, 1)


@expands("aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default")
def _nll_loss_backward(
    c: Context,
    grad: Value,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    total_weight: Value,
) -> Value:
    rows = _Classes(c, x, target, weight, ignore_index)
    dy = grad.cast(rows.dtype)
    if reduction == MEAN:
        dy = dy / total_weight.cast(rows.dtype)
    if reduction == 0:
        dy = c.b.reshape(dy, rows.rows)
    slope = c.b.where(rows.ignored, 0.0, -dy * rows.weight)
    with_classes = [1 if d == rows.dim else n for d, n in enumerate(x.shape)]
    here = c.b.iota(x.shape, rows.dim).eq(c.b.reshape(rows.at, with_classes))
    return c.give(c.b.where(here, c.b.reshape(slope, with_classes), 0.0))
