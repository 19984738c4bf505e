"""Programs over axes of no, one and few elements: an empty tensor has no memory, and one element no second half."""

from __future__ import annotations

import torch
import torch.nn.functional as F

SHAPES = [(5, 0), (0, 5), (1, 0), (0, 1), (5, 1), (1, 1), (1, 300), (300, 1), (300, 0)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def reductions(x: torch.Tensor, y: torch.Tensor, row: torch.Tensor) -> list[torch.Tensor]:
    """Rows and columns of `x` and `y` (n, m) reduced in each way that takes their sizes; `row` (n)."""
    found = []
    for dim in (-1, 0):
        total = (x + y).sum(dim)
        found += [total * 2 - total, (x * y).prod(dim), x.mean(dim), torch.softmax(x - y, dim)]
        found += [(x > y).any(dim), (x > y).all(dim)]
        if x.shape[dim] != 1:  # torch 2.11 traces the norm along one element with another shape than eager's
            found.append(torch.linalg.vector_norm(x, dim=dim))
        if x.shape[dim]:
            found += [(x + y).amax(dim), x.amin(dim), x.argmax(dim), x.var(dim, correction=0)]
    found += [x.sum() + row, (x.sum(-1) + row) * row]
    if x.shape[-1]:
        found.append(torch.minimum(x.amax(-1), row))
    if x.numel():
        found += [F.layer_norm(x, x.shape[-1:]), F.rms_norm(x, x.shape[-1:])]
    return found


def pairs(xs: list[torch.Tensor], ys: list[torch.Tensor]) -> list[torch.Tensor]:
    """Small programs that have nothing to do with each other, so that they share a launch."""
    found = [torch.linalg.vecdot(x, y) for x, y in zip(xs, ys, strict=True)]
    return [*found, *((x - y).sum(0) * 2 for x, y in zip(xs, ys, strict=True))]


def gathers(x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
    """Reads of `x` (n, m) at places that are checked, padded and joined; `index` of whole numbers, maybe empty."""
    wide = F.pad(x, (1, 2), value=3.0)
    found = [wide * 2, torch.cat([x, x + 1, x.new_ones(x.shape[0], 2)], 1), wide.sum(1), x[:, :0].sum(1) + 1]
    return [*found, x.index_select(0, index) * 2, wide.index_select(1, index).amax(1) if index.numel() else wide]
