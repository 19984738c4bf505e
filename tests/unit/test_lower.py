"""Plan + lowering against the graph interpreter: every region's kernel computes what the graph says."""

from __future__ import annotations

import numpy as np
import pytest

from fusewise.ir import affine
from fusewise.ir.builder import Builder, Value
from fusewise.ir.dtypes import BF16, BOOL, F32, F64, I32, I64
from fusewise.ir.graph import Graph, SymbolInfo
from fusewise.ir.interp import run
from fusewise.ir.rounding import NUMPY, round_bf16
from fusewise.ir.sizes import contiguous_strides, symbol
from fusewise.lower.build import build_kernel
from fusewise.lower.interp import run_kernel
from fusewise.lower.kernel import Compute, Load
from fusewise.plan.cost import Machine
from fusewise.plan.plan import KernelStep, Plan, make_plan
from fusewise.plan.schedule import choose_cpp_schedule

CPU = Machine("test cpu", "cpu", 2e10, 2.0, 5e10, 2, 1 << 25, "modelled")
GPU = Machine("test gpu", "gpu", 4e12, 3.0, 3e13, 132, 50 << 20, "modelled", 90)


def sample(node_dtype: object, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    dtype = node_dtype
    if dtype == BOOL:
        return rng.random(shape) < 0.5
    if dtype in (I64, I32):
        return rng.integers(0, 3, shape).astype(NUMPY[dtype.name])
    data = rng.standard_normal(shape).astype(NUMPY[dtype.name])
    return round_bf16(data) if dtype == BF16 else data


def flat_input(array: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """A flat buffer that holds `array` with the given strides."""
    length = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True) if n > 0)
    flat = np.zeros(max(length, 1), array.dtype)
    if array.size:
        place = (
            sum(
                np.arange(n).reshape([-1 if i == d else 1 for i in range(array.ndim)]) * s
                for d, (n, s) in enumerate(zip(array.shape, strides, strict=True))
            )
            if array.ndim
            else 0
        )
        flat[np.broadcast_to(place, array.shape)] = array
    return flat


def execute(plan: Plan, inputs: list[np.ndarray], sizes: dict[str, int]) -> list[np.ndarray]:
    """Runs the plan's kernels by the kernel interpreter."""
    graph = plan.graph

    def size(s: object) -> int:
        return s if isinstance(s, int) else int(s.subs({x: sizes[str(x)] for x in s.free_symbols}))

    memory: dict[int, np.ndarray] = {}
    for number, array in zip(graph.inputs, inputs, strict=True):
        memory[number] = flat_input(array, tuple(map(size, plan.layouts[number])))
    for step in plan.steps:
        assert isinstance(step, KernelStep)
        gpu = plan.machine.kind == "gpu"
        kernel = build_kernel(graph, step.region, step.writes, plan.layouts, step.name, choose_cpp_schedule, gpu)
        for value in step.writes:
            shape = tuple(map(size, graph[value].shape))
            strides = tuple(map(size, plan.layouts[value]))
            length = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n > 0)
            memory[value] = np.full(max(1, length), 77, NUMPY[graph[value].dtype.name])
        run_kernel(kernel, [memory[b.node] for b in kernel.buffers], sizes)
    results = []
    for output, place in zip(graph.outputs, plan.outputs, strict=True):
        shape = tuple(map(size, graph[output].shape))
        strides, offset = tuple(map(size, place.strides)), size(place.offset)
        where = np.full(shape, offset)
        for d, (n, s) in enumerate(zip(shape, strides, strict=True)):
            where = where + (np.arange(n) * s).reshape([-1 if i == d else 1 for i in range(len(shape))])
        results.append(memory[place.base][where])
    return results


def agree(graph: Graph, sizes: dict[str, int] | None = None, kernels: int | None = None) -> Plan:
    """Plans for both kinds of device, runs, compares with the graph interpreter; returns the CPU's plan."""
    rng = np.random.default_rng(0)
    values = dict(sizes or {})

    def size(s: object) -> int:
        return s if isinstance(s, int) else int(s.subs({x: values[str(x)] for x in s.free_symbols}))

    inputs = [sample(graph[i].dtype, tuple(map(size, graph[i].shape)), rng) for i in graph.inputs]
    want = run(graph, inputs, sizes=values)
    first: Plan | None = None
    for machine in (CPU, GPU):
        plan = make_plan(graph, machine)
        got = execute(plan, inputs, values)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=2e-5, atol=1e-5)
        first = first or plan
    assert first is not None
    if kernels is not None:
        assert len(first.kernels) == kernels, [k.name for k in first.kernels]
    return first


