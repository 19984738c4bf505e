"""Joint forms of C++ instructions: the bits of the instructions one by one, and nothing is computed for nothing."""

from __future__ import annotations

import numpy as np
import pytest

from fusewise.codegen.cpp import unit
from fusewise.ir.dtypes import BF16, F16, F32
from fusewise.ir.rounding import Array, bf16_to_bits, round_bf16
from fusewise.lower.kernel import Axis, Kernel
from fusewise.runtime.cpp import build
from tests.cpu.cpp_kernels import Make, at

COUNT = 1 << 20


def inputs() -> Array:
    """f32 of random bits, the range where exp leaves 0 and reaches infinity, and numbers that stand alone."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2**32, COUNT, dtype=np.uint32).view(np.float32).copy()
    x[: COUNT // 2] = np.linspace(-110, 95, COUNT // 2)
    x[:7] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38]
    x[7:9] = np.array([0xFFFFFFFF, 0x7F80FFFF], np.uint32).view(np.float32)  # NaNs that a carry would end
    return x


def one_plus_exp(name: str, vector: str | None, swapped: bool = False, kept: bool = False) -> Kernel:
    m = Make(name, [Axis("x0", COUNT)], vector)
    e = m.op("exp", m.load("a", F32, at(("x0", 1))))
    one = m.const(1.0, F32)
    m.store("o", at(("x0", 1)), m.op("add", e, one) if swapped else m.op("add", one, e))
    if kept:
        m.store("e", at(("x0", 1)), e)
    return m.done()


def round_trip(name: str, vector: str | None, kept: bool = False) -> Kernel:
    m = Make(name, [Axis("x0", COUNT)], vector)
    x = m.load("a", F32, at(("x0", 1)))
    half = m.op("cast", x, dtype=BF16)
    m.store("o", at(("x0", 1)), m.op("cast", half, dtype=F32))
    if kept:
        m.store("h", at(("x0", 1)), half)
    return m.done()


def run(kernel: Kernel, *outputs: Array) -> None:
    function = build(unit([kernel])).function(kernel.name)
    assert function(inputs().ctypes.data, *(o.ctypes.data for o in outputs)) == 0


@pytest.mark.parametrize("vector", ["x0", None])
@pytest.mark.parametrize("swapped", [False, True])
def test_one_plus_exp_has_the_bits_of_both_steps(vector: str | None, swapped: bool) -> None:
    joint, both, e = (np.empty(COUNT, np.float32) for _ in range(3))
    kernel = one_plus_exp("joint", vector, swapped)
    assert "fw::one_plus_exp" in unit([kernel]) and "fw::exp(" not in unit([kernel])
    run(kernel, joint)
    run(one_plus_exp("kept", vector, swapped, kept=True), both, e)
    np.testing.assert_array_equal(joint, both)
    np.testing.assert_array_equal(joint, np.float32(1) + e)
    assert np.isnan(joint[4]) and joint[2] == np.inf and joint[3] == 1.0


@pytest.mark.parametrize("vector", ["x0", None])
def test_rounding_to_bf16_and_back(vector: str | None) -> None:
    joint, both, half = np.empty(COUNT, np.float32), np.empty(COUNT, np.float32), np.empty(COUNT, np.uint16)
    kernel = round_trip("joint", vector)
    assert "fw::rounded_bf16" in unit([kernel]) and "from_bf16" not in unit([kernel])
    run(kernel, joint)
    run(round_trip("kept", vector, kept=True), both, half)
    want = round_bf16(inputs())
    np.testing.assert_array_equal(joint.view(np.uint32), want.view(np.uint32))
    np.testing.assert_array_equal(both.view(np.uint32), want.view(np.uint32))
    np.testing.assert_array_equal(half, bf16_to_bits(inputs()))


def test_a_value_that_is_kept_for_a_later_pass_is_computed_all_the_same() -> None:
    """The sum over a row of rounded values, then the row divided by it: two passes read the narrow value."""
    m = Make("two_passes", [Axis("x0", 64), Axis("r0", 1000, True)], "r0")
    x = m.load("a", F32, at(("x0", 1000), ("r0", 1)))
    wide = m.op("cast", m.op("cast", m.op("exp", x), dtype=BF16), dtype=F32)
    total = m.reduce("sum", wide)
    m.store("o", at(("x0", 1000), ("r0", 1)), m.op("div", wide, total))
    kernel = m.done()
    x_in = np.random.default_rng(6).standard_normal((64, 1000)).astype(np.float32)
    out = np.empty_like(x_in)
    assert build(unit([kernel])).function("two_passes")(x_in.ctypes.data, out.ctypes.data) == 0
    rounded = round_bf16(np.exp(x_in))
    np.testing.assert_allclose(out, rounded / rounded.sum(1, keepdims=True), rtol=8e-3)


def test_other_pairs_stay_as_they_are() -> None:
    m = Make("others", [Axis("x0", 64)], "x0")
    x = m.load("a", F32, at(("x0", 1)))
    m.store("o", at(("x0", 1)), m.op("cast", m.op("cast", x, dtype=F16), dtype=F32))
    m.store("p", at(("x0", 1)), m.op("add", m.const(2.0, F32), m.op("exp", x)))
    text = unit([m.done()])
    assert "fw::f16_from_f32" in text and "fw::exp(" in text
    assert "rounded" not in text and "one_plus" not in text
