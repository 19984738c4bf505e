"""ATen ops written in primitive ops. Importing this package fills `TABLE`."""

from fusewise.ir.expand import (  # noqa: F401
    activations,
    arithmetic,
    compare,
    factories,
    indexing,
    losses,
    norms,
    reductions,
    softmax,
    unary,
    views,
)
from fusewise.ir.expand.table import TABLE, Context, Row, TensorSpec, expands

__all__ = ["TABLE", "Context", "Row", "TensorSpec", "expands"]
