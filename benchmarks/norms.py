"""Norms with what surrounds them: GELU, dropout and a residual before, SiLU and dropout after."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from benchmarks import peers
from benchmarks.common import BOOL, BOTH, FP32, Inputs, cast_bytes, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, DropoutProbe, Program

ROWS = {
    "tiny": {"rows": 37, "cols": 257},
    "small": {"rows": 4096, "cols": 1024},
    "full": {"rows": 16384, "cols": 4096},
}
GROUPS = 32


def _row_tensor(case: Case) -> int:
    return tensor_bytes(case, case.size["rows"], case.size["cols"])


def _parameters(case: Case, channels: int, count: int) -> int:
    """Bytes of `count` vectors of parameters; in training they are read twice and their gradients written."""
    return tensor_bytes(case, count, channels) * (3 if case.train else 1)


# --- layer norm -----------------------------------------------------------------------------------


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def _build_layer_norm(case: Case) -> Built:
    inputs = Inputs(case)
    rows, cols = case.size["rows"], case.size["cols"]
    weight, bias = inputs.normal(cols, scale=0.1, shift=1.0), inputs.normal(cols, scale=0.1)
    return layer_norm, (inputs.normal(rows, cols), weight, bias)


def _layer_norm_cost(case: Case) -> Cost:
    # Read x, write y; then read dy and x, write dx. One operator each way, so nothing to gain but what the
    # operators themselves leave.
    passes = 2 + (3 if case.train else 0)
    bytes_moved = passes * _row_tensor(case) + _parameters(case, case.size["cols"], 2)
    return Cost(bytes_moved, bytes_moved)


# --- gelu(tanh) + dropout + residual + layer norm -------------------------------------------------


def _build_gelu_dropout_residual_layer_norm(case: Case) -> Built:
    inputs = Inputs(case)
    rows, cols = case.size["rows"], case.size["cols"]
    p = case.dropout

    def gelu_dropout_residual_layer_norm(
        x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        hidden = F.dropout(F.gelu(x, approximate="tanh"), p)
        return F.layer_norm(residual + hidden, (x.shape[-1],), weight, bias)

    x, residual = inputs.normal(rows, cols), inputs.normal(rows, cols)
    weight, bias = inputs.normal(cols, scale=0.1, shift=1.0), inputs.normal(cols, scale=0.1)
    return gelu_dropout_residual_layer_norm, (x, residual, weight, bias)


def _gelu_dropout_residual_layer_norm_cost(case: Case) -> Cost:
    tensor, mask = _row_tensor(case), case.size["rows"] * case.size["cols"] * BOOL
    # Least: read x and the residual, write y; then read dy, x and the residual again, write both gradients.
    # The mask is drawn again, never stored.
    least = 3 * tensor + (5 * tensor if case.train else 0)
    # Unfused: gelu 2, dropout 2 and the mask, addition 3, layer norm 2; backward: layer norm 3 (dy, its
    # input, dx), dropout 2 and the mask, gelu 3 (gradient, x, dx).
    unfused = 9 * tensor + mask + (8 * tensor + mask if case.train else 0)
    parameters = _parameters(case, case.size["cols"], 2)
    return Cost(least + parameters, unfused + parameters)


def _constant_row_inputs(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """gelu(2) everywhere and no residual: a normalised row then has two values, the larger one where kept."""
    x, residual, weight, bias = args
    new = (
        torch.full_like(x, 2.0),
        torch.zeros_like(residual),
        torch.ones_like(weight),
        torch.zeros_like(bias),
    )
    return tuple(n.requires_grad_(old.requires_grad) for n, old in zip(new, args, strict=True))


def _is_positive(output: Any) -> torch.Tensor:
    return torch.as_tensor(output > 0)


# --- RMS norm -------------------------------------------------------------------------------------


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def rms_norm_by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """As language models write it: statistics and scaling in fp32, the weight in the model's type."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return total, rms_norm_by_hand(total, weight)


def _build_rms_norm(case: Case) -> Built:
    inputs = Inputs(case)
    x = inputs.normal(case.size["rows"], case.size["cols"])
    return rms_norm, (x, inputs.normal(case.size["cols"], scale=0.1, shift=1.0))


def _build_rms_norm_by_hand(case: Case) -> Built:
    _, args = _build_rms_norm(case)
    return rms_norm_by_hand, args


