"""torch's symbolic integers as sizes, and how each symbol is computed from the caller's arguments.

Nothing here asks torch whether a relation holds: that would add a guard. What the guards so far say is used: a size
that is a multiple of 4 (a view into 4 heads needs that) is written as 4 times a symbol, so that views of it are
polynomials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Max, Mod, PythonMod
from torch.utils._sympy.printers import PythonPrinter

from fusewise.errors import Unsupported
from fusewise.ir.builder import Builder
from fusewise.ir.graph import SymbolInfo
from fusewise.ir.sizes import Size, divide, norm, symbol

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Symbols:
    """Turns SymInts into sizes and declares each symbol that appears with its builder.

    Args:
        builder: takes the declarations.
        arguments: what the caller passes, fake tensors and SymInts, in order.
    """

    def __init__(self, builder: Builder, arguments: Sequence[Any]) -> None:
        self._builder = builder
        self._sources: dict[sympy.Expr, str] = {}
        self._known: dict[sympy.Expr, Size] = {}
        self._declared: set[str] = set()
        self._fresh = 0
        self._signed: set[str] = set()
        self._facts: dict[sympy.Expr, tuple[sympy.Symbol, int, int]] = {}
        for position, argument in enumerate(arguments):
            if isinstance(argument, torch.SymInt):
                self._offer(argument, f"inputs[{position}]")
        for position, argument in enumerate(arguments):
            if isinstance(argument, torch.Tensor) and argument.layout == torch.strided:
                for dim, size in enumerate(argument.shape):
                    self._offer(size, f"inputs[{position}].size({dim})")
                for dim, stride in enumerate(argument.stride()):
                    self._offer(stride, f"inputs[{position}].stride({dim})")

    def size(self, value: int | torch.SymInt) -> Size:
        """A size; raises `Unsupported` where it is not known before the call."""
        if isinstance(value, int):
            return int(value)
        if is_ragged(value):
            raise Unsupported("the size of a nested tensor's ragged dim")
        return self._convert(value.node.expr, value.node.shape_env)

    def sizes(self, values: Sequence[int | torch.SymInt]) -> tuple[Size, ...]:
        """A shape or strides."""
        return tuple(self.size(v) for v in values)

    def any(self) -> bool:
        """True where the graph has a size symbol."""
        return bool(self._declared)

    def may_be_negative(self, size: Size) -> bool:
        """True where a symbol in `size` is a number that the caller passes and that may be below 0."""
        return not isinstance(size, int) and any(str(s) in self._signed for s in size.free_symbols)

    def _offer(self, value: int | torch.SymInt, text: str) -> None:
        if not isinstance(value, torch.SymInt):
            return
        if not self._facts:
            self._facts = _multiples(value.node.shape_env)
        self._sources.setdefault(value.node.expr, text)
        factor, rest = value.node.expr.as_coeff_Mul()
        if rest.is_Symbol and factor.is_Integer and factor != 1:
            self._sources.setdefault(rest, f"({text} // {int(factor)})")

    def _convert(self, expr: sympy.Expr, env: Any) -> Size:
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self._make(expr, env)
        return known

    def _make(self, expr: sympy.Expr, env: Any) -> Size:
        if expr.is_Integer:
            return int(expr)
        if expr in self._facts:
            base, whole, part = self._facts[expr]
            return norm(whole // part * self._declare(f"{base}_{whole}", FloorDiv(base, whole), env))
        if expr.is_Symbol:
            return self._declare(str(expr), expr, env)
        if expr.is_Add or expr.is_Mul:
            parts = [self._convert(a, env) for a in expr.args]
            total = parts[0]
            for part_ in parts[1:]:
                total = total + part_ if expr.is_Add else total * part_
            return norm(total)
        if expr.is_Pow and expr.args[1].is_Integer and int(expr.args[1]) >= 0:
            return norm(self._convert(expr.args[0], env) ** int(expr.args[1]))
        if isinstance(expr, FloorDiv):
            quotient = divide(*(self._convert(a, env) for a in expr.args))
            if quotient is not None:
                return quotient
        if isinstance(expr, (Mod, PythonMod)) and divide(*(self._convert(a, env) for a in expr.args)) is not None:
            return 0
        if isinstance(expr, Max) and len(expr.args) == 2 and 1 in expr.args:
            # a stride beside a size that may be 0; where it is 0 no element exists and no stride counts
            (other,) = (a for a in expr.args if a != 1)
            return self._convert(other, env)
        self._fresh += 1
        return self._declare(f"d{self._fresh}", expr, env)

    def _declare(self, name: str, expr: sympy.Expr, env: Any) -> sympy.Symbol:
        """The size symbol `name`, which stands for `expr`."""
        if name not in self._declared:
            given = expr.xreplace({e: sympy.Symbol(text) for e, text in self._sources.items()})
            unknown = expr.free_symbols & given.free_symbols
            if unknown:
                raise Unsupported(f"a size that is not known before the call: {min(map(str, unknown))}")
            low, high = _bounds(expr, env)
            self._declared.add(name)
            if low < 0:
                self._signed.add(name)
            text = PythonPrinter().doprint(given)
            self._builder.symbol(name, SymbolInfo(hint=_hint(expr, env), definition=text, low=low, high=high))
        return symbol(name)


def is_ragged(value: int | torch.SymInt) -> bool:
    """True for the size of a nested tensor's ragged dim: it stands for several numbers, and is none itself."""
    return isinstance(value, torch.SymInt) and bool(value.node.is_nested_int())


