"""Changes to the graph that Dynamo hands over, before AOTAutograd: what tracing would do otherwise than eager.

A graph may hold further ones, as of a checkpointed block; each change is made in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch._C import DispatchKey
from torch.fx import GraphModule, Node

aten = torch.ops.aten
_DROPOUT = (torch.nn.functional.dropout, torch.dropout, aten.dropout.default)
_ONE_HOT = (torch.nn.functional.one_hot, aten.one_hot.default)
_GROUP_NORM = (torch.nn.functional.group_norm, torch.group_norm)


def as_in_eager(gm: GraphModule, on_absent_gpu: bool = False) -> None:
    """Changes the graph in place, so that its trace is of what eager does.

    Args:
        on_absent_gpu: the trace on a CPU is to stand for one on a GPU.
    """
    _change(gm, _DROPOUT, _drop_idle)
    if DispatchKey.CompositeImplicitAutograd not in aten.one_hot.default.py_kernels:
        _change(gm, _ONE_HOT, _check_classes)  # up to torch 2.11: since then torch traces these checks itself
    if on_absent_gpu:
        _change(gm, _GROUP_NORM, _make_row_major)


def _change(gm: GraphModule, targets: Collection[Any], change: Callable[[Node], None]) -> None:
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        found = [n for n in module.graph.nodes if n.target in targets]
        for node in found:
            change(node)
        if found:
            module.recompile()


def _drop_idle(node: Node) -> None:
    """A dropout that drops nothing is its operand itself, as in eager.

    AOTAutograd would trace it as a copy, and a later in-place op would miss the tensor that eager writes to.
    """
    names = ("input", "p", "training" if node.target is torch.nn.functional.dropout else "train")
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    if len(node.all_input_nodes) != 1:
        return  # a probability that is known at run time only
    if given.get(names[2], True) is False or bool(given.get("p", 0.5) == 0):
        (operand,) = node.all_input_nodes
        node.replace_all_uses_with(operand)
        node.graph.erase_node(node)


def _check_classes(node: Node) -> None:
    """The classes of `F.one_hot` are checked as in eager; they are traced as comparisons that take any class."""
    given = dict(zip(("tensor", "num_classes"), node.args, strict=False)) | node.kwargs
    count = given.pop("num_classes", -1)
    (classes,) = given.values()
    checks: list[tuple[Any, Any, str]] = [(torch.ge, 0, "Class values must be non-negative.")]
    if count != -1:  # else as many as there are
        checks.append((torch.lt, count, "Class values must be smaller than num_classes."))
    graph = node.graph
    with graph.inserting_before(node):
        for compare, bound, message in checks:
            fits = graph.call_function(compare, (classes, bound))
            whole = graph.call_function(torch.all, (fits,))
            made = (fits, whole, graph.call_function(torch._assert_async, (whole, f"one_hot: {message}")))
            for new in made:
                new.meta["stack_trace"] = node.meta.get("stack_trace")


def _make_row_major(node: Node) -> None:
    """A GPU's group norm copies its operand to row-major, a CPU's takes channels-last as it is."""
    if node.args:
        with node.graph.inserting_before(node):
            node.update_arg(0, node.graph.call_method("contiguous", (node.args[0],)))