def softmax(b: Builder, x: Value) -> Value:
    e = b.op("exp", x - b.reduce("max", x, [-1], keepdim=True))
    return e / b.reduce("sum", e, [-1], keepdim=True)


def layer_norm(b: Builder, x: Value, w: Value, bias: Value) -> tuple[Value, Value, Value]:
    n = x.shape[-1]
    mean = b.reduce("sum", x, [-1], keepdim=True) / b.size(n, F32)
    centred = x - mean
    var = b.reduce("sum", centred * centred, [-1], keepdim=True) / b.size(n, F32)
    rstd = b.op("rsqrt", var + 1e-5)
    return centred * rstd * w + bias, mean, rstd


def test_chain_is_one_kernel() -> None:
    b = Builder()
    x = b.input((5, 7, 3), F32)
    y = x
    for i in range(20):
        y = b.op("maximum", y * (1.0 + i) + 0.5, 0.0)
    agree(b.finish([y]), kernels=1)


def test_softmax_and_layer_norm_are_one_kernel_each() -> None:
    b = Builder()
    x = b.input((6, 33), F32)
    agree(b.finish([softmax(b, x * 2.0) * 3.0]), kernels=1)
    b = Builder()
    x, w, bias = b.input((4, 3, 16), BF16), b.input((16,), BF16), b.input((16,), BF16)
    y, mean, rstd = layer_norm(b, x.cast(F32), w.cast(F32), bias.cast(F32))
    plan = agree(b.finish([y.cast(BF16), mean, b.reshape(rstd, (12,))]), kernels=1)
    assert {len(k.writes) for k in plan.kernels} == {3}


def test_reshape_between_is_free() -> None:
    b = Builder()
    x = b.input((4, 6, 8), F32)
    y = b.reshape(softmax(b, x), (24, 8)) * 2.0
    z = b.reshape(y, (4, 2, 3, 2, 4)) + 1.0
    agree(b.finish([z]), kernels=1)


def test_group_norm_over_two_axes() -> None:
    b = Builder()
    x, w = b.input((2, 8, 3, 5), F32), b.input((8,), F32)
    grouped = b.reshape(x, (2, 4, 30))
    mean = b.reduce("sum", grouped, [-1], keepdim=True) / 30.0
    centred = grouped - mean
    rstd = b.op("rsqrt", b.reduce("sum", centred * centred, [-1], keepdim=True) / 30.0 + 1e-5)
    y = b.reshape(centred * rstd, (2, 8, 3, 5)) * b.reshape(w, (8, 1, 1))
    agree(b.finish([y]), kernels=1)


def test_channels_last_input_and_permuted_output() -> None:
    b = Builder()
    x = b.input((2, 5, 3, 4), F32, strides=(60, 1, 20, 5))
    y = b.permute(b.op("exp", x), (0, 2, 3, 1)) + 1.0
    agree(b.finish([y, b.permute(y, (0, 3, 1, 2))]), kernels=1)


def test_transpose_read_twice_is_recomputed_or_stored_but_right() -> None:
    b = Builder()
    x = b.input((9, 9), F32)
    e = b.op("exp", x)
    agree(b.finish([e + b.permute(e, (1, 0))]))


def test_flip_and_slices() -> None:
    b = Builder()
    x = b.input((4, 10), F32)
    y = x * 2.0
    left, right = b.slice(y, 1, 0, 5), b.slice(y, 1, 5, 5)
    agree(b.finish([left * right + b.flip(left, [1]), b.slice(x, 1, 1, 4, 2) + 1.0]))


def test_row_and_column_reductions() -> None:
    b = Builder()
    x, w = b.input((12, 20), F32), b.input((20,), F32)
    y, mean, rstd = layer_norm(b, x, w, w)
    agree(b.finish([y, b.reduce("sum", (x - mean) * rstd, [0]), b.reduce("sum", y, None)]))


def test_column_sums_ride_on_the_row_kernel() -> None:
    b = Builder()
    x, g, w = b.input((48, 40), F32), b.input((48, 40), F32), b.input((40,), F32)
    _, mean, rstd = layer_norm(b, x, w, w)
    hat = (x - mean) * rstd
    gw = g * w
    first = b.reduce("sum", gw, [1], keepdim=True) / 40.0
    second = b.reduce("sum", gw * hat, [1], keepdim=True) / 40.0
    dx = (gw - first - hat * second) * rstd
    plan = agree(b.finish([dx.cast(BF16), b.reduce("sum", g * hat, [0]).cast(BF16), b.reduce("sum", g, [0])]))
    assert [bool(k.region.loop) for k in plan.kernels] == [True, False]


