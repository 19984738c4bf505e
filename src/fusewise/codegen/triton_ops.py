"""How each primitive op is written in Triton: tables from op to text, by operand type and by the precision asked for.

`lib` is `fusewise.runtime.triton_lib`. Texts are put in brackets by whoever nests them.
"""

from __future__ import annotations

import math
from typing import Literal

from fusewise.errors import IRError
from fusewise.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType, compute_dtype

Precision = Literal["exact", "full", "half"]
Vendor = Literal["nvidia", "amd"]

TYPES: dict[DType, str] = {
    F64: "tl.float64",
    F32: "tl.float32",
    F16: "tl.float16",
    BF16: "tl.bfloat16",
    I64: "tl.int64",
    I32: "tl.int32",
    I16: "tl.int16",
    I8: "tl.int8",
    U8: "tl.uint8",
    BOOL: "tl.int1",
}

# Type of a pointer parameter in a Triton signature.
POINTERS: dict[DType, str] = {
    F64: "*fp64",
    F32: "*fp32",
    F16: "*fp16",
    BF16: "*bf16",
    I64: "*i64",
    I32: "*i32",
    I16: "*i16",
    I8: "*i8",
    U8: "*u8",
    BOOL: "*i1",
}

# fmt: off
_UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "rsqrt", "tanh", "erf", "erfc",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
)
# fmt: on

# What an op is in every precision. Functions keep their libdevice form unless a row of `_FULL` or `_HALF` replaces it.
_EXACT: dict[str, str] = {
    "floor": "lib.floor({0})",
    "ceil": "lib.ceil({0})",
    "trunc": "lib.trunc({0})",
    "round": "lib.rint({0})",
    "sqrt": "lib.sqrt_rn({0})",
    **{name: f"lib.{name}({{0}})" for name in _UNARY},
    **{name: f"lib.{name}({{0}}, {{1}})" for name in ("pow", "atan2", "fmod", "copysign")},
    "div": "lib.div_rn({0}, {1})",
    "fma": "tl.fma({0}, {1}, {2})",
}

# f32, stored as f32: about 2 ulp. ex2.approx alone would be off by |x| / 2 ulp, so exp stays libdevice's.
_FULL: dict[str, str] = {
    "div": "{0} / {1}",
    "rsqrt": "lib.rsqrt_full({0})",
}

# What AMD's libdevice lacks.
_AMD: dict[str, str] = {
    "div": "{0} / {1}",
    "sqrt": "tl.sqrt({0})",
}
_AMD_F32: dict[str, str] = {
    "div": "tl.div_rn({0}, {1})",
    "sqrt": "tl.sqrt_rn({0})",
}

# f32, rounded to 16 bits before anything sees it.
_HALF: dict[str, str] = {
    **_FULL,
    "exp": "lib.fast_exp({0})",
    "tanh": "lib.fast_tanh({0})",
}

_INFIX: dict[str, str] = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "and": "&",
    "or": "|",
    "xor": "^",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "truncdiv": "//",  # Triton's // and % round toward 0
    "truncrem": "%",
}
_BOOL_INFIX: dict[str, str] = {**_INFIX, "add": "|", "mul": "&", "maximum": "|", "minimum": "&"}
_ORDERED = frozenset({"lt", "le", "gt", "ge"})
_COMPARISONS = _ORDERED | {"eq", "ne"}


def takes_literals(op: str) -> bool:
    """True where a Python number may stand for one operand without changing the type of the result."""
    return op in _INFIX


def compares(op: str) -> bool:
    """True for the ops that compare two values."""
    return op in _COMPARISONS


def literal(value: bool | int | float, dtype: DType) -> str | None:
    """A constant as a Python number, or None where only a typed constant keeps its value."""
    if dtype.is_float:
        number = float(value)
        if number == 0.0:
            return None if math.copysign(1.0, number) < 0 else "0.0"
        if math.isnan(number) or math.isinf(number):
            return f'float("{number}")'
        return repr(number)
    if dtype.kind == "bool":
        return None
    return str(int(value)) if value >= 0 else f"({int(value)})"


def typed(value: bool | int | float, dtype: DType) -> str:
    """A constant as a scalar tensor of its type."""
    name = TYPES[dtype]
    if dtype.is_float and float(value) == 0.0 and math.copysign(1.0, float(value)) < 0:
        return f"lib.neg(tl.full((), 0.0, {name}))"  # Triton makes +0 of the literal -0.0
    if dtype == BF16:
        return f"tl.full((), {literal(value, F32)}, tl.float32).to(tl.bfloat16)"
    text = str(bool(value)) if dtype.kind == "bool" else literal(value, dtype)
    return f"tl.full((), {text}, {name})"


