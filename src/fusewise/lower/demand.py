"""Loads that are needed only where a mask holds read nothing elsewhere.

Causal, triangular, ragged and padding masks written with `where` or `masked_fill` replace a value by a constant where
the mask is off: what the value is computed from is then not needed there. A value's demand is the set of conditions
under which every use of it lies; a load takes them as its mask, and a GPU skips the memory of a vector that is masked
whole. So that vectors stay vectors, the mask is one for each group of neighbours: on where any of the group is needed.
"""

from __future__ import annotations

from dataclasses import replace

from fusewise.ir.affine import Div, Index
from fusewise.ir.dtypes import BOOL
from fusewise.lower.body import Body, renumber
from fusewise.lower.kernel import Compute, IndexOf, Instr, Load, operands

Demand = frozenset[tuple[int, bool]]  # (condition, value that it must have)

_VECTOR_BYTES = 16
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def mask_loads(body: Body) -> Body:
    """The body with masks on the loads that are needed only under conditions cheaper than the load itself."""
    demands = _demands(body)
    wanted: dict[int, list[tuple[int, bool]]] = {}
    for number, instr in enumerate(body.instrs):
        if isinstance(instr, Load) and instr.mask is None:
            chosen = [c for c in sorted(demands[number]) if _is_cheap(body, c[0], number)]
            if chosen:
                wanted[number] = chosen
    return _Rebuild(body, wanted).run() if wanted else body


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


class _Rebuild:
    """Emits the instructions in an order in which each mask stands before its load."""

    def __init__(self, body: Body, wanted: dict[int, list[tuple[int, bool]]]) -> None:
        self.body = body
        self.wanted = wanted
        self.instrs: list[Instr] = []
        self.varies: list[frozenset[str]] = []
        self.number_of: dict[int, int] = {}
        self.buffers = {i: i for i in range(len(body.buffers))}

    def run(self) -> Body:
        for number in range(len(self.body.instrs)):
            self.visit(number)
        return replace(self.body, instrs=tuple(self.instrs), varies=tuple(self.varies))

    def emit(self, instr: Instr, axes: frozenset[str]) -> int:
        self.instrs.append(instr)
        self.varies.append(axes)
        return len(self.instrs) - 1

    def compute(self, op: str, *args: int) -> int:
        return self.emit(Compute(op, args, BOOL), frozenset().union(*(self.varies[a] for a in args)))

    def visit(self, root: int) -> None:
        stack = [(root, False)]
        while stack:
            number, ready = stack.pop()
            if number in self.number_of:
                continue
            conditions = self.wanted.get(number, [])
            old = self.body.instrs[number]
            if not ready:
                stack.append((number, True))
                stack.extend((o, False) for o in (*operands(old), *(c for c, _ in conditions)))
                continue
            instr, axes = renumber(old, self.number_of, self.buffers), self.body.varies[number]
            mask = self.mask(number, conditions) if conditions else None
            if mask is not None:
                assert isinstance(instr, Load)
                instr, axes = replace(instr, mask=mask), axes | self.varies[mask]
            self.number_of[number] = self.emit(instr, axes)

    def mask(self, load: int, conditions: list[tuple[int, bool]]) -> int | None:
        """The conditions together, each on for a whole group of neighbours where any of them needs it."""
        instr = self.body.instrs[load]
        assert isinstance(instr, Load)
        inner = next((a for a in sorted(self.body.varies[load]) if instr.index.coefficient(a) == 1), None)
        group = _VECTOR_BYTES // self.body.buffers[instr.buffer].dtype.bytes
        found: int | None = None
        for condition, value in conditions:
            part = self.widened(condition, value, inner, group)
            if part is not None:
                found = part if found is None else self.compute("and", found, part)
        return found

    def widened(self, condition: int, value: bool, axis: str | None, group: int) -> int | None:
        """A condition on wherever `condition` is `value` somewhere in the group; None: it is on everywhere."""
        instr = self.body.instrs[condition]
        if axis is None or axis not in self.body.varies[condition]:
            known = self.number_of[condition]
            return known if value else self.compute("not", known)
        if not isinstance(instr, Compute):
            return None
        if instr.op == "not":
            return self.widened(instr.args[0], not value, axis, group)
        if instr.op in ("and", "or"):
            parts = [self.widened(a, value, axis, group) for a in instr.args]
            if (instr.op == "and") == value:
                kept = [p for p in parts if p is not None]
                return self.compute("and", *kept) if len(kept) == 2 else (kept[0] if kept else None)
            first, second = parts
            return None if first is None or second is None else self.compute("or", first, second)
        if instr.op not in _MIRRORED:
            return None
        left, right = instr.args
        op = instr.op if value else _NEGATED[instr.op]
        if axis in self.body.varies[right]:
            left, right, op = right, left, _MIRRORED[op]
        place = self.body.instrs[left]
        if axis in self.body.varies[right] or not isinstance(place, IndexOf) or place.index.coefficient(axis) != 1:
            return None
        if any(not isinstance(a, str) for a, _ in place.index.terms):
            return None
        # the group's first element is the one most surely below a limit, its last the one most surely above
        others = [(a, c) for a, c in place.index.terms if a != axis]
        start = Index(((Div(Index(((axis, 1),)), group), group),)) + (0 if op in ("lt", "le") else group - 1)
        for atom, coef in others:
            start = start + Index(((atom, coef),))
        rounded = self.emit(IndexOf(start + place.index.const, place.dtype), self.body.varies[left])
        return self.compute(op, rounded, self.number_of[right])
