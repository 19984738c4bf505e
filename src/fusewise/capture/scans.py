"""Running sums and products of a GPU along an outer axis, taken along the inner one.

PyTorch's CUDA kernel for a scan along an outer axis gives each column to one thread, which walks it alone: where
columns are long and few the device idles (H200, fp32 [16384, 64]: 5.9 ms). Its kernel for the inner axis gives a row
to a block and adds in a tree. Two transposing copies, which may fuse with what stands beside them, are cheap beside
that. The order of a floating-point sum changes, to one with no larger error; under `conservative` nothing is changed.
"""

from __future__ import annotations

import math

import torch
from torch.fx import GraphModule, Node

from fusewise.capture.statistics import Pieces

aten = torch.ops.aten
_SCANS = (aten.cumsum.default, aten.cumprod.default)
_LONG = 512  # elements of a column from which the walk is longer than two copies and their launches
_MANY = 1 << 15  # columns that keep a GPU busy with one thread each


def scan_along_rows(gm: GraphModule) -> int:
    """Changes a graph of ATen ops in place; gives the number of scans that were turned."""
    found = 0
    for target in _SCANS:
        for node in gm.graph.find_nodes(op="call_function", target=target):
            found += _turn(gm, node)
    return found


def _turn(gm: GraphModule, node: Node) -> bool:
    x, dim = node.args[:2]
    if not isinstance(x, Node) or not isinstance(dim, int):
        return False
    shape = x.meta["val"].shape
    if not all(isinstance(size, int) for size in shape) or x.meta["val"].is_complex():
        return False
    last, dim = len(shape) - 1, dim % max(1, len(shape))
    if dim >= last or shape[dim] < _LONG or math.prod(shape) // shape[dim] > _MANY:
        return False
    pieces = Pieces(gm, node)

    def crossed(value: Node) -> Node:
        turned = pieces.call(aten.transpose.int, value, dim, last)
        return pieces.call(aten.clone.default, turned, memory_format=torch.contiguous_format)

    result = crossed(pieces.call(node.target, crossed(x), last, **node.kwargs))
    if result.meta["val"].stride() != node.meta["val"].stride():
        pieces.undo()
        return False
    node.replace_all_uses_with(result)
    gm.graph.erase_node(node)
    return True
