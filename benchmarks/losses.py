"""Loss heads: cross entropy over a large vocabulary."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks import peers
from benchmarks.common import BOTH, FP32, INT64, Inputs, cast_bytes, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Program


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.float(), target)


def _build_cross_entropy(case: Case) -> Built:
    inputs = Inputs(case)
    rows, classes = case.size["rows"], case.size["classes"]
    return cross_entropy, (inputs.normal(rows, classes), inputs.integers(rows, below=classes))


def _cross_entropy_cost(case: Case) -> Cost:
    rows, n = case.size["rows"], case.size["rows"] * case.size["classes"]
    logits, wide, target = tensor_bytes(case, n), n * FP32, rows * INT64
    cast = cast_bytes(n, case.itemsize, FP32)
    # Forward: read the logits. Unfused: cast, log-softmax (2 wide), and of the loss the chosen elements only.
    least, unfused = logits + target, cast + 2 * wide + rows * FP32 + target
    if not case.train:
        return Cost(least, unfused)
    # Training in three passes: read the logits again, write the gradient. Two would do if the gradient were
    # made while the row is on chip, which needs the scale of the loss before the loss is known:
    # `hard_bytes`.
    # Unfused backward: gradient of the loss written (1 wide), log-softmax (3 wide), cast back.
    hard = 2 * logits + target
    return Cost(hard + logits + target, unfused + 4 * wide + target + cast, hard_bytes=hard)


PROGRAMS = (
    Program(
        name="cross_entropy",
        build=_build_cross_entropy,
        cost=_cross_entropy_cost,
        sizes={
            "tiny": {"rows": 19, "classes": 1003},
            "small": {"rows": 512, "classes": 8192},
            "full": {"rows": 8192, "classes": 128256},
        },
        directions=BOTH,
        peers={"liger": peers.liger_cross_entropy},
        note="fp32 inside; the floor allows three passes over the logits",
    ),
)
