"""What the families share: inputs that are the same at each call, and the size of tensors in bytes."""

from __future__ import annotations

import math

import torch

from fusewise.measure.program import Case

BOTH = ("forward", "train")

INT64 = 8
FP32 = 4
BOOL = 1


class Inputs:
    """Draws one case's arguments from a generator of its own; in training they ask for gradients."""

    def __init__(self, case: Case, seed: int = 0) -> None:
        self.case = case
        self.generator = torch.Generator(device=case.device).manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0, shift: float = 0.0, grad: bool = True) -> torch.Tensor:
        drawn = torch.empty(shape, dtype=self.case.dtype, device=self.case.device)
        drawn.normal_(mean=shift, std=scale, generator=self.generator)
        return drawn.requires_grad_(grad and self.case.train)

    def integers(self, *shape: int, below: int) -> torch.Tensor:
        return torch.randint(below, shape, device=self.case.device, generator=self.generator)

    def permutation(self, n: int) -> torch.Tensor:
        return torch.randperm(n, device=self.case.device, generator=self.generator)

    def lengths(self, batch: int, longest: int, shortest: int) -> torch.Tensor:
        """Ragged lengths, as `ragged_lengths` counts them."""
        return torch.tensor(ragged_lengths(batch, longest, shortest), device=self.case.device)


def ragged_lengths(batch: int, longest: int, shortest: int) -> list[int]:
    """`batch` lengths spread evenly from `longest` down to `shortest`."""
    steps = max(batch - 1, 1)
    return [longest - (longest - shortest) * i // steps for i in range(batch)]


def tensor_bytes(case: Case, *shape: int) -> int:
    """Bytes of a tensor of the case's dtype."""
    return math.prod(shape) * case.itemsize


def cast_bytes(elements: int, source: int, target: int) -> int:
    """Bytes that a cast between two item sizes moves; none where the types are the same."""
    return 0 if source == target else elements * (source + target)
