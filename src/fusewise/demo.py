"""The whole job on two programs: a transformer block in training, and a chain of pointwise stages.

Each is planned and explained, proven equal to eager PyTorch, and timed against eager and torch.compile in one run.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import nn

from fusewise import trace
from fusewise.api import compile as fusewise_compile
from fusewise.config import make_options
from fusewise.explanation import explain, stages_of
from fusewise.measure.bench import BenchCase, Settings, run_cases
from fusewise.measure.contenders import CONTENDERS, Contender
from fusewise.measure.program import Built, Case, Cost, Program
from fusewise.measure.results import BenchResult
from fusewise.proof.run import verify
from fusewise.report.documents import Explanation, Verification
from fusewise.stages import KernelStages

EXPANSION = 4
DROPOUT = 0.1
SEED = 0
_PROOF_SHARE = 0.4  # of the demo's time


class Progress(Protocol):
    """Told how far the demo is."""

    def __call__(self, share: float, text: str) -> None:
        """Show it."""
        ...


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo found, program by program."""

    device: str
    explanations: tuple[Explanation, ...]
    verifications: tuple[Verification, ...]
    bench: BenchResult
    stages: tuple[KernelStages, ...]

    @property
    def ok(self) -> bool:
        """True where everything is equal and no time is impossible."""
        return all(v.ok for v in self.verifications) and not self.bench.findings


class TransformerBlock(nn.Module):
    """A pre-norm block: causal attention, a GELU MLP, two dropouts, two residuals."""

    def __init__(self, width: int, heads: int, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, EXPANSION * width)
        self.down = nn.Linear(EXPANSION * width, width)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        """Causal self-attention."""
        batch, length, width = x.shape
        heads = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(heads).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))  # type: ignore[no-any-return]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` of shape (batch, length, width) -> the same shape."""
        x = x + F.dropout(self.attention(self.norm1(x)), self.dropout, self.training)
        hidden = F.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + F.dropout(self.down(hidden), self.dropout, self.training)


def chain(x: torch.Tensor) -> torch.Tensor:
    """Eight stages y = (1 + 0.01 s) x + 0.001 s, with a ReLU after each odd one."""
    for s in range(1, 9):
        x = x * (1 + 0.01 * s) + 0.001 * s
        if s % 2 == 1:
            x = torch.relu(x)
    return x


def run_demo(
    device: str | None = None,
    progress: Progress | None = None,
    size: str | None = None,
    baselines: Sequence[str] = ("eager", "inductor"),
) -> Demo:
    """Explains, verifies and times both programs.

    Args:
        device: `cpu` or `cuda`; None: the GPU where there is one.
        size: of the programs: `tiny`, `cpu` or `gpu`; None: what suits the device.
        baselines: contenders of the bench to time beside Fusewise.
    """
    show: Progress = progress or (lambda share, text: None)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    options = make_options()
    cases = _cases(device, size or ("cpu" if device == "cpu" else "gpu"))
    explanations: list[Explanation] = []
    verifications: list[Verification] = []
    for number, case in enumerate(cases):
        base, name = _PROOF_SHARE * number / len(cases), case.program.name

        def show_proof(share: float, text: str, base: float = base, name: str = name) -> None:
            show(base + share * _PROOF_SHARE / len(cases), f"{name}: proving on {text}")

        with torch.set_grad_enabled(case.case.train):
            show(base, f"{name}: planning")
            function, args = case.program.build(case.case)
            explanations.append(explain(function, args, {}, [device], options, name).explanation)
            function, args = case.program.build(_proof_case(case))
            verifications.append(verify(function, args, {}, options, name=name, progress=show_proof)[0])
    trace.clear()
    contenders = [*(CONTENDERS[name] for name in baselines), Contender("fusewise", fusewise_compile)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other compilers' advice about this machine
        bench = run_cases(
            cases,
            contenders,
            device,
            Settings(rounds=20, budget_s=10.0),
            lambda share, text: show(_PROOF_SHARE + (1 - _PROOF_SHARE) * share, text),
        )
    return Demo(device, tuple(explanations), tuple(verifications), bench, tuple(stages_of(trace.compiled(), options)))


def _cases(device: str, size: str) -> list[BenchCase]:
    chosen = ((BLOCK, "fp32" if device == "cpu" else "bf16", "train"), (CHAIN, "fp32", "forward"))
    return [BenchCase(p, size, dtype, p.case(size, dtype, device, direction)) for p, dtype, direction in chosen]


def _proof_case(case: BenchCase) -> Case:
    """A size for six sets of inputs in fp64; what is timed is compared with eager again, on its own inputs."""
    size = case.program.sizes.get("proof", case.case.size)
    return replace(case.case, size=size)


def _build_block(case: Case) -> Built:
    torch.manual_seed(SEED)
    size = case.size
    block = TransformerBlock(size["width"], size["heads"], case.dropout).to(case.device, case.dtype)
    x = torch.randn(size["batch"], size["length"], size["width"], device=case.device, dtype=case.dtype)
    return block, (x.requires_grad_(case.train),)


def _build_chain(case: Case) -> Built:
    torch.manual_seed(SEED)
    return chain, (torch.randn(case.size["n"], device=case.device, dtype=case.dtype),)


def _block_cost(case: Case) -> Cost:
    """Bytes and operations of one training step.

    Least: x and the parameters are read and y is written; then x, dy and the parameters are read again and their
    gradients written. Unfused: the operators of such a block read and write x 125 times, each parameter three times,
    the two masks twice and attention's log sums twice.
    """
    batch, length, width = case.size["batch"], case.size["length"], case.size["width"]
    tokens = batch * length
    x = tokens * width * case.itemsize
    matrices = (4 + 2 * EXPANSION) * width * width
    parameters = (matrices + (9 + EXPANSION) * width) * case.itemsize
    masks, log_sums = 2 * tokens * width, 4 * tokens * case.size["heads"]
    flops = 3 * (2 * tokens * matrices + 2 * batch * length * (length + 1) * width)
    return Cost(5 * x + 3 * parameters, 125 * x + 3 * parameters + 2 * masks + 2 * log_sums, flops)


def _chain_cost(case: Case) -> Cost:
    tensor = case.size["n"] * case.itemsize
    return Cost(2 * tensor, 2 * 20 * tensor)  # 8 multiplications, 8 additions, 4 ReLUs


BLOCK = Program(
    name="transformer block",
    build=_build_block,
    cost=_block_cost,
    sizes={
        "tiny": {"batch": 2, "length": 8, "width": 32, "heads": 2},
        "cpu": {"batch": 8, "length": 128, "width": 256, "heads": 8},
        "gpu": {"batch": 8, "length": 1024, "width": 2048, "heads": 16},
    },
    dtypes=("fp32", "bf16"),
    directions=("forward", "train"),
    tags=frozenset({"random"}),
    note="forward and backward",
)
CHAIN = Program(
    name="chain of 8 stages",
    build=_build_chain,
    cost=_chain_cost,
    sizes={"tiny": {"n": 1021}, "proof": {"n": 2**20 + 3}, "cpu": {"n": 2**24}, "gpu": {"n": 2**28}},
    dtypes=("fp32",),
    note="pointwise",
)
