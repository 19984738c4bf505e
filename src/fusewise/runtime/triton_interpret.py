"""Under Triton's interpreter (TRITON_INTERPRET=1) the device functions that it cannot run are numpy's.

It has no libdevice and no inline assembly, cuts bf16 off instead of rounding it, and runs combine functions element by
element. Interpreter runs prove indexing and masks, not the last bits of functions.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import triton
import triton.language as tl

F = TypeVar("F", bound=Callable[..., Any])

INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))


def jit(fn: F) -> F:
    """`triton.jit` with the function's own type."""
    return cast(F, triton.jit(fn))


def from_libdevice(body: Callable[..., Any], result: Any = None) -> Callable[[F], F]:
    """Compiles the function, or under the interpreter stands `body` (on numpy arrays) in its place.

    Args:
        result: type of the result there; None: that of the first operand.
    """

    def decorate(fn: F) -> F:
        return cast(F, _elementwise(body, result)) if INTERPRETED.value else jit(fn)

    return decorate


def _elementwise(body: Callable[..., Any], result: Any) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        first = next(a for a in args if isinstance(a, tl.tensor))
        with np.errstate(all="ignore"):
            data = np.asarray(body(*map(_to_numpy, args)))
        if not any(isinstance(a, tl.tensor) and a.type.is_block() for a in args):
            data = data.reshape(())  # of scalars
        return _from_numpy(data, first.type.scalar if result is None else result)

    return run


def _to_numpy(value: Any) -> Any:
    """The array behind an interpreted tensor; bf16, of which the interpreter keeps the bits, as f32."""
    if not isinstance(value, tl.tensor):
        return value
    data = value.handle.data
    if value.type.scalar == tl.bfloat16:
        return (data.astype(np.uint32) << 16).view(np.float32)
    return data


def _from_numpy(data: Any, dtype: Any) -> Any:
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    if dtype == tl.bfloat16:
        data = (round_to_bf16(data).view(np.uint32) >> 16).astype(np.uint16)
    array = data.astype(_get_np_dtype(dtype))
    shape = list(array.shape)
    # The interpreter keeps a scalar as an array of one element.
    return tl.tensor(TensorHandle(array.reshape(shape or [1]), dtype), tl.block_type(dtype, shape) if shape else dtype)


def round_to_bf16(x: Any) -> Any:
    """numpy f32 rounded to the nearest bf16, ties to even, as f32."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32("nan"), rounded).astype(np.float32)


def interpreted(body: Callable[..., Any], jitted: Callable[..., Any]) -> Callable[..., Any]:
    """`jitted`, or under the interpreter (which runs combine functions element by element) numpy's `body`."""
    if not INTERPRETED.value:
        return jitted

    def run(*args: Any) -> Any:
        *tensors, axis, keep = args
        with np.errstate(all="ignore"):
            data = np.asarray(body(*(t.handle.data for t in tensors), int(axis), bool(keep)))
        return _from_numpy(data, tensors[-1].type.scalar)

    return run
