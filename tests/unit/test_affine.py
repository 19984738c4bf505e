"""The algebra of index expressions: whatever is folded, the numbers stay."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from fusewise.ir.affine import Div, Index, Mod, axis, floordiv, modulo, render, substitute, upper_bound

SIZES = {"a": 6, "b": 4, "c": 5}
FACTORS = st.integers(1, 12)


def value(index: Index, at: dict[str, int]) -> int:
    total = index.const
    for atom, coef in index.terms:
        if isinstance(atom, str):
            part = at[atom]
        else:
            assert isinstance(atom, Div | Mod)
            inner = value(atom.arg, at)
            part = inner // atom.by if isinstance(atom, Div) else inner % atom.by
        total += coef * part
    assert isinstance(total, int)
    return total


def points() -> list[dict[str, int]]:
    return [dict(zip(SIZES, at, strict=True)) for at in product(*(range(n) for n in SIZES.values()))]


@st.composite
def indexes(draw: st.DrawFn, depth: int = 3) -> Index:
    """Sums of axes, of quotients and of remainders, with the number that each point should give."""
    total = Index((), draw(st.integers(0, 7)))
    for name in draw(st.lists(st.sampled_from(sorted(SIZES)), max_size=3)):
        total = total + axis(name) * draw(FACTORS)
    if depth and draw(st.booleans()):
        inner, by = draw(indexes(depth - 1)), draw(FACTORS)
        make = draw(st.sampled_from([floordiv, modulo]))
        total = total + make(inner, by, SIZES) * draw(FACTORS)
    return total


@given(indexes(), FACTORS)
def test_quotients_and_remainders_keep_the_numbers(index: Index, by: int) -> None:
    whole, rest = floordiv(index, by, SIZES), modulo(index, by, SIZES)
    for at in points():
        number = value(index, at)
        assert (value(whole, at), value(rest, at)) == divmod(number, by)
        assert value(whole * by + rest, at) == number


@given(indexes(), indexes())
def test_sums_and_products_keep_the_numbers(a: Index, b: Index) -> None:
    for at in points()[::7]:
        assert value(a + b, at) == value(a, at) + value(b, at)
        assert value(a - b, at) == value(a, at) - value(b, at)
        assert value(a * 3, at) == 3 * value(a, at)


@given(indexes(), indexes(depth=1))
def test_a_substitution_keeps_the_numbers(index: Index, by: Index) -> None:
    replaced = substitute(index, {"a": by}, {"b": SIZES["b"], "c": SIZES["c"], "a": SIZES["a"]})
    for at in points()[::5]:
        assert value(replaced, at) == value(index, {**at, "a": value(by, at)})


@given(indexes())
def test_no_point_is_above_the_bound(index: Index) -> None:
    bound = upper_bound(index, SIZES)
    if bound is not None:
        assert max(value(index, at) for at in points()) <= bound


def test_the_parts_of_a_number_fold_back() -> None:
    extents = (16, 4096, 32, 16)
    flat = {"x": 16 * 4096 * 32 * 16}
    total, step = Index(), 1
    for place in range(len(extents) - 1, -1, -1):
        part = floordiv(axis("x"), step, flat)
        if place:
            part = modulo(part, extents[place], flat)
        total = total + part * step
        step *= extents[place]
    assert render(total) == "x"


def test_some_of_the_parts_of_a_number_are_one_remainder() -> None:
    flat = {"x": 1 << 20}
    low, high = modulo(axis("x"), 16, flat), modulo(floordiv(axis("x"), 16, flat), 32, flat)
    assert render(low + high * 16) == "(x%(512))"
