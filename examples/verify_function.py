"""Prove that what runs is equal to eager: with your inputs, random ones, and NaN, infinities, -0, subnormals.

The command line does the same: fusewise verify examples/verify_function.py:attention_scores
"""

import torch

import fusewise


def attention_scores(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)


def example_inputs() -> list[torch.Tensor]:
    torch.manual_seed(0)
    q, k = (torch.randn(4, 64, 32, requires_grad=True) for _ in range(2))
    return [q, k, torch.ones(64, 64, dtype=torch.bool).triu(1)]


if __name__ == "__main__":
    verification = fusewise.verify(attention_scores, *example_inputs())
    print(verification)
    assert verification, "a result differs from eager's by more than it may"
