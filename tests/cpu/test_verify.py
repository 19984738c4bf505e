"""`fusewise.verify`: right functions pass, and each kind of defect is seen and named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fusewise
from fusewise import pipeline
from fusewise.errors import CompileFailed, UnknownName, UsageError
from fusewise.proof import fused as fused_module
from fusewise.proof.inputs import HARD, make_inputs
from fusewise.proof.poison import PROGRAM_FILE, Poison
from fusewise.report.documents import Verification


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def names(found: Verification) -> set[str]:
    return {c.name for c in found.checks}


def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(F.gelu(x), (x.shape[-1],), w)


# ---- what is right passes


def test_outputs_and_gradients() -> None:
    x, w = torch.randn(16, 64, requires_grad=True), torch.ones(64, requires_grad=True)
    found = fusewise.verify(norm, x, w)
    assert found, found
    assert names(found) == {"output", "gradient of x", "gradient of w", "a second call"}
    assert {c.inputs for c in found.checks} == {"caller's", "random", *(s.name for s in HARD)}
    assert found.kernels >= 2 and not found.eager_graphs
    assert all(c.error is not None and c.eager_error is not None for c in found.checks if c.name == "output")


def test_only_the_gradients_that_are_asked_for() -> None:
    x, w = torch.randn(4, 8), torch.ones(8, requires_grad=True)
    assert names(fusewise.verify(norm, x, w, hard=False)) == {"output", "gradient of w", "a second call"}
    with torch.no_grad():
        assert names(fusewise.verify(norm, x, w, hard=False)) == {"output", "a second call"}


def test_conservative_asks_for_bits() -> None:
    found = fusewise.verify(lambda x: torch.relu(x) * 2 + 1, torch.randn(100), policy="conservative")
    assert found and all(c.bit_equal for c in found.checks)


def test_dropout_is_compared_on_the_same_mask() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.dropout(x, 0.5, True), F.dropout(torch.tanh(x), 0.1, True)

    found = fusewise.verify(f, torch.randn(64, 64, requires_grad=True))
    assert found, found
    assert any("random numbers" in note for note in found.notes)
    assert all(c.error is not None for c in found.checks if c.name.startswith("output"))


def test_changed_arguments_and_buffers_of_modules() -> None:
    def f(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(x.sum(0))
        return x * total

    found = fusewise.verify(f, torch.randn(8, 16), torch.zeros(16))
    assert found and "total after the call" in names(found), found

    module = nn.BatchNorm1d(16)
    before = module.running_mean.clone()
    assert fusewise.verify(module, torch.randn(32, 16), hard=False)
    assert torch.equal(module.running_mean, before), "verify leaves the module as it was"


def test_gradients_of_tensors_that_the_function_holds() -> None:
    layer, scale = nn.Linear(8, 8), torch.tensor(2.0, requires_grad=True)
    found = fusewise.verify(lambda x: torch.relu(layer(x)) * scale, torch.randn(4, 8, requires_grad=True), hard=False)
    assert found, found
    gradients = {n for n in names(found) if n.startswith("gradient")}
    assert gradients == {"gradient of x", *(f"gradient of held tensor {i}" for i in range(3))}
    assert layer.weight.grad is None and scale.grad is None


def test_several_outputs_some_of_them_no_tensors() -> None:
    def f(x: torch.Tensor, n: int) -> dict[str, Any]:
        return {"y": x + n, "n": n + 1, "mask": x > 0, "none": None}

    found = fusewise.verify(f, torch.randn(5), 3)
    assert found, found
    assert {c.dtype for c in found.checks} >= {"float32", "int", "bool"}


def test_graph_breaks_and_what_runs_between() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return y.sin() * y

    assert fusewise.verify(f, torch.randn(32, requires_grad=True))


def test_one_tensor_in_two_places() -> None:
    x = torch.randn(8, requires_grad=True)
    found = fusewise.verify(lambda a, b: a * b, x, x)
    assert found and "gradient of a" in names(found) and "gradient of b" not in names(found)


def test_sizes_of_two_proofs_do_not_meet() -> None:
    # torch.compile would take the size for one that varies if both proofs were one function to it
    for n in (7, 9, 11):
        assert fusewise.verify(torch.relu, torch.randn(n), hard=False)
    compiled = fusewise.trace.compiled()[-1]
    assert not compiled.captured.graph.symbols


def test_a_graph_that_cannot_be_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise CompileFailed("no space left")

    monkeypatch.setattr(fused_module, "compile_graph", refuse)
    with pytest.warns(UserWarning, match="runs as eager PyTorch"):
        found = fusewise.verify(torch.relu, torch.randn(4), hard=False)
    assert found and found.kernels == 0 and "no space left" in found.eager_graphs[0]


# ---- what is wrong is seen


def spoiled(monkeypatch: pytest.MonkeyPatch, change: Callable[[list[Any]], None]) -> None:
    """Lets every compiled graph return results that `change` has been at."""
    true = pipeline.compile_graph

    def compile_graph(*args: Any, **kwargs: Any) -> Callable[[list[Any]], list[Any]]:
        call = true(*args, **kwargs)

        def run(arguments: list[Any]) -> list[Any]:
            results = call(arguments)
            change(results)
            return results

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    monkeypatch.setattr(fused_module, "compile_graph", compile_graph)


def test_a_wrong_element_is_named_with_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(results: list[Any]) -> None:
        results[0][3, 5] += 1.0

    spoiled(monkeypatch, change)
    found = fusewise.verify(lambda x: torch.tanh(x) * 2, torch.randn(8, 8), hard=False)
    assert not found
    failure = found.failures[0]
    assert failure.difference is not None and failure.difference.index == (3, 5)
    assert failure.difference.kernel == "inference/fused_tanh_mul_0"
    assert float(failure.difference.fused) == pytest.approx(float(failure.difference.eager) + 1, rel=1e-6)


def test_a_wrong_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(results: list[Any]) -> None:
        if len(results) == 1:
            results[0].mul_(1.01)

    spoiled(monkeypatch, change)
    found = fusewise.verify(lambda x: torch.sin(x), torch.randn(50, requires_grad=True), hard=False)
    assert {c.name for c in found.failures} == {"gradient of x"}, found


def test_results_that_change_from_call_to_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(1000))

    def change(results: list[Any]) -> None:
        if next(calls) % 2:
            results[0][0] = torch.nextafter(results[0][0], torch.tensor(9.0))

    spoiled(monkeypatch, change)
    found = fusewise.verify(lambda x: x.sum(0), torch.ones(4, 4), hard=False)
    assert any("second call" in c.name for c in found.failures), found


def test_other_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(results: list[Any]) -> None:
        results[0] = results[0].t().contiguous().t()

    spoiled(monkeypatch, change)
    found = fusewise.verify(lambda x: x + 1, torch.randn(3, 4), hard=False)
    assert not found and "has strides" in found.failures[0].rule


def test_a_call_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(results: list[Any]) -> None:
        raise IndexError("index 5 is out of range")

    spoiled(monkeypatch, change)
    with pytest.warns(UserWarning, match="runs as eager PyTorch"):
        found = fusewise.verify(torch.relu, torch.randn(3), hard=False)
    assert found.eager_graphs == ("inference, when it was called: IndexError: index 5 is out of range",)
    monkeypatch.setenv("FUSEWISE_STRICT", "1")
    found = fusewise.verify(torch.relu, torch.randn(3), hard=False)
    assert not found and "raises IndexError: index 5 is out of range" in found.failures[0].rule


# ---- poisoned memory


def program(scope: dict[str, Any], body: str) -> Callable[..., torch.Tensor]:
    source = f"def call(n):\n    out = empty((n,), (1,), dtype)\n    {body}\n    return out\n"
    exec(compile(source, PROGRAM_FILE, "exec"), scope)
    made = scope["call"]
    assert isinstance(made, FunctionType)
    return made


def planted(dtype: torch.dtype, body: str) -> tuple[Poison, Callable[..., torch.Tensor]]:
    poison = Poison()
    call = program({"empty": torch.empty_strided, "dtype": dtype}, body)
    assert poison.plant(call, "cpu")
    return poison, call


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_what_nobody_writes_is_nan(dtype: torch.dtype) -> None:
    poison, call = planted(dtype, "out[:5] = 1")
    out = call(8)
    assert out[:5].eq(1).all() and out[5:].isnan().all() and not poison.damaged()


def test_no_other_function_is_touched() -> None:
    def call() -> None:
        torch.empty(3)

    assert not Poison().plant(call, "cpu") and call.__globals__["torch"] is torch


def test_what_nobody_writes_of_other_types() -> None:
    assert (planted(torch.int32, "pass")[1](4) == 0x5A5A5A5A).all()
    assert planted(torch.bool, "pass")[1](64).unique().numel() == 2


@pytest.mark.parametrize("n", [1, 4, 1000])
def test_a_write_behind_the_end_is_seen(n: int) -> None:
    poison, call = planted(torch.float32, "torch.as_strided(out, (n + 1,), (1,))[n] = 7.0")
    call.__globals__["torch"] = torch
    call(n)
    assert poison.damaged() and not poison.damaged()


def test_poison_draws_no_random_numbers() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    planted(torch.bool, "pass")[1](1000)
    assert torch.equal(torch.rand(4), expected)


def test_generated_programs_take_poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.dtype] = []
    true = Poison.empty

    def empty(
        self: Poison, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: Any
    ) -> torch.Tensor:
        seen.append(dtype)
        return true(self, size, stride, dtype, device)

    monkeypatch.setattr(Poison, "empty", empty)
    found = fusewise.verify(lambda x: (x + 1, x > 0), torch.randn(64), hard=False)
    assert found and not any("could not be poisoned" in note for note in found.notes)
    assert {torch.float32, torch.bool} <= set(seen)


# ---- inputs


def test_inputs_keep_shape_strides_and_identity() -> None:
    x = torch.randn(4, 6).t()
    spread = torch.randn(3, 1).expand(3, 5)
    (a, b, c, n), kw = make_inputs(HARD[0], ((x, spread, x, 7), {"ids": torch.arange(3)}), 0)
    assert a is c and a is not x and a.stride() == x.stride() and n == 7
    assert b.shape == (3, 5) and torch.equal(kw["ids"], torch.arange(3)) and not torch.equal(a, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_hard_inputs_are_hard(dtype: torch.dtype) -> None:
    sets = {s.name: make_inputs(s, torch.empty(4000, dtype=dtype), 0) for s in HARD}
    special = sets["NaN, inf, -0"]
    assert special.isnan().any() and (special == torch.inf).any() and (special == -torch.inf).any()
    assert ((special == 0) & special.signbit()).any() and special.isfinite().double().mean() > 0.9
    info = torch.finfo(dtype)
    assert sets["large"].isfinite().all() and not sets["large"].double().square().sum() < info.max
    small = sets["subnormal"]
    assert (small.double().abs() < info.smallest_normal).all() and (small != 0).any() and small.signbit().any()


# ---- bad input


def test_inputs_that_eager_refuses() -> None:
    with pytest.raises(UsageError, match="eager PyTorch fails on these inputs: RuntimeError"):
        fusewise.verify(torch.mm, torch.ones(2, 3), torch.ones(2, 3))


def test_unknown_policy() -> None:
    with pytest.raises(UnknownName, match="Did you mean balanced"):
        fusewise.verify(torch.relu, torch.ones(2), policy="balancd")  # type: ignore[arg-type]
