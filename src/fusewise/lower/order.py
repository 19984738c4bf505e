"""Orders the instructions of a kernel so that few values are alive at once.

The lowering writes depth first, output by output, which is good for trees and poor for outputs that share many values.
Here the instruction that frees most goes first; what it then frees makes others cheap. The order is taken only where
fewer values are alive at the worst place, so that kernels that are good as they are stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusewise.lower.body import Body, reordered
from fusewise.lower.kernel import Buffer, Check, Const, IndexOf, Instr, Load, SizeOf, Store, operands

_SMALL = 12  # values alive up to which no thread runs out of registers


def order_values(body: Body) -> Body:
    """The body with its instructions in the order in which least is alive at once."""
    before = most_alive(body.instrs)
    if before <= _SMALL:
        return body
    found = reordered(body, _greedy(body.instrs))
    return found if most_alive(found.instrs) < before else body


def write_over(body: Body, over: Mapping[int, int]) -> Body:
    """The body with each store to the memory of an input behind the loads of that input.

    Args:
        over: for each value that is stored so the input.
    """
    buffers = tuple(replace(b, over=over[b.node]) if b.role == "out" and b.node in over else b for b in body.buffers)
    last = {buffers[i.buffer].node: n for n, i in enumerate(body.instrs) if isinstance(i, Load)}

    def place(number: int) -> tuple[int, bool]:
        instr = body.instrs[number]
        target = buffers[instr.buffer].over if isinstance(instr, Store) else None
        return (number, False) if target is None else (max(number, last.get(target, 0)), True)

    return reordered(replace(body, buffers=buffers), sorted(range(len(body.instrs)), key=place))


def written_over(body: Body) -> frozenset[int]:
    """Stores to the memory of inputs."""
    return frozenset(n for n, instr in enumerate(body.instrs) if _is_over(instr, body.buffers))


def _is_over(instr: Instr, buffers: Sequence[Buffer]) -> bool:
    return isinstance(instr, Store) and buffers[instr.buffer].over is not None


def most_alive(instrs: Sequence[Instr]) -> int:
    """Greatest number of values alive at once; numbers and positions are made where they are needed."""
    last: dict[int, int] = {}
    for number, instr in enumerate(instrs):
        last.update(dict.fromkeys(operands(instr), number))
    ends: dict[int, int] = {}
    alive = peak = 0
    for number, instr in enumerate(instrs):
        if number in last and not _is_free(instr):
            alive += 1
            ends[last[number]] = ends.get(last[number], 0) + 1
        peak = max(peak, alive)
        alive -= ends.pop(number, 0)
    return peak


def _greedy(instrs: Sequence[Instr]) -> list[int]:
    users: list[set[int]] = [set() for _ in instrs]
    waiting: list[int] = []
    for number, instr in enumerate(instrs):
        needs = set(operands(instr))
        waiting.append(len(needs))
        for operand in needs:
            users[operand].add(number)
    unread = [len(u) for u in users]
    ready = {n for n, count in enumerate(waiting) if not count}
    order: list[int] = []

    def growth(number: int) -> tuple[int, int, int]:
        """(values more alive, values of its users that are then still missing, place in the program)."""
        needs = set(operands(instrs[number]))
        freed = sum(unread[o] == 1 and not _is_free(instrs[o]) for o in needs)
        made = bool(users[number]) and not _is_free(instrs[number])
        missing = min((waiting[u] for u in users[number]), default=0)
        return made - freed, missing, number

    while ready:
        chosen = min(ready, key=growth)
        ready.remove(chosen)
        order.append(chosen)
        for operand in set(operands(instrs[chosen])):
            unread[operand] -= 1
        for user in users[chosen]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.add(user)
    return order


def _is_free(instr: Instr) -> bool:
    return isinstance(instr, Const | SizeOf | IndexOf | Store | Check)
