"""The cost model of CPU kernels: what each resource adds, what each bound is, and where its figures come from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.config import Options
from fusewise.device.cpu import CpuModel, cpu_of_document, figures_document, probe_cpu
from fusewise.device.cpu_rates import MEASURED_RATES, RATE_SPECS, modelled_rates
from fusewise.device.figures import Figure, Source
from fusewise.errors import UsageError
from fusewise.ir.builder import Builder
from fusewise.ir.dtypes import BF16, F32, F64
from fusewise.ir.graph import Graph
from fusewise.lower.cpu_work import cpu_work_of
from fusewise.pipeline import cpu_machine, plan_captured
from fusewise.plan.cpu_cost import CLASSES, FRESH_BYTES, CpuPrediction, CpuWork, class_of, predict_cpu, rate_of
from fusewise.plan.plan import Plan, make_plan

MIB = 1 << 20


def cpu(isa: str = "avx512", bits: int = 512, cores: int = 8, **values: float) -> CpuModel:
    """A processor of known figures: 1 MB of level 2 a core, 32 MB of level 3, 40 GB/s."""
    known = {
        "cores": cores,
        "threads": cores,
        "clock_mhz": 2500.0,
        "vector_bits": bits,
        "l2_bytes": MIB,
        "l3_bytes": 32 * MIB,
        "launch_us": 5.0,
        "copy_bytes_per_s": 40e9,
    } | values
    rates = modelled_rates(isa, bits, 64)
    figures = rates | {key: Figure(value, "probed", "given") for key, value in known.items()}
    return replace(probe_cpu(), isa=isa).with_figures(figures)


CPU = cpu()


def stream(moved_bytes: float, **more: object) -> CpuWork:
    work = CpuWork(moved_bytes / 2, moved_bytes / 2, {"plain": 1.0}, points=moved_bytes / 8, pieces=1 << 14)
    return replace(work, **more)  # type: ignore[arg-type]


def arithmetic(kind: str, lanes: float = 1e8, **more: object) -> CpuWork:
    return stream(1024, lanes={kind: lanes}, **more)


def planned(fn: Callable[..., object], *inputs: torch.Tensor, on: CpuModel = CPU) -> tuple[Plan, list[CpuWork]]:
    (traced,) = trace_fn(fn, inputs, {}, None)
    captured = import_graph(traced.gm, traced.example_inputs, "balanced", "cpu")
    plan, kernels = plan_captured(captured, Options(), cpu_machine(on))
    return plan, [cpu_work_of(plan, step, kernels[step.name]) for step in plan.kernels]


# ---- memory


@pytest.mark.parametrize(("moved", "level"), [(4 * MIB, "L2"), (20 * MIB, "L3"), (200 * MIB, "DRAM")])
def test_the_nearest_level_that_holds_all_of_it_delivers_the_bytes(moved: int, level: str) -> None:
    found = predict_cpu(CPU, stream(moved))
    assert found.level == level
    assert found.memory_us == pytest.approx(moved / rate_of(CPU, moved) * 1e6)


def test_bytes_in_a_cache_take_less_than_those_that_are_not() -> None:
    resident, cold = (predict_cpu(CPU, stream(4 * MIB), c) for c in (0.0, 4 * MIB))
    assert cold.memory_us > 4 * resident.memory_us
    assert (resident.level, cold.level) == ("L2", "DRAM")


def test_main_memory_gives_no_more_than_it_was_measured_to_give() -> None:
    found = predict_cpu(CPU, stream(400 * MIB))
    assert found.bound_by == "memory"
    assert found.memory_us == pytest.approx(400 * MIB / 40e9 * 1e6)


def test_one_core_alone_does_not_fill_the_memory() -> None:
    assert rate_of(CPU, 400 * MIB, 1) < 0.5 * rate_of(CPU, 400 * MIB)


def test_a_cache_that_is_slower_than_the_memory_is_not_preferred() -> None:
    slow = cpu(l3_bytes_per_cycle=0.5)
    assert predict_cpu(slow, stream(20 * MIB)).level == "DRAM"


def test_new_pages_are_cleared_before_they_are_written_to() -> None:
    old, new = (predict_cpu(CPU, stream(400 * MIB, fresh_bytes=f)) for f in (0, 200 * MIB))
    assert new.memory_us == pytest.approx(1.5 * old.memory_us)


# ---- vector issue


@pytest.mark.parametrize("kind", CLASSES)
def test_each_class_takes_its_own_cycles(kind: str) -> None:
    found = predict_cpu(CPU, arithmetic(kind))
    lanes = 1 if kind == "gather" else 16
    each = CPU.figure(f"{kind}_cycles").value
    assert found.vector_us == pytest.approx(1e8 * each / lanes / (8 * 2.5e9) * 1e6, rel=1e-3)
    assert (found.bound_by, found.busiest) == ("vector issue", kind)


def test_short_vectors_take_more_instructions_and_scalar_code_most() -> None:
    wide, short = (predict_cpu(c, arithmetic("plain")).vector_us for c in (CPU, cpu("avx2", 256)))
    scalar = predict_cpu(CPU, arithmetic("plain", vectors=False)).vector_us
    assert short == pytest.approx(2 * wide)
    assert scalar == pytest.approx(16 * wide)


def test_classes_of_ops() -> None:
    assert class_of("add", F32, [F32, F32]) == ("plain", 1.0)
    assert class_of("add", F64, [F64, F64]) == ("plain", 2.0)
    assert class_of("div", F32, [F32, F32])[0] == "division"
    assert class_of("erf", F32, [F32]) > class_of("exp", F32, [F32])
    assert class_of("cast", BF16, [F32])[0] == class_of("cast", F32, [BF16])[0] == "conversion"
    assert class_of("cast", BF16, [F32])[1] > class_of("cast", F32, [BF16])[1]
    assert class_of("cast", F64, [F32]) == ("plain", 2.0)


# ---- registers


def test_values_that_no_register_holds_are_traffic_of_level_1() -> None:
    full, over = (predict_cpu(CPU, stream(MIB, live=v)) for v in (32, 40))
    assert (full.spill_bytes, full.registers_us) == (0, 0)
    assert over.spill_bytes == 2 * 8 * 4 * MIB / 8
    assert over.time_us > full.time_us


def test_so_many_registers_there_are() -> None:
    counts = {isa: modelled_rates(isa, 256, 64)["vector_registers"].value for isa in ("avx2", "avx512", "neon")}
    assert counts == {"avx2": 16, "avx512": 32, "neon": 32}
    assert predict_cpu(cpu("avx2", 256), stream(MIB, live=24)).spill_bytes > 0
    assert predict_cpu(CPU, stream(MIB, live=24)).spill_bytes == 0


def test_a_call_leaves_nothing_in_registers() -> None:
    assert predict_cpu(CPU, stream(MIB, live=4, across_calls=3)).spill_bytes == 2 * 3 * 4 * MIB / 8


# ---- launch and cores


def test_a_kernel_that_is_not_shared_starts_no_threads() -> None:
    shared, alone = (predict_cpu(CPU, stream(64, threads=t)) for t in (True, False))
    assert (shared.bound_by, alone.bound_by) == ("launch", "launch")
    assert shared.launch_us - alone.launch_us == pytest.approx(CPU.launch_us)
    assert (shared.cores, alone.cores) == (8, 1)


def test_the_core_with_most_pieces_sets_the_time() -> None:
    even, odd = (predict_cpu(CPU, arithmetic("plain", pieces=p)) for p in (16, 17))
    assert odd.vector_us == pytest.approx(even.vector_us * 3 / (17 / 8))
    assert predict_cpu(CPU, arithmetic("plain", pieces=3)).cores == 3


# ---- all of it


@given(
    moved=st.floats(1e3, 1e9),
    lanes=st.floats(1, 1e9),
    live=st.floats(0, 200),
    more=st.floats(1.0, 8.0),
    what=st.sampled_from(["bytes", "lanes", "live", "cold", "fresh"]),
)
def test_more_work_never_takes_less(moved: float, lanes: float, live: float, more: float, what: str) -> None:
    work = stream(moved, lanes={"plain": lanes, "division": lanes / 8}, live=live)
    before = predict_cpu(CPU, work, 0.1 * moved).time_us
    changed, cold = work, 0.1 * moved
    if what == "bytes":
        changed = replace(work, read_bytes=work.read_bytes * more)
    elif what == "lanes":
        changed = replace(work, lanes={kind: n * more for kind, n in work.lanes.items()})
    elif what == "live":
        changed = replace(work, live=live * more)
    elif what == "fresh":
        changed = replace(work, fresh_bytes=moved * more)
    else:
        cold *= more
    assert predict_cpu(CPU, changed, cold).time_us >= before * (1 - 1e-9)


def tall(x: torch.Tensor) -> torch.Tensor:
    """Forty values that all wait for the last of them."""
    parts = [x * (1.0 + 0.01 * n) for n in range(40)]
    total = parts[-1] * parts[0]
    for number in range(1, 40):
        total = torch.maximum(total + parts[number], parts[-1 - number])
    return total


@pytest.mark.parametrize(
    ("fn", "elements", "bound"),
    [
        (lambda x: x + 1, 1 << 26, "memory"),
        (lambda x: torch.sin(x) + torch.erf(x), 1 << 20, "vector issue"),
        (lambda x: x + 1, 1 << 10, "launch"),
    ],
)
def test_each_bound_is_reached_by_a_kernel(fn: Callable[..., object], elements: int, bound: str) -> None:
    plan, _ = planned(fn, torch.empty(elements))
    (step,) = plan.kernels
    assert isinstance(step.prediction, CpuPrediction)
    assert step.prediction.bound_by == bound
    assert step.predicted_us == step.prediction.time_us


def test_registers_bind_a_kernel_with_far_more_values_than_there_are() -> None:
    plan, (work,) = planned(tall, torch.empty(1 << 20), on=cpu("avx2", 256))
    assert work.live > 32
    (step,) = plan.kernels
    assert isinstance(step.prediction, CpuPrediction)
    assert step.prediction.registers_us > 0
    crowded = predict_cpu(CPU, replace(work, live=400.0))
    assert crowded.bound_by == "registers"


# ---- what kernels are counted to do


def test_a_softmax_is_counted_by_its_classes() -> None:
    rows, columns = 512, 1024
    _, (work,) = planned(lambda x: torch.softmax(x, -1), torch.empty(rows, columns, dtype=torch.bfloat16))
    points = rows * columns
    assert work.points == points
    assert work.lanes["transcendental"] == points
    assert work.lanes["division"] == points
    assert work.read_bytes == work.write_bytes == 2 * points
    assert work.pieces == rows
    assert work.threads


def test_an_index_that_is_data_is_gathered() -> None:
    table, places = torch.empty(1000, dtype=torch.float32), torch.zeros(1 << 16, dtype=torch.int64)
    _, works = planned(lambda t, i: t[i] + 1, table, places)
    assert sum(w.lanes.get("gather", 0) for w in works) >= 1 << 16


def test_dropout_draws_random_bits() -> None:
    _, works = planned(lambda x: torch.nn.functional.dropout(x, 0.1), torch.empty(1 << 16))
    assert sum(w.lanes.get("random", 0) for w in works) == 1 << 16


def test_large_outputs_are_new_pages() -> None:
    _, (large,) = planned(lambda x: x + 1, torch.empty(FRESH_BYTES // 4))
    _, (small,) = planned(lambda x: x + 1, torch.empty(FRESH_BYTES // 8))
    assert (large.fresh_bytes, small.fresh_bytes) == (FRESH_BYTES, 0)


# ---- the planner


def test_a_small_cast_is_computed_again_rather_than_made_a_kernel() -> None:
    x = torch.empty(4096, 1024, dtype=torch.bfloat16)
    w = torch.empty(1024, dtype=torch.bfloat16)
    plan, _ = planned(lambda x, w, b: torch.nn.functional.layer_norm(x, (1024,), w, b), x, w, w)
    assert len(plan.kernels) == 1


def test_an_expensive_value_of_a_row_is_stored_for_the_many_rows_that_read_it() -> None:
    x, w = torch.empty(4096, 1024), torch.empty(1024)
    plan, _ = planned(lambda x, w: x * torch.erf(torch.sin(w)), x, w)
    assert len(plan.kernels) == 2
    assert any(d.code == "recompute-costs" for d in plan.decisions)


def wide_graph(nodes: int) -> Graph:
    b = Builder("cpu")
    x = b.input((1024, 1024), F32)
    y = x
    for number in range(nodes // 2):
        y = b.op("tanh", y) if number % 25 == 24 else y * 1.01 + x
    return b.finish([y])


def test_a_plan_of_500_nodes_takes_less_than_two_seconds() -> None:
    graph = wide_graph(520)
    assert len(graph.nodes) >= 500
    machine = cpu_machine(CPU)
    begin = time.process_time()
    plan = make_plan(graph, machine)
    assert time.process_time() - begin < 2
    assert len(plan.kernels) >= 1


# ---- figures


def test_every_rate_says_where_it_comes_from() -> None:
    for isa, bits in (("avx512", 512), ("avx2", 256), ("neon", 128), ("default", 128)):
        rates = modelled_rates(isa, bits, 64)
        assert set(rates) == set(RATE_SPECS)
        for key, figure in rates.items():
            assert RATE_SPECS[key].problem(figure.value) is None, key
            assert figure.source in get_args(Source)
            assert figure.doc
    assert modelled_rates("avx512", 512, 64)["vector_registers"].source == "datasheet"
    assert set(MEASURED_RATES) == {f"{kind}_cycles" for kind in CLASSES}


def test_a_modelled_copy_rate_is_marked_and_a_measured_one_kept() -> None:
    bare = CPU.with_figures({"copy_bytes_per_s": None})  # type: ignore[dict-item]
    assert cpu_machine(bare).source == "modelled"
    assert cpu_machine(CPU.with_figures({"copy_bytes_per_s": Figure(1e10, "calibrated", "")})).source == "calibrated"


def test_a_results_file_carries_the_processor() -> None:
    document = figures_document(CPU)
    again = cpu_of_document("a CPU", document, "the file")
    assert figures_document(again) == document
    assert predict_cpu(again, stream(MIB)) == predict_cpu(CPU, stream(MIB))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cores": -1}, "cores is -1"),
        ({"wheels": 4}, "wheels is not a figure"),
        ({"isa": None}, "isa"),
    ],
)
def test_a_damaged_description_is_refused(change: dict[str, object], text: str) -> None:
    document = {k: v for k, v in (figures_document(CPU) | change).items() if v is not None}
    with pytest.raises(UsageError, match=text):
        cpu_of_document("a CPU", document, "the file")  # type: ignore[arg-type]
