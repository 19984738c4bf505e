"""Order of execution of a kernel: which loop over the row computes what, and what stays on chip between loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusewise.ir.ops import OPS
from fusewise.lower.kernel import Check, Compute, Instr, Pass, Random, Reduce, Store, operands

Carry = Callable[[int], bool]


def make_passes(
    body: Sequence[Instr], is_element: Sequence[bool], carry: Carry
) -> tuple[tuple[int, ...], tuple[Pass, ...], frozenset[int]]:
    """(before, passes, carried) for instructions in SSA order.

    Args:
        is_element: for each instruction, whether it runs inside the loop over the row.
        carry: asked for an element value that a later pass needs again: True keeps it on chip, False computes it again.
    """
    ready = _ready(body, is_element)
    rows: dict[int, list[int]] = {}
    roots: dict[int, list[int]] = {}
    for number, instr in enumerate(body):
        if isinstance(instr, Reduce):
            roots.setdefault(ready[instr.arg], []).append(number)
        elif not is_element[number]:
            rows.setdefault(ready[number], []).append(number)
        elif isinstance(instr, (Store, Check)):
            roots.setdefault(ready[number], []).append(number)
    count = max((k + 1 for k in roots), default=0)
    passes: list[Pass] = []
    computed: set[int] = set()
    carried: set[int] = set()
    for k in range(count):
        feeds = [n for n in roots.get(k, []) if isinstance(body[n], Reduce)]
        elem: set[int] = set()
        stack = list(roots.get(k, []))
        while stack:
            number = stack.pop()
            if number in elem:
                continue
            if number in carried or (number in computed and carry(number)):
                carried.add(number)
                continue
            if not isinstance(body[number], Reduce):
                elem.add(number)
            elif number not in feeds:
                continue
            stack.extend(o for o in operands(body[number]) if is_element[o])
        passes.append(Pass(tuple(sorted(elem)), tuple(feeds), tuple(rows.get(k + 1, []))))
        computed |= elem
    return tuple(rows.get(0, [])), tuple(passes), frozenset(carried)


def recompute_cost(body: Sequence[Instr], is_element: Sequence[bool]) -> list[float]:
    """Arithmetic an element to compute each element value again from its loads (from `ir.ops`)."""
    costs: list[float] = []
    closures: list[frozenset[int]] = []
    for number, instr in enumerate(body):
        own: frozenset[int] = frozenset()
        if is_element[number] and not isinstance(instr, Reduce):
            own = frozenset({number}).union(*(closures[o] for o in operands(instr) if is_element[o]))
        closures.append(own)
        costs.append(sum(_cost(body[n]) for n in own))
    return costs


def _cost(instr: Instr) -> float:
    if isinstance(instr, Compute):
        return OPS[instr.op].cost
    return OPS[instr.kind].cost if isinstance(instr, Random) else 0.5


def _ready(body: Sequence[Instr], is_element: Sequence[bool]) -> list[int]:
    """For an element value the first pass that can compute it; for a row value the pass before which it is known."""
    ready: list[int] = []
    for instr in body:
        latest = max((ready[o] for o in operands(instr)), default=0)
        ready.append(latest + 1 if isinstance(instr, Reduce) else latest)
    return ready
