"""Whole programs through `torch.compile(backend=fusewise)` on the CPU, forward and backward, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fusewise import trace
from fusewise.backend import backend_for
from fusewise.config import make_options

STRICT = backend_for(make_options(strict=True, check=True))


def error(a: torch.Tensor, exact: torch.Tensor) -> float:
    """Relative error against fp64, in the largest norm."""
    scale = exact.abs().max().clamp_min(1e-30) if exact.numel() else torch.tensor(1.0)
    return float(((a.double() - exact).abs().max() / scale) if exact.numel() else 0.0)


def agree(fn: Callable[..., Any], *args: Any, dynamic: bool | None = None, backward: bool = True) -> Callable[..., Any]:
    """Compares outputs and gradients with eager; the error against fp64 stays within 1.5x eager's own."""
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=STRICT, dynamic=dynamic)
    results = []
    for run, cast in ((compiled, None), (fn, None), (fn, torch.float64)):
        copies = []
        for a in args:
            if isinstance(a, torch.Tensor):
                moved = a.detach().clone(memory_format=torch.preserve_format)
                if cast is not None and moved.is_floating_point():
                    moved = moved.to(cast)
                copies.append(moved.requires_grad_(a.requires_grad))
            else:
                copies.append(a)
        out = run(*copies)
        outs = [o for o in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(o, torch.Tensor)]
        grads: list[torch.Tensor] = []
        leaves = [c for c in copies if isinstance(c, torch.Tensor) and c.requires_grad]
        if backward and leaves:
            torch.manual_seed(1)
            floats = [o for o in outs if o.requires_grad]
            seeds = [torch.randn(o.shape, dtype=torch.float64).to(o.dtype) for o in floats]
            torch.autograd.backward(floats, seeds)
            grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
        results.append([*(o.detach() for o in outs), *grads])
    ours, eager, exact = results
    assert len(ours) == len(eager)
    for o, e, x in zip(ours, eager, exact, strict=True):
        assert o.dtype == e.dtype and o.shape == e.shape
        if o.numel() > 1:
            assert o.stride() == e.stride()
        if not o.is_floating_point():
            assert torch.equal(o, e)
            continue
        assert torch.equal(torch.isnan(o), torch.isnan(e))
        clean = ~torch.isnan(e) & ~torch.isinf(e)
        assert torch.equal(o[~clean & ~torch.isnan(e)], e[~clean & ~torch.isnan(e)])
        allowed = 1.5 * error(e[clean], x[clean]) + 4 * torch.finfo(o.dtype).eps
        assert error(o[clean], x[clean]) <= allowed
    return compiled


