"""Candidates, `--why`, staircases and devices side by side, on real plans."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import fusewise
from fusewise.errors import UnknownName, UsageError
from fusewise.plan.decisions import REASONS
from fusewise.plan.replay import replay
from fusewise.report.documents import Explanation, Why
from tests.cpu.test_explain import norm_then_product
from tests.cpu.test_verify_cli import file as file
from tests.cpu.test_verify_cli import run
from tests.golden.programs import CASES, planned

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton")


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(64, 128, device="meta"), torch.empty(128, 128, device="meta")


def why(first: str, second: str, device: str = "cpu") -> Why:
    (answer,) = fusewise.explain(norm_then_product, *inputs(), device=device, why=(first, second)).why
    return answer


@pytest.mark.parametrize("case", [c for c in CASES if c.name in ("layer_norm", "masked_softmax", "adam")], ids=repr)
def test_every_decision_is_looked_at_again(case: object) -> None:
    for graph in planned(case, "h200"):  # type: ignore[arg-type]
        candidates = replay(graph.plan)
        assert [c.decision.code for c in candidates] == [d.code for d in graph.plan.decisions]
        assert candidates and all(c.before_us is not None and c.before_us > 0 for c in candidates)
        assert all(c.sizes[0] > 0 and c.sizes[1] > 0 for c in candidates)


def test_a_replay_keeps_the_sides_that_are_asked_for() -> None:
    (graph,) = planned(next(c for c in CASES if c.name == "adam"), "h200")
    asked = replay(graph.plan, wanted=lambda left, right: True)
    assert all(c.alternative is not None for c in asked if c.decision.kind != "inline")
    for candidate in asked:
        if candidate.decision.taken and candidate.alternative is not None:
            left, right, merged = candidate.alternative.left, candidate.alternative.right, candidate.alternative.merged
            assert merged is not None
            assert {*left.region.nodes, *right.region.nodes} <= set(merged.region.nodes)
            assert set(merged.writes) <= set(merged.region.nodes)


@needs_triton
def test_every_candidate_has_a_reason_and_figures() -> None:
    found = fusewise.explain(norm_then_product, *inputs(), device="h200")
    (graph,) = found.devices[0].graphs
    assert graph.candidates and sum(c.taken for c in graph.candidates) == graph.fusions
    for row in graph.candidates:
        assert row.meaning == REASONS[row.code] and row.first.op and row.second.nodes > 0
        assert row.before.predicted_us is not None and row.after.predicted_us is not None
        assert row.before.predicted_us - row.after.predicted_us == pytest.approx(row.gain_us)
    # the last fusion of a kernel made the kernel that was compiled
    names = {k.name: k.resources for k in graph.kernels}
    known = [c for c in graph.candidates if c.taken and c.after.resources_source == "compiled"]
    assert {c.second.kernel for c in known} == set(names)
    for row in known:
        used = names[row.second.kernel]
        assert used is not None and row.after.regs_per_thread == used.regs_per_thread
        assert row.after.occupancy == used.occupancy


@needs_triton
def test_the_staircase_holds_the_kernel() -> None:
    (kernel, *_) = fusewise.explain(norm_then_product, *inputs(), device="h200").devices[0].kernels
    used = kernel.resources
    assert used is not None and used.regs_per_thread is not None
    steps = used.staircase
    assert steps[-1].regs_to == 255 and all(
        a.regs_to + 1 == b.regs_from for a, b in zip(steps, steps[1:], strict=False)
    )
    (here,) = [s for s in steps if s.regs_from <= used.regs_per_thread <= s.regs_to]
    assert (here.blocks_per_sm, here.occupancy, here.limiter) == (used.blocks_per_sm, used.occupancy, used.limiter)
    if used.next_regs_up is not None:
        assert here.regs_to + 1 == used.next_regs_up


# ---- why


@needs_triton
def test_why_two_operators_are_one_kernel() -> None:
    answer = why("gelu", "mean", "h200")
    assert answer.fused and answer.first == answer.second and answer.code == "saves-bytes"
    assert answer.bytes_saved > 0 and answer.gain_us > 0 and answer.rate_source == "datasheet"
    together = answer.together
    assert together is not None and len(answer.apart) == 2
    for kernel in (*answer.apart, together):
        assert kernel.resources is not None and kernel.resources.source == "compiled"
        assert kernel.resources.regs_per_thread and kernel.resources.staircase
    assert sum(k.dram_bytes for k in answer.apart) > together.dram_bytes
    assert "aten.gelu.default" in answer.apart[0].ops and "aten.gelu.default" in together.ops


@needs_triton
def test_why_a_refused_fusion_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEWISE_FUEL", "0")
    answer = why("gelu", "pow", "h200")
    assert not answer.fused and answer.code == "fuel" and answer.whole is None
    assert answer.together is not None and answer.together.resources is not None
    assert {k.name for k in answer.apart} == {answer.first, answer.second}
    assert answer.together.resources.source == "compiled"
    assert sum(k.dram_bytes for k in answer.apart) - answer.together.dram_bytes == answer.bytes_saved


def test_why_a_wall() -> None:
    answer = why("aten.mm.default", "gelu")
    assert not answer.fused and answer.code == "wall" and "mm: a product" in answer.detail
    assert answer.together is None and [k.name for k in answer.apart] == [answer.first]


def test_why_by_line_and_by_kernel() -> None:
    first = norm_then_product.__code__.co_firstlineno
    by_line = why(str(first + 1), f"test_explain.py:{first + 2}")
    assert by_line.fused
    kernels = [k.name for k in fusewise.explain(norm_then_product, *inputs()).devices[0].kernels]
    apart = why(*kernels)
    assert not apart.fused and (apart.first, apart.second) == tuple(kernels) and apart.code in {*REASONS, "not-tried"}


def test_why_across_graphs() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return torch.sigmoid(y)

    (answer,) = fusewise.explain(f, torch.empty(64), why=("relu", "sigmoid")).why
    assert not answer.fused and answer.code == "graphs"


def test_names_that_do_not_fit() -> None:
    with pytest.raises(UnknownName, match="Did you mean gelu"):
        why("gelo", "mul")
    first = norm_then_product.__code__.co_firstlineno
    with pytest.raises(UsageError, match="no operator comes from line 9999") as caught:
        why("gelu", "9999")
    assert f"{first + 1}, " in caught.value.remedy
    with pytest.raises(UsageError, match="name the same operators"):
        why("gelu", "aten.gelu")


# ---- devices side by side


@needs_triton
def test_what_is_one_kernel_on_some_devices_only() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.abs().sum(0)

    found = fusewise.explain(f, torch.empty(2**16, 64, device="meta"), device=["h200", "l4", "cpu"])
    kernels = {d.device: len(d.kernels) for d in found.devices}
    for difference in found.differences:
        assert difference.role == "inference" and difference.ops[0] == "aten.abs.default"
        assert {*difference.fused_on, *difference.apart_on} == set(kernels)
    same = fusewise.explain(f, torch.empty(64, 64, device="meta"), device=["h200", "l4"])
    assert not same.differences and "Side by side" in str(same)


def test_differences_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two machines whose planner may not fuse."""
    from fusewise.explanation import run as explaining

    plan = explaining.plan_captured

    def plan_with_less(captured, options, machine, compiler=None):  # type: ignore[no-untyped-def]
        from dataclasses import replace

        return plan(captured, replace(options, fuel=0) if machine.name == "l4" else options, machine, compiler)

    monkeypatch.setattr(explaining, "plan_captured", plan_with_less)
    found = fusewise.explain(lambda x: F.relu(x) * 2, torch.empty(64, device="meta"), device=["h200", "l4"])
    (difference,) = found.differences
    assert difference.ops == ("aten.relu.default", "aten.mul.Tensor")
    assert difference.fused_on == ("h200",) and difference.apart_on == {"l4": "fuel"}
    text = str(found)
    assert "Fused on some of them only" in text and "l4 (fuel)" in text


