"""Predicted time of one CPU kernel from what it does (`CpuWork`) and the processor's figures.

    t = launch + overlap(t_memory, t_vector + t_registers) x imbalance

t_memory: bytes / copy rate of the nearest level that holds all that the kernel touches: level 2 or 3, else main memory.
    What is known to lie nowhere else (`cold_bytes`), and pages that the system must clear first, are main memory's.
t_vector: instructions of each class x cycles of one / cores. A vector of b bytes an element takes b / 4 registers.
t_registers: values alive at once beyond the vector registers, each stored and loaded again: level-1 traffic.
imbalance: pieces of the core that gets most / mean.
launch: a call, and start and end of a parallel loop where the kernel is shared between cores.
overlap: the cubic norm, as for a GPU: both hide each other in part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fusewise.device.cpu import CpuModel
from fusewise.device.roofline import stream_bytes_per_s
from fusewise.ir.dtypes import DType

CLASSES = ("plain", "division", "transcendental", "conversion", "gather", "random")
"""Classes of instructions; the cycles of each are the figure of its name (`device.cpu_rates`)."""

FRESH_BYTES = 32 << 20
"""A tensor from this size on comes from the system at each allocation, and its pages are cleared when they are first
written to: glibc, mallopt(3), DEFAULT_MMAP_THRESHOLD_MAX."""

_OVERLAP = 3.0
_KEPT_OF_CACHE = 0.75  # of a cache holds a kernel's own data: the rest is stacks, code and conflicts
_LANE_BYTES = 4  # the classes' cycles are those of 4-byte lanes

# op -> (class, how many of its unit). One of `transcendental` is an exp. SLEEF's functions against it, and the rest by
# the instructions of codegen/cpu/ops.h and math.h.
_OPS: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("copy", "bitcast", "const", "size", "guard"), ("plain", 0.0)),
    **dict.fromkeys(("iota", "neg", "abs", "not"), ("plain", 1.0)),
    **dict.fromkeys(("pad", "cat"), ("plain", 2.0)),
    **dict.fromkeys(("minimum", "maximum", "max", "min"), ("plain", 2.0)),  # a NaN is kept
    **dict.fromkeys(("argmax", "argmin"), ("plain", 5.0)),
    **dict.fromkeys(("div", "sqrt"), ("division", 1.0)),
    "rsqrt": ("division", 2.0),
    **dict.fromkeys(("truncdiv", "floordiv", "truncrem"), ("division", 8.0)),  # lane by lane
    "fmod": ("division", 8.0),
    **dict.fromkeys(("exp", "exp2"), ("transcendental", 1.0)),
    **dict.fromkeys(("log", "log2", "log10"), ("transcendental", 1.5)),
    **dict.fromkeys(("tanh", "erf"), ("transcendental", 3.5)),
    **dict.fromkeys(("sin", "cos", "sinh", "cosh", "erfc"), ("transcendental", 6.0)),
    **dict.fromkeys(("expm1", "log1p", "tan", "asin", "acos", "atan", "atan2"), ("transcendental", 7.0)),
    **dict.fromkeys(("asinh", "acosh", "atanh"), ("transcendental", 9.0)),
    "pow": ("transcendental", 28.0),
    "gather": ("gather", 1.0),
    "keep": ("random", 1.0),
    "uniform": ("random", 2.0),  # 4 numbers a block of Philox beside 8 decisions
}
_WIDEN, _NARROW = 0.25, 1.75  # of a conversion: a shift, the load widens, against seven instructions that round


def class_of(op: str, target: DType, sources: Iterable[DType]) -> tuple[str, float]:
    """Class of an op of `ir.ops`, and how many of the class's unit an element takes (4-byte lanes).

    Args:
        target: type of the result.
        sources: types of the operands.
    """
    wide = max([target.bytes, _LANE_BYTES, *(s.bytes for s in sources)]) / _LANE_BYTES
    if op == "cast":
        if target.is_half:
            return "conversion", _NARROW * wide
        return ("conversion", _WIDEN) if any(s.is_half for s in sources) else ("plain", wide)
    kind, count = _OPS.get(op, ("plain", 1.0))
    return kind, count * wide


@dataclass(frozen=True, slots=True)
class CpuWork:
    """What one call of a kernel does, over all cores.

    Attributes:
        read_bytes, write_bytes: least bytes of memory, each once.
        lanes: 4-byte lanes that each class of instructions computes; loads and stores are plain ones.
        points: elements that the loops run over, for spills.
        live: 4-byte values of one element alive at once.
        across_calls: 4-byte values of one element that wait for a call of a function, once each; the platforms' calling
            conventions keep no vector register over a call.
        pieces: what is shared out between the cores, as many equal parts.
        threads: whether it is shared out.
        vectors: False for a kernel whose loops run element by element.
        fresh_bytes: of `write_bytes`, those whose pages the system clears first.
        touched_bytes: what stands in the caches beside each other; None: what the kernel reads and writes.
    """

    read_bytes: float
    write_bytes: float
    lanes: Mapping[str, float] = field(default_factory=dict)
    points: float = 0.0
    live: float = 0.0
    across_calls: float = 0.0
    pieces: float = 1.0
    threads: bool = True
    vectors: bool = True
    fresh_bytes: float = 0.0
    touched_bytes: float | None = None

    @property
    def moved_bytes(self) -> float:
        """Read and written."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class CpuPrediction:
    """Predicted time of one call, and its parts, in microseconds.

    Attributes:
        time_us: call to return.
        memory_us, vector_us, registers_us, launch_us: see the module; imbalance included.
        bound_by: `memory`, `vector issue`, `registers` or `launch`.
        level: what delivers its bytes: `L2`, `L3` or `DRAM`.
        busiest: the class of instructions that takes most of vector_us.
        cores: cores that share it.
        live_registers, vector_registers: most wanted at once, and those that there are.
        spill_bytes: stored and loaded again, of all cores.
        source: `modelled`.
    """

    time_us: float
    memory_us: float
    vector_us: float
    registers_us: float
    launch_us: float
    bound_by: str
    level: str
    busiest: str
    cores: int
    live_registers: int
    vector_registers: int
    spill_bytes: float
    source: str = "modelled"


