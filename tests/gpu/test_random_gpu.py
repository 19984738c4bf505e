"""Masks on a GPU: the generator's state decides, replays of a CUDA graph differ, and backward draws forward's mask."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from fusewise.backend import Backend
from fusewise.config import Options

pytestmark = pytest.mark.gpu

STRICT = Backend(Options(strict=True))
P = 0.5


def dropped(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, P) * 3.0


def compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    torch._dynamo.reset()
    result: Callable[..., torch.Tensor] = torch.compile(function, backend=STRICT)
    return result


@pytest.mark.parametrize("shape", [(1024, 4096), (37, 257), (5,)])
def test_a_compiled_mask_is_that_of_the_op(shape: tuple[int, ...]) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    run = compiled(dropped)
    x = torch.ones(shape, device=device)
    torch.manual_seed(11)
    found = run(x) != 0
    torch.manual_seed(11)
    seed = torch.ops.fusewise.seed(device)
    assert seed.device.type == "cpu", "kernels take it as a number"
    expected = torch.ops.fusewise.keep(seed, device, 0, list(shape), 1 - P)
    assert expected.device == device and torch.equal(found, expected)
    assert torch.equal(found, torch.ops.fusewise.keep(seed.to(device), device, 0, list(shape), 1 - P))


def test_the_state_of_the_generator_decides() -> None:
    run = compiled(dropped)
    x = torch.ones(4096, device="cuda")
    torch.manual_seed(5)
    first, second = run(x), run(x)
    assert not torch.equal(first, second)
    state = torch.cuda.get_rng_state()
    third = run(x)
    torch.cuda.set_rng_state(state)
    assert torch.equal(run(x), third)
    torch.manual_seed(5)
    assert torch.equal(run(x), first) and torch.equal(run(x), second)
    torch.manual_seed(6)
    assert not torch.equal(run(x), first)
    with torch.random.fork_rng(devices=[torch.cuda.current_device()]):
        run(x)
    torch.manual_seed(5)
    drawn = torch.rand(4, device="cuda")
    torch.manual_seed(5)
    run(x)
    assert not torch.equal(torch.rand(4, device="cuda"), drawn), "eager's next numbers are others"


def test_each_replay_of_a_graph_draws_another_mask() -> None:
    x = torch.ones(64, 1024, device="cuda", requires_grad=True)
    run = compiled(dropped)

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        out = run(x)
        (gradient,) = torch.autograd.grad(out.sum(), x)
        return out.detach(), gradient

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, gradient = step()
    masks = []
    for _ in range(3):
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out != 0, gradient != 0), "backward draws forward's mask"
        assert (out != 0).float().mean().item() == pytest.approx(1 - P, abs=0.02)
        masks.append((out != 0).clone())
    assert not any(torch.equal(a, b) for n, a in enumerate(masks) for b in masks[:n])
    after, gradient = step()
    assert not torch.equal(after != 0, masks[-1]) and torch.equal(after != 0, gradient != 0)


def test_a_mask_drawn_before_a_graph_is_read_inside_it() -> None:
    """Forward before the capture, backward in it: the seed is a number of the host there."""
    x = torch.ones(64, 1024, device="cuda", requires_grad=True)
    run = compiled(dropped)
    ones = torch.ones_like(x)
    side = torch.cuda.Stream()  # autograd runs backward on forward's stream: the one that is captured
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        out = run(x)
        torch.autograd.grad(out, x, ones, retain_graph=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        (gradient,) = torch.autograd.grad(out, x, ones, retain_graph=True)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(gradient != 0, out != 0)


def test_each_device_draws_its_own() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    run = compiled(dropped)
    torch.manual_seed(5)
    found = [run(torch.ones(4096, device=f"cuda:{n}")).cpu() for n in (0, 1)]
    torch.manual_seed(5)
    again = [run(torch.ones(4096, device=f"cuda:{n}")).cpu() for n in (1, 0)]
    assert torch.equal(found[0], again[1]) and torch.equal(found[1], again[0])


def test_ranks_with_other_seeds_draw_other_masks() -> None:
    run = compiled(dropped)
    x = torch.ones(1 << 16, device="cuda")
    masks = []
    for rank in range(4):
        torch.cuda.manual_seed(1234 + rank)
        masks.append((run(x) != 0).float() - (1 - P))
    for n, one in enumerate(masks):
        for other in masks[:n]:
            assert abs((one * other).mean().item()) < 5 * P * (1 - P) / one.numel() ** 0.5
