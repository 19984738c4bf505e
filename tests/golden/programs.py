"""What the golden tests compile: programs of the catalogue at real sizes, traced without data for two fixed devices."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import optim
from benchmarks.catalogue import PROGRAMS
from fusewise.capture.captured import Captured
from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.config import Options, Policy
from fusewise.device import load_gpu
from fusewise.lower.kernel import Kernel
from fusewise.pipeline import plan_captured
from fusewise.plan.cost import Machine
from fusewise.plan.plan import Plan

ROOT = Path(__file__).parents[2]
DEVICES = ("cpu", "h200")

Built = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class GoldenCase:
    """One program; its folder of golden files has its name.

    Attributes:
        build: device name -> function or module and its arguments.
        train: also the backward; else without gradients.
        policy, dynamic: of the compile.
    """

    name: str
    build: Callable[[str], Built]
    train: bool = False
    policy: Policy = "balanced"
    dynamic: bool | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PlannedGraph:
    """One graph of a program as planned."""

    role: str
    captured: Captured
    plan: Plan
    kernels: Mapping[str, Kernel]


def machine(device: str) -> Machine:
    """The device that goldens are planned for: the same wherever the tests run, and not calibrated."""
    if device == "cpu":
        return Machine("a CPU of 8 cores", "cpu", 48e9, 5.0, 5e11, 8, 32 << 20, "given")
    model = load_gpu(device)
    return Machine(
        name=model.name,
        kind="gpu",
        bytes_per_s=model.dram_bytes_per_s,
        launch_us=model.launch_us,
        instructions_per_s=model.sm_count * 128 * model.clock_hz,
        units=model.sm_count,
        cache_bytes=model.l2_bytes,
        source="datasheet",
        compute_capability=int(re.sub(r"\D", "", model.arch.name)),
    )


@functools.cache
def planned(case: GoldenCase, device: str) -> tuple[PlannedGraph, ...]:
    """Every graph of a program, planned and lowered for a device; the GPU need not be here."""
    with _NoValues():
        function, args = case.build(device)
    target = None if device == "cpu" else "cuda"
    with torch.set_grad_enabled(case.train):
        graphs = trace_fn(function, args, device=target, policy=case.policy, dynamic=case.dynamic)
    found: list[PlannedGraph] = []
    for traced in graphs:
        captured = import_graph(traced.gm, traced.example_inputs, case.policy, target, strict=True)
        plan, kernels = plan_captured(captured, Options(case.policy, check=True), machine(device))
        found.append(PlannedGraph(traced.role, captured, plan, kernels))
    return tuple(found)


class _NoValues(TorchDispatchMode):
    """Tensors are allocated and never filled: memory that nobody touches costs nothing, so sizes can be real ones."""

    _FILLS = frozenset({torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default, torch.ops.aten.copy_.default})

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func in self._FILLS else func(*args, **(kwargs or {}))


def _of_catalogue(
    name: str, direction: str, sizes: Mapping[str, Mapping[str, int]] | None = None, **options: Any
) -> GoldenCase:
    """A program at its real sizes: `small` in its last type for a CPU, `full` in its first for a GPU."""

    def build(device: str) -> Built:
        program = PROGRAMS[name]
        size = sizes[device] if sizes is not None else "small" if device == "cpu" else "full"
        dtype = "fp32" if device == "cpu" else program.dtypes[0]
        return program.make(size, dtype, direction=direction)

    policy = options.get("policy", "balanced")
    title = name if policy == "balanced" else f"{name}_{policy}"
    return GoldenCase(title, build, direction == "train", **options)


def _empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def _adam(device: str) -> Built:
    """Two of the tensors of the catalogue's Adam step."""
    shapes = ((1404, 468), (1404,))
    return optim.adam, tuple([_empty(*shape, dtype=torch.float32) for shape in shapes] for _ in range(4))


def _rotary(device: str) -> Built:
    """Rotary position embedding: halves of each head swapped, one of them negated."""

    def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-right, left), dim=-1) * sin

    # queries as a projection gives them: heads are the third dim, and move to the second
    x = _empty(4, 2048, 16, 128).transpose(1, 2).requires_grad_()
    return rotary, (x, _empty(2048, 128), _empty(2048, 128))


def _embedding_norm(device: str) -> Built:
    def embedding_norm(tokens: torch.Tensor, table: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(F.embedding(tokens, table), (table.shape[1],), weight, 1e-6)

    return embedding_norm, (_empty(8, 1024, dtype=torch.int64), _empty(32000, 2048), _empty(2048))


def _dynamic_softmax(device: str) -> Built:
    def dynamic_softmax(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 0.125 + bias, dim=-1)

    return dynamic_softmax, (_empty(4096, 1000), _empty(1000))


def _best_class(device: str) -> Built:
    def best_class(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return logits.argmax(-1), logits.float().logsumexp(-1)

    return best_class, (_empty(8192, 8192),)


_SMALL_NORMS = {"count": 2, "rows": 16, "cols": 1024}

CASES: tuple[GoldenCase, ...] = (
    _of_catalogue("chain", "train"),
    _of_catalogue("swiglu", "train"),
    _of_catalogue("softmax", "train"),
    _of_catalogue("softmax_long_row", "train"),
    _of_catalogue("masked_softmax", "train"),
    _of_catalogue("add_rms_norm", "train"),
    _of_catalogue("add_rms_norm", "train", policy="conservative"),
    _of_catalogue("layer_norm", "train"),
    _of_catalogue("gelu_dropout_residual_layer_norm", "train"),
    _of_catalogue("group_norm_silu_dropout", "train"),
    _of_catalogue("group_norm_silu_dropout_channels_last", "train"),
    _of_catalogue("small_norms", "forward", {"cpu": _SMALL_NORMS, "h200": _SMALL_NORMS}),
    _of_catalogue("cross_entropy", "train"),
    _of_catalogue("gemm_scale_bias_gelu", "forward"),
    _of_catalogue("conv_bn_relu_pool", "forward"),
    _of_catalogue("qkv_attention", "forward"),
    _of_catalogue("expert_routing", "forward"),
    _of_catalogue("transformer_block", "train"),
    GoldenCase("adam", _adam),
    GoldenCase("rotary", _rotary, train=True),
    GoldenCase("embedding_norm", _embedding_norm),
    GoldenCase("best_class", _best_class),
    GoldenCase("dynamic_softmax", _dynamic_softmax, dynamic=True),
)