def test_pad_cat_gather_iota() -> None:
    b = Builder()
    x, y = b.input((3, 4), F32), b.input((3, 2), F32)
    joined = b.cat([x * 2.0, y, x], 1)
    padded = b.pad(joined, (1, 0), (0, 3), 7.0)
    agree(b.finish([padded + 1.0, joined]))
    b = Builder()
    table, rows = b.input((3, 6), F32), b.input((5,), I64)
    index_at = (affine.axis("o0"),)
    picked = b.gather(table, rows, 0, (5, 6), (None, affine.axis("o1")), index_at)
    mask = b.iota((5, 6), 1) <= b.iota((5, 6), 0)
    agree(b.finish([b.where(mask, picked, float("-inf")), softmax(b, b.where(mask, picked, -1e4))]))


def test_an_element_that_many_shifts_reach_is_computed_once() -> None:
    """A stencil in steps: its points grow with the square of the steps, the ways through them with the power."""
    b = Builder()
    x = b.input((5, 40), F32)
    for step in range(4):
        if step % 2:
            low, high = b.pad(x, (0, 1), (0, 0), 0.5), b.pad(x, (0, 0), (0, 1), 0.5)
            left, right = b.slice(low, 1, 0, 40), b.slice(high, 1, 1, 40)
        else:
            left = b.cat([b.slice(x, 1, 39, 1), b.slice(x, 1, 0, 39)], 1)
            right = b.cat([b.slice(x, 1, 1, 39), b.slice(x, 1, 0, 1)], 1)
        down = b.slice(b.pad(x, (1, 0), (0, 0), 0.0), 0, 0, 5)
        x = b.op("tanh", left - right * 2.0 + x) + down
    plan = agree(b.finish([x]))
    most = 0
    for one in plan.kernels:
        kernel = build_kernel(plan.graph, one.region, one.writes, plan.layouts, "k", choose_cpp_schedule, False)
        of_tanh = [i for i in kernel.body if isinstance(i, Compute) and i.op == "tanh"]
        most = max(most, len(of_tanh))
    places = sum((2 * k + 1) * (k + 1) for k in range(4))
    assert most <= places, "as many as there are places, at each step, from which the last step is reached"


def test_masked_loads_read_nothing_where_the_mask_is_off() -> None:
    b = Builder()
    x, ragged = b.input((4, 9, 9), F32), b.input((4,), I64)
    causal = b.iota((4, 9, 9), 2) <= b.iota((4, 9, 9), 1)
    inside = b.iota((4, 9, 9), 2) < b.reshape(ragged + 5, (4, 1, 1))
    scores = b.where(~inside, float("-inf"), b.where(causal, x * 0.5, float("-inf")))
    graph = b.finish([softmax(b, scores)])
    agree(graph)
    plan = make_plan(graph, GPU)
    step = plan.kernels[0]
    kernel = build_kernel(plan.graph, step.region, step.writes, plan.layouts, "k", choose_cpp_schedule, True)
    big = [i for i in kernel.body if isinstance(i, Load) and len(i.index.axes()) > 1]
    assert big and all(i.mask is not None for i in big)


def test_argmax_any_all_and_integers() -> None:
    b = Builder()
    x, n = b.input((4, 3, 5), F32), b.input((4, 15), I32)
    best = b.reduce("argmax", x, [1, 2])
    agree(b.finish([best, b.reduce("any", x > 1.0, [2]), b.reduce("all", x > -9.0, None), b.reduce("sum", n, [0])]))


def test_dropout_mask_does_not_depend_on_the_region() -> None:
    b = Builder()
    seed, x = b.input((), I64), b.input((6, 40), F32)
    keep = b.keep(seed, (6, 40), 3, 0.75)
    y = b.where(keep, x / 0.75, 0.0)
    agree(b.finish([y, b.reduce("sum", y, [1]), b.permute(b.keep(seed, (6, 40), 4, 0.5), (1, 0))]))


@pytest.mark.parametrize("rows", [2, 5, 64])
def test_one_plan_serves_every_size(rows: int) -> None:
    b = Builder()
    s = symbol("s0")
    b.symbol("s0", SymbolInfo(8, "inputs[0].size(0)"))
    x, w = b.input((s, 4, 16), F32), b.input((16,), F32)
    y, _, _ = layer_norm(b, x, w, w)
    z = b.reshape(y, (s * 4, 16)) * 2.0
    agree(b.finish([z, b.reduce("sum", z, [0])]), sizes={"s0": rows})