def hint_of(value: int | torch.SymInt) -> int:
    """The value at capture; adds no guard."""
    return value if isinstance(value, int) else _hint(value.node.expr, value.node.shape_env)


def _hint(expr: sympy.Expr, env: Any) -> int:
    """The value at capture, by torch's own record."""
    known = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
    value = expr.xreplace({s: known[s] for s in expr.free_symbols if s in known})
    return int(value) if value.is_number else 2


def _bounds(expr: sympy.Expr, env: Any) -> tuple[int, int | None]:
    bound = env.bound_sympy(expr)
    low = int(bound.lower) if bound.lower.is_Integer else INT64_MIN
    high = int(bound.upper) if bound.upper.is_Integer and bound.upper < INT64_MAX - 1 else None
    return max(low, INT64_MIN), high


def _multiples(env: Any) -> dict[sympy.Expr, tuple[sympy.Symbol, int, int]]:
    """What the guards say about multiples: expression -> (s, whole, part), meaning s is a multiple of `whole` and the
    expression is s / part. Each such s itself is among them, with part 1."""
    parts: dict[sympy.Symbol, dict[sympy.Expr, int]] = {}
    for guard in env.guards:
        relation = guard.expr
        if not isinstance(relation, sympy.Eq):
            continue
        left, right = relation.args
        if isinstance(left, (Mod, PythonMod)) and right == 0:
            base, by = left.args
            if base.is_Symbol and by.is_Integer and int(by) > 1:
                parts.setdefault(base, {})[FloorDiv(base, by)] = int(by)
            continue
        terms = sympy.expand(left - right).as_coefficients_dict()
        symbols = [t for t in terms if t.is_Symbol]
        others = [t for t in terms if not t.is_Symbol]
        if len(symbols) == 1 and len(others) == 1 and others[0].free_symbols == {symbols[0]}:
            factor = -terms[others[0]] / terms[symbols[0]]
            if factor.is_Integer and int(factor) > 1 and isinstance(others[0], FloorDiv):
                parts.setdefault(symbols[0], {})[others[0]] = int(factor)
    found: dict[sympy.Expr, tuple[sympy.Symbol, int, int]] = {}
    for base, quotients in parts.items():
        whole = math.lcm(*quotients.values())
        found[base] = (base, whole, 1)
        found.update({expr: (base, whole, part) for expr, part in quotients.items()})
    return found
