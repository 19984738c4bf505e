"""Splits the joint graph of forward and backward: what forward saves, and what backward computes again.

A minimum cut over the joint graph. Each value has a price for being saved and each op a price for running again in
backward, both in bytes of memory traffic; the cut with the least sum is taken. torch's partitioner then extracts the
two graphs: each value on the cut is tagged MUST_SAVE and each op that backward repeats MUST_RECOMPUTE, so that its
own heuristics have nothing left to decide.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy

from fusewise.capture.masked import skip_masked_softmax
from fusewise.capture.origin import target_name
from fusewise.capture.random import make_random_explicit
from fusewise.capture.schema import viewed_operand
from fusewise.capture.statistics import take_apart
from fusewise.capture.symbols import hint_of
from fusewise.capture.types import has_double
from fusewise.ir.expand import TABLE

# What a byte that stays allocated until backward costs beside the traffic, in bytes of traffic.
MEMORY_WEIGHT = 1.0
# The same for a graph's own inputs and outputs, which the caller often keeps alive anyway.
ALIVE_WEIGHT = 0.5
# Arithmetic of a repeated op, in bytes of traffic a byte of its result (pointwise) or of its operands (with a row's
# reduction): small, so that it decides only between cuts of about the same traffic.
POINTWISE_WEIGHT = 0.1
REDUCTION_WEIGHT = 0.5
# A saved input that the caller's own in-place op changes before backward is an error of autograd's: the last resort.
WRITTEN_WEIGHT = 1e6

# Ops in a row that backward repeats from one saved value.
LONGEST_CHAIN = 48

_RANDOM = ("fusewise.keep.default", "fusewise.uniform.default")
_REDUCING = ("softmax", "norm", "sum", "mean", "var", "std", "prod", "max", "min", "cumsum")
_KEEP_TAGS = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


def partition(
    joint: GraphModule,
    inputs: Sequence[Any],
    *,
    policy: str,
    num_fwd_outputs: int,
    on_gpu: bool | None = None,
    **kw: Any,
) -> tuple[GraphModule, GraphModule]:
    """Forward and backward graph for AOTAutograd's joint graph; a `partition_fn` but for `policy`.

    Random ops become explicit first. Recompute tags of the user's activation checkpointing are kept.

    Args:
        joint: changed in place.
        policy: decides which ops we expand, and so may repeat.
        num_fwd_outputs: how many of the joint graph's outputs are forward's.
        on_gpu: whether it is for a GPU; None: where its tensors are.
        kw: handed on to torch (`static_lifetime_input_indices` among them: parameters, which stay in memory anyway).
    """
    from torch._functorch.compile_utils import fx_graph_cse  # torch imports its other compiler with it

    make_random_explicit(joint)
    joint.graph.eliminate_dead_code()
    joint.graph = fx_graph_cse(joint.graph)
    if on_gpu is None:
        on_gpu = any(isinstance(i, torch.Tensor) and i.device.type != "cpu" for i in tree_leaves(inputs))
    if on_gpu and policy != "conservative":
        skip_masked_softmax(joint)  # a CPU's kernels read whole rows
    _save_between_checkpoints(joint)
    static = frozenset(kw.get("static_lifetime_input_indices") or ())
    plan = plan_saved(joint, policy, num_fwd_outputs, static)
    apart = [node for node in plan.repeated if take_apart(joint, node)]
    if apart:
        plan = plan_saved(joint, policy, num_fwd_outputs, static)
    milestones = _milestones(plan)
    if milestones:
        for node in milestones:
            _tag(node, CheckpointPolicy.MUST_SAVE)
        plan = plan_saved(joint, policy, num_fwd_outputs, static)
    for node in plan.saved:
        _tag(node, CheckpointPolicy.MUST_SAVE)
        if node.target is operator.getitem and isinstance(node.args[0], Node):
            _tag(node.args[0], CheckpointPolicy.MUST_SAVE)
    for node in plan.repeated:
        _tag(node, CheckpointPolicy.MUST_RECOMPUTE)
    with functorch_config.patch(cse=False):  # done above
        return torch_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **kw)


def torch_partition(joint: GraphModule, inputs: Sequence[Any], **kw: Any) -> tuple[GraphModule, GraphModule]:
    """torch's split, by tags and then by its own heuristics: its minimum cut, or all that backward reads."""
    from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

    for node in joint.graph.nodes:
        if node.op == "call_function" and target_name(node) in _RANDOM:
            _tag(node, CheckpointPolicy.MUST_RECOMPUTE)
    split: tuple[GraphModule, GraphModule]
    try:
        split = min_cut_rematerialization_partition(joint, inputs, **kw)
    except Exception:
        split = default_partition(joint, inputs, **kw)
    return split


