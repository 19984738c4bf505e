"""Index expressions: sums of coefficient x atom, where an atom is an axis, a quotient, a remainder or a loaded index.

`Index` is immutable and hashable. Axes are named by strings and run from 0 to their size. Coefficients and constants
are sizes (integers or polynomials over size symbols). Division rounds down and remainders are never negative, since
an index is never negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fusewise.ir.sizes import Size, divide, norm, same


@dataclass(frozen=True, slots=True)
class Div:
    """floor(arg / by)."""

    arg: Index
    by: Size


@dataclass(frozen=True, slots=True)
class Mod:
    """arg mod by."""

    arg: Index
    by: Size


@dataclass(frozen=True, slots=True)
class Loaded:
    """An index that is itself a value: node `node` of the graph (an integer tensor) read at `at`.

    After lowering `node` is the id of an instruction of the kernel and `at` is empty.
    """

    node: int
    at: tuple[Index, ...]


Atom: TypeAlias = "str | Div | Mod | Loaded"


@dataclass(frozen=True, slots=True)
class Index:
    """sum(coefficient x atom) + const; terms are in a fixed order and no coefficient is 0."""

    terms: tuple[tuple[Atom, Size], ...] = ()
    const: Size = 0

    def __add__(self, other: Index | Size) -> Index:
        if not isinstance(other, Index):
            return Index(self.terms, norm(self.const + other))
        merged: dict[Atom, Size] = dict(self.terms)
        for atom, coef in other.terms:
            merged[atom] = norm(merged.get(atom, 0) + coef)
        return make(merged, norm(self.const + other.const))

    def __sub__(self, other: Index | Size) -> Index:
        return self + other * -1 if isinstance(other, Index) else self + -1 * other

    def __mul__(self, factor: Size) -> Index:
        if isinstance(factor, int) and factor == 1:
            return self
        return make({atom: norm(coef * factor) for atom, coef in self.terms}, norm(self.const * factor))

    def coefficient(self, axis: str) -> Size:
        """Coefficient of a bare axis (0 where it does not appear bare)."""
        for atom, coef in self.terms:
            if atom == axis:
                return coef
        return 0

    def axes(self) -> frozenset[str]:
        """Every axis in the expression, nested ones included (not those of `Loaded` instructions)."""
        found: set[str] = set()
        for atom, _ in self.terms:
            if isinstance(atom, str):
                found.add(atom)
            elif isinstance(atom, Loaded):
                for index in atom.at:
                    found |= index.axes()
            else:
                found |= atom.arg.axes()
        return frozenset(found)

    def loaded(self) -> tuple[Loaded, ...]:
        """Every `Loaded` atom, nested ones included."""
        out: list[Loaded] = []
        for atom, _ in self.terms:
            if isinstance(atom, Loaded):
                out.append(atom)
            elif not isinstance(atom, str):
                out.extend(atom.arg.loaded())
        return tuple(out)

    @property
    def is_affine(self) -> bool:
        """True where each atom is a bare axis."""
        return all(isinstance(atom, str) for atom, _ in self.terms)

    def __repr__(self) -> str:
        return render(self)


def make(terms: Mapping[Atom, Size] | Iterable[tuple[Atom, Size]], const: Size = 0) -> Index:
    """An `Index` in normal form: zero terms dropped, terms ordered, and parts of a number put together again.

    c*k*(x // k) + c*(x mod k) is c*x, and c*k*((x // k) mod n) + c*(x mod k) is c*(x mod k*n).
    """
    table = dict(terms)
    for atom, coef in list(table.items()):
        if not isinstance(atom, Mod):
            continue
        above = _quotient(atom.arg, atom.by)
        if above in table and same(table[above], coef * atom.by):
            del table[atom], table[above]
            return make(table, const) + atom.arg * coef
        for other, factor in table.items():
            if isinstance(other, Mod) and other.arg == Index(((above, 1),)) and same(factor, coef * atom.by):
                del table[atom], table[other]
                return make(table, const) + Index(((Mod(atom.arg, norm(atom.by * other.by)), coef),))
    kept = [(a, c) for a, c in table.items() if not (isinstance(c, int) and c == 0)]
    kept.sort(key=lambda item: _order(item[0]))
    return Index(tuple(kept), const)


def axis(name: str) -> Index:
    """The index that is the bare axis `name`."""
    return Index(((name, 1),))


def constant(value: Size) -> Index:
    """A constant index."""
    return Index((), norm(value))


def floordiv(arg: Index, by: Size, sizes: Mapping[str, Size]) -> Index:
    """floor(arg / by), simplified where the axes' sizes allow."""
    if isinstance(by, int) and by == 1:
        return arg
    whole, rest = _split(arg, by)
    if _below(rest, by, sizes):
        return whole
    return whole + Index(((_quotient(rest, by), 1),))


def _quotient(arg: Index, by: Size) -> Div:
    """The atom floor(arg / by): floor(floor(x / a) / by) is floor(x / (a * by))."""
    if len(arg.terms) == 1 and same(arg.const, 0):
        inner, coef = arg.terms[0]
        if isinstance(inner, Div) and same(coef, 1):
            return Div(inner.arg, norm(inner.by * by))
    return Div(arg, by)


def modulo(arg: Index, by: Size, sizes: Mapping[str, Size]) -> Index:
    """arg mod by, simplified where the axes' sizes allow."""
    if isinstance(by, int) and by == 1:
        return constant(0)
    _, rest = _split(arg, by)
    if _below(rest, by, sizes):
        return rest
    return Index(((Mod(rest, by), 1),))


def substitute(index: Index, table: Mapping[str, Index], sizes: Mapping[str, Size]) -> Index:
    """`index` with axes replaced by the table's expressions; quotients are simplified again with `sizes`."""
    if not table:
        return index
    out = Index((), index.const)
    for atom, coef in index.terms:
        out = out + _substitute_atom(atom, table, sizes) * coef
    return out


def map_loaded(index: Index, change: Callable[[Loaded], Index]) -> Index:
    """`index` with each `Loaded` atom replaced by what `change` returns for it."""
    out = Index((), index.const)
    for atom, coef in index.terms:
        if isinstance(atom, Loaded):
            out = out + change(atom) * coef
        elif isinstance(atom, str):
            out = out + Index(((atom, coef),))
        else:
            inner = map_loaded(atom.arg, change)
            out = out + Index(((type(atom)(inner, atom.by), coef),))
    return out


def upper_bound(index: Index, sizes: Mapping[str, Size]) -> Size | None:
    """Greatest value over the axes' ranges, where every coefficient is known to be positive, else None."""
    total: Size = index.const
    for atom, coef in index.terms:
        if isinstance(coef, int):
            if coef < 0:
                return None
        elif not coef.is_positive:
            return None
        if isinstance(atom, str):
            if atom not in sizes:
                return None
            top: Size = norm(sizes[atom] - 1)
        elif isinstance(atom, Mod):
            top = norm(atom.by - 1)
        elif isinstance(atom, Div):
            inner = upper_bound(atom.arg, sizes)
            if not (isinstance(inner, int) and isinstance(atom.by, int)):
                return None
            top = inner // atom.by
        else:
            return None
        total = norm(total + coef * top)
    return total


def render(index: Index) -> str:
    """Text form, for example `4096*x0 + r0 + 3` or `x0//7`."""
    parts = [_render_term(atom, coef) for atom, coef in index.terms]
    if not parts or not (isinstance(index.const, int) and index.const == 0):
        parts.append(str(index.const))
    return " + ".join(parts).replace("+ -", "- ")


def _render_term(atom: Atom, coef: Size) -> str:
    if isinstance(atom, str):
        text = atom
    elif isinstance(atom, Loaded):
        text = f"%{atom.node}" + (f"[{', '.join(map(render, atom.at))}]" if atom.at else "")
    else:
        sign = "//" if isinstance(atom, Div) else "%"
        inner = render(atom.arg)
        text = f"({inner}){sign}({atom.by})" if " " in inner else f"{inner}{sign}({atom.by})"
        text = f"({text})"
    if isinstance(coef, int) and coef == 1:
        return text
    return f"{coef}*{text}" if isinstance(coef, int) or coef.is_Symbol else f"({coef})*{text}"


def _order(atom: Atom) -> tuple[int, int, str]:
    # shorter names first, so that a9 stands before a10: the order of terms must not depend on how axes are numbered
    text = atom if isinstance(atom, str) else repr(atom)
    return (not isinstance(atom, str), len(text), text)


def _substitute_atom(atom: Atom, table: Mapping[str, Index], sizes: Mapping[str, Size]) -> Index:
    if isinstance(atom, str):
        return table.get(atom, axis(atom))
    if isinstance(atom, Loaded):
        return Index(((Loaded(atom.node, tuple(substitute(i, table, sizes) for i in atom.at)), 1),))
    inner = substitute(atom.arg, table, sizes)
    return floordiv(inner, atom.by, sizes) if isinstance(atom, Div) else modulo(inner, atom.by, sizes)


def _split(arg: Index, by: Size) -> tuple[Index, Index]:
    """(q, r) with arg = q * by + r, where q takes each term whose coefficient `by` divides."""
    whole: list[tuple[Atom, Size]] = []
    rest: list[tuple[Atom, Size]] = []
    for atom, coef in arg.terms:
        quotient = divide(coef, by)
        if quotient is None:
            rest.append((atom, coef))
        else:
            whole.append((atom, quotient))
    if isinstance(arg.const, int) and isinstance(by, int):
        return make(whole, arg.const // by), make(rest, arg.const % by)
    quotient = divide(arg.const, by)
    if quotient is None:
        return make(whole), make(rest, arg.const)
    return make(whole, quotient), make(rest)


def _below(index: Index, limit: Size, sizes: Mapping[str, Size]) -> bool:
    """True where 0 <= index < limit is certain."""
    if not index.terms and isinstance(index.const, int) and isinstance(limit, int):
        return 0 <= index.const < limit
    if isinstance(index.const, int) and index.const < 0:
        return False
    top = upper_bound(index, sizes)
    if top is None:
        return False
    gap = norm(limit - top)
    return gap > 0 if isinstance(gap, int) else bool(gap.is_positive)
