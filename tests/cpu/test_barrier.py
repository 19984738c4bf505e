"""`fusewise.barrier`: no kernel on both sides of it, nothing copied, the identity everywhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusewise
from fusewise import trace


def across(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (fusewise.barrier(torch.tanh(x) * 2) * w + 1).relu()


def kernels(role: str) -> list[set[str]]:
    """The ATen ops of each kernel of the newest graph with this role."""
    newest = [c for c in trace.compiled() if c.role == role][-1]
    ops = [{newest.plan.graph[n].origin.aten.split(".")[1] for n in step.nodes} for step in newest.plan.kernels]
    return sorted(ops, key=sorted)


def test_no_kernel_holds_both_sides_forward_and_backward() -> None:
    x, w = torch.randn(64, 65, requires_grad=True), torch.randn(64, 65)
    got = torch.compile(across, backend="fusewise", fullgraph=True)(x, w)
    assert torch.equal(got > 0, across(x, w) > 0)
    assert kernels("forward") == [{"add", "mul", "relu"}, {"mul", "tanh"}]
    got.sum().backward()
    assert {"mul", "tanh_backward"} in kernels("backward")
    assert not any({"threshold_backward", "tanh_backward"} <= ops for ops in kernels("backward"))
    # without it one kernel does it all
    fusewise.compile(lambda x, w: (torch.tanh(x) * 2 * w + 1).relu())(x.detach(), w)
    assert kernels("inference") == [{"add", "mul", "relu", "tanh"}]


def test_verify_and_explain_know_it() -> None:
    x, w = torch.randn(16, 33, requires_grad=True), torch.randn(16, 33)
    assert fusewise.verify(across, x, w, policy="balanced", hard=False)
    walls = [w for g in fusewise.explain(across, x, w).devices[0].graphs for w in g.walls]
    assert {w.op for w in walls} == {"fusewise.barrier.default"}
    assert all("forbids fusing" in w.reason and "barrier(" in w.line.text for w in walls)


def test_nothing_is_copied() -> None:
    x = torch.randn(3, 5).t()
    y = fusewise.barrier(x)
    assert y.data_ptr() == x.data_ptr() and y.stride() == x.stride() and y is not x
    with torch.no_grad():
        compiled = torch.compile(lambda x: fusewise.barrier(x), backend="fusewise", fullgraph=True)
        assert compiled(x).data_ptr() == x.data_ptr()
        fusewise.compile(lambda x: fusewise.barrier(x.exp()).sum(0))(x)
    (line,) = [one for one in trace.compiled()[-1].program.splitlines() if "r = op" in one]
    assert "as_strided" not in line


def _in_place(x: torch.Tensor) -> torch.Tensor:
    y = fusewise.barrier(x)
    y.add_(1)
    return y * 2


@pytest.mark.parametrize("backend", ["fusewise", "aot_eager", "eager"])
def test_writes_reach_the_tensor_behind_it(backend: str) -> None:
    ours, eager = torch.arange(30.0).reshape(5, 6), torch.arange(30.0).reshape(5, 6)
    compiled: Callable[[torch.Tensor], torch.Tensor] = torch.compile(_in_place, backend=backend, fullgraph=True)
    assert torch.equal(compiled(ours), _in_place(eager)) and torch.equal(ours, eager)


@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 5)], ids=str)
def test_any_rank_and_symbolic_sizes(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, requires_grad=True)
    got = torch.compile(lambda x: fusewise.barrier(x + 1) * 3, backend="fusewise", fullgraph=True, dynamic=True)(x)
    assert torch.equal(got, (x + 1) * 3)
    (gradient,) = torch.autograd.grad(got.sum(), x)
    assert torch.equal(gradient, torch.full_like(x, 3))
    assert len(kernels("forward")) == 2


def test_a_users_own_permutation_is_no_barrier() -> None:
    fusewise.compile(lambda x: (x + 1).permute(0, 1).relu())(torch.randn(4, 9))
    assert kernels("inference") == [{"add", "relu"}]
