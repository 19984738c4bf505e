"""Ways to run a kernel that registers hold back: caps, spilling to shared memory, setmaxnreg, beside a split."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

import fusewise
from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.config import Fission
from fusewise.errors import CompileFailed, UnknownName
from fusewise.ir.graph import Graph
from fusewise.lower.fission import Refined, refine
from fusewise.lower.kernel import Kernel
from fusewise.lower.price import MUST_GAIN, Compile, Pricer
from fusewise.lower.relief import CAPS, register_caps
from fusewise.lower.tune import candidates, pin
from fusewise.pipeline import compiler_for, machine_of
from fusewise.plan.decisions import HeldBack, Way
from fusewise.plan.partition import Cut
from fusewise.plan.plan import Plan, make_plan
from fusewise.plan.resources import Resources, Section
from fusewise.plan.schedule import TritonSchedule, schedule_text
from fusewise.runtime.shared_spill import PRAGMA, spill_to_shared

H200 = machine_of("h200", use_measured=False)
ROWS, LIVE = 1 << 23, 40

Shapes: TypeAlias = tuple[tuple[int, ...], ...]


def wide(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    """Values that every output needs, in another order each, so that all stay alive."""
    values = [torch.sigmoid(x * w[i]) for i in range(LIVE)]
    found = []
    for o in range(3):
        total = values[o]
        for i in range(1, LIVE):
            total = total * 0.5 + values[(o + i * (2 * o + 1)) % LIVE]
        found.append(total)
    return found


def wide_row(weights: torch.Tensor, *rows: torch.Tensor) -> list[torch.Tensor]:
    """A softmax over a mix of rows, times each of them."""
    total = torch.stack([w * F.silu(r) for w, r in zip(weights.unbind(), rows, strict=True)]).sum(0)
    probability = torch.softmax(total, dim=-1)
    return [r * probability for r in rows]


@functools.cache
def graph_of(fn: Callable[..., object], shapes: Shapes) -> Graph:
    inputs = [torch.empty(shape, device="meta") for shape in shapes]
    (traced,) = trace_fn(fn, inputs, device="cuda")
    return import_graph(traced.gm, traced.example_inputs, "balanced", "cuda").graph


@functools.cache
def plan_of(fn: Callable[..., object], shapes: Shapes, cuts: tuple[Cut, ...]) -> Plan:
    return make_plan(graph_of(fn, shapes), H200, apart=cuts)


def refined(
    compiler: Compile | None,
    fission: Fission = "auto",
    fn: Callable[..., object] = wide,
    shapes: Shapes = ((ROWS,), (LIVE,)),
) -> Refined:
    assert H200.gpu is not None
    return refine(lambda cuts: plan_of(fn, shapes, tuple(cuts)), Pricer(H200.gpu, compiler), fission)


def by_kind(held: HeldBack) -> dict[str, list[Way]]:
    found: dict[str, list[Way]] = {}
    for way in held.ways:
        found.setdefault(way.kind, []).append(way)
    return found


def spilling(cap_costs: int) -> Compile:
    """A compiler whose kernels take 160 registers, or a cap and then so many bytes of spills a register less."""

    def compile_kernel(kernel: Kernel) -> Resources:
        schedule = kernel.schedule
        assert isinstance(schedule, TritonSchedule)
        regs = min(160, schedule.maxnreg or 160)
        spilled = 4 + cap_costs * (160 - regs)
        local = 0 if schedule.spill_to_shared else spilled
        # few loads in flight a program and a long chain: bound by latency
        section = Section({"float": 900, "global": 8}, load_bytes=32, store_bytes=32, barriers=20)
        shared = 128 * spilled if schedule.spill_to_shared else 0
        return Resources(regs, local, local, 0, shared, schedule.num_warps, straight=section, shared_spill_bytes=shared)

    return compile_kernel


@pytest.fixture(scope="module")
def held_on_h200() -> Refined:
    return refined(compiler_for(H200, "balanced"))


def test_every_way_is_listed_with_what_the_compiler_says(held_on_h200: Refined) -> None:
    held = held_on_h200.plan.held_back[0]
    ways = by_kind(held)
    assert set(ways) == {"plain", "cap", "shared-spill", "setmaxnreg", "split"}
    (plain,) = ways["plain"]
    assert plain.regs_per_thread and plain.time_us and plain.occupancy
    compiled = [way for way in ways["cap"] if not way.problem]
    assert 1 <= len(compiled) <= len(ways["cap"]) <= CAPS
    for way in compiled:
        cap = int(way.name.rpartition(" ")[2])
        assert way.regs_per_thread is not None and way.occupancy is not None
        assert way.regs_per_thread <= cap < plain.regs_per_thread
        assert way.occupancy > plain.occupancy
        assert way.schedule == f"{plain.schedule} n{cap}"
    assert "same registers" in ways["setmaxnreg"][0].problem


def test_the_cheapest_way_is_taken(held_on_h200: Refined) -> None:
    for held in held_on_h200.plan.held_back:
        (taken,) = (way for way in held.ways if way.taken)
        known = [way.time_us for way in held.ways if way.time_us is not None]
        assert taken.time_us is not None
        # unless the gain is within what predictions are worth
        assert taken.time_us == min(known) or MUST_GAIN * taken.time_us <= min(known)


def test_a_cap_that_spills_little_is_taken_and_runs() -> None:
    found = refined(spilling(0), "never")
    (step,) = found.plan.kernels
    (held,) = found.plan.held_back
    (taken,) = (way for way in held.ways if way.taken)
    assert taken.kind == "cap"
    schedule = found.kernels[step.name].schedule
    assert isinstance(schedule, TritonSchedule)
    assert schedule.maxnreg == taken.regs_per_thread
    assert step.prediction is not None and step.predicted_us == taken.time_us
    assert step.prediction.regs_per_thread == taken.regs_per_thread
    (split,) = by_kind(held)["split"]
    assert split.problem == "the options rule it out"


def test_a_cap_that_loses_by_its_spills_is_the_last_that_is_compiled() -> None:
    asked: list[int | None] = []
    compiler = spilling(400)

    def compile_kernel(kernel: Kernel) -> Resources:
        assert isinstance(kernel.schedule, TritonSchedule)
        asked.append(kernel.schedule.maxnreg)
        return compiler(kernel)

    found = refined(compile_kernel, "never")
    (held,) = found.plan.held_back
    caps = by_kind(held)["cap"]
    assert len(caps) == CAPS
    assert [bool(way.problem) for way in caps] == [False, True, True]
    assert len([cap for cap in asked if cap is not None]) == 1
    assert held.ways[0].taken


def test_caps_are_the_next_steps_of_occupancy() -> None:
    found = refined(spilling(0), "never")
    assert H200.gpu is not None
    (step,) = found.plan.kernels
    plain = Pricer(H200.gpu, spilling(0)).price(found.plan, step)
    assert plain.prediction is not None
    caps = register_caps(H200.gpu, plain)
    assert caps[0] == plain.prediction.residency.next_regs_down
    assert sorted(caps, reverse=True) == caps


def test_without_a_compiler_nothing_is_guessed() -> None:
    found = refined(None, "never", wide_row, ((16,), *[(2048, 16384)] * 16))
    assert found.plan.held_back
    for held in found.plan.held_back:
        ways = by_kind(held)
        assert all("no compiler" in way.problem for way in ways["cap"])
        assert ways["plain"][0].taken


def test_a_pin_may_cap_registers(held_on_h200: Refined) -> None:
    assert H200.gpu is not None
    pricer = Pricer(H200.gpu, spilling(0))
    plan = held_on_h200.plan
    step = plan.kernels[0]
    own = next(iter(candidates(replace(plan, held_back=()), step, H200.gpu)))
    pinned = pin(held_on_h200, pricer, {step.name: f"{own} n64 shared"}).kernels[step.name].schedule
    assert isinstance(pinned, TritonSchedule)
    assert (pinned.maxnreg, pinned.spill_to_shared, schedule_text(pinned)) == (64, True, f"{own} n64 shared")
    for wrong in (f"{own} n8", f"{own} n256", f"{own} shared n64", "n64"):
        with pytest.raises(UnknownName):
            pin(held_on_h200, pricer, {step.name: wrong})


def test_an_older_assembler_is_named_with_the_one_that_is_needed(held_on_h200: Refined) -> None:
    from triton import knobs

    if tuple(map(int, knobs.nvidia.ptxas.version.split("."))) >= (13, 0):
        pytest.skip("this assembler spills to shared memory")
    (way,) = by_kind(held_on_h200.plan.held_back[0])["shared-spill"]
    assert "ptxas of CUDA 13.0" in way.problem and knobs.nvidia.ptxas.version in way.problem
    assert "TRITON_PTXAS_PATH" in way.problem


def test_spills_in_shared_memory_are_read_and_take_occupancy(held_on_h200: Refined) -> None:
    from triton import knobs

    if tuple(map(int, knobs.nvidia.ptxas_blackwell.version.split("."))) < (13, 0):
        pytest.skip("this assembler does not spill to shared memory")
    machine = machine_of("rtx5090", use_measured=False)
    assert machine.gpu is not None
    found = held_on_h200
    step = max(found.plan.kernels, key=lambda one: len(one.nodes))
    kernel = found.kernels[step.name]
    assert isinstance(kernel.schedule, TritonSchedule)
    pricer = Pricer(machine.gpu, compiler_for(machine, "balanced"))
    capped = replace(kernel.schedule, maxnreg=48, spill_to_shared=False)
    cap, shared = (
        pricer.price_kernel(found.plan, step, replace(kernel, schedule=replace(capped, spill_to_shared=on)))
        for on in (False, True)
    )
    assert cap.used is not None and shared.used is not None and shared.prediction is not None
    assert cap.used.shared_spill_bytes == 0 < shared.used.shared_spill_bytes == shared.used.shared_bytes
    assert shared.used.spill_load_bytes < cap.used.spill_load_bytes
    assert shared.used.straight.instructions["shared"] > cap.used.straight.instructions.get("shared", 0)
    assert shared.prediction.spill_us < (cap.prediction.spill_us if cap.prediction else 0)


def test_the_pragma_stands_first_in_the_kernel() -> None:
    ptx = ".version 9.0\n.visible .entry f(\n\t.param .u64 p\n)\n.reqntid 128\n{\n\tret;\n}\n"
    assert f"{{\n\t{PRAGMA}\n\tret;" in spill_to_shared(ptx)
    with pytest.raises(CompileFailed, match="dynamic shared memory"):
        spill_to_shared(".extern .shared .align 16 .b8 global_smem[];\n" + ptx)
    with pytest.raises(CompileFailed, match="no kernel"):
        spill_to_shared(".version 9.0\n")


def test_explain_lists_the_ways() -> None:
    x, w = torch.empty(ROWS, device="meta"), torch.empty(LIVE, device="meta")
    found = fusewise.explain(wide, x, w, device="h200")
    (held,) = found.as_dict()["devices"][0]["graphs"][0]["held_back"]
    assert {way["kind"] for way in held["ways"]} == {"plain", "cap", "shared-spill", "setmaxnreg", "split"}
    assert held["runs_as"]
    assert "held back by registers" in str(found)
    assert "ways to run" in found.to_html()
