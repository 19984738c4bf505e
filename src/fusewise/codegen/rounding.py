"""Which values are rounded to 16 bits before anything sees them, and which pairs of ops have a cheaper joint form.

A cheaper implementation of a function is allowed where its error vanishes in the rounding that follows. That is decided
by walking the uses of a value forward: through arithmetic and reductions, up to a cast to a 16-bit float.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusewise.ir.dtypes import F32
from fusewise.lower.kernel import Compute, Const, Instr, Kernel, Reduce, operands

# Ops that hand a small relative error on as a small relative error of much the same size.
# fmt: off
_ARITHMETIC = frozenset({
    "neg", "abs", "copy", "add", "sub", "mul", "div", "where", "minimum", "maximum", "fma", "sqrt", "rsqrt", "log", "exp",
    "tanh",
})
# fmt: on


def users_of(kernel: Kernel) -> tuple[tuple[int, ...], ...]:
    """For each instruction the ids of those that read its value."""
    found: list[list[int]] = [[] for _ in kernel.body]
    for number, instr in enumerate(kernel.body):
        for operand in dict.fromkeys(operands(instr)):
            found[operand].append(number)
    return tuple(map(tuple, found))


def half_only(kernel: Kernel) -> frozenset[int]:
    """Ids of the f32 values of which every use ends in a cast to a 16-bit float."""
    users = users_of(kernel)
    good: set[int] = set()
    for number in range(len(kernel.body) - 1, -1, -1):
        instr = kernel.body[number]
        computed = isinstance(instr, (Compute, Reduce)) and instr.dtype == F32
        if computed and users[number] and all(_hides(kernel.body[u], u in good) for u in users[number]):
            good.add(number)
    return frozenset(good)


def _hides(user: Instr, good: bool) -> bool:
    match user:
        case Compute(op="cast", dtype=dtype) if dtype.is_half:
            return True
        case Compute(op=op):
            return op in _ARITHMETIC and good
        case Reduce(op="sum" | "max" | "min" | "prod"):
            return good
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Rewrites:
    """Joint forms taken in a kernel.

    Attributes:
        forms: for an instruction the text of its cheaper form and the values that the form reads.
        absorbed: instructions that no one reads any more.
    """

    forms: dict[int, tuple[str, tuple[int, ...]]]
    absorbed: frozenset[int]


def rewrites(kernel: Kernel, half: frozenset[int]) -> Rewrites:
    """Joint forms for values that are rounded to 16 bits next."""
    users = users_of(kernel)
    forms: dict[int, tuple[str, tuple[int, ...]]] = {}
    absorbed: set[int] = set()
    for number in sorted(half):
        instr = kernel.body[number]
        if not isinstance(instr, Compute):
            continue
        gates = ("tanh", "erf")
        if instr.op in gates and all(_adds_one(kernel, u, number) and u in half for u in users[number]):
            # 1 + tanh(u) = 2 / (1 + exp(-2u)) and 1 + erf(u) = erfc(-u): no cancellation where the sum is small
            for user in users[number]:
                forms[user] = (f"lib.fast_one_plus_{instr.op}({{0}})", (instr.args[0],))
            absorbed.add(number)
        elif instr.op == "tanh" and all(_needs_absolute(kernel, users, u, number) for u in users[number]):
            forms[number] = ("lib.fast_tanh_absolute({0})", (instr.args[0],))
        elif instr.op == "div" and _is_one_plus_exp(kernel, instr.args[1]):
            forms[number] = ("lib.fast_div({0}, {1})", instr.args)
    return Rewrites(forms, frozenset(absorbed))


def _constant(kernel: Kernel, value: int) -> float | None:
    instr = kernel.body[value]
    return float(instr.value) if isinstance(instr, Const) else None


def _adds_one(kernel: Kernel, user: int, value: int) -> bool:
    instr = kernel.body[user]
    if not (isinstance(instr, Compute) and instr.op == "add" and instr.args.count(value) == 1):
        return False
    other = instr.args[0] if instr.args[1] == value else instr.args[1]
    return _constant(kernel, other) == 1.0


def _needs_absolute(kernel: Kernel, users: tuple[tuple[int, ...], ...], user: int, value: int) -> bool:
    """True where `user` adds or subtracts `value`, or its square, and a number of size 1 or more."""
    instr = kernel.body[user]
    if not isinstance(instr, Compute):
        return False
    if instr.op == "mul" and instr.args == (value, value):
        return all(_needs_absolute(kernel, users, u, user) for u in users[user])
    if instr.op not in ("add", "sub") or instr.args.count(value) != 1:
        return False
    other = _constant(kernel, instr.args[0] if instr.args[1] == value else instr.args[1])
    return other is not None and abs(other) >= 1.0


def _is_one_plus_exp(kernel: Kernel, value: int) -> bool:
    """True where the value is 1 + exp(...): at least 1, and a quotient by more than 2^126 may be 0."""
    instr = kernel.body[value]
    if not (isinstance(instr, Compute) and instr.op == "add"):
        return False
    return any(
        _constant(kernel, a) == 1.0 and isinstance(e := kernel.body[b], Compute) and e.op == "exp"
        for a, b in (instr.args, instr.args[::-1])
    )
