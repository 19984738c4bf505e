"""Pointwise chains: nothing but memory traffic, so fusion gains what the byte counts say."""

from __future__ import annotations

import torch

from benchmarks.common import BOTH, Inputs, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Program


def chain_of(stages: int, x: torch.Tensor) -> torch.Tensor:
    """y = (1 + 0.01(s+1)) x + 0.001(s+1) at stage s, then ReLU on even s."""
    for s in range(stages):
        x = x * (1 + 0.01 * (s + 1)) + 0.001 * (s + 1)
        if s % 2 == 0:
            x = torch.relu(x)
    return x


def _build_chain(case: Case) -> Built:
    stages = case.size["k"]

    def chain(x: torch.Tensor) -> torch.Tensor:
        return chain_of(stages, x)

    return chain, (Inputs(case).normal(case.size["n"]),)


def _chain_cost(case: Case) -> Cost:
    tensor = tensor_bytes(case, case.size["n"])
    stages = case.size["k"]
    relus = (stages + 1) // 2
    # Least: read x, write y; then read dy and x, write dx.
    # Unfused: each multiplication, addition and ReLU reads one tensor and writes one; backward, each
    # multiplication does so again and each ReLU reads two (gradient and result).
    least = 2 + (3 if case.train else 0)
    unfused = 2 * (2 * stages + relus) + (2 * stages + 3 * relus if case.train else 0)
    return Cost(least * tensor, unfused * tensor)


def add_mul(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return (a + b) * c


def _build_add_mul(case: Case) -> Built:
    inputs = Inputs(case)
    return add_mul, tuple(inputs.normal(case.size["n"]) for _ in range(3))


def _add_mul_cost(case: Case) -> Cost:
    tensor = tensor_bytes(case, case.size["n"])
    # Least: read a, b, c, write y; then read dy, a, b, c, write dc and the gradient that a and b share.
    # Unfused: two operators of two inputs; backward, two multiplications of two inputs.
    return Cost((4 + (6 if case.train else 0)) * tensor, (6 + (6 if case.train else 0)) * tensor)


PROGRAMS = (
    Program(
        name="chain",
        build=_build_chain,
        cost=_chain_cost,
        sizes={
            "tiny": {"n": 4099, "k": 8},
            "small": {"n": 2**24, "k": 8},
            "full": {"n": 2**28, "k": 8},
        },
        dtypes=("fp32", "bf16", "fp16"),
        directions=BOTH,
        note="k pointwise stages, ReLU on the even ones",
    ),
    Program(
        name="add_mul",
        build=_build_add_mul,
        cost=_add_mul_cost,
        sizes={"tiny": {"n": 4099}, "small": {"n": 2**22}, "full": {"n": 2**26}},
        directions=BOTH,
        note="(a + b) * c",
    ),
)
