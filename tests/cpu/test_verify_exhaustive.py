"""`verify --exhaustive`: every pointwise op has a call, equal bits pass, and one wrong input is found."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import fusewise
from fusewise import trace
from fusewise.cli import app
from fusewise.errors import UnknownName
from fusewise.proof import exhaustive
from fusewise.proof.exhaustive import prove
from fusewise.proof.op_cases import CASES, uncovered
from fusewise.proof.op_values import all_values, hard_values, pairs, partner, random_values, spread_values
from tests.faults import plant


def test_every_pointwise_op_is_called() -> None:
    assert not uncovered()
    assert len({(c.name, c.label) for c in CASES}) == len(CASES)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_all_values_are_all_values(dtype: torch.dtype) -> None:
    bits = torch.cat([v.view(torch.int16) for v in all_values(dtype, "cpu", 10_000)])
    assert bits.numel() == 65_536 == bits.unique().numel()


def test_a_spread_has_no_value_twice_and_every_exponent() -> None:
    values = torch.cat(list(spread_values(torch.float32, "cpu", 100_000, 30_000)))
    assert values.numel() >= 100_000 and values.view(torch.int32).unique().numel() == values.numel()
    assert torch.frexp(values[values.isfinite()].abs()).exponent.unique().numel() > 250
    assert values.isnan().any() and values.signbit().any()


def test_hard_values_and_pairs() -> None:
    hard = hard_values(torch.float32, "cpu")
    assert hard.isnan().any() and hard.isinf().any() and ((hard == 0) & hard.signbit()).any()
    assert ((hard != 0) & (hard.abs() < torch.finfo(torch.float32).smallest_normal)).any()
    x, y = pairs(hard)
    assert x.numel() == y.numel() == hard.numel() ** 2
    generator = torch.Generator().manual_seed(0)
    drawn = random_values(torch.float32, "cpu", 4096, generator)
    close = (drawn.double() / partner(drawn, generator).double()).abs()
    assert ((close > 0.4) & (close < 4)).double().mean() > 0.25, "sums that cancel"
    assert {-(2**31), 2**31 - 1, 64} <= set(hard_values(torch.int32, "cpu").tolist())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer layouts, lengths and numbers of threads: what is tested here is the comparison."""
    monkeypatch.setattr(exhaustive, "LAYOUTS", exhaustive.LAYOUTS[:2])
    monkeypatch.setattr(exhaustive, "_LENGTHS", (2, 15, 16, 17, 33, 131))
    monkeypatch.setattr(exhaustive, "_THREADS", (1, 2))


@pytest.mark.usefixtures("short")
def test_claimed_ops_are_proven(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = ["verify", "--exhaustive", "--ops", "relu,aten.abs.default,tanh", "--dtypes", "bf16", "--out", str(out)]
    done = CliRunner().invoke(app, command)
    found = json.loads(out.read_text())
    assert done.exit_code == 0 and found["ok"] and found["commit"] and "every bit eager's" in done.stdout
    rows = {r["op"]: r for r in found["rows"]}
    assert rows["aten.relu.default"]["fused"] and rows["aten.relu.default"]["inputs"] >= 65_536
    assert rows["aten.relu.default"]["compared"] > 65_536 + 2 * exhaustive._LARGE
    # a function of the CPU's vector library, which stays eager
    assert not rows["aten.tanh.default"]["fused"] and rows["aten.tanh.default"]["reason"]
    assert torch.get_num_threads() > 0


@pytest.mark.usefixtures("short")
def test_one_wrong_op_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "floor", beside="floor", instead="trunc")
    report = prove(ops=["floor"], dtypes=["f32"], inputs=100_000)
    (row,) = report.rows
    assert not report.ok and 0 < row.mismatches < row.compared and len(row.layouts_that_differ) == 2
    assert row.first is not None and float.fromhex(row.first.fused) == float.fromhex(row.first.eager) + 1
    assert "NOT equal: 1 ops differ" in str(report)


@pytest.mark.usefixtures("short")
def test_what_is_not_claimed_is_counted_and_claims_come_back() -> None:
    report = prove(ops=["exp"], dtypes=["f32"], inputs=100_000, unclaimed=True)
    (row,) = report.rows
    assert row.fused and not row.claimed and row.mismatches and report.ok
    (row,) = prove(ops=["exp"], dtypes=["f32"], inputs=1000).rows
    assert not row.fused and "conservative" in row.reason


def test_wrong_names() -> None:
    with pytest.raises(UnknownName, match="Did you mean relu"):
        prove(ops=["rellu"])
    with pytest.raises(UnknownName, match="unknown dtype 'fp32'"):
        prove(dtypes=["fp32"])


def test_what_the_proof_found_stays_cured() -> None:
    """Roots of f16 are powers in eager; fmax gives NaN beside a signaling NaN; a square is eager's to the bit."""
    halves = torch.tensor([-math.inf, math.inf, -0.0, 4.0, -1.0]).half()
    signaling = torch.tensor([0x7F800001, 0x7FC00000, 0x3F800000], dtype=torch.int32).view(torch.float32)
    numbers = torch.tensor([2.0, 2.0, 3.0])

    def f(halves: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [halves**0.5, halves**-0.5, torch.fmax(x, y), torch.fmin(x, y), y**2 - 1]

    for policy in ("conservative", "balanced"):
        got = fusewise.compile(f, policy=policy)(halves, signaling, numbers)
        same = [torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())
                for a, b in zip(got, f(halves, signaling, numbers), strict=True)]  # fmt: skip
        assert same[:2] == [True, True] and same[4]
        assert policy == "balanced" or all(same)
    conservative = trace.compiled()[-2].plan
    assert any(n.op == "mul" for n in conservative.graph), "the square is a kernel of ours"
