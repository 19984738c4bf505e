from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from benchmarks.catalogue import PROGRAMS
from fusewise.measure.check import compare, verify_contender
from fusewise.measure.contenders import Contender
from fusewise.measure.program import DTYPES
from fusewise.measure.workload import prepare

Change = Callable[[torch.Tensor], torch.Tensor]


def _reference(dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A result in fp64, and the same rounded, as a good kernel returns it."""
    exact = torch.randn(64, 33, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return exact, exact.to(DTYPES[dtype])


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_a_result_as_good_as_eagers_passes(dtype: str) -> None:
    exact, rounded = _reference(dtype)
    found = compare(rounded, rounded.clone(), exact)
    assert found.problem is None
    assert found.ratio == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t * 1.02, "error"),
        (lambda t: t.index_fill(0, torch.tensor(5), 0.0), "error"),
        (lambda t: torch.where(t == t.max(), t * (1 + 6 * torch.finfo(t.dtype).eps), t), r"at \(\d+, \d+\)"),
        (lambda t: torch.where(t == t.max(), float("nan"), t), "NaN"),
        (lambda t: torch.where(t == t.max(), float("inf"), t), "NaN or infinity"),
        (lambda t: t[:, :32], "differs from eager's"),
        (lambda t: t.double(), "differs from eager's"),
    ],
)
def test_a_wrong_result_is_found(dtype: str, change: Change, problem: str) -> None:
    exact, rounded = _reference(dtype)
    found = compare(change(rounded), rounded, exact)
    assert found.problem is not None
    assert re.search(problem, found.problem)


def test_infinities_and_nans_must_be_eagers() -> None:
    exact = torch.tensor([1.0, float("inf"), float("nan")], dtype=torch.float64)
    eager = exact.float()
    assert compare(eager.clone(), eager, exact).problem is None
    assert compare(torch.tensor([1.0, float("-inf"), float("nan")]), eager, exact).problem is not None
    assert compare(torch.tensor([1.0, float("inf"), 2.0]), eager, exact).problem is not None


def test_integers_must_be_equal() -> None:
    ints = torch.tensor([1, 2, 3])
    assert compare(ints.clone(), ints, ints).problem is None
    assert compare(ints + 1, ints, ints).problem == "integers differ"


def _verify(name: str, direction: str, compile: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    program = PROGRAMS[name]
    workload = prepare(program, program.case("tiny", program.dtypes[0], direction=direction))
    contender = Contender("subject", compile)
    return verify_contender(program, workload, contender, compile(workload.function))


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*args)


@pytest.mark.parametrize(
    ("name", "direction"),
    [(program.name, direction) for program in PROGRAMS.values() for direction in program.directions],
)
def test_eager_agrees_with_itself(name: str, direction: str) -> None:
    found = _verify(name, direction, _same)
    assert found.compared and found.equal, found.note


def test_a_wrong_output_is_found_in_a_whole_program() -> None:
    found = _verify("layer_norm", "forward", lambda f: lambda *args: f(*args) * 1.01)
    assert found.compared and not found.equal


def test_a_wrong_gradient_is_found() -> None:
    class WrongGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: torch.Tensor) -> torch.Tensor:
            return y.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 1.01

    found = _verify("swiglu", "train", lambda f: lambda *args: WrongGradient.apply(f(*args)))
    assert found.compared and not found.equal


def test_a_wrong_change_in_place_is_found() -> None:
    def off_by_one_step(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(parameters: list[torch.Tensor], *rest: Any) -> None:
            function(parameters, *rest)
            parameters[0].add_(1e-3)

        return run

    found = _verify("adam", "forward", off_by_one_step)
    assert found.compared and not found.equal


RANDOM = ["gelu_dropout_residual_layer_norm", "group_norm_silu_dropout"]


def _with_dropout(p: float | None = None, seed: int | None = None, scale: float = 1.0) -> Any:
    """A compile that gives a program another dropout."""

    def dropout(x: torch.Tensor, given: float = 0.5, training: bool = True) -> torch.Tensor:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        drop = given if p is None else p
        kept = torch.rand(x.shape, generator=generator) >= drop
        return torch.where(kept, x, 0.0) * (scale / (1.0 - given))

    def compile(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(F, "dropout", dropout)
                return function(*args)

        return run

    return compile


@pytest.mark.parametrize("name", RANDOM)
def test_another_generator_with_the_right_share_passes(name: str) -> None:
    found = _verify(name, "train", _with_dropout())
    assert found.compared and found.equal, found.note


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize(
    ("compile", "problem"),
    [
        (_with_dropout(p=0.2), "dropout kept"),
        (_with_dropout(seed=1), "same mask"),
        (_with_dropout(scale=0.9), "error"),
    ],
    ids=["share", "seed", "scale"],
)
def test_a_wrong_dropout_is_found(name: str, compile: Any, problem: str) -> None:
    found = _verify(name, "forward", compile)
    assert found.compared and not found.equal
    assert problem in found.note


def test_a_backward_with_another_mask_is_found() -> None:
    class OtherMask(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return torch.where(torch.rand(x.shape) >= 0.1, x, 0.0) / 0.9

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return torch.where(torch.rand(grad.shape) >= 0.1, grad, 0.0) / 0.9

    def compile(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(F, "dropout", lambda x, p=0.5, training=True: OtherMask.apply(x))
                return function(*args)

        return run

    found = _verify("gelu_dropout_residual_layer_norm", "train", compile)
    assert found.compared and not found.equal
