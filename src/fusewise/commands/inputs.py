"""The grammar of `--input`, and tensors made from it.

    NAME:DTYPE[SIZES]            x:bf16[8192,4096]      normal numbers; integers from 0 to 9; both truth values
    NAME:DTYPE[SIZES]<LIMIT      ids:i64[8,128]<32000   integers from 0 to LIMIT - 1
    NAME:DTYPE[SIZES]+grad       x:f32[64,64]+grad      asks for a gradient
    NAME=VALUE                   p=0.1                  a Python number, text, list, True, False or None

NAME is a parameter of the function. DTYPE is f64, f32, f16, bf16, i64, i32, i16, i8, u8, bool or torch's own name.
This module needs no torch until tensors are made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusewise.errors import UnknownName, UsageError

if TYPE_CHECKING:
    import torch

GRAMMAR = "NAME:DTYPE[SIZES], as in x:bf16[8192,4096]; add +grad for a gradient, <N to limit integers; or NAME=VALUE"

DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}
_OTHER_NAMES = {"fp64": "f64", "fp32": "f32", "fp16": "f16", "half": "f16", "float": "f32", "double": "f64"}
_OTHER_NAMES |= {torch_name: ours for ours, torch_name in DTYPES.items()}
_DEFAULT_LIMIT = 10

_TENSOR = re.compile(
    r"(?P<name>[A-Za-z_]\w*)\s*:\s*(?P<dtype>\w+)\s*\[(?P<sizes>[^\]]*)\]\s*(?:<\s*(?P<limit>\w+))?\s*(?P<grad>\+\s*grad)?"
)
_VALUE = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor input: `dtype` is a key of `DTYPES`; integers are drawn from 0 to `limit` - 1."""

    name: str
    dtype: str
    sizes: tuple[int, ...]
    grad: bool = False
    limit: int = _DEFAULT_LIMIT

    @property
    def is_float(self) -> bool:
        return self.dtype in ("f64", "f32", "f16", "bf16")


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """One Python value."""

    name: str
    value: Any


InputSpec = TensorSpec | ValueSpec


def parse_inputs(texts: Sequence[str]) -> tuple[InputSpec, ...]:
    """The inputs that `--input` options describe.

    Raises:
        UsageError: a text that does not follow the grammar, or a name that is given twice.
        UnknownName: a dtype that does not exist.
    """
    specs: dict[str, InputSpec] = {}
    for text in texts:
        spec = parse_input(text)
        if spec.name in specs:
            raise UsageError(f"input {spec.name!r} is given twice.")
        specs[spec.name] = spec
    return tuple(specs.values())


def parse_input(text: str) -> InputSpec:
    """One input; errors as `parse_inputs`."""
    tensor = _TENSOR.fullmatch(text.strip())
    if tensor is not None:
        return _tensor_spec(text, tensor)
    value = _VALUE.fullmatch(text.strip())
    if value is not None and ":" not in value["name"]:
        try:
            return ValueSpec(value["name"], ast.literal_eval(value["value"].strip()))
        except (ValueError, SyntaxError) as cause:
            problem = f"--input {text!r}: {value['value'].strip()!r} is not a Python number, text, list or truth value."
            raise UsageError(problem, f"Quote a text: {value['name']}='\"tanh\"'") from cause
    raise UsageError(f"--input {text!r} is not an input.", f"Write {GRAMMAR}.")


def _tensor_spec(text: str, found: re.Match[str]) -> TensorSpec:
    dtype = _OTHER_NAMES.get(found["dtype"], found["dtype"])
    if dtype not in DTYPES:
        raise UnknownName("dtype", found["dtype"], DTYPES)
    parts = [p.strip() for p in found["sizes"].split(",")] if found["sizes"].strip() else []
    if not all(p.isdigit() for p in parts):
        wrong = next(p for p in parts if not p.isdigit())
        raise UsageError(f"--input {text!r}: {wrong!r} is not a size.", "Sizes are whole numbers: x:f32[128,64]")
    spec = TensorSpec(found["name"], dtype, tuple(map(int, parts)), grad=found["grad"] is not None)
    if spec.grad and not spec.is_float:
        raise UsageError(f"--input {text!r}: only a floating-point tensor has a gradient.")
    if found["limit"] is None:
        return spec
    if spec.is_float or dtype == "bool" or not found["limit"].isdigit() or int(found["limit"]) < 1:
        raise UsageError(f"--input {text!r}: <N limits integers, and N is at least 1.", "ids:i64[8,128]<32000")
    return TensorSpec(spec.name, dtype, spec.sizes, limit=int(found["limit"]))


def make_input(spec: InputSpec, device: str = "cpu", generator: torch.Generator | None = None) -> Any:
    """The value of an input, drawn from `generator` (one of that device); on `meta` a tensor without data."""
    if isinstance(spec, ValueSpec):
        return spec.value
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[spec.dtype])
    if device == "meta":
        return torch.empty(spec.sizes, device=device, dtype=dtype, requires_grad=spec.grad)
    if spec.is_float:
        tensor = torch.randn(spec.sizes, device=device, generator=generator, dtype=torch.float32).to(dtype)
        return tensor.requires_grad_(spec.grad)
    top = 2 if spec.dtype == "bool" else min(spec.limit, torch.iinfo(dtype).max)
    return torch.randint(0, top, spec.sizes, device=device, generator=generator).to(dtype)
