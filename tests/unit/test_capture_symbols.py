"""Symbolic sizes: how a symbol is found from the caller's arguments, and what guards say about multiples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo

from fusewise.capture.captured import Captured
from tests.capture_oracle import backend


def capture(fn: Callable[..., Any], *inputs: Any) -> Captured:
    torch._dynamo.reset()
    chosen, recorder = backend()
    torch.compile(fn, backend=chosen, dynamic=True)(*inputs)
    return recorder.only()


def check_for(fn: Callable[..., Any], *cases: tuple[Any, ...]) -> Captured:
    """One compile serves every case, and each result is eager's."""
    torch._dynamo.reset()
    chosen, recorder = backend()
    compiled = torch.compile(fn, backend=chosen, dynamic=True)
    for inputs in cases:
        torch.testing.assert_close(compiled(*inputs), fn(*inputs))
    return recorder.only()


def test_one_compile_serves_all_sizes() -> None:
    cases = [(torch.randn(n, 5), torch.randn(5)) for n in (3, 4, 9)]
    captured = check_for(lambda x, y: (x * 2 + y).softmax(-1), *cases)
    assert captured.reasons == ()
    assert {i.definition for i in captured.graph.symbols.values()} <= {"inputs[0]", "inputs[1]", "inputs[2]"}


def test_heads_of_a_symbolic_width() -> None:
    def heads(x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, 4, width // 4).transpose(1, 2) + 1

    captured = check_for(heads, *((torch.randn(2, 3, n),) for n in (16, 8, 40)))
    assert captured.reasons == (), "the guard that 4 divides the width makes each view a polynomial"
    (quarter,) = (name for name, info in captured.graph.symbols.items() if "//" in info.definition)
    assert captured.graph.symbols[quarter].definition == "inputs[2] // 4"


def test_halves_of_a_symbolic_width() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, 1)
        return left * right

    assert check_for(halves, *((torch.randn(3, n),) for n in (6, 10))).reasons == ()


def test_sizes_as_results_and_values() -> None:
    captured = check_for(lambda x: (x * x.shape[0], x.shape[0] * 2, x.numel()), *((torch.randn(n, 5),) for n in (3, 8)))
    assert captured.reasons == ()


def test_an_integer_of_unknown_sign_is_no_index() -> None:
    captured = check_for(lambda x, k: x + k, *((torch.randn(4), k) for k in (7, -3)))
    assert captured.reasons == ()
    (signed,) = (i for i in captured.graph.symbols.values() if i.low < 0)
    assert signed.hint == 7


@pytest.mark.parametrize("size", [7, 8])
def test_a_size_that_is_no_polynomial_is_computed_from_the_arguments(size: int) -> None:
    captured = capture(lambda x: x[: x.shape[0] // 3] + 1, torch.randn(size, 5))
    (third,) = (i for i in captured.graph.symbols.values() if "//" in i.definition)
    assert third.hint == size // 3
    arguments = [20, torch.empty(20, 5)] if third.definition == "inputs[0] // 3" else [torch.empty(20, 5)]
    assert eval(third.definition, {"inputs": arguments}) == 6


def test_symbols_of_backward_come_from_its_own_arguments() -> None:
    torch._dynamo.reset()
    chosen, recorder = backend()
    compiled = torch.compile(lambda x: x.view(x.shape[0], 2, -1).softmax(-1).tanh(), backend=chosen, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 8, requires_grad=True)
        wanted = x.detach().clone().requires_grad_()
        compiled(x).square().sum().backward()
        wanted.view(rows, 2, -1).softmax(-1).tanh().square().sum().backward()
        torch.testing.assert_close(x.grad, wanted.grad)
    assert [role for role, _ in recorder.captured] == ["forward", "backward"]
