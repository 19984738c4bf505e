"""Attention written plainly: projections around it, a causal mask, ragged lengths."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from benchmarks.common import BOOL, INT64, Inputs, ragged_lengths, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Function, Program


def _build_qkv_attention(case: Case) -> Built:
    inputs = Inputs(case)
    batch, length, width = case.size["batch"], case.size["length"], case.size["width"]
    heads = case.size["heads"]

    def qkv_attention(x: torch.Tensor, w_qkv: torch.Tensor, w_out: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (part.view(b, t, heads, d // heads).transpose(1, 2) for part in F.linear(x, w_qkv).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) * (d // heads) ** -0.5
        position = torch.arange(t, device=x.device)
        future = position[None, :] > position[:, None]
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return F.linear((weights @ v).transpose(1, 2).reshape(b, t, d), w_out)

    w_qkv = inputs.normal(3 * width, width, scale=width**-0.5)
    w_out = inputs.normal(width, width, scale=width**-0.5)
    return qkv_attention, (inputs.normal(batch, length, width), w_qkv, w_out)


def _qkv_attention_cost(case: Case) -> Cost:
    batch, length, width = case.size["batch"], case.size["length"], case.size["width"]
    heads = case.size["heads"]
    x = tensor_bytes(case, batch, length, width)
    weights = tensor_bytes(case, 4, width, width)
    scores = tensor_bytes(case, batch, heads, length, length)
    positions, future = length * INT64, length * length * BOOL
    # Least: read x and both weights, write the result; scores and projections stay on chip.
    # Unfused: projection 1 + 3; q, k, v copied for the batched product 6; product 2, writes the scores;
    # scale 2 scores; positions and the comparison; fill 2 scores and the mask; softmax 2 scores; product
    # reads the scores, 2; heads merged by a copy 2; projection 2.
    unfused = 18 * x + weights + 8 * scores + 2 * positions + 2 * future
    # Under a causal mask half of the scores and of their product with v need computing.
    pairs = batch * length * (length + 1) // 2
    flops = 2 * batch * length * 4 * width * width + 4 * pairs * width
    return Cost(2 * x + weights, unfused, flops)


def _qkv_attention_sdpa(case: Case) -> Function:
    """The same through PyTorch's fused attention operator."""
    heads = case.size["heads"]

    def qkv_attention_sdpa(x: torch.Tensor, w_qkv: torch.Tensor, w_out: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (part.view(b, t, heads, d // heads).transpose(1, 2) for part in F.linear(x, w_qkv).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(mixed.transpose(1, 2).reshape(b, t, d), w_out)

    return qkv_attention_sdpa


# --- candidates attend to a history of ragged length ----------------------------------------------


def target_attention(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    scores = query @ keys.transpose(-2, -1) / math.sqrt(query.shape[-1])
    padding = torch.arange(keys.shape[1], device=keys.device)[None, :] >= lengths[:, None]
    return torch.softmax(scores.masked_fill(padding[:, None, :], float("-inf")), dim=-1) @ values


def _build_target_attention(case: Case) -> Built:
    inputs = Inputs(case)
    batch, candidates, history = case.size["batch"], case.size["candidates"], case.size["history"]
    width = case.size["width"]
    query = inputs.normal(batch, candidates, width)
    keys, values = inputs.normal(batch, history, width), inputs.normal(batch, history, width)
    return target_attention, (query, keys, values, inputs.lengths(batch, history, shortest=history // 4))


def _target_attention_cost(case: Case) -> Cost:
    batch, candidates, history = case.size["batch"], case.size["candidates"], case.size["history"]
    width = case.size["width"]
    query, past = tensor_bytes(case, batch, candidates, width), tensor_bytes(case, batch, history, width)
    scores = tensor_bytes(case, batch, candidates, history)
    seen = sum(ragged_lengths(batch, history, shortest=history // 4))
    lengths, positions, padding = batch * INT64, history * INT64, batch * history * BOOL
    # Least: read the queries and the keys and values that a length admits, write the result.
    least = 2 * query + 2 * tensor_bytes(case, seen, width) + lengths
    # Unfused: product; division 2 scores; positions and the comparison; fill 2 scores and the mask; softmax
    # 2 scores; product.
    unfused = 2 * (query + past + scores) + 6 * scores + 2 * positions + lengths + 2 * padding
    return Cost(least, unfused, flops=4 * candidates * seen * width)


PROGRAMS = (
    Program(
        name="qkv_attention",
        build=_build_qkv_attention,
        cost=_qkv_attention_cost,
        sizes={
            "tiny": {"batch": 2, "length": 24, "width": 64, "heads": 4},
            "small": {"batch": 2, "length": 256, "width": 256, "heads": 4},
            "full": {"batch": 4, "length": 2048, "width": 2048, "heads": 16},
        },
        peers={"sdpa": _qkv_attention_sdpa},
        note="QKV projection + causal attention + output projection, written out",
    ),
    Program(
        name="target_attention",
        build=_build_target_attention,
        cost=_target_attention_cost,
        sizes={
            "tiny": {"batch": 3, "candidates": 8, "history": 40, "width": 16},
            "small": {"batch": 16, "candidates": 32, "history": 256, "width": 64},
            "full": {"batch": 64, "candidates": 128, "history": 1024, "width": 64},
        },
        note="candidates attend to a history of ragged length",
    ),
)
