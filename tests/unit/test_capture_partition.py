"""What forward saves for backward: no masks, no results that a row's statistics give again, fewer bytes than torch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import checkpoint

from fusewise.capture.origin import target_name
from fusewise.capture.partition import bytes_of, partition


def run(gm: GraphModule, inputs: Any) -> Callable[..., Any]:
    """A compiler that compiles nothing."""
    boxed: Callable[..., Any] = make_boxed_func(gm.forward)
    return boxed


class Split:
    """Forward, backward and what is saved, by us and by torch."""

    def __init__(self, fn: Callable[..., Any], *inputs: torch.Tensor, policy: str = "balanced") -> None:
        torch._dynamo.reset()
        self.policy = policy
        backend = aot_autograd(fw_compiler=run, bw_compiler=run, partition_fn=self._partition, decompositions={})
        result = torch.compile(fn, backend=backend)(*inputs)
        result.float().sum().backward()

    def _partition(self, joint: GraphModule, inputs: Any, **kw: Any) -> tuple[GraphModule, GraphModule]:
        theirs, _ = min_cut_rematerialization_partition(copy.deepcopy(joint), inputs, **kw)
        self.forward, self.backward = partition(joint, inputs, policy=self.policy, **kw)
        static = kw.get("static_lifetime_input_indices") or []

        def saved(forward: GraphModule) -> list[Node]:
            (output,) = forward.graph.find_nodes(op="output")
            parameters = [n for i, n in enumerate(forward.graph.find_nodes(op="placeholder")) if i in static]
            return [n for n in output.args[0][kw["num_fwd_outputs"] :] if n not in parameters]

        self.saved, self.theirs = saved(self.forward), saved(theirs)
        return self.forward, self.backward

    @property
    def saved_bytes(self) -> int:
        return sum(map(bytes_of, self.saved))

    @property
    def torchs_bytes(self) -> int:
        return sum(map(bytes_of, self.theirs))

    def calls(self, gm: GraphModule) -> list[str]:
        return [target_name(n) for n in gm.graph.nodes if n.op == "call_function"]


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


class Block(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        weight = F.dropout((q @ k.transpose(-1, -2) / (width // 4) ** 0.5).softmax(-1), 0.1)
        x = x + self.out((weight @ v).transpose(1, 2).reshape(batch, length, width))
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1)


ROWS, WIDTH = 128, 64
FULL = ROWS * WIDTH * 4


def gelu_dropout_norm() -> Split:
    norm = nn.LayerNorm(WIDTH)
    return Split(lambda x, r: norm(r + F.dropout(F.gelu(x), 0.1)), leaf(ROWS, WIDTH), leaf(ROWS, WIDTH))


def masked_softmax() -> Split:
    mask = torch.ones(WIDTH, WIDTH, dtype=torch.bool).tril()
    return Split(
        lambda s: F.dropout((s * 0.125).masked_fill(~mask, float("-inf")).softmax(-1), 0.1), leaf(4, 2, WIDTH, WIDTH)
    )


def swiglu() -> Split:
    return Split(lambda a, b: F.silu(a) * b, leaf(ROWS, WIDTH), leaf(ROWS, WIDTH))


def group_norm() -> Split:
    norm = nn.GroupNorm(8, WIDTH)
    return Split(lambda x: F.dropout(F.silu(norm(x)), 0.1), leaf(4, WIDTH, 8, 8))


def norm_linear() -> Split:
    model = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
    return Split(model, leaf(ROWS, WIDTH))


def block() -> Split:
    return Split(Block(), leaf(4, 16, 64))


@pytest.mark.parametrize("make", [gelu_dropout_norm, masked_softmax, swiglu, group_norm, norm_linear, block])
def test_saves_no_more_bytes_than_torch_and_no_mask(make: Callable[[], Split]) -> None:
    split = make()
    assert split.saved_bytes <= split.torchs_bytes
    assert not [n for n in split.saved if n.op == "call_function" and n.meta["val"].dtype == torch.bool]


def test_gelu_dropout_norm_saves_its_inputs_the_seed_and_the_statistics() -> None:
    split = gelu_dropout_norm()
    assert split.saved_bytes == 2 * FULL + 8 + 2 * ROWS * 4
    assert split.calls(split.backward).count("fusewise.keep.default") == 1
    assert "fusewise.seed.default" not in split.calls(split.backward)


def test_softmax_saves_scores_and_statistics_instead_of_the_result() -> None:
    split = masked_softmax()
    full = sorted((n for n in split.saved if bytes_of(n) == 4 * 2 * WIDTH * WIDTH * 4), key=str)
    assert [n.op for n in full] == ["placeholder"], "the scores, an input"
    made = {target_name(n) for n in split.saved if n.op != "placeholder"}
    assert {"aten.amax.default", "aten.sum.dim_IntList"} <= made
    assert "aten.amax.default" not in split.calls(split.backward), "no reduction runs twice"


def test_norm_before_a_product_is_computed_again_from_its_statistics() -> None:
    split = norm_linear()
    full = [n for n in split.saved if bytes_of(n) == FULL]
    assert [target_name(n) if n.op == "call_function" else n.op for n in full] == ["placeholder", "aten.addmm.default"]
    assert "aten.native_layer_norm.default" not in split.calls(split.backward)
    assert "aten.gelu.default" in split.calls(split.backward)


def test_residual_stream_is_saved_not_summed_up_again() -> None:
    blocks = nn.Sequential(*(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(4)))

    def model(x: torch.Tensor) -> torch.Tensor:
        for layer in blocks:
            x = x + layer(x)
        return x

    split = Split(model, leaf(ROWS, WIDTH))
    assert "aten.add.Tensor" in {target_name(n) for n in split.saved if n.op == "call_function"}
    assert "aten.addmm.default" not in {target_name(n) for n in split.saved if n.op == "call_function"}


def test_conservative_repeats_no_op_that_runs_as_eager() -> None:
    norm = nn.LayerNorm(WIDTH)
    split = Split(
        lambda x, r: norm(r + F.dropout(torch.exp(x), 0.1)), leaf(ROWS, WIDTH), leaf(ROWS, WIDTH), policy="conservative"
    )
    assert "aten.exp.default" not in split.calls(split.backward)
    assert split.calls(split.backward).count("fusewise.keep.default") == 1


def test_checkpointed_block_is_repeated_with_the_forwards_mask() -> None:
    model = nn.Linear(WIDTH, WIDTH)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a: F.dropout(torch.tanh(model(a)), 0.4), x, use_reentrant=False) * 2

    split = Split(fn, leaf(ROWS, WIDTH))
    assert split.saved_bytes == FULL + 8
    assert "aten.addmm.default" in split.calls(split.backward), "the user asked for that"
    assert "fusewise.seed.default" not in split.calls(split.backward)


def test_an_input_that_is_written_to_is_not_saved() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n += 1
            return torch.sin(x * self.n)

    model, x = Counter(), leaf(8)
    Split(model, x)  # backward runs in it: autograd raises where a saved tensor has changed
    torch.testing.assert_close(x.grad, torch.cos(x.detach()))


def test_sizes_are_saved_where_backward_needs_them() -> None:
    torch._dynamo.reset()
    split = Split.__new__(Split)
    split.policy = "balanced"
    backend = aot_autograd(fw_compiler=run, bw_compiler=run, partition_fn=split._partition, decompositions={})
    compiled = torch.compile(lambda x: F.dropout(x, 0.5).softmax(-1).sum(0), backend=backend, dynamic=True)
    for rows in (4, 6):
        x = leaf(rows, 8)
        compiled(x).square().sum().backward()
        assert x.grad is not None and x.grad.shape == (rows, 8)
    assert "fusewise.keep.default" in split.calls(split.backward)


def test_a_long_chain_is_repeated_in_stages() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(100):
            x = torch.sin(x) * 1.01
        return x

    split = Split(chain, leaf(ROWS, WIDTH))
    full = [n for n in split.saved if bytes_of(n) == FULL]
    assert 3 <= len(full) <= 6, "the input and one value every 48 ops, not each of the 200"


def test_a_parameter_cast_for_autocast_is_saved_not_cast_again() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))

    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    split = Split(fn, leaf(ROWS, WIDTH))
    assert split.saved_bytes <= split.torchs_bytes
    casts = [n for n in split.backward.graph.nodes if target_name(n) == "aten._to_copy.default"]
    assert all(n.meta["val"].dtype == torch.float32 for n in casts), "only gradients are cast, to their float32"
