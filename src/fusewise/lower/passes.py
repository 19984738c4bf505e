"""Order of execution of a kernel: which loop over the row computes what, and what stays on chip between loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from fusewise.ir.ops import OPS
from fusewise.lower.kernel import Check, Compute, Instr, Pass, Random, Reduce, Store, operands

Carry = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Order:
    """Order of execution: the fields of `Kernel` of the same names."""

    before: tuple[int, ...]
    passes: tuple[Pass, ...]
    carried: frozenset[int]
    final: tuple[int, ...]


def make_passes(
    body: Sequence[Instr], is_element: Sequence[bool], carry: Carry, at_end: Set[int] = frozenset()
) -> Order:
    """The order of instructions that are in SSA order.

    Args:
        is_element: for each instruction, whether it varies along the row.
        carry: asked for an element value that a later pass needs again: True keeps it on chip, False computes it again.
        at_end: stores over what earlier passes read: they stand in the last pass.
    """
    ready = _ready(body, is_element)
    is_final = _after_the_loop(body)
    rows: dict[int, list[int]] = {}
    roots: dict[int, list[int]] = {}
    for number, instr in enumerate(body):
        if is_final[number]:
            continue
        if isinstance(instr, Reduce):
            roots.setdefault(ready[instr.arg], []).append(number)
        elif not is_element[number]:
            rows.setdefault(ready[number], []).append(number)
        elif isinstance(instr, (Store, Check)) and number not in at_end:
            roots.setdefault(ready[number], []).append(number)
    writes = [n for n in at_end if is_element[n] and not is_final[n]]
    if writes:
        last = max([*roots, *(ready[n] for n in writes)])
        roots.setdefault(last, []).extend(sorted(writes))
    count = max((k + 1 for k in roots), default=0)
    passes: list[Pass] = []
    computed: set[int] = set()
    carried: set[int] = set()
    for k in range(count):
        feeds = [n for n in roots.get(k, []) if _is_row_reduction(body[n])]
        elem: set[int] = set()
        stack = list(roots.get(k, []))
        while stack:
            number = stack.pop()
            if number in elem:
                continue
            if number in carried or (number in computed and carry(number)):
                carried.add(number)
                continue
            if not _is_row_reduction(body[number]):
                elem.add(number)
            stack.extend(o for o in operands(body[number]) if is_element[o] and not _is_row_reduction(body[o]))
        passes.append(Pass(tuple(sorted(elem)), tuple(feeds), tuple(rows.get(k + 1, []))))
        computed |= elem
    return Order(tuple(rows.get(0, [])), tuple(passes), frozenset(carried), _final(body, is_element, is_final))


def recompute_cost(body: Sequence[Instr], is_element: Sequence[bool], number: int, kept: Set[int]) -> float:
    """Arithmetic an element to compute an element value again from its loads and from what is kept (from `ir.ops`)."""
    total = 0.0
    seen: set[int] = set()
    stack = [number]
    while stack:
        at = stack.pop()
        if at in seen or not is_element[at] or isinstance(body[at], Reduce) or (at in kept and at != number):
            continue
        seen.add(at)
        total += _cost(body[at])
        stack.extend(operands(body[at]))
    return total


def _cost(instr: Instr) -> float:
    if isinstance(instr, Compute):
        return OPS[instr.op].cost
    return OPS[instr.kind].cost if isinstance(instr, Random) else 0.5


def _is_row_reduction(instr: Instr) -> bool:
    return isinstance(instr, Reduce) and not instr.over_loop


def _ready(body: Sequence[Instr], is_element: Sequence[bool]) -> list[int]:
    """For an element value the first pass that can compute it; for a row value the pass before which it is known."""
    ready: list[int] = []
    for instr in body:
        latest = max((ready[o] for o in operands(instr)), default=0)
        ready.append(latest + 1 if _is_row_reduction(instr) else latest)
    return ready


def _after_the_loop(body: Sequence[Instr]) -> list[bool]:
    """Whether each instruction depends on a sum over the loop axes (the sums themselves do not)."""
    found: list[bool] = []
    for instr in body:
        parts = operands(instr)
        found.append(any(found[o] or (isinstance(c := body[o], Reduce) and c.over_loop) for o in parts))
    return found


def _final(body: Sequence[Instr], is_element: Sequence[bool], is_final: Sequence[bool]) -> tuple[int, ...]:
    """What runs after the loop, with the element values that it needs and that do not come from the loop."""
    needed: set[int] = set()
    stack = [n for n, late in enumerate(is_final) if late]
    while stack:
        number = stack.pop()
        if number not in needed and not isinstance(body[number], Reduce):
            needed.add(number)
            stack.extend(o for o in operands(body[number]) if is_element[o])
    return tuple(sorted(needed))