@dataclass(frozen=True, slots=True)
class Plan:
    """Which nodes of a joint graph forward saves, and which of forward's ops backward runs again."""

    saved: tuple[Node, ...]
    repeated: tuple[Node, ...]

    def saved_bytes(self) -> int:
        """Bytes of the saved tensors, by the sizes at capture."""
        return sum(map(bytes_of, self.saved))


def plan_saved(joint: GraphModule, policy: str, num_fwd_outputs: int, static: frozenset[int]) -> Plan:
    """The cheapest plan.

    Args:
        static: positions among forward's inputs of parameters and buffers.

    Raises:
        networkx.NetworkXUnbounded: a value can be neither saved nor computed again.
    """
    import networkx as nx  # type: ignore[import-untyped]  # here: inference never needs it

    side = _Sides(joint, num_fwd_outputs)
    prices = _Prices(side, policy, static)
    flow = nx.DiGraph()
    flow.add_nodes_from(("source", "sink"))
    for node in side.shared:
        into, out = (node, "in"), (node, "out")
        save, repeat = prices.save(node), prices.repeat(node)
        # networkx takes an edge without a capacity as endless
        flow.add_edge(into, out, **({} if save is None else {"capacity": save}))
        flow.add_edge("source", into, **({} if repeat is None else {"capacity": repeat}))
        if node.meta.get("recompute") in _KEEP_TAGS:
            flow.add_edge(into, "sink")
        if node in side.read_by_backward:
            flow.add_edge(out, "sink")
        for user in node.users:
            if user in side.shared:
                flow.add_edge(out, (user, "in"))
    _, (forward_side, _) = nx.minimum_cut(flow, "source", "sink")
    saved: dict[Node, None] = {}
    repeated: dict[Node, None] = {}
    stack = list(side.read_by_backward)
    while stack:
        node = stack.pop()
        if node in saved or node in repeated:
            continue
        if (node, "in") in forward_side:
            saved[node] = None
        else:
            repeated[node] = None
            stack.extend(node.all_input_nodes)
    order = {n: i for i, n in enumerate(joint.graph.nodes)}
    return Plan(tuple(sorted(saved, key=order.__getitem__)), tuple(sorted(repeated, key=order.__getitem__)))


