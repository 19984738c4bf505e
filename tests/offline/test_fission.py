"""Schedules by compiled finalists, and kernels split by what their code uses, for a GPU that is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton")

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.ir.graph import Graph
from fusewise.lower.fission import cheapest_cuts, refine
from fusewise.lower.kernel import Kernel
from fusewise.lower.price import Pricer
from fusewise.pipeline import compiler_for, machine_of
from fusewise.plan.cost import value_bytes
from fusewise.plan.partition import Cut
from fusewise.plan.plan import Plan, make_plan
from fusewise.plan.resources import Resources, Section

MACHINE = machine_of("h200")
assert MACHINE.gpu is not None
GPU = MACHINE.gpu


def graph_of(fn: Callable[..., object], *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Graph:
    inputs = [torch.empty(shape, dtype=dtype, device="meta") for shape in shapes]
    (traced,) = trace_fn(fn, inputs, device="cuda")
    return import_graph(traced.gm, traced.example_inputs, "balanced", "cuda").graph


def planner(graph: Graph) -> Callable[[Sequence[Cut]], Plan]:
    return lambda cuts: make_plan(graph, MACHINE, apart=cuts)


def two_halves(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two chains that share nothing but the read of x."""
    a, b = x, x
    for i in range(12):
        a = torch.sin(a) * (i + 1)
        b = torch.cos(b + y) * (i + 2)
    return a, b


def starving(kernel: Kernel) -> Resources:
    """A compiler that finds many registers and spills in kernels of many instructions."""
    large = len(kernel.body) > 60
    section = Section({"float": 4 * len(kernel.body), "global": 4}, load_bytes=32, store_bytes=32)
    spilled = 4096 if large else 0
    return Resources(255 if large else 32, spilled, spilled, 0, 0, kernel.schedule.num_warps, straight=section)  # type: ignore[union-attr]


def test_a_cut_crosses_where_least_passes_through_memory() -> None:
    graph = graph_of(two_halves, (1 << 20,), (1 << 20,))
    plan = planner(graph)(())
    (step,) = plan.kernels
    cuts = cheapest_cuts(plan.graph, step)
    assert cuts
    first, second = cuts[0]
    assert first | second == set(step.nodes)
    assert not first & second
    # between the chains nothing passes but the second read of x
    made = {v for n in second for v in plan.graph[n].args if v in first and plan.graph[v].shape}
    assert sum(value_bytes(plan.graph, v, {}) for v in made) == 0


def test_a_kernel_that_spills_is_split_where_its_parts_are_faster() -> None:
    refined = refine(planner(graph_of(two_halves, (1 << 24,), (1 << 24,))), Pricer(GPU, starving))
    assert len(refined.plan.kernels) == 2
    (decision,) = (d for d in refined.plan.decisions if d.kind == "fission")
    assert decision.taken
    assert decision.code == "registers"
    assert decision.gain_us > 0
    assert "255 registers, 8192 bytes spilled" in decision.detail
    assert all(s.prediction is None or s.prediction.spill_bytes == 0 for s in refined.plan.kernels)


def test_a_kernel_whose_parts_are_slower_stays_whole() -> None:
    def roomy(kernel: Kernel) -> Resources:
        return replace(starving(kernel), regs_per_thread=255, spill_store_bytes=4, spill_load_bytes=4)

    refined = refine(planner(graph_of(two_halves, (1 << 24,), (1 << 24,))), Pricer(GPU, roomy))
    assert len(refined.plan.kernels) == 1
    assert all(not d.taken for d in refined.plan.decisions if d.kind == "fission")


@pytest.mark.parametrize(("fission", "kernels"), [("never", 1), ("always", 2)])
def test_fission_can_be_ruled_out_and_forced(fission: str, kernels: int) -> None:
    refined = refine(planner(graph_of(two_halves, (1 << 24,), (1 << 24,))), Pricer(GPU, starving), fission)  # type: ignore[arg-type]
    assert len(refined.plan.kernels) == kernels


def test_small_kernels_are_not_compiled_to_be_priced() -> None:
    def never(kernel: Kernel) -> Resources:
        raise AssertionError("compiled")

    refined = refine(planner(graph_of(two_halves, (1000,), (1000,))), Pricer(GPU, never))
    assert refined.time_us >= GPU.launch_us


def test_real_kernels_are_priced_by_their_machine_code() -> None:
    compile_kernel = compiler_for(MACHINE, "balanced")
    graph = graph_of(lambda x: torch.softmax(x, -1), (8192, 4096), dtype=torch.bfloat16)
    refined = refine(planner(graph), Pricer(GPU, compile_kernel))
    (step,) = refined.plan.kernels
    assert step.prediction is not None
    assert step.prediction.source == "compiled"
    assert 16 < step.prediction.regs_per_thread < 128
    assert step.predicted_us > step.dram_bytes / MACHINE.bytes_per_s * 1e6


def test_without_a_compiler_registers_are_modelled_and_marked() -> None:
    refined = refine(planner(graph_of(lambda x: torch.softmax(x, -1), (8192, 4096))), Pricer(GPU, None))
    (step,) = refined.plan.kernels
    assert step.prediction is not None
    assert step.prediction.source == "modelled"
