"""Kernels that differ in name alone are compiled once to be priced; what no multiprocessor can hold is not taken."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.lower.kernel import Kernel, TritonSchedule
from fusewise.lower.price import Pricer
from fusewise.lower.registers import predict_resources
from fusewise.pipeline import machine_of
from fusewise.plan.plan import make_plan
from fusewise.runtime.gpu_resources import Resources

MACHINE = machine_of("h200")
N = 1 << 24


def test_alike_kernels_are_compiled_once() -> None:
    assert MACHINE.gpu is not None
    compiled: list[Kernel] = []

    def compile_kernel(kernel: Kernel) -> Resources:
        compiled.append(kernel)
        return predict_resources(kernel, MACHINE.gpu.arch)

    def step(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return [torch.sin(x) + 1 for x in tensors]

    tensors = [torch.empty(N, device="meta", dtype=d) for d in (torch.float32, torch.float32, torch.bfloat16)]
    tensors.append(torch.empty(2 * N, device="meta"))
    (traced,) = trace_fn(step, tuple(tensors), device="cuda")
    plan = make_plan(import_graph(traced.gm, traced.example_inputs, "balanced", "cuda").graph, MACHINE)
    priced = Pricer(MACHINE.gpu, compile_kernel).price_all(plan, plan.kernels)
    assert len(priced) == len(plan.kernels) == 4
    # the first two are alike; another type or size is another kernel
    alike = {(k.buffers[0].dtype, k.axes[0].size, k.schedule) for k in compiled}
    assert len(compiled) == len(alike) and {(d.name, s) for d, s, _ in alike} == {
        ("f32", N),
        ("bf16", N),
        ("f32", 2 * N),
    }
    by_name = {found.kernel.name: found.prediction for found in priced}
    assert all(by_name.values()) and len(by_name) == 4


@pytest.mark.parametrize("stages_that_fit", [2, 1, 0])
def test_a_schedule_that_no_multiprocessor_can_hold_is_not_taken(stages_that_fit: int) -> None:
    """The tiles that a pipelined loop has in flight are in shared memory, which may not hold them."""
    assert MACHINE.gpu is not None
    arch = MACHINE.gpu.arch

    def compile_kernel(kernel: Kernel) -> Resources:
        schedule = kernel.schedule
        assert isinstance(schedule, TritonSchedule)
        shared_bytes = 0 if schedule.num_stages <= stages_that_fit else arch.shared_bytes_per_sm + 1
        return replace(predict_resources(kernel, arch), shared_bytes=shared_bytes)

    def norm(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x / x.sum(-1, keepdim=True), (x * 2).sum(0)

    (traced,) = trace_fn(norm, (torch.empty(2048, 8192, device="meta"),), device="cuda")
    plan = make_plan(import_graph(traced.gm, traced.example_inputs, "balanced", "cuda").graph, MACHINE)
    (walking, *_) = Pricer(MACHINE.gpu, compile_kernel).price_all(plan, plan.kernels)
    schedule = walking.kernel.schedule
    assert walking.kernel.loop and isinstance(schedule, TritonSchedule)
    assert walking.fits == (stages_that_fit > 0)
    assert schedule.num_stages == stages_that_fit or not stages_that_fit
