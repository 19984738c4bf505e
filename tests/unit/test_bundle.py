"""Which kernels share a launch: independence, limits, memory, fuel; and that what runs is still in order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
import torch

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.codegen.triton import module
from fusewise.config import Options, SideBySide
from fusewise.device import load_gpu
from fusewise.ir.builder import Builder, Value
from fusewise.ir.dtypes import BF16, F32, DType
from fusewise.ir.graph import Graph, SymbolInfo
from fusewise.ir.sizes import symbol
from fusewise.lower import bundle as bundling
from fusewise.lower.bundle import bundle_kernels
from fusewise.lower.fission import Refined, refine
from fusewise.lower.launch import BundledKernel, launch_units
from fusewise.lower.price import Pricer
from fusewise.lower.registers import predict_resources
from fusewise.pipeline import machine_of, plan_captured
from fusewise.plan.decisions import Decision
from fusewise.plan.plan import Plan, make_plan
from fusewise.plan.printer import print_plan
from fusewise.runtime.index_width import narrow_variant

H200 = load_gpu("h200")


def refined(graph: Graph, apart: bool = True, fuel: int | None = None) -> Refined:
    """The kernels of a graph; with `apart`, one for each node."""
    nodes = [n.id for n in graph if n.op != "input"]
    cuts = [(frozenset({a}), frozenset({b})) for a, b in combinations(nodes, 2)] if apart else []
    machine = machine_of("h200", use_measured=False)
    return refine(lambda _: make_plan(graph, machine, fuel, apart=cuts), Pricer(H200, None), "never")


def bundled(graph: Graph, apart: bool = True, fuel: int | None = None) -> Plan:
    found = refined(graph, apart, fuel)
    return bundle_kernels(found.plan, found.priced, H200, fuel)


def launches(plan: Plan) -> list[tuple[int, ...]]:
    """The nodes of each launch, in order."""
    return [tuple(n for step in launch.steps for n in step.nodes) for launch in plan.launches]


def joins(plan: Plan) -> list[Decision]:
    return [d for d in plan.decisions if d.kind == "launch"]


def small(b: Builder, count: int) -> list[Value]:
    """Independent results of unlike sizes."""
    return [b.op("exp", b.input((1000 + 100 * n,), F32)) for n in range(count)]


def test_small_independent_kernels_share_a_launch() -> None:
    b = Builder("cuda")
    plan = bundled(b.finish(small(b, 5)))
    (launch,) = plan.launches
    assert len(launch.steps) == 5 and [s.name for s in launch.steps] == [s.name for s in plan.kernels]
    assert [(d.taken, d.code) for d in joins(plan)] == [(True, "saves-launch")] * 4
    assert launch.predicted_us < sum(s.predicted_us for s in plan.kernels) - 3 * H200.launch_us
    assert sum(d.gain_us for d in joins(plan)) == pytest.approx(
        sum(s.predicted_us for s in plan.kernels) - launch.predicted_us
    )
    assert f"launch {launch.name}: the next 5 kernels side by side" in print_plan(plan)


def test_a_kernel_never_shares_a_launch_with_what_it_needs() -> None:
    b = Builder("cuda")
    x = b.input((1000,), F32)
    first = b.op("exp", x)
    last = b.op("sin", b.op("cos", first))
    plan = bundled(b.finish([first, last]))
    assert len(plan.launches) == 3 and not joins(plan)


def test_two_launches_never_need_each_other() -> None:
    """a before c and d before b: with a and b in one launch, c and d cannot share another."""
    b = Builder("cuda")
    x, y = b.input((1000,), F32), b.input((1000,), F32)
    d = b.op("sin", y)
    a = b.op("exp", x)
    needs_d, needs_a = b.op("neg", d), b.op("abs", a)
    plan = bundled(b.finish([needs_d, needs_a]))
    assert launches(plan) == [(d.id, a.id), (needs_d.id, needs_a.id)]


@pytest.mark.parametrize("seed", range(30))
def test_every_launch_comes_after_what_it_reads(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(bundling, "MOST_MEMBERS", draw.choice([2, 3, 32]))
    b = Builder("cuda")
    values = [b.input((1000,), F32) for _ in range(3)]
    for _ in range(14):
        chosen = draw.sample(values, 2)
        values.append(b.op("add", *chosen) if draw.random() < 0.5 else b.op("exp", chosen[0]))
    plan = bundled(b.finish([v for v in values[3:] if draw.random() < 0.5] or values[-1:]))
    made = set(plan.graph.inputs)
    for launch in plan.launches:
        assert all(made.issuperset(step.reads) for step in launch.steps)
        made |= {v for step in launch.steps for v in step.writes}
    assert [s.name for launch in plan.launches for s in launch.steps] == [s.name for s in plan.kernels]
    taken = sum(d.taken for d in joins(plan))
    assert len(plan.launches) == len(plan.kernels) - taken


def test_fuel_counts_each_kernel_that_joins() -> None:
    b = Builder("cuda")
    graph = b.finish(small(b, 6))
    for fuel in range(6):
        plan = bundled(graph, fuel=fuel)
        assert len(plan.launches) == 6 - fuel
        refused = [d.code for d in joins(plan) if not d.taken]
        assert sum(d.taken for d in plan.decisions) == fuel and set(refused) <= {"fuel"}
        assert bool(refused) == (fuel < 5)


@pytest.mark.parametrize(("limit", "most"), [("MOST_MEMBERS", 3), ("MOST_PARAMETERS", 6)])
def test_limits_of_one_launch(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundling, limit, most)
    b = Builder("cuda")
    plan = bundled(b.finish(small(b, 7)))
    assert [len(launch.steps) for launch in plan.launches] == [3, 3, 1]
    assert {d.code for d in joins(plan) if not d.taken} <= {"full"}


def test_small_kernels_run_beside_a_long_one() -> None:
    b = Builder("cuda")
    plan = bundled(b.finish([b.op("exp", b.input((1 << 26,), F32)), *small(b, 2)]))
    (launch,) = plan.launches
    assert len(launch.steps) == 3 and launch.predicted_us == pytest.approx(plan.kernels[0].predicted_us, rel=0.01)


@pytest.mark.parametrize(("forced", "launched"), [(False, 2), (True, 1)])
def test_a_kernel_of_many_registers_keeps_to_itself_unless_forced(forced: bool, launched: int) -> None:
    b = Builder("cuda")
    found = refined(b.finish([b.op("exp", b.input((1 << 26,), F32)), *small(b, 1)]))
    name = found.plan.kernels[1].name
    used = replace(predict_resources(found.kernels[name], H200.arch), regs_per_thread=255)
    priced = {**found.priced, name: replace(found.priced[name], used=used)}
    plan = bundle_kernels(found.plan, priced, H200, forced=forced)
    assert len(plan.launches) == launched
    assert [d.code for d in joins(plan)] == ["saves-launch" if forced else "occupancy"]


@pytest.mark.parametrize(("side_by_side", "launched"), [("auto", 1), ("never", 3), ("always", 1)])
def test_the_option_rules_a_common_launch_out_or_forces_it(side_by_side: SideBySide, launched: int) -> None:
    def fn(long: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return long.exp(), a.sin(), b.cos()

    shapes = (1 << 24,), (1000,), (2000,)
    (traced,) = trace_fn(fn, tuple(torch.empty(s, device="meta") for s in shapes), {}, "cuda")
    captured = import_graph(traced.gm, traced.example_inputs, "balanced", "cuda")
    plan, _ = plan_captured(captured, Options(side_by_side=side_by_side), machine_of("h200", use_measured=False))
    assert len(plan.launches) == launched


@pytest.mark.parametrize("dtypes", [(F32, F32), (F32, BF16)], ids=["size", "width"])
def test_kernels_of_other_blocks_have_a_launch_of_their_own(dtypes: tuple[DType, DType]) -> None:
    b = Builder("cuda")
    columns = (4096, 256) if dtypes[0] == dtypes[1] else (1024, 1024)
    rows = [b.reduce("max", b.input((64, c), t), [-1]) for c, t in (*zip(columns, dtypes, strict=True),) * 2]
    plan = bundled(b.finish(rows))
    assert launches(plan) == [(rows[0].id, rows[2].id), (rows[1].id, rows[3].id)]
    assert [d.code for d in joins(plan)] == ["saves-launch"] * 2


def test_values_that_would_wait_for_each_other_stay_apart() -> None:
    """Ten times 8 MB, each looked through and gone in eager: side by side all of them would be alive at once."""
    b = Builder("cuda")
    x = b.input((2048, 1024), F32)
    plan = bundled(b.finish([b.reduce("max", x * (2.0 + n), [-1]) for n in range(10)]))
    large = [step for step in plan.kernels if any(plan.graph[v].shape == (2048, 1024) for v in step.writes)]
    assert len(large) == 10
    together = [launch for launch in plan.launches if sum(s in large for s in launch.steps) > 2]
    assert not together and "memory" in {d.code for d in joins(plan) if not d.taken}


def test_a_kernel_that_writes_over_an_input_comes_after_its_readers() -> None:
    b = Builder("cuda")
    x, y = b.input((1000,), F32), b.input((1200,), F32)
    read, written, other = b.op("exp", x), b.op("neg", x), b.op("sin", y)
    plan = bundled(b.finish([read, other, written], writes={2: 0}))
    (over,) = [step.name for step in plan.kernels if step.over]
    reader = next(step.name for step in plan.kernels if read.id in step.nodes)
    order = [[step.name for step in launch.steps] for launch in plan.launches]
    place = {name: number for number, names in enumerate(order) for name in names}
    assert place[reader] < place[over] and len(plan.launches) == 2


def test_what_a_kernel_changes_in_place_is_one_parameter() -> None:
    b = Builder("cuda")
    values = [b.op("exp", b.input((1000 + n,), F32)) for n in range(3)]
    found = refined(b.finish(values, writes={0: 0, 1: 1}))
    plan = bundle_kernels(found.plan, found.priced, H200)
    (unit,) = launch_units(plan, found.kernels).values()
    assert isinstance(unit, BundledKernel)
    assert [sum(b.over is not None for b in m.buffers) for m in unit.members] == [1, 1, 0]
    assert len(unit.buffers) == 4
    text = module([unit], exact=False)
    assert "fused_exp_0(pid - 0, in0, in0)" in text and "(pid - 8, in1, in1)" in text


def units(values: Sequence[Value], b: Builder) -> BundledKernel:
    found = refined(b.finish(values), apart=False)
    plan = bundle_kernels(found.plan, found.priced, H200)
    (unit,) = launch_units(plan, found.kernels).values()
    assert isinstance(unit, BundledKernel)
    return unit


def test_a_launch_has_each_buffer_and_size_once() -> None:
    b = Builder("cuda")
    b.symbol("s0", SymbolInfo(900, "inputs[0].size(0)"))
    scale = b.input((), F32)
    values = [b.input((symbol("s0"),), F32) * scale, b.input((1100,), F32) * scale, b.input((symbol("s0") * 2,), F32)]
    unit = units([*values[:2], b.op("exp", values[2])], b)
    assert len(unit.members) == 3 and unit.sizes == ("s0",)
    assert len(unit.buffers) == 7 == len({buffer.name for buffer in unit.buffers})
    narrow = narrow_variant(unit)
    assert isinstance(narrow, BundledKernel) and narrow.name != unit.name
    assert {m.schedule.index_bits for m in narrow.members} == {32}  # type: ignore[union-attr]


def test_members_that_differ_in_their_data_alone_are_one_function() -> None:
    b = Builder("cuda")
    x = [b.input((rows, columns), F32) for rows, columns in ((16, 1024), (17, 1024), (16, 1000))]
    unit = units([b.op("exp", v - b.reduce("max", v, [-1], keepdim=True)) for v in x], b)
    text = module([unit], exact=False)
    assert text.count("@triton.jit") == 3  # two bodies, and the function that hands out the programs
    assert "if pid < 16:" in text and "if pid < 33:" in text
