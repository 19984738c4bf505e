"""torch's own decomposition of an op, for ops that the table does not hold but whose pieces it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from fusewise.capture.origin import target_name
from fusewise.ir.expand import TABLE

aten = torch.ops.aten

# Whole, the vendor's kernels run these; in pieces they would be slower.
_WHOLE = frozenset(
    f"aten.{name}"
    for name in (
        "addmm.default",
        "addmv.default",
        "baddbmm.default",
        "bmm.default",
        "dot.default",
        "mm.default",
        "mv.default",
        "convolution.default",
        "convolution_backward.default",
    )
)


def pieces_of(node: Node) -> GraphModule | None:
    """A graph of ops that the table holds, equal to the call; None where torch has none.

    Its placeholders are the call's tensors in the order of `node.all_input_nodes`, 16-bit floats as float32: the pieces
    must not round where the whole op's kernel does not. Calls on symbolic sizes are left alone: a decomposition is
    Python code that may ask for sizes, and each such question is a guard.
    """
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target_name(node) in _WHOLE or target not in _table():
        return None
    operands = [n.meta.get("val") for n in node.all_input_nodes]
    mode = detect_fake_mode(operands)
    if mode is None or not all(_is_static(o) for o in [*operands, node.meta.get("val")]):
        return None

    def call(*tensors: Any) -> Any:
        given = dict(zip(node.all_input_nodes, tensors, strict=True))
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: given[n])
        return _table()[target](*args, **kwargs)

    try:
        with mode:
            wide = [_widen(o) for o in operands]
            graph = make_fx(call, decomposition_table=dict(_table()))(*wide)
    except Exception:
        # a decomposition that cannot serve this call: the op runs whole
        return None
    calls = [n for n in graph.graph.nodes if n.op == "call_function" and target_name(n) != "getitem"]
    if any(target_name(n) not in TABLE for n in calls) or graph.graph.find_nodes(op="get_attr"):
        return None
    return graph


@lru_cache(maxsize=1)
def _table() -> Mapping[Any, Callable[..., Any]]:
    """torch's decompositions of what the table does not hold."""
    from torch._decomp import decomposition_table

    table = {op: rule for op, rule in decomposition_table.items() if str(op) not in TABLE}
    for name in _FOREACH:
        packet = getattr(aten, f"_foreach_{name}")
        table.update({getattr(packet, overload): _for_each(name) for overload in packet.overloads()})
    return table


# An optimiser's ops on lists of tensors, by the op that each applies to every tensor.
_FOREACH = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "log"),
    *("log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt"),
    *("tan", "tanh", "trunc", "add", "sub", "mul", "div", "pow", "lerp", "clamp_min", "clamp_max", "maximum"),
    *("minimum", "addcmul", "addcdiv", "norm"),
)


def _for_each(name: str) -> Callable[..., list[torch.Tensor]]:
    """One op for each tensor of the lists; what is no list goes to every one of them."""
    op = getattr(aten, {"norm": "linalg_vector_norm"}.get(name, name))
    by_number = {"maximum": aten.clamp_min, "minimum": aten.clamp_max}.get(name)

    def rule(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        made = []
        for i in range(len(next(a for a in args if isinstance(a, (list, tuple))))):
            items = [a[i] if isinstance(a, (list, tuple)) else a for a in args]
            if name in ("addcmul", "addcdiv") and len(items) == 4:
                made.append(op(*items[:3], value=items[3]))
            elif by_number is not None and not isinstance(items[1], torch.Tensor):
                made.append(by_number(*items))
            else:
                made.append(op(*items, **kwargs))
        return made

    return rule


def _widen(value: Any) -> Any:
    is_half = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.to(torch.float32) if is_half else value


def _is_static(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return all(isinstance(s, int) for s in (*value.shape, *value.stride()))
    if isinstance(value, (tuple, list)):
        return all(map(_is_static, value))
    return value is None
