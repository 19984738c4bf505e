"""Prints sizes and index expressions as C++."""

from __future__ import annotations

import re
from collections.abc import Callable

import sympy

from fusewise.errors import IRError
from fusewise.ir.affine import Div, Index, Loaded, Mod
from fusewise.ir.sizes import Size

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identifier(name: str) -> str:
    """`name`, where it is a plain identifier; raises `IRError` for any other text."""
    if not _IDENTIFIER.fullmatch(name):
        raise IRError(f"{name!r} is not an identifier, so it cannot name a kernel or its parameters")
    return name


def print_size(size: Size) -> str:
    """A polynomial as an expression over its symbols, in brackets where it is a sum."""
    if isinstance(size, int):
        return str(size)
    if size.is_Symbol:
        return identifier(str(size))
    if size.is_Integer:
        return str(int(size))
    # in one order in every process: sympy's own follows the hashes of strings
    if size.is_Add:
        return f"({' + '.join(sorted(print_size(a) for a in size.args))})"
    if size.is_Mul:
        return "*".join(sorted(print_size(a) for a in size.args))
    if size.is_Pow and size.exp.is_Integer and size.exp > 0:
        return "*".join([print_size(size.base)] * int(size.exp))
    raise IRError(f"size {sympy.sstr(size)} is no polynomial")


def print_index(index: Index, loaded: Callable[[Loaded], str]) -> str:
    """An index as a C++ expression over the axes' names.

    Args:
        index: the expression.
        loaded: text of an index that is itself a value.
    """
    parts = []
    for atom, coef in index.terms:
        if isinstance(atom, str):
            text = identifier(atom)
        elif isinstance(atom, Loaded):
            text = loaded(atom)
        else:
            text = _divided(atom, loaded)
        parts.append(text if isinstance(coef, int) and coef == 1 else f"{_factor(coef)}*{text}")
    if not parts or not (isinstance(index.const, int) and index.const == 0):
        parts.append(print_size(index.const))
    return " + ".join(parts).replace("+ -", "- ")


def _divided(atom: Div | Mod, loaded: Callable[[Loaded], str]) -> str:
    """A quotient rounded down, or a remainder that is not negative; plain C++ where the operand is not negative."""
    inner, by = print_index(atom.arg, loaded), _factor(atom.by)
    sizes = [atom.arg.const, *(coef for _, coef in atom.arg.terms)]
    if all(size >= 0 if isinstance(size, int) else size.is_nonnegative for size in sizes):
        return f"(({inner}) {'/' if isinstance(atom, Div) else '%'} {by})"
    return f"fw::{'floor_quotient' if isinstance(atom, Div) else 'floor_remainder'}({inner}, {by})"


def _factor(size: Size) -> str:
    text = print_size(size)
    return f"({text})" if "*" in text and not text.startswith("(") else text