def _build_add_rms_norm(case: Case) -> Built:
    inputs = Inputs(case)
    rows, cols = case.size["rows"], case.size["cols"]
    x, residual = inputs.normal(rows, cols), inputs.normal(rows, cols)
    return add_rms_norm, (x, residual, inputs.normal(cols, scale=0.1, shift=1.0))


def _rms_norm_cost(case: Case) -> Cost:
    # As for layer norm, without a bias.
    passes = 2 + (3 if case.train else 0)
    bytes_moved = passes * _row_tensor(case) + _parameters(case, case.size["cols"], 1)
    return Cost(bytes_moved, bytes_moved)


def _rms_norm_by_hand_unfused(case: Case) -> int:
    n = case.size["rows"] * case.size["cols"]
    tensor, wide = _row_tensor(case), n * FP32
    cast = cast_bytes(n, case.itemsize, FP32)
    # Forward: cast; square (2 wide); mean (1 wide); scale (2 wide); cast back; weight (2).
    unfused = cast + 5 * wide + cast + 2 * tensor
    if case.train:
        # Gradient of the weight's product: towards the row (2), towards the weight (3, then its sum over
        # rows reads 1). Cast. Of the scaling: towards the row (2 wide), towards the statistic (3 wide, then
        # its row sum reads 1). Of the mean: 1 wide written. Of the square: the power 1 of x (2 wide), twice
        # that (2 wide), times the gradient (3 wide). Both branches added (3 wide). Cast back.
        unfused += 6 * tensor + cast + 17 * wide + cast
    return unfused


def _rms_norm_by_hand_cost(case: Case) -> Cost:
    parameters = _parameters(case, case.size["cols"], 1)
    return Cost(_rms_norm_cost(case).least_bytes, _rms_norm_by_hand_unfused(case) + parameters)


def _add_rms_norm_cost(case: Case) -> Cost:
    tensor = _row_tensor(case)
    parameters = _parameters(case, case.size["cols"], 1)
    # Least: read x and the residual, write the sum and y; then read both gradients and the sum, write the
    # one gradient that x and the residual share. Unfused: the addition besides the norm, and the sum of two
    # gradients.
    least = 4 * tensor + (4 * tensor if case.train else 0)
    unfused = 3 * tensor + (3 * tensor if case.train else 0) + _rms_norm_by_hand_unfused(case)
    return Cost(least + parameters, unfused + parameters)


# --- group norm + SiLU + dropout ------------------------------------------------------------------


