"""torch's symbolic integers as sizes, and how each symbol is computed from the caller's arguments.

Nothing here asks torch whether a relation holds: that would add a guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from fusewise.errors import Unsupported
from fusewise.ir.builder import Builder
from fusewise.ir.graph import SymbolInfo
from fusewise.ir.sizes import Size, norm, symbol

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Symbols:
    """Turns SymInts into sizes and declares each symbol that appears with its builder.

    Args:
        builder: takes the declarations.
        arguments: what the caller passes, fake tensors and SymInts, in order.
    """

    def __init__(self, builder: Builder, arguments: Sequence[Any]) -> None:
        self._builder = builder
        self._sources: dict[sympy.Symbol, str] = {}
        self._declared: dict[str, int] = {}
        self._fresh: dict[sympy.Expr, sympy.Symbol] = {}
        self._signed: set[str] = set()
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
        return self._convert(value.node.expr, value.node.shape_env)

    def sizes(self, values: Sequence[int | torch.SymInt]) -> tuple[Size, ...]:
        """A shape or strides."""
        return tuple(self.size(v) for v in values)

    def may_be_negative(self, size: Size) -> bool:
        """True where a symbol in `size` is a number that the caller passes and that may be below 0."""
        return not isinstance(size, int) and any(str(s) in self._signed for s in size.free_symbols)

    def _offer(self, value: int | torch.SymInt, text: str) -> None:
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            self._sources.setdefault(value.node.expr, text)
        elif isinstance(value, torch.SymInt):
            # k * s with a number k: the only other form that a caller's tensor can be asked for
            factor, rest = value.node.expr.as_coeff_Mul()
            if rest.is_Symbol and factor.is_Integer and factor != 1:
                self._sources.setdefault(rest, f"({text} // {int(factor)})")

    def _convert(self, expr: sympy.Expr, env: Any) -> Size:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            return self._declare(expr, expr, env)
        if expr.is_Add or expr.is_Mul:
            parts = [self._convert(a, env) for a in expr.args]
            total = parts[0]
            for part in parts[1:]:
                total = total + part if expr.is_Add else total * part
            return norm(total)
        if expr.is_Pow and expr.args[1].is_Integer and int(expr.args[1]) >= 0:
            return norm(self._convert(expr.args[0], env) ** int(expr.args[1]))
        fresh = self._fresh.setdefault(expr, sympy.Symbol(f"d{len(self._fresh)}"))
        return self._declare(fresh, expr, env)

    def _declare(self, name: sympy.Symbol, expr: sympy.Expr, env: Any) -> Size:
        """The size symbol `name`, which stands for `expr`."""
        if str(name) not in self._declared:
            unknown = [s for s in expr.free_symbols if s not in self._sources]
            if unknown:
                raise Unsupported(f"a size that is not known before the call: {unknown[0]}")
            low, high = _bounds(expr, env)
            self._declared[str(name)] = low
            if low < 0:
                self._signed.add(str(name))
            by_source = {s: sympy.Symbol(t) for s, t in self._sources.items()}
            text = PythonPrinter().doprint(expr.xreplace(by_source))
            info = SymbolInfo(hint=_hint(expr, env), definition=text, low=low, high=high)
            self._builder.symbol(str(name), info)
        return symbol(str(name))


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
