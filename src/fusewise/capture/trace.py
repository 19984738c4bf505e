"""Everything that torch.compile would hand us for one call, without running it on data."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map

from fusewise.capture.dynamo import as_in_eager
from fusewise.capture.partition import partition
from fusewise.capture.random import make_random_explicit
from fusewise.capture.symbols import hint_of
from fusewise.errors import UsageError

aten = torch.ops.aten


class Traced(NamedTuple):
    """One graph of ATen ops, as a compiler gets it.

    Attributes:
        gm: the FX graph; fake results in `meta["val"]`.
        example_inputs: its arguments, as fake tensors and sizes.
        role: `forward`, `backward` or `inference`.
    """

    gm: GraphModule
    example_inputs: Sequence[Any]
    role: str


def trace_fn(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    device: str | None = None,
    policy: str = "balanced",
    dynamic: bool | None = None,
) -> list[Traced]:
    """The graphs of one call of `fn`, and of its backward where a result requires grad.

    No data is read or allocated: tensors become fake ones first. Graphs come in the order in which they are compiled:
    those before and after a graph break, then the backward graphs.

    Args:
        fn: a function or module.
        args, kwargs: what it is called with; tensors of the meta device stand for ones on the CPU.
        device: `cuda` for a GPU that is absent: the call is traced on the CPU, and what a GPU would do otherwise is
            corrected (`_RETARGETED`). Autograd on fake CUDA tensors ends a process whose torch has no CUDA.
        policy: decides what backward computes again.
        dynamic: as in torch.compile.

    Raises:
        UsageError: the call branches on a tensor's data.
    """
    found: list[Traced] = []
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    retarget = device is not None and not device.startswith("cpu")

    def compiler(role: str) -> Callable[[GraphModule, Sequence[Any]], Callable[[list[Any]], list[Any]]]:
        def compile_graph(gm: GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
            if role == "inference":
                make_random_explicit(gm)
                if retarget:
                    _retarget(gm)
            found.append(Traced(gm, inputs, role))
            return _pretender(gm)

        return compile_graph

    def split(joint: GraphModule, inputs: Sequence[Any], **kw: Any) -> tuple[GraphModule, GraphModule]:
        if retarget:
            _retarget(joint)
        return partition(joint, inputs, policy=policy, on_gpu=retarget or None, **kw)

    def entry(*a: Any, **k: Any) -> Any:
        return fn(*a, **k)

    # Code of its own under a name of its own: the user's compiled functions keep their caches, and Dynamo does not
    # take the sizes of two traces for one that varies.
    code = entry.__code__.replace(co_name=f"entry_{next(_numbers)}")
    fresh = FunctionType(code, entry.__globals__, code.co_name, None, entry.__closure__)
    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=split,
        decompositions={},
        keep_inference_input_mutations=True,
    )

    def compile_fn(gm: GraphModule, inputs: Sequence[Any]) -> Any:
        as_in_eager(gm, on_absent_gpu=retarget)
        return backend(gm, inputs)

    with mode, torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        given, named = tree_map(lambda leaf: _fake(mode, leaf), (list(args), dict(kwargs or {})))
        try:
            result = torch.compile(fresh, backend=compile_fn, dynamic=dynamic)(*given, **named)
        except DataDependentOutputException as cause:
            raise UsageError(
                f"the way through the function depends on data: {cause.func}{_users_line(cause)}.",
                "Without data it cannot be followed: move that test out of the function.",
            ) from None
        _trace_backward(result)
    return found


def _users_line(cause: BaseException) -> str:
    """For example ` at model.py:12`: the innermost frame that is neither torch's nor ours; empty: none is."""
    others = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
    frames = [f for f in traceback.extract_tb(cause.__traceback__) if not f.filename.startswith(others)]
    found = next((f for f in reversed(frames) if Path(f.filename).is_file()), None)
    return f" at {Path(found.filename).name}:{found.lineno}" if found else ""


_numbers = count()


def _fake(mode: FakeTensorMode, leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.device.type == "meta":
        made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="cpu")
        return made.requires_grad_(leaf.requires_grad)
    return mode.from_tensor(leaf, static_shapes=True)


def _pretender(gm: GraphModule) -> Callable[[list[Any]], list[Any]]:
    """A compiled graph that returns fake results of the right form."""
    (output,) = gm.graph.find_nodes(op="output")

    def run(arguments: list[Any]) -> list[Any]:
        arguments.clear()
        return [_stand_in(leaf) for leaf in output.args[0]]

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _stand_in(leaf: Any) -> Any:
    value = leaf.meta.get("val") if isinstance(leaf, Node) else leaf
    if isinstance(value, torch.SymInt):
        return hint_of(value)
    if not isinstance(value, torch.Tensor):
        return value
    shape, strides = [hint_of(s) for s in value.shape], [hint_of(s) for s in value.stride()]
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)


def _trace_backward(result: Any) -> None:
    """Runs autograd from every result that requires grad, to the leaves that it depends on."""
    roots = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad and t.grad_fn]
    leaves: list[torch.Tensor] = []
    seen: set[Any] = set()
    stack = [t.grad_fn for t in roots]
    while stack:
        function = stack.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        variable = getattr(function, "variable", None)
        if variable is not None:
            leaves.append(variable)
        stack.extend(before for before, _ in function.next_functions)
    if leaves:
        # gradients are returned, not accumulated: the user's parameters stay as they are
        torch.autograd.grad(roots, leaves, [torch.empty_like(t) for t in roots], allow_unused=True)


def _statistics_in_float32(node: Node) -> None:
    """A CPU saves the statistics of a 16-bit layer norm in 16 bits, a GPU in float32."""
    out, *statistics = node.meta["val"]
    node.meta["val"] = (out, *(s.to(torch.float32) if s.dtype.itemsize == 2 else s for s in statistics))
    for user in node.users:
        index: Any = user.args[1]
        user.meta["val"] = node.meta["val"][index]


# What a GPU's kernels return otherwise than a CPU's, by op.
_RETARGETED: dict[Any, Callable[[Node], None]] = {
    aten.native_layer_norm.default: _statistics_in_float32,
}


def _retarget(gm: GraphModule) -> None:
    for node in gm.graph.nodes:
        rule = _RETARGETED.get(node.target)
        if rule is not None:
            rule(node)
