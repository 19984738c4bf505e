"""Calls of every pointwise op that the expansion table holds, as functions of one or two tensors.

A call is a pattern: `X` and `Y` stand for the tensors, anything else for itself. Where floats and integers want other
constants, `Num(float, int)` holds both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
import torch._inductor.inductor_prims  # defines torch.ops.prims.fma, where torch has it

from fusewise.ir.expand import TABLE

FAMILIES = ("arithmetic", "compare", "unary", "activations")

# These return their operand, or a view of it: there is nothing to compute.
NO_ARITHMETIC = frozenset(
    f"aten.{name}.default" for name in ("alias", "detach", "lift_fresh", "contiguous", "lift_fresh_copy")
) | {"prims.view_of.default"}

# Where sizes are symbolic torch writes the first two in other ops, and cannot trace the last two.
FIXED_SIZES = frozenset(f"aten.{name}.default" for name in ("hardshrink", "softshrink")) | frozenset(
    f"aten.{name}_backward.default" for name in ("hardshrink", "softshrink")
)

Kind = Literal["float", "integer", "number", "any"]


class _Operand(NamedTuple):
    number: int


X, Y = _Operand(0), _Operand(1)


class Num(NamedTuple):
    """A number that is another one beside integers."""

    of_floats: float | None
    of_integers: int | None


class Positive(NamedTuple):
    """`X > 0`, as a condition."""


class Dimless(NamedTuple):
    """A tensor without dims that holds this number, of the type of `X`."""

    holds: int


@dataclass(frozen=True, slots=True)
class OpCase:
    """One way to call an op.

    Attributes:
        name: the overload, as in `aten.add.Tensor`.
        pattern: its arguments.
        kwargs: its keyword arguments.
        kind: dtypes that it is called with.
    """

    name: str
    pattern: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind = "any"

    @property
    def arity(self) -> int:
        """Number of tensors: 1 or 2."""
        return 2 if Y in self.pattern else 1

    @property
    def label(self) -> str:
        """The call as text, as in `add.Tensor(x, y, alpha=0.3)`."""
        parts = [_text(p) for p in self.pattern] + [f"{k}={_text(v)}" for k, v in self.kwargs.items()]
        return f"{self.name.removeprefix('aten.').removesuffix('.default')}({', '.join(parts)})"

    def takes(self, dtype: torch.dtype) -> bool:
        """True where the call is meant for the dtype; eager may still refuse it."""
        if dtype == torch.bool:
            return self.kind == "any"
        return self.kind in ("any", "number", "float" if dtype.is_floating_point else "integer")

    def function(self, dtype: torch.dtype) -> Callable[..., Any]:
        """The call as a function of its tensors."""
        op = overload(self.name)

        def call(*tensors: torch.Tensor) -> Any:
            def value(part: Any) -> Any:
                if isinstance(part, _Operand):
                    return tensors[part.number]
                if isinstance(part, Positive):
                    return tensors[0] > 0
                if isinstance(part, Dimless):
                    return tensors[0].new_full((), part.holds)
                if isinstance(part, Num):
                    return part.of_floats if dtype.is_floating_point else part.of_integers
                return part

            return op(*map(value, self.pattern), **{k: value(v) for k, v in self.kwargs.items()})

        return call


def overload(name: str) -> Any:
    """The torch op of that name."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _text(part: Any) -> str:
    if isinstance(part, _Operand):
        return "xy"[part.number]
    if isinstance(part, Positive):
        return "x > 0"
    if isinstance(part, Dimless):
        return f"tensor({part.holds})"
    if isinstance(part, Num):
        return str(part.of_floats if part.of_floats is not None else part.of_integers)
    return str(part).removeprefix("torch.")


def pointwise_ops() -> dict[str, str]:
    """Every pointwise op of the expansion table that computes something: name -> exactness."""
    return {
        name: row.exactness
        for name, row in TABLE.items()
        if row.expand.__module__.rpartition(".")[2] in FAMILIES
        and name not in NO_ARITHMETIC
        and (not name.startswith("prims.") or hasattr(torch.ops.prims, name.split(".")[1]))
    }


