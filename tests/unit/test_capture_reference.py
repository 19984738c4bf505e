"""The graph op by op, in its own types and in float64."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from fusewise.capture.reference import boxed_eager, run_eagerly, run_in_float64


def graph() -> GraphModule:
    def fn(x: torch.Tensor, i: torch.Tensor) -> list[torch.Tensor]:
        half = (x * 1.1).to(torch.bfloat16)
        return [torch.nn.functional.layer_norm(half.float(), (8,)) + i, half.sum(1), half.view(torch.int16), i + 1]

    with FakeTensorMode():
        return make_fx(fn)(torch.empty(4, 8), torch.empty(8, dtype=torch.int64))


def test_float64_rounds_nowhere() -> None:
    x, i = torch.randn(4, 8), torch.arange(8)
    norm, total, bits, integers = run_in_float64(graph(), [x, i])
    exact = x.double() * 1.1
    torch.testing.assert_close(norm, torch.nn.functional.layer_norm(exact, (8,)) + i, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(total, exact.sum(1), rtol=1e-12, atol=1e-12)
    assert bits.dtype == torch.int16 and torch.equal(bits, exact.to(torch.bfloat16).view(torch.int16))
    assert integers.dtype == torch.int64


def test_eager_runs_the_graphs_own_ops() -> None:
    x, i = torch.randn(4, 8), torch.arange(8)
    gm = graph()
    wanted = gm(x, i)
    assert all(map(torch.equal, run_eagerly(gm, [x, i]), wanted))
    arguments = [x, i]
    assert all(map(torch.equal, boxed_eager(gm)(arguments), wanted))
    assert arguments == [], "the caller's references are dropped"


def test_an_op_without_a_float64_kernel_runs_in_its_own_type() -> None:
    with FakeTensorMode():
        cpu = torch.device("cpu")
        gm = make_fx(lambda x: [torch.ops.fusewise.keep(x, cpu, 0, [4], 0.5), torch.special.i0(x.to(torch.float16))])(
            torch.empty((), dtype=torch.int64)
        )
    kept, value = run_in_float64(gm, [torch.tensor(3)])
    assert kept.dtype == torch.bool and value.dtype == torch.float64
