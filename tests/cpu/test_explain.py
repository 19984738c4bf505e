"""`fusewise.explain`: kernels with the user's lines, reasons for what is not fused, registers of absent GPUs."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fusewise
from fusewise.errors import UnknownName, UsageError
from fusewise.plan.decisions import REASONS
from fusewise.report.documents import DevicePlan, Explanation
from fusewise.runtime import triton_compile
from fusewise.stages import last_run

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton")


def norm_then_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = F.gelu(x)
    y = F.rms_norm(h, (x.shape[-1],))
    return (y @ w) * 2 + 1


def arguments(grad: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(64, 128, requires_grad=grad), torch.randn(128, 128, requires_grad=grad)


def plan(found: Explanation, device: str | None = None) -> DevicePlan:
    return next(d for d in found.devices if device in (None, d.device))


def test_kernels_lines_and_bytes() -> None:
    found = fusewise.explain(norm_then_product, *arguments())
    (graph,) = plan(found).graphs
    assert graph.role == "inference" and len(graph.kernels) == 2 and not found.graph_breaks
    first, second = graph.kernels
    assert [line.text for line in first.lines] == ["h = F.gelu(x)", "y = F.rms_norm(h, (x.shape[-1],))"]
    assert all(line.file == __file__ for line in first.lines)
    assert first.ops[0] == "aten.gelu.default" and second.ops == ("aten.mul.Tensor", "aten.add.Tensor")
    tensor = 64 * 128 * 4
    assert second.dram_bytes == 2 * tensor and second.unfused_bytes == 4 * tensor
    assert first.dram_bytes == 2 * tensor < first.unfused_bytes
    assert all(k.predicted_us >= k.floor_us > 0 for k in graph.kernels)


def test_a_cpu_kernel_says_what_bounds_it() -> None:
    found = fusewise.explain(norm_then_product, torch.empty(1 << 14, 1024), torch.empty(1024, 1024))
    for kernel in plan(found).kernels:
        use = kernel.cpu
        assert use is not None
        parts = {"memory": use.memory_us, "vector issue": use.vector_us, "registers": use.registers_us}
        assert kernel.bound_by == max(parts | {"launch": use.launch_us}, key=lambda k: (parts | {"launch": 0.0})[k])
        assert f"{kernel.bound_by}, {use.cores} core" in str(found)
        assert f"of {use.vector_registers} registers" in str(found)


def test_walls_and_why_neighbours_are_not_fused() -> None:
    (graph,) = plan(fusewise.explain(norm_then_product, *arguments())).graphs
    (wall,) = graph.walls
    assert wall.op == "aten.mm.default" and wall.reason and wall.line.text == "return (y @ w) * 2 + 1"
    assert wall.dram_bytes == (2 * 64 * 128 + 128 * 128) * 4
    pairs = {(p.first, p.second): p for p in graph.not_fused}
    first, second = (k.name for k in graph.kernels)
    assert pairs[first, "mm"].code == pairs["mm", second].code == "wall"
    assert pairs[first, "mm"].bytes_between == 64 * 128 * 4
    assert all(p.code in REASONS and p.meaning == REASONS[p.code] for p in graph.not_fused)


def test_every_neighbour_has_a_reason() -> None:
    """Whatever reads what another step writes is one with it, or stands in the list."""

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.softmax(x, -1)
        b = (a * 2).sum(0)
        return a @ y, b + 1, (x + b).t().contiguous().cumsum(0)

    found = fusewise.explain(f, torch.randn(64, 64, requires_grad=True), torch.randn(64, 64))
    for graph in plan(found).graphs:
        names = {k.name for k in graph.kernels} | {w.name for w in graph.walls}
        assert all(p.first in names and p.second in names for p in graph.not_fused)
        assert len({(p.first, p.second) for p in graph.not_fused}) == len(graph.not_fused)


def test_several_calls_on_one_line_are_counted() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for s in range(1, 5):
            x = x * s + 1
        return x

    (kernel,) = plan(fusewise.explain(f, torch.randn(100))).kernels
    assert sorted(kernel.ops) == ["aten.add.Tensor"] * 4 + ["aten.mul.Tensor"] * 4 or len(kernel.ops) == 7  # x * 1


def test_forward_and_backward() -> None:
    found = fusewise.explain(norm_then_product, *arguments(grad=True))
    assert [g.role for g in plan(found).graphs] == ["forward", "backward"]
    backward = plan(found).graphs[1]
    assert {line.text for k in backward.kernels for line in k.lines} >= {"h = F.gelu(x)"}
    with torch.no_grad():
        assert [g.role for g in plan(fusewise.explain(norm_then_product, *arguments(grad=True))).graphs] == [
            "inference"
        ]


def test_graph_breaks_are_named_with_their_place() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    found = fusewise.explain(f, torch.randn(4))
    (stop,) = found.graph_breaks
    assert stop.line.text == "torch._dynamo.graph_break()" and "graph_break" in stop.reason
    assert len(plan(found).graphs) == 2


def test_nothing_is_run_or_allocated() -> None:
    x = torch.empty(2**20, 2**20, device="meta")  # 4 TB
    (kernel,) = plan(fusewise.explain(lambda x: torch.relu(x) * 2, x)).kernels
    assert kernel.dram_bytes == 2 * 4 * 2**40


def test_a_module_keeps_its_state() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    fusewise.explain(module, torch.randn(4, 8))
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())


@needs_triton
def test_registers_of_gpus_that_are_not_here() -> None:
    found = fusewise.explain(norm_then_product, *arguments(grad=True), device=["h200", "rtx5090", "cpu"])
    assert [d.device for d in found.devices] == ["h200", "rtx5090", "cpu"]
    for device in ("h200", "rtx5090"):
        for kernel in plan(found, device).kernels:
            used = kernel.resources
            assert used is not None and used.source == "compiled"
            assert used.regs_per_thread and used.spill_store_bytes == used.spill_load_bytes == 0
            assert used.shared_bytes is not None and used.blocks_per_sm and 0 < (used.occupancy or 0) <= 1
    assert all(k.resources is None for k in plan(found, "cpu").kernels)
    assert plan(found, "h200").rate_source == "datasheet"


@needs_triton
def test_the_stages_of_each_kernel_are_kept() -> None:
    found = fusewise.explain(norm_then_product, *arguments(), device=["h200", "cpu"])
    _, kernels = last_run()
    assert {k.device for k in kernels} == {"h200", "cpu"}
    stages = {k.path: k for k in kernels}
    gpu = stages[f"h200/inference/{plan(found, 'h200').kernels[0].name}"]
    assert gpu.stages == ["graph", "plan", "ir", "triton", "ptx", "sass"]
    assert ".target sm_90" in gpu.text("ptx") and "tl.store" in gpu.text("triton") and "EXIT" in gpu.text("sass")
    cpu = stages[f"cpu/inference/{plan(found, 'cpu').kernels[0].name}"]
    assert cpu.stages == ["graph", "plan", "ir", "cpp"] and 'extern "C"' in cpu.text("cpp")


def test_without_triton_registers_are_modelled_and_the_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_compile.importlib.util, "find_spec", lambda name: None)
    found = fusewise.explain(norm_then_product, *arguments(), device="l4")
    device = plan(found)
    assert all(k.resources is not None and k.resources.source == "modelled" for k in device.kernels)
    assert all(k.resources is not None and k.resources.regs_per_thread for k in device.kernels)
    assert len(device.notes) == 1 and "pip install triton" in device.notes[0]
    text = str(found)
    assert "modelled, not compiled" in text and f"~{device.kernels[0].resources.regs_per_thread} registers" in text
    assert device.most_regs is None  # of compiled ones


def test_json_and_text() -> None:
    found = fusewise.explain(norm_then_product, *arguments())
    document = json.loads(found.to_json())
    assert document["target"] == "norm_then_product" and document["policy"] == "balanced"
    assert document["devices"][0]["graphs"][0]["kernels"][0]["ops"][0] == "aten.gelu.default"
    text = str(found)
    for part in ("h = F.gelu(x)", "mm", "wall", "2 kernels", "No graph breaks."):
        assert part in text


def test_the_policy_decides() -> None:
    exact = fusewise.explain(norm_then_product, *arguments(), policy="conservative")
    assert len(plan(exact).walls) > len(plan(fusewise.explain(norm_then_product, *arguments())).walls)


def test_bad_input(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownName, match="Did you mean h200"):
        fusewise.explain(norm_then_product, *arguments(), device="h20")
    with pytest.raises(UsageError, match="cannot be traced on these inputs: RuntimeError: .*2, 3"):
        fusewise.explain(torch.mm, torch.randn(2, 3), torch.randn(2, 3))
    assert "Traceback" not in capfd.readouterr().err
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no CUDA device"):
            fusewise.explain(torch.relu, torch.randn(2), device="cuda")
