"""The cost model of GPU kernels: what each resource adds, and that more work never takes less time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusewise.device import load_gpu
from fusewise.device.figures import Figure
from fusewise.measure.stats import median, percentile
from fusewise.plan.gpu_cost import predict
from fusewise.plan.resources import Resources, Section, Turn, Work

H200 = load_gpu("h200")
MIB = 1 << 20
MEASURED = json.loads((Path(__file__).parents[2] / "benchmarks/results/h200-kernels.json").read_text())
_EVENT_US = 4.0  # of a time by CUDA events that the kernel itself does not take


def used(regs: int = 32, warps: int = 4, spilled: int = 0, shared: int = 0, **counts: int) -> Resources:
    body = Section(counts or {"float": 40, "global": 4}, load_bytes=32, store_bytes=32)
    return Resources(regs, spilled, spilled, 0, shared, warps, straight=body)


def work(programs: int = 16384, load: float = 4096, store: float = 4096, loops: tuple[Turn, ...] = ()) -> Work:
    return Work(programs, Turn(1, load, store), loops, 1, {})


def time_us(work: Work, used: Resources, moved: float | None = None) -> float:
    each = work.straight.load_bytes
    read = work.programs * each if moved is None else moved
    return predict(H200, work, used, read, read).time_us


def test_a_streaming_kernel_takes_its_bytes_at_the_rate_of_the_memory() -> None:
    found = predict(H200, work(1 << 17), used(), 512 * MIB, 512 * MIB)
    assert found.bound_by == "memory"
    floor_us = 1024 * MIB / H200.dram_bytes_per_s * 1e6
    assert floor_us < found.time_us < 1.1 * floor_us + H200.launch_us


def test_a_kernel_of_nothing_takes_a_launch() -> None:
    found = predict(H200, work(1, 16, 16), used(), 16, 16)
    assert found.bound_by == "launch"
    assert found.time_us < 2 * H200.launch_us


def test_arithmetic_binds_where_there_is_much_of_it() -> None:
    found = predict(H200, work(1 << 17), used(float=12000, move=8000), 512 * MIB, 512 * MIB)
    assert (found.bound_by, found.busiest) == ("compute", "issue")
    special = predict(H200, work(1 << 17), used(special=2000, float=100), 512 * MIB, 512 * MIB)
    assert (special.bound_by, special.busiest) == ("compute", "special")


def test_integers_run_at_half_rate() -> None:
    floats = predict(H200, work(1 << 17), used(float=10000), MIB, MIB)
    integers = predict(H200, work(1 << 17), used(integer=10000), MIB, MIB)
    assert integers.compute_us == pytest.approx(2 * floats.compute_us, rel=0.01)


def test_spills_are_paid_for_by_the_byte() -> None:
    clean, spilling = (predict(H200, work(1 << 17), used(spilled=s), 512 * MIB, 512 * MIB) for s in (0, 64))
    assert clean.spill_us == 0
    assert spilling.spill_us == pytest.approx((1 << 17) * 128 * 128 / H200.l2_bytes_per_s * 1e6)
    assert spilling.time_us > clean.time_us


def test_few_resident_programs_do_not_fill_the_memory() -> None:
    many = predict(H200, work(), used(regs=32), 64 * MIB, 64 * MIB)
    few = predict(H200, work(), used(regs=255, warps=8), 64 * MIB, 64 * MIB)
    assert few.residency.blocks_per_sm < many.residency.blocks_per_sm
    assert few.serial_us > many.serial_us


def test_instructions_of_a_loop_count_once_a_turn() -> None:
    loop = Section({"float": 100}, load_bytes=64)
    once = replace(used(float=1), loops=(loop,))
    # each of 128 threads loads 64 bytes a turn
    turns = [work(1 << 15, 0, 4096, (Turn(n, 8192, 0),)) for n in (8, 16)]
    eight, sixteen = (predict(H200, w, once, 64 * MIB, 64 * MIB).compute_us for w in turns)
    assert sixteen / eight == pytest.approx(2, rel=0.02)


def test_an_unrolled_loop_runs_its_code_fewer_times() -> None:
    plain = replace(used(float=1), loops=(Section({"float": 100}, load_bytes=64),))
    unrolled = replace(used(float=1), loops=(Section({"float": 400}, load_bytes=256),))
    loops = work(1 << 15, 0, 4096, (Turn(16, 8192, 0),))
    a, b = (predict(H200, loops, u, 64 * MIB, 64 * MIB).compute_us for u in (plain, unrolled))
    assert a == pytest.approx(b)


def test_rows_that_the_cache_cannot_keep_are_read_again() -> None:
    def twice(programs: int, row: int, blocks_regs: int) -> float:
        passes = (Turn(row / 8192, 8192, 0), Turn(row / 8192, 8192, 0))
        code = Section({"float": 100}, load_bytes=64)
        kernel = replace(used(regs=blocks_regs, warps=4), loops=(code, code))
        return predict(H200, work(programs, 0, 0, passes), kernel, programs * row, programs * row).memory_us

    small, large = twice(4096, 32768, 64), twice(1024, 4 * 32768, 64)  # the same bytes in all
    assert large > 1.2 * small


def test_code_that_the_instruction_cache_does_not_hold_is_fetched() -> None:
    def kernel(instructions: int) -> Resources:
        return replace(used(float=instructions), instructions={"float": instructions})

    short, long = (predict(H200, work(1 << 17), kernel(n), MIB, MIB) for n in (5000, 15000))
    assert short.busiest != "fetch" == long.busiest
    assert long.compute_us > 6 * short.compute_us


def test_vectors_that_the_first_level_cache_does_not_keep_come_from_the_next() -> None:
    def memory_us(near: float, regs: int = 32, shared: int = 0) -> float:
        kernel = used(regs, shared=shared)
        return predict(H200, replace(work(), near_bytes=near, near_asked_bytes=near), kernel, MIB, MIB).memory_us

    assert memory_us(64 * 1024) == memory_us(0)
    assert memory_us(512 * 1024) > 2 * memory_us(0)
    assert memory_us(64 * 1024, shared=48 * 1024) > memory_us(0, shared=48 * 1024)


def test_a_loop_that_the_assembler_unrolled_waits_for_memory_once() -> None:
    passes = (Turn(8, 8192, 0), Turn(8, 8192, 0))
    code = Section({"float": 100}, load_bytes=16)
    walked = replace(used(regs=128, warps=16), instructions={"float": 200}, loops=(code, code))
    unrolled = replace(walked, loops=())
    slow, fast = (
        predict(H200, work(2048, 0, 0, passes), k, 128 * MIB, 128 * MIB).serial_us for k in (walked, unrolled)
    )
    assert fast < 0.5 * slow


def recorded(code: dict[str, Any]) -> tuple[Work, Resources]:
    """A kernel of the results file."""
    turns = {"straight": Turn(**code["work"]["straight"]), "loops": tuple(Turn(**t) for t in code["work"]["loops"])}
    parts = {
        "straight": Section(**code["used"]["straight"]),
        "loops": tuple(Section(**s) for s in code["used"]["loops"]),
    }
    return Work(**{"read_share": {}} | code["work"] | turns), Resources(**code["used"] | parts)


def test_measured_kernels_are_predicted() -> None:
    rate = Figure(MEASURED["copy_bytes_per_s"], "calibrated", "results")
    gpu = load_gpu(MEASURED["gpu"]).with_figures({"copy_bytes_per_s": rate})
    errors: dict[str, list[float]] = {"profiler": [], "events": []}
    for row in MEASURED["rows"]:
        if "code" not in row or row["measured_us"] < 15:  # of shorter ones the clock measures the launch
            continue
        code = MEASURED["codes"][row["code"]]
        found = predict(gpu, *recorded(code), code["read_bytes"], code["write_bytes"])
        measured_us = row["measured_us"] - (_EVENT_US if row["clock"] == "events" else 0)
        error = abs((found.time_us - gpu.launch_us) / measured_us - 1)
        errors[row["clock"]].append(error)
        if row["program"] in ("wide_dag", "wide_epilogue"):
            assert error < 0.15, (row["program"], row["kernel"], found)
    assert median(errors["profiler"]) < 0.05 and percentile(errors["profiler"], 0.9) < 0.1
    assert median(errors["events"]) < 0.06 and percentile(errors["events"], 0.9) < 0.25
    assert min(map(len, errors.values())) > 25


@given(
    programs=st.integers(1, 1 << 18),
    regs=st.integers(16, 255),
    warps=st.sampled_from([1, 2, 4, 8, 16]),
    instructions=st.integers(1, 5000),
)
def test_more_work_never_takes_less_time(programs: int, regs: int, warps: int, instructions: int) -> None:
    kernel = used(min(regs, 65536 // (32 * warps)), warps, float=instructions)
    here = time_us(work(programs), kernel)
    assert time_us(work(programs), replace(kernel, straight=Section({"float": instructions * 2}))) >= here
    assert time_us(work(programs), kernel, moved=programs * 8192) >= time_us(work(programs), kernel)
    assert here >= H200.launch_us
