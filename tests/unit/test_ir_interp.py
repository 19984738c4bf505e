"""The interpreter itself: the primitives whose arithmetic other tests take for granted."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from fusewise.errors import IRError, UsageError
from fusewise.ir import affine, philox
from fusewise.ir.builder import Builder
from fusewise.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from fusewise.ir.graph import SymbolInfo
from fusewise.ir.interp import run
from fusewise.ir.rounding import NUMPY, bf16_from_bits, bf16_to_bits, round_bf16, round_scalar
from fusewise.ir.sizes import symbol


def _apply(op: str, dtype: DType, *operands: object, result: DType | None = None) -> np.ndarray:
    """One pointwise op on vectors of `dtype`."""
    b = Builder()
    arrays = [np.asarray(o, dtype=NUMPY[dtype.name]) for o in operands]
    values = [b.input(a.shape, dtype) for a in arrays]
    return run(b.finish([b.op(op, *values, dtype=result)]), arrays)[0]


# ---- bf16


def test_bf16_keeps_its_65536_patterns() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    values = bf16_from_bits(bits)
    finite = ~np.isnan(values)
    assert (bf16_to_bits(values)[finite] == bits[finite]).all()
    assert (bf16_to_bits(values)[~finite] == 0x7FC0).all()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0 + 2.0**-8, 1.0),  # a tie goes to the even neighbour
        (1.0 + 3 * 2.0**-8, 1.0 + 2.0**-6),
        (1.0 + 2.0**-8 + 2.0**-20, 1.0 + 2.0**-7),
        (3.39e38, 3.3895313892515355e38),
        (3.4028234663852886e38, math.inf),
        (-0.0, -0.0),
        (1e-40, 9.918302e-41),
    ],
)
def test_round_bf16(value: float, expected: float) -> None:
    got = float(round_bf16(np.float32(value).reshape(1))[0])
    assert got == pytest.approx(expected, rel=1e-6) and math.copysign(1, got) == math.copysign(1, expected)
    assert round_scalar(value, BF16) == got


def test_double_to_half_goes_through_f32() -> None:
    # just above the middle of two bf16 neighbours: lost in f32, so the tie goes to even
    value = 1.0 + 2.0**-8 + 2.0**-40
    assert _apply("cast", F64, [value], result=BF16)[0] == 1.0
    value = 1.0 + 2.0**-11 + 2.0**-40
    assert _apply("cast", F64, [value], result=F16)[0] == 1.0


# ---- pointwise


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(2000).astype(np.float32) for _ in range(3))
    c[::3] = -(a * b)[::3]  # the sum cancels all but the rounding error of the product
    got = _apply("fma", F32, a, b, c)
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    # from a Fraction, float() rounds once to f64; the rest of the way to f32 is checked against both neighbours
    for value, wanted in zip(got, exact, strict=True):
        low, high = np.nextafter(value, np.float32(-np.inf)), np.nextafter(value, np.float32(np.inf))
        gap = abs(Fraction(float(value)) - wanted)
        assert gap <= abs(Fraction(float(low)) - wanted) and gap <= abs(Fraction(float(high)) - wanted)


def test_fma_of_doubles_rounds_once() -> None:
    a = 1.0 + 2.0**-30
    assert _apply("fma", F64, [a], [a], [-1.0])[0] == 2.0**-29 + 2.0**-60
    assert math.isnan(_apply("fma", F64, [math.inf], [0.0], [1.0])[0])


def test_fma_halfway_of_f32_is_not_rounded_twice() -> None:
    # 1 + 2^-24 is halfway between two f32; the product's last bit, far below f64's precision of the sum, decides
    a, b = np.float32(2.0**-24), np.float32(1.0 + 2.0**-23)
    c = np.float32(1.0)
    assert _apply("fma", F32, [a], [b], [c])[0] == np.float32(1.0 + 2.0**-23)
    tiny = np.float32(2.0**-60)
    assert _apply("fma", F32, [np.float32(1.0)], [tiny], [np.float32(1.0)])[0] == np.float32(1.0)


def test_maximum_and_minimum_of_nan_and_zeros() -> None:
    nan = math.nan
    assert np.isnan(_apply("maximum", F32, [nan, 1.0], [1.0, nan])).all()
    assert np.isnan(_apply("minimum", F32, [nan, 1.0], [1.0, nan])).all()
    assert not np.signbit(_apply("maximum", F32, [0.0, -0.0], [-0.0, 0.0])).any()
    assert np.signbit(_apply("minimum", F32, [0.0, -0.0], [-0.0, 0.0])).all()


def test_comparisons_with_nan() -> None:
    nan = math.nan
    for op, expected in {"eq": False, "ne": True, "lt": False, "le": False, "gt": False, "ge": False}.items():
        assert _apply(op, F32, [nan, 1.0], [1.0, nan]).tolist() == [expected] * 2


@pytest.mark.parametrize("dtype", [I64, I32, I8])
def test_integers_wrap(dtype: DType) -> None:
    top = (1 << (dtype.bits - 1)) - 1
    assert _apply("add", dtype, [top], [1])[0] == -top - 1
    assert _apply("mul", dtype, [top], [2])[0] == -2
    assert _apply("neg", dtype, [-top - 1])[0] == -top - 1
    assert _apply("truncdiv", dtype, [-top - 1], [-1])[0] == -top - 1


def test_unsigned_wraps() -> None:
    assert _apply("sub", U8, [3], [5])[0] == 254
    assert _apply("shl", U8, [200], [1])[0] == 144


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("floordiv", [2, -3, -3, 2]),
        ("truncdiv", [2, -2, -2, 2]),
        ("truncrem", [1, -1, 1, -1]),
    ],
)
def test_division_of_negative_numbers(op: str, expected: list[int]) -> None:
    assert _apply(op, I32, [7, -7, 7, -7], [3, 3, -3, -3]).tolist() == expected


@pytest.mark.parametrize("op", ["floordiv", "truncdiv", "truncrem"])
def test_integer_division_by_zero_does_not_trap(op: str) -> None:
    assert _apply(op, I64, [5, 0], [0, 0]).shape == (2,)


@pytest.mark.parametrize("shift", [-70, -1, 32, 70])
def test_shift_out_of_range(shift: int) -> None:
    assert _apply("shl", I32, [5, -5], [shift, shift]).tolist() == [0, 0]
    assert _apply("shr", I32, [5, -5], [shift, shift]).tolist() == [0, -1]


def test_casts() -> None:
    assert _apply("cast", F32, [0.0, -0.0, math.nan, 0.1], result=BOOL).tolist() == [False, False, True, True]
    assert _apply("cast", F32, [2.9, -2.9], result=I32).tolist() == [2, -2]
    assert _apply("cast", I64, [300, -1], result=U8).tolist() == [44, 255]
    assert _apply("cast", I64, [257], result=BF16)[0] == 256.0


def test_bitcast() -> None:
    assert _apply("bitcast", F32, [1.0], result=I32)[0] == 0x3F800000
    assert _apply("bitcast", I32, [0x3F800000], result=F32)[0] == 1.0
    b = Builder()
    graph = b.finish([b.op("bitcast", b.input((1,), BF16), dtype=F16)])
    assert run(graph, [np.float32([1.0])])[0].view(np.uint16)[0] == 0x3F80


def test_round_is_half_to_even() -> None:
    assert _apply("round", F32, [0.5, 1.5, 2.5, -0.5]).tolist() == [0.0, 2.0, 2.0, -0.0]


# ---- reductions


def _reduce(op: str, value: np.ndarray, dims: tuple[int, ...], dtype: DType) -> np.ndarray:
    b = Builder()
    return run(b.finish([b.reduce(op, b.input(value.shape, dtype), dims)]), [value])[0]


def test_argmax_takes_the_first_of_equals_and_the_first_nan() -> None:
    value = np.float32([[1, 3, 3], [math.nan, 9, math.nan], [-math.inf, -math.inf, -math.inf]])
    assert _reduce("argmax", value, (1,), F32).tolist() == [1, 0, 0]
    assert _reduce("argmin", value, (1,), F32).tolist() == [0, 0, 0]
    assert _reduce("argmax", value, (0, 1), F32) == 3


def test_argmax_over_two_dims_counts_in_row_major_order() -> None:
    value = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert _reduce("argmax", value, (0, 2), F32).tolist() == [7, 7, 7]


def test_max_of_nan() -> None:
    assert math.isnan(_reduce("max", np.float32([1, math.nan, 3]), (0,), F32))


def test_sums() -> None:
    assert _reduce("sum", np.int64([2**62, 2**62]), (0,), I64) == -(2**63)
    assert _reduce("sum", np.zeros((2, 0), np.float32), (1,), F32).tolist() == [0.0, 0.0]
    assert _reduce("prod", np.zeros((2, 0), np.float32), (1,), F32).tolist() == [1.0, 1.0]
    ones = np.full(1 << 16, 0.1, np.float32)
    assert _reduce("sum", ones, (0,), F32) == np.float32(float(np.float32(0.1)) * (1 << 16))


def test_max_of_nothing_is_an_error() -> None:
    with pytest.raises(IRError, match="no elements"):
        _reduce("max", np.zeros((2, 0), np.float32), (1,), F32)
    assert _reduce("max", np.zeros((0, 0), np.float32), (1,), F32).shape == (0,)


# ---- views, loads, random


def test_view_maps() -> None:
    b = Builder()
    x = b.input((3, 4), F32)
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    outs = [b.permute(x, (1, 0)), b.slice(x, 1, 3, 2, -2), b.select(x, 0, 2), b.flip(x, (0, 1)), b.expand(x, (2, 3, 4))]
    got = run(b.finish(outs), [value])
    for ours, expected in zip(
        got, [value.T, value[:, 3::-2], value[2], value[::-1, ::-1], np.broadcast_to(value, (2, 3, 4))], strict=True
    ):
        assert (ours == expected).all() and ours.shape == expected.shape


def test_quotients_and_remainders_in_maps() -> None:
    b = Builder()
    x = b.input((4,), F32)
    o = affine.axis("o0")
    sizes = {"o0": 8}
    halves = b.view(x, (8,), [affine.floordiv(o, 2, sizes)])
    twice = b.view(x, (8,), [affine.modulo(o, 4, sizes)])
    value = np.arange(4, dtype=np.float32)
    got = run(b.finish([halves, twice]), [value])
    assert (got[0] == np.repeat(value, 2)).all() and (got[1] == np.tile(value, 2)).all()


def test_pad_and_cat() -> None:
    b = Builder()
    x = b.input((2, 3), F32)
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = run(b.finish([b.pad(x, (1, 0), (0, 2), 9.0), b.cat([x, x], 1)]), [value])
    assert (got[0] == np.pad(value, ((1, 0), (0, 2)), constant_values=9.0)).all()
    assert (got[1] == np.concatenate([value, value], 1)).all()


def test_gather_wraps_negative_indexes_and_refuses_others() -> None:
    b = Builder()
    x, index = b.input((3, 2), F32), b.input((2,), I64)
    out = b.gather(x, index, 0, (2, 2), [None, affine.axis("o1")], [affine.axis("o0")])
    graph = b.finish([out])
    value = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert (run(graph, [value, np.int64([2, -3])])[0] == value[[2, 0]]).all()
    for wrong in (3, -4):
        with pytest.raises(IndexError):
            run(graph, [value, np.int64([0, wrong])])


def test_random_bits_are_philoxs() -> None:
    b = Builder()
    seed = b.input((), I64)
    keep, uniform = b.keep(seed, (3, 5), 2, 0.7), b.uniform(seed, (3, 5), 4)
    got = run(b.finish([keep, uniform]), [np.int64(-5)])
    element = np.arange(15)
    wide = (1 << 64) - 5
    assert (got[0].ravel() == philox.keep(wide, 2, element, 0.7)).all()
    assert (got[1].ravel() == philox.uniform(wide, 4, element)).all()


# ---- sizes, opaque ops, wrong calls


def test_symbols_come_from_the_inputs_shapes() -> None:
    b = Builder()
    s = symbol("s0")
    b.symbol("s0", SymbolInfo(4, "inputs[0].size(0)"))
    x = b.input((s, 3), F32)
    out = b.expand(b.reduce("sum", x, (0,)) / b.size(s).cast(F32), (s, 3))
    graph = b.finish([out, b.size(2 * s + 1), b.iota((s,), 0)])
    got = run(graph, [np.ones((5, 3), np.float32)])
    assert got[0].shape == (5, 3) and (got[0] == 1).all() and got[1] == 11 and got[2].tolist() == [0, 1, 2, 3, 4]


def test_a_size_that_is_not_known_is_asked_for() -> None:
    b = Builder()
    b.symbol("s0", SymbolInfo(4, "inputs[0].size(0)"))
    b.symbol("d0", SymbolInfo(2, "inputs[0].size(0) // 2"))
    x = b.input((symbol("s0"),), F32)
    graph = b.finish([b.slice(x, 0, 0, symbol("d0"))])
    assert run(graph, [np.ones(4, np.float32)])[0].shape == (2,)
    with pytest.raises(UsageError, match="d0"):
        run(graph, [np.ones(6, np.float32)])
    assert run(graph, [np.ones(6, np.float32)], sizes={"d0": 3})[0].shape == (3,)


def test_opaque_ops_are_called() -> None:
    b = Builder()
    x = b.input((2,), F32)
    call = b.opaque([x], 7, "no expansion")
    graph = b.finish([b.result(call, 1, (2,), F32, (1,))])
    seen: list[int] = []

    def opaque(node: object, args: list[np.ndarray]) -> list[np.ndarray]:
        seen.append(node.attr("key"))  # type: ignore[attr-defined]
        return [args[0], args[0] * 2]

    assert run(graph, [np.float32([1, 2])], opaque=opaque)[0].tolist() == [2.0, 4.0]
    assert seen == [7]
    with pytest.raises(UsageError, match="opaque"):
        run(graph, [np.float32([1, 2])])


def test_wrong_inputs_are_refused() -> None:
    b = Builder()
    graph = b.finish([b.input((2, 3), F32)])
    with pytest.raises(UsageError, match="1 inputs"):
        run(graph, [])
    with pytest.raises(UsageError, match="shape"):
        run(graph, [np.zeros((3, 2), np.float32)])


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dims", [[0], [0, 2]])
def test_a_reduction_over_a_stack_joins_nothing(name: str, dims: list[int]) -> None:
    b = Builder()
    parts = [b.input((4, 5), F32) for _ in range(3)]
    stacked = b.cat([b.reshape(p, [1, 4, 5]) for p in parts], 0)
    graph = b.finish([b.reduce(name, stacked, dims)])
    assert not [n for n in graph if n.op == "cat"]
    drawn = np.random.default_rng(0)
    values = [drawn.normal(size=(4, 5)).astype(np.float32) for _ in parts]
    (found,) = run(graph, values)
    np.testing.assert_allclose(found, getattr(np, name)(np.stack(values), axis=tuple(dims)), rtol=1e-6)


def test_a_reduction_over_long_parts_stays_one() -> None:
    b = Builder()
    joined = b.cat([b.input((4, 5), F32), b.input((4, 5), F32)], 0)
    assert [n.op for n in b.finish([b.reduce("sum", joined, [0])]) if n.info.group == "reduce"] == ["sum"]
