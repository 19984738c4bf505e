"""Norms and softmax of a joint graph taken apart into a row's statistics and a pointwise rest.

Where backward computes such a result again, the statistics (a few bytes a row) can then be saved while the full-size
result is not, and no reduction runs twice. The pieces round as the whole op's expansion does: in float32 for 16-bit
floats, with one cast at the end.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node

from fusewise.capture.origin import PART_OF, whole_of
from fusewise.capture.random import KEPT_META, expressions
from fusewise.ir.sizes import same, same_all

aten = torch.ops.aten


def take_apart(joint: GraphModule, node: Node) -> bool:
    """Rewrites one call in place; False where there is no rule for it, or the pieces would not fit its result."""
    rule = _RULES.get(node.target)
    result = _main_result(node)
    if rule is None or result is None or _is_empty(result.meta["val"]):
        return False
    pieces = Pieces(joint, node)
    out = rule(pieces, *node.args)
    if out is None or not _fits(out.meta["val"], result.meta["val"]):
        pieces.undo()
        return False
    result.replace_all_uses_with(out)
    joint.graph.erase_node(result)
    for user in list(node.users):
        other = pieces.others.get(user.args[1]) if isinstance(user.args[1], int) else None
        if other is not None:
            user.replace_all_uses_with(other)
            joint.graph.erase_node(user)
    if result is not node and not node.users:
        joint.graph.erase_node(node)
    return True


class Pieces:
    """Adds calls right behind a node.

    Attributes:
        others: what takes the place of the node's further results, by number.
    """

    def __init__(self, joint: GraphModule, node: Node) -> None:
        self.graph = joint.graph
        self.node = node
        self.whole = whole_of(node)
        self.last = node
        self.made: list[Node] = []
        self.others: dict[int, Node] = {}
        self.mode = detect_fake_mode([n.meta.get("val") for n in joint.graph.nodes])

    def call(self, op: Any, *args: Any, **kwargs: Any) -> Node:
        """A call whose fake result is computed from those of its operands."""
        fake = [a.meta["val"] if isinstance(a, Node) else a for a in args]
        with self.graph.inserting_after(self.last):
            made = self.graph.call_function(op, args, kwargs)
        made.meta = {k: v for k, v in self.node.meta.items() if k in KEPT_META} | {PART_OF: self.whole}
        if self.mode is None:
            made.meta["val"] = op(*fake, **kwargs)
        else:
            with self.mode:
                made.meta["val"] = op(*fake, **kwargs)
        self.last = made
        self.made.append(made)
        return made

    def cast(self, value: Node, dtype: torch.dtype) -> Node:
        if value.meta["val"].dtype == dtype:
            return value
        return self.call(aten._to_copy.default, value, dtype=dtype)

    def result(self, index: int) -> Node:
        """Result `index` of the node itself."""
        return self.call(operator.getitem, self.node, index)

    def affine(self, value: Node, weight: Node | None, bias: Node | None) -> Node:
        dtype = value.meta["val"].dtype
        if weight is not None:
            value = self.call(aten.mul.Tensor, value, self.cast(weight, dtype))
        if bias is not None:
            value = self.call(aten.add.Tensor, value, self.cast(bias, dtype))
        return value

    def undo(self) -> None:
        for made in reversed(self.made):
            self.graph.erase_node(made)


def _compute_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _main_result(node: Node) -> Node | None:
    """The full-size result: the call itself, or the first of its tuple."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return node
    return next((u for u in node.users if u.target is operator.getitem and u.args[1] == 0), None)


def _is_empty(tensor: torch.Tensor) -> bool:
    """True where there is nothing to save; asks a symbol nothing, so adds no guard."""
    return any(isinstance(s, int) and s == 0 for s in tensor.shape)


def _fits(made: torch.Tensor, wanted: torch.Tensor) -> bool:
    shape, strides = map(expressions, (wanted.shape, wanted.stride()))
    return (
        made.dtype == wanted.dtype
        and same_all(expressions(made.shape), shape)
        and all(same(n, 1) or same(a, b) for n, a, b in zip(shape, expressions(made.stride()), strides, strict=True))
    )


