"""Sample calls for each row of the expansion table: operands that hold NaN, infinities, -0, subnormals, extremes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.inductor_prims  # defines torch.ops.prims.fma

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
I64, I32, I16, I8, U8, BOOL = torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool

FLOATS = (F32, BF16, F16, F64)
INTS = (I64, I32, I16, I8, U8)
NUMBERS = (*FLOATS, *INTS)
ALL = (*NUMBERS, BOOL)
INTEGRAL = (*INTS, BOOL)

HARD = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 20.0)

Arguments = tuple[Sequence[Any], Mapping[str, Any]]
Make = Callable[["Maker"], Sequence[Any]]


class Maker:
    """Makes the operands of one sample in one dtype."""

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Ordinary numbers: standard normal floats, small integers, random bools."""
        dtype = dtype or self.dtype
        if dtype == BOOL:
            return torch.randint(0, 2, shape, generator=self.generator).bool()
        if not dtype.is_floating_point:
            low = 0 if dtype == U8 else -9
            return torch.randint(low, 10, shape, generator=self.generator).to(dtype)
        return torch.randn(shape, generator=self.generator, dtype=F64).to(dtype)

    def hard(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Ordinary numbers among special ones: NaN, infinities, zeros, subnormals, the largest; integers' extremes."""
        dtype = dtype or self.dtype
        out = self.normal(*shape, dtype=dtype)
        if dtype == BOOL or not out.numel():
            return out
        if dtype.is_floating_point:
            limits = torch.finfo(dtype)
            tiny = limits.smallest_normal
            special = torch.tensor(
                [*HARD, limits.max, limits.min, tiny, -tiny, tiny / 2, limits.eps, 88.8, -88.8, 1e-3, 1e3], dtype=F64
            ).to(dtype)
        else:
            limits_int = torch.iinfo(dtype)
            special = torch.tensor([limits_int.min, limits_int.max, 0, 1, limits_int.max - 1], dtype=I64).to(dtype)
        flat = out.view(-1)
        places = torch.randperm(flat.numel(), generator=self.generator)[: max(1, flat.numel() // 2)]
        chosen = torch.randint(0, special.numel(), (places.numel(),), generator=self.generator)
        flat[places] = special[chosen]
        return out

    def moderate(self, *shape: int) -> torch.Tensor:
        """Hard floats whose quotients do not overflow."""
        out = self.hard(*shape)
        return torch.where((out.abs() > 1e-3) & (out.abs() < 1e4) | ~out.isfinite() | (out == 0), out, 1).to(self.dtype)

    def unit(self, *shape: int) -> torch.Tensor:
        """Floats in (0, 1)."""
        return (torch.rand(shape, generator=self.generator, dtype=F64) * 0.98 + 0.01).to(self.dtype)

    def positive(self, *shape: int) -> torch.Tensor:
        """Numbers of at least 1 (floats: 0.5), with which anything may be divided."""
        return self.normal(*shape).abs().clamp(min=1 if not self.dtype.is_floating_point else 0.5).to(self.dtype)

    def flags(self, *shape: int) -> torch.Tensor:
        return self.normal(*shape, dtype=BOOL)

    def index(self, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, high, shape, generator=self.generator)


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: which row, which dtypes, the operands, the keyword arguments.

    Attributes:
        slack: how many times the usual tolerance an inexact row may differ by (sums of many terms: more).
    """

    name: str
    dtypes: tuple[torch.dtype, ...]
    make: Make
    kwargs: Mapping[str, Any]
    slack: float = 1.0


SAMPLES: list[Sample] = []


def row(
    names: str,
    dtypes: Sequence[torch.dtype],
    make: Make,
    slack: float = 1.0,
    **kwargs: Any,
) -> None:
    """Adds a sample for each of the rows named (a common prefix `aten.` is put before each)."""
    for name in names.split():
        full = name if name.startswith("prims.") else f"aten.{name}"
        SAMPLES.append(Sample(full, tuple(dtypes), make, kwargs, slack))


# ---- one operand

row(
    "exp.default exp2.default expm1.default log.default log2.default log10.default log1p.default sin.default"
    " cos.default tan.default asin.default acos.default atan.default"
    " sinh.default cosh.default tanh.default asinh.default"
    " acosh.default atanh.default erf.default erfc.default sigmoid.default sqrt.default deg2rad.default rad2deg.default"
    " reciprocal.default sinc.default",
    ALL,
    lambda m: [m.hard(5, 13)],
    slack=4,
)
row("rsqrt.default", ALL, lambda m: [m.hard(5, 13)])
row("floor.default ceil.default trunc.default fix.default round.default", NUMBERS, lambda m: [m.hard(5, 13)])
row("round.decimals", FLOATS, lambda m: [m.normal(5, 13)], slack=4, decimals=2)
row("round.decimals", FLOATS, lambda m: [m.normal(5, 13) * 99], slack=4, decimals=-1)
row("frac.default", FLOATS, lambda m: [m.hard(5, 13)])
row("neg.default square.default", NUMBERS, lambda m: [m.hard(5, 13)])
row("abs.default", NUMBERS, lambda m: [m.hard(5, 13)])
row(
    "sign.default sgn.default signbit.default isnan.default isinf.default isfinite.default isposinf.default"
    " isneginf.default nan_to_num.default logical_not.default",
    ALL,
    lambda m: [m.hard(5, 13)],
)
row("nan_to_num.default", FLOATS, lambda m: [m.hard(5, 13), 1.1, 2.2, -3.3])
row("bitwise_not.default", INTEGRAL, lambda m: [m.hard(5, 13)])
row("logit.default", FLOATS, lambda m: [m.unit(5, 13)], slack=16)
row("logit.default", FLOATS, lambda m: [m.hard(5, 13), 0.1], slack=16)
row(
    "clone.default alias.default detach.default lift_fresh.default lift_fresh_copy.default",
    ALL,
    lambda m: [m.hard(5, 13)],
)
row("contiguous.default", ALL, lambda m: [m.hard(5, 13).t()])
row("prims.view_of.default", ALL, lambda m: [m.hard(5, 13)])
for _target in (F64, F32, F16, BF16):
    row("_to_copy.default", ALL, lambda m: [m.hard(5, 13)], dtype=_target)
row("_to_copy.default", (F32, BF16, F64, I64, BOOL), lambda m: [m.normal(5, 13) * 9], dtype=I32)
row("_to_copy.default", (F32, BF16, I64, BOOL), lambda m: [m.hard(5, 13)], dtype=BOOL)
row("_to_copy.default", (I64, I32), lambda m: [m.hard(5, 13)], dtype=U8)
row("prims.convert_element_type.default", ALL, lambda m: [m.hard(5, 13), BF16])
row("copy.default", ALL, lambda m: [m.normal(5, 13), m.hard(5, 13)])
row("copy.default", (F32, BF16), lambda m: [m.normal(5, 13), m.hard(13, dtype=F64)])

# ---- arithmetic

row("add.Tensor sub.Tensor rsub.Tensor", NUMBERS, lambda m: [m.hard(5, 13), m.hard(5, 13)])
row("add.Tensor", (BOOL,), lambda m: [m.flags(5, 13), m.flags(13)])
row("add.Tensor sub.Tensor rsub.Tensor", (F32, F64), lambda m: [m.hard(5, 13), m.hard(13)], alpha=0.3)
row(
    "add.Tensor sub.Tensor rsub.Tensor", (BF16, F16), lambda m: [m.normal(5, 13), m.normal(13)], alpha=0.3,
)  # fmt: skip
row("add.Tensor sub.Tensor rsub.Tensor", INTS, lambda m: [m.hard(5, 13), m.hard(13)], alpha=3)
row("add.Tensor", (BF16, F32), lambda m: [m.hard(5, 13), m.hard(13, dtype=I64)])
row("add.Tensor sub.Tensor", FLOATS, lambda m: [m.hard(5, 13), torch.tensor(0.1, dtype=F64)])
row("add.Scalar sub.Scalar rsub.Scalar", NUMBERS, lambda m: [m.hard(5, 13), 3])
row("add.Scalar sub.Scalar rsub.Scalar mul.Scalar div.Scalar", FLOATS, lambda m: [m.hard(5, 13), 0.1])
row("mul.Tensor", ALL, lambda m: [m.hard(5, 13), m.hard(5, 1)])
row("mul.Tensor div.Tensor", FLOATS, lambda m: [m.hard(5, 13), torch.tensor(0.1, dtype=F64)])
row("mul.Scalar", ALL, lambda m: [m.hard(5, 13), 3])
row("div.Tensor true_divide.Tensor", ALL, lambda m: [m.hard(5, 13), m.hard(5, 13)])
row("div.Scalar", ALL, lambda m: [m.hard(5, 13), 3])
for _mode in (None, "trunc", "floor"):
    row("div.Tensor_mode", FLOATS, lambda m: [m.hard(5, 13), m.hard(5, 13)], rounding_mode=_mode)
    row("div.Scalar_mode", NUMBERS, lambda m: [m.hard(5, 13), 3], rounding_mode=_mode)
    row("div.Scalar_mode", FLOATS, lambda m: [m.hard(5, 13), 0.1], rounding_mode=_mode)
row("floor_divide.default", FLOATS, lambda m: [m.moderate(5, 13), m.moderate(5, 13)])
row(
    "floor_divide.default",
    (F32, F64),
    lambda m: [torch.tensor([1.0, 0.5, 6.0, -1.0]).to(m.dtype), torch.tensor([0.1, 0.1, 0.2, 0.1]).to(m.dtype)],
)
row("floor_divide.Scalar", NUMBERS, lambda m: [m.hard(5, 13), -3])
row("remainder.Tensor fmod.Tensor", FLOATS, lambda m: [m.moderate(5, 13), m.moderate(5, 13)])
row("remainder.Scalar fmod.Scalar", INTS, lambda m: [m.hard(5, 13), 3])
row("remainder.Scalar fmod.Scalar", FLOATS, lambda m: [m.moderate(5, 13), -0.7])
row("remainder.Scalar_Tensor", FLOATS, lambda m: [2.5, m.moderate(5, 13)])
for _power in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.7, 4):
    row("pow.Tensor_Scalar", FLOATS, lambda m, p=_power: [m.hard(5, 13), p], slack=4)
for _power in (0, 1, 2, 3, 7):
    row("pow.Tensor_Scalar", INTS, lambda m, p=_power: [m.hard(5, 13), p])
row("pow.Tensor_Tensor", FLOATS, lambda m: [m.hard(5, 13), m.normal(5, 13)], slack=16)
row("pow.Scalar", FLOATS, lambda m: [2, m.hard(5, 13)], slack=16)
row("pow.Scalar", FLOATS, lambda m: [1, m.hard(5, 13)])
row("atan2.default", ALL, lambda m: [m.hard(5, 13), m.hard(5, 13)])
row("copysign.Tensor", ALL, lambda m: [m.hard(5, 13), m.hard(5, 13)])
row("copysign.Scalar", FLOATS, lambda m: [m.hard(5, 13), -0.0])
row("hypot.default", FLOATS, lambda m: [m.hard(5, 13), m.hard(5, 13)])
row("maximum.default minimum.default fmax.default fmin.default", ALL, lambda m: [m.hard(5, 13), m.hard(5, 13)])
row("xlogy.Tensor special_xlog1py.default", ALL, lambda m: [m.hard(5, 13), m.hard(5, 13)], slack=4)
row("xlogy.Scalar_Self special_xlog1py.self_scalar", FLOATS, lambda m: [0.3, m.hard(5, 13)], slack=4)
row("xlogy.Scalar_Other special_xlog1py.other_scalar", FLOATS, lambda m: [m.hard(5, 13), 0.3], slack=4)
row("logaddexp.default", FLOATS, lambda m: [m.hard(5, 13), m.hard(5, 13)], slack=4)
row("heaviside.default", ALL, lambda m: [m.hard(5, 13), m.hard(5, 13)])
row("addcmul.default", NUMBERS, lambda m: [m.normal(5, 13), m.normal(5, 13), m.normal(13)], slack=4)
row(
    "addcmul.default addcdiv.default",
    FLOATS,
    lambda m: [m.normal(5, 13), m.normal(5, 13), m.positive(13)],
    slack=4,
    value=0.3,
)
if hasattr(torch.ops.prims, "fma"):  # torch 2.13 and later
    row("prims.fma.default", (torch.float32, torch.float64), lambda m: [m.normal(5, 13) for _ in range(3)])
row("lerp.Scalar", FLOATS, lambda m: [m.normal(5, 13), m.normal(13), 0.3], slack=4)
row("lerp.Scalar", FLOATS, lambda m: [m.normal(5, 13), m.normal(13), 0.7], slack=4)
row("lerp.Tensor", FLOATS, lambda m: [m.normal(5, 13), m.normal(13), m.normal(5, 13)], slack=16)
row(
    "bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor __and__.Tensor __or__.Tensor __xor__.Tensor",
    INTEGRAL,
    lambda m: [m.hard(5, 13), m.hard(13)],
)
row(
    "bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar __and__.Scalar __or__.Scalar __xor__.Scalar",
    INTS,
    lambda m: [m.hard(5, 13), 6],
)
row("bitwise_and.Scalar_Tensor bitwise_or.Scalar_Tensor bitwise_xor.Scalar_Tensor", INTS, lambda m: [6, m.hard(5, 13)])
_SHIFTS = (0, 1, 5, 7, 8, 31, 33, 63, 64, 70)
row(
    "bitwise_left_shift.Tensor bitwise_right_shift.Tensor __lshift__.Tensor __rshift__.Tensor",
    INTS,
    lambda m: [m.hard(10, 10), torch.tensor([*_SHIFTS]).to(m.dtype)],
)
row(
    "bitwise_left_shift.Tensor bitwise_right_shift.Tensor",
    (I64, I32, I16, I8),
    lambda m: [m.hard(10, 10), torch.tensor([-1, -70, 3, 2, 1, 0, -3, 6, 7, 5]).to(m.dtype)],
)
for _shift in (3, 70):
    row(
        "bitwise_left_shift.Tensor_Scalar bitwise_right_shift.Tensor_Scalar __lshift__.Scalar __rshift__.Scalar",
        INTS, lambda m, s=_shift: [m.hard(5, 13), s],
    )  # fmt: skip
row(
    "bitwise_left_shift.Scalar_Tensor bitwise_right_shift.Scalar_Tensor",
    INTS,
    lambda m: [77, m.index(7, 5, 13).to(m.dtype)],
)
row("logical_and.default logical_or.default logical_xor.default", ALL, lambda m: [m.hard(5, 13), m.hard(5, 13)])

# ---- comparisons and selection

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
row(" ".join(f"{n}.Tensor" for n in _COMPARISONS), ALL, lambda m: [m.hard(5, 13), m.hard(5, 13)])
row(" ".join(f"{n}.Scalar" for n in _COMPARISONS), ALL, lambda m: [m.hard(5, 13), 1])
row(
    " ".join(f"{n}.Scalar" for n in _COMPARISONS),
    FLOATS,
    lambda m: [torch.tensor([0.1, 0.3, -0.1, 1.0]).to(m.dtype), 0.1],
)
row(" ".join(f"{n}.Tensor" for n in _COMPARISONS), (BF16, F32), lambda m: [m.hard(5, 13), m.hard(13, dtype=I64)])
row("where.self", ALL, lambda m: [m.flags(5, 13), m.hard(5, 13), m.hard(13)])
row("where.self", (F32, BF16), lambda m: [m.flags(5, 1), m.hard(5, 13), m.hard(13, dtype=F64)])
row("where.ScalarOther", ALL, lambda m: [m.flags(5, 13), m.hard(5, 13), 1])
row("where.ScalarSelf", FLOATS, lambda m: [m.flags(5, 13), 0.1, m.hard(5, 13)])
row("where.Scalar", (F32,), lambda m: [m.flags(5, 13), 0.1, 3])
row("masked_fill.Scalar", FLOATS, lambda m: [m.hard(5, 13), m.flags(13), 0.1])
row("masked_fill.Scalar", ALL, lambda m: [m.hard(5, 13), m.flags(13), 1])
row("masked_fill.Tensor", FLOATS, lambda m: [m.hard(5, 13), m.flags(13), torch.tensor(0.1)])
row("clamp.default", NUMBERS, lambda m: [m.hard(5, 13), 0, 3])
row("clamp.default", FLOATS, lambda m: [m.hard(5, 13), -0.1, None])
row("clamp.default", FLOATS, lambda m: [m.hard(5, 13), None, 0.1])
row("clamp.default", FLOATS, lambda m: [m.hard(5, 13), 0.3, -0.3])
row("clamp.default", FLOATS, lambda m: [m.hard(5, 13), float("nan"), 0.3])
row("clamp.default", INTS, lambda m: [m.hard(5, 13), 0.5, 2.5])
row("clamp_min.default clamp_max.default", NUMBERS, lambda m: [m.hard(5, 13), 2])
row("clamp.Tensor", NUMBERS, lambda m: [m.hard(5, 13), m.hard(13), m.hard(5, 13)])
row("clamp.Tensor", NUMBERS, lambda m: [m.hard(5, 13), None, m.hard(5, 13)])
row("clamp_min.Tensor clamp_max.Tensor", NUMBERS, lambda m: [m.hard(5, 13), m.hard(13)])

# ---- activations

row("relu.default", NUMBERS, lambda m: [m.hard(5, 13)])
row("relu6.default", FLOATS, lambda m: [m.hard(5, 13)])
row("hardtanh.default", (*FLOATS, I64), lambda m: [m.hard(5, 13), -1, 2])
row("hardtanh_backward.default", FLOATS, lambda m: [m.hard(5, 13), m.hard(5, 13), -1.0, 2.0])
row("threshold.default", (*FLOATS, I64), lambda m: [m.hard(5, 13), 1, 7])
row("threshold_backward.default", FLOATS, lambda m: [m.hard(5, 13), m.hard(5, 13), 0])
row("threshold_backward.default", FLOATS, lambda m: [m.hard(5, 13), m.hard(5, 13), 0.1])
for _kind in ("none", "tanh"):
    row("gelu.default", FLOATS, lambda m: [m.hard(5, 13)], approximate=_kind)
    row("gelu_backward.default", FLOATS, lambda m: [m.normal(5, 13), m.normal(5, 13)], slack=4, approximate=_kind)
row(
    "silu.default mish.default elu.default celu.default selu.default hardswish.default hardsigmoid.default",
    FLOATS,
    lambda m: [m.hard(5, 13)],
    slack=4,
)
row("softplus.default", FLOATS, lambda m: [m.hard(5, 13)])
row("softplus.default", FLOATS, lambda m: [m.hard(5, 13), 2, 3])
row("elu.default", FLOATS, lambda m: [m.hard(5, 13), 0.7, 1.3, 0.9], slack=4)
row("leaky_relu.default", FLOATS, lambda m: [m.hard(5, 13)])
row("leaky_relu.default", FLOATS, lambda m: [m.hard(5, 13), 0.2])
row("hardshrink.default softshrink.default", FLOATS, lambda m: [m.hard(5, 13)])
row("hardshrink_backward.default softshrink_backward.default", FLOATS, lambda m: [m.hard(5, 13), m.hard(5, 13), 0.3])
row("silu_backward.default mish_backward.default", FLOATS, lambda m: [m.normal(5, 13), m.normal(5, 13)], slack=4)
row("hardswish_backward.default hardsigmoid_backward.default", FLOATS, lambda m: [m.hard(5, 13), m.hard(5, 13)])
row("softplus_backward.default", FLOATS, lambda m: [m.normal(5, 13), m.normal(5, 13) * 9, 2, 3], slack=4)
row("leaky_relu_backward.default", FLOATS, lambda m: [m.hard(5, 13), m.hard(5, 13), 0.2, False])
for _result in (False, True):
    row(
        "elu_backward.default",
        FLOATS,
        lambda m, r=_result: [m.normal(5, 13), 0.7, 1.3, 0.9, r, m.normal(5, 13)],
        slack=4,
    )
row("sigmoid_backward.default tanh_backward.default", FLOATS, lambda m: [m.normal(5, 13), m.unit(5, 13)], slack=4)
row("logit_backward.default", FLOATS, lambda m: [m.normal(5, 13), m.unit(5, 13)], slack=64)
row("logit_backward.default", FLOATS, lambda m: [m.normal(5, 13), m.unit(5, 13), 0.1], slack=64)
row("log_sigmoid_forward.default", FLOATS, lambda m: [m.hard(5, 13)])
row(
    "log_sigmoid_backward.default",
    FLOATS,
    lambda m: [m.normal(5, 13), (x := m.normal(5, 13)), torch.exp(-x.abs())],
    slack=4,
)
row("glu.default", FLOATS, lambda m: [m.normal(4, 13), 0])
row("glu.default", FLOATS, lambda m: [m.hard(3, 14)])
row("glu_backward.default", FLOATS, lambda m: [m.normal(3, 7), m.normal(3, 14), -1], slack=4)
row("prelu.default _prelu_kernel.default", FLOATS, lambda m: [m.hard(5, 13), m.normal(1)])
row("_prelu_kernel_backward.default", FLOATS, lambda m: [m.normal(5, 13), m.hard(5, 13), m.normal(5, 13)])
row("native_dropout_backward.default", FLOATS, lambda m: [m.hard(5, 13), m.flags(5, 13), 1.0 / 0.7])
