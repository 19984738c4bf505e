"""Loads that are needed only where a mask holds read nothing elsewhere.

Causal, triangular, ragged and padding masks written with `where` or `masked_fill` replace a value by a constant where
the mask is off: what the value is computed from is then not needed there. A value's demand is the set of conditions
under which every use of it lies; a load takes them as its mask, and a GPU skips the memory of a vector that is masked
whole.
"""

from __future__ import annotations

from dataclasses import replace

from fusewise.ir.dtypes import BOOL
from fusewise.lower.body import Body, renumber
from fusewise.lower.kernel import Compute, Instr, Load, operands

Demand = frozenset[tuple[int, bool]]  # (condition, value that it must have)


def mask_loads(body: Body) -> Body:
    """The body with masks on the loads that are needed only under conditions cheaper than the load itself."""
    demands = _demands(body)
    wanted: dict[int, list[tuple[int, bool]]] = {}
    for number, instr in enumerate(body.instrs):
        if isinstance(instr, Load) and instr.mask is None:
            chosen = [c for c in sorted(demands[number]) if _is_cheap(body, c[0], number)]
            if chosen:
                wanted[number] = chosen
    return _rebuild(body, wanted) if wanted else body


def _demands(body: Body) -> list[Demand]:
    """For each instruction the conditions under which all its uses lie."""
    found: list[Demand | None] = [None] * len(body.instrs)

    def use(value: int, under: Demand) -> None:
        known = found[value]
        found[value] = under if known is None else known & under

    for number in range(len(body.instrs) - 1, -1, -1):
        instr = body.instrs[number]
        own = found[number] or frozenset()
        if isinstance(instr, Compute) and instr.op == "where":
            cond, then, other = instr.args
            use(cond, own)
            use(then, own | {(cond, True)})
            use(other, own | {(cond, False)})
        elif isinstance(instr, Compute):
            for arg in instr.args:
                use(arg, own)
        else:
            # a store, a reduction, an index or a mask needs its operands everywhere
            for arg in operands(instr):
                use(arg, frozenset())
    return [d or frozenset() for d in found]


def _is_cheap(body: Body, condition: int, load: int) -> bool:
    """True where the condition reads only what varies along fewer axes than the load, and cuts the load's own axes."""
    if not body.varies[condition] & body.varies[load]:
        return False
    stack, seen = [condition], set()
    while stack:
        number = stack.pop()
        if number in seen:
            continue
        seen.add(number)
        instr = body.instrs[number]
        if number == load or (isinstance(instr, Load) and not body.varies[number] < body.varies[load]):
            return False
        if not isinstance(instr, (Load, Compute)) and operands(instr):
            return False  # a reduction: the load may be what it reduces
        stack.extend(operands(instr))
    return True


def _rebuild(body: Body, wanted: dict[int, list[tuple[int, bool]]]) -> Body:
    """The instructions in an order in which each mask stands before its load."""
    instrs: list[Instr] = []
    varies: list[frozenset[str]] = []
    number_of: dict[int, int] = {}
    buffers = {i: i for i in range(len(body.buffers))}

    def emit(instr: Instr, axes: frozenset[str]) -> int:
        instrs.append(instr)
        varies.append(axes)
        return len(instrs) - 1

    def visit(root: int) -> None:
        stack = [(root, False)]
        while stack:
            number, ready = stack.pop()
            if number in number_of:
                continue
            conditions = wanted.get(number, [])
            if not ready:
                stack.append((number, True))
                stack.extend((o, False) for o in (*operands(body.instrs[number]), *(c for c, _ in conditions)))
                continue
            instr, axes = renumber(body.instrs[number], number_of, buffers), body.varies[number]
            if conditions:
                mask: int | None = None
                for condition, value in conditions:
                    part, part_axes = number_of[condition], body.varies[condition]
                    if not value:
                        part = emit(Compute("not", (part,), BOOL), part_axes)
                    if mask is not None:
                        part_axes = part_axes | varies[mask]
                        part = emit(Compute("and", (mask, part), BOOL), part_axes)
                    mask = part
                assert isinstance(instr, Load) and mask is not None
                instr, axes = replace(instr, mask=mask), axes | varies[mask]
            number_of[number] = emit(instr, axes)

    for number in range(len(body.instrs)):
        visit(number)
    return replace(body, instrs=tuple(instrs), varies=tuple(varies))
