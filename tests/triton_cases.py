"""Kernels for the Triton code generator: those of the C++ one under GPU schedules, and forms that only a GPU has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from fusewise.ir import sizes
from fusewise.ir.affine import axis
from fusewise.ir.dtypes import BF16, BOOL, F16, F32, I64, DType
from fusewise.ir.rounding import NUMPY, Array, bf16_from_bits
from fusewise.lower.kernel import Axis, Kernel, TritonSchedule
from fusewise.runtime.program import TORCH_DTYPES
from tests.cpu.cpp_kernels import Case, Make, at, to_stored
from tests.cpu.test_cpp_codegen import CASES, floats

LONGEST = 4096  # elements of a tile in these tests


@dataclass(frozen=True)
class Scheduled:
    """A case under one schedule."""

    case: Case
    label: str

    @property
    def kernel(self) -> Kernel:
        return self.case.kernel

    def __repr__(self) -> str:
        return f"{self.kernel.name}-{self.label}"


def power(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def schedules(case: Case) -> Iterator[tuple[str, TritonSchedule]]:
    """Small tiles of every shape that the kernel allows, so that tails and several programs occur."""
    kernel = case.kernel
    extent = {a.name: a.size if isinstance(a.size, int) else sizes.hint(a.size, case.sizes) for a in kernel.axes}
    parallel = tuple(a.name for a in kernel.parallel)
    row = 1
    for a in kernel.reduce:
        row *= extent[a.name]
    points = 1
    for name in parallel:
        points *= extent[name]

    def make(x: int, r: int, persistent: bool, bits: int = 32) -> TritonSchedule:
        return TritonSchedule((), parallel, 1, x, r, persistent, 4, index_bits=bits)

    if not kernel.reduce:
        block = min(1024, max(16, power(points // 3)))
        yield "flat", make(block, 1, True)
        yield "wide", make(block, 1, True, bits=64)
        if len(parallel) > 1:
            yield "tiles", TritonSchedule(parallel[:-1], parallel[-1:], 4, 16, 1, True, 4)
            yield "point_rows", TritonSchedule(parallel[:-1], parallel[-1:], 1, 32, 1, True, 4, index_bits=64)
        return
    whole = power(row)
    if not any(isinstance(a.size, int) is False for a in kernel.reduce):
        yield "row", make(1, whole, True)
        if not kernel.loop and whole * 4 <= LONGEST:
            yield "rows", make(4, whole, True, bits=64)
    if not kernel.carried and not kernel.loop:
        yield "loop", make(1, 64, False)
        yield "loops", make(2, 32, False, bits=64)


def from_cpp() -> Iterator[Scheduled]:
    """The cases of the C++ generator. Every op on every type needs one schedule, every form all of them.

    Kernels that only a C++ schedule tells apart are one here.
    """
    seen: set[tuple[Kernel, tuple[tuple[str, int], ...]]] = set()
    for case in CASES:
        name = case.kernel.name
        divides = any(getattr(i, "op", "") in ("floordiv", "truncdiv", "truncrem") for i in case.kernel.body)
        if divides and case.inputs["b"].dtype.kind in "iu":
            # what x / 0 gives is the device's affair
            case = replace(case, inputs={**case.inputs, "b": np.where(case.inputs["b"] == 0, 1, case.inputs["b"])})
        found = list(schedules(case))
        if name.startswith(("un_", "bin_", "cast_", "where_")):
            found = found[:1]
        if name.startswith("tail_"):
            found = found[:1] if case.outputs["o"] % 8 in (0, 1, 7) else []
        for label, schedule in found:
            if name.endswith("_far") and schedule.index_bits == 32 and "step" in name:
                continue
            kernel = replace(case.kernel, schedule=schedule)
            key = replace(kernel, name=""), tuple(case.sizes.items())
            if key not in seen:
                seen.add(key)
                yield Scheduled(replace(case, kernel=kernel), label)


def scheduled(m: Make, label: str, schedule: TritonSchedule, **given: object) -> Scheduled:
    return Scheduled(Case(replace(m.done(), schedule=schedule), **given), label)  # type: ignore[arg-type]


def seed_of(value: int) -> Array:
    return np.array([value], np.int64)


def random_forms() -> Iterator[Scheduled]:
    """The tiles whose random bits come from one call for eight (four) elements."""
    for kind, dtype in [("keep", BOOL), ("uniform", F32)]:
        for bits in [32, 64]:
            m = Make(f"fast_{kind}_flat", [Axis("x0", 1000)], None)
            m.store("o", at(("x0", 1)), m.random(kind, m.load("s", I64, at()), at(("x0", 1)), 7, 0.8, dtype))
            schedule = TritonSchedule((), ("x0",), 1, 256, 1, True, 4, index_bits=bits)
            yield scheduled(m, f"{bits}", schedule, inputs={"s": seed_of(-5)}, outputs={"o": 1000})
        for label, x_block, r_block, persistent in [
            ("row", 1, 128, True),
            ("rows", 4, 128, True),
            ("loop", 2, 32, False),
        ]:
            m = Make(f"fast_{kind}_row", [Axis("x0", 6), Axis("r0", 104, True)], None)
            place = at(("x0", 104), ("r0", 1), const=8)
            draw = m.random(kind, m.load("s", I64, at()), place, 3, 0.5, dtype)
            number = m.op("cast", draw, dtype=F32)
            m.store("o", at(("x0", 104), ("r0", 1)), draw)
            m.store("n", at(("x0", 1)), m.reduce("sum", number))
            schedule = TritonSchedule((), ("x0",), 1, x_block, r_block, persistent, 4)
            outputs = {"o": 624, "n": 6}
            yield scheduled(m, label, schedule, inputs={"s": seed_of(1 << 40)}, outputs=outputs, ulps=64)


def half_forms() -> Iterator[Scheduled]:
    """16-bit sums, differences and products, rounded at each op's end."""
    for dtype in [BF16, F16]:
        m = Make(f"packed_{dtype}", [Axis("x0", 300)], None)
        a, b = m.load("a", dtype, at(("x0", 1))), m.load("b", dtype, at(("x0", 1)))
        c = m.load("c", dtype, at())

        def op(name: str, *args: int, m: Make = m, dtype: DType = dtype) -> int:
            wide = [m.op("cast", v, dtype=F32) if m.body[v].dtype == dtype else v for v in args]  # type: ignore[union-attr]
            return m.op("cast", m.op(name, *wide), dtype=dtype)

        total = op("add", op("mul", a, b), c)
        halved = op("mul", op("sub", total, b), m.const(0.5, F32))
        third = op("div", halved, m.const(3.0, F32))
        m.store("o", at(("x0", 1)), third)
        m.store("t", at(("x0", 1)), total)
        inputs = {"a": floats(300), "b": floats(300), "c": floats(1)}
        # the quotient by a constant is a product in the cheaper forms: one rounding step apart at most
        schedule = TritonSchedule((), ("x0",), 1, 128, 1, True, 4)
        yield scheduled(m, "flat", schedule, inputs=inputs, outputs={"o": 300, "t": 300}, ulps=1)


