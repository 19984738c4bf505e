"""Expansions of symbolic sizes: traced at one size, run in the interpreter at others."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from fusewise.capture.importer import import_graph
from fusewise.ir.interp import run
from fusewise.ir.verifier import check

Program = Callable[[torch.Tensor], torch.Tensor]

PROGRAMS: dict[str, Program] = {
    "slice from a start": lambda x: x[:, 2:],
    "slice from the end": lambda x: x[:, -3:],
    "slice between": lambda x: x[1:-1],
    "slice with a step": lambda x: x[:, ::2],
    "slice at half": lambda x: x[: x.shape[0] // 2 * 2],
    "select the last": lambda x: x[:, -1],
    "flip": lambda x: x.flip(0, 1),
    "roll": lambda x: x.roll((2, -3), (1, 0)),
    "roll flat": lambda x: x.roll(2),
    "repeat": lambda x: x.repeat(2, 3),
    "transpose and flatten": lambda x: x.t().reshape(-1),
    "swap the sizes": lambda x: x.reshape(x.shape[1], x.shape[0]),
    "unsqueeze and expand": lambda x: x[:, None].expand(-1, 3, -1),
    "cat": lambda x: torch.cat([x, x * 2, x[:, :2]], 1),
    "stack": lambda x: torch.stack([x, x + 1], 1),
    "pad": lambda x: F.pad(x, (1, 2, 3, 0), value=2.5),
    "tril": lambda x: x.tril(1) + x.triu(-2),
    "arange": lambda x: x * torch.arange(x.shape[1]) + torch.arange(x.shape[0])[:, None],
    "size as a number": lambda x: x * x.shape[0] + x.shape[1],
    "mean": lambda x: x.mean(0) + x.mean(),
    "variance": lambda x: x.var(1) + x.std(1, unbiased=False),
    "softmax": lambda x: x.softmax(1) + x.log_softmax(0),
    "layer norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "argmax": lambda x: x.argmax().float() + x.argmax(1),
    "index": lambda x: x[torch.tensor([2, 0, -1])],
    "gather": lambda x: x.gather(1, (x[:, :2] > 0).long()),
    "losses": lambda x: F.mse_loss(x, x.flip(0)) + F.smooth_l1_loss(x, x * 0.5),
    "unfold": lambda x: x.unfold(1, 3, 1),
    "where on size-1 axes": lambda x: torch.where(x[:1] > 0, x, x[:, :1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_sizes_than_the_traced_ones(name: str) -> None:
    program = PROGRAMS[name]
    example = torch.randn(6, 8)
    graph_module = make_fx(lambda x: [program(x)], tracing_mode="symbolic", _allow_non_fake_inputs=True)(example)
    captured = import_graph(graph_module, [example], "balanced", strict=True)
    assert not captured.opaques, captured.opaques[0].reason
    check(captured.graph)
    constants = [c.numpy() for c in captured.constants]
    for shape in ((6, 8), (4, 11), (10, 6)):
        x = torch.randn(shape)
        # the caller's side: each symbol is computed from the arguments by its definition
        names = {"inputs": [x], "math": math}
        sizes = {name: eval(info.definition, names) for name, info in captured.graph.symbols.items()}
        (ours,) = run(captured.graph, [x.numpy(), *constants], sizes=sizes)
        eager = program(x)
        assert ours.shape == tuple(eager.shape)
        torch.testing.assert_close(torch.from_numpy(ours.copy()), eager, check_dtype=False)
