"""Kernels of changing sizes have a 32-bit variant, taken where every offset of the call fits it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusewise.codegen.triton import module
from fusewise.ir import affine
from fusewise.ir.builder import Builder
from fusewise.ir.dtypes import F32, I64
from fusewise.ir.graph import Graph, SymbolInfo
from fusewise.ir.sizes import Size, symbol
from fusewise.lower.build import build_kernel
from fusewise.lower.kernel import Kernel, TritonSchedule
from fusewise.plan.cost import Machine
from fusewise.plan.gpu_schedule import choose_gpu_schedule
from fusewise.plan.plan import make_plan
from fusewise.runtime.index_width import choose_by_size, narrow_variant

GPU = Machine("test gpu", "gpu", 4e12, 3.0, 3e13, 132, 50 << 20, "modelled", 90)


def softmax_kernel() -> Kernel:
    b = Builder("cuda")
    rows = symbol("s0")
    b.symbol("s0", SymbolInfo(8, "inputs[0].size(0)"))
    x = b.input((rows, 1024), F32)
    e = b.op("exp", x - b.reduce("max", x, [-1], keepdim=True))
    return kernel_of(b.finish([e / b.reduce("sum", e, [-1], keepdim=True)]))


def kernel_of(graph: Graph) -> Kernel:
    """The first kernel of a graph."""
    plan = make_plan(graph, GPU)
    step = plan.kernels[0]
    return build_kernel(
        plan.graph, step.region, step.writes, plan.layouts, step.name, lambda s: choose_gpu_schedule(s, 132)[0]
    )


def test_the_narrow_variant_runs_up_to_the_last_size_that_fits() -> None:
    kernel = softmax_kernel()
    narrow = narrow_variant(kernel)
    assert narrow is not None and isinstance(narrow.schedule, TritonSchedule)
    assert narrow.schedule.index_bits == 32 and narrow.name != kernel.name
    took: list[str] = []
    launch = choose_by_size(kernel, lambda *_: took.append("narrow"), lambda *_: took.append("wide"))
    for rows in (2, (2**31 - 2**20) // 1024 - 1, (2**31 - 2**20) // 1024 + 1, 2**40):
        launch(0, 0, 0, rows)
    assert took == ["narrow", "narrow", "wide", "wide"]


@pytest.mark.parametrize(("rows", "bits"), [(1 << 20, 32), (1 << 21, 64), (symbol("s0"), 64)])
def test_a_few_rows_of_a_large_table_may_be_its_last_ones(rows: Size, bits: int) -> None:
    b = Builder("cuda")
    if not isinstance(rows, int):
        b.symbol("s0", SymbolInfo(64, "inputs[0].size(0)"))
    table, index = b.input((rows, 1024), F32), b.input((8,), I64)
    found = b.gather(table, index, 0, (8, 1024), [None, affine.axis("o1")], [affine.axis("o0")])
    kernel = kernel_of(b.finish([found * 2.0]))
    assert isinstance(kernel.schedule, TritonSchedule) and kernel.schedule.index_bits == bits
    assert (".to(tl.int64)" in module([kernel], False)) == (bits == 64)


def test_strides_may_pass_32_bits_where_sizes_do_not() -> None:
    for step, bits in ((1 << 20, 32), (1 << 29, 64)):
        b = Builder("cuda")
        kernel = kernel_of(b.finish([b.input((8, 128), F32, (step, 1)) * 2.0]))
        assert isinstance(kernel.schedule, TritonSchedule) and kernel.schedule.index_bits == bits


def test_a_kernel_that_has_32_bit_indexes_already_has_no_variant() -> None:
    kernel = softmax_kernel()
    assert isinstance(kernel.schedule, TritonSchedule)
    assert narrow_variant(replace(kernel, schedule=replace(kernel.schedule, index_bits=32))) is None
