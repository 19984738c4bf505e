"""Each row of the expansion table, in the interpreter, beside eager: bit for bit where the row says so."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

from fusewise.errors import Unsupported
from fusewise.ir.expand import TABLE
from fusewise.ir.interp import run
from tests.unit import samples_shapes  # noqa: F401  (fills SAMPLES)
from tests.unit.rows import bits_differ, graph_of, ours_and_eager, overload
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = list(sample.make(Maker(dtype, seed=1)))
        pairs = ours_and_eager(sample.name, args, sample.kwargs)
        exact = _is_exact(sample, args)
    for which, (ours, eager) in enumerate(pairs):
        assert ours.shape == eager.shape
        if which == 0:
            assert ours.dtype == eager.dtype
        else:
            eager = eager.to(ours.dtype)  # fake and real CPU kernels differ in the dtype of some statistics
        if exact:
            differ = bits_differ(ours, eager)
            assert not differ.any(), f"result {which}: {ours[differ][:4]} is not {eager[differ][:4]}"
        else:
            _check_near(sample, args, which, ours, eager)


def _is_exact(sample: Sample, args: list[Any]) -> bool:
    """True where the conservative policy would take this row for this call."""
    if not TABLE[sample.name].is_exact_on("cpu"):
        return False
    try:
        graph_of(sample.name, args, sample.kwargs, policy="conservative")
    except Unsupported:
        return False
    return True


def _check_near(sample: Sample, args: list[Any], which: int, ours: torch.Tensor, eager: torch.Tensor) -> None:
    """Within a few roundings of the result computed in f64, or nearer to it than 1.5 times eager."""
    if not ours.dtype.is_floating_point:
        assert torch.equal(ours, eager)
        return
    reference = eager.double()
    if ours.dtype != torch.float64:

        def wider(x: Any) -> Any:
            if isinstance(x, torch.Tensor) and x.dtype.is_floating_point:
                return x.double()
            return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x

        try:
            result = overload(sample.name)(*tree_map(wider, args), **tree_map(wider, dict(sample.kwargs)))
            outs = [o for o in (result if isinstance(result, (tuple, list)) else [result]) if o is not None]
            reference = outs[which].double()
        except RuntimeError:
            pass  # an op without an f64 kernel: eager is its own reference
    odd = ~(eager.isfinite() & ours.isfinite())
    wrong = bits_differ(ours, eager) & odd
    # eager may overflow too early (sinh), and at the edge of the range one rounding decides
    limit = torch.finfo(ours.dtype).max
    early = ours.isfinite() & ((ours.double() - reference).abs() < 1e-2 * reference.abs())
    edge = (reference.abs() > 0.99 * limit) | early
    assert not (wrong & ~edge).any(), f"result {which}: {ours[wrong][:4]} beside {eager[wrong][:4]}"
    eps = torch.finfo(ours.dtype).eps
    error = (ours.double() - reference).abs()
    allowed = 1.5 * (eager.double() - reference).abs() + 2 * sample.slack * eps * reference.abs().clamp(min=1)
    far = (error > allowed) & ~odd
    assert not far.any(), f"result {which}: {ours[far][:4]} beside {eager[far][:4]}, in f64 {reference[far][:4]}"


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


def test_every_row_has_a_sample() -> None:
    assert set(TABLE) - {s.name for s in SAMPLES} - REFUSALS - NOT_ON_A_CPU == set()


def test_every_sample_has_a_row() -> None:
    assert {s.name for s in SAMPLES} - set(TABLE) == set()
