"""Graphs of a call without running it: roles, breaks, absent GPUs, and nothing of the user's changed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.errors import UsageError


def test_forward_and_backward_of_a_model_that_no_memory_could_hold() -> None:
    model = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
    x = torch.empty(10**6, 1024, 64, device="meta", requires_grad=True)
    traced = trace_fn(model, (x,))
    assert [t.role for t in traced] == ["forward", "backward"]
    assert all(p.grad is None for p in model.parameters())
    captured = import_graph(traced[0].gm, traced[0].example_inputs, "balanced", strict=True)
    assert (10**6, 1024, 64) in [captured.graph[i].shape for i in captured.graph.inputs]


def test_inference_and_graph_breaks() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    assert [t.role for t in trace_fn(fn, (torch.randn(3),))] == ["inference", "inference"]
    roles = [t.role for t in trace_fn(fn, (torch.randn(3, requires_grad=True),))]
    assert roles == ["forward", "forward", "backward", "backward"]


def test_buffers_and_the_users_compiled_code_stay_as_they_are() -> None:
    model = nn.BatchNorm1d(4)
    compiled = torch.compile(model, backend="eager")
    compiled(torch.randn(3, 4))
    before = model.running_mean.clone()
    trace_fn(model, (torch.randn(3, 4),))
    assert torch.equal(model.running_mean, before) and model.num_batches_tracked == 1


@pytest.mark.parametrize(("device", "dtype"), [(None, torch.bfloat16), ("cuda", torch.float32)])
def test_a_gpu_saves_the_statistics_of_a_half_norm_in_float32(device: str | None, dtype: torch.dtype) -> None:
    model = nn.LayerNorm(256).bfloat16()
    x = torch.empty(4, 256, dtype=torch.bfloat16, requires_grad=True)
    forward, backward = trace_fn(model, (x,), device=device)
    saved = [n.meta["val"] for n in backward.gm.graph.find_nodes(op="placeholder")]
    assert [v.dtype for v in saved if v.shape == (4, 1)] == [dtype, dtype]
    captured = import_graph(forward.gm, forward.example_inputs, "balanced", device=device, strict=True)
    assert captured.graph.device == (device or "cpu")


def test_dynamic_sizes() -> None:
    (traced,) = trace_fn(lambda x: x.view(x.shape[0], 2, -1) + 1, (torch.randn(3, 4),), dynamic=True)
    captured = import_graph(traced.gm, traced.example_inputs, "balanced", strict=True)
    assert captured.reasons == () and len(captured.graph.symbols) == 2


def test_a_path_that_depends_on_data_is_a_clear_error() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(UsageError, match=r"depends on data.* at test_capture_trace\.py:\d+"):
        trace_fn(fn, (torch.randn(3),))


def test_origins_name_the_users_code_or_the_module() -> None:
    (traced,) = trace_fn(nn.Sequential(nn.Flatten(), nn.ReLU()), (torch.randn(3, 4),))
    captured = import_graph(traced.gm, traced.example_inputs, "balanced")
    assert {n.origin.text for n in captured.graph if n.op != "input"} == {"ReLU 1"}
    (traced,) = trace_fn(lambda x: torch.relu(x), (torch.randn(3, 4),))
    captured = import_graph(traced.gm, traced.example_inputs, "balanced")
    assert {n.origin.file for n in captured.graph if n.op != "input"} == {__file__}


@pytest.mark.parametrize("backward", [False, True])
def test_a_gpus_group_norm_gives_row_major_results(backward: bool) -> None:
    """As ATen's kernels do; a CPU's keep channels-last."""
    x = torch.randn(2, 8, 4, 4).contiguous(memory_format=torch.channels_last).requires_grad_(backward)
    model = nn.GroupNorm(2, 8)
    row_major, channels_last = (128, 16, 4, 1), (128, 1, 32, 8)
    for device, wanted in ((None, channels_last), ("cuda", row_major)):
        first = trace_fn(model, (x,), device=device)[0].gm
        (output,) = first.graph.find_nodes(op="output")
        assert output.args[0][0].meta["val"].stride() == wanted
