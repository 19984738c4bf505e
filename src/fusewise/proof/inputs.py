"""Sets of inputs to verify with: the caller's, random ones, and hard ones.

Only floating-point tensors change; integers, which may be indexes, stay the caller's. Hard values come one kind a set,
so that an error measured over a whole result is not drowned by values of another size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_ONE_IN = 16  # elements of the special set that are special

Fill = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


@dataclass(frozen=True, slots=True)
class InputSet:
    """A set of inputs: its name, and what makes a new tensor in the place of the caller's (None: the caller's)."""

    name: str
    fill: Fill | None


def _normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    drawn = torch.randn(like.shape, generator=generator, device=like.device, dtype=torch.float32)
    return drawn.to(like.dtype)


def _special(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """NaN, infinities and signed zeros among normal numbers."""
    values = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.0, 0.0], device=like.device, dtype=like.dtype)
    chosen = torch.randint(0, len(values), like.shape, generator=generator, device=like.device)
    here = torch.randint(0, _ONE_IN, like.shape, generator=generator, device=like.device) == 0
    return torch.where(here, values[chosen], _normal(like, generator))


def _large(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers near the square root of the largest one: their squares are finite, sums of squares are not."""
    scale = math.sqrt(torch.finfo(like.dtype).max)
    return (_normal(like, generator).double() * scale).to(like.dtype)


def _tiny(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The smallest normal numbers."""
    scale = 4 * torch.finfo(like.dtype).smallest_normal
    return (_normal(like, generator).double() * scale).to(like.dtype)


def _subnormal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers below the smallest normal one, of both signs."""
    drawn = torch.rand(like.shape, generator=generator, device=like.device, dtype=torch.float64) * 2 - 1
    info = torch.finfo(like.dtype)
    return (drawn * info.smallest_normal * (1 - info.eps)).to(like.dtype)


CALLER = InputSet("caller's", None)
RANDOM = InputSet("random", _normal)
HARD = (
    InputSet("NaN, inf, -0", _special),
    InputSet("large", _large),
    InputSet("tiny", _tiny),
    InputSet("subnormal", _subnormal),
)


def make_inputs(chosen: InputSet, args: Any, seed: int) -> Any:
    """A structure of inputs with tensors of its own, of the same shapes, strides and `requires_grad`.

    The same tensor in two places stays the same tensor in two places.
    """
    made: dict[int, torch.Tensor] = {}
    generators: dict[torch.device, torch.Generator] = {}

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            generator = generators.setdefault(leaf.device, torch.Generator(leaf.device).manual_seed(seed))
            made[id(leaf)] = _copy_of(leaf.detach(), chosen.fill, generator).requires_grad_(leaf.requires_grad)
        return made[id(leaf)]

    return tree_map(change, args)


def _copy_of(tensor: torch.Tensor, fill: Fill | None, generator: torch.Generator) -> torch.Tensor:
    """The same strides in memory of its own; an expanded tensor stays expanded.

    The values are the same too, or, for a floating-point tensor, those of `fill`.
    """
    if tensor.layout != torch.strided:
        return tensor.clone()
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    memory = torch.as_strided(tensor, (span,), (1,))
    memory = fill(memory, generator) if fill is not None and tensor.dtype in _FLOATS else memory.clone()
    return torch.as_strided(memory, tensor.shape, tensor.stride(), 0)