def cast(text: str, source: DType, target: DType) -> str:
    """`text` converted as CUDA eager does: floats to integers toward 0, to 16 bits through f32, to nearest even."""
    if source == target:
        return text
    if source == F32 and target.is_half:
        return f"lib.to_{target.name}({text})"
    if target.is_half and not source.is_float and source != BOOL:
        # the sum keeps Triton from making one conversion of the two, which rounds otherwise
        return cast(f"({text}.to(tl.float32) + 0.0)", F32, target)
    if target.is_half:
        return cast(f"{text}.to(tl.float32)", F32, target)
    if source.is_half and target not in (F32, BOOL):
        return cast(f"{text}.to(tl.float32)", F32, target)
    if source.is_float and target == U8:
        return f"{text}.to(tl.int64).to(tl.uint8)"  # negative numbers wrap, as in eager
    if target == BOOL:
        return f"({text} != 0)"
    return f"{text}.to({TYPES[target]})"


def compute(
    op: str, args: tuple[str, ...], types: tuple[DType, ...], dtype: DType, precision: Precision, vendor: Vendor
) -> str:
    """Text of one op on operands of `types` (16-bit floats already widened, but for copy, cast and bitcast)."""
    last = types[-1]
    match op:
        case "copy":
            return args[0]
        case "cast":
            if vendor == "nvidia" and types[0].is_float and dtype.is_integer and args[0].startswith("tl.full(("):
                # LLVM makes any number of a NaN's integer where it knows the NaN
                wide = compute_dtype(types[0])
                return cast(f"lib.unknown({cast(args[0], types[0], wide)})", wide, dtype)
            return cast(args[0], types[0], dtype)
        case "bitcast":
            return f"{args[0]}.to({TYPES[dtype]}, bitcast=True)"
        case "where":
            return f"tl.where({', '.join(args)})"
        case "neg":
            return f"lib.neg({args[0]})" if last.is_float else f"-{args[0]}"
        case "abs":
            return f"tl.abs({args[0]})"
        case "not":
            return f"{args[0]} ^ 255" if last == U8 else f"~{args[0]}"
        case "floordiv":
            return f"lib.floordiv({args[0]}, {args[1]})"
        case "shr" if dtype == U8:
            return f"lib.shr_unsigned({args[0]}, {args[1]}, 8)"
        case "shl" | "shr":
            return f"lib.{op}({args[0]}, {args[1]}, {dtype.bits})"
        case "minimum" | "maximum" if last != BOOL:
            return f"lib.{op}({args[0]}, {args[1]})"
        case _:
            pass
    if last == BOOL:
        if op in _ORDERED:  # int1 is signed: True would be below False
            return f"{args[0]}.to(tl.int32) {_INFIX[op]} {args[1]}.to(tl.int32)"
        if op in _BOOL_INFIX:
            return f"{args[0]} {_BOOL_INFIX[op]} {args[1]}"
        raise IRError(f"op {op!r} on bool has no Triton form")
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    table = _EXACT
    if vendor == "amd":
        table = {**table, **(_AMD_F32 if last == F32 else _AMD)}
    if last == F32 and precision != "exact":
        table = {**table, **(_HALF if precision == "half" else _FULL)}
    if op not in table:
        raise IRError(f"op {op!r} has no Triton form")
    return table[op].format(*args)


# ---- reductions

_COMBINE: dict[str, str] = {
    "sum": "{acc} + {value}",
    "prod": "{acc} * {value}",
    "max": "lib.maximum({acc}, {value})",
    "min": "lib.minimum({acc}, {value})",
    "any": "{acc} | {value}",
    "all": "{acc} & {value}",
}
POSITIONAL = frozenset({"argmax", "argmin"})


def combine(op: str, acc: str, value: str) -> str:
    """The accumulator after one more value."""
    return _COMBINE[op].format(acc=acc, value=value)


def accumulator(op: str, arg: DType, result: DType) -> DType:
    """Type in which a reduction accumulates."""
    if op in ("any", "all"):
        return BOOL
    kept = result if op in ("sum", "prod") else arg
    if kept == BOOL:
        return I32
    return F32 if kept.is_half else kept


def identity(op: str, dtype: DType) -> str:
    """The value that changes no reduction, as a Python number."""
    match op:
        case "sum":
            return "0.0" if dtype.is_float else "0"
        case "prod":
            return "1.0" if dtype.is_float else "1"
        case "any":
            return "False"
        case "all":
            return "True"
        case "max" | "argmax":
            return 'float("-inf")' if dtype.is_float else str(_lowest(dtype))
        case "min" | "argmin":
            return 'float("inf")' if dtype.is_float else str(_highest(dtype))
        case _:
            raise IRError(f"reduction {op!r} has no Triton form")


def _lowest(dtype: DType) -> int:
    return 0 if dtype.kind in ("uint", "bool") else -(2 ** (dtype.bits - 1))


def _highest(dtype: DType) -> int:
    if dtype.kind == "bool":
        return 1
    return int(2 ** (dtype.bits - (dtype.kind == "int")) - 1)
