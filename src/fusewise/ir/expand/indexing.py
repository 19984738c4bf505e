"""Joining, padding, and reads at indexes that are data; the gradients of views that pad with zeros."""

from __future__ import annotations

from collections.abc import Sequence

from fusewise.errors import Unsupported
from fusewise.ir import affine
from fusewise.ir.affine import Index
from fusewise.ir.builder import Scalar, Value
from fusewise.ir.dtypes import BOOL, I64, DType
from fusewise.ir.expand.common import own
from fusewise.ir.expand.table import Context, expands
from fusewise.ir.expand.views import resolve, slice_start
from fusewise.ir.rounding import round_scalar
from fusewise.ir.sizes import Size, norm, prod, same


def _axes(first: int, count: int) -> list[Index]:
    return [affine.axis(f"o{first + d}") for d in range(count)]


def _fill_number(value: Scalar, dtype: DType) -> Scalar:
    """A fill value as it is stored in a tensor of `dtype`."""
    if dtype.is_float:
        return round_scalar(float(value), dtype)
    return bool(value) if dtype.kind == "bool" else int(value)


# ---- joining


@expands("aten.cat.default", exactness="exact")
def _cat(c: Context, values: Sequence[Value], dim: int = 0) -> Value:
    # a tensor of shape (0,) joins with anything, as it always has in PyTorch
    kept = [v for v in values if not (len(v.shape) == 1 and same(v.shape[0], 0))]
    if not kept:
        return c.give(c.b.op("copy", values[0]))
    dim %= len(c.out.shape)
    if len(kept) == 1:
        return c.give(c.b.op("copy", kept[0]))
    return c.give(c.b.cat([v.cast(c.out.dtype) for v in kept], dim))


@expands("aten.stack.default", exactness="exact")
def _stack(c: Context, values: Sequence[Value], dim: int = 0) -> Value:
    dim %= len(c.out.shape)
    shape = [1 if d == dim else n for d, n in enumerate(c.out.shape)]
    parts = [c.b.reshape(v.cast(c.out.dtype), shape) for v in values]
    return c.give(c.b.cat(parts, dim) if len(parts) > 1 else c.b.op("copy", parts[0]))


# ---- padding


