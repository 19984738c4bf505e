"""Least times: each against the arithmetic written out, and the laws that any of them must keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusewise.device import Figure, floor_us, load_gpu, matmul_flops_per_s, probe_cpu, stream_bytes_per_s
from fusewise.device.roofline import (
    bytes_in_flight,
    fma_us,
    int_us,
    issue_us,
    l2_us,
    memory_us,
    saturating_bytes,
    special_us,
    tail_factor,
    waves,
)
from fusewise.errors import NotCalibrated, UsageError

H200 = load_gpu("h200")
COPY = Figure(4.25e12, "calibrated", "measured here")
MEASURED = H200.with_figures({"copy_bytes_per_s": COPY, "matmul_flops_per_s": Figure(7e14, "calibrated", "x")})
amounts = st.floats(0, 1e15)


def test_floor_is_the_largest_of_three() -> None:
    memory = floor_us(4.8e9, 0, H200)
    assert (memory.time_us, memory.bound_by) == (pytest.approx(1000), "memory")
    assert memory.figure.source == "datasheet"
    compute = floor_us(4.8e9, 989.4e12, H200)
    assert (compute.time_us, compute.bound_by) == (pytest.approx(1e6), "compute")
    launch = floor_us(1000, 1000, H200)
    assert (launch.time_us, launch.bound_by) == (H200.launch_us, "launch")
    assert launch.figure.source == "modelled"


def test_measured_rates_go_before_peaks() -> None:
    assert stream_bytes_per_s(H200).value == 4.8e12
    assert stream_bytes_per_s(MEASURED) == COPY
    assert matmul_flops_per_s(MEASURED).value == 7e14
    floor = floor_us(4.25e9, 0, MEASURED)
    assert (floor.time_us, floor.figure) == (pytest.approx(1000), COPY)


def test_a_cpu_needs_its_copy_rate_measured() -> None:
    cpu = probe_cpu()
    with pytest.raises(NotCalibrated, match="fusewise device calibrate"):
        floor_us(1e9, 0, cpu)
    measured = cpu.with_figures({"copy_bytes_per_s": Figure(2e10, "calibrated", "here")})
    assert floor_us(2e10, 0, measured).time_us == pytest.approx(1e6)
    assert matmul_flops_per_s(measured) == cpu.figures.fp32_flops_per_s


def test_memory_time_with_too_little_in_flight() -> None:
    full = saturating_bytes(H200)
    assert full == pytest.approx(4.8e12 * H200.dram_latency_s)
    assert memory_us(4.8e9, full, H200) == pytest.approx(1000)
    assert memory_us(4.8e9, 10 * full, H200) == pytest.approx(1000)
    assert memory_us(4.8e9, full / 4, H200) == pytest.approx(4000)
    assert memory_us(0, 0, H200) == 0
    with pytest.raises(UsageError, match="in_flight_bytes is 0"):
        memory_us(1, 0, H200)


def test_bytes_in_flight() -> None:
    # 132 SMs, 16 warps each, one 16-byte load a thread
    assert bytes_in_flight(132, 16, 16) == 132 * 16 * 32 * 16
    assert bytes_in_flight(304, 8, 16, warp_size=64) == 304 * 8 * 64 * 16


@given(st.floats(1, 1e12), st.floats(1, 1e8), st.floats(1, 1e8))
def test_more_in_flight_is_never_slower(moved: float, one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert memory_us(moved, more, H200) <= memory_us(moved, less, H200)
    assert memory_us(moved, more, H200) >= moved / 4.8e12 * 1e6 * (1 - 1e-12)


def test_arithmetic_by_hand() -> None:
    cycles_per_us = 132 * 1980
    assert issue_us(128 * cycles_per_us, H200) == pytest.approx(1)
    assert int_us(64 * cycles_per_us, 0, H200) == pytest.approx(1)
    assert int_us(32 * cycles_per_us, 32 * cycles_per_us, H200) == pytest.approx(1)
    assert special_us(16 * cycles_per_us, H200) == pytest.approx(1)
    assert fma_us(66.9e12 / 2, H200) == pytest.approx(1e6)
    assert l2_us(H200.l2_bytes_per_s, H200) == pytest.approx(1e6)


def test_row_kernels_bind_on_issue_slots_near_36_instructions() -> None:
    """A bf16 row kernel moves 4 bytes an element: at the copy rate 32 to 40 instructions take as long."""
    elements = 16384 * 4096
    balance = memory_us(4 * elements, 1e9, MEASURED) / issue_us(elements, MEASURED)
    assert 30 < balance < 40


@given(amounts, amounts)
def test_times_add_up(one: float, other: float) -> None:
    for time in (issue_us, fma_us, special_us, l2_us):
        assert time(one, H200) + time(other, H200) == pytest.approx(time(one + other, H200))


def test_tail_of_the_last_wave() -> None:
    assert waves(264, 2, H200) == 1
    assert tail_factor(264, 2, H200) == 1
    assert tail_factor(265, 2, H200) == pytest.approx(2 * 264 / 265)
    assert tail_factor(132, 2, H200) == 2
    assert tail_factor(0, 2, H200) == 1
    with pytest.raises(UsageError, match="one resident block"):
        waves(10, 0, H200)


@pytest.mark.parametrize("amount", [-1.0, float("nan")])
def test_impossible_amounts_are_named(amount: float) -> None:
    with pytest.raises(UsageError, match="dram_bytes is"):
        floor_us(amount, 0, H200)
    with pytest.raises(UsageError, match="flops is"):
        floor_us(0, amount, H200)
    with pytest.raises(UsageError, match="operations is"):
        issue_us(amount, H200)
