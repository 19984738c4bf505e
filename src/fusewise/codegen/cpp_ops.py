"""The table of primitive ops in C++: one expression each, the same for scalars and vectors of `fusewise_cpu.h`."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from fusewise.errors import Unsupported
from fusewise.ir.dtypes import BOOL, F32, DType

C_TYPES = {
    "f64": "double",
    "f32": "float",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "i64": "int64_t",
    "i32": "int32_t",
    "i16": "int16_t",
    "i8": "int8_t",
    "u8": "uint8_t",
    "bool": "uint8_t",
}
"""C++ type of a stored element; 16-bit floats are kept as their bits."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the kernel as C++ text.

    Attributes:
        text: a name or a literal.
        dtype: its type; a scalar bool is a C++ bool, a vector of bools a `fw::Mask`.
        vector: True for a vector.
    """

    text: str
    dtype: DType
    vector: bool = False


def stored_type(dtype: DType) -> str:
    """C++ type of an element in memory."""
    return C_TYPES[dtype.name]


def scalar_type(dtype: DType) -> str:
    """C++ type of a scalar value."""
    return "bool" if dtype == BOOL else stored_type(dtype)


def vector_type(dtype: DType) -> str:
    """C++ type of a vector value."""
    return "fw::Mask" if dtype == BOOL else f"fw::Vec<{stored_type(dtype)}>"


def literal(value: bool | int | float, dtype: DType) -> str:
    """A constant of type `dtype`, exact to the last bit."""
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype.is_half:
        return f"fw::{dtype.name}_from_f32({literal(float(value), F32)})"
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    number = int(value)
    if dtype.bits == 64:
        text = "INT64_MIN" if number == -(2**63) else f"INT64_C({number})"
        return text if number >= 0 or text == "INT64_MIN" else f"({text})"
    return f"{scalar_type(dtype)}({number})" if number > -(2**31) else "INT32_MIN"


def _float_literal(value: float, dtype: DType) -> str:
    suffix = "f" if dtype == F32 else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        text = f"__builtin_inf{suffix}()"
        return f"(-{text})" if value < 0 else text
    # A double that f32 cannot hold rounds once here, as it does where PyTorch takes a Python float.
    text = f"static_cast<float>({value.hex()})" if dtype == F32 and not _is_f32(value) else value.hex() + suffix
    return f"({text})" if math.copysign(1.0, value) < 0 else text


def _is_f32(value: float) -> bool:
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def as_vector(value: Value) -> str:
    """Text of the value as a vector, every lane the same where it is a scalar."""
    if value.vector:
        return value.text
    if value.dtype == BOOL:
        return f"fw::splat_mask({value.text})"
    return f"fw::splat<{stored_type(value.dtype)}>({value.text})"


_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
_BOOL_INFIX = {"add": "|", "mul": "&", "maximum": "|", "minimum": "&", "and": "&", "or": "|", "xor": "^", "ne": "^"}
_COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
# On masks true is -1, so that an order of numbers would be the wrong way round.
_BOOL_COMPARE = {"eq": "~({0} ^ {1})", "lt": "~{0} & {1}", "le": "~{0} | {1}", "gt": "{0} & ~{1}", "ge": "{0} | ~{1}"}
_CALLS = frozenset(
    {"abs", "floor", "ceil", "trunc", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10"}
    | {"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc"}
    | {
        "pow",
        "atan2",
        "fmod",
        "copysign",
        "minimum",
        "maximum",
        "truncdiv",
        "floordiv",
        "truncrem",
        "shl",
        "shr",
        "fma",
    }
)


def compute(op: str, args: Sequence[Value], dtype: DType, vector: bool) -> str:
    """Expression for one pointwise op; raises `Unsupported` for an op that C++ has no row for.

    Args:
        op: name in `ir.ops.POINTWISE`.
        args: the operands.
        dtype: type of the result.
        vector: True where the result is a vector; scalar operands are then spread over the lanes.
    """
    texts = [as_vector(a) if vector else a.text for a in args]
    of = args[-1].dtype
    if op == "copy":
        return texts[0]
    if op == "cast":
        return _cast(texts[0], of, dtype)
    if op == "bitcast":
        return f"fw::bitcast<{stored_type(dtype)}>({texts[0]})"
    if op == "where":
        return f"fw::select({', '.join(texts)})"
    if of == BOOL:
        return _on_bools(op, texts, vector)
    if op in _COMPARE:
        return f"fw::{op}({texts[0]}, {texts[1]})"
    if op == "neg":
        return _narrowed(f"-{texts[0]}", dtype, vector)
    if op == "not":
        return _narrowed(f"~{texts[0]}", dtype, vector)
    if op in _INFIX:
        return _narrowed(f"{texts[0]} {_INFIX[op]} {texts[1]}", dtype, vector)
    if op == "round":
        return f"fw::rint({texts[0]})"
    if op in _CALLS:
        return f"fw::{op}({', '.join(texts)})"
    raise Unsupported(f"the C++ code generator has no row for {op!r} on {of}")


def _on_bools(op: str, texts: Sequence[str], vector: bool) -> str:
    if op == "not":
        return f"~{texts[0]}" if vector else f"!{texts[0]}"
    if op in _BOOL_INFIX:
        text = f"{texts[0]} {_BOOL_INFIX[op]} {texts[1]}"
        return text if vector else f"static_cast<bool>({text})"
    if op in _BOOL_COMPARE:
        return _BOOL_COMPARE[op].format(*texts) if vector else f"fw::{op}({texts[0]}, {texts[1]})"
    raise Unsupported(f"the C++ code generator has no row for {op!r} on bool")


def _narrowed(text: str, dtype: DType, vector: bool) -> str:
    """C++ computes short integers in int: back to their own width."""
    if not vector and dtype.is_integer and dtype.bits < 32:
        return f"static_cast<{stored_type(dtype)}>({text})"
    return text


def _cast(text: str, source: DType, target: DType) -> str:
    if source == target:
        return text
    if source.is_half:
        return _cast(f"fw::f32_from_{source.name}({text})", F32, target)
    if target.is_half:
        return f"fw::{target.name}_from_f32({_cast(text, source, F32)})"
    if source == BOOL:
        return f"fw::from_bool<{stored_type(target)}>({text})"
    if target == BOOL:
        return f"fw::truth({text})"
    return f"fw::cast<{stored_type(target)}>({text})"
