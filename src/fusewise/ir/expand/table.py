"""The table that writes ATen ops in primitive ops, and what an expansion is told about its call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from fusewise.errors import Unsupported
from fusewise.ir.builder import Builder, Scalar, Value
from fusewise.ir.dtypes import DType, compute_dtype
from fusewise.ir.sizes import Size

Result: TypeAlias = "Value | tuple[Value | None, ...]"
Exactness = Literal["exact", "cuda", "cpu", "inexact"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape, type and element strides of a result, as PyTorch's fake tensor gives them."""

    shape: tuple[Size, ...]
    dtype: DType
    strides: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """What an expansion needs to know beside its operands.

    Attributes:
        b: the builder.
        outs: what PyTorch says the results look like, in order (None for a result that is not a tensor or is absent).
        promoted: the dtype that PyTorch's type promotion gives the tensor and number operands together.
        device: `cpu` or `cuda`.
        policy: the fusion policy in force.
    """

    b: Builder
    outs: tuple[TensorSpec | None, ...]
    promoted: DType
    device: str
    policy: str

    @property
    def out(self) -> TensorSpec:
        """The first result."""
        spec = self.outs[0]
        if spec is None:
            raise Unsupported("an op without a tensor result")
        return spec

    def lift(self, operand: Value | Scalar | Size, dtype: DType) -> Value:
        """An operand (tensor, number or size) as a value of `dtype`."""
        if isinstance(operand, Value):
            return operand.cast(dtype)
        if isinstance(operand, (bool, int, float)):
            return self.b.const(operand, dtype)
        return self.b.size(operand, dtype)

    def compute(self, operand: Value | Scalar | Size) -> Value:
        """An operand in the type that eager computes in: the promoted type, f32 for 16-bit floats."""
        return self.lift(operand, compute_dtype(self.promoted))

    def give(self, value: Value, which: int = 0) -> Value:
        """`value` cast to the dtype and broadcast to the shape of result `which`."""
        spec = self.outs[which]
        if spec is None:
            raise Unsupported("a result that PyTorch does not give")
        return self.b.expand(value.cast(spec.dtype), spec.shape)


Expansion: TypeAlias = Callable[..., Result]
AnyExpansion = TypeVar("AnyExpansion", bound=Expansion)


@dataclass(frozen=True, slots=True)
class Row:
    """One op's expansion.

    Attributes:
        expand: called as `expand(context, *operands)`: operands in schema order with defaults filled in, keyword-only
            ones by keyword. Tensors are Values, sizes are ints or sympy expressions, dtypes are DType, the rest as in
            PyTorch. Raises `Unsupported` where it cannot serve this call; the op then runs as PyTorch's own kernel.
        exactness: whether the result's bits equal eager's: on every device, on one only, or not (then the op stays an
            eager op under the conservative policy).
    """

    expand: Expansion
    exactness: Exactness

    def is_exact_on(self, device: str, is_double: bool = False) -> bool:
        """Whether the bits are eager's; what holds on a GPU by its own functions is not proven for fp64 results."""
        if self.exactness == device == "cuda":
            return not is_double
        return self.exactness in ("exact", device)


TABLE: dict[str, Row] = {}


def expands(*names: str, exactness: Exactness = "inexact") -> Callable[[AnyExpansion], AnyExpansion]:
    """Registers an expansion for ATen overloads, named as in `aten.gelu.default`."""

    def register(function: AnyExpansion) -> AnyExpansion:
        for name in names:
            if name in TABLE:
                raise ValueError(f"{name} is in the table already")
            TABLE[name] = Row(function, exactness)
        return function

    return register


def any_value(*operands: Any) -> Value:
    """The first operand that is a tensor."""
    for operand in operands:
        if isinstance(operand, Value):
            return operand
    raise Unsupported("a call without a tensor operand")
