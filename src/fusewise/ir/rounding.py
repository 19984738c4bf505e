"""16-bit floats in numpy, which has no bfloat16: rounding, and the way to and from stored bits.

A bf16 value is held as the f32 of the same value; an f16 value as numpy's float16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fusewise.ir.dtypes import DType

Array = npt.NDArray[Any]

NUMPY: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.float32),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "i16": np.dtype(np.int16),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
"""The numpy type that holds each dtype's values."""


def bf16_to_bits(value: Array) -> npt.NDArray[np.uint16]:
    """The stored bits of f32 values rounded to nearest even; a NaN gives the quiet NaN 0x7FC0, as in PyTorch."""
    bits = np.ascontiguousarray(value, dtype=np.float32).view(np.uint32).reshape(np.shape(value))
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    out: npt.NDArray[np.uint16] = np.where(np.isnan(value), np.uint32(0x7FC0), rounded).astype(np.uint16)
    return out


def bf16_from_bits(bits: Array) -> npt.NDArray[np.float32]:
    """The f32 values of stored bf16 bits (uint16)."""
    wide = np.ascontiguousarray(bits, dtype=np.uint16).astype(np.uint32) << np.uint32(16)
    out: npt.NDArray[np.float32] = wide.view(np.float32).reshape(np.shape(bits))
    return out


def round_bf16(value: Array) -> npt.NDArray[np.float32]:
    """f32 values rounded to bf16, still held as f32."""
    return bf16_from_bits(bf16_to_bits(value))


def round_scalar(value: float, dtype: DType) -> float:
    """A Python float rounded to a float dtype, as C++ converts a double (16-bit types by way of f32)."""
    if dtype.name == "f64":
        return value
    with np.errstate(all="ignore"):
        single = np.float32(value)
        if dtype.name == "bf16":
            return float(round_bf16(np.asarray(single))[()])
        return float(np.float16(single)) if dtype.name == "f16" else float(single)
