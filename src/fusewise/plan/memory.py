"""Peak memory: the most bytes that a plan keeps alive at once, beside what eager keeps.

A fusion may make a value wait for what it is fused with: ten products added up by one kernel are all alive at once,
where eager adds each to the sum and frees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusewise.ir.graph import Graph
from fusewise.plan.cost import value_bytes


def peak_bytes(graph: Graph, steps: Sequence[tuple[Iterable[int], Iterable[int]]], outputs: Iterable[int]) -> int:
    """Greatest bytes alive while the steps run, by the hints: inputs until their last use, outputs to the end.

    Args:
        steps: the values that each step reads, and those that it makes.
        outputs: values that stay.
    """
    hints = graph.hints()
    kept = set(outputs)
    last: dict[int, int] = {}
    for number, (reads, makes) in enumerate(steps):
        last.update(dict.fromkeys((*reads, *makes), number))
    ends: dict[int, list[int]] = {}
    for value, number in last.items():
        if value not in kept:
            ends.setdefault(number, []).append(value)
    alive = peak = sum(value_bytes(graph, i, hints) for i in graph.inputs)
    for number, (_, makes) in enumerate(steps):
        alive += sum(value_bytes(graph, v, hints) for v in makes)
        peak = max(peak, alive)
        alive -= sum(value_bytes(graph, v, hints) for v in ends.get(number, ()))
    return peak


def allowed_bytes(graph: Graph) -> float:
    """Peak memory from which on a fusion is not worth it: a little more than eager's."""
    return _SLACK * eager_peak_bytes(graph) + _SLACK_BYTES


_SLACK, _SLACK_BYTES = 1.03, 1 << 20


def eager_peak_bytes(graph: Graph) -> int:
    """The same where each PyTorch op runs by itself, in the order of the program.

    The nodes of one op share their origin; only what leaves it is a tensor.
    """
    users = graph.users()

    def group(value: int) -> int:
        node = graph[value]
        return id(node.origin) if node.origin.aten else -1 - value

    def leaves(value: int) -> bool:
        stack = [value]
        while stack:
            for user in users[stack.pop()]:
                if graph[user].info.group == "view":
                    stack.append(user)
                elif group(user) != group(value):
                    return True
        return False

    # what is written to an argument takes no memory of its own
    outputs = {graph.root(o) for position, o in enumerate(graph.outputs) if position not in graph.writes}
    tensors = set(graph.inputs)
    # an op holds what it reads until it is done, so its nodes are one step
    reads: dict[int, list[int]] = {}
    makes: dict[int, list[int]] = {}
    for node in graph:
        if node.info.group in ("view", "source"):
            continue
        if node.op != "opaque" and (node.id in outputs or node.op == "result" or leaves(node.id)):
            tensors.add(node.id)
            makes.setdefault(group(node.id), []).append(node.id)
        reads.setdefault(group(node.id), []).extend(r for a in node.args if (r := graph.root(a)) in tensors)
    return peak_bytes(graph, [(reads[g], makes.get(g, ())) for g in reads], outputs)
