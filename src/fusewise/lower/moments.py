"""Mean and squared deviations of a row that is read in turns, from one read instead of two.

Two passes are exact, and cheap while the row stays on chip. A row that is walked in turns would be read twice for them,
from the cache at best. Instead each lane of the tile updates the sum and the squared deviations of what it has met
(Youngs and Cramer, 1971), and the lanes are combined at the end (Chan, Golub and LeVeque, 1979):

    mean = sum_i(a_i) / n      sum((x - mean)^2) = sum_i(q_i + (a_i - n_i mean)^2 / n_i)

That is as accurate as the statistics of PyTorch's norms and variances on a GPU, which are updated number by number
too (Welford, 1962), but less so than two passes where the mean is far from 0: a sum of squares that a program writes
itself, after its own mean, keeps both.
"""

from __future__ import annotations

from dataclasses import replace

from fusewise.ir.sizes import Size, prod, same
from fusewise.lower.body import Body, needed, reordered
from fusewise.lower.kernel import Compute, Const, Instr, Reduce, SizeOf


def read_once(body: Body) -> Body:
    """The body with each sum((x - sum(x) / n)^2) over its row of n as a `Reduce` of x that is `centred`.

    Only where one operator of PyTorch makes both sums.
    """
    length = prod(body.axes[a] for a in body.axes if a in body.reduce)
    instrs = list(body.instrs)
    for number, instr in enumerate(instrs):
        found = _deviating(instrs, instr, length)
        if found is not None and isinstance(instr, Reduce) and body.varies[found] >= body.reduce:
            instrs[number] = replace(instr, arg=found, centred=True)
    if tuple(instrs) == body.instrs:
        return body
    return reordered(replace(body, instrs=tuple(instrs)), needed(instrs))


def _deviating(instrs: list[Instr], instr: Instr, length: Size) -> int | None:
    """x where `instr` is sum((x - sum(x) / length)^2)."""
    if not (isinstance(instr, Reduce) and instr.is_row_sum and instr.dtype.is_float):
        return None
    match instrs[instr.arg]:
        case Compute(op="mul", args=(one, other)) if one == other:
            pass
        case _:
            return None
    match instrs[one]:
        case Compute(op="sub", args=(x, mean)):
            pass
        case _:
            return None
    match instrs[mean]:
        case Compute(op="div", args=(total, count)) if _is_size(instrs[count], length):
            pass
        case _:
            return None
    first = instrs[total]
    if not isinstance(first, Reduce) or not first.is_row_sum or first.arg != x or first.dtype != instr.dtype:
        return None
    return x if first.origin == instr.origin else None


def _is_size(instr: Instr, size: Size) -> bool:
    match instr:
        case Const(value=value):
            return same(size, value) if isinstance(value, int) else value.is_integer() and same(size, int(value))
        case SizeOf(expr=expr):
            return same(size, expr)
        case _:
            return False
