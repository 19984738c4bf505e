"""ATen ops written in primitive ops. Importing this package fills `TABLE`."""

from fusewise.ir.expand import activations, arithmetic, compare, factories, norms, reductions, softmax, unary, views  # noqa: F401
from fusewise.ir.expand.table import TABLE, Context, Row, TensorSpec, expands

__all__ = ["TABLE", "Context", "Row", "TensorSpec", "expands"]