def chain(dtype: DType, count: int = 300) -> Scheduled:
    """Constants that 16 bits do not hold, and extremes between two roundings."""
    m = Make(f"constants_{dtype}", [Axis("x0", count)], None)
    x = m.load("a", dtype, at(("x0", 1)))
    for scale in (1.01, -0.3, 1.25):
        for op, number in (("mul", scale), ("add", 0.007), ("maximum", -0.5), ("minimum", 2.0)):
            wide = m.op("cast", x, dtype=F32)
            x = m.op("cast", m.op(op, wide, m.const(number, F32)), dtype=dtype)
    m.store("o", at(("x0", 1)), x)
    values = floats(count)
    values[:4] = [np.inf, -np.inf, np.nan, -0.0]
    schedule = TritonSchedule((), ("x0",), 1, 128, 1, True, 4)
    return scheduled(m, "flat", schedule, inputs={"a": values}, outputs={"o": count}, ulps=1)


def integers() -> Iterator[Scheduled]:
    """Positions compared with data: 32 bits where they do; a sum that picks one element of a row."""
    for label, persistent, r_block in [("row", True, 128), ("loop", False, 32)]:
        m = Make("positions", [Axis("x0", 12), Axis("r0", 100, True)], None, persistent)
        place = at(("x0", 100), ("r0", 1))
        column, row = m.index(at(("r0", 1))), m.index(at(("x0", 1)))
        target = m.load("t", I64, at(("x0", 1)))
        value = m.load("v", F32, at(("x0", 1)))
        hit = m.op("eq", column, target)
        picked = m.reduce("sum", m.op("where", hit, value, m.const(0.0, F32)))
        causal = m.op("le", m.op("add", column, m.const(3, I64)), m.op("mul", row, m.const(7, I64)))
        below = m.op("lt", target, column)
        choice = m.op("where", m.op("and", causal, below), m.load("a", F32, place), picked)
        m.store("o", place, choice)
        if persistent:
            m.store("n", at(("x0", 1)), m.reduce("sum", m.op("cast", hit, dtype=I64)))
        far = [0, 99, 100, -1, 2**40, -(2**40), 2**32 + 5, 2**31 - 1, -(2**31), 7, 50, 1]
        inputs = {"t": np.array(far, np.int64), "v": floats(12).astype(np.float32), "a": floats(1200)}
        schedule = TritonSchedule((), ("x0",), 1, 1, r_block, persistent, 4)
        yield scheduled(m, label, schedule, inputs=inputs, outputs={"o": 1200, "n": 12})