def claimed_ops(device: str) -> set[str]:
    """Those that `conservative` fuses on a device (`cpu` or `cuda`)."""
    return {name for name in pointwise_ops() if TABLE[name].is_exact_on(device)}


CASES: list[OpCase] = []


def _add(names: str, *pattern: Any, kind: Kind = "any", **kwargs: Any) -> None:
    for name in names.split():
        full = name if name.startswith("prims.") else f"aten.{name}"
        full = full if full.count(".") == 2 else f"{full}.default"
        CASES.append(OpCase(full, pattern, kwargs, kind))


# ---- one operand

_add(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sqrt"
    " rsqrt reciprocal deg2rad rad2deg sinc sigmoid",
    X,
    kind="float",
)
_add("floor ceil trunc fix round neg abs square", X, kind="number")
_add("frac", X, kind="float")
_add("sign sgn signbit isnan isinf isfinite isposinf isneginf nan_to_num logical_not clone", X)
_add("nan_to_num", X, 1.1, 2.2, -3.3, kind="float")
_add("bitwise_not", X, kind="integer")
_add("round.decimals", X, kind="float", decimals=2)
_add("logit", X, kind="float")
_add("logit", X, 0.1, kind="float")
_add("copy", X, Y)
for _target in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.bool):
    _add("_to_copy", X, dtype=_target)
_add("_to_copy", X, kind="integer", dtype=torch.int32)
_add("_to_copy", X, kind="integer", dtype=torch.uint8)
_add("prims.convert_element_type", X, torch.bfloat16)

# ---- arithmetic

_add("add.Tensor sub.Tensor rsub.Tensor mul.Tensor", X, Y, kind="number")
_add("add.Tensor sub.Tensor rsub.Tensor", X, Y, kind="number", alpha=Num(0.3, 3))
_add("add.Scalar sub.Scalar rsub.Scalar mul.Scalar", X, Num(0.1, 3), kind="number")
_add("div.Tensor true_divide.Tensor", X, Y, kind="number")
_add("div.Scalar", X, Num(0.1, 3), kind="number")
for _mode in (None, "trunc", "floor"):
    _add("div.Tensor_mode", X, Y, kind="float", rounding_mode=_mode)
    _add("div.Scalar_mode", X, Num(0.1, 3), kind="number", rounding_mode=_mode)
_add("floor_divide remainder.Tensor fmod.Tensor", X, Y, kind="float")
_add("floor_divide.Scalar remainder.Scalar fmod.Scalar", X, Num(-0.7, -3), kind="number")
_add("remainder.Scalar_Tensor", 2.5, X, kind="float")
for _power in (0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 1.7):
    _add("pow.Tensor_Scalar", X, _power, kind="float")
_add("pow.Tensor_Scalar", X, 7, kind="integer")
_add("pow.Tensor_Tensor atan2 hypot logaddexp", X, Y, kind="float")
_add("pow.Scalar", 2, X, kind="float")
_add("pow.Scalar", 0.7, X, kind="float")
_add("copysign.Tensor heaviside maximum minimum fmax fmin xlogy.Tensor special_xlog1py", X, Y, kind="number")
_add("copysign.Scalar", X, -0.0, kind="float")
_add("xlogy.Scalar_Self special_xlog1py.self_scalar", 0.3, X, kind="float")
_add("xlogy.Scalar_Other special_xlog1py.other_scalar", X, 0.3, kind="float")
_add("addcmul", X, Y, X, kind="number")
_add("addcmul addcdiv", X, Y, X, kind="float", value=0.3)
_add("addcdiv", X, X, Y, kind="float")
_add("lerp.Scalar", X, Y, 0.3, kind="float")
_add("lerp.Scalar", X, Y, 0.7, kind="float")
_add("lerp.Tensor", X, Y, X, kind="float")
if hasattr(torch.ops.prims, "fma"):
    _add("prims.fma.default", X, Y, X, kind="float")
