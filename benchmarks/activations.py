"""Gated activations: two inputs, one output, and a backward that needs both again."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks import peers
from benchmarks.common import BOTH, Inputs, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Program

SIZES = {
    "tiny": {"rows": 37, "cols": 259},
    "small": {"rows": 2048, "cols": 2752},
    "full": {"rows": 16384, "cols": 11008},
}


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


def geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.gelu(gate, approximate="tanh") * up


def _gated_inputs(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = Inputs(case)
    rows, cols = case.size["rows"], case.size["cols"]
    return inputs.normal(rows, cols), inputs.normal(rows, cols)


def _build_swiglu(case: Case) -> Built:
    return swiglu, _gated_inputs(case)


def _build_geglu(case: Case) -> Built:
    return geglu, _gated_inputs(case)


def _gated_cost(case: Case) -> Cost:
    tensor = tensor_bytes(case, case.size["rows"], case.size["cols"])
    # Least: read both, write y; then read dy and both again, write both gradients.
    # Unfused: activation 2, product 3; backward: product 3 towards each input, activation 3.
    return Cost((3 + (5 if case.train else 0)) * tensor, (5 + (9 if case.train else 0)) * tensor)


PROGRAMS = (
    Program(
        name="swiglu",
        build=_build_swiglu,
        cost=_gated_cost,
        sizes=SIZES,
        directions=BOTH,
        peers={"liger": peers.liger_swiglu},
        note="silu(gate) * up",
    ),
    Program(
        name="geglu",
        build=_build_geglu,
        cost=_gated_cost,
        sizes=SIZES,
        directions=BOTH,
        peers={"liger": peers.liger_geglu},
        note="gelu(tanh) of gate * up",
    ),
)
