"""What the expansions share: operands in the type that eager computes in, dims, number arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from fusewise.errors import Unsupported
from fusewise.ir.builder import Scalar, Value
from fusewise.ir.dtypes import BOOL, DType, compute_dtype
from fusewise.ir.expand.table import Context
from fusewise.ir.rounding import round_scalar
from fusewise.ir.sizes import Size, is_zero_numel, prod, same

Operand: TypeAlias = "Value | Scalar | Size"


def is_number(x: Any) -> bool:
    """True for a Python number (a symbolic size is none)."""
    return isinstance(x, (bool, int, float))


def stored(c: Context, x: Operand, dtype: DType | None = None) -> Value:
    """`x` rounded to `dtype` (the promoted one by default), in the type that is computed in.

    This is what a TensorIterator with a common dtype does to an operand of another dtype.
    """
    dtype = dtype or c.promoted
    if isinstance(x, float) and dtype.is_half:
        x = round_scalar(x, dtype)
    elif isinstance(x, int) and not isinstance(x, bool) and dtype.is_half:
        x = round_scalar(float(x), dtype)
    if is_number(x):
        return c.b.const(x, compute_dtype(dtype))  # type: ignore[arg-type]
    return c.lift(x, dtype).cast(compute_dtype(dtype))


def kept(c: Context, x: Operand) -> Value:
    """`x` as a scalar operand of eager's kernels that keep scalars in the compute type: not rounded to a 16-bit type.

    On a CPU these are numbers and tensors of one element, on a GPU numbers only.
    """
    if isinstance(x, Value) and not (c.device == "cpu" and same(prod(x.shape), 1)):
        return stored(c, x)
    return c.compute(x)


def floating(c: Context, x: Value) -> Value:
    """A tensor in the type that a float function computes in: integers go to the result's dtype first."""
    dtype = x.dtype if x.dtype.is_float else c.out.dtype
    return x.cast(dtype).cast(compute_dtype(dtype))


def own(x: Value) -> Value:
    """A tensor in the compute type of its own dtype."""
    return x.cast(compute_dtype(x.dtype))


def real(x: Value) -> Value:
    """A float tensor in its compute type; raises `Unsupported` for integers, on which eager's kernel raises."""
    if not x.dtype.is_float:
        raise Unsupported(f"a function of floats on {x.dtype}")
    return own(x)


def rounded(x: Value, dtype: DType) -> Value:
    """`x` rounded to `dtype` and back, where eager's kernel rounds between two steps."""
    return x.cast(dtype).cast(x.dtype)


def with_sign(c: Context, x: Value, dtype: DType) -> Value:
    """`x`, read as `dtype`, for a kernel that looks at its sign: CUDA's widening of an f16 NaN drops it."""
    return c.b.where(x.ne(x), 0.0, x) if c.device != "cpu" and dtype.name == "f16" else x


def number(x: Any) -> float:
    """A number argument as a float; raises `Unsupported` for a symbol."""
    if not isinstance(x, (bool, int, float)):
        raise Unsupported(f"a symbolic number ({x}) where a plain one is needed")
    return float(x)


def like(c: Context, value: Scalar, x: Value) -> Value:
    """A constant of the dtype of `x`."""
    return c.b.const(value, x.dtype)


def truth(x: Value) -> Value:
    """x != 0, as bool (a NaN is true)."""
    return x if x.dtype == BOOL else own(x).ne(0)


def unary(c: Context, name: str, x: Value) -> Value:
    """A pointwise primitive of one operand."""
    return c.b.op(name, x)


def only_eager_is_exact(c: Context, why: str) -> None:
    """Raises `Unsupported` under the conservative policy: eager's bits cannot be had here though the row is exact."""
    if c.policy == "conservative":
        raise Unsupported(why, "The op runs as PyTorch's own kernel under the conservative policy.")


def refuse_zeros(c: Context) -> None:
    """Keeps a maximum or minimum of floats eager under the conservative policy on a CPU.

    Which of two zeros of different sign eager's kernel returns there depends on the element's place in its row.
    """
    if c.device == "cpu" and c.promoted.is_float:
        only_eager_is_exact(c, "the sign of a zero among zeros of both signs depends on the element's place")


def dims_of(dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Dims counted from 0, ascending; None or none: all of them."""
    if dims is None:
        return tuple(range(rank))
    given = (dims,) if isinstance(dims, int) else tuple(dims)
    if not given:
        return tuple(range(rank))
    return tuple(sorted({d % rank if rank else 0 for d in given})) if rank else ()


def count_of(x: Value, dims: Sequence[int]) -> Size:
    """Number of elements along `dims`."""
    return prod(x.shape[d] for d in dims)


def tensors(c: Context, values: Sequence[Value | None]) -> tuple[Value | None, ...]:
    """Several results, each cast and broadcast to what PyTorch says; None stays None.

    A GPU's kernels return an empty tensor for statistics that nobody will read.
    """

    def give(value: Value | None, i: int) -> Value | None:
        spec = c.outs[i]
        if value is None or spec is None:
            return None
        if is_zero_numel(spec.shape) and not is_zero_numel(value.shape):
            return c.b.full(spec.shape, 0, spec.dtype)
        return c.give(value, i)

    return tuple(give(v, i) for i, v in enumerate(values))
