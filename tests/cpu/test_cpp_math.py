"""Error of the functions in generated C++ kernels against double precision (f32) and mpmath (f64)."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch

from fusewise.codegen.cpp import unit
from fusewise.ir.dtypes import F32, F64, DType
from fusewise.ir.rounding import Array
from fusewise.lower.kernel import Axis
from fusewise.runtime.cpp import LoadedLibrary, build, has_sleef
from tests.cpu.cpp_kernels import Make, at

# The C library's functions, which serve where SLEEF is missing, may be this far off.
FALLBACK_BOUND = 0.0 if has_sleef() and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512") else 3.0

COUNT_F32 = 1 << 20
COUNT_F64 = 3000


def _torch(name: str) -> Callable[[Array], Array]:
    return lambda x: getattr(torch.special, name)(torch.from_numpy(x)).numpy()


# (op, reference in f64, largest error in units of the last place: 0.5 is correct rounding)
F32_UNARY: list[tuple[str, Callable[[Array], Array], float]] = [
    ("exp", np.exp, 0.9),
    ("tanh", np.tanh, 1.4),
    ("erf", _torch("erf"), 1.1),
    ("erfc", _torch("erfc"), 1.5),
    ("exp2", np.exp2, 1.0),
    ("expm1", np.expm1, 1.01),
    ("log", np.log, 1.0),
    ("log2", np.log2, 1.0),
    ("log10", np.log10, 1.0),
    ("log1p", np.log1p, 1.01),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 1.5),
    ("sin", np.sin, 1.0),
    ("cos", np.cos, 1.0),
    ("tan", np.tan, 1.0),
    ("asin", np.arcsin, 1.0),
    ("acos", np.arccos, 1.0),
    ("atan", np.arctan, 1.0),
    ("sinh", np.sinh, 2.0),
    ("cosh", np.cosh, 2.0),
    ("asinh", np.arcsinh, 1.01),
    ("acosh", np.arccosh, 1.01),
    ("atanh", np.arctanh, 1.01),
]
F32_BINARY: list[tuple[str, Callable[[Array, Array], Array], float]] = [
    ("pow", np.power, 1.01),
    ("atan2", np.arctan2, 1.01),
]
F64_UNARY = [
    "exp",
    "tanh",
    "erf",
    "erfc",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "atan",
    "sinh",
    "asinh",
]
_MPMATH = {"log2": lambda x: mpmath.log(x, 2), "log10": mpmath.log10, "log1p": mpmath.log1p}


def kernel(op: str, dtype: DType, count: int) -> Make:
    m = Make(f"{op}_{dtype}", [Axis("x0", count)], "x0")
    args = [m.load(name, dtype, at(("x0", 1))) for name in ("ab" if op in ("pow", "atan2") else "a")]
    m.store("o", at(("x0", 1)), m.op(op, *args))
    return m


@pytest.fixture(scope="module")
def library() -> LoadedLibrary:
    names32 = [row[0] for row in F32_UNARY] + [row[0] for row in F32_BINARY]
    kernels = [kernel(op, F32, COUNT_F32) for op in names32] + [kernel(op, F64, COUNT_F64) for op in F64_UNARY]
    return build(unit([k.done() for k in kernels]))


def every_magnitude(seed: int) -> Array:
    """f32 of random bits: every exponent, both signs, subnormals, infinities and NaNs; and the numbers near 1."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, COUNT_F32, dtype=np.uint32).view(np.float32)
    bits[: COUNT_F32 // 2] = rng.uniform(-12, 12, COUNT_F32 // 2)
    bits[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45]
    return bits


def error_in_ulps(got: Array, want: Array) -> Array:
    """|got - want| in units of the last place of `want` in f32; 0 where both are NaN or the same infinity."""
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.where(np.isfinite(want), want, 1.0))[1]
        step = np.ldexp(1.0, np.maximum(exponent - 24, -149))
        gap = np.abs(got.astype(np.float64) - want) / step
        same = (np.isnan(got) & np.isnan(want)) | (got == want.astype(np.float32))
        # where the exact result lies just beyond the largest float, that float and infinity are neighbours
        edge = np.isinf(got) & (np.abs(want) > np.finfo(np.float32).max * (1 - 2.0**-23))
        return np.where(same & ~np.isfinite(got), 0.0, np.where(edge, 1.0, np.where(np.isfinite(gap), gap, 1e30)))


