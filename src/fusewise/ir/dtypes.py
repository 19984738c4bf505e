"""Element types of the IR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusewise.errors import Unsupported

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    Attributes:
        name: short name as printed in the IR (`f32`, `bf16`, `i64`, ...).
        bits: size of one stored element in bits (bool is stored in 8).
        kind: float, int (signed), uint or bool.
    """

    name: str
    bits: int
    kind: Kind

    @property
    def bytes(self) -> int:
        """Bytes of one stored element."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integers, bool excluded."""
        return self.kind in ("int", "uint")

    @property
    def is_half(self) -> bool:
        """16-bit floats: stored only, computed in f32."""
        return self.kind == "float" and self.bits == 16

    def __repr__(self) -> str:
        return self.name


F64 = DType("f64", 64, "float")
F32 = DType("f32", 32, "float")
F16 = DType("f16", 16, "float")
BF16 = DType("bf16", 16, "float")
I64 = DType("i64", 64, "int")
I32 = DType("i32", 32, "int")
I16 = DType("i16", 16, "int")
I8 = DType("i8", 8, "int")
U8 = DType("u8", 8, "uint")
BOOL = DType("bool", 8, "bool")

ALL: tuple[DType, ...] = (F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL)
_BY_NAME = {d.name: d for d in ALL}


def by_name(name: str) -> DType:
    """The dtype called `name`; raises `Unsupported` for any other."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise Unsupported(f"dtype {name!r} has no IR type", f"Known: {', '.join(_BY_NAME)}.") from None


def compute_dtype(dtype: DType) -> DType:
    """The type in which eager's kernels compute on `dtype`: f32 for the 16-bit floats, else itself."""
    return F32 if dtype.is_half else dtype
