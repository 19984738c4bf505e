"""`verify(against="unfused")`: fusions that change nothing pass, and one that changes a bit is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

import fusewise
from fusewise.cli import app
from fusewise.errors import UnknownName
from fusewise.ir.graph import Graph
from fusewise.plan.unfused import reassociates, unfused
from tests.faults import plant


def block(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = F.layer_norm(F.gelu(x) * 2, (x.shape[-1],), w)
    return F.dropout(torch.softmax(hidden, -1), 0.3), hidden.flip(1)[:, 3:]


def test_fusions_change_no_bit_forward_and_backward() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(9, 133, requires_grad=True), torch.rand(133, requires_grad=True)
    proof = fusewise.verify(block, x, w, against="unfused")
    assert proof, proof
    assert {c.kernel.split("/")[0] for c in proof.checks} == {"forward", "backward"}
    assert len({c.inputs for c in proof.checks}) == 6 and proof.fusions > 20
    assert any("softmax" in op for c in proof.checks for op in c.ops)


def test_half_precision_gathers_pads_and_joins() -> None:
    def f(table: torch.Tensor, at: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        rows = F.pad(table[at], (1, 2)) + 1
        return torch.cat([rows.relu(), y], 1).amax(0) - torch.arange(12).to(y.dtype)

    table, at, y = torch.randn(20, 4).bfloat16(), torch.tensor([3, 3, 19, 0]), torch.randn(4, 5).bfloat16()
    assert fusewise.verify(f, table, at, y, against="unfused", hard=False)


def test_symbolic_sizes_and_walls() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((torch.tanh(x) + 1) @ w).relu() * 2

    torch._dynamo.reset()
    with torch._dynamo.config.patch(assume_static_by_default=False):
        assert fusewise.verify(f, torch.randn(7, 12), torch.randn(12, 5), against="unfused", hard=False)
    assert fusewise.trace.compiled()[-1].captured.graph.symbols


def test_a_plan_without_fusions_has_a_kernel_for_each_op() -> None:
    fusewise.compile(lambda x: (F.pad(x.exp(), (1, 1)).t() * 2).sum(0))(torch.randn(5, 6))
    plan = fusewise.trace.compiled()[-1].plan
    alone = unfused(plan)
    graph: Graph = plan.graph
    computing = [n.id for n in graph if n.info.group in ("pointwise", "reduce", "load", "random")]
    assert [s.nodes for s in alone.kernels] == [(n,) for n in computing] and len(computing) >= 4
    assert all(s.writes == s.nodes for s in alone.kernels)
    assert [graph[n].op for n in computing if reassociates(graph[n])] == ["sum"]


def test_a_wrong_fusion_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "abs", beside="exp", instead="neg")
    x = torch.linspace(-1, 1, 60).view(6, 10)
    proof = fusewise.verify(lambda x: x.abs().exp() + 1, x, against="unfused", hard=False)
    assert not proof
    failure = proof.failures[0]
    assert failure.kernel == "inference/fused_abs_exp_add_0" and failure.index == (3, 0)
    assert failure.op == "aten.add.Tensor" and Path(failure.file).name == Path(__file__).name
    assert float(failure.fused) < 2 < float(failure.unfused)
    assert "NOT equal: 1 of 1 kernels" in str(proof)
    # apart the two ops are right
    apart = lambda x: fusewise.barrier(x.abs()).exp()  # noqa: E731
    assert fusewise.verify(apart, x, against="unfused", hard=False)


def test_a_sum_that_misses_an_element_is_no_other_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.exp(), x[:, :1].abs()], 1).sum(1) * 2

    x = torch.rand(8, 1000) + 1
    assert fusewise.verify(f, x, against="unfused", hard=False)
    plant(monkeypatch, "abs", beside="exp", instead="floor")
    assert not fusewise.verify(f, x, against="unfused", hard=False)


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "model.py"
    file.write_text("import torch\n\ndef f(x):\n    return x.abs().exp() + 1\n")
    command = ["verify", f"{file}:f", "--input", "x:f32[40]", "--against", "unfused"]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["ok"]
    plant(monkeypatch, "abs", beside="exp", instead="neg")
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1 and "model.py:4" in done.stdout and "one by one" in done.stdout
    with pytest.raises(UnknownName, match="Did you mean unfused"):
        fusewise.verify(torch.relu, torch.ones(2), against="unfussed")  # type: ignore[arg-type]