@expands("aten.constant_pad_nd.default", exactness="exact")
def _constant_pad(c: Context, x: Value, pad: Sequence[Size], value: Scalar = 0) -> Value:
    rank = len(x.shape)
    low: list[Size] = [0] * rank
    high: list[Size] = [0] * rank
    for pair in range(len(pad) // 2):
        low[rank - 1 - pair], high[rank - 1 - pair] = pad[2 * pair], pad[2 * pair + 1]
    out = c.b.pad(x, low, high, _fill_number(value, x.dtype))
    return c.give(c.b.op("copy", x) if out.id == x.id else out)


def _spread(c: Context, x: Value, dim: int, start: Size, step: int, size: Size) -> Value:
    """x along `dim` at start, start + step, ... of a dim of `size`, zeros elsewhere."""
    rank = len(x.shape)
    length = x.shape[dim]
    zero: Scalar = 0.0 if x.dtype.is_float else False if x.dtype.kind == "bool" else 0

    def one(at: int, value: Size, width: int) -> list[Size]:
        return [value if d == at else 0 for d in range(width)]

    if step != 1 and not same(length, 0):
        wide = c.b.reshape(x, [*x.shape[: dim + 1], 1, *x.shape[dim + 1 :]])
        wide = c.b.pad(wide, [0] * (rank + 1), one(dim + 1, step - 1, rank + 1), zero)
        x = c.b.reshape(wide, [norm(n * step) if d == dim else n for d, n in enumerate(x.shape)])
        length = norm((length - 1) * step + 1)
        x = c.b.slice(x, dim, 0, length)
    return c.b.pad(x, one(dim, start, rank), one(dim, norm(size - start - length), rank), zero)


def _covered(c: Context, shape: Sequence[Size], dim: int, start: Size, step: int, length: Size) -> Value:
    """bool tensor of `shape`: True at start, start + step, ... (`length` of them) along `dim`."""
    if same(length, 0):
        return c.b.full(shape, False, BOOL)
    at = c.b.iota(shape, dim)
    first, last = c.b.size(start), c.b.size(norm(start + (length - 1) * step))
    inside: Value = c.b.op("ge", at, first) & c.b.op("le", at, last)
    if step != 1:
        inside = inside & c.b.op("truncrem", at - first, step).eq(0)
    return inside


@expands("aten.slice_backward.default", exactness="exact")
def _slice_backward(
    c: Context, grad: Value, sizes: Sequence[Size], dim: int, start: Size, end: Size, step: int
) -> Value:
    dim %= len(sizes)
    size, length = c.out.shape[dim], grad.shape[dim]
    span = length if step == 1 else norm((length - 1) * step + 1)
    out = _spread(c, grad, dim, slice_start(size, start, span), step, size)
    return c.give(c.b.op("copy", grad) if out.id == grad.id else out)


@expands("aten.select_backward.default", exactness="exact")
def _select_backward(c: Context, grad: Value, sizes: Sequence[Size], dim: int, index: Size) -> Value:
    dim %= len(sizes)
    row = c.b.reshape(grad, [1 if d == dim else n for d, n in enumerate(c.out.shape)])
    out = _spread(c, row, dim, resolve(index, c.out.shape[dim]), 1, c.out.shape[dim])
    return c.give(c.b.op("copy", row) if out.id == row.id else out)


@expands("aten.slice_scatter.default", exactness="exact")
def _slice_scatter(
    c: Context,
    x: Value,
    source: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Value:
    dim %= len(x.shape)
    size, length = x.shape[dim], source.shape[dim]
    span = length if step == 1 else norm((length - 1) * step + 1)
    first = slice_start(size, start, span)
    new = _spread(c, source.cast(x.dtype), dim, first, step, size)
    inside = _covered(c, x.shape, dim, first, step, length)
    return c.give(c.b.where(inside, own(new), own(x)))


@expands("aten.select_scatter.default", exactness="exact")
def _select_scatter(c: Context, x: Value, source: Value, dim: int, index: Size) -> Value:
    dim %= len(x.shape)
    row = c.b.reshape(source.cast(x.dtype), [1 if d == dim else n for d, n in enumerate(x.shape)])
    at = c.b.iota(x.shape, dim).eq(c.b.size(resolve(index, x.shape[dim])))
    return c.give(c.b.where(at, c.b.expand(own(row), x.shape), own(x)))


@expands("aten.diagonal_backward.default", exactness="exact")
def _diagonal_backward(c: Context, grad: Value, sizes: Sequence[Size], offset: int, dim1: int, dim2: int) -> Value:
    return _on_diagonal(c, own(grad), c.b.full(c.out.shape, 0, own(grad).dtype), offset, dim1, dim2)


@expands("aten.diagonal_scatter.default", exactness="exact")
def _diagonal_scatter(c: Context, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    return _on_diagonal(c, own(source.cast(x.dtype)), own(x), offset, dim1, dim2)


@expands("aten.diag_embed.default", exactness="exact")
def _diag_embed(c: Context, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    return _on_diagonal(c, own(x), c.b.full(c.out.shape, 0, own(x).dtype), offset, dim1, dim2)


def _on_diagonal(c: Context, diagonal: Value, other: Value, offset: int, dim1: int, dim2: int) -> Value:
    """`diagonal` (its last dim runs along it) on the diagonal of two dims, `other` elsewhere."""
    shape = c.out.shape
    rank = len(shape)
    dim1, dim2 = dim1 % rank, dim2 % rank
    length = diagonal.shape[-1]
    # laid out along dim1 from row max(-offset, 0) on, then repeated along dim2
    others = [d for d in range(rank) if d not in (dim1, dim2)]
    back = c.b.permute(diagonal, [others.index(d) if d in others else len(others) for d in range(rank) if d != dim2])
    where = dim1 if dim1 < dim2 else dim1 - 1
    first = max(-offset, 0)
    spread = _spread(c, back, where, first, 1, shape[dim1]) if not same(length, 0) else None
    if spread is None:
        return c.give(c.b.op("copy", other))
    full = c.b.expand(c.b.reshape(spread, [1 if d == dim2 else n for d, n in enumerate(shape)]), shape)
    on = (c.b.iota(shape, dim1) + offset).eq(c.b.iota(shape, dim2))
    return c.give(c.b.where(on, full, other))


# ---- one written element a row


def _one_a_row(c: Context, x: Value, dim: int, index: Value) -> Value:
    """bool tensor: where a scatter along `dim` with one index a row writes.

    Raises `Unsupported` for more than one (their order would count) and for rows that no index writes.
    """
    if not x.shape or len(index.shape) != len(x.shape):
        raise Unsupported("a scatter on a scalar")
    for d, (a, b) in enumerate(zip(index.shape, x.shape, strict=True)):
        if not same(a, 1 if d == dim else b):
            raise Unsupported("a scatter of more than one element a row")
    size = x.shape[dim]
    # read back through a gather, whose check makes an index out of range raise as eager does
    rank = len(index.shape)
    at = c.b.gather(
        c.b.iota((size,), 0), checked(c, index, size), 0, index.shape, [None], _axes(0, rank), "RuntimeError"
    )
    return c.b.iota(x.shape, dim).eq(c.b.expand(at, x.shape))


@expands("aten.scatter.src", exactness="exact")
def _scatter_src(c: Context, x: Value, dim: int, index: Value, source: Value) -> Value:
    dim %= max(len(x.shape), 1)
    here = _one_a_row(c, x, dim, index)
    for d, size in enumerate(index.shape):
        source = c.b.slice(source, d, 0, size)
    return c.give(c.b.where(here, c.b.expand(own(source.cast(x.dtype)), x.shape), own(x)))


@expands("aten.scatter.value", exactness="exact")
def _scatter_value(c: Context, x: Value, dim: int, index: Value, value: Scalar) -> Value:
    dim %= max(len(x.shape), 1)
    here = _one_a_row(c, x, dim, index)
    number = _fill_number(value, x.dtype)
    return c.give(c.b.where(here, c.b.const(number, own(x).dtype), own(x)))


# ---- reads at indexes that are data


def checked(c: Context, index: Value, size: Size) -> Value:
    """An index tensor (i64) in which a negative entry is out of range instead of counting from the end."""
    at = index.cast(I64)
    return c.b.where(at < 0, c.b.size(size), at)


@expands("aten.embedding.default", exactness="exact")
def _embedding(
    c: Context,
    weight: Value,
    indices: Value,
    padding_idx: Size = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    rank = len(indices.shape)
    at = checked(c, indices, weight.shape[0])
    return c.b.gather(weight, at, 0, c.out.shape, [None, affine.axis(f"o{rank}")], _axes(0, rank))


@expands("aten.index_select.default", exactness="exact")
def _index_select(c: Context, x: Value, dim: int, index: Value) -> Value:
    if not x.shape:
        raise Unsupported("index_select of a scalar")
    dim %= len(x.shape)
    at = checked(c, c.b.reshape(index, (prod(index.shape),)), x.shape[dim])
    where: list[Index | None] = [None if d == dim else affine.axis(f"o{d}") for d in range(len(x.shape))]
    return c.b.gather(x, at, dim, c.out.shape, where, [affine.axis(f"o{dim}")])


@expands("aten.gather.default", exactness="exact")
def _gather(c: Context, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    if not x.shape or not index.shape:
        raise Unsupported("gather of a scalar")
    dim %= len(x.shape)
    where: list[Index | None] = [None if d == dim else affine.axis(f"o{d}") for d in range(len(x.shape))]
    at = checked(c, index, x.shape[dim])
    return c.b.gather(x, at, dim, c.out.shape, where, _axes(0, len(index.shape)), "RuntimeError")


@expands("aten.take.default", exactness="exact")
def _take(c: Context, x: Value, index: Value) -> Value:
    flat = c.b.reshape(x, (prod(x.shape),))
    return c.b.gather(flat, index.cast(I64), 0, c.out.shape, [None], _axes(0, len(index.shape)))


@expands("aten.index.Tensor", "aten._unsafe_index.Tensor", exactness="exact")
def _index(c: Context, x: Value, indices: Sequence[Value | None]) -> Value:
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(given) != 1:
        raise Unsupported("an index of several tensors")
    dim, index = given[0]
    if not index.dtype.is_integer or index.dtype.kind == "uint":
        raise Unsupported("an index of bools: its size depends on the data")
    rank = len(index.shape)
    where: list[Index | None] = [
        None if d == dim else affine.axis(f"o{d if d < dim else d + rank - 1}") for d in range(len(x.shape))
    ]
    return c.b.gather(x, index.cast(I64), dim, c.out.shape, where, _axes(dim, rank))


@expands("aten.pixel_shuffle.default", exactness="exact")
def _pixel_shuffle(c: Context, x: Value, factor: int) -> Value:
    *lead, channels, height, width = c.out.shape
    n, r = len(lead), factor
    rows, columns = x.shape[-2], x.shape[-1]
    split = c.b.reshape(x, [*lead, channels, r, r, rows, columns])
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return c.b.reshape(c.b.permute(split, order), [*lead, channels, height, width])


@expands("aten.pixel_unshuffle.default", exactness="exact")
def _pixel_unshuffle(c: Context, x: Value, factor: int) -> Value:
    *lead, channels, _, _ = x.shape
    n, r = len(lead), factor
    rows, columns = c.out.shape[-2], c.out.shape[-1]
    split = c.b.reshape(x, [*lead, channels, rows, r, columns, r])
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return c.b.reshape(c.b.permute(split, order), c.out.shape)
