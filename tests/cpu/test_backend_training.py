"""Models trained through Dynamo, AOTAutograd and capture, with the numpy interpreter as the compiler."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.capture_oracle import backend


class Block(nn.Module):
    def __init__(self, width: int = 32, p: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        score = q @ k.transpose(-1, -2) / (width // 4) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weight = F.dropout(score.masked_fill(~mask, float("-inf")).softmax(-1), self.p)
        x = x + self.out((weight @ v).transpose(1, 2).reshape(batch, length, width))
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.p)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return self.head(F.silu(self.embed(i)))


class Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return F.max_pool2d(self.norm(self.conv(x)).relu(), 2) * self.calls


class SeveralResults(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> Any:
        h = self.norm(self.linear(x)).tanh()
        return h, h.mean(), x.shape[0], h.t(), None


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU()) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.second, checkpoint(self.first, x, use_reentrant=False), use_reentrant=False)


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x + self.layers(x)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.linear(x), inplace=True) + 1
        h[:, 0] *= 2
        return h


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.RMSNorm(16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.linear(self.norm(x)), torch.arange(x.shape[0]) % 16)


class Channels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.silu(self.norm(x)))


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[int], torch.Tensor]]] = {
    "transformer block": (Block, lambda n: torch.randn(n, 8, 32)),
    "tied weights": (Tied, lambda n: torch.arange(5 * n).view(n, 5) % 20),
    "buffers": (Buffers, lambda n: torch.randn(n, 3, 10, 10)),
    "several results": (SeveralResults, lambda n: torch.randn(n, 8)),
    "checkpoint": (Checkpointed, lambda n: torch.randn(n, 16)),
    "autocast": (Autocast, lambda n: torch.randn(n, 16)),
    "attention": (Attention, lambda n: torch.randn(n, 6, 16)),
    "in place": (InPlace, lambda n: torch.randn(n, 16)),
    "loss": (Loss, lambda n: torch.randn(n, 16)),
    "channels last": (Channels, lambda n: torch.randn(n, 16, 4, 4).to(memory_format=torch.channels_last)),
}


def train(model: nn.Module, call: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
    """One step: results, gradients and buffers."""
    model.zero_grad()
    x = x.clone().requires_grad_(x.is_floating_point())
    result = call(x)
    results = [r for r in (result if isinstance(result, tuple) else [result]) if isinstance(r, torch.Tensor)]
    sum(r.float().square().sum() for r in results).backward()
    found = [*results, *(p.grad for p in model.parameters()), *model.buffers()]
    return [t.detach().clone() for t in [*found, *([x.grad] if x.requires_grad else [])]]


@pytest.mark.parametrize(("policy", "dynamic"), [("balanced", None), ("balanced", True), ("conservative", None)])
@pytest.mark.parametrize("name", list(CASES))
def test_model_trains_as_in_eager(name: str, policy: str, dynamic: bool | None) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, inputs = CASES[name]
    model = make()
    twin = copy.deepcopy(model)
    chosen, recorder = backend(policy=policy)
    compiled = torch.compile(twin, backend=chosen, dynamic=dynamic)
    # the gradient of a bias before a batch norm is 0 but for rounding
    tolerance = {"autocast": 3e-2, "buffers": 1e-3}.get(name, 1e-4)
    for batch in (4, 5) if dynamic else (4,):
        x = inputs(batch)
        for found, wanted in zip(train(twin, compiled, x), train(model, model, x), strict=True):
            torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
    # Dynamo's own guards on batch norm and on channels-last strides make it compile again, whatever the backend
    if not (dynamic and name in ("buffers", "channels last")):
        assert [role for role, _ in recorder.captured] == ["forward", "backward"], "one compile serves both batches"


def test_walls_of_a_transformer_block_are_its_products() -> None:
    torch._dynamo.reset()
    chosen, recorder = backend()
    torch.compile(Block(), backend=chosen)(torch.randn(2, 8, 32)).sum().backward()
    walls = {r.reason for _, captured in recorder.captured for r in captured.reasons}
    assert walls == {"a product that the vendor's kernel computes"}


@pytest.mark.parametrize("dynamic", [None, True])
def test_backward_draws_the_mask_of_forward(dynamic: bool | None) -> None:
    torch._dynamo.reset()
    chosen, _ = backend()
    compiled = torch.compile(lambda x: (F.dropout(x, 0.4), F.dropout(x, 0.4)), backend=chosen, dynamic=dynamic)
    for seed in (0, 1):
        x = (torch.rand(33, 5) + 0.1).requires_grad_()
        torch.manual_seed(seed)
        results = compiled(x)
        for y in results:
            (gradient,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
            torch.testing.assert_close(gradient, (y / x).detach())
        assert not torch.equal(*results), "two draws"
        torch.manual_seed(seed)
        assert torch.equal(compiled(x)[0], results[0]), "torch.manual_seed holds"


def test_backward_may_run_twice() -> None:
    torch._dynamo.reset()
    chosen, _ = backend()
    x = torch.randn(4, 8, requires_grad=True)
    y = torch.compile(lambda x: torch.sin(x).softmax(-1), backend=chosen)(x).square().sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * once)


def test_gradients_of_some_inputs_only() -> None:
    torch._dynamo.reset()
    chosen, recorder = backend()
    x, w = torch.randn(4, 8), torch.randn(8, requires_grad=True)
    torch.compile(lambda x, w: (x * w).tanh(), backend=chosen)(x, w).sum().backward()
    torch.testing.assert_close(w.grad, ((1 - (x * w).tanh() ** 2) * x).sum(0).detach())
    assert len(recorder.captured) == 2
