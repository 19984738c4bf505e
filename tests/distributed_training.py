"""One process of tests/cpu/test_distributed.py, started by torchrun: what it found goes to a JSON file of its rank."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from fusewise import trace
from fusewise.backend import backend_for
from fusewise.config import make_options
from fusewise.runtime import cpp

WIDTH, ROWS, STEPS = 16, 6, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


def network() -> nn.Sequential:
    torch.manual_seed(0)  # the same weights in every process
    return nn.Sequential(Block(), Block(), nn.Linear(WIDTH, 5))


def train(model: nn.Module, rank: int) -> list[float]:
    """The losses of a few steps on data of this rank alone."""
    generator = torch.Generator().manual_seed(7 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(ROWS, WIDTH, generator=generator)
        labels = torch.randint(0, 5, (ROWS,), generator=generator)
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def weights(model: nn.Module) -> list[torch.Tensor]:
    found = []
    for parameter in model.parameters():
        full = getattr(parameter, "full_tensor", None)
        found.append((full() if full else parameter).detach().clone())
    return found


def distance(ours: list[torch.Tensor], eager: list[torch.Tensor]) -> float:
    """The greatest difference between two models' weights."""
    return max(float((a - b).abs().max()) for a, b in zip(ours, eager, strict=True))


def data_parallel(compile_with: Callable[[nn.Module], nn.Module] | None, rank: int) -> list[torch.Tensor]:
    torch._dynamo.reset()
    model: nn.Module = DistributedDataParallel(network())
    train(compile_with(model) if compile_with else model, rank)
    return weights(model)


def sharded(compile_with: Callable[[nn.Module], nn.Module] | None, rank: int) -> list[torch.Tensor]:
    """FSDP2: each block is compiled, then sharded, as training recipes do it."""
    torch._dynamo.reset()
    model = network()
    for name, block in list(model.named_children()):
        if compile_with:
            block = compile_with(block)
            model.register_module(name, block)
        fully_shard(block)
    fully_shard(model)
    train(model, rank)
    return weights(model)


def collective_walls(backend: Any, rank: int) -> dict[str, Any]:
    """A function with an all-reduce in the middle of pointwise code."""
    torch._dynamo.reset()

    def fn(x: torch.Tensor) -> torch.Tensor:
        total = collectives.all_reduce(torch.tanh(x) * 2, "sum", dist.group.WORLD)
        return torch.relu(total) + 1

    x = torch.linspace(-1, 1, 12) + rank
    trace.clear()
    ours = torch.compile(fn, backend=backend)(x)
    (made,) = trace.compiled()
    return {
        "close": torch.allclose(ours, fn(x), rtol=1e-6, atol=1e-6),
        "walls": [r.reason for r in made.captured.reasons if "_c10d" in r.name],
        "kernels": len(made.kernels),
    }


def mask(backend: Any, seed: int) -> list[bool]:
    torch._dynamo.reset()
    torch.manual_seed(seed)
    kept: list[bool] = (torch.compile(lambda x: F.dropout(x, 0.5), backend=backend)(torch.ones(64)) != 0).tolist()
    return kept


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    built = 0
    compile_unit = cpp.compile_unit

    def counted(*args: Any) -> bytes:
        nonlocal built
        built += 1
        return compile_unit(*args)

    cpp.compile_unit = counted
    found: dict[str, Any] = {"rank": rank}
    for name, run in (("ddp", data_parallel), ("fsdp", sharded)):
        eager = run(None, rank)
        # Eager's kernels, and gradients in the order in which compiled graphs give them: it decides where in a bucket
        # of DistributedDataParallel each lies, and so in which order gloo's ring adds the ranks' parts.
        traced = run(lambda module: torch.compile(module, backend="aot_eager"), rank)
        for policy in ("balanced", "conservative"):
            backend = backend_for(make_options(strict=True, policy=policy))
            trace.clear()
            ours = run(lambda module, b=backend: torch.compile(module, backend=b), rank)
            found[f"{name} {policy}"] = {
                "distance": distance(ours, eager),
                "distance_traced": distance(ours, traced),
                "moved": distance(ours, weights(network())),
                "roles": sorted({c.role for c in trace.compiled()}),
                "kernels": sum(len(c.kernels) for c in trace.compiled()),
            }
    backend = backend_for(make_options(strict=True))
    found["collectives"] = collective_walls(backend, rank)
    found["mask"] = mask(backend, 50 + rank)
    found["mask again"] = mask(backend, 50 + rank)
    found["built"] = built
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
