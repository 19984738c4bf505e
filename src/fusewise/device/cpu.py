"""A model of this machine's processor, read from the operating system at run time.

Linux tells everything through /proc and /sys. Where a file is missing, and on other systems, a figure falls
back to a typical value and is marked as modelled.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from fusewise.device.cpu_rates import RATE_SPECS, modelled_rates
from fusewise.device.figures import Figure, FigureSpec
from fusewise.errors import UnknownName, UsageError

_AVX512 = frozenset({"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"})


@dataclass(frozen=True, slots=True)
class CpuFigures:
    """The figures of one processor; `CPU_SPECS` says what each means. The last three must be measured."""

    cores: Figure
    threads: Figure
    clock_mhz: Figure
    vector_bits: Figure
    l1d_bytes: Figure
    l2_bytes: Figure
    l3_bytes: Figure
    line_bytes: Figure
    dram_bytes: Figure
    fp32_flops_per_s: Figure
    launch_us: Figure
    vector_registers: Figure
    l1_bytes_per_cycle: Figure
    l2_bytes_per_cycle: Figure
    l3_bytes_per_cycle: Figure
    core_bytes_per_s: Figure
    call_us: Figure
    plain_cycles: Figure
    division_cycles: Figure
    transcendental_cycles: Figure
    conversion_cycles: Figure
    gather_cycles: Figure
    random_cycles: Figure
    copy_bytes_per_s: Figure | None = None
    matmul_flops_per_s: Figure | None = None
    dram_latency_ns: Figure | None = None


CPU_SPECS = {
    "cores": FigureSpec("physical cores that this process may use", 1, 65536, whole=True),
    "threads": FigureSpec("hardware threads that this process may use", 1, 65536, whole=True),
    "clock_mhz": FigureSpec("clock in MHz", 10, 20_000),
    "vector_bits": FigureSpec("bits of a vector register", 32, 65536, whole=True),
    "l1d_bytes": FigureSpec("bytes of one core's level-1 data cache", 1024, 1e9, whole=True),
    "l2_bytes": FigureSpec("bytes of one level-2 cache", 0, 1e10, whole=True),
    "l3_bytes": FigureSpec("bytes of one level-3 cache, 0 for none", 0, 1e11, whole=True),
    "line_bytes": FigureSpec("bytes of a cache line", 8, 4096, whole=True),
    "dram_bytes": FigureSpec("bytes of main memory", 1e6, 1e16, whole=True),
    "fp32_flops_per_s": FigureSpec("peak fp32 operations a second of all cores", 1e6, 1e17),
    "launch_us": FigureSpec("microseconds to start and join a parallel loop", 0.001, 10_000),
    **RATE_SPECS,
    "copy_bytes_per_s": FigureSpec("measured bytes a second, read and written, of a copy", 1e6, 1e15, required=False),
    "matmul_flops_per_s": FigureSpec("measured fp32 operations a second of a matmul", 1e6, 1e17, required=False),
    "dram_latency_ns": FigureSpec(
        "measured nanoseconds of a load from memory that waits for the one before", 1, 100_000, required=False
    ),
}


@dataclass(frozen=True, slots=True)
class CpuModel:
    """This machine's processor: its figures, each with its source.

    Attributes:
        name: "cpu".
        title: the processor's own name.
        isa: widest vector instructions: "avx512", "avx2", "neon" or "default".
        figures: the figures.
    """

    name: str
    title: str
    isa: str
    figures: CpuFigures

    @property
    def calibration_key(self) -> str:
        """Under this name the calibrated figures are stored; a home folder may serve several machines."""
        return f"cpu: {self.title}, {self.threads} threads"

    def figure(self, key: str) -> Figure:
        """A figure; unknown and unmeasured ones raise `UsageError`."""
        if key not in CPU_SPECS:
            raise UnknownName("figure", key, CPU_SPECS)
        found: Figure | None = getattr(self.figures, key)
        if found is None:
            raise UsageError(f"{key} of this CPU has not been measured.", "Run: fusewise device calibrate")
        return found

    def known_figures(self) -> dict[str, Figure]:
        """Every figure that is known."""
        all_figures = {key: getattr(self.figures, key) for key in CPU_SPECS}
        return {key: figure for key, figure in all_figures.items() if figure is not None}

    def with_figures(self, measured: Mapping[str, Figure]) -> Self:
        """The same device with some figures replaced."""
        return replace(self, figures=replace(self.figures, **measured))

    @property
    def cores(self) -> int:
        """Physical cores that this process may use."""
        return int(self.figures.cores.value)

    @property
    def threads(self) -> int:
        """Hardware threads that this process may use."""
        return int(self.figures.threads.value)

    @property
    def clock_hz(self) -> float:
        """Clock, in cycles a second."""
        return self.figures.clock_mhz.value * 1e6

    @property
    def vector_bits(self) -> int:
        """Bits of a vector register."""
        return int(self.figures.vector_bits.value)

    @property
    def l1d_bytes(self) -> int:
        """Bytes of one core's level-1 data cache."""
        return int(self.figures.l1d_bytes.value)

    @property
    def l2_bytes(self) -> int:
        """Bytes of one level-2 cache."""
        return int(self.figures.l2_bytes.value)

    @property
    def l3_bytes(self) -> int:
        """Bytes of one level-3 cache."""
        return int(self.figures.l3_bytes.value)

    @property
    def dram_bytes(self) -> int:
        """Bytes of main memory."""
        return int(self.figures.dram_bytes.value)

    @property
    def fp32_flops_per_s(self) -> float:
        """Peak fp32 rate of all cores."""
        return self.figures.fp32_flops_per_s.value

    @property
    def launch_us(self) -> float:
        """Time to start and join a parallel loop."""
        return self.figures.launch_us.value


