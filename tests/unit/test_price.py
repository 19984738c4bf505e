"""Kernels that differ in name alone are compiled once to be priced."""

from __future__ import annotations

import torch

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.lower.kernel import Kernel
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
