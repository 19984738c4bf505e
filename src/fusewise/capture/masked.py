"""Softmax under a mask: what forward knows of its zeros, told to backward.

Where a mask puts -inf into a row before its softmax, the softmax is exactly 0, or NaN in a row that is NaN throughout.
So backward need not read it there: a `masked_fill` with 0 in front of the softmax's gradient says so, and a kernel that
recomputes the mask from indexes then skips that memory. The gradient stays what it is:

* The row's sum of gradient x softmax has a product with 0 where the mask is, as before. The incoming gradient is still
  read there: where it is infinite or NaN, eager's sum is NaN, and so is ours.
* A row that is NaN has a NaN beside the mask, and its sum stays NaN; one that is masked whole has nothing beside it.
* What the gradient is under the mask itself nobody reads: that is checked.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten
_SAME_VALUES = (aten.detach.default, aten.alias.default, aten._to_copy.default)


def skip_masked_softmax(joint: GraphModule) -> int:
    """Tells each gradient of a masked softmax in a joint graph where the softmax is 0; gives the number of them."""
    found = 0
    for node in joint.graph.find_nodes(op="call_function", target=aten._softmax_backward_data.default):
        output = node.args[1]
        mask = _mask_of(output)
        if mask is None or not _is_read_beside(node, *mask):
            continue
        condition, masked_where = mask
        with joint.graph.inserting_before(node):
            if not masked_where:
                condition = _call(joint, aten.logical_not.default, condition)
            node.update_arg(1, _call(joint, aten.masked_fill.Scalar, output, condition, 0.0))
        found += 1
    return found


def _mask_of(softmax: Node) -> tuple[Node, bool] | None:
    """(condition, whether it is true or false where the operand of this softmax is -inf)."""
    softmax = _through(softmax)
    if softmax.target is not aten._softmax.default:
        return None
    masked = _through(softmax.args[0])
    if masked.target is aten.masked_fill.Scalar and masked.args[2] == -math.inf:
        return masked.args[1], True  # type: ignore[return-value]
    if masked.target is aten.where.self:
        condition, *sides = masked.args
        for side, where in zip(sides, (True, False), strict=True):
            if _is_minus_infinity(side):
                return condition, where  # type: ignore[return-value]
    return None


def _is_read_beside(gradient: Node, condition: Node, masked_where: bool) -> bool:
    """True where every reader drops the gradient under the mask."""
    for user in gradient.users:
        if user.target is aten._to_copy.default:
            if not _is_read_beside(user, condition, masked_where):
                return False
        elif user.target is aten.where.self:
            kept = user.args[2 if masked_where else 1]
            if user.args[0] is not condition or kept is not gradient or user.args.count(gradient) != 1:
                return False
        elif user.target is not aten.masked_fill.Scalar or user.args[:2] != (gradient, condition) or not masked_where:
            return False
    return bool(gradient.users)


def _is_minus_infinity(node: Any) -> bool:
    if not isinstance(node, Node):
        return False
    value = {aten.scalar_tensor.default: 0, aten.full.default: 1}.get(node.target)  # type: ignore[call-overload]
    return value is not None and node.args[value] == -math.inf


def _through(node: Any) -> Node:
    while isinstance(node, Node) and node.target in _SAME_VALUES:
        node = node.args[0]
    assert isinstance(node, Node)
    return node


def _call(joint: GraphModule, target: Any, *args: Any) -> Node:
    """A call before the insertion point, with its fake result."""
    made = joint.graph.call_function(target, args)
    made.meta["val"] = target(*(a.meta["val"] if isinstance(a, Node) else a for a in args))
    return made
