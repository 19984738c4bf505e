"""What the importer asks of a graph's calls: what their arguments hold, where they run, why one runs as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fusewise.capture.barrier import is_barrier


def wall_reason(node: Node) -> str:
    """Why a call that has no expansion runs as it is."""
    target = node.target
    if is_barrier(node):
        return "the program forbids fusing across it"
    if not isinstance(target, torch._ops.OpOverload):
        return "a call that is no ATen op"
    if target.namespace == "_c10d_functional":
        return "a collective: other processes take part"
    if any(part in str(target) for part in _PRODUCTS):
        return "a product that the vendor's kernel computes"
    if torch.Tag.nondeterministic_seeded in target.tags:
        return "draws from PyTorch's generator"
    if target.namespace not in ("aten", "prims"):
        return "a custom op"
    return "no expansion"


_PRODUCTS = ("mm.", "mv.", ".dot.", "convolution", "attention", "_linear", "_rnn", "lstm", "gru")


def flat(value: Any) -> Iterator[Any]:
    """The leaves of nested tuples and lists."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from flat(part)
    else:
        yield value


def plain(value: Any) -> Any:
    """FX's immutable lists and dicts as plain ones: PyTorch's parser wants those."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def main_device(gm: GraphModule, arguments: Sequence[Any]) -> torch.device:
    """The device that most tensors of the graph are on; scalars count only where there is nothing else."""
    count: dict[torch.device, float] = {}
    for found in [*arguments, *(n.meta.get("val") for n in gm.graph.nodes if n.op == "call_function")]:
        for leaf in flat(found):
            if isinstance(leaf, torch.Tensor):
                count[leaf.device] = count.get(leaf.device, 0) + (1 if leaf.dim() else 1e-6)
    return max(count, key=lambda d: (count[d], d.type != "cpu")) if count else torch.device("cpu")
