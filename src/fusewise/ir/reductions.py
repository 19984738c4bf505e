"""The reductions in numpy: NaN and tie rules exact, sums and products of floats in f64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusewise.errors import IRError
from fusewise.ir.dtypes import DType
from fusewise.ir.pointwise import cast
from fusewise.ir.rounding import NUMPY, Array


def reduce(op: str, value: Array, dims: Sequence[int], dtype: DType) -> Array:
    """`value` reduced over `dims`, of `dtype`.

    Sums and products of nothing are 0 and 1, any and all False and True; max, min, argmax and argmin of nothing raise
    `IRError`.
    """
    axes = tuple(dims)
    if op in ("sum", "prod"):
        wide = np.float64 if dtype.is_float else NUMPY[dtype.name]
        total = (np.sum if op == "sum" else np.prod)(value, axis=axes, dtype=wide)
        return cast(np.asarray(total), dtype)
    if op in ("any", "all"):
        return np.asarray((np.any if op == "any" else np.all)(value, axis=axes))
    count = int(np.prod([value.shape[d] for d in axes]))
    rest = tuple(d for d in range(value.ndim) if d not in axes)
    if count == 0:
        if int(np.prod([value.shape[d] for d in rest])) == 0:
            return np.empty([value.shape[d] for d in rest], NUMPY[dtype.name])
        raise IRError(f"{op} of no elements")
    if op in ("max", "min"):
        return np.asarray((np.max if op == "max" else np.min)(value, axis=axes))
    if op in ("argmax", "argmin"):
        flat = np.transpose(value, rest + axes).reshape([value.shape[d] for d in rest] + [count])
        # numpy takes the first of equals, and the first NaN where there is one
        found = (np.argmax if op == "argmax" else np.argmin)(flat, axis=-1)
        return np.asarray(found, dtype=np.int64)
    raise IRError(f"the interpreter does not know {op!r}")
