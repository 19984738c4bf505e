"""Each row of the expansion table, in the interpreter, beside eager: bit for bit where the row says so."""

from __future__ import annotations

import pytest
import torch

from fusewise.ir.expand import TABLE
from fusewise.ir.interp import run
from tests.unit import samples_shapes  # noqa: F401  (fills SAMPLES)
from tests.unit.rows import check_row, graph_of
from tests.unit.samples import SAMPLES, Maker, Sample

# Rows that exist to say why an op stays eager's.
REFUSALS = {
    "aten.as_strided.default",
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.new_empty.default",
    "aten.empty_strided.default",
    "aten.new_empty_strided.default",
    "aten.binary_cross_entropy.default",
}
NOT_ON_A_CPU = {"aten._fused_rms_norm_backward.default"}  # tested below against autograd

CASES = [(sample, dtype) for sample in SAMPLES for dtype in sample.dtypes]


def _label(case: tuple[Sample, torch.dtype]) -> str:
    sample, dtype = case
    return f"{sample.name}-{str(dtype).removeprefix('torch.')}"


@pytest.mark.parametrize("case", CASES, ids=_label)
def test_row_equals_eager(case: tuple[Sample, torch.dtype]) -> None:
    sample, dtype = case
    check_row(sample, dtype, "cpu")


@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm_gradient_is_autograds(weighted: bool) -> None:
    maker = Maker(torch.float64, 3)
    x, grad = maker.normal(5, 6).requires_grad_(), maker.normal(5, 6)
    weight = maker.normal(6).requires_grad_() if weighted else None
    torch.nn.functional.rms_norm(x, (6,), weight, 1e-5).backward(grad)
    inverse = torch.rsqrt(x.detach().square().mean(1, keepdim=True) + 1e-5)
    args = [grad, x.detach(), (6,), inverse, None if weight is None else weight.detach(), [True, weighted]]
    graph, tensors = graph_of("aten._fused_rms_norm_backward.default", args, device="cuda")
    found = run(graph, [t.numpy() for t in tensors])
    for ours, leaf in zip(found, [x, *([weight] if weight is not None else [])], strict=True):
        assert leaf.grad is not None
        torch.testing.assert_close(torch.from_numpy(ours), leaf.grad)


@pytest.mark.parametrize(
    "name", ["aten._native_batch_norm_legit_no_training.default", "aten._native_batch_norm_legit_functional.default"]
)
def test_a_gpu_saves_the_running_statistics_where_a_cpu_saves_nothing(name: str) -> None:
    maker = Maker(torch.float64, 4)
    x, weight, bias, mean, variance = (maker.normal(4, 3, 5), *(maker.normal(3) for _ in range(3)), maker.positive(3))
    training = [False] if "functional" in name else []
    args = [x, weight, bias, mean, variance, *training, 0.1, 1e-5]
    saved = {"cpu": (x[:0, 0, 0], x[:0, 0, 0]), "cuda": (mean, torch.rsqrt(variance + 1e-5))}
    for device, wanted in saved.items():
        graph, tensors = graph_of(name, args, device=device)
        for ours, eager in zip(run(graph, [t.numpy() for t in tensors])[1:3], wanted, strict=True):
            torch.testing.assert_close(torch.from_numpy(ours), eager)


def test_every_row_has_a_sample() -> None:
    assert set(TABLE) - {s.name for s in SAMPLES} - REFUSALS - NOT_ON_A_CPU == set()


def test_every_sample_has_a_row() -> None:
    assert {s.name for s in SAMPLES} - set(TABLE) == set()
