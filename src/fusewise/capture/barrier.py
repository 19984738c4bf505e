"""`fusewise.barrier`: the identity, and a line that no fusion crosses."""

from __future__ import annotations

import torch
from torch.fx import Node
from torch.fx.traceback import annotate

_KEY, _MARK = "fusewise", "barrier"


def barrier(x: torch.Tensor) -> torch.Tensor:
    """`x` itself, as a view: what makes it and what reads the result never become one kernel.

    The same holds for the gradients, in the other direction. Nothing is copied and no graph is broken; in eager
    PyTorch and under other backends it is a view and nothing more.
    """
    # The identity permutation is a view that every part of PyTorch knows, autograd and functionalization included; the
    # annotation survives tracing and reaches the gradient's node too.
    with annotate({_KEY: _MARK}):
        return x.permute(tuple(range(-x.dim(), 0)))


def is_barrier(node: Node) -> bool:
    """True for a call that `barrier` or its gradient left in a graph of ATen ops."""
    if node.target is not torch.ops.aten.permute.default:
        return False
    return (node.meta.get("custom") or {}).get(_KEY) == _MARK
