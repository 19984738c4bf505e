"""A pre-norm transformer block, the model of the demo."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.common import BOOL, BOTH, FP32, Inputs, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Program

EXPANSION = 4


class TransformerBlock(nn.Module):
    """x + dropout(attention(norm(x))), then h + dropout(mlp(norm(h))) with GELU; causal attention."""

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        norm = partial(nn.LayerNorm, width, device=device, dtype=dtype)
        linear = partial(nn.Linear, device=device, dtype=dtype)
        self.norm1, self.norm2 = norm(), norm()
        self.qkv = linear(width, 3 * width)
        self.out = linear(width, width)
        self.up = linear(width, EXPANSION * width)
        self.down = linear(EXPANSION * width, width)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + F.dropout(self.attention(self.norm1(x)), self.dropout, self.training)
        hidden = F.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + F.dropout(self.down(hidden), self.dropout, self.training)


def _build_transformer_block(case: Case) -> Built:
    inputs = Inputs(case)
    width = case.size["width"]
    block = TransformerBlock(width, case.size["heads"], case.dropout, case.device, case.dtype)
    with torch.no_grad():
        for parameter in block.parameters():
            scale = 0.1 if parameter.dim() == 1 else parameter.shape[1] ** -0.5
            parameter.copy_(inputs.normal(*parameter.shape, scale=scale, grad=False))
        for norm in (block.norm1, block.norm2):
            norm.weight.add_(1.0)
    return block, (inputs.normal(case.size["batch"], case.size["length"], width),)


def _transformer_block_cost(case: Case) -> Cost:
    batch, length, width = case.size["batch"], case.size["length"], case.size["width"]
    tokens = batch * length
    x, mask = tensor_bytes(case, tokens, width), tokens * width * BOOL
    matrices = (4 + 2 * EXPANSION) * width * width  # qkv 3, out 1, up and down
    vectors = (3 + 1 + EXPANSION + 1 + 4) * width  # four biases, two norms of two
    parameters = tensor_bytes(case, matrices + vectors)
    log_sums = tokens * case.size["heads"] * FP32
    # Least: read x and the parameters, write y; then read x and dy and the parameters again, write the
    # gradients of x and of the parameters. What is saved between is not counted: contractions bind this
    # program.
    least = 2 * x + parameters + (3 * x + 2 * parameters if case.train else 0)
    # Unfused, in units of x: norm 2; qkv 1 + 3; attention 3 + 1 and the log sums; out 2; dropout 2 and the
    # mask; addition 3; norm 2; up 1 + 4; gelu 4 + 4; down 4 + 1; dropout 2 and the mask; addition 3.
    unfused = 42 * x + parameters + 2 * mask + log_sums
    if case.train:
        # Backward: dropout 2 and the mask; each linear layer twice over its input and output, and once over
        # its output for the bias: down 10 + 1, up 10 + 4; gelu 12; norm 3; sum of gradients 3; dropout 2
        # and the mask; out 4 + 1; attention 5 + 3 and the log sums; its three gradients joined 6; qkv 8 +
        # 3; norm 3; sum of gradients 3. Parameters: matrices read once, gradients written once.
        unfused += 83 * x + 2 * parameters + 2 * mask + log_sums
    # Causal attention computes half of the pairs. Backward is two products for each one of the forward.
    pairs = batch * length * (length + 1) // 2
    flops = 2 * tokens * matrices + 4 * pairs * width
    return Cost(least, unfused, flops * (3 if case.train else 1))


PROGRAMS = (
    Program(
        name="transformer_block",
        build=_build_transformer_block,
        cost=_transformer_block_cost,
        sizes={
            "tiny": {"batch": 2, "length": 16, "width": 64, "heads": 4},
            "small": {"batch": 4, "length": 128, "width": 256, "heads": 8},
            "full": {"batch": 8, "length": 2048, "width": 2048, "heads": 16},
        },
        directions=BOTH,
        tags=frozenset({"random"}),
        note="pre-norm block: attention, GELU MLP, two dropouts, two residuals",
    ),
)
