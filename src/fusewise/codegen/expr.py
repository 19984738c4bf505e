"""Prints sizes and index expressions as C++ or Python text."""

from __future__ import annotations

import re
from collections.abc import Callable

import sympy

from fusewise.errors import IRError
from fusewise.ir.affine import Div, Index, Loaded
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


def print_index(index: Index, loaded: Callable[[Loaded], str], divide: str = "/") -> str:
    """An index as an expression over the axes' names.

    Args:
        index: the expression. Quotients and remainders in it are of numbers that are not negative.
        loaded: text of an index that is itself a value.
        divide: the sign of a whole-number division, `/` in C++ and `//` in Python.
    """
    parts = []
    for atom, coef in index.terms:
        if isinstance(atom, str):
            text = identifier(atom)
        elif isinstance(atom, Loaded):
            text = loaded(atom)
        else:
            sign = divide if isinstance(atom, Div) else "%"
            text = f"(({print_index(atom.arg, loaded, divide)}) {sign} {_factor(atom.by)})"
        parts.append(text if isinstance(coef, int) and coef == 1 else f"{_factor(coef)}*{text}")
    if not parts or not (isinstance(index.const, int) and index.const == 0):
        parts.append(print_size(index.const))
    return " + ".join(parts).replace("+ -", "- ")


def _factor(size: Size) -> str:
    text = print_size(size)
    return f"({text})" if "*" in text and not text.startswith("(") else text
