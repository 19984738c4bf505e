"""Gathers and scatters around small matrix products: mixture of experts, LoRA adapters."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.common import INT64, Inputs, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Program

TOP = 2


def expert_routing(
    x: torch.Tensor, router_logits: torch.Tensor, w_down: torch.Tensor, w_up: torch.Tensor
) -> torch.Tensor:
    """Each row goes through its two best experts, low-rank pairs of matrices; results add up by weight."""
    gate, expert = torch.topk(router_logits, TOP, dim=-1)
    gate = torch.softmax(gate, dim=-1).flatten()
    expert = expert.flatten()
    row = torch.arange(x.shape[0], device=x.device).repeat_interleave(TOP)
    hidden = torch.bmm(w_down[expert], x[row].unsqueeze(-1))
    mixed = torch.bmm(w_up[expert], hidden).squeeze(-1)
    return torch.zeros_like(x).index_add(0, row, gate[:, None] * mixed)


def _build_expert_routing(case: Case) -> Built:
    inputs = Inputs(case)
    batch, width, rank = case.size["batch"], case.size["width"], case.size["rank"]
    experts = case.size["experts"]
    x = inputs.normal(batch, width)
    # Row b prefers experts b and b + 1, so that each expert has rows.
    logits = inputs.normal(batch, experts, scale=0.1)
    rows = torch.arange(batch, device=case.device)
    logits[rows, rows % experts] += 3.0
    logits[rows, (rows + 1) % experts] += 2.0
    w_down = inputs.normal(experts, rank, width, scale=width**-0.5)
    return expert_routing, (x, logits, w_down, inputs.normal(experts, width, rank, scale=rank**-0.5))


def _expert_routing_cost(case: Case) -> Cost:
    batch, width, rank = case.size["batch"], case.size["width"], case.size["rank"]
    experts = case.size["experts"]
    x, logits = tensor_bytes(case, batch, width), tensor_bytes(case, batch, experts)
    # Least: read x, the logits and each expert's two matrices once, write the result.
    least = 2 * x + logits + tensor_bytes(case, experts, 2, rank, width)
    routed = batch * TOP
    gate, matrix = tensor_bytes(case, routed), tensor_bytes(case, routed, rank, width)
    wide, narrow, index = tensor_bytes(case, routed, width), tensor_bytes(case, routed, rank), routed * INT64
    # Unfused: top-k reads the logits, writes gates and indices; softmax 2 gates; row numbers written, then
    # repeated; rows gathered 2 and the index; both matrices gathered 2 and the index each; two products;
    # weighting; zeros written; scatter-add reads zeros, index and rows, writes the result.
    unfused = logits + gate + index + 2 * gate + batch * INT64 + (batch * INT64 + index)
    unfused += (2 * wide + index) + 2 * (2 * matrix + index)
    unfused += (matrix + wide + narrow) + (matrix + narrow + wide)
    unfused += 2 * wide + gate + x + (x + index + wide + x)
    return Cost(least, unfused, flops=2 * routed * 2 * width * rank)


def lora_routing(
    x: torch.Tensor, weight: torch.Tensor, down: torch.Tensor, up: torch.Tensor, adapter: torch.Tensor
) -> torch.Tensor:
    """A linear layer plus, for each sequence, the low-rank update of its own adapter."""
    update = x @ down[adapter].transpose(1, 2) @ up[adapter].transpose(1, 2)
    return F.linear(x, weight) + 0.5 * update


def _build_lora_routing(case: Case) -> Built:
    inputs = Inputs(case)
    batch, length, width = case.size["batch"], case.size["length"], case.size["width"]
    rank, adapters = case.size["rank"], case.size["adapters"]
    x = inputs.normal(batch, length, width)
    weight = inputs.normal(width, width, scale=width**-0.5)
    down = inputs.normal(adapters, rank, width, scale=width**-0.5)
    up = inputs.normal(adapters, width, rank, scale=rank**-0.5)
    return lora_routing, (x, weight, down, up, inputs.permutation(adapters)[:batch])


def _lora_routing_cost(case: Case) -> Cost:
    batch, length, width = case.size["batch"], case.size["length"], case.size["width"]
    rank = case.size["rank"]
    x, weight = tensor_bytes(case, batch, length, width), tensor_bytes(case, width, width)
    # No two sequences share an adapter, so `batch` pairs of matrices are read.
    matrix, narrow, index = (
        tensor_bytes(case, batch, rank, width),
        tensor_bytes(case, batch, length, rank),
        batch * INT64,
    )
    least = 2 * x + weight + 2 * matrix + index
    # Unfused: both matrices gathered 2 and the index each; two products; linear; scale 2; addition 3.
    unfused = 2 * (2 * matrix + index) + 2 * (x + matrix + narrow) + (2 * x + weight) + 2 * x + 3 * x
    flops = 2 * batch * length * width * width + 4 * batch * length * width * rank
    return Cost(least, unfused, flops)


PROGRAMS = (
    Program(
        name="expert_routing",
        build=_build_expert_routing,
        cost=_expert_routing_cost,
        sizes={
            "tiny": {"batch": 9, "width": 64, "rank": 16, "experts": 4},
            "small": {"batch": 16, "width": 512, "rank": 32, "experts": 8},
            "full": {"batch": 64, "width": 4096, "rank": 128, "experts": 8},
        },
        note="top 2 of 8 low-rank experts: gather, two products, weighted scatter-add",
    ),
    Program(
        name="lora_routing",
        build=_build_lora_routing,
        cost=_lora_routing_cost,
        sizes={
            "tiny": {"batch": 3, "length": 5, "width": 64, "rank": 8, "adapters": 6},
            "small": {"batch": 8, "length": 16, "width": 512, "rank": 16, "adapters": 16},
            "full": {"batch": 32, "length": 64, "width": 4096, "rank": 16, "adapters": 64},
        },
        note="linear + the low-rank update of each sequence's own adapter",
    ),
)
