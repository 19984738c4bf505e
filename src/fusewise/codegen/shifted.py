"""Exponentials of a row shifted by its own maximum: what a softmax sums up, and what follows for tails and functions.

Where a row does not fill its tile, the lanes past its end may hold minus infinity from the load on: the maximum does
not see it, and its shifted exponential is 0. Neither reduction then needs a mask of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusewise.ir.dtypes import F32
from fusewise.lower.kernel import Compute, Const, Kernel, Load, Reduce, operands

LONG = 256  # elements of a row from which errors of single exponentials average out in their sum


@dataclass(frozen=True, slots=True)
class Shifted:
    """Ids of the instructions concerned.

    Attributes:
        exps: exp(v - max(v)).
        loads: loads whose lanes past the end of the row may be minus infinity.
        reductions: maxima and sums that need no mask then.
    """

    exps: frozenset[int] = frozenset()
    loads: frozenset[int] = frozenset()
    reductions: frozenset[int] = frozenset()


def shifted_exps(kernel: Kernel) -> Shifted:
    """The shifted exponentials of a kernel, with the loads and the reductions around them."""
    exps: set[int] = set()
    vanishing: set[int] = set()  # those that are 0 past the end of the row
    loads: set[int] = set()
    reductions: set[int] = set()
    for number, instr in enumerate(kernel.body):
        if found := _shifted(kernel, number):
            exps.add(number)
            value, maximum = found
            load = _load_of(kernel, value)
            if load is not None:
                vanishing.add(number)
                loads.add(load)
                reductions.add(maximum)
        elif isinstance(instr, Reduce) and instr.arg in vanishing and _sums(kernel, number):
            reductions.add(number)
    # every other reader of such a load would meet minus infinity past the end, where nothing is stored: reductions
    # mask their own tails, so that no other care is needed
    return Shifted(frozenset(exps), frozenset(loads), frozenset(reductions))


def summed_only(kernel: Kernel, exps: frozenset[int]) -> frozenset[int]:
    """Those of `exps` that are only summed, over a long row.

    Their sum is at least 1, so that an error of an exponential far below it vanishes, and those near it have small
    arguments: an error of 2^-22 + |x| 2^-24 each leaves the sum near one unit in the last place.
    """
    if not isinstance(kernel.reduce_size, int) or kernel.reduce_size < LONG:
        return frozenset()
    read: dict[int, list[int]] = {}
    for number, instr in enumerate(kernel.body):
        for operand in operands(instr):
            read.setdefault(operand, []).append(number)
    return frozenset(e for e in exps if read.get(e) and all(_sums(kernel, user) for user in read[e]))


def _sums(kernel: Kernel, number: int) -> bool:
    instr = kernel.body[number]
    return isinstance(instr, Reduce) and instr.is_row_sum


def _shifted(kernel: Kernel, number: int) -> tuple[int, int] | None:
    """(v, id of max(v)) where the instruction is exp(v - max(v)), a maximum of minus infinity taken as 0 or not."""
    match kernel.body[number]:
        case Compute(op="exp", args=(argument,)) as instr if instr.dtype == F32:
            pass
        case _:
            return None
    match kernel.body[argument]:
        case Compute(op="sub", args=(value, shift)):
            pass
        case _:
            return None
    guard = kernel.body[shift]
    if isinstance(guard, Compute) and guard.op == "where":
        test, zero, shift = guard.args
        instead = kernel.body[zero]
        if not (_is_minus_infinity_of(kernel, test, shift) and isinstance(instead, Const) and instead.value == 0):
            return None
    maximum = kernel.body[shift]
    if isinstance(maximum, Reduce) and maximum.op == "max" and not maximum.over_loop and maximum.arg == value:
        return value, shift
    return None


def _is_minus_infinity_of(kernel: Kernel, test: int, value: int) -> bool:
    """True where `test` is value == -inf."""
    instr = kernel.body[test]
    if not (isinstance(instr, Compute) and instr.op == "eq" and value in instr.args):
        return False
    others = [kernel.body[a] for a in instr.args if a != value]
    return len(others) == 1 and isinstance(others[0], Const) and others[0].value == -math.inf


def _load_of(kernel: Kernel, value: int) -> int | None:
    """The load that a value is, or is a plain cast of; None where it is neither, or where the load has its own mask."""
    instr = kernel.body[value]
    if isinstance(instr, Compute) and instr.op == "cast":
        value = instr.args[0]
        instr = kernel.body[value]
    if not isinstance(instr, Load) or instr.mask is not None or instr.index.loaded() or not instr.dtype.is_float:
        return None
    return value if kernel.is_element(value) else None
