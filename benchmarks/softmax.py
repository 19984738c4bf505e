"""Softmax: whole rows, rows too long for one program, and rows of which a mask hides a part."""

from __future__ import annotations

import torch

from benchmarks import peers
from benchmarks.common import BOOL, BOTH, INT64, Inputs, ragged_lengths, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Program


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


def _build_softmax(case: Case) -> Built:
    return softmax, (Inputs(case).normal(case.size["rows"], case.size["cols"]),)


def _softmax_cost(case: Case) -> Cost:
    # Read x, write y; then read dy and y, write dx. One operator each way.
    bytes_moved = (2 + (3 if case.train else 0)) * tensor_bytes(case, case.size["rows"], case.size["cols"])
    return Cost(bytes_moved, bytes_moved)


def _long_row_cost(case: Case) -> Cost:
    # The same, or one read more forward and both once more backward where a row is not held on chip.
    tensor = tensor_bytes(case, case.size["rows"], case.size["cols"])
    cost = _softmax_cost(case)
    two_read = (3 + (5 if case.train else 0)) * tensor
    return Cost(cost.least_bytes, cost.unfused_bytes, two_read_bytes=two_read)


# --- scale + causal + padding mask + softmax ------------------------------------------------------


def _build_masked_softmax(case: Case) -> Built:
    inputs = Inputs(case)
    batch, heads, length = case.size["batch"], case.size["heads"], case.size["length"]
    scale = 0.125

    def masked_softmax(scores: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        position = torch.arange(scores.shape[-1], device=scores.device)
        future = position[None, :] > position[:, None]
        padding = position[None, :] >= lengths[:, None]
        mask = future[None, None, :, :] | padding[:, None, None, :]
        return torch.softmax((scores * scale).masked_fill(mask, float("-inf")), dim=-1)

    scores = inputs.normal(batch, heads, length, length, scale=4.0)
    return masked_softmax, (scores, inputs.lengths(batch, length, shortest=length * 3 // 4))


def _masked_softmax_cost(case: Case) -> Cost:
    batch, heads, length = case.size["batch"], case.size["heads"], case.size["length"]
    tensor = tensor_bytes(case, batch, heads, length, length)
    # Query q sees min(q + 1, n) keys of a sequence of n: what is hidden is never read, but zeros are
    # written there.
    visible = sum(n * (n + 1) // 2 + (length - n) * n for n in ragged_lengths(batch, length, shortest=length * 3 // 4))
    seen = tensor_bytes(case, heads, visible)
    # Least: read the seen scores, write y; then read dy and y where seen, write the gradient.
    least = seen + tensor + batch * INT64 + (2 * seen + tensor if case.train else 0)
    # Unfused, the masks: positions written; the comparison with themselves; that with the lengths; their
    # union.
    positions, square, hidden = length * INT64, length * length * BOOL, batch * length * length * BOOL
    rows = batch * length * BOOL
    masks = positions + (positions + square) + (positions + batch * INT64 + rows) + (square + rows + hidden)
    # Scale 2, fill 2 and the mask, softmax 2; backward: softmax 3, fill 2 and the mask, scale 2.
    unfused = masks + 6 * tensor + hidden + (7 * tensor + hidden if case.train else 0)
    return Cost(least, unfused)


PROGRAMS = (
    Program(
        name="softmax",
        build=_build_softmax,
        cost=_softmax_cost,
        sizes={
            "tiny": {"rows": 37, "cols": 257},
            "small": {"rows": 4096, "cols": 1024},
            "full": {"rows": 4096, "cols": 32768},
        },
        directions=BOTH,
        peers={"liger": peers.liger_softmax},
        note="over rows",
    ),
    Program(
        name="softmax_8192",
        build=_build_softmax,
        cost=_softmax_cost,
        sizes={
            "tiny": {"rows": 5, "cols": 1031},
            "small": {"rows": 512, "cols": 8192},
            "full": {"rows": 16384, "cols": 8192},
        },
        directions=BOTH,
        peers={"liger": peers.liger_softmax},
        note="rows that one program holds in registers",
    ),
    Program(
        name="softmax_long_row",
        build=_build_softmax,
        cost=_long_row_cost,
        sizes={
            "tiny": {"rows": 2, "cols": 20011},
            "small": {"rows": 4, "cols": 2**20},
            "full": {"rows": 64, "cols": 2**21},
        },
        directions=BOTH,
        note="a row of 4 MB in bf16",
    ),
    Program(
        name="masked_softmax",
        build=_build_masked_softmax,
        cost=_masked_softmax_cost,
        sizes={
            "tiny": {"batch": 2, "heads": 3, "length": 48},
            "small": {"batch": 2, "heads": 8, "length": 512},
            "full": {"batch": 4, "heads": 16, "length": 2048},
        },
        directions=BOTH,
        note="scale + causal and padding mask + softmax",
    ),
)
