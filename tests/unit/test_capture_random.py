"""Random ops: bits are those of the reference, the rewrite is pure, and seeds come from PyTorch's generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule

from fusewise.capture.importer import import_graph
from fusewise.capture.origin import target_name
from fusewise.ir import philox
from tests.capture_oracle import backend

CPU = torch.device("cpu")
SEEDS = [0, 1, -1, 2**62 + 12345, -(2**63)]


def explicit(fn: Callable[..., Any], *inputs: torch.Tensor) -> tuple[GraphModule, list[str]]:
    """The rewritten inference graph and the names of its calls; the graph returns a list."""
    torch._dynamo.reset()
    chosen, recorder = backend()
    with torch.no_grad():
        torch.compile(fn, backend=chosen)(*inputs)
    ((role, gm),) = recorder.graphs
    assert role == "inference"
    return gm, [target_name(n) for n in gm.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (3, 0, 2), (5, 9), (1000,)])
def test_ops_draw_the_bits_of_the_reference(seed: int, shape: tuple[int, ...]) -> None:
    given = torch.tensor(seed)
    element = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    unsigned = seed & 0xFFFFFFFFFFFFFFFF
    kept = torch.ops.fusewise.keep(given, CPU, 3, list(shape), 0.7)
    np.testing.assert_array_equal(kept.numpy(), philox.keep(unsigned, 3, element, 0.7))
    drawn = torch.ops.fusewise.uniform(given, CPU, 5, list(shape))
    np.testing.assert_array_equal(drawn.numpy(), philox.uniform(unsigned, 5, element))


@pytest.mark.parametrize(("keep_prob", "share"), [(0.0, 0.0), (1.0, 1.0), (0.25, 0.25)])
def test_keep_holds_its_probability(keep_prob: float, share: float) -> None:
    kept = torch.ops.fusewise.keep(torch.tensor(11), CPU, 0, [200, 1000], keep_prob)
    assert kept.float().mean().item() == pytest.approx(share, abs=0.004)


def test_seed_follows_the_generator() -> None:
    def draw() -> list[int]:
        torch.manual_seed(7)
        return [int(torch.ops.fusewise.seed(CPU)) for _ in range(3)]

    first = draw()
    assert first == draw() and len(set(first)) == 3


def test_fake_kernels_agree_with_the_real_ones() -> None:
    with FakeTensorMode():
        fake = torch.ops.fusewise.keep(torch.ops.fusewise.seed(CPU), CPU, 0, [3, 4], 0.5)
        drawn = torch.ops.fusewise.uniform(torch.ops.fusewise.seed(CPU), CPU, 0, [3, 4])
    real = torch.ops.fusewise.keep(torch.tensor(1), CPU, 0, [3, 4], 0.5)
    assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())
    assert drawn.dtype == torch.ops.fusewise.uniform(torch.tensor(1), CPU, 0, [3, 4]).dtype


def test_slots_number_the_draws_in_program_order_under_one_seed() -> None:
    gm, names = explicit(lambda x: (F.dropout(x, 0.1), torch.rand_like(x), torch.bernoulli(x)), torch.rand(4, 8))
    assert names.count("fusewise.seed.default") == 1
    draws = [n for n in gm.graph.nodes if target_name(n) in ("fusewise.keep.default", "fusewise.uniform.default")]
    assert [n.args[2] for n in draws] == [0, 1, 2]
    assert not any("native_dropout" in name or "rand" in name or "bernoulli" in name for name in names)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_dropout_scales_what_it_keeps_as_eager_does(dtype: torch.dtype) -> None:
    x = torch.randn(64, 64).to(dtype)
    gm, _ = explicit(lambda x: torch.native_dropout(x, 0.3, True), x)
    out, mask = gm(x)
    torch.testing.assert_close(out, x * mask * (1 / 0.7), rtol=0, atol=0)
    assert mask.float().mean().item() == pytest.approx(0.7, abs=0.03)
    out, mask = gm(torch.full((64, 64), float("inf")).to(dtype))
    assert torch.equal(out.isnan(), ~mask), "inf * 0 is NaN in eager's kernel too"


def test_dropout_of_everything_and_of_nothing() -> None:
    x = torch.randn(8, 8)
    everything, _ = explicit(lambda x: torch.native_dropout(x, 1.0, True), x)
    out, mask = everything(x)
    assert not mask.any() and torch.equal(out, torch.zeros(8, 8))
    nothing, _ = explicit(lambda x: torch.native_dropout(x, 0.0, True), x)
    assert torch.equal(nothing(x)[0], x)
    evaluation, names = explicit(lambda x: torch.native_dropout(x, 0.5, False), x)
    assert "fusewise.seed.default" not in names and torch.equal(evaluation(x)[0], x)


def test_dropout_keeps_the_layout_of_its_operand() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    gm, _ = explicit(lambda x: torch.native_dropout(x, 0.5, True)[0], x)
    assert gm(x)[0].stride() == x.stride()


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x: torch.rand_like(x, dtype=torch.float64), "53 random bits"),
        (lambda x: torch.rand_like(x.t()), "numbers run over another order of memory"),
        (lambda x: torch.randn_like(x), "another distribution"),
        (lambda x: torch.bernoulli(x.double()), "53 random bits"),
    ],
)
def test_other_draws_stay_pytorchs(fn: Callable[[torch.Tensor], torch.Tensor], reason: str) -> None:
    gm, names = explicit(fn, torch.rand(4, 8))
    assert not any(name.startswith("fusewise") for name in names), reason
    captured = import_graph(gm, [torch.rand(4, 8)], "balanced", strict=True)
    assert "draws from PyTorch's generator" in [r.reason for r in captured.reasons]


def test_a_captured_graph_holds_the_draws() -> None:
    gm, _ = explicit(lambda x: (F.dropout(x, 0.25), torch.rand_like(x)), torch.rand(4, 8))
    captured = import_graph(gm, [torch.rand(4, 8)], "conservative", strict=True)
    (kept,) = (n for n in captured.graph if n.op == "keep")
    (drawn,) = (n for n in captured.graph if n.op == "uniform")
    assert (kept.attr("slot"), kept.attr("keep_prob"), drawn.attr("slot")) == (0, 0.75, 1)
    assert kept.args == drawn.args, "one seed"
    assert [r.name for r in captured.reasons] == ["fusewise.seed.default"]