def _layer_norm(p: Pieces, x: Node, shape: Any, weight: Node | None, bias: Node | None, eps: float) -> Node | None:
    dtype = x.meta["val"].dtype
    compute = _compute_dtype(dtype)
    mean, inverse = p.result(1), p.result(2)
    if mean.meta["val"].dtype != compute:
        return None  # a CPU saves the statistics of a 16-bit norm in 16 bits: too coarse to compute from
    off = p.call(aten.sub.Tensor, p.cast(x, compute), mean)
    return p.cast(p.affine(p.call(aten.mul.Tensor, off, inverse), weight, bias), dtype)


def _rms_norm(p: Pieces, x: Node, shape: Any, weight: Node | None = None, eps: float | None = None) -> Node | None:
    dtype = x.meta["val"].dtype
    compute = _compute_dtype(dtype)
    inverse = p.result(1)
    if inverse.meta["val"].dtype != compute:
        return None
    return p.cast(p.affine(p.call(aten.mul.Tensor, p.cast(x, compute), inverse), weight, None), dtype)


def _group_norm(
    p: Pieces,
    x: Node,
    weight: Node | None,
    bias: Node | None,
    n: Any,
    channels: Any,
    pixels: Any,
    groups: int,
    eps: float,
) -> Node | None:
    value = x.meta["val"]
    compute = _compute_dtype(value.dtype)
    batch, width = value.shape[:2]
    if not isinstance(batch, int) or not isinstance(width, int):
        return None
    pixels = list(value.shape[2:])
    ones = [1] * len(pixels)

    def per_group(statistic: Node) -> Node:
        return p.call(aten.view.default, statistic, [batch, groups, 1, *ones])

    def per_channel(parameter: Node) -> Node:
        return p.cast(p.call(aten.view.default, parameter, [groups, width // groups, *ones]), compute)

    # a dim that is cut in two is a view of any layout
    cut = p.cast(p.call(aten.view.default, x, [batch, groups, width // groups, *pixels]), compute)
    if p.node.meta["val"][1].dtype == compute:
        centre, steep = (per_group(p.result(index)) for index in (1, 2))
    else:
        # statistics of 16 bits are too coarse to compute from: they are rounded from those in float32
        both = p.call(aten.var_mean.correction, cut, list(range(2, 3 + len(pixels))), correction=0, keepdim=True)
        variance, centre = (p.call(operator.getitem, both, index) for index in (0, 1))
        steep = p.call(aten.rsqrt.default, p.call(aten.add.Scalar, variance, eps))
        for index, statistic in ((1, centre), (2, steep)):
            flat = p.call(aten.view.default, statistic, [batch, groups])
            p.others[index] = p.cast(flat, p.node.meta["val"][index].dtype)
    if weight is not None:
        steep = p.call(aten.mul.Tensor, steep, per_channel(weight))
    level = p.call(aten.mul.Tensor, centre, steep)
    if bias is None:
        level = p.call(aten.neg.default, level)
    else:
        level = p.call(aten.sub.Tensor, per_channel(bias), level)
    scaled = p.call(aten.mul.Tensor, cut, steep)
    out = p.cast(p.call(aten.add.Tensor, scaled, level), value.dtype)
    return p.call(aten.view.default, out, [batch, width, *pixels])


def _shifted(p: Pieces, x: Node, dim: int) -> tuple[Node, Node, Node]:
    """(x - max, exp of it, its sum), in the type that is computed in."""
    wide = p.cast(x, _compute_dtype(x.meta["val"].dtype))
    off = p.call(aten.sub.Tensor, wide, p.call(aten.amax.default, wide, [dim], True))
    grown = p.call(aten.exp.default, off)
    return off, grown, p.call(aten.sum.dim_IntList, grown, [dim], True)


def _softmax(p: Pieces, x: Node, dim: int, half_to_float: bool) -> Node | None:
    if x.meta["val"].dim() == 0:
        return None
    _, grown, total = _shifted(p, x, dim)
    return p.cast(p.call(aten.div.Tensor, grown, total), p.node.meta["val"].dtype)


def _log_softmax(p: Pieces, x: Node, dim: int, half_to_float: bool) -> Node | None:
    if x.meta["val"].dim() == 0:
        return None
    off, _, total = _shifted(p, x, dim)
    return p.cast(p.call(aten.sub.Tensor, off, p.call(aten.log.default, total)), p.node.meta["val"].dtype)


_RULES: dict[Any, Callable[..., Node | None]] = {
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
}
if hasattr(aten, "_fused_rms_norm"):
    _RULES[aten._fused_rms_norm.default] = _rms_norm
