"""The program of docs/walkthrough.md: a residual addition and an RMS norm, as language models write them."""

import torch


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum, and the sum normalised."""
    total = x + residual
    wide = total.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return total, weight * wide.to(x.dtype)
