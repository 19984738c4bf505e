"""The gradient of a softmax under a mask: what is not read, and that no result changes by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from fusewise.capture.importer import import_graph
from fusewise.capture.partition import partition
from fusewise.capture.reference import boxed_eager
from fusewise.capture.trace import trace_fn
from fusewise.config import Options
from fusewise.lower.kernel import Load
from fusewise.pipeline import machine_of, plan_captured

Function = Callable[[torch.Tensor], torch.Tensor]
LENGTH = 16
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield


def _future(n: int) -> torch.Tensor:
    at = torch.arange(n)
    return at[None, :] > at[:, None]


def filled(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax((x * 0.5).masked_fill(_future(x.shape[-1]), -INF), -1)


def chosen(x: torch.Tensor) -> torch.Tensor:
    keep = torch.ones(x.shape[-1], x.shape[-1], dtype=torch.bool).tril(-1)  # the first row is masked whole
    return torch.softmax(torch.where(keep, x, -INF), -1)


def widened(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.bfloat16().masked_fill(_future(x.shape[-1]), -INF).float(), -1)


def finite(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.masked_fill(_future(x.shape[-1]), -1e30), -1)


def read_elsewhere(x: torch.Tensor) -> torch.Tensor:
    masked = x + torch.where(_future(x.shape[-1]), -INF, 0.0)
    return torch.softmax(masked, -1)


def other_mask(x: torch.Tensor) -> torch.Tensor:
    base = x.masked_fill(_future(x.shape[-1]).t(), 0.0)
    scores = torch.where(_future(x.shape[-1]), -INF, base)
    return torch.softmax(scores, -1)


def compiled(function: Function) -> tuple[Function, list[GraphModule]]:
    """The function with its joint graph split as for a GPU and run op by op, and the backward graphs."""
    backward: list[GraphModule] = []

    def keep(gm: GraphModule, inputs: Sequence[Any]) -> Any:
        backward.append(gm)
        return boxed_eager(gm)

    backend = aot_autograd(
        fw_compiler=lambda gm, inputs: boxed_eager(gm),
        bw_compiler=keep,
        partition_fn=lambda joint, inputs, **kw: partition(joint, inputs, policy="balanced", on_gpu=True, **kw),
    )
    return torch.compile(function, backend=backend), backward


def marked(gm: GraphModule) -> bool:
    (gradient,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten._softmax_backward_data.default)
    return bool(gradient.args[1].target is torch.ops.aten.masked_fill.Scalar)


@pytest.mark.parametrize(
    ("function", "is_marked"),
    [(filled, True), (chosen, True), (widened, True), (finite, False), (read_elsewhere, False), (other_mask, True)],
)
def test_gradients_equal_eagers_bit_for_bit(function: Function, is_marked: bool) -> None:
    torch.manual_seed(0)
    fused, backward = compiled(function)
    for bad in (None, NAN, INF):
        x, dy = torch.randn(3, LENGTH, LENGTH), torch.randn(3, LENGTH, LENGTH)
        if bad is not None:
            dy[0, 4, 9] = bad  # under the mask
            dy[1, 9, 4] = bad  # beside it
            x[2, 9, 4] = bad
            x[0, 3, 12] = bad
        found = []
        for run in (fused, function):
            given = x.clone().requires_grad_()
            run(given).backward(dy)
            found.append(given.grad)
        assert torch.equal(found[0].isnan(), found[1].isnan())
        assert torch.equal(found[0].nan_to_num(), found[1].nan_to_num())
    assert marked(backward[0]) == is_marked


def test_a_gpus_kernel_reads_the_softmax_beside_the_mask_alone() -> None:
    x = torch.randn(2, 512, 512, requires_grad=True)
    graphs = trace_fn(filled, (x,), device="cuda")
    (backward,) = (g for g in graphs if g.role == "backward")
    captured = import_graph(backward.gm, backward.example_inputs, "balanced", "cuda")
    plan, kernels = plan_captured(captured, Options(check=True), machine_of("h200", use_measured=False))
    (kernel,) = kernels.values()
    loads = [i for i in kernel.body if isinstance(i, Load)]
    assert sorted(i.mask is not None for i in loads) == [False, True]


def test_the_split_for_a_cpu_is_left_alone() -> None:
    graphs = trace_fn(filled, (torch.randn(2, 8, 8, requires_grad=True),))
    (backward,) = (g for g in graphs if g.role == "backward")
    assert not marked(backward.gm)