def _build_group_norm_silu_dropout(case: Case, memory_format: torch.memory_format) -> Built:
    inputs = Inputs(case)
    size, p = case.size, case.dropout

    def group_norm_silu_dropout(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.dropout(F.silu(F.group_norm(x, GROUPS, weight, bias)), p)

    drawn = inputs.normal(size["batch"], size["channels"], size["height"], size["width"], grad=False)
    x = drawn.contiguous(memory_format=memory_format).requires_grad_(case.train)
    weight = inputs.normal(size["channels"], scale=0.1, shift=1.0)
    bias = inputs.normal(size["channels"], scale=0.1)
    return group_norm_silu_dropout, (x, weight, bias)


def _build_group_norm_contiguous(case: Case) -> Built:
    return _build_group_norm_silu_dropout(case, torch.contiguous_format)


def _build_group_norm_channels_last(case: Case) -> Built:
    return _build_group_norm_silu_dropout(case, torch.channels_last)


def _group_norm_silu_dropout_cost(case: Case) -> Cost:
    size = case.size
    n = size["batch"] * size["channels"] * size["height"] * size["width"]
    tensor, mask = n * case.itemsize, n * BOOL
    # Least, with a group held on chip: read x, write y; then read dy and x, write dx. Where a group is read
    # twice: one more read forward, and both of dy and x again backward.
    least = 2 + (3 if case.train else 0)
    two_read = 3 + (5 if case.train else 0)
    # Unfused: group norm 2, SiLU 2, dropout 2 and the mask; backward: dropout 2 and the mask, SiLU 3, group
    # norm 3.
    unfused = 6 * tensor + mask + (8 * tensor + mask if case.train else 0)
    parameters = _parameters(case, size["channels"], 2)
    return Cost(least * tensor + parameters, unfused + parameters, two_read_bytes=two_read * tensor + parameters)


def _unit_bias_inputs(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Weight 0 and bias 1: every element before dropout is silu(1), so a zero is a dropped one."""
    x, weight, bias = args
    return (
        x,
        torch.zeros_like(weight).requires_grad_(weight.requires_grad),
        torch.ones_like(bias).requires_grad_(bias.requires_grad),
    )


def _is_nonzero(output: Any) -> torch.Tensor:
    return torch.as_tensor(output != 0)


# --- many small norms -----------------------------------------------------------------------------


def _build_small_norms(case: Case) -> Built:
    inputs = Inputs(case)
    count, rows, cols = case.size["count"], case.size["rows"], case.size["cols"]

    def small_norms(
        xs: list[torch.Tensor],
        residuals: list[torch.Tensor],
        weights: list[torch.Tensor],
        biases: list[torch.Tensor],
    ) -> list[torch.Tensor]:
        return [
            F.layer_norm(residual + F.gelu(x), (x.shape[-1],), weight, bias)
            for x, residual, weight, bias in zip(xs, residuals, weights, biases, strict=True)
        ]

    return small_norms, (
        [inputs.normal(rows, cols) for _ in range(count)],
        [inputs.normal(rows, cols) for _ in range(count)],
        [inputs.normal(cols, scale=0.1, shift=1.0) for _ in range(count)],
        [inputs.normal(cols, scale=0.1) for _ in range(count)],
    )


def _small_norms_cost(case: Case) -> Cost:
    count = case.size["count"]
    tensor, parameters = _row_tensor(case), _parameters(case, case.size["cols"], 2)
    # Least: read x and the residual, write y. Unfused: gelu 2, addition 3, layer norm 2.
    return Cost(count * (3 * tensor + parameters), count * (7 * tensor + parameters))


IMAGES = {
    "tiny": {"batch": 2, "channels": 64, "height": 6, "width": 5},
    "small": {"batch": 4, "channels": 256, "height": 32, "width": 32},
    "full": {"batch": 16, "channels": 512, "height": 64, "width": 64},
}

PROGRAMS = (
    Program(
        name="gelu_dropout_residual_layer_norm",
        build=_build_gelu_dropout_residual_layer_norm,
        cost=_gelu_dropout_residual_layer_norm_cost,
        sizes=ROWS,
        directions=BOTH,
        tags=frozenset({"random"}),
        probe=DropoutProbe(inputs=_constant_row_inputs, kept=_is_positive),
        note="gelu(tanh) + dropout 0.1 + residual + layer norm",
    ),
    Program(
        name="layer_norm",
        build=_build_layer_norm,
        cost=_layer_norm_cost,
        sizes=ROWS,
        directions=BOTH,
        peers={"liger": peers.liger_layer_norm},
        note="layer norm with weight and bias",
    ),
    Program(
        name="rms_norm",
        build=_build_rms_norm,
        cost=_rms_norm_cost,
        sizes=ROWS,
        directions=BOTH,
        peers={"liger": peers.liger_rms_norm},
        note="F.rms_norm",
    ),
    Program(
        name="rms_norm_by_hand",
        build=_build_rms_norm_by_hand,
        cost=_rms_norm_by_hand_cost,
        sizes=ROWS,
        directions=BOTH,
        peers={"liger": peers.liger_rms_norm},
        note="RMS norm written out, fp32 inside",
    ),
    Program(
        name="add_rms_norm",
        build=_build_add_rms_norm,
        cost=_add_rms_norm_cost,
        sizes=ROWS,
        directions=BOTH,
        peers={"liger": peers.liger_add_rms_norm},
        note="residual addition + RMS norm written out, both outputs",
    ),
    Program(
        name="group_norm_silu_dropout",
        build=_build_group_norm_contiguous,
        cost=_group_norm_silu_dropout_cost,
        sizes=IMAGES,
        directions=BOTH,
        tags=frozenset({"random"}),
        probe=DropoutProbe(inputs=_unit_bias_inputs, kept=_is_nonzero),
        note="group norm of 32 groups + SiLU + dropout 0.1",
    ),
    Program(
        name="group_norm_silu_dropout_channels_last",
        build=_build_group_norm_channels_last,
        cost=_group_norm_silu_dropout_cost,
        sizes=IMAGES,
        directions=BOTH,
        tags=frozenset({"random", "channels_last"}),
        probe=DropoutProbe(inputs=_unit_bias_inputs, kept=_is_nonzero),
        note="the same in channels last",
    ),
    Program(
        name="small_norms",
        build=_build_small_norms,
        cost=_small_norms_cost,
        sizes={
            "tiny": {"count": 3, "rows": 5, "cols": 128},
            "small": {"count": 8, "rows": 16, "cols": 1024},
            "full": {"count": 8, "rows": 16, "cols": 1024},
        },
        note="eight small gelu + residual + layer norm, bound by launches",
    ),
)