def probe_cpu(root: Path = Path("/"), cpus: Iterable[int] | None = None) -> CpuModel:
    """The processor as the operating system describes it now; never fails.

    Args:
        root: folder that holds `proc` and `sys`.
        cpus: numbers of the hardware threads to count; default: those that this process may run on.
    """
    usable = sorted(_usable_cpus() if cpus is None else cpus)
    info = _cpuinfo(root / "proc/cpuinfo")
    isa, vector_bits = _vectors(info)
    cores = _cores(root, usable)
    clock_mhz = _clock(root, usable, info)
    caches = _caches(root / f"sys/devices/system/cpu/cpu{usable[0]}/cache")
    line_bytes = caches.get("line_bytes") or Figure(64, "modelled", "typical")
    flops = cores.value * clock_mhz.value * 1e6 * vector_bits.value / 32 * 4
    return CpuModel(
        name="cpu",
        title=info.get("model name") or platform.processor() or platform.machine() or "unknown CPU",
        isa=isa,
        figures=CpuFigures(
            cores=cores,
            threads=Figure(len(usable), "probed", "threads that this process may run on"),
            clock_mhz=clock_mhz,
            vector_bits=vector_bits,
            l1d_bytes=caches.get("l1d_bytes") or Figure(32 * 1024, "modelled", "typical"),
            l2_bytes=caches.get("l2_bytes") or Figure(1024 * 1024, "modelled", "typical"),
            l3_bytes=caches.get("l3_bytes") or _l3_fallback(caches),
            line_bytes=line_bytes,
            dram_bytes=_dram(root / "proc/meminfo"),
            fp32_flops_per_s=Figure(flops, "modelled", "cores x clock x vector lanes x 2 fused multiply-adds a clock"),
            launch_us=Figure(5.0, "modelled", "typical time to start and join an OpenMP loop"),
            **modelled_rates(isa, int(vector_bits.value), int(line_bytes.value)),
        ),
    )


def figures_document(cpu: CpuModel) -> dict[str, str | float]:
    """`isa` and every known figure by name, for a results file."""
    return {"isa": cpu.isa, **{key: figure.value for key, figure in cpu.known_figures().items()}}