def predict_cpu(cpu: CpuModel, work: CpuWork, cold_bytes: float = 0.0) -> CpuPrediction:
    """Predicted time of one call.

    Args:
        cpu: the processor, with a copy rate.
        work: what the call does.
        cold_bytes: of its bytes those that are in no cache, whatever their size.

    Raises:
        NotCalibrated: the copy rate is unknown.
    """
    cores = max(1, min(cpu.cores, math.ceil(work.pieces))) if work.threads else 1
    imbalance = math.ceil(work.pieces / cores) / (work.pieces / cores) if work.threads and work.pieces > 1 else 1.0
    touched = work.moved_bytes if work.touched_bytes is None else work.touched_bytes
    level, rate = _level(cpu, touched, cores)
    dram_rate = _dram_rate(cpu, cores)
    cold = min(cold_bytes, work.moved_bytes)
    warm = work.moved_bytes - cold
    memory_us = (warm / rate + (cold + work.fresh_bytes) / dram_rate) * 1e6 * imbalance
    lanes_a_vector = cpu.vector_bits / 8 / _LANE_BYTES if work.vectors else 1.0
    per_core_hz = cpu.clock_hz * cores
    cycles = {kind: lanes * _cycles(cpu, kind, lanes_a_vector) for kind, lanes in work.lanes.items()}
    vector_us = sum(cycles.values()) / per_core_hz * 1e6 * imbalance
    registers = int(cpu.figures.vector_registers.value)
    spilled = max(0.0, work.live - registers, work.across_calls)
    spill_bytes = 2 * spilled * work.points * _LANE_BYTES if work.vectors else 0.0
    l1_rate = cpu.figures.l1_bytes_per_cycle.value * per_core_hz
    registers_us = spill_bytes / l1_rate * 1e6 * imbalance
    launch_us = cpu.figures.call_us.value + (cpu.launch_us if work.threads else 0.0)
    issue_us = vector_us + registers_us
    busy = (memory_us**_OVERLAP + issue_us**_OVERLAP) ** (1 / _OVERLAP)
    parts = {"memory": memory_us, "vector issue": vector_us, "registers": registers_us, "launch": launch_us}
    return CpuPrediction(
        time_us=launch_us + busy,
        memory_us=memory_us,
        vector_us=vector_us,
        registers_us=registers_us,
        launch_us=launch_us,
        bound_by=max(parts, key=lambda name: parts[name]),
        level="DRAM" if cold > warm else level,
        busiest=max(cycles, key=lambda kind: cycles[kind], default=""),
        cores=cores,
        live_registers=round(work.live),
        vector_registers=registers,
        spill_bytes=spill_bytes,
    )


def rate_of(cpu: CpuModel, touched_bytes: float, cores: int | None = None) -> float:
    """Bytes a second at which `cores` cores (default: all) copy what they touch, from the level that holds it."""
    return _level(cpu, touched_bytes, cpu.cores if cores is None else cores)[1]


def _cycles(cpu: CpuModel, kind: str, lanes_a_vector: float) -> float:
    """Cycles of one 4-byte lane; a gathered element is fetched by itself whatever the vector's width."""
    each = cpu.figure(f"{kind}_cycles").value
    return each if kind == "gather" else each / lanes_a_vector


def _level(cpu: CpuModel, touched_bytes: float, cores: int) -> tuple[str, float]:
    """(level of memory that holds so many bytes, its rate for so many cores)."""
    dram = _dram_rate(cpu, cores)
    for name, size, figure in (
        ("L2", cpu.l2_bytes * cores, cpu.figures.l2_bytes_per_cycle),
        ("L3", cpu.l3_bytes, cpu.figures.l3_bytes_per_cycle),
    ):
        rate = figure.value * cpu.clock_hz * cores
        if touched_bytes <= _KEPT_OF_CACHE * size and rate > dram:
            return name, rate
    return "DRAM", dram


def _dram_rate(cpu: CpuModel, cores: int) -> float:
    """The measured copy is that of all cores; one alone has what it can ask for, and at least its share."""
    whole = stream_bytes_per_s(cpu).value
    return min(whole, cores * max(whole / cpu.cores, cpu.figures.core_bytes_per_s.value))
