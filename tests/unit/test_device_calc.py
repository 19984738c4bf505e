"""The hand calculation: the numbers of the examples, and what the parser of sizes takes and refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusewise.device import Figure, calc_end_to_end, calc_fusion, load_gpu, parse_bytes, probe_cpu
from fusewise.errors import NotCalibrated, UsageError

A100 = load_gpu("a100")


def test_three_kernels_over_a_gigabyte() -> None:
    found = calc_fusion(parse_bytes("1GB"), 3, A100)
    assert (found.naive_bytes, found.fused_bytes, found.cap) == (6_000_000_000, 2_000_000_000, 3.0)
    assert found.at_peak is not None
    assert found.at_peak.rate.source == "datasheet"
    assert found.at_peak.naive_ms == pytest.approx(6e9 / 2.039e12 * 1e3)
    assert found.at_peak.fused_ms == pytest.approx(2e9 / 2.039e12 * 1e3)
    assert found.at_copy_rate is None


def test_add_and_multiply_of_three_inputs() -> None:
    found = calc_fusion(1000, 2, A100, inputs=3)
    assert (found.naive_bytes, found.fused_bytes, found.cap) == (6000, 4000, 1.5)


def test_bounds_at_the_measured_copy_rate() -> None:
    measured = A100.with_figures({"copy_bytes_per_s": Figure(1.8e12, "calibrated", "here")})
    found = calc_fusion(10**9, 3, measured)
    assert found.at_copy_rate is not None
    assert found.at_copy_rate.naive_ms == pytest.approx(6e9 / 1.8e12 * 1e3)
    assert found.at_peak is not None
    assert found.at_peak.rate.value == 2.039e12


def test_a_cpu_has_a_bound_once_measured() -> None:
    cpu = probe_cpu()
    with pytest.raises(NotCalibrated):
        calc_fusion(10**9, 3, cpu)
    found = calc_fusion(10**9, 3, cpu.with_figures({"copy_bytes_per_s": Figure(2e10, "calibrated", "here")}))
    assert found.at_peak is None
    assert found.at_copy_rate is not None
    assert found.at_copy_rate.fused_ms == pytest.approx(100)


@given(st.integers(1, 10**12), st.integers(1, 100), st.integers(1, 100))
def test_fusion_never_moves_more(tensor_bytes: int, kernels: int, inputs: int) -> None:
    found = calc_fusion(tensor_bytes, kernels, A100, inputs)
    assert 1 <= found.cap <= kernels
    assert (found.cap == 1) == (kernels == 1)


@pytest.mark.parametrize(
    ("arguments", "named"), [((0, 3), "tensor_bytes is 0"), ((1, 0), "kernels is 0"), ((1, 1, 0), "inputs is 0")]
)
def test_amounts_below_one_are_named(arguments: tuple[int, ...], named: str) -> None:
    tensor_bytes, kernels, *inputs = arguments
    with pytest.raises(UsageError, match=named):
        calc_fusion(tensor_bytes, kernels, A100, *inputs)


def test_end_to_end() -> None:
    found = calc_end_to_end(0.334, 3.6)
    assert found.speedup == pytest.approx(1 / (1 - 0.334 + 0.334 / 3.6))
    assert found.limit == pytest.approx(1 / 0.666)
    assert calc_end_to_end(0, 10).speedup == 1
    assert calc_end_to_end(1, 10).speedup == pytest.approx(10)
    assert calc_end_to_end(1, 10).limit is None


@given(st.floats(0, 0.999), st.floats(1, 1e6))
def test_end_to_end_stays_below_its_limit(share: float, speedup: float) -> None:
    found = calc_end_to_end(share, speedup)
    assert found.limit is not None
    assert 1 - 1e-9 <= found.speedup <= min(found.limit, speedup) + 1e-6


@pytest.mark.parametrize(
    ("share", "speedup", "named"),
    [(33.4, 3.6, "share is 33.4"), (-0.1, 2, "share is -0.1"), (0.5, 0, "speedup is 0"), (0.5, -1, "speedup is -1")],
)
def test_impossible_shares_are_named(share: float, speedup: float, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        calc_end_to_end(share, speedup)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GB", 10**9),
        ("1gb", 10**9),
        (" 1.5 GiB ", 3 * 2**29),
        ("512MB", 512 * 10**6),
        ("64MiB", 64 * 2**20),
        ("8kB", 8000),
        ("8KiB", 8192),
        ("2TB", 2 * 10**12),
        ("1TiB", 2**40),
        ("4096", 4096),
        ("4096B", 4096),
        ("0.1GB", 10**8),  # exact, though 0.1 is not a binary fraction
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "1 G", "1G", "-1GB", "1e9", "1,5GB", "1GB/s", "١GB", "nan", "0x10"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["0", "0GB", "1.5B", "0.0001KB"])
def test_sizes_that_are_no_whole_bytes(text: str) -> None:
    with pytest.raises(UsageError, match="is not a whole number of bytes above 0"):
        parse_bytes(text)


def test_neither_torch_nor_triton_is_imported() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['triton'] = sys.modules['numpy'] = None;"
        "from fusewise.device import calc_fusion, load; print(calc_fusion(10**9, 3, load('a100')).cap)"
    )
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False)
    assert done.stdout == "3.0\n", done.stderr