def dropout(dtype: DType, count: int = 300) -> Make:
    """x * mask / 0.8 with each op's result rounded to `dtype`."""
    m = Make(f"dropout_{dtype}", [Axis("x0", count)], None)
    keep = m.random("keep", m.load("s", I64, at()), at(("x0", 1)), 0, 0.8, BOOL)
    x = m.load("a", dtype, at(("x0", 1)))
    mask = m.op("cast", keep, dtype=dtype)
    if dtype == F32:
        m.store("o", at(("x0", 1)), m.op("mul", m.op("mul", x, mask), m.const(1.25, F32)))
        return m
    kept = m.op("cast", m.op("mul", m.op("cast", x, dtype=F32), m.op("cast", mask, dtype=F32)), dtype=dtype)
    scaled = m.op("mul", m.op("cast", kept, dtype=F32), m.const(1.25, F32))
    m.store("o", at(("x0", 1)), m.op("cast", scaled, dtype=dtype))
    return m


def dropouts() -> Iterator[Scheduled]:
    for dtype in [F32, BF16, F16]:
        schedule = TritonSchedule((), ("x0",), 1, 128, 1, True, 4)
        values = floats(300)
        values[:3] = [np.inf, np.nan, -0.0]
        yield scheduled(dropout(dtype), "flat", schedule, inputs={"a": values, "s": seed_of(9)}, outputs={"o": 300})


def activation(name: str, dtype: DType, count: int) -> tuple[Make, dict[str, Array]]:
    """gelu (both), silu, tanh, sigmoid, elu-like chains as the expansions write them; input between -9 and 9."""
    m = Make(f"act_{name}_{dtype}", [Axis("x0", count)], None)
    x = m.load("a", dtype, at(("x0", 1)))
    v = x if dtype == F32 else m.op("cast", x, dtype=F32)
    one, half = m.const(1.0, F32), m.const(0.5, F32)
    match name:
        case "gelu_tanh":
            cube = m.op("mul", m.op("mul", v, v), v)
            inner = m.op("mul", m.op("fma", cube, m.const(0.044715, F32), v), m.const(0.7978845608028654, F32))
            y = m.op("mul", m.op("mul", half, v), m.op("add", one, m.op("tanh", inner)))
        case "gelu_erf":
            erf = m.op("erf", m.op("mul", v, m.const(0.7071067811865476, F32)))
            y = m.op("mul", m.op("mul", v, half), m.op("add", one, erf))
        case "gate_erf":
            y = m.op("add", m.op("erf", v), one)
        case "silu":
            y = m.op("div", v, m.op("add", one, m.op("exp", m.op("neg", v))))
        case "tanh":
            y = m.op("tanh", v)
        case "slope":
            t = m.op("tanh", v)
            y = m.op("mul", v, m.op("sub", one, m.op("mul", t, t)))
        case _:
            y = m.op(name, v)
    m.store("o", at(("x0", 1)), y if dtype == F32 else m.op("cast", y, dtype=dtype))
    return m, {"a": np.linspace(-9.0, 9.0, count)}


