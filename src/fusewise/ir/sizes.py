"""Sizes: integers, or sympy polynomials over the graph's size symbols (all of them positive integers)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import sympy

Size: TypeAlias = "int | sympy.Expr"


def symbol(name: str) -> sympy.Symbol:
    """The size symbol called `name`: a positive integer."""
    return sympy.Symbol(name, integer=True, positive=True)


def norm(size: Size) -> Size:
    """`size` expanded, and as a Python int where it is a number."""
    if isinstance(size, int):
        return size
    expanded = sympy.expand(size)
    return int(expanded) if expanded.is_Integer else expanded


def prod(sizes: Iterable[Size]) -> Size:
    """Product of sizes; 1 for none."""
    total: Size = 1
    for size in sizes:
        total = total * size
    return norm(total)


def same(a: Size, b: Size) -> bool:
    """True where `a` equals `b` for every value of the symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return norm(a - b) == 0


def same_all(a: Iterable[Size], b: Iterable[Size]) -> bool:
    """True where two shapes have the same rank and the same sizes."""
    left, right = tuple(a), tuple(b)
    return len(left) == len(right) and all(same(x, y) for x, y in zip(left, right, strict=True))


def divide(a: Size, b: Size) -> Size | None:
    """`a / b` where it is known to be a whole number or polynomial, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b != 0 and a % b == 0 else None
    if same(a, 0):
        return 0
    quotient = sympy.cancel(sympy.sympify(a) / sympy.sympify(b))
    numerator, denominator = sympy.fraction(sympy.together(quotient))
    if denominator != 1:
        return None
    return norm(quotient)


def hint(size: Size, hints: Mapping[str, int], default: int = 8192) -> int:
    """`size` with each symbol replaced by its hint (`default` where none is known)."""
    if isinstance(size, int):
        return size
    return int(size.subs({s: hints.get(str(s), default) for s in size.free_symbols}))


def symbols_of(sizes: Iterable[Size]) -> set[str]:
    """Names of the symbols in `sizes`."""
    return {str(s) for size in sizes if not isinstance(size, int) for s in size.free_symbols}


def contiguous_strides(shape: Iterable[Size]) -> tuple[Size, ...]:
    """Row-major strides in elements, as PyTorch gives them (a size of 0 counts as 1)."""
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(tuple(shape)):
        strides.append(step)
        if not (isinstance(size, int) and size == 0):
            step = norm(step * size)
    return tuple(reversed(strides))


def is_zero_numel(shape: Iterable[Size]) -> bool:
    """True where a size is the integer 0."""
    return any(isinstance(s, int) and s == 0 for s in shape)


def max_offset(shape: Iterable[Size], strides: Iterable[Size], hints: Mapping[str, int]) -> int:
    """Largest element offset that a tensor of this layout reaches, by the hints."""
    return sum(max(hint(n, hints) - 1, 0) * abs(hint(s, hints)) for n, s in zip(shape, strides, strict=True))


__all__ = [
    "Size",
    "contiguous_strides",
    "divide",
    "hint",
    "is_zero_numel",
    "max_offset",
    "norm",
    "prod",
    "same",
    "same_all",
    "symbol",
    "symbols_of",
]