def x(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_(grad)


FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
    trace.clear()


@pytest.mark.parametrize("dtype", FLOATS)
def test_activations(dtype: torch.dtype) -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.gelu(a) * F.silu(b) + F.gelu(a, approximate="tanh") - F.softplus(b) * torch.sigmoid(a)

    agree(fn, x(7, 33, dtype=dtype), x(7, 33, dtype=dtype))
    last = trace.compiled()
    assert all(len(c.plan.kernels) == 1 and not c.plan.walls for c in last)


@pytest.mark.parametrize("dtype", FLOATS)
def test_norms(dtype: torch.dtype) -> None:
    def fn(a: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(a * 2, (48,), w, b) + F.rms_norm(a, (48,), w)

    agree(fn, x(5, 9, 48, dtype=dtype), x(48, dtype=dtype), x(48, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_softmax(dtype: torch.dtype, dim: int) -> None:
    def fn(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.softmax(a * 3, dim) + 1, F.log_softmax(a, dim)

    agree(fn, x(6, 17, 35, dtype=dtype))


def test_masked_softmax() -> None:
    def fn(a: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        t = a.shape[-1]
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        s = (a * 0.125).masked_fill(~causal, float("-inf")).masked_fill(~keep[:, None, None, :], float("-inf"))
        return torch.softmax(s, -1)

    keep = torch.rand(2, 24) < 0.7
    keep[:, 0] = True
    agree(fn, x(2, 3, 24, 24), keep)


@pytest.mark.parametrize("channels_last", [False, True])
def test_group_and_batch_norm(channels_last: bool) -> None:
    data = x(3, 8, 6, 10)
    if channels_last:
        data = data.detach().contiguous(memory_format=torch.channels_last).requires_grad_()

    def fn(a: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.silu(F.group_norm(a, 4, w, b)) + F.instance_norm(a)

    agree(fn, data, x(8), x(8))


def test_batch_norm_trains_its_buffers() -> None:
    models = [torch.nn.BatchNorm2d(6) for _ in range(2)]
    data = torch.randn(4, 6, 5, 7)
    for _ in range(3):
        outs = [m(data) if m is models[0] else torch.compile(m, backend=STRICT)(data) for m in models]
    torch.testing.assert_close(outs[0], outs[1])
    torch.testing.assert_close(models[0].running_var, models[1].running_var)
    assert models[0].num_batches_tracked == models[1].num_batches_tracked


def test_cross_entropy() -> None:
    def fn(a: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(a.float(), t, ignore_index=3, label_smoothing=0.1)

    agree(fn, x(12, 50, dtype=torch.bfloat16), torch.randint(0, 50, (12,)))


def test_views_slices_cat_and_gather() -> None:
    def fn(a: torch.Tensor, idx: torch.Tensor) -> tuple[torch.Tensor, ...]:
        p, q = a.chunk(2, -1)
        joined = torch.cat([p * 2, q.flip(-1), a[:, ::3]], 1)
        picked = F.embedding(idx, a.t().contiguous().t())
        return joined.relu(), F.pad(p, (1, 2, 0, 3), value=0.5) + 1, picked * 2, a.unfold(1, 4, 2).sum(-1), a.t()[3:]

    agree(fn, x(9, 16), torch.tensor([1, -1, 0, 8]).abs())


def test_integer_and_bool_ops() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a // b, a % b, (a > b).sum(0), a.sum(), torch.where(a > 0, a, b), a << 2, (a & b).any(1), a.argmax(1)

    agree(fn, torch.randint(-50, 50, (6, 11)), torch.randint(1, 9, (6, 11)))
    agree(fn, torch.randint(-50, 50, (6, 11), dtype=torch.int32), torch.randint(1, 9, (6, 11), dtype=torch.int32))


def test_in_place_code_and_aliases() -> None:
    def fn(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b = a * 2
        c = b.view(-1)
        c.add_(1)
        b[0] = 7
        return b, c

    agree(fn, x(4, 6))

    def mutate(a: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return a.t() + 1

    first, second = torch.ones(3, 4), torch.ones(3, 4)
    out = torch.compile(mutate, backend=STRICT)(first)
    assert torch.equal(out, mutate(second)) and torch.equal(first, second)


def test_dynamic_sizes_compile_once() -> None:
    def fn(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(F.gelu(a), (24,), w).reshape(-1, 24).sum(0) * a.shape[0]

    compiled = agree(fn, x(6, 5, 24), x(24), dynamic=True)
    count = len(trace.compiled())
    for rows in (2, 9, 31):
        a, w = x(rows, 5, 24), x(24)
        # 31 times a sum of 155 terms that cancel
        torch.testing.assert_close(compiled(a, w), fn(a, w), rtol=1.3e-6, atol=2e-4)
    assert len(trace.compiled()) == count


def test_dropout_is_drawn_again_in_backward_and_never_stored() -> None:
    torch._dynamo.reset()

    def fn(a: torch.Tensor) -> torch.Tensor:
        return F.dropout(a, 0.25) * 3

    a = torch.ones(64, 1000, requires_grad=True)
    torch.manual_seed(3)
    compiled = torch.compile(fn, backend=STRICT)
    out = compiled(a)
    out.sum().backward()
    assert a.grad is not None
    assert torch.equal(a.grad, out.detach()), "the gradient is nonzero exactly where the output was kept"
    kept = (out != 0).float().mean()
    assert abs(kept - 0.75) < 0.01
    torch.manual_seed(3)
    again = compiled(a)
    assert torch.equal(again, out) and not torch.equal(compiled(a), out)


def test_zero_size_and_scalars() -> None:
    def fn(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a * 2, a.sum(0), a.sum(), torch.softmax(a, -1)

    agree(fn, x(0, 5), backward=False)
    agree(lambda a: (a * 2, a.exp() + 1), x())


class Block(torch.nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int = 64, heads: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        batch, time, width = h.shape
        q, k, v = self.qkv(self.norm1(h)).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, time, width)
        h = h + F.dropout(self.out(mixed), self.dropout, self.training)
        inner = self.down(F.gelu(self.up(self.norm2(h)), approximate="tanh"))
        return h + F.dropout(inner, self.dropout, self.training)


def test_transformer_block_trains_as_eager_does() -> None:
    torch.manual_seed(0)
    ours, theirs = Block(), Block()
    theirs.load_state_dict(ours.state_dict())
    compiled = torch.compile(ours, backend=STRICT)
    optims = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (ours, theirs)]
    for _ in range(3):
        data = torch.randn(2, 16, 64)
        losses = []
        for model, optim in zip((compiled, theirs), optims, strict=True):
            optim.zero_grad()
            loss = model(data).square().mean()
            loss.backward()
            optim.step()
            losses.append(loss.detach())
        torch.testing.assert_close(losses[0], losses[1])
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
