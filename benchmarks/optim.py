"""An optimiser step over many tensors: independent pointwise work, bound by launches unless merged."""

from __future__ import annotations

import math

import torch

from benchmarks.common import FP32, Inputs
from fusewise.measure.program import Built, Case, Cost, Function, Program

STEP = 10
RATE, BETA1, BETA2, EPS = 1e-3, 0.9, 0.999, 1e-8
Tensors = list[torch.Tensor]


def layer_shapes(width: int) -> list[tuple[int, ...]]:
    """The ten parameters of a transformer layer without the biases of its norms."""
    return [
        (3 * width, width),
        (3 * width,),
        (width, width),
        (width,),
        (4 * width, width),
        (4 * width,),
        (width, 4 * width),
        (width,),
        (width,),
        (width,),
    ]


def adam(parameters: Tensors, gradients: Tensors, first: Tensors, second: Tensors) -> None:
    """One step in place, tensor by tensor, with the bias corrections of step 10."""
    correction1, correction2 = 1 - BETA1**STEP, 1 - BETA2**STEP
    for parameter, gradient, m, v in zip(parameters, gradients, first, second, strict=True):
        m.lerp_(gradient, 1 - BETA1)
        v.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        denominator = (v.sqrt() / math.sqrt(correction2)).add_(EPS)
        parameter.addcdiv_(m, denominator, value=-RATE / correction1)


def _build_adam(case: Case) -> Built:
    inputs = Inputs(case)
    shapes = layer_shapes(case.size["width"]) * case.size["layers"]

    def draw(scale: float) -> Tensors:
        return [inputs.normal(*shape, scale=scale, grad=False) for shape in shapes]

    return adam, (draw(0.02), draw(0.01), draw(0.01), [t.square_() for t in draw(0.01)])


def _adam_cost(case: Case) -> Cost:
    elements = case.size["layers"] * sum(math.prod(shape) for shape in layer_shapes(case.size["width"]))
    tensor = elements * FP32
    # Least: read parameter, gradient and both moments, write all but the gradient.
    # Unfused: first moment 3; second moment scaled 2, updated 3; root, division and epsilon 2 each;
    # parameter 4.
    return Cost(7 * tensor, 18 * tensor)


def _fused_adam(case: Case) -> Function:
    """PyTorch's own fused Adam."""
    from torch.optim.adam import adam as torch_adam

    count = case.size["layers"] * len(layer_shapes(case.size["width"]))
    steps = [torch.tensor(float(STEP - 1), device=case.device) for _ in range(count)]

    def fused_adam(parameters: Tensors, gradients: Tensors, first: Tensors, second: Tensors) -> None:
        torch_adam(
            parameters,
            gradients,
            first,
            second,
            max_exp_avg_sqs=[],
            state_steps=steps,
            fused=True,
            amsgrad=False,
            beta1=BETA1,
            beta2=BETA2,
            lr=RATE,
            weight_decay=0.0,
            eps=EPS,
            maximize=False,
        )

    return fused_adam


PROGRAMS = (
    Program(
        name="adam",
        build=_build_adam,
        cost=_adam_cost,
        sizes={
            "tiny": {"layers": 1, "width": 16},
            "small": {"layers": 2, "width": 256},
            "full": {"layers": 16, "width": 468},  # 160 tensors, 42 million elements
        },
        dtypes=("fp32",),
        tags=frozenset({"inplace"}),
        peers={"torch-fused-adam": _fused_adam},
        note="Adam step over 160 tensors, written as a loop",
    ),
)
