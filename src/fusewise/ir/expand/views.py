"""Views as index maps: no data moves. Shapes are those that PyTorch reports, symbolic sizes included."""

from __future__ import annotations

from collections.abc import Sequence

from fusewise.errors import Unsupported
from fusewise.ir import affine
from fusewise.ir.builder import Value
from fusewise.ir.expand.table import Context, Result, expands
from fusewise.ir.sizes import Size, norm, prod, same, same_all


@expands(
    "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten._reshape_alias.default",
    "aten.view_as.default", "aten.reshape_as.default", "aten.unflatten.int", "aten.flatten.using_ints",
    "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default",
    "aten._reshape_copy.default", exactness="exact",
)  # fmt: skip
def _reshape(c: Context, x: Value, *_args: object) -> Value:
    return c.b.reshape(x, c.out.shape)


@expands("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default", exactness="exact")
def _expand(c: Context, x: Value, *_args: object, implicit: bool = False) -> Value:
    return c.b.expand(x, c.out.shape)


@expands("aten.permute.default", exactness="exact")
def _permute(c: Context, x: Value, dims: Sequence[int]) -> Value:
    return c.b.permute(x, dims) if x.shape else x


@expands("aten.transpose.int", exactness="exact")
def _transpose(c: Context, x: Value, dim0: int, dim1: int) -> Value:
    if not x.shape:
        return x
    dims = list(range(len(x.shape)))
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return c.b.permute(x, dims)


@expands("aten.t.default", exactness="exact")
def _t(c: Context, x: Value) -> Value:
    return c.b.permute(x, (1, 0)) if len(x.shape) == 2 else x


@expands("aten.movedim.int", exactness="exact")
def _movedim(c: Context, x: Value, source: int, destination: int) -> Value:
    dims = list(range(len(x.shape)))
    moved = dims.pop(source)
    dims.insert(destination % len(x.shape), moved)
    return c.b.permute(x, dims)


def resolve(at: Size, size: Size) -> Size:
    """An index of a slice or select from the front: negative ones count from the end.

    Raises `Unsupported` for a symbolic index whose sign is not known.
    """
    if isinstance(at, int):
        return at if at >= 0 else norm(size + at)
    if at.is_nonnegative:
        return at
    if at.is_negative:
        return norm(size + at)
    raise Unsupported(f"an index of unknown sign ({at})")


def slice_start(size: Size, start: Size | None, length: Size) -> Size:
    """Where a slice starts, clamped to [0, size]; of a slice of no elements any start will do.

    `length` is what PyTorch reports for a slice of step 1: it tells whether a symbolic dim is shorter than -start.
    """
    if start is None or same(length, 0):
        return 0
    at = resolve(start, size)
    if isinstance(at, int):
        return max(at, 0)
    if isinstance(start, int) and start < 0 and not same(length, -start):
        if same(length, size):
            return 0
        raise Unsupported(f"a slice from {start} of a dim that may be shorter ({size})")
    return at


@expands("aten.slice.Tensor", "aten.slice_copy.Tensor", exactness="exact")
def _slice(
    c: Context, x: Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1
) -> Value:
    if not isinstance(step, int):
        raise Unsupported("a symbolic step")
    dim %= len(x.shape)
    length = c.out.shape[dim]
    span = length if step == 1 else norm((length - 1) * step + 1)
    return c.b.slice(x, dim, slice_start(x.shape[dim], start, span), length, step)


@expands("aten.select.int", "aten.select_copy.int", exactness="exact")
def _select(c: Context, x: Value, dim: int, index: Size) -> Value:
    dim %= len(x.shape)
    return c.b.select(x, dim, resolve(index, x.shape[dim]))


@expands("aten.narrow.default", exactness="exact")
def _narrow(c: Context, x: Value, dim: int, start: Size, length: Size) -> Value:
    dim %= len(x.shape)
    return c.b.slice(x, dim, resolve(start, x.shape[dim]), length)


@expands(
    "aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default", "aten.chunk.default",
    "aten.unsafe_split.Tensor", "aten.unsafe_chunk.default", "aten.unsafe_split_with_sizes.default", exactness="exact",
)  # fmt: skip
def _split(c: Context, x: Value, _sizes: object, dim: int = 0) -> Result:
    dim %= len(x.shape)
    start: Size = 0
    parts: list[Value] = []
    for spec in c.outs:
        if spec is None:
            raise Unsupported("a split with a part that is no tensor")
        length = spec.shape[dim]
        parts.append(c.b.slice(x, dim, start, length))
        start = norm(start + length)
    return tuple(parts)


