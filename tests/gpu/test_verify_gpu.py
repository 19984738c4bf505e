"""Explain, verify and the demo on a CUDA device."""

from __future__ import annotations

import pytest
import torch

import fusewise
from fusewise import demo
from fusewise.measure.program import load_catalogue

pytestmark = pytest.mark.gpu

PROGRAMS = (
    "chain",
    "gelu_dropout_residual_layer_norm",
    "add_rms_norm",
    "masked_softmax",
    "cross_entropy",
    "swiglu",
    "transformer_block",
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_equal_to_eager(name: str) -> None:
    program = load_catalogue()[name]
    function, args = program.make("tiny", program.dtypes[0], "cuda", program.directions[-1])
    found = fusewise.verify(function, *args)
    assert found, found
    assert found.kernels and not found.eager_graphs and not any("poisoned" in note for note in found.notes)


def test_the_gpu_that_is_here_is_explained() -> None:
    found = fusewise.explain(lambda x: torch.softmax(x * 2, -1), torch.randn(64, 1000, device="cuda"))
    (device,) = found.devices
    (kernel,) = device.kernels
    assert device.device == "cuda" and kernel.resources is not None
    assert kernel.resources.source == "compiled" and kernel.resources.regs_per_thread


def test_the_demo() -> None:
    found = demo.run_demo("cuda", size="tiny", baselines=("eager",))
    assert all(v.ok for v in found.verifications), found.verifications
    assert all(row.verified for row in found.bench.rows)
