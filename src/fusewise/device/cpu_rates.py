"""How fast one core of a processor is at each class of work: figures that no operating system tells.

Times of instructions are in cycles of the clock that `CpuModel` knows, for one vector register full of 4-byte lanes.
`fusewise device calibrate` measures the classes; until then they are modelled from the documents named here.
"""

from __future__ import annotations

from fusewise.device.figures import Figure, FigureSpec, Source

RATE_SPECS = {
    "vector_registers": FigureSpec("vector registers that a program can name", 4, 1024, whole=True),
    "l1_bytes_per_cycle": FigureSpec("bytes a cycle between a core and its level-1 cache", 1, 4096),
    "l2_bytes_per_cycle": FigureSpec("bytes a cycle, read and written, of a core's copy within level 2", 0.5, 4096),
    "l3_bytes_per_cycle": FigureSpec("bytes a cycle, read and written, of a core's copy within level 3", 0.1, 4096),
    "core_bytes_per_s": FigureSpec("bytes a second of main memory that one core alone can ask for", 1e6, 1e14),
    "call_us": FigureSpec("microseconds to call a kernel, threads apart", 0.001, 10_000),
    "plain_cycles": FigureSpec("cycles of an addition, comparison, move or access of a vector", 0.05, 1000),
    "division_cycles": FigureSpec("cycles of a division of vectors", 0.1, 1000),
    "transcendental_cycles": FigureSpec("cycles of an exp of a vector", 0.1, 10_000),
    "conversion_cycles": FigureSpec("cycles to convert a vector to 16-bit floats or from them", 0.05, 1000),
    "gather_cycles": FigureSpec("cycles of one element fetched from its own place", 0.05, 1000),
    "random_cycles": FigureSpec("cycles of the random bits of a vector of dropout's decisions", 0.1, 10_000),
}
"""Every rate, by the name of its figure."""

MEASURED_RATES = (
    "plain_cycles",
    "division_cycles",
    "transcendental_cycles",
    "conversion_cycles",
    "gather_cycles",
    "random_cycles",
)
"""Those that calibration can measure."""

_REGISTERS: dict[str, tuple[int, Source, str]] = {
    "avx512": (32, "datasheet", "Intel SDM volume 1, section 15.1: zmm0 to zmm31"),
    "avx2": (16, "datasheet", "Intel SDM volume 1, section 14.1: ymm0 to ymm15"),
    "neon": (32, "datasheet", "Arm ARM, section B1.2: V0 to V31"),
    "default": (16, "modelled", "as SSE2's xmm0 to xmm15"),
}
_LINES_IN_FLIGHT, _LATENCY_S = 16, 90e-9  # a core's line buffers; a load from main memory

_MEASURED = "as a Xeon with AVX-512 measures it"


def modelled_rates(isa: str, vector_bits: int, line_bytes: int) -> dict[str, Figure]:
    """Every rate before any is measured.

    Args:
        isa, vector_bits, line_bytes: as in `CpuModel`.
    """
    registers, source, doc = _REGISTERS[isa]
    vector_bytes = vector_bits // 8
    each = vector_bits / 512  # a divider takes 128 bits at a time, whatever the vector's width

    def modelled(value: float, doc: str) -> Figure:
        return Figure(value, "modelled", doc)

    return {
        "vector_registers": Figure(registers, source, doc),
        "l1_bytes_per_cycle": modelled(2 * vector_bytes, "a load and a store of a vector a cycle"),
        "l2_bytes_per_cycle": modelled(32, "half a line a cycle: AMD and Intel optimization manuals"),
        "l3_bytes_per_cycle": modelled(10, "a core's share of a mesh: Intel optimization manual, section 2.5"),
        "core_bytes_per_s": modelled(
            _LINES_IN_FLIGHT * line_bytes / _LATENCY_S, "16 line buffers / 90 ns of a load (Little's law)"
        ),
        "call_us": modelled(3.0, "typical time of a foreign call from Python and of an allocation"),
        "plain_cycles": modelled(0.5, "two vector units"),
        "division_cycles": modelled(max(3.0, 8 * each), "a divider takes 128 bits in 2 cycles: uops.info, vdivps"),
        "transcendental_cycles": modelled(5.0, f"SLEEF's exp, {_MEASURED}"),
        "conversion_cycles": modelled(2.3, f"to bf16 and back, {_MEASURED}"),
        "gather_cycles": modelled(2.5, f"a load, an insertion and the index of each element, {_MEASURED}"),
        "random_cycles": modelled(7.0, f"Philox, 8 decisions a block, {_MEASURED}"),
    }