@expands("aten.unbind.int", exactness="exact")
def _unbind(c: Context, x: Value, dim: int = 0) -> Result:
    dim %= len(x.shape)
    return tuple(c.b.select(x, dim, at) for at in range(len(c.outs)))


@expands("aten.flip.default", exactness="exact")
def _flip(c: Context, x: Value, dims: Sequence[int]) -> Value:
    return c.b.flip(x, [d % len(x.shape) for d in dims]) if x.shape else x


@expands("aten.diagonal.default", exactness="exact")
def _diagonal(c: Context, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    rank = len(x.shape)
    dim1, dim2 = dim1 % rank, dim2 % rank
    last = affine.axis(f"o{rank - 2}")
    others = iter(range(rank))
    index = [
        last + max(-offset, 0) if d == dim1 else last + max(offset, 0) if d == dim2 else affine.axis(f"o{next(others)}")
        for d in range(rank)
    ]
    return c.b.view(x, c.out.shape, index)


@expands("aten.unfold.default", exactness="exact")
def _unfold(c: Context, x: Value, dim: int, size: int, step: int) -> Value:
    if not x.shape:
        return c.b.reshape(x, c.out.shape)
    dim %= len(x.shape)
    index = [affine.axis(f"o{d}") for d in range(len(x.shape))]
    index[dim] = affine.axis(f"o{dim}") * step + affine.axis(f"o{len(x.shape)}")
    return c.b.view(x, c.out.shape, index)


@expands("aten.repeat.default", exactness="exact")
def _repeat(c: Context, x: Value, repeats: Sequence[Size]) -> Value:
    shape = c.out.shape
    lead = len(shape) - len(x.shape)
    sizes = {f"o{d}": n for d, n in enumerate(shape)}
    index = [
        affine.axis(f"o{lead + d}")
        if same(shape[lead + d], n)
        else affine.modulo(affine.axis(f"o{lead + d}"), n, sizes)
        for d, n in enumerate(x.shape)
    ]
    return c.b.view(x, shape, index)


@expands("aten.roll.default", exactness="exact")
def _roll(c: Context, x: Value, shifts: Sequence[Size], dims: Sequence[int] = ()) -> Value:
    if not dims:
        (shift,) = shifts
        flat = c.b.reshape(x, (prod(x.shape),))
        return c.b.reshape(_roll_dim(c, flat, shift, 0), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _roll_dim(c, x, shift, dim % len(x.shape))
    return x


def _roll_dim(c: Context, x: Value, shift: Size, dim: int) -> Value:
    size = x.shape[dim]
    if same(size, 0):
        return x
    if not isinstance(shift, int):
        raise Unsupported("a symbolic shift")
    if isinstance(size, int):
        shift %= size
    if shift == 0:
        return x
    sizes = {f"o{d}": n for d, n in enumerate(x.shape)}
    index = [affine.axis(f"o{d}") for d in range(len(x.shape))]
    # (i - shift) mod size with no negative dividend
    ahead = norm(size * shift - shift) if shift > 0 else -shift
    if isinstance(size, int):
        ahead = size - shift
    index[dim] = affine.modulo(affine.axis(f"o{dim}") + ahead, size, sizes)
    return c.b.view(x, x.shape, index)


@expands("aten.as_strided.default")
def _as_strided(c: Context, x: Value, *_args: object) -> Value:
    raise Unsupported("as_strided: what it reads depends on the layout")


@expands("aten.view.dtype")
def _view_dtype(c: Context, x: Value, dtype: object) -> Value:
    if (
        x.dtype.bits != c.out.dtype.bits
        or not same_all(x.shape, c.out.shape)
        or "bool" in (x.dtype.name, c.out.dtype.name)
    ):
        raise Unsupported(f"a {x.dtype.name} tensor viewed as {c.out.dtype.name}")
    if x.dtype == c.out.dtype:
        return x
    return c.b.op("bitcast", x, dtype=c.out.dtype)