# ---- the command line


def test_views_of_the_command_line(file: Path, tmp_path: Path) -> None:
    target = f"{file}:good"
    code, out, _ = run("explain", target, "--inference")
    assert (
        code == 0
        and " taken. `fusewise explain --candidates` lists them." in out
        and "every fusion that was tried" not in out
    )
    code, out, _ = run("explain", target, "--inference", "--candidates")
    assert code == 0 and "every fusion that was tried" in out and "saves-bytes" in out
    code, out, _ = run("explain", target, "--inference", "--why", "relu", "mul")
    assert code == 0 and out.startswith("cpu, inference: one kernel, ") and "as one" in out
    document = json.loads(run("explain", target, "--inference", "--why", "relu", "5", "--json")[1])
    assert document["why"][0]["fused"] and document["devices"][0]["graphs"][0]["candidates"]


@needs_triton
def test_staircases_in_the_terminal_and_the_page(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    arguments = ["explain", f"{file}:good", "--inference", "--device", "h200,cpu", "--html", page]
    code, out, _ = run(*arguments, "--staircase")
    assert code == 0 and "occupancy against registers a thread" in out and "◀" in out
    text = page.read_text()
    assert "Side by side" in out and "most registers" in text
    assert '<svg class="stairs"' in text and 'class="here"' in text and "fusions tried" in text
    assert "◀" not in run(*arguments)[1]
    _, out, _ = run(*arguments, "--why", "relu", "mul")
    assert "◀" in out and "<h2>Why</h2>" in page.read_text()


def test_plans_of_a_compiled_graph_have_no_candidates() -> None:
    found = fusewise.explain(norm_then_product, *inputs())
    assert isinstance(found, Explanation) and found.why == () and found.devices[0].graphs[0].candidates


@pytest.mark.parametrize("name", ["layer_norm", "native_layer_norm", "aten.native_layer_norm"])
def test_an_operator_is_named_as_users_call_it(name: str) -> None:
    def normed(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(F.gelu(x), (64,))

    (answer,) = fusewise.explain(normed, torch.empty(32, 64), why=("gelu", name)).why
    assert answer.fused


def test_kernels_side_by_side_are_one_row() -> None:
    def several(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.gelu(a) * 2, torch.sigmoid(b) + 1, torch.softmax(c, -1)

    args = torch.empty(107), torch.empty(2007), torch.empty(16, 1024)
    found = fusewise.explain(several, *args, device="h200", why=("gelu", "softmax"))
    (device,) = found.devices
    (row,) = device.kernels
    assert len(row.members) == 3 and set(row.ops) >= {"aten.gelu.default", "aten._softmax.default"}
    assert row.resources is not None and row.resources.source == "compiled" and not row.resources.spill_bytes
    joined = [c for c in device.graphs[0].candidates if c.kind == "launch"]
    assert [(c.taken, c.code) for c in joined] == [(True, "saves-launch")] * 2
    (answer,) = found.why
    assert answer.fused and answer.code == "saves-launch" and answer.first == answer.second == row.name
    assert "3 kernels side by side" in str(found) and "2 of 2 kernels joined another's launch" in str(found)
