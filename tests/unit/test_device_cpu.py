"""The CPU probe, on this machine and on machines made of files."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest

from fusewise.device.cpu import CPU_SPECS, CpuFigures, CpuModel, probe_cpu
from fusewise.device.cpu_rates import RATE_SPECS
from fusewise.device.figures import Figure
from fusewise.errors import UnknownName, UsageError

X86 = "fpu sse2 avx2 fma avx512f avx512vl avx512bw avx512dq"


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def machine(root: Path, flags: str = X86, *, field: str = "flags") -> Path:
    """Two cores of two threads each, three cache levels."""
    write(root, "proc/cpuinfo", f"processor : 0\nmodel name : Test 9000\ncpu MHz : 2600.5\n{field} : {flags}\n")
    write(root, "proc/meminfo", "MemTotal:       1024 kB\nMemFree:  1 kB\n")
    for cpu in range(4):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        write(root, f"{folder}/topology/core_id", f"{cpu // 2}\n")
        write(root, f"{folder}/topology/physical_package_id", "0\n")
        caches = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"), ("3", "Unified", "1G")]
        for index, (level, kind, size) in enumerate(caches):
            for name, value in (("level", level), ("type", kind), ("size", size), ("coherency_line_size", "128")):
                write(root, f"{folder}/cache/index{index}/{name}", f"{value}\n")
    return root


def test_this_machine_has_sound_figures() -> None:
    cpu = probe_cpu()
    assert cpu.name == "cpu"
    assert cpu.title
    for key, figure in cpu.known_figures().items():
        assert CPU_SPECS[key].problem(figure.value) is None, key
        assert figure.source in ("probed", "modelled") or key == "vector_registers", key
    assert cpu.cores <= cpu.threads
    if hasattr(os, "sched_getaffinity"):
        assert cpu.threads == len(os.sched_getaffinity(0))


def test_files_of_the_kernel_are_read(tmp_path: Path) -> None:
    cpu = probe_cpu(machine(tmp_path), range(4))
    assert (cpu.title, cpu.isa, cpu.vector_bits) == ("Test 9000", "avx512", 512)
    assert (cpu.cores, cpu.threads) == (2, 4)
    assert (cpu.l1d_bytes, cpu.l2_bytes, cpu.l3_bytes) == (48 * 1024, 2 * 1024**2, 1024**3)
    assert cpu.figure("line_bytes").value == 128
    assert cpu.dram_bytes == 1024 * 1024
    assert cpu.clock_hz == 2600.5e6
    # 2 cores x 16 lanes x 2 multiply-adds x 2 operations
    assert cpu.fp32_flops_per_s == pytest.approx(2 * 16 * 4 * 2600.5e6)
    assert {key for key, figure in cpu.known_figures().items() if figure.source == "modelled"} == {
        "fp32_flops_per_s",
        "launch_us",
        *RATE_SPECS.keys() - {"vector_registers"},
    }


def test_only_threads_that_may_be_used_count(tmp_path: Path) -> None:
    cpu = probe_cpu(machine(tmp_path), [0, 1])
    assert (cpu.cores, cpu.threads) == (1, 2)


def test_highest_clock_wins_over_that_of_the_moment(tmp_path: Path) -> None:
    write(machine(tmp_path), "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3900000\n")
    assert probe_cpu(tmp_path, [0]).clock_hz == 3.9e9


@pytest.mark.parametrize(
    ("flags", "field", "isa", "bits"),
    [
        (X86, "flags", "avx512", 512),
        ("sse2 avx2 fma avx512f", "flags", "avx2", 256),  # without vl, bw and dq PyTorch stays at AVX2
        ("sse2 avx", "flags", "default", 128),
        ("fp asimd sve", "Features", "neon", 128),
    ],
)
def test_vectors(flags: str, field: str, isa: str, bits: int, tmp_path: Path) -> None:
    cpu = probe_cpu(machine(tmp_path, flags, field=field), [0])
    assert (cpu.isa, cpu.vector_bits) == (isa, bits)
    assert cpu.figure("vector_bits").source == "probed"


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    cpu = probe_cpu(tmp_path, [0, 1, 2])
    assert (cpu.cores, cpu.threads) == (3, 3)
    for key in ("cores", "clock_mhz", "vector_bits", "l1d_bytes", "l2_bytes", "l3_bytes", "line_bytes"):
        assert cpu.figure(key).source == "modelled", key
    for key, figure in cpu.known_figures().items():
        assert CPU_SPECS[key].problem(figure.value) is None, key


def test_nonsense_in_the_files_is_passed_over(tmp_path: Path) -> None:
    root = machine(tmp_path)
    write(root, "proc/cpuinfo", "cpu MHz : fast\nflags :\n\nno colon\n")
    write(root, "proc/meminfo", "MemTotal: lots kB\n")
    write(root, "sys/devices/system/cpu/cpu0/cache/index0/size", "big\n")
    write(root, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "0\n")
    cpu = probe_cpu(root, [0])
    assert cpu.figure("clock_mhz").source == "modelled"
    assert cpu.figure("l1d_bytes").source == "modelled"
    assert cpu.l2_bytes == 2 * 1024**2


def test_a_processor_without_level_three(tmp_path: Path) -> None:
    root = machine(tmp_path)
    write(root, "sys/devices/system/cpu/cpu0/cache/index3/size", "")
    cpu = probe_cpu(root, [0])
    assert (cpu.l3_bytes, cpu.figure("l3_bytes").source) == (0, "probed")


def test_measured_figures_exist_once_measured(tmp_path: Path) -> None:
    cpu: CpuModel = probe_cpu(machine(tmp_path), [0])
    with pytest.raises(UsageError, match="copy_bytes_per_s of this CPU has not been measured"):
        cpu.figure("copy_bytes_per_s")
    measured = cpu.with_figures({"copy_bytes_per_s": Figure(2e10, "calibrated", "here")})
    assert measured.figure("copy_bytes_per_s").value == 2e10
    with pytest.raises(UnknownName, match="copy_bytes_per_s"):
        cpu.figure("copy_bytes")


def test_specs_cover_the_fields() -> None:
    assert {field.name for field in fields(CpuFigures)} == set(CPU_SPECS)
