"""Matrix products with a pointwise tail: per-column scale and bias, with and without GELU."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.common import Inputs, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Program


def gemm_scale_bias(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return x @ weight * scale + bias


def gemm_scale_bias_gelu(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    return F.gelu(x @ weight * scale + bias, approximate="tanh")


def _gemm_inputs(case: Case) -> tuple[torch.Tensor, ...]:
    inputs = Inputs(case)
    m, n, k = case.size["m"], case.size["n"], case.size["k"]
    weight = inputs.normal(k, n, scale=k**-0.5)
    return inputs.normal(m, k), weight, inputs.normal(n, scale=0.1, shift=1.0), inputs.normal(n)


def _build_gemm_scale_bias(case: Case) -> Built:
    return gemm_scale_bias, _gemm_inputs(case)


def _build_gemm_scale_bias_gelu(case: Case) -> Built:
    return gemm_scale_bias_gelu, _gemm_inputs(case)


def _gemm_cost(case: Case, tail_operators: int) -> Cost:
    m, n, k = case.size["m"], case.size["n"], case.size["k"]
    operands = tensor_bytes(case, m, k) + tensor_bytes(case, k, n) + tensor_bytes(case, 2, n)
    result = tensor_bytes(case, m, n)
    # Least: read both matrices and both vectors, write y. Unfused: each operator of the tail reads and
    # writes once more.
    return Cost(operands + result, operands + (1 + 2 * tail_operators) * result, flops=2 * m * n * k)


def _gemm_scale_bias_cost(case: Case) -> Cost:
    return _gemm_cost(case, tail_operators=2)


def _gemm_scale_bias_gelu_cost(case: Case) -> Cost:
    return _gemm_cost(case, tail_operators=3)


PROGRAMS = (
    Program(
        name="gemm_scale_bias",
        build=_build_gemm_scale_bias,
        cost=_gemm_scale_bias_cost,
        sizes={
            "tiny": {"m": 33, "n": 40, "k": 48},
            "small": {"m": 512, "n": 512, "k": 512},
            "full": {"m": 4096, "n": 4096, "k": 4096},
        },
        note="x @ w * scale + bias, by column",
    ),
    Program(
        name="gemm_scale_bias_m16",
        build=_build_gemm_scale_bias,
        cost=_gemm_scale_bias_cost,
        sizes={
            "tiny": {"m": 16, "n": 40, "k": 48},
            "small": {"m": 16, "n": 1024, "k": 1024},
            "full": {"m": 16, "n": 4096, "k": 4096},
        },
        note="the same for 16 rows: bound by reading the weight",
    ),
    Program(
        name="gemm_scale_bias_gelu",
        build=_build_gemm_scale_bias_gelu,
        cost=_gemm_scale_bias_gelu_cost,
        sizes={
            "tiny": {"m": 33, "n": 40, "k": 48},
            "small": {"m": 1024, "n": 512, "k": 128},
            "full": {"m": 8192, "n": 4096, "k": 512},
        },
        note="the same + gelu(tanh), a short reduction",
    ),
)