def test_empty_and_scalar() -> None:
    b = Builder()
    x, y = b.input((0, 4), F32), b.input((), F64)
    agree(b.finish([b.reduce("sum", x, [0]), y * 2.0, x + 1.0]))


def test_a_reduction_of_a_row_value() -> None:
    b = Builder()
    x = b.input((4, 8), F32)
    m = b.reduce("max", x, [1], keepdim=True)
    agree(b.finish([b.reduce("sum", b.expand(m, (4, 8)), [1]), b.reduce("sum", x, [1])]))


def test_long_reductions_are_split_for_parallelism() -> None:
    b = Builder()
    x = b.input((1 << 12, 64), F32)
    plan = make_plan(b.finish([b.reduce("sum", x * x, None)]), GPU)
    assert len(plan.kernels) == 2
    agree(b.finish([b.reduce("sum", x * x, None)]))


def test_long_rows_take_one_read_for_their_statistics() -> None:
    b = Builder()
    x = b.input((3, 40000), F32)
    graph = b.finish([softmax(b, x * 4.0)])
    agree(graph)
    plan = make_plan(graph, GPU)
    assert len(plan.kernels) == 3
    masked = b.where(b.iota((3, 40000), 1) < 9000, x, float("-inf"))
    agree(b.finish([softmax(b, masked)]))
    b = Builder()
    x = b.input((2, 8, 25, 250), F32, strides=(50000, 1, 2000, 8))
    grouped = b.reshape(x, (2, 2, 4, 6250))
    mean = b.reshape(b.reduce("sum", grouped, [2, 3]), (2, 2, 1, 1)) / 25000.0
    off = grouped - mean
    var = b.reduce("sum", off * off, [2, 3], keepdim=True) / 25000.0
    agree(b.finish([off * b.op("rsqrt", var + 1e-5), mean]))


def test_a_value_between_two_consumers_is_not_a_cycle() -> None:
    b = Builder()
    x = b.input((8, 8), F32)
    y = b.op("exp", x)
    wall = b.opaque([y], 0, "matmul")
    z = b.result(wall, 0, (8, 8), F32, contiguous_strides((8, 8)))
    plan = make_plan(b.finish([y + z]), CPU)
    assert [type(s).__name__ for s in plan.steps] == ["KernelStep", "OpaqueStep", "KernelStep"]


def test_a_thousand_chained_ops_plan_quickly() -> None:
    b = Builder()
    x = b.input((64,), F32)
    y = x
    for i in range(1000):
        y = y * 1.001 + float(i)
    plan = make_plan(b.finish([y]), CPU)
    assert len(plan.kernels) == 1


def test_aggressive_keeps_f32_between_ops() -> None:
    b = Builder()
    x = b.input((8, 8), BF16)
    once = (x.cast(F32) * 1.1).cast(BF16)
    graph = b.finish([(once.cast(F32) * 1.3).cast(BF16)])
    casts = {
        p: [n.dtype for n in make_plan(graph, CPU, policy=p).graph if n.op == "cast"]
        for p in ("balanced", "aggressive")
    }
    assert casts["balanced"].count(BF16) == 2 and casts["aggressive"].count(BF16) == 1


def test_a_join_that_two_walls_need_is_written_once() -> None:
    b = Builder()
    x, y = b.input((4, 6), F32), b.input((4, 6), F32)
    joined = b.cat([x, y], 0)
    walls = [b.opaque([v], i, "matmul") for i, v in enumerate((joined, b.permute(joined, (1, 0))))]
    outs = [b.result(w, 0, (2,), F32, (1,)) for w in walls]
    plan = make_plan(b.finish(outs), CPU)
    assert len(plan.kernels) == 1


def test_what_crosses_memory_is_stored_narrow() -> None:
    b = Builder()
    x = b.input((512, 512), BF16)
    seen = b.op("pow", x.cast(F32), 1.7).cast(BF16).cast(F32)
    first = b.reduce("sum", seen, [1])
    wall = b.opaque([first], 0, "matmul")
    second = b.reduce("sum", seen * b.result(wall, 0, (512, 512), F32, (512, 1)), [1])
    plan = make_plan(b.finish([second]), CPU)
    stored = [plan.graph[v].dtype for k in plan.kernels for v in k.writes if len(plan.graph[v].shape) == 2]
    assert stored == [BF16]
