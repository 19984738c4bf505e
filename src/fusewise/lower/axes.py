"""Order of a kernel's axes, and fewer of them: neighbours that every access walks as one are one axis."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from fusewise.ir import affine
from fusewise.ir.affine import Div, Index, Mod
from fusewise.ir.sizes import Size, hint, norm, same
from fusewise.lower.body import Body
from fusewise.lower.kernel import Axis, IndexOf, Instr, Load, Random, Reduce, Store


def order_axes(body: Body, hints: Mapping[str, int]) -> tuple[tuple[Axis, ...], Body]:
    """The axes (parallel x0.., loop l0.., reduce r0.., each outermost first), and the body in those names."""
    sizes = dict(body.axes)
    names: dict[str, str] = {}
    axes: tuple[Axis, ...] = ()
    apart = body.reduce | body.loop
    for letter, kind in (("x", frozenset(sizes) - apart), ("l", body.loop), ("r", body.reduce)):
        ordered, body = _collapse(_sorted([a for a in body.axes if a in kind], body, hints), sizes, body)
        names |= {a: f"{letter}{i}" for i, a in enumerate(ordered)}
        axes += tuple(Axis(names[a], norm(sizes[a]), letter == "r", letter == "l") for a in ordered)
    table = {a: affine.axis(n) for a, n in names.items()}
    renamed = {a.name: a.size for a in axes}
    instrs = tuple(_map_index(i, lambda x: affine.substitute(x, table, renamed)) for i in body.instrs)
    varies = tuple(frozenset(names[a] for a in v) for v in body.varies)
    reduce = frozenset(a.name for a in axes if a.reduce)
    loop = frozenset(a.name for a in axes if a.loop)
    return axes, replace(body, axes=renamed, reduce=reduce, loop=loop, instrs=instrs, varies=varies)


def _sorted(axes: list[str], body: Body, hints: Mapping[str, int]) -> list[str]:
    """Outermost first: the order in which most bytes are walked, stores counting double."""
    votes: dict[tuple[str, str], float] = {}
    for instr in body.instrs:
        if not isinstance(instr, (Load, Store)):
            continue
        touched = [a for a in axes if a in instr.index.axes()]
        points = 1.0
        for name in instr.index.axes():
            points *= hint(body.axes[name], hints)
        weight = points * body.buffers[instr.buffer].dtype.bytes * (2 if isinstance(instr, Store) else 1)
        steps = {a: abs(hint(instr.index.coefficient(a), hints)) for a in touched}
        for a in touched:
            for b in touched:
                if steps[a] > steps[b] > 0:
                    votes[a, b] = votes.get((a, b), 0.0) + weight
    place = {a: i for i, a in enumerate(axes)}

    def compare(a: str, b: str) -> int:
        gap = votes.get((a, b), 0.0) - votes.get((b, a), 0.0)
        return place[a] - place[b] if gap == 0 else (-1 if gap > 0 else 1)

    return sorted(axes, key=functools.cmp_to_key(compare))


def _collapse(axes: list[str], sizes: dict[str, Size], body: Body) -> tuple[list[str], Body]:
    indexes = [i for instr in body.instrs for i in _indexes(instr)]
    at = 0
    while at + 1 < len(axes):
        outer, inner = axes[at], axes[at + 1]
        if not all(_walks_as_one(i, outer, inner, sizes[inner]) for i in indexes):
            at += 1
            continue
        sizes[inner] = norm(sizes[outer] * sizes[inner])
        axes.pop(at)
        drop = functools.partial(_drop, outer=outer)
        indexes = [drop(i) for i in indexes]
        body = replace(
            body,
            instrs=tuple(_map_index(i, drop) for i in body.instrs),
            varies=tuple(v - {outer} for v in body.varies),
        )
        at = max(0, at - 1)
    return axes, body


def _walks_as_one(index: Index, outer: str, inner: str, inner_size: Size) -> bool:
    if not same(index.coefficient(outer), index.coefficient(inner) * inner_size):
        return False
    nested = [a.arg for a, _ in index.terms if isinstance(a, (Div, Mod))]
    return all(_walks_as_one(i, outer, inner, inner_size) for i in nested)


def _drop(index: Index, outer: str) -> Index:
    """`index` without the axis `outer`, which the inner axis now covers."""
    out = Index((), index.const)
    for atom, coef in index.terms:
        if isinstance(atom, (Div, Mod)):
            out = out + Index(((type(atom)(_drop(atom.arg, outer), atom.by), coef),))
        elif atom != outer:
            out = out + Index(((atom, coef),))
    return out


def _indexes(instr: Instr) -> tuple[Index, ...]:
    match instr:
        case Load(index=i) | Store(index=i) | IndexOf(index=i):
            return (i,)
        case Random(element=i):
            return (i,)
        case Reduce(position=i) if i is not None:
            return (i,)
        case _:
            return ()


def _map_index(instr: Instr, change: object) -> Instr:
    assert callable(change)
    match instr:
        case Load() | Store() | IndexOf():
            return replace(instr, index=change(instr.index))
        case Random():
            return replace(instr, element=change(instr.element))
        case Reduce() if instr.position is not None:
            return replace(instr, position=change(instr.position))
        case _:
            return instr
