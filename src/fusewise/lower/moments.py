"""Mean and squared deviations of a row that is read in turns, from one read instead of two.

Two passes are exact, and cheap while the row stays on chip. A row that is walked in turns would be read twice for them,
from the cache at best. Sums of what is left after a shift K near the mean give both at once (the shifted data of Chan,
Golub and LeVeque, 1983):

    mean = K + sum(x - K) / n      sum((x - mean)^2) = sum((x - K)^2) - sum(x - K)^2 / n

With K the mean of the first of T turns, (K - mean)^2 is at most the sum of squared deviations over n / T, so that the
difference loses at most a factor 1 + T of accuracy, however far the mean is from 0.
"""

from __future__ import annotations

from dataclasses import replace

from fusewise.ir.sizes import Size, prod, same
from fusewise.lower.body import Body, renumber
from fusewise.lower.kernel import Check, Compute, Const, Instr, Reduce, SizeOf, Store, operands


def read_once(body: Body) -> Body:
    """The body with each sum((x - sum(x) / n)^2) over its row of n as a `Reduce` of x that is `centred`."""
    length = prod(body.axes[a] for a in body.axes if a in body.reduce)
    instrs = list(body.instrs)
    for number, instr in enumerate(instrs):
        found = _deviating(instrs, instr, length)
        if found is not None and isinstance(instr, Reduce) and body.varies[found] >= body.reduce:
            instrs[number] = replace(instr, arg=found, centred=True)
    return _without_dead(replace(body, instrs=tuple(instrs))) if tuple(instrs) != body.instrs else body


def _deviating(instrs: list[Instr], instr: Instr, length: Size) -> int | None:
    """x where `instr` is sum((x - sum(x) / length)^2)."""
    if not (isinstance(instr, Reduce) and _is_row_sum(instr)):
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
    matches = isinstance(first, Reduce) and _is_row_sum(first) and first.arg == x and first.dtype == instr.dtype
    return x if matches else None


def _is_row_sum(instr: Reduce) -> bool:
    return instr.op == "sum" and instr.dtype.is_float and not instr.over_loop and not instr.centred


def _is_size(instr: Instr, size: Size) -> bool:
    match instr:
        case Const(value=value):
            return same(size, value) if isinstance(value, int) else value.is_integer() and same(size, int(value))
        case SizeOf(expr=expr):
            return same(size, expr)
        case _:
            return False


def _without_dead(body: Body) -> Body:
    live: set[int] = set()
    stack = [n for n, i in enumerate(body.instrs) if isinstance(i, (Store, Check))]
    while stack:
        number = stack.pop()
        if number not in live:
            live.add(number)
            stack.extend(operands(body.instrs[number]))
    order = sorted(live)
    number_of = {old: new for new, old in enumerate(order)}
    buffers = {number: number for number in range(len(body.buffers))}
    renamed = tuple(renumber(body.instrs[n], number_of, buffers) for n in order)
    return replace(body, instrs=renamed, varies=tuple(body.varies[n] for n in order))