def bytes_of(node: Node) -> int:
    """Bytes of a node's tensor by the sizes at capture; 8 for a size, 0 for a tuple."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return max(1, hint_of(value.numel())) * value.dtype.itemsize
    return 0 if isinstance(value, (tuple, list)) else 8


class _Sides:
    """Which nodes belong where.

    Attributes:
        forward: nodes that a forward output needs.
        backward: nodes that depend on a tangent.
        shared: all others that compute or enter: a cut runs through these.
        read_by_backward: shared nodes that a backward node or a backward output reads.
        written: inputs that are written to after forward: what is saved must not be one of these.
        results: nodes that are forward outputs.
    """

    def __init__(self, joint: GraphModule, num_fwd_outputs: int) -> None:
        nodes = list(joint.graph.nodes)
        (output,) = joint.graph.find_nodes(op="output")
        leaves = [leaf for leaf in _leaves(output.args[0]) if leaf is None or isinstance(leaf, Node)]
        results = [n for n in leaves[:num_fwd_outputs] if n is not None]
        gradients = [n for n in leaves[num_fwd_outputs:] if n is not None]
        self.order = {n: i for i, n in enumerate(nodes)}
        self.results = frozenset(results)
        self.backward: set[Node] = set()
        for node in nodes:
            tangent = node.op == "placeholder" and "tangents" in str(node.target)
            if tangent or any(a in self.backward for a in node.all_input_nodes):
                self.backward.add(node)
        self.backward.discard(output)
        self.forward = _ancestors([*results, *(n for n in _copies(joint) if n not in self.backward)])
        self.shared = {n: None for n in nodes if n not in self.backward and n is not output}
        read = [a for n in nodes if n in self.backward for a in n.all_input_nodes]
        self.read_by_backward = {n: None for n in [*read, *gradients] if n in self.shared}
        self.written = _written_inputs(joint, output)
        self.primals = [n for n in nodes if n.op == "placeholder" and n not in self.backward]


class _Prices:
    """What saving a value and repeating an op costs; None where it cannot be done."""

    def __init__(self, side: _Sides, policy: str, static: frozenset[int]) -> None:
        self.side = side
        self.policy = policy
        self.static = frozenset(n for i, n in enumerate(side.primals) if i in static)

    def save(self, node: Node) -> float | None:
        """One read in backward, one write in forward where it is not stored anyway, and the memory."""
        value = node.meta.get("val")
        if isinstance(value, (tuple, list, torch.SymFloat, torch.SymBool)) or target_name(node) in _RANDOM:
            return None
        if node in self.side.written:
            return WRITTEN_WEIGHT * bytes_of(node)
        if node in self.static:
            return float(bytes_of(node))  # it stays in memory anyway
        if not isinstance(value, torch.Tensor):
            return 8.0
        alive = node.op == "placeholder" or node in self.side.results
        weight = 1 + (ALIVE_WEIGHT if alive else MEMORY_WEIGHT) + (0 if self._is_stored(node) else 1)
        return weight * bytes_of(node)

    def repeat(self, node: Node) -> float | None:
        """The arithmetic, and one write in backward where a PyTorch op must read the result there."""
        if node.op == "placeholder" or node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE:
            return None
        if node.meta.get("recompute") in _KEEP_TAGS:
            return 0.0  # the user's own choice
        if node not in self.side.forward or node.op == "get_attr":
            return 0.0  # it runs once, wherever that is
        if node.target is operator.getitem or viewed_operand(node) is not None:
            return 0.0
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
            return 0.0
        if not self.is_fusible(node):
            return None
        results = [leaf for leaf in _leaves(value) if isinstance(leaf, torch.Tensor)]
        size = sum(hint_of(leaf.numel()) * leaf.dtype.itemsize for leaf in results)
        price = POINTWISE_WEIGHT * size
        if any(part in target_name(node) for part in _REDUCING):
            price += REDUCTION_WEIGHT * sum(map(bytes_of, node.all_input_nodes))
        if self._feeds_wall(node, self.side.backward):
            price += size
        return price

    def is_fusible(self, node: Node) -> bool:
        """True for an op that we expand, so that it needs no memory of its own."""
        name = target_name(node)
        if node.target is operator.getitem:
            return isinstance(node.args[0], Node) and self.is_fusible(node.args[0])
        if name in _RANDOM or viewed_operand(node) is not None:
            return True
        row = TABLE.get(name)
        if row is None:
            return False
        value = node.meta.get("val")
        first = next((leaf for leaf in _leaves(value) if isinstance(leaf, torch.Tensor)), None)
        if self.policy != "conservative":
            return True
        return first is not None and row.is_exact_on(first.device.type, has_double(value))

    def _is_stored(self, node: Node) -> bool:
        """True where forward has the value in memory anyway."""
        if node.op in ("placeholder", "get_attr") or node in self.side.results:
            return True
        viewed = viewed_operand(node)
        if viewed is not None:
            return self._is_stored(viewed)
        return not self.is_fusible(node) or self._feeds_wall(node, self.side.forward) or self._crosses_wall(node)

    def _feeds_wall(self, node: Node, within: Iterable[Node]) -> bool:
        """True where a PyTorch op among `within` reads the value, or a view of it."""
        stack, seen = list(node.users), set()
        while stack:
            user = stack.pop()
            if user in seen or user.op != "call_function":
                continue
            seen.add(user)
            if user in within and not self.is_fusible(user):
                return True
            if viewed_operand(user) is not None or user.target is operator.getitem:
                stack.extend(user.users)
        return False

    def _crosses_wall(self, node: Node) -> bool:
        """True where one reader of the value depends, through a PyTorch op, on another reader of it."""
        readers = [u for u in node.users if u in self.side.forward and u.op == "call_function"]
        if len(readers) < 2:
            return False
        last = max(self.side.order[u] for u in readers)
        behind: set[Node] = set()
        reached = {node}
        stack = [(u, not self.is_fusible(u)) for u in readers]
        while stack:
            user, walled = stack.pop()
            if user in (behind if walled else reached) or self.side.order[user] > last:
                continue
            (behind if walled else reached).add(user)
            stack.extend(
                (after, walled or not self.is_fusible(after)) for after in user.users if after in self.side.forward
            )
        # a wall that reads the value itself is no reason: what comes behind it is
        return any(u in behind and any(a in behind for a in u.all_input_nodes) for u in readers)


def _written_inputs(joint: GraphModule, output: Node) -> frozenset[Node]:
    """Inputs that are written to: behind forward, by the descriptors that AOTAutograd leaves, or in the graph."""
    descriptors = [d for d in _leaves(output.meta.get("desc")) if hasattr(d, "mutated_input")]
    written = [d.mutated_input for d in descriptors]
    behind = [n for n in joint.graph.find_nodes(op="placeholder") if n.meta.get("desc") in written]
    return frozenset([*behind, *(n.args[0] for n in _copies(joint))])


def _copies(joint: GraphModule) -> list[Node]:
    """The writes to arguments that AOTAutograd leaves at the end of the graph."""
    return list(joint.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default))


def _save_between_checkpoints(joint: GraphModule) -> None:
    """What a checkpointed block hands to the next one is saved: without that, backward would repeat both at once."""
    for node in joint.graph.nodes:
        block = node.meta.get("ac_graph_id")
        if block is not None and node.meta.get("recompute") in _KEEP_TAGS:
            later = [u for u in node.users if u.meta.get("recompute") in _KEEP_TAGS]
            if any(u.meta.get("ac_graph_id", block) > block for u in later):
                node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _ancestors(roots: Iterable[Node]) -> set[Node]:
    found: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.all_input_nodes)
    return found


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


def _milestones(plan: Plan) -> list[Node]:
    """Repeated values, each `LONGEST_CHAIN` ops behind the last: backward reads a chain from its end, so that every
    value of it waits in a register until its turn."""
    depth: dict[Node, int] = {}
    found: list[Node] = []
    for node in plan.repeated:
        before = max((depth.get(a, 0) for a in node.all_input_nodes), default=0)
        is_op = node.target is not operator.getitem and viewed_operand(node) is None
        depth[node] = before + is_op
        if depth[node] >= LONGEST_CHAIN and isinstance(node.meta.get("val"), torch.Tensor):
            found.append(node)
            depth[node] = 0
    return found


def _tag(node: Node, policy: CheckpointPolicy) -> None:
    """Tags a computed node, where the user's own checkpointing has not."""
    if node.op == "call_function":
        node.meta.setdefault("recompute", policy)