def cpu_of_document(title: str, document: Mapping[str, str | float], doc: str) -> CpuModel:
    """The processor that `figures_document` described; `doc` says where the document lies.

    Raises:
        UsageError: a figure is missing, impossible or unknown.
    """
    found: dict[str, Figure] = {}
    for key, value in document.items():
        spec = CPU_SPECS.get(key)
        problem = None if key == "isa" else spec.problem(value) if spec else "is not a figure of a CPU"
        if problem:
            raise UsageError(f"{doc}: {key} {problem}.", "Write the file again with: fusewise bench --device cpu")
        if key != "isa":
            found[key] = Figure(float(value), "probed", doc)
    missing = [key for key, spec in CPU_SPECS.items() if spec.required and key not in found]
    if missing or "isa" not in document:
        raise UsageError(
            f"{doc}: {', '.join(missing) or 'isa'} is missing.",
            "Write the file again with: fusewise bench --device cpu",
        )
    return CpuModel("cpu", title, str(document["isa"]), CpuFigures(**found))


def _usable_cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _text(file: Path) -> str:
    """Contents of a file of the kernel, or nothing where there is none."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _cpuinfo(file: Path) -> dict[str, str]:
    """The first processor's entries of /proc/cpuinfo."""
    entries: dict[str, str] = {}
    for line in _text(file).splitlines():
        key, colon, value = line.partition(":")
        if colon:
            entries.setdefault(key.strip(), value.strip())
    return entries


def _vectors(info: dict[str, str]) -> tuple[str, Figure]:
    flags = frozenset((info.get("flags") or info.get("Features") or "").split())
    if flags:
        for isa, needed, bits in (
            ("avx512", _AVX512, 512),
            ("avx2", frozenset({"avx2", "fma"}), 256),
            ("neon", frozenset({"asimd"}), 128),
        ):
            if needed <= flags:
                return isa, Figure(bits, "probed", "flags of /proc/cpuinfo")
        return "default", Figure(128, "probed", "flags of /proc/cpuinfo")
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "neon", Figure(128, "modelled", "every 64-bit Arm processor has 128-bit vectors")
    return "default", Figure(128, "modelled", "typical")


def _cores(root: Path, usable: list[int]) -> Figure:
    found = set()
    for cpu in usable:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        core = (_text(topology / "physical_package_id"), _text(topology / "core_id"))
        if not core[1]:
            return Figure(len(usable), "modelled", "one core a hardware thread")
        found.add(core)
    return Figure(len(found), "probed", "/sys/devices/system/cpu/*/topology")


def _clock(root: Path, usable: list[int], info: dict[str, str]) -> Figure:
    khz = _text(root / f"sys/devices/system/cpu/cpu{usable[0]}/cpufreq/cpuinfo_max_freq")
    if khz.isdigit() and int(khz) > 0:
        return Figure(int(khz) / 1000, "probed", "cpuinfo_max_freq")
    try:
        mhz = float(info.get("cpu MHz", ""))
    except ValueError:
        mhz = 0.0
    if mhz > 0:
        return Figure(mhz, "probed", "/proc/cpuinfo, the clock of this moment")
    return Figure(2500.0, "modelled", "typical")


def _caches(folder: Path) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for index in sorted(folder.glob("index*")):
        kind = _text(index / "type")
        level = _text(index / "level")
        size = _size(_text(index / "size"))
        key = "l1d_bytes" if level == "1" else f"l{level}_bytes"
        if size and kind in ("Data", "Unified") and level in ("1", "2", "3"):
            found[key] = Figure(size, "probed", "/sys/devices/system/cpu/*/cache")
        line = _text(index / "coherency_line_size")
        if line.isdigit() and int(line) > 0:
            found.setdefault("line_bytes", Figure(int(line), "probed", "/sys/devices/system/cpu/*/cache"))
    return found


def _l3_fallback(caches: dict[str, Figure]) -> Figure:
    if "l2_bytes" in caches:
        return Figure(0, "probed", "no level-3 cache in /sys/devices/system/cpu/*/cache")
    return Figure(8 * 1024 * 1024, "modelled", "typical")


def _size(text: str) -> int:
    """Bytes of a size such as 48K or 32M; 0 where it is not one."""
    unit = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * unit if digits.isdigit() else 0


def _dram(meminfo: Path) -> Figure:
    for line in _text(meminfo).splitlines():
        words = line.split()
        if words[:1] == ["MemTotal:"] and len(words) > 1 and words[1].isdigit():
            return Figure(int(words[1]) * 1024, "probed", "MemTotal of /proc/meminfo")
    try:
        pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return Figure(8 * 1024**3, "modelled", "typical")
    return Figure(pages * page_bytes, "probed", "physical pages x page size")