ACTIVATIONS = ("gelu_tanh", "gelu_erf", "gate_erf", "silu", "tanh", "slope", "exp", "erf", "expm1")


def activations() -> Iterator[Scheduled]:
    for name in ACTIVATIONS:
        for dtype in [BF16, F16] if name == "slope" else [BF16, F16, F32]:
            m, inputs = activation(name, dtype, 2000)
            schedule = TritonSchedule((), ("x0",), 1, 512, 1, True, 4)
            yield scheduled(m, "flat", schedule, inputs=inputs, outputs={"o": 2000}, ulps=4 if dtype == F32 else 1)


def softmax(rows: int, columns: int, dtype: DType, carry: bool) -> Make:
    m = Make("softmax", [Axis("x0", rows), Axis("r0", columns, True)], None, carry)
    place = axis("x0") * columns + axis("r0")
    x = m.load("a", dtype, place)
    v = x if dtype == F32 else m.op("cast", x, dtype=F32)
    e = m.op("exp", m.op("sub", v, m.reduce("max", v)))
    y = m.op("div", e, m.reduce("sum", e))
    m.store("o", place, y if dtype == F32 else m.op("cast", y, dtype=dtype))
    return m


def row_statistics(rows: int, columns: int, dtype: DType) -> Make:
    """A row's maximum and the sum of its shifted exponentials; a row of minus infinity sums to 0."""
    m = Make("row_statistics", [Axis("x0", rows), Axis("r0", columns, True)], None, carry=True)
    x = m.load("a", dtype, axis("x0") * columns + axis("r0"))
    v = x if dtype == F32 else m.op("cast", x, dtype=F32)
    top = m.reduce("max", v)
    m.store("m", axis("x0"), top)
    lowest = m.const(-math.inf, F32)
    shift = m.op("where", m.op("eq", top, lowest), m.const(0.0, F32), top)
    m.store("s", axis("x0"), m.reduce("sum", m.op("exp", m.op("sub", v, shift))))
    return m


def statistics_forms() -> Iterator[Scheduled]:
    rows, columns = 6, 300
    values = floats(rows * columns).reshape(rows, columns)
    values[0] = -np.inf
    values[1, 7], values[2, 8], values[3, ::2] = np.inf, np.nan, -np.inf
    for dtype in [F32, BF16]:
        for label, persistent, x_block, r_block in [("row", True, 1, 512), ("rows", True, 4, 512)]:
            m = row_statistics(rows, columns, dtype)
            schedule = TritonSchedule((), ("x0",), 1, x_block, r_block, persistent, 4)
            inputs = {"a": values.reshape(-1)}
            yield scheduled(m, f"{dtype}-{label}", schedule, inputs=inputs, outputs={"m": rows, "s": rows}, ulps=16)


def rows_forms() -> Iterator[Scheduled]:
    for dtype in [F32, BF16]:
        for label, persistent, x_block, r_block in [
            ("row", True, 1, 256),
            ("rows", True, 4, 256),
            ("loop", False, 1, 64),
        ]:
            m = softmax(9, 200, dtype, persistent)
            schedule = TritonSchedule((), ("x0",), 1, x_block, r_block, persistent, 4)
            inputs = {"a": floats(1800)}
            yield scheduled(m, f"{dtype}-{label}", schedule, inputs=inputs, outputs={"o": 1800}, ulps=8)
    # column sums beside row sums: programs p, rows l one after the other
    m = Make("row_and_column", [Axis("p", 3), Axis("l", 5, loop=True), Axis("r0", 70, True)], None, carry=True)
    row = axis("p") * 5 + axis("l")
    a = m.load("a", F32, row * 70 + axis("r0"))
    b = m.op("mul", a, m.load("w", F32, axis("r0")))
    m.store("o", row * 70 + axis("r0"), m.op("sub", a, m.reduce("sum", b)))
    column = m.reduce("sum", b, over_loop=True)
    m.store("c", axis("p") * 70 + axis("r0"), m.op("mul", column, m.load("w", F32, axis("r0"))))
    m.store("t", axis("p") * 70 + axis("r0"), m.reduce("max", a, over_loop=True))
    inputs = {"a": floats(1050), "w": floats(70)}
    outputs = {"o": 1050, "c": 210, "t": 210}
    for bits in [32, 64]:
        schedule = TritonSchedule((), ("p",), 1, 1, 128, True, 4, 1, bits)
        yield scheduled(m, f"{bits}", schedule, inputs=inputs, outputs=outputs, ulps=64)
    yield from rows_at_a_time()


