"""Kernels of changing sizes have a 32-bit variant, taken where every offset of the call fits it."""

from __future__ import annotations

from dataclasses import replace

from fusewise.ir.builder import Builder
from fusewise.ir.dtypes import F32
from fusewise.ir.graph import SymbolInfo
from fusewise.ir.sizes import symbol
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
    plan = make_plan(b.finish([e / b.reduce("sum", e, [-1], keepdim=True)]), GPU)
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


def test_a_kernel_that_has_32_bit_indexes_already_has_no_variant() -> None:
    kernel = softmax_kernel()
    assert isinstance(kernel.schedule, TritonSchedule)
    assert narrow_variant(replace(kernel, schedule=replace(kernel.schedule, index_bits=32))) is None