_BITWISE = "bitwise_and.{0} bitwise_or.{0} bitwise_xor.{0}"
_DUNDER = "__and__.{0} __or__.{0} __xor__.{0}"
_add(f"{_BITWISE} {_DUNDER}".format("Tensor"), X, Y, kind="integer")
_add(f"{_BITWISE} {_DUNDER}".format("Scalar"), X, 6, kind="integer")
_add(_BITWISE.format("Scalar_Tensor"), 6, X, kind="integer")
_add("bitwise_left_shift.Tensor bitwise_right_shift.Tensor __lshift__.Tensor __rshift__.Tensor", X, Y, kind="integer")
for _bits in (3, 70):
    _add(
        "bitwise_left_shift.Tensor_Scalar bitwise_right_shift.Tensor_Scalar __lshift__.Scalar __rshift__.Scalar",
        X,
        _bits,
        kind="integer",
    )
_add("bitwise_left_shift.Scalar_Tensor bitwise_right_shift.Scalar_Tensor", 77, X, kind="integer")
_add("logical_and logical_or logical_xor", X, Y)

# ---- comparisons, selection, bounds

for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _add(f"{_name}.Tensor", X, Y)
    _add(f"{_name}.Scalar", X, Num(0.1, 3), kind="number")
_add("where.self", Positive(), X, Y, kind="number")
_add("where.ScalarOther", Positive(), Y, Num(0.1, 3), kind="number")
_add("where.ScalarSelf", Positive(), Num(0.1, 3), Y, kind="number")
_add("where.Scalar", Positive(), 0.1, 3, kind="float")
_add("masked_fill.Scalar", Y, Positive(), Num(0.1, 3), kind="number")
_add("masked_fill.Tensor", Y, Positive(), Dimless(3), kind="number")
_add("clamp", X, Num(-0.1, 0), Num(0.7, 3), kind="number")
_add("clamp", X, 0.0, None, kind="float")
_add("clamp_min clamp_max", X, Num(-0.0, 2), kind="number")
_add("clamp.Tensor", X, Y, None, kind="number")
_add("clamp_min.Tensor clamp_max.Tensor", X, Y, kind="number")
_add("relu", X, kind="number")
_add("relu6", X, kind="float")
_add("hardtanh", X, Num(-0.3, -1), Num(0.7, 2), kind="float")
_add("hardtanh_backward", X, Y, -0.3, 0.7, kind="float")
_add("threshold", X, Num(0.1, 1), Num(7.3, 7), kind="number")
_add("threshold_backward", X, Y, 0, kind="float")
_add("threshold_backward", X, Y, 0.1, kind="float")

# ---- activations and their gradients

for _form in ("none", "tanh"):
    _add("gelu", X, kind="float", approximate=_form)
    _add("gelu_backward", X, Y, kind="float", approximate=_form)
_add("silu mish elu celu selu hardswish hardsigmoid softplus leaky_relu hardshrink softshrink", X, kind="float")
_add("softplus", X, 2, 3, kind="float")
_add("leaky_relu", X, 0.2, kind="float")
_add("elu", X, 0.7, 1.3, 0.9, kind="float")
_add("silu_backward mish_backward hardswish_backward hardsigmoid_backward", X, Y, kind="float")
_add("sigmoid_backward tanh_backward logit_backward", X, Y, kind="float")
_add("softplus_backward", X, Y, 2, 3, kind="float")
_add("leaky_relu_backward", X, Y, 0.2, False, kind="float")
for _result in (False, True):
    _add("elu_backward", X, 0.7, 1.3, 0.9, _result, Y, kind="float")
_add("log_sigmoid_forward", X, kind="float")
_add("log_sigmoid_backward", X, Y, Y, kind="float")
_add("prelu _prelu_kernel", X, Y, kind="float")
_add("_prelu_kernel_backward", X, Y, X, kind="float")
_add("hardshrink_backward softshrink_backward", X, Y, 0.3, kind="float")
_add("native_dropout_backward", Y, Positive(), 1.0 / 0.7, kind="float")
# A row op: the halves of a dim, which the tensors' own layout gives.
_HALVES = frozenset({"aten.glu.default", "aten.glu_backward.default"})


def cases_of(names: frozenset[str] | None = None) -> Iterator[OpCase]:
    """The calls of these ops (all: None)."""
    return (c for c in CASES if names is None or c.name in names)


def uncovered() -> set[str]:
    """Pointwise ops of the table that no case calls; empty, or a case is missing."""
    return set(pointwise_ops()) - {c.name for c in CASES} - _HALVES
