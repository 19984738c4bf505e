"""The backend object: options, reuse, failures that must not show in results, threads."""

from __future__ import annotations

import copy
import importlib.metadata
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from fusewise.backend import Backend, backend_for, fusewise
from fusewise.config import Options
from tests.capture_oracle import backend


class Broken:
    """A compiler that fails."""

    def __init__(self, *roles: str) -> None:
        self.roles = roles

    def __call__(self, gm: Any, example_inputs: Any, options: Options, *, role: str) -> Any:
        if not self.roles or role in self.roles:
            raise RuntimeError(f"no {role} today\nand a second line")
        return backend()[1](gm, example_inputs, options, role=role)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()


def model(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(torch.tanh(x), 0.4).softmax(-1)


def test_entry_point_names_the_backend() -> None:
    (entry,) = importlib.metadata.entry_points(group="torch_dynamo_backends", name="fusewise")
    assert entry.load() is fusewise


def test_one_backend_object_for_equal_options() -> None:
    assert backend_for(Options(policy="conservative")) is backend_for(Options(policy="conservative"))
    assert backend_for(Options()) is not backend_for(Options(policy="conservative"))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_of_a_compiled_module_has_the_same_backend(again: Callable[[Any], Any]) -> None:
    for chosen in (fusewise, backend_for(Options(policy="conservative"))):
        assert again(chosen) is chosen
        module = torch.compile(torch.nn.Linear(3, 2), backend=chosen)
        x = torch.randn(4, 3)
        twin = again(module)
        torch.testing.assert_close(twin(x), module(x))
        with torch.no_grad():
            twin.weight.zero_()
        assert not torch.equal(twin(x), module(x)), "parameters of its own"
    other = Backend(Options(), repr)  # type: ignore[arg-type]
    assert again(other)._compile_graph is repr


def test_a_second_compile_with_the_same_options_compiles_nothing_new() -> None:
    chosen, recorder = backend()
    for _ in range(2):
        torch.compile(model, backend=chosen)(torch.randn(3, 4))
    assert len(recorder.captured) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"options": {"polcy": "balanced"}}, "unknown option 'polcy'. Did you mean policy?"),
        ({"options": {"policy": "balancd"}}, "unknown policy 'balancd'. Did you mean balanced?"),
        ({"mode": "max-autotune"}, "unknown mode 'max-autotune'"),
    ],
)
def test_a_mistyped_option_names_the_right_one(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message.replace("?", r"\?")):
        torch.compile(model, backend=fusewise, **given)(torch.randn(3, 4))


def test_options_reach_the_compiler() -> None:
    seen: list[Options] = []

    def compile_graph(gm: Any, example_inputs: Any, options: Options, *, role: str) -> Any:
        seen.append(options)
        raise RuntimeError("seen")

    chosen = Backend(compile_graph=compile_graph)
    with pytest.warns(UserWarning, match="seen"):
        torch.compile(model, backend=chosen, options={"policy": "conservative", "fuel": 3})(torch.randn(3, 4))
    assert [(o.policy, o.fuel) for o in seen] == [("conservative", 3)]


@pytest.mark.parametrize("roles", [(), ("forward",), ("backward",)])
def test_a_failure_runs_eager_with_the_same_masks(roles: tuple[str, ...]) -> None:
    x = torch.randn(16, 8, requires_grad=True)
    gradients = []
    for compile_graph in (backend()[1], Broken(*roles)):
        torch._dynamo.reset()
        torch.manual_seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = torch.compile(model, backend=Backend(Options(), compile_graph))(x)
            gradients.append((y.detach(), *torch.autograd.grad(y[:, 0].sum(), x)))
    for ours, fallen in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, fallen)


def test_a_failure_warns_once_and_is_counted() -> None:
    chosen = Backend(Options(), Broken())
    with pytest.warns(UserWarning, match="runs as eager PyTorch: RuntimeError: no inference today") as caught:
        for rows in (3, 4, 5):
            torch.compile(model, backend=chosen, dynamic=False)(torch.randn(rows, 4))
    assert len([w for w in caught if "fusewise" in str(w.message)]) == 1
    assert "second line" not in str(caught[0].message)
    assert counters["fusewise"]["fallbacks"] == 3
    torch._dynamo.reset()
    chosen.reset()
    with pytest.warns(UserWarning, match="no inference today"):
        torch.compile(model, backend=chosen)(torch.randn(3, 4))


def test_strict_raises_instead() -> None:
    with pytest.raises(Exception, match="no inference today"):
        torch.compile(model, backend=Backend(Options(strict=True), Broken()))(torch.randn(3, 4))


def test_a_partition_that_fails_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no cut")

    monkeypatch.setattr("fusewise.capture.partition.plan_saved", broken)
    x = (torch.rand(16, 8) + 0.1).requires_grad_()
    with pytest.warns(UserWarning, match="chooses what backward keeps: RuntimeError: no cut"):
        y = torch.compile(lambda x: F.dropout(x, 0.4), backend=Backend(Options(), backend()[1]))(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y / x).detach())


def test_many_threads_call_one_compiled_function() -> None:
    chosen, _ = backend()
    compiled = torch.compile(lambda x: torch.tanh(x) * 2, backend=chosen)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            x = torch.full((8,), float(number))
            for _ in range(5):
                torch.testing.assert_close(compiled(x), torch.tanh(x) * 2)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
