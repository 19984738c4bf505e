"""Checks of data that eager makes and PyTorch's tracing leaves out: written into Dynamo's graph, before AOTAutograd."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import DispatchKey
from torch.fx import GraphModule, Node

aten = torch.ops.aten
_ONE_HOT = (torch.nn.functional.one_hot, aten.one_hot.default)


def check_classes(gm: GraphModule) -> None:
    """In Dynamo's graph: the classes of `F.one_hot` are checked as in eager.

    Up to torch 2.11 it is traced as comparisons that take any class; since then torch traces these checks itself.
    """
    if DispatchKey.CompositeImplicitAutograd in aten.one_hot.default.py_kernels:
        return
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        found = [n for n in module.graph.nodes if n.target in _ONE_HOT]
        for node in found:
            _check(node)
        if found:
            module.recompile()


def _check(node: Node) -> None:
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
