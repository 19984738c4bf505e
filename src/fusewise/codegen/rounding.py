"""Which values are rounded to 16 bits before anything sees them, and which pairs of ops have a cheaper joint form.

A cheaper implementation of a function is allowed where its error vanishes in the rounding that follows. That is decided
by walking the uses of a value forward: through arithmetic and reductions, up to a cast to a 16-bit float.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fusewise.ir.dtypes import BF16, BOOL, F32, DType
from fusewise.lower.kernel import Compute, Const, Instr, Kernel, Reduce, operands, result_dtype

# Ops that hand a small relative error on as a small relative error of much the same size.
# fmt: off
_ARITHMETIC = frozenset({
    "neg", "abs", "copy", "add", "sub", "mul", "div", "where", "minimum", "maximum", "fma",
    "sqrt", "rsqrt", "log", "exp", "tanh",
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
        case Reduce(op="sum" | "max" | "min" | "prod", centred=False):
            return good
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Form:
    """A cheaper form of one instruction: its text, with places for operands, and the values put there.

    `constant`: type in which constants among the operands are written, None for their own.
    """

    text: str
    args: tuple[int, ...]
    constant: DType | None = None


def joint_forms(kernel: Kernel, half: frozenset[int]) -> dict[int, Form]:
    """Forms of two or more ops together, for values that are rounded to 16 bits next."""
    users = users_of(kernel)
    forms: dict[int, Form] = {}
    for number in sorted(half):
        instr = kernel.body[number]
        if not isinstance(instr, Compute):
            continue
        if instr.op in ("tanh", "erf") and all(_adds_one(kernel, u, number) and u in half for u in users[number]):
            for user in users[number]:
                forms |= _gate(kernel, users, half, user, instr)
        elif instr.op == "tanh" and all(_needs_absolute(kernel, users, u, number) for u in users[number]):
            argument, text = _argument(kernel, instr.args[0])
            forms[number] = Form(f"lib.fast_tanh_absolute{text}", (argument,))
        elif instr.op == "div" and one_plus_exp_of(kernel, instr.args[1]) is not None:
            forms[number] = Form("lib.fast_div({0}, {1})", instr.args)
    return forms


def _gate(
    kernel: Kernel, users: tuple[tuple[int, ...], ...], half: frozenset[int], gate: int, function: Compute
) -> dict[int, Form]:
    """Forms for `gate`, which is 1 + tanh(u) or 1 + erf(u), and for products of it with 0.5 or with 0.5 x.

    (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)) and (1 + erf(u)) / 2 = erfc(-u) / 2 cancel nowhere.
    """
    argument, text = _argument(kernel, function.args[0], cubic=function.op == "tanh")
    text = f"lib.fast_gate_{function.op}{text}"
    if len(users[gate]) == 1 and users[gate][0] in half:
        product = kernel.body[users[gate][0]]
        if isinstance(product, Compute) and product.op == "mul" and product.args.count(gate) == 1:
            other = product.args[0] if product.args[1] == gate else product.args[1]
            if _constant(kernel, other) == 0.5:
                return {users[gate][0]: Form(text, (argument,))}
            factor, by = _scaled(kernel, other)
            if by == 0.5:
                return {users[gate][0]: Form(f"{{1}} * {text}", (argument, factor))}
    return {gate: Form(f"{text} * 2.0", (argument,))}


def _argument(kernel: Kernel, value: int, cubic: bool = True) -> tuple[int, str]:
    """(v, text) where `value` is c v, or c (v + k v^3) as in the tanh form of GELU: the end of a function's name, and
    what it is called with."""
    argument, scale = _scaled(kernel, value)
    total = kernel.body[argument]
    if cubic and isinstance(total, Compute) and total.op == "fma":
        for cube, k in (total.args[:2], total.args[1::-1]):
            factor = _constant(kernel, k)
            if factor is not None and _is_cube(kernel, cube, total.args[2]):
                return total.args[2], f"_cubic({{0}}, {scale!r}, {factor!r})"
    return argument, f"({{0}}, {scale!r})"


def _is_cube(kernel: Kernel, value: int, of: int) -> bool:
    cube = kernel.body[value]
    if not (isinstance(cube, Compute) and cube.op == "mul" and of in cube.args):
        return False
    square = kernel.body[cube.args[0] if cube.args[1] == of else cube.args[1]]
    return isinstance(square, Compute) and square.op == "mul" and square.args == (of, of)


def _scaled(kernel: Kernel, value: int) -> tuple[int, float]:
    """(v, c) where `value` is v * c with a positive constant c; (value, 1.0) where it is no such product."""
    instr = kernel.body[value]
    if isinstance(instr, Compute) and instr.op == "mul":
        for a, b in (instr.args, instr.args[::-1]):
            constant = _constant(kernel, b)
            if constant is not None and 2.0**-60 < constant < 2.0**60 and _constant(kernel, a) is None:
                return a, constant
    return value, 1.0


def scaled_masks(kernel: Kernel) -> dict[int, Form]:
    """Products (x * mask) * c with a mask of 0 and 1, as dropout writes them, as x * (c or 0): the same bits.

    The inner product may be rounded to 16 bits where x has no more to begin with, since it is x or 0.
    """
    forms: dict[int, Form] = {}
    for number, instr in enumerate(kernel.body):
        if not (isinstance(instr, Compute) and instr.op == "mul" and instr.dtype == F32):
            continue
        for value, other in (instr.args, instr.args[::-1]):
            scale = _constant(kernel, other)
            if scale is None or not 0.0 < scale < math.inf:
                continue
            inner, rounded = through_rounding(kernel, value)
            product = kernel.body[inner]
            if not (isinstance(product, Compute) and product.op == "mul" and product.dtype == F32):
                continue
            for x, factor in (product.args, product.args[::-1]):
                mask = _mask(kernel, factor)
                if mask is not None and (rounded is None or _narrow(kernel, x, rounded) is not None):
                    forms[number] = Form(f"{{0}} * tl.where({{1}}, {scale!r}, 0.0)", (x, mask))
    return forms


def through_rounding(kernel: Kernel, value: int) -> tuple[int, DType | None]:
    """(source, type) where `value` is an f32 rounded to a 16-bit type and widened again; else (value, None)."""
    instr = kernel.body[value]
    if isinstance(instr, Compute) and instr.op == "cast":
        narrow = kernel.body[instr.args[0]]
        if isinstance(narrow, Compute) and narrow.op == "cast" and narrow.dtype.is_half:
            return narrow.args[0], narrow.dtype
    return value, None


def _mask(kernel: Kernel, value: int) -> int | None:
    """The bool that `value` was cast from (through 16 bits or not), else None."""
    instr = kernel.body[value]
    while isinstance(instr, Compute) and instr.op == "cast" and instr.dtype.is_float:
        value = instr.args[0]
        if result_dtype(kernel.body[value]) == BOOL:
            return value
        instr = kernel.body[value]
    return None


def contractions(kernel: Kernel, taken: Mapping[int, Form]) -> dict[int, Form]:
    """Sums and differences with an f32 product of the same PyTorch op as one fma, as CUDA's compiler makes of eager.

    Products of another op stay rounded, so that a value does not depend on what is fused with it. A reduction in the
    result is a sum over rows of such products: its form reads the accumulator as its last operand.

    Args:
        taken: instructions that have a cheaper form already.
    """
    users = users_of(kernel)
    forms: dict[int, Form] = {}
    gone: set[int] = set()

    def product(value: int, user: Instr) -> tuple[int, ...] | None:
        instr = kernel.body[value]
        if not (isinstance(instr, Compute) and instr.op == "mul" and instr.dtype == F32):
            return None
        assert isinstance(user, (Compute, Reduce))
        fits = len(users[value]) == 1 and instr.origin == user.origin and value not in taken and value not in forms
        return instr.args if fits and value not in gone else None

    for number, instr in enumerate(kernel.body):
        if isinstance(instr, Reduce) and instr.over_loop and (instr.op, instr.dtype) == ("sum", F32):
            factors = product(instr.arg, instr)
            if factors is not None:
                forms[number] = Form("tl.fma({0}, {1}, {2})", factors)
        if not isinstance(instr, Compute) or instr.op not in ("add", "sub") or instr.dtype != F32 or number in taken:
            continue
        left, right = instr.args
        if left == right:
            continue
        for value, other in ((left, right), (right, left)):
            factors = product(value, instr)
            if factors is None:
                continue
            text = "tl.fma({0}, {1}, {2})"
            if instr.op == "sub":
                text = "tl.fma({0}, {1}, lib.neg({2}))" if value == left else "tl.fma(lib.neg({0}), {1}, {2})"
            forms[number] = Form(text, (*factors, other))
            gone.add(value)
            break
    return forms


def packed_forms(kernel: Kernel, exact: bool, taken: Mapping[int, Form]) -> dict[int, Form]:
    """Casts to 16 bits of a sum, product or extreme of two 16-bit values: one packed instruction for two elements.

    f32 has at least twice the bits of both 16-bit formats and two more, so rounding the exact result once gives the
    bits of rounding it to f32 first; a bf16 product below the normal range of f32 is the one exception.

    Args:
        taken: instructions that have a cheaper form already.
    """
    users = users_of(kernel)
    forms: dict[int, Form] = {}
    for number, instr in enumerate(kernel.body):
        if not (isinstance(instr, Compute) and instr.op == "cast" and instr.dtype.is_half):
            continue
        source = kernel.body[instr.args[0]]
        packed = ("add", "sub", "mul", "minimum", "maximum")
        if not (isinstance(source, Compute) and source.op in packed and source.dtype == F32):
            continue
        if exact and source.op == "mul" and instr.dtype == BF16:
            continue
        target = instr.dtype
        only = all(isinstance(u := kernel.body[n], Compute) and u.dtype == target for n in users[instr.args[0]])
        parts = [_narrow(kernel, a, target) for a in source.args]
        constant = all(isinstance(kernel.body[p], Const) for p in parts if p is not None)
        if only and None not in parts and not constant:
            args = tuple(p for p in parts if p is not None)
            forms[number] = Form(f"lib.{source.op}_{target.name}({{0}}, {{1}})", args, target)
        elif only and not exact and target == BF16 and source.op == "mul" and instr.args[0] not in taken:
            for part, other in (parts, parts[::-1]):
                scale = _constant(kernel, source.args[0] if part is parts[1] else source.args[1])
                if part is not None and other is None and scale is not None and _splits(scale):
                    forms[number] = Form(f"lib.scale_bf16({{0}}, {scale!r})", (part,))
    return forms


def _splits(number: float) -> bool:
    """True where a number and its lower half are normal bf16 numbers."""
    return 2.0**-100 < abs(number) < 2.0**100


def identities(kernel: Kernel, taken: Mapping[int, Form]) -> dict[int, Form]:
    """Roundings of what is 16 bits wide already: a choice, extreme, sign or absolute value of widened numbers.

    Args:
        taken: casts to 16 bits that have a packed form.
    """
    forms: dict[int, Form] = {}
    held: dict[int, DType | None] = {}
    for number, instr in enumerate(kernel.body):
        held[number] = _held(kernel, held, number)
        if not (isinstance(instr, Compute) and instr.op == "cast" and instr.dtype == F32):
            continue
        narrow = kernel.body[instr.args[0]]
        if isinstance(narrow, Compute) and narrow.op == "cast" and narrow.dtype.is_half:
            source = narrow.args[0]
            packed = instr.args[0] in taken
            if held.get(source) == narrow.dtype and not packed and not isinstance(kernel.body[source], Const):
                forms[number] = Form("{0}", (source,))
    return forms


def _held(kernel: Kernel, held: Mapping[int, DType | None], value: int) -> DType | None:
    """The 16-bit type that holds an f32 value exactly, where one is known."""
    instr = kernel.body[value]
    if not (isinstance(instr, Compute) and instr.dtype == F32):
        return None
    if instr.op == "cast":
        source = result_dtype(kernel.body[instr.args[0]])
        return source if source is not None and source.is_half else None
    if instr.op not in ("neg", "abs", "copy", "minimum", "maximum", "where"):
        return None
    parts = instr.args[1:] if instr.op == "where" else instr.args
    numbers = [_constant(kernel, p) for p in parts]
    types = {held.get(p) for p, number in zip(parts, numbers, strict=True) if number is None}
    if len(types) != 1 or (dtype := types.pop()) is None:
        return None
    exact = all(number is None or math.isinf(number) or _holds(number, dtype) for number in numbers)
    return dtype if exact else None


def _narrow(kernel: Kernel, value: int, target: DType) -> int | None:
    """The 16-bit value that `value` was widened from, or a constant that `target` holds exactly; else None."""
    instr = kernel.body[value]
    if isinstance(instr, Const):
        return value if _holds(float(instr.value), target) else None
    if isinstance(instr, Compute) and instr.op == "cast" and result_dtype(kernel.body[instr.args[0]]) == target:
        return instr.args[0]
    return None


def _holds(number: float, dtype: DType) -> bool:
    """True where a 16-bit float holds `number` exactly, as a normal number or 0."""
    if number == 0.0:
        return True
    digits, exponent = math.frexp(number)
    low, high = (-125, 128) if dtype == BF16 else (-13, 16)
    bits = 8 if dtype == BF16 else 11
    return math.isfinite(number) and low <= exponent <= high and (digits * 2**bits).is_integer()


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


def one_plus_exp_of(kernel: Kernel, value: int) -> int | None:
    """x where the value is 1 + exp(x), which is at least 1: a quotient by more than 2^126 may be 0; else None."""
    instr = kernel.body[value]
    if isinstance(instr, Compute) and instr.op == "add":
        for one, other in (instr.args, instr.args[::-1]):
            function = kernel.body[other]
            if _constant(kernel, one) == 1.0 and isinstance(function, Compute) and function.op == "exp":
                return function.args[0]
    return None