def rows_at_a_time() -> Iterator[Scheduled]:
    """Programs that take several rows at a time, and sums over them of elements, of row values and of constants."""
    programs, rows, columns = 3, 24, 11
    m = Make("rows_at_a_time", [Axis("p", programs), Axis("l", rows, loop=True), Axis("r0", columns, True)], None, True)
    row = axis("p") * rows + axis("l")
    a = m.load("a", F32, row * columns + axis("r0"))
    scale = m.load("s", F32, row)
    w = m.load("w", F32, axis("r0"))
    b = m.op("mul", m.op("mul", a, scale), w)
    total = m.reduce("sum", b)
    m.store("o", row * columns + axis("r0"), m.op("sub", a, total))
    m.store("n", row, total)
    place = axis("p") * columns + axis("r0")
    m.store("c", place, m.op("mul", m.reduce("sum", b, over_loop=True), w))
    m.store("t", place, m.reduce("max", a, over_loop=True))
    m.store("k", place, m.reduce("sum", w, over_loop=True))  # the same for every row: counts as often as there are
    m.store("u", axis("p"), m.reduce("sum", m.op("mul", total, scale), over_loop=True))
    inputs = {"a": floats(programs * rows * columns), "s": floats(programs * rows), "w": floats(columns)}
    sizes_of = {"o": programs * rows * columns, "n": programs * rows, "u": programs}
    outputs = sizes_of | dict.fromkeys("ctk", programs * columns)
    for l_block, bits, warps in [(8, 32, 1), (4, 64, 4), (2, 32, 2)]:
        schedule = TritonSchedule((), ("p",), 1, 1, 16, True, warps, 2, bits, l_block=l_block)
        yield scheduled(m, f"l{l_block}", schedule, inputs=inputs, outputs=outputs, ulps=64)


def points(case: Case) -> int:
    """Elements that the case's kernel goes over."""
    return sizes.hint(sizes.prod(a.size for a in case.kernel.axes), case.sizes)


def all_cases() -> list[Scheduled]:
    return [
        *from_cpp(),
        *random_forms(),
        *half_forms(),
        chain(BF16),
        chain(F16),
        *integers(),
        *dropouts(),
        *activations(),
        *rows_forms(),
        *statistics_forms(),
    ]


def tensors(case: Case, device: str) -> dict[str, torch.Tensor]:
    """Flat tensors of a case's buffers; outputs poisoned."""
    found: dict[str, torch.Tensor] = {}
    for buffer in case.kernel.buffers:
        dtype = TORCH_DTYPES[buffer.dtype.name]
        if buffer.role == "in":
            stored = torch.from_numpy(to_stored(case.inputs[buffer.name], buffer.dtype).copy())
            found[buffer.name] = (stored.view(dtype) if buffer.dtype == BF16 else stored).to(device)
        else:
            count = case.outputs[buffer.name]
            raw = torch.full((count * buffer.dtype.bytes,), 0x5A, dtype=torch.uint8, device=device)
            found[buffer.name] = raw.view(dtype)
    return found


def results(case: Case, held: dict[str, torch.Tensor]) -> dict[str, Array]:
    """The outputs as the interpreter of kernels gives them."""
    found: dict[str, Array] = {}
    for buffer in case.kernel.buffers:
        if buffer.role == "out":
            tensor = held[buffer.name].cpu()
            if buffer.dtype == BF16:
                found[buffer.name] = bf16_from_bits(tensor.view(torch.uint16).numpy())
            elif buffer.dtype == BOOL:
                found[buffer.name] = tensor.view(torch.uint8).numpy().astype(bool)
            else:
                found[buffer.name] = tensor.numpy().astype(NUMPY[buffer.dtype.name], copy=False)
    return found
