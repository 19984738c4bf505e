"""Bytes that eager PyTorch moves for what a plan fuses: a kernel an ATen op, each operand read, each result written."""

from __future__ import annotations

from collections.abc import Mapping

from fusewise.ir.graph import Graph
from fusewise.plan.cost import value_bytes


def unfused_bytes(graph: Graph, owner: Mapping[int, int]) -> dict[int, int]:
    """Bytes by kernel, by the hints.

    An op that became several nodes counts once, in the kernel that finishes it; one whose nodes are computed again in
    their readers counts in the first of these. What a backward graph repeats of forward counts nowhere: eager saved it.

    Args:
        owner: the kernel that computes each native node.
    """
    hints = graph.hints()
    users = graph.users()
    roots = {graph.root(o) for o in graph.outputs}
    written = {graph.outputs[o] for o in graph.writes}
    groups: dict[object, set[int]] = {}
    for node in graph:
        if node.info.group not in ("view", "opaque", "source") and not node.origin.repeated:
            groups.setdefault(node.origin.call or node.id, set()).add(node.id)
    total: dict[int, int] = dict.fromkeys(owner.values(), 0)
    for group in groups.values():
        kernel = _kernel_of(group, owner, users)
        if kernel is None:
            continue
        reads = {graph.root(a) for n in group for a in graph[n].args} - group
        total[kernel] += sum(
            value_bytes(graph, r, hints) for r in reads if graph[r].op not in ("const", "size", "iota")
        )
        made = {n for n in group if n in roots or not _real_users(graph, users, n) <= group}
        # an op that changes its argument writes it once, however many read the result
        made -= {n for n in made & written if graph[n].op == "copy" and graph.root(graph[n].args[0]) in made}
        total[kernel] += sum(value_bytes(graph, n, hints) for n in made)
    return total


def _real_users(graph: Graph, users: tuple[tuple[int, ...], ...], node: int) -> set[int]:
    """Readers of a value, those through views included."""
    found: set[int] = set()
    stack = list(users[node])
    while stack:
        user = stack.pop()
        if graph[user].info.group == "view":
            stack.extend(users[user])
        else:
            found.add(user)
    return found


def _kernel_of(group: set[int], owner: Mapping[int, int], users: tuple[tuple[int, ...], ...]) -> int | None:
    owned = [n for n in group if n in owner]
    if owned:
        return owner[max(owned)]
    waiting, seen = sorted(group), set(group)
    for node in waiting:
        for user in users[node]:
            if user in owner:
                return owner[user]
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return None