def run(library: LoadedLibrary, op: str, dtype: DType, inputs: list[Array]) -> Array:
    out = np.empty_like(inputs[0])
    assert library.function(f"{op}_{dtype}")(*(x.ctypes.data for x in inputs), out.ctypes.data) == 0
    return out


@pytest.mark.parametrize(("op", "reference", "bound"), F32_UNARY, ids=[row[0] for row in F32_UNARY])
def test_f32_error(library: LoadedLibrary, op: str, reference: Callable[[Array], Array], bound: float) -> None:
    x = every_magnitude(1)
    got = run(library, op, F32, [x])
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
    error = error_in_ulps(got, want)
    worst = int(np.argmax(error))
    assert error[worst] <= max(bound, FALLBACK_BOUND), (
        f"{op}({x[worst]!r}) = {got[worst]!r}, {error[worst]:.3g} ulp from {want[worst]!r}"
    )


@pytest.mark.parametrize(("op", "reference", "bound"), F32_BINARY, ids=[row[0] for row in F32_BINARY])
def test_f32_error_of_two(
    library: LoadedLibrary, op: str, reference: Callable[[Array, Array], Array], bound: float
) -> None:
    x, y = every_magnitude(2), every_magnitude(3)
    y[8 : COUNT_F32 // 8] = np.round(y[8 : COUNT_F32 // 8])  # whole exponents, where a negative base has a power
    got = run(library, op, F32, [x, y])
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64), y.astype(np.float64))
    error = error_in_ulps(got, want)
    worst = int(np.argmax(error))
    assert error[worst] <= max(bound, FALLBACK_BOUND), (
        f"{op}({x[worst]!r}, {y[worst]!r}) = {got[worst]!r}, {error[worst]:.3g} ulp from {want[worst]!r}"
    )


@pytest.mark.parametrize("op", F64_UNARY)
def test_f64_error(library: LoadedLibrary, op: str) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(-6, 6, 1500), rng.standard_normal(1500) * 10.0 ** rng.integers(-12, 2, 1500)])
    if op in ("log", "log2", "log10", "log1p"):
        x = np.abs(x)
    got = run(library, op, F64, [x])
    function = _MPMATH.get(op) or getattr(mpmath, op)
    with mpmath.workprec(160):
        for value, result in zip(x.tolist(), got.tolist(), strict=True):
            want = function(mpmath.mpf(value))
            step = mpmath.ldexp(1, max(mpmath.frexp(want)[1] - 53, -1074)) if want else mpmath.mpf(2) ** -1074
            assert abs(result - want) / step <= max(1.5, FALLBACK_BOUND), f"{op}({value!r}) = {result!r}"


@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
def test_special_values(library: LoadedLibrary, name: str) -> None:
    x = np.zeros(COUNT_F32, np.float32)
    x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45]
    got = run(library, name, F32, [x])[:6]
    want = {
        "exp": [1.0, 1.0, np.inf, 0.0, np.nan, 1.0],
        "tanh": [0.0, -0.0, 1.0, -1.0, np.nan, 1e-45],
        "erf": [0.0, -0.0, 1.0, -1.0, np.nan, 1e-45],
    }[name]
    np.testing.assert_array_equal(got, np.array(want, np.float32))
    np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(np.array(want[:2])))


def test_scalar_and_vector_give_the_same_bits(library: LoadedLibrary) -> None:
    # SLEEF reduces the operands of sin, cos and tan in one way for all lanes: as the largest needs it
    ops = [row[0] for row in F32_UNARY if row[0] not in ("sin", "cos", "tan")]
    scalars = []
    for op in ops:
        m = kernel(op, F32, 4096)
        m.name, m.vector = f"scalar_{op}", None
        scalars.append(m.done())
    one_by_one = build(unit(scalars))
    x = every_magnitude(5)
    for op in ops:
        want = run(library, op, F32, [x])[-4096:]
        part = np.ascontiguousarray(x[-4096:])
        got = np.empty_like(part)
        assert one_by_one.function(f"scalar_{op}")(part.ctypes.data, got.ctypes.data) == 0
        assert np.array_equal(got, want, equal_nan=True), op
