"""torch dtypes as IR dtypes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from fusewise.errors import Unsupported
from fusewise.ir import dtypes
from fusewise.ir.dtypes import DType

TO_IR: dict[torch.dtype, DType] = {
    torch.float64: dtypes.F64,
    torch.float32: dtypes.F32,
    torch.float16: dtypes.F16,
    torch.bfloat16: dtypes.BF16,
    torch.int64: dtypes.I64,
    torch.int32: dtypes.I32,
    torch.int16: dtypes.I16,
    torch.int8: dtypes.I8,
    torch.uint8: dtypes.U8,
    torch.bool: dtypes.BOOL,
}
TO_TORCH: dict[str, torch.dtype] = {ir.name: dtype for dtype, ir in TO_IR.items()}


def computable(dtype: torch.dtype) -> DType:
    """The IR dtype; raises `Unsupported` for one that the IR cannot compute on."""
    found = TO_IR.get(dtype)
    if found is None:
        raise Unsupported(f"dtype {str(dtype).removeprefix('torch.')}")
    return found


def carried(dtype: torch.dtype) -> DType:
    """The IR dtype; for any other (complex, float8, ...) one of its size and name, for opaque ops alone."""
    found = TO_IR.get(dtype)
    return found or DType(str(dtype).removeprefix("torch."), 8 * dtype.itemsize, "uint")


def has_double(value: Any) -> bool:
    """True where a result, or one of several, is in fp64."""
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64 for leaf in tree_leaves(value))
