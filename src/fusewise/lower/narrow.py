"""Index arithmetic in 32 bits where it provably fits: positions, masks and comparisons cost half as much.

PyTorch's positions are i64. A value made of axes and constants whose range lies within 32 bits, and which only meets
such values, comparisons and casts, is the same number in i32.
"""

from __future__ import annotations

from dataclasses import replace

from fusewise.ir.affine import Index
from fusewise.ir.dtypes import I32, I64
from fusewise.lower.body import Body
from fusewise.lower.kernel import Compute, Const, IndexOf, operands, result_dtype

_LIMIT = 2**31 - 1
Range = tuple[int, int]


def narrow_indexes(body: Body) -> Body:
    """The body with i32 in place of i64 where that changes no value."""
    ranges = _ranges(body)
    chosen = {
        n
        for n, instr in enumerate(body.instrs)
        if result_dtype(instr) == I64 and ranges[n] is not None and isinstance(instr, (Const, IndexOf, Compute))
    }
    users: list[list[int]] = [[] for _ in body.instrs]
    for number, instr in enumerate(body.instrs):
        for operand in operands(instr):
            users[operand].append(number)
    wide = [n for n in range(len(body.instrs)) if result_dtype(body.instrs[n]) == I64 and n not in chosen]
    wide += [n for n in chosen if not all(isinstance(body.instrs[u], Compute) for u in users[n])]
    while wide:
        number = wide.pop()
        chosen.discard(number)
        instr = body.instrs[number]
        near = {o for u in users[number] for o in (*operands(body.instrs[u]), u)}
        near |= set(operands(instr)) if isinstance(instr, Compute) and instr.op != "cast" else set()
        wide.extend(n for n in near if n in chosen and not _is_cast_from(body, n, number))
    if not chosen:
        return body
    instrs = tuple(
        replace(i, dtype=I32) if n in chosen and isinstance(i, (Const, IndexOf, Compute)) else i
        for n, i in enumerate(body.instrs)
    )
    return replace(body, instrs=instrs)


def _is_cast_from(body: Body, number: int, source: int) -> bool:
    instr = body.instrs[number]
    return isinstance(instr, Compute) and instr.op == "cast" and source in instr.args


def _ranges(body: Body) -> list[Range | None]:
    """Range of each integer value made of axes and constants alone, where it lies within 32 bits; else None."""
    found: list[Range | None] = []
    for instr in body.instrs:
        got: Range | None = None
        match instr:
            case Const(value=value, dtype=dtype) if dtype == I64:
                got = (int(value), int(value))
            case IndexOf(index=index):
                got = _index_range(index, body)
            case Compute(op=op, args=args, dtype=dtype) if dtype == I64:
                got = _combine(op, [found[a] for a in args])
            case _:
                pass
        found.append(got if got is not None and got[0] >= -_LIMIT and got[1] <= _LIMIT else None)
    return found


def _index_range(index: Index, body: Body) -> Range | None:
    if not index.is_affine or not isinstance(index.const, int):
        return None
    low = high = index.const
    for atom, coef in index.terms:
        if not isinstance(atom, str) or not isinstance(coef, int):
            return None
        size = body.axes[atom]
        if not isinstance(size, int):
            return None
        ends = sorted((0, coef * (size - 1)))
        low, high = low + ends[0], high + ends[1]
    return low, high


def _combine(op: str, args: list[Range | None]) -> Range | None:
    known = [a for a in args if a is not None]
    if len(known) != len(args):
        return None
    if op == "neg":
        return -known[0][1], -known[0][0]
    if len(known) != 2:
        return None
    (a, b), (c, d) = known
    match op:
        case "add":
            return a + c, b + d
        case "sub":
            return a - d, b - c
        case "mul":
            ends = (a * c, a * d, b * c, b * d)
            return min(ends), max(ends)
        case "minimum":
            return min(a, c), min(b, d)
        case "maximum":
            return max(a, c), max(b, d)
        case _:
            return None
