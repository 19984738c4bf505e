"""Programs as users write them, through Dynamo, AOTAutograd and capture, with the numpy interpreter as the compiler."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fusewise.backend import Backend
from fusewise.config import Options
from tests.capture_oracle import backend

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def program(*inputs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[fn.__name__] = (fn, inputs)
        return fn

    return register


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float32).to(dtype)


@program(rand(4, 5), rand(5))
def several_results(x: torch.Tensor, b: torch.Tensor) -> Any:
    return x + b, (x * b).sum(1), x.t(), x.shape[0], None, "text", {"k": [x * 2]}


@program(rand(4, 6))
def writes_to_a_view(x: torch.Tensor) -> Any:
    y = x.clone()
    y[:, 0] = 1
    y.add_(x)
    row = y[1]
    row.zero_()
    return y, y.view(-1)


@program(rand(4, 6))
def writes_to_its_argument(x: torch.Tensor) -> Any:
    x.mul_(2)
    return x + 1


@program(rand(4, 6))
def returns_its_argument(x: torch.Tensor) -> Any:
    return x.view(2, 12), x, x.clone(), x.float()


@program(rand(4, 6))
def adds_to_what_dropout_returned(x: torch.Tensor) -> Any:
    y = F.dropout(x, 0.5, training=False)
    y.add_(1)
    return y, x


@program(rand(2, 3, 8, 8).to(memory_format=torch.channels_last))
def channels_last(x: torch.Tensor) -> Any:
    return F.relu(x) + 1, x.mean((2, 3)), torch.ones_like(x), x.contiguous()


@program(rand(4, 6), torch.randint(0, 4, (7,), generator=torch.Generator().manual_seed(0)))
def indexes(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x[i], F.embedding(i, x), x.index_select(0, i), torch.gather(x, 0, i[:, None].expand(7, 6))


@program(rand(4, 6), 2.5, 3)
def python_numbers(x: torch.Tensor, f: float, k: int) -> Any:
    return x * f + k, x[:k], k * 2, f + 1


@program(torch.arange(-12, 12).view(4, 6), rand(4, 6))
def promotion(i: torch.Tensor, x: torch.Tensor) -> Any:
    return i + 0.5, i / 2, i // 2, i + x, i * True, (i > 0) + 1, i.sum(), i.float().mean(), x.double() + x


@program(rand(4, 6, dtype=torch.bfloat16), rand(4, 6))
def half_types(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + y, x * 2.5, F.silu(x), x.softmax(-1), torch.where(x > 0, x, y)


@program(rand(4, 6))
def autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.linear(x, x), x.softmax(-1)


@program(rand(4, 6))
def graph_break(x: torch.Tensor) -> Any:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


@program(rand(0, 6), rand(3, 0))
def empty(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + 1, y.sum(1), x.sum(0)


@program(torch.tensor(2.0), rand(1, 1))
def scalars(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + y, x * 2, y.squeeze()


@program(rand(4, 6).expand(3, 4, 6), rand(8, 8)[::2, 1::3])
def expanded_and_strided(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + 1, x.contiguous(), y + 1, y.clone(), y.t() * 2


@program(rand(4, 6))
def pieces(x: torch.Tensor) -> Any:
    a, b = x.chunk(2, 1)
    c = x.unbind(0)
    return a * b, c[0] + c[1], torch.stack(c), torch.cat([a, b], 0), F.pad(x, (1, 2)), x.flip(0), x.roll(1, 0)


@program(rand(4, 6))
def walls(x: torch.Tensor) -> Any:
    value, index = x.sort(1)
    return value + 1, index, x.topk(2)[0], x.cumsum(0), F.conv1d(x[None], torch.ones(3, 4, 3)).relu()


@program(rand(4, 6))
def constants(x: torch.Tensor) -> Any:
    return x + torch.tensor([1.0, 2, 3, 4, 5, 6]), torch.arange(6) * x, torch.zeros(3), torch.full((2,), 7)


@program(rand(4, 6))
def higher_order(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)) * 2


@program(rand(4, 6))
def reductions(x: torch.Tensor) -> Any:
    return x.argmax(1), x.max(1), x.amin(), x.var(1), x.norm(), x.logsumexp(1)


@program(rand(4, 6), rand(4, 6))
def same_tensor_twice(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = x + 1, x + 1
    return a, b, a, torch.add(y, y)


def assert_like_eager(found: Any, wanted: Any) -> None:
    if isinstance(wanted, torch.Tensor):
        exact = 0 in wanted.stride()
        bound = {"rtol": 2e-2, "atol": 2e-2} if wanted.dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
        torch.testing.assert_close(found, wanted, check_stride=not exact, **bound)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            assert_like_eager(found[key], wanted[key])
    elif isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for got, want in zip(found, wanted, strict=True):
            assert_like_eager(got, want)
    else:
        assert found == wanted


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("policy", ["balanced", "conservative"])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_program_runs_as_in_eager(name: str, policy: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    fn, inputs = PROGRAMS[name]
    chosen, recorder = backend(policy=policy)
    theirs, ours = copy.deepcopy(inputs), copy.deepcopy(inputs)
    wanted, found = fn(*theirs), torch.compile(fn, backend=chosen, dynamic=dynamic)(*ours)
    assert_like_eager(found, wanted)
    assert_like_eager(ours, theirs)
    assert recorder.captured


def test_results_share_memory_where_they_do_in_eager() -> None:
    torch._dynamo.reset()

    def fn(x: torch.Tensor) -> Any:
        y, z = x + 1, x + 1
        return y, y.t(), z

    y, transposed, z = torch.compile(fn, backend=Backend(Options(strict=True)))(rand(3, 4))
    y.zero_()
    assert not transposed.any() and z.any()


def test_an_optimiser_step_is_one_graph_without_walls() -> None:
    torch._dynamo.reset()
    chosen, recorder = backend()
    models = [torch.nn.Linear(5, 5), torch.nn.Linear(5, 5)]
    models[1].load_state_dict(models[0].state_dict())
    optimisers = [torch.optim.Adam(m.parameters(), foreach=True) for m in models]
    steps = [optimisers[0].step, torch.compile(optimisers[1].step, backend=chosen)]
    for turn in range(3):
        for model, optimiser, step in zip(models, optimisers, steps, strict=True):
            optimiser.zero_grad()
            model(torch.full((2, 5), turn + 1.0)).square().sum().backward()
            step()
    torch.testing.assert_close(models[1].weight, models[0].weight)
    assert [captured.reasons for _, captured in recorder.captured] == [()]
