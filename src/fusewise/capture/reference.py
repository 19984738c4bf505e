"""The FX graph run op by op: what a fallback runs, and what a result is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_map

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
# Ops whose result depends on the bits of their operand, not on its value.
_BITWISE = (torch.ops.aten.view.dtype,)


def boxed_eager(gm: GraphModule) -> Callable[[list[Any]], list[Any]]:
    """The graph as AOTAutograd calls it: takes a list of arguments, clears it, returns a list."""

    def run(arguments: list[Any]) -> list[Any]:
        taken = tuple(arguments)
        arguments.clear()
        return list(gm.forward(*taken))

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def written_inputs(gm: GraphModule) -> tuple[int, ...]:
    """Positions of the arguments that the graph writes to."""
    copies = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    targets = {node.args[0] for node in copies}
    return tuple(i for i, node in enumerate(gm.graph.find_nodes(op="placeholder")) if node in targets)


def with_own(gm: GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """The arguments with copies of those that the graph writes to, in the same strides."""
    written = written_inputs(gm)
    return [x.detach().clone() if i in written and isinstance(x, torch.Tensor) else x for i, x in enumerate(inputs)]


def has_collectives(gm: GraphModule) -> bool:
    """True where the graph talks to other processes."""
    return any(getattr(n.target, "namespace", "") == "_c10d_functional" for n in gm.graph.nodes)


def run_eagerly(gm: GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """The results of the graph's own ops on these arguments, to which it may write."""
    return list(gm.forward(*inputs))


def run_in_float64(gm: GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """The same graph with each floating tensor and each cast to a floating type in float64.

    An op that has no float64 kernel runs in the type that the graph gives it, and its result is widened. Arguments that
    the graph writes to are left as they are: their new values follow the results, in the order of `written_inputs`.
    """
    with torch.no_grad():
        wide = tree_map(_widen, with_own(gm, inputs))
        results = list(_Float64(gm).run(*wide))
        return [*results, *(wide[i] for i in written_inputs(gm))]


class _Float64(Interpreter):
    def run_node(self, n: Node) -> Any:
        if n.op == "get_attr":
            return _widen(super().run_node(n))
        if n.op != "call_function":
            return super().run_node(n)
        assert callable(n.target)
        if n.target not in _BITWISE and not _is_gpu_attention(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            try:
                wide = n.target(*tree_map(_widen_dtype, args), **tree_map(_widen_dtype, kwargs))
                return tree_map(_widen, wide)
            except (RuntimeError, NotImplementedError):
                pass  # no kernel for float64
        args, kwargs = map_arg((n.args, n.kwargs), lambda a: _as_captured(self.env[a], a.meta.get("val")))
        return tree_map(_widen, n.target(*args, **kwargs))


def _is_gpu_attention(node: Node) -> bool:
    """Fused attention on a GPU: some of its kernels take float64 without a word and give NaN."""
    name = str(node.target)
    return "attention" in name and "for_cpu" not in name


def _widen(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.dtype in _NARROW else value


def _widen_dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value


def _as_captured(value: Any, example: Any) -> Any:
    """`value` in the dtype that the graph's own tensor has."""
    if isinstance(value, torch.Tensor) and isinstance(example, torch.Tensor):
        return value.to(example.dtype)
    return value
