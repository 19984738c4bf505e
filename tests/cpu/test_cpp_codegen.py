"""Generated C++ kernels of every form, run for real against the kernel interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from fusewise.codegen.cpp import unit
from fusewise.errors import IRError, Unsupported
from fusewise.ir import sizes
from fusewise.ir.affine import axis, floordiv, modulo
from fusewise.ir.dtypes import ALL, BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType
from fusewise.ir.rounding import NUMPY, Array
from fusewise.lower.kernel import Axis
from fusewise.runtime.cpp import LoadedLibrary, build
from tests.cpu.cpp_kernels import Case, Make, actual, at, compare, expected, loaded, to_stored

RNG = np.random.default_rng(7)

HARD = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 0.5, 2.5, -2.5, 1e-30, 65504.0]


def floats(count: int, hard: bool = False) -> Array:
    values = RNG.standard_normal(count).astype(np.float64) * 3
    if hard:
        places = RNG.permutation(count)[: len(HARD)]
        values[places] = np.array(HARD)[: len(places)]
    return values


def data(dtype: DType, count: int, hard: bool = False) -> Array:
    """Values of any dtype; `hard` mixes in NaN, infinities, subnormals, extremes."""
    if dtype == BOOL:
        return RNG.integers(0, 2, count).astype(bool)
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return floats(count, hard).astype(NUMPY[dtype.name])
    low, high = (np.iinfo(NUMPY[dtype.name]).min, np.iinfo(NUMPY[dtype.name]).max) if hard else (0, 20)
    values = RNG.integers(low, high, count, NUMPY[dtype.name], endpoint=True)
    if hard and count >= 4:
        values[:4] = [low, high, 0, high - 1]
        if dtype.kind == "int":
            values[3] = -1
    return values


# ------------------------------------------------------------------------------------------------------ pointwise


def ops_kernel(name: str, dtype: DType, unary: list[str], binary: list[str]) -> Case:
    """Many ops on the same two operands, an output each."""
    m = Make(name, [Axis("x0", 131)], "x0")
    place = at(("x0", 1))
    a, b = m.load("a", dtype, place), m.load("b", dtype, place)
    for op in unary:
        m.store(f"o_{op}", place, m.op(op, a))
    for op in binary:
        m.store(f"o_{op}", place, m.op(op, a, b))
    inputs = {"a": data(dtype, 131, True), "b": data(dtype, 131, True)}
    return Case(m.done(), inputs, {f"o_{op}": 131 for op in unary + binary})


def casts_kernel(source: DType) -> Case:
    """A cast to every other dtype. Floats stay inside the range of the integers: beyond it C++ says nothing."""
    m = Make(f"cast_{source}", [Axis("x0", 77)], "x0")
    a = m.load("a", source, at(("x0", 1)))
    small = m.load("small", source, at(("x0", 1)))
    for target in ALL:
        if target != source:
            operand = small if source.is_float and target.is_integer else a
            m.store(f"o_{target}", at(("x0", 1)), m.op("cast", operand, dtype=target))
    inputs = {
        "a": data(source, 77, hard=True),
        "small": np.abs(data(source, 77)) if source.is_float else data(source, 77),
    }
    return Case(m.done(), inputs, {f"o_{t}": 77 for t in ALL if t != source})


COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


def pointwise_cases() -> Iterator[Case]:
    for dtype in [I64, I32, I16, I8, U8]:
        arithmetic = ["add", "sub", "mul", "minimum", "maximum", "truncdiv", "floordiv", "truncrem"]
        bits = ["and", "or", "xor", "shl", "shr"]
        yield ops_kernel(f"ops_{dtype}", dtype, ["neg", "abs", "not"], arithmetic + bits + COMPARISONS)
    yield ops_kernel("ops_bool", BOOL, ["not"], ["and", "or", "xor", "maximum", "minimum", *COMPARISONS])
    for dtype in [F32, F64]:
        unary = ["neg", "abs", "floor", "ceil", "trunc", "round", "sqrt"]
        binary = ["add", "sub", "mul", "div", "minimum", "maximum", "fmod", "copysign"]
        yield ops_kernel(f"ops_{dtype}", dtype, unary, binary + COMPARISONS)
        m = Make(f"fma_{dtype}", [Axis("x0", 77)], "x0")
        m.store("o", at(("x0", 1)), m.op("fma", *(m.load(n, dtype, at(("x0", 1))) for n in "abc")))
        yield Case(m.done(), {n: data(dtype, 77) for n in "abc"}, {"o": 77})
    for source in ALL:
        yield casts_kernel(source)
    for dtype in ALL:
        m = Make(f"where_{dtype}", [Axis("x0", 53)], "x0")
        cond = m.load("c", BOOL, at(("x0", 1)))
        a, b = m.load("a", dtype, at(("x0", 1))), m.load("b", dtype, at())
        m.store("o", at(("x0", 1)), m.op("where", cond, a, b))
        yield Case(m.done(), {"c": data(BOOL, 53), "a": data(dtype, 53), "b": data(dtype, 1)}, {"o": 53})


def chain(name: str, count: sizes.Size, dtype: DType = F32) -> Make:
    m = Make(name, [Axis("x0", count)], "x0")
    x = m.op("cast", m.load("a", dtype, at(("x0", 1))), dtype=F32) if dtype != F32 else m.load("a", F32, at(("x0", 1)))
    y = m.op("sub", m.op("mul", x, m.const(0.3, F32)), m.const(0.1, F32))
    z = m.op("maximum", y, m.const(0.0, F32))
    m.store("o", at(("x0", 1)), z if dtype == F32 else m.op("cast", z, dtype=dtype))
    return m


def layout_cases() -> Iterator[Case]:
    any_count = chain("tail", sizes.symbol("s0")).done()
    for count in range(41):
        yield Case(any_count, {"a": data(F32, count)}, {"o": count}, {"s0": count})
    for count in [1, 16, 33]:
        yield Case(chain(f"tail_{count}", count).done(), {"a": data(F32, count)}, {"o": count})
    yield Case(chain("half_bf16", 1001, BF16).done(), {"a": floats(1001)}, {"o": 1001})
    yield Case(chain("half_f16", 1001, F16).done(), {"a": floats(1001)}, {"o": 1001})
    yield Case(chain("many_blocks", 30011).done(), {"a": floats(30011)}, {"o": 30011})
    n, k = sizes.symbol("s0"), sizes.symbol("s1")
    yield Case(chain("symbols", n * k + 3).done(), {"a": floats(63)}, {"o": 63}, {"s0": 6, "s1": 10})

    # [7, 5, 33]: transposed read, broadcast read, a step of 2, a read backwards, a strided store
    m = Make("strided", [Axis("x0", 7), Axis("x1", 5), Axis("x2", 33)], "x2")
    a = m.load("a", F32, at(("x2", 35), ("x1", 7), ("x0", 1)))
    b = m.load("b", F32, at(("x1", 1)))
    c = m.load("c", F32, at(("x2", 2), ("x0", 66)))
    d = m.load("d", F32, at(("x2", -1), const=32))
    total = m.op("add", m.op("add", a, b), m.op("mul", c, d))
    m.store("o", at(("x0", 165), ("x1", 33), ("x2", 1)), total)
    m.store("t", at(("x2", 35), ("x1", 7), ("x0", 1)), total)
    inputs = {"a": floats(1155), "b": floats(5), "c": floats(462), "d": floats(33)}
    yield Case(m.done(), {k: v.astype(np.float32) for k, v in inputs.items()}, {"o": 1155, "t": 1155})

    # quotient and remainder along the vector axis, and the index as a value
    x = {"x0": 100}
    m = Make("quotient", [Axis("x0", 100)], "x0")
    i = axis("x0")
    a = m.load("a", I32, floordiv(i, 7, x) * 7 + modulo(i, 7, x) * -1 + 6)
    j = m.op("cast", m.index(floordiv(i, 3, x)), dtype=I32)
    m.store("o", i, m.op("add", m.op("add", a, j), m.index(i * 5 + 2, I32)))
    yield Case(m.done(), {"a": data(I32, 105)}, {"o": 100})

    # quotients of numbers that fall below 0, as simplification leaves them
    m = Make("quotient_below", [Axis("x0", 40)], "x0")
    back = at(("x0", -2), const=14)
    m.store("o", i, m.load("a", I32, floordiv(back, 16, {}) * 16 + 80 + modulo(back, 16, {})))
    yield Case(m.done(), {"a": data(I32, 100)}, {"o": 40})

    for vector in ["x1", "x0", None]:
        m = Make(f"outer_{vector}", [Axis("x0", 37), Axis("x1", 19)], vector)
        a = m.load("a", F64, at(("x0", 19), ("x1", 1)))
        row = m.op("mul", m.load("r", F64, at(("x0", 1))), m.const(3.0, F64))
        m.store("o", at(("x0", 19), ("x1", 1)), m.op("sub", a, row))
        yield Case(m.done(), {"a": floats(37 * 19), "r": floats(37)}, {"o": 37 * 19})

    m = Make("no_axes", [], None)
    m.store("o", at(), m.op("add", m.load("a", F32, at()), m.const(1.5, F32)))
    yield Case(m.done(), {"a": data(F32, 1)}, {"o": 1})

    m = Make("empty_row", [Axis("x0", 5), Axis("x1", 0)], "x1")
    m.store("o", at(("x1", 1)), m.op("neg", m.load("a", F32, at(("x0", 1)))))
    yield Case(m.done(), {"a": data(F32, 5)}, {"o": 0})


def square_cases() -> Iterator[Case]:
    """Loads that are contiguous along another axis than the stores."""
    for dtype in ALL:
        m = Make(f"turn_{dtype}", [Axis("x0", 37), Axis("x1", 53)], "x1")
        m.store("o", at(("x0", 53), ("x1", 1)), m.load("a", dtype, at(("x1", 37), ("x0", 1))))
        yield Case(m.done(), {"a": data(dtype, 37 * 53, hard=True)}, {"o": 37 * 53})
    n, k = sizes.symbol("s0"), sizes.symbol("s1")
    m = Make("turn_symbols", [Axis("x0", 3), Axis("x1", n), Axis("x2", k)], "x2")
    place = axis("x0") * (n * k) + axis("x1") * k + axis("x2")
    a = m.load("a", F32, axis("x0") * (n * k) + axis("x2") * n + axis("x1"))
    b = m.load("b", F32, axis("x2") * n + axis("x1") + 1)
    row = m.op("exp", m.load("r", F32, axis("x1")))
    column = m.op("neg", m.load("c", F32, axis("x2")))
    total = m.op("add", m.op("mul", a, row), m.op("mul", b, column))
    m.store("o", place, m.op("add", total, m.load("d", F32, place)))
    inputs = {"a": 3 * 40 * 600, "b": 40 * 600 + 1, "r": 40, "c": 600, "d": 3 * 40 * 600}
    values = {name: data(F32, count) for name, count in inputs.items()}
    yield Case(m.done(), values, {"o": 3 * 40 * 600}, {"s0": 40, "s1": 600}, ulps=4)
    # reads of two axes at once, of which one square serves: the other is read lane by lane
    m = Make("turn_two", [Axis("x0", 20), Axis("x1", 18), Axis("x2", 33)], "x2")
    a = m.load("a", I64, at(("x0", 1), ("x1", 20), ("x2", 360)))
    b = m.load("b", I64, at(("x1", 1), ("x0", 18), ("x2", 360)))
    m.store("o", at(("x0", 594), ("x1", 33), ("x2", 1)), m.op("sub", a, b))
    yield Case(m.done(), {"a": data(I64, 11880), "b": data(I64, 11880)}, {"o": 11880})


def large_cases() -> Iterator[Case]:
    """Outputs that are stored past the cache."""
    count = (8 << 20) + 5
    yield Case(chain("large", count).done(), {"a": floats(count)}, {"o": count})
    n = sizes.symbol("s0")
    m = Make("large_rows", [Axis("x0", n), Axis("x1", 2048)], "x1")
    a = m.op("cast", m.load("a", U8, at(("x0", 2048), ("x1", 1))), dtype=F64)
    m.store("o", at(("x0", 2048), ("x1", 1)), m.op("mul", a, m.const(0.5, F64)))
    m.store("h", at(("x0", 2048), ("x1", 1)), m.op("cast", a, dtype=BF16))
    yield Case(m.done(), {"a": data(U8, 2048 * 2100)}, dict.fromkeys("oh", 2048 * 2100), {"s0": 2100})


def large_row_cases() -> Iterator[Case]:
    n = sizes.symbol("s0")
    m = Make("direct_rows", [Axis("x0", 3), Axis("r0", n, True), Axis("r1", 32, True)], "r1")
    place = axis("x0") * (n * 32) + axis("r0") * 32 + axis("r1")
    a = m.load("a", F32, place)
    m.store("o", place, m.op("sub", a, m.reduce("max", a)))
    yield Case(m.done(), {"a": data(F32, 3 * 50 * 32)}, {"o": 3 * 50 * 32}, {"s0": 50})


def load_cases() -> Iterator[Case]:
    # an embedding: the row's number is data
    m = Make("embedding", [Axis("x0", 11), Axis("x1", 45)], "x1")
    i = m.load("i", I64, at(("x0", 1)))
    m.check(m.op("lt", i, m.const(20, I64)))
    m.store("o", at(("x0", 45), ("x1", 1)), m.load("w", F32, loaded(i) * 45 + axis("x1")))
    yield Case(m.done(), {"i": RNG.integers(0, 20, 11), "w": data(F32, 900)}, {"o": 495})

    # a gather along the vector axis, with 32-bit indexes and a mask
    m = Make("gather", [Axis("x0", 75)], "x0")
    i = m.load("i", I32, at(("x0", 1)))
    mask = m.op("ge", i, m.const(0, I32))
    m.check(m.op("lt", i, m.const(50, I32)), mask)
    m.store("o", at(("x0", 1)), m.load("w", BF16, loaded(i), mask, 0.5))
    yield Case(m.done(), {"i": RNG.integers(-20, 50, 75), "w": floats(50)}, {"o": 75})

    # padding: nothing is read outside
    for dtype in [F32, F64, I8, F16, BOOL]:
        m = Make(f"pad_{dtype}", [Axis("x0", 3), Axis("x1", 61)], "x1")
        j = m.index(axis("x1"))
        inside = m.op("and", m.op("ge", j, m.const(5, I64)), m.op("lt", j, m.const(45, I64)))
        fill = 1 if dtype == BOOL else 3
        m.store("o", at(("x0", 61), ("x1", 1)), m.load("a", dtype, at(("x0", 40), ("x1", 1), const=-5), inside, fill))
        yield Case(m.done(), {"a": data(dtype, 120)}, {"o": 183})

    # the mask differs from lane to lane and the address does not; and the other way round
    m = Make("mask_mixed", [Axis("x0", 40)], "x0")
    low = m.op("lt", m.index(axis("x0")), m.const(13, I64))
    flag = m.load("f", BOOL, at())
    a = m.load("a", F32, at(), low, -1.0)
    b = m.load("b", F32, at(("x0", 2)), flag, -2.0)
    c = m.load("c", F32, at(("x0", 1)), flag, -3.0)
    m.store("o", at(("x0", 1)), m.op("add", m.op("add", a, b), c))
    yield Case(m.done(), {"f": np.array([True]), "a": data(F32, 1), "b": data(F32, 80), "c": data(F32, 40)}, {"o": 40})


def random_cases() -> Iterator[Case]:
    seed = np.array([(5 << 40) + 12345], np.int64)
    for kind, dtype in [("keep", BOOL), ("uniform", F32)]:
        for offset in [0, 3]:
            m = Make(f"{kind}_row_{offset}", [Axis("x0", 3), Axis("x1", 1003)], "x1")
            s = m.load("seed", I64, at())
            r = m.random(kind, s, at(("x0", 1003), ("x1", 1), const=offset), 9, 0.9, dtype)
            m.store("o", at(("x0", 1003), ("x1", 1)), r)
            yield Case(m.done(), {"seed": seed}, {"o": 3009})
        m = Make(f"{kind}_step", [Axis("x0", 300)], "x0")
        r = m.random(kind, m.load("seed", I64, at()), at(("x0", 3)), 1, 0.37, dtype)
        m.store("o", at(("x0", 1)), r)
        yield Case(m.done(), {"seed": seed}, {"o": 300})
        m = Make(f"{kind}_scalar", [Axis("x0", 30)], None)
        r = m.random(kind, m.load("seed", I64, at()), at(("x0", 1)), 1, 0.37, dtype)
        m.store("o", at(("x0", 1)), r)
        yield Case(m.done(), {"seed": seed}, {"o": 30})
        # far elements: the block number passes 2^32
        m = Make(f"{kind}_far", [Axis("x0", 200)], "x0")
        r = m.random(kind, m.load("seed", I64, at()), at(("x0", 1), const=2**36 - 100), 2, 0.5, dtype)
        m.store("o", at(("x0", 1)), r)
        yield Case(m.done(), {"seed": seed}, {"o": 200})
        # the elements of lanes that a mask leaves out are below 0
        m = Make(f"{kind}_below", [Axis("x0", 64)], "x0")
        r = m.random(kind, m.load("seed", I64, at()), at(("x0", 1), const=-21), 2, 0.5, dtype)
        used = m.op("ge", m.index(axis("x0")), m.const(21, I64))
        m.store("o", at(("x0", 1)), m.op("where", used, r, m.const(0, dtype)))
        yield Case(m.done(), {"seed": seed}, {"o": 64})
    for p in [0.0, 1.0, 1e-9]:
        m = Make(f"keep_{str(p).replace('.', '_').replace('-', 'm')}", [Axis("x0", 100)], "x0")
        m.store("o", at(("x0", 1)), m.random("keep", m.load("seed", I64, at()), at(("x0", 1)), 0, p, BOOL))
        yield Case(m.done(), {"seed": seed}, {"o": 100})


# ------------------------------------------------------------------------------------------------------- reductions


def norm_kernel(
    name: str, rows: sizes.Size, columns: sizes.Size, dtype: DType, carry: bool, vector: str | None
) -> Make:
    """Layer norm with a weight: three passes."""
    m = Make(name, [Axis("x0", rows), Axis("r0", columns, True)], vector, carry)
    place = axis("x0") * columns + axis("r0")
    x = m.load("a", dtype, place)
    x = m.op("cast", x, dtype=F32) if dtype != F32 else x
    count = m.size(columns, F32)
    mean = m.op("div", m.reduce("sum", x), count)
    centred = m.op("sub", x, mean)
    var = m.op("div", m.reduce("sum", m.op("mul", centred, centred)), count)
    scale = m.op("div", m.const(1.0, F32), m.op("sqrt", m.op("add", var, m.const(1e-5, F32))))
    out = m.op("mul", m.op("mul", centred, scale), m.load("w", F32, axis("r0")))
    m.store("o", place, out if dtype == F32 else m.op("cast", out, dtype=dtype))
    m.store("mean", axis("x0"), mean)
    return m


def reduce_kernel(ops: list[str], dtype: DType, shape: tuple[int, int], vector: str | None) -> Case:
    """Several reductions of one operand, an output each; sums and products read values that do not cancel."""
    rows, columns = shape
    m = Make(f"reduce_{dtype}_{rows}x{columns}_{vector}", [Axis("x0", rows), Axis("r0", columns, True)], vector)
    place = axis("r0") * rows + axis("x0") if vector == "x0" else axis("x0") * columns + axis("r0")
    a, mild, ties = (m.load(name, dtype, place) for name in ("a", "mild", "ties"))
    for op in ops:
        if op in ("argmax", "argmin"):
            m.store(f"o_{op}", axis("x0"), m.reduce(op, a, position=axis("r0")))
            m.store(f"ties_{op}", axis("x0"), m.reduce(op, ties, position=axis("r0")))
        elif op == "sum" and not dtype.is_float:
            m.store(f"o_{op}", axis("x0"), m.reduce(op, a, I64))
        else:
            m.store(f"o_{op}", axis("x0"), m.reduce(op, mild if op in ("sum", "prod") else a))
    count = rows * columns
    near_one = (1 + 0.01 * floats(count)).astype(NUMPY[dtype.name]) if dtype.is_float else data(dtype, count)
    inputs = {
        "a": data(dtype, count, dtype != BOOL),
        "mild": near_one,
        "ties": RNG.integers(0, 4, count).astype(NUMPY[dtype.name]),
    }
    outputs = {b.name: rows for b in m.buffers if b.role == "out"}
    exact = frozenset(outputs) - {"o_sum", "o_prod"}
    return Case(m.done(), inputs, outputs, ulps=64 if dtype.is_float else 0, exact=exact)


def reduction_cases() -> Iterator[Case]:
    for vector in ["r0", "x0", None]:
        for dtype in [F32, F64, I64, I32, U8, I8]:
            ops = ["max", "min", "argmax", "argmin", "sum"] + (["prod"] if dtype.is_float else [])
            yield reduce_kernel(ops, dtype, (5, 203), vector)
        for dtype in [F32, F64]:
            yield reduce_kernel(["max", "argmin", "sum"], dtype, (40, 7), vector)
        yield reduce_kernel(["any", "all", "max", "min", "argmax"], BOOL, (5, 37), vector)
        yield reduce_kernel(["sum", "max"], F32, (1, 1), vector)
        for carry in [False, True]:
            for dtype in [F32, BF16]:
                name = f"norm_{dtype}_{vector}_{'carried' if carry else 'again'}"
                m = norm_kernel(name, 9, 301, dtype, carry, vector)
                inputs = {"a": floats(9 * 301), "w": floats(301)}
                yield Case(m.done(), inputs, {"o": 9 * 301, "mean": 9}, ulps=64 if dtype == F32 else 1)
        n, k = sizes.symbol("s0"), sizes.symbol("s1")
        m = norm_kernel(f"norm_symbols_{vector}", n, k + 1, F32, True, vector)
        inputs = {"a": floats(6 * 51), "w": floats(51)}
        yield Case(m.done(), inputs, {"o": 306, "mean": 6}, {"s0": 6, "s1": 50}, ulps=64)


BITCASTS = [(F32, I32), (I32, F32), (F64, I64), (I64, F64), (BF16, I16), (I16, BF16), (U8, I8)]


def bitcast_kernel(source: DType, target: DType) -> Case:
    m = Make(f"bits_{source}_{target}", [Axis("x0", 53)], "x0")
    m.store("o", at(("x0", 1)), m.op("bitcast", m.load("a", source, at(("x0", 1))), dtype=target))
    return Case(m.done(), {"a": data(source, 53)}, {"o": 53})


BITCAST_CASES = [bitcast_kernel(*pair) for pair in BITCASTS]


def walk_kernel(name: str, outer: int, rows: sizes.Size, columns: sizes.Size, carry: bool) -> Make:
    """Layer norm's backward: the input's gradient a row, the weight's and the bias's down the columns."""
    axes = [Axis("x0", outer), Axis("l0", rows, loop=True), Axis("r0", columns, True)]
    m = Make(name, axes, "r0", carry)
    row = axis("x0") * rows + axis("l0")
    place = row * columns + axis("r0")
    g, x, w = m.load("g", F32, place), m.load("a", F32, place), m.load("w", F32, axis("r0"))
    xhat = m.op("mul", m.op("sub", x, m.load("mean", F32, row)), m.load("rstd", F32, row))
    gw = m.op("mul", g, w)
    count = m.size(columns, F32)
    one = m.op("div", m.reduce("sum", gw), count)
    two = m.op("div", m.reduce("sum", m.op("mul", gw, xhat)), count)
    m.store("dx", place, m.op("sub", m.op("sub", gw, one), m.op("mul", xhat, two)))
    down = axis("x0") * columns + axis("r0")
    m.store("dw", down, m.op("add", m.reduce("sum", m.op("mul", g, xhat), over_loop=True), w))
    m.store("db", down, m.reduce("sum", g, over_loop=True))
    m.store("top", axis("x0"), m.reduce("max", m.load("rstd", F32, row), over_loop=True))
    return m


def walk_cases() -> Iterator[Case]:
    for outer, rows, columns in [(1, 70, 33), (3, 1030, 40), (2, 5, 300), (1, 0, 20)]:
        for carry in [False, True]:
            m = walk_kernel(f"walk_{outer}_{rows}_{columns}_{carry}", outer, rows, columns, carry)
            count = outer * rows
            inputs = {"g": count * columns, "a": count * columns, "w": columns, "mean": count, "rstd": count}
            values = {k: floats(v).astype(np.float32) for k, v in inputs.items()}
            outputs = {"dx": count * columns, "dw": outer * columns, "db": outer * columns, "top": outer}
            if rows:
                yield Case(m.done(), values, outputs, ulps=200)
    n, k = sizes.symbol("s0"), sizes.symbol("s1")
    inputs = {"g": 77 * 21, "a": 77 * 21, "w": 21, "mean": 77, "rstd": 77}
    values = {k: floats(v).astype(np.float32) for k, v in inputs.items()}
    outputs = {"dx": 77 * 21, "dw": 21, "db": 21, "top": 1}
    yield Case(walk_kernel("walk_symbols", 1, n, k + 1, True).done(), values, outputs, {"s0": 77, "s1": 20}, ulps=200)

    # two loop axes and two row axes; bools and integers down the columns
    axes = [Axis("l0", 9, loop=True), Axis("l1", 13, loop=True), Axis("r0", 3, True), Axis("r1", 21, True)]
    m = Make("walk_kinds", axes, "r1")
    place = at(("l0", 13 * 63), ("l1", 63), ("r0", 21), ("r1", 1))
    a, b = m.load("a", I32, place), m.load("b", BOOL, place)
    column = at(("r0", 21), ("r1", 1))
    total = m.reduce("sum", a, I64, over_loop=True)
    m.store("sum", column, total)
    m.store("max", column, m.reduce("max", a, over_loop=True))
    m.store("any", column, m.reduce("any", b, over_loop=True))
    m.store("all", column, m.reduce("all", b, over_loop=True))
    yield Case(
        m.done(),
        {"a": data(I32, 9 * 13 * 63), "b": RNG.random(9 * 13 * 63) < 0.02},
        dict.fromkeys(["sum", "max", "any", "all"], 63),
    )

    # columns long enough to be walked: the vector axis is a parallel one
    for rows, columns in [(65, 5), (1000, 100), (300, 9000)]:
        m = Make(f"columns_{rows}_{columns}", [Axis("x0", 2), Axis("x1", columns), Axis("r0", rows, True)], "x1")
        x = m.load("a", F32, axis("x0") * (rows * columns) + axis("r0") * columns + axis("x1"))
        w = m.load("w", F32, axis("x1"))
        m.store("copy", axis("x0") * columns + axis("x1"), m.op("neg", w))
        total = m.reduce("sum", m.op("mul", x, m.op("add", w, m.const(1.0, F32))))
        m.store("o", axis("x0") * columns + axis("x1"), m.op("mul", total, w))
        m.store("least", axis("x0") * columns + axis("x1"), m.reduce("min", x))
        yield Case(
            m.done(),
            {"a": data(F32, 2 * rows * columns), "w": data(F32, columns)},
            {"copy": 2 * columns, "o": 2 * columns, "least": 2 * columns},
            ulps=64,
        )


def split_cases() -> Iterator[Case]:
    """Few rows: each is cut into chunks."""
    for op in ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"]:
        dtype = BOOL if op in ("any", "all") else F32
        count = 70_001
        m = Make(f"split_{op}", [Axis("r0", count, True)], "r0")
        a = m.load("a", dtype, axis("r0"))
        m.store("o", at(), m.reduce(op, a, position=axis("r0") if op.startswith("arg") else None))
        values = data(dtype, count) if op != "all" else np.ones(count, bool)
        if op == "prod":
            values = (1 + 1e-4 * floats(count)).astype(np.float32)
        if op in ("max", "argmin"):
            values[[40_000, 60_000]] = np.nan
        yield Case(m.done(), {"a": values}, {"o": 1}, ulps={"sum": 128, "prod": 2048}.get(op, 0))
    for name, dtype in [("i64", I64), ("f64", F64), ("i8", I8)]:
        m = Make(f"split_sum_{name}", [Axis("x0", 2), Axis("r0", 41, True), Axis("r1", 999, True)], "r1")
        a = m.load("a", dtype, at(("x0", 1), ("r0", 2000), ("r1", 2)))
        total = m.reduce("sum", a, F64 if dtype == F64 else I64)
        m.store("o", axis("x0"), total)
        yield Case(m.done(), {"a": data(dtype, 41 * 2000)}, {"o": 2}, ulps=64)
    for carry in [False, True]:
        m = norm_kernel(f"split_norm_{carry}", 2, 40_013, F32, carry, "r0")
        inputs = {"a": floats(2 * 40_013), "w": floats(40_013)}
        yield Case(m.done(), inputs, {"o": 2 * 40_013, "mean": 2}, ulps=64)


CASES = [
    *walk_cases(),
    *split_cases(),
    *square_cases(),
    *large_cases(),
    *large_row_cases(),
    *pointwise_cases(),
    *layout_cases(),
    *load_cases(),
    *random_cases(),
    *reduction_cases(),
]


@pytest.fixture(scope="module")
def library() -> LoadedLibrary:
    return build(unit(list({c.kernel.name: c.kernel for c in [*CASES, *BITCAST_CASES]}.values())))


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join([c.kernel.name, *map(str, c.sizes.values())]))
def test_kernel_equals_interpreter(case: Case, library: LoadedLibrary) -> None:
    want = expected(case)
    got = actual(case, library.function(case.kernel.name))
    compare(case, got, want)


@pytest.mark.parametrize("case", [*walk_cases(), *split_cases()], ids=lambda c: c.kernel.name)
def test_bits_do_not_depend_on_the_number_of_threads(case: Case, library: LoadedLibrary) -> None:
    function = library.function(case.kernel.name)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = actual(case, function)
        torch.set_num_threads(3)
        together = actual(case, function)
    finally:
        torch.set_num_threads(before)
    for name, value in alone.items():
        assert value.tobytes() == together[name].tobytes(), name


@pytest.mark.parametrize("case", BITCAST_CASES, ids=lambda c: c.kernel.name)
def test_bitcast_keeps_the_bits(case: Case, library: LoadedLibrary) -> None:
    source, target = (b.dtype for b in case.kernel.buffers)
    got = actual(case, library.function(case.kernel.name))["o"]
    assert to_stored(got, target).tobytes() == to_stored(case.inputs["a"], source).tobytes()


@pytest.mark.parametrize("vector", ["x0", None])
def test_failed_check_is_reported_and_reads_nothing(vector: str | None) -> None:
    m = Make("bounds", [Axis("x0", 40)], vector)
    i = m.load("i", I64, at(("x0", 1)))
    m.check(m.op("and", m.op("ge", i, m.const(0, I64)), m.op("lt", i, m.const(9, I64))))
    m.store("o", at(("x0", 1)), m.load("w", F32, loaded(i)))
    kernel = m.done()
    function = build(unit([kernel])).function("bounds")
    index = np.arange(40, dtype=np.int64) % 9
    weight = np.arange(9, dtype=np.float32)
    fine = Case(kernel, {"i": index, "w": weight}, {"o": 40})
    compare(fine, actual(fine, function), expected(fine))
    index = index.copy()
    index[33] = 1 << 50  # reading there would end the process
    with pytest.raises(IndexError, match="index out of range"):
        actual(Case(kernel, {"i": index, "w": weight}, {"o": 40}), function)


def test_names_that_are_no_identifiers_are_refused() -> None:
    kernel = chain("ok", 10).done()
    with pytest.raises(IRError, match="not an identifier"):
        unit([replace(kernel, name="f(){}; int g")])
    with pytest.raises(IRError, match="not an identifier"):
        unit([replace(kernel, buffers=(replace(kernel.buffers[0], name="a; system()"), kernel.buffers[1]))])


def test_two_kernels_of_one_name_are_refused() -> None:
    kernel = chain("twice", 10).done()
    with pytest.raises(IRError, match="share a name: twice"):
        unit([kernel, kernel])


def scaled(name: str, factor: float) -> Make:
    m = Make(name, [Axis("x0", 100)], "x0")
    m.store("o", at(("x0", 1)), m.op("mul", m.load("a", F32, at(("x0", 1))), m.const(factor, F32)))
    return m


def test_kernels_that_differ_in_their_names_alone_are_compiled_once() -> None:
    kernels = [scaled("first", 3.0).done(), scaled("second", 3.0).done(), scaled("third", 5.0).done()]
    source = unit(kernels)
    assert source.count("fw::load") == 2 and source.count('alias("first")') == 1
    built = build(source)
    x = np.arange(100, dtype=np.float32)
    for kernel, factor in zip(kernels, (3, 3, 5), strict=True):
        out = np.empty_like(x)
        assert built.function(kernel.name)(x.ctypes.data, out.ctypes.data) == 0
        np.testing.assert_array_equal(out, x * factor)


def test_unknown_op_is_unsupported() -> None:
    m = Make("unknown", [Axis("x0", 4)], "x0")
    m.store("o", at(("x0", 1)), m.op("fmod", m.load("a", BOOL, at(("x0", 1)))))
    with pytest.raises(Unsupported, match="no row for 'fmod'"):
        unit([m.done()])
