"""Predicted time of one GPU kernel from what it does (`Work`) and what its compiled code uses (`Resources`).

    t = launch + max(overlap(t_memory, t_compute), t_serial)

t_memory: bytes / (rate x min(1, bytes in flight / (rate x latency))), and what the last-level cache must deliver.
t_compute: the busiest of the issue slots and of the integer, fp32, conversion, special-function and shared-memory
    units, by the instructions in the machine code times the turns of their loops, over a whole number of waves; and
    the fetching of instructions, where the code is larger than the instruction cache.
overlap: the cubic norm. Two resources that are both busy hide each other in part: neither max nor sum is right.
t_serial: what a program cannot hide when few others are resident: latency of its loads, its barriers, its own chain.

The constants below were fitted on the kernels in benchmarks/results/h200-kernels.json and, before, h200-full.json; the
rates are the device's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fusewise.device import roofline
from fusewise.device.model import GpuModel
from fusewise.device.occupancy import Occupancy, occupancy
from fusewise.plan.resources import INSTRUCTION_BYTES, Resources, Work

_OVERLAP = 3.0  # exponent of the norm that joins memory and compute
_TURNOVER_S = 0.4e-6  # from the end of a program to the first load of the one that takes its place
_BARRIER_CYCLES = 40
_KEPT_OF_CACHE = 0.6  # of the last-level cache is there for rows that are read again
# An SM's instruction cache: 128 KiB in V100 (arXiv:1804.06826) and A100 (NVIDIA GTC 2021, S33322); no document gives
# Hopper's. Code beyond it comes at so many bytes a clock and SM, once for all warps of a program. Fitted on
# wide_epilogue and wide_dag: a scheduler issues every 3.4 and 3.0 clocks with 152 and 181 KB of code, 2.0 with 133 KB.
_CODE_CACHE = 128 * 1024
_FETCHED_BYTES = 5.0
_FIRST_MISS, _ALL_MISS = 0.75, 1.15  # size / cache between which what is read in circles stops being found in it
_CYCLES_PER_INSTRUCTION = 2.0  # of one warp alone: its instructions wait for each other
# lanes a clock and multiprocessor, cc 8.0 to 12.0: CUDA C++ programming guide
_UNITS = {"convert": 64, "shuffle": 32, "shared": 32, "global": 32}


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted time of one launch, and its parts, in microseconds.

    Attributes:
        time_us: launch to end.
        memory_us, compute_us, serial_us: see the module.
        spill_us: the part of memory_us that spilled registers cost.
        bound_by: `memory`, `compute`, `latency` or `launch`.
        busiest: the unit that sets compute_us: issue, integer, float, convert, special, shuffle, shared, global, or
            fetch (of instructions).
        regs_per_thread, spill_bytes: of a thread; spills as stored and loaded again.
        residency: blocks an SM and what limits them.
        source: `compiled` where registers and instructions were read off the machine code, else `modelled`.
    """

    time_us: float
    memory_us: float
    compute_us: float
    serial_us: float
    spill_us: float
    bound_by: str
    busiest: str
    regs_per_thread: int
    spill_bytes: int
    residency: Occupancy
    source: str


def predict(
    gpu: GpuModel, work: Work, used: Resources, read_bytes: float, write_bytes: float, source: str = "compiled"
) -> Prediction:
    """Predicted time of one launch.

    Args:
        gpu: the device, calibrated or not.
        work: what the launch does.
        used: of the compiled kernel, or an estimate.
        read_bytes, write_bytes: least bytes of device memory that are read and written.
        source: where `used` comes from.
    """
    threads = used.num_warps * gpu.arch.warp_size
    held = occupancy(gpu.arch, used.regs_per_thread, used.shared_bytes, threads)
    blocks = max(1, held.blocks_per_sm)
    counts, barriers = _executed(work, used)
    compute_us, busiest = _compute_us(gpu, work, used, counts, blocks)
    spilled = work.programs * threads * (used.spill_store_bytes + used.spill_load_bytes) * _spill_turns(used, counts)
    spill_us = spilled / gpu.l2_bytes_per_s * 1e6
    again = _read_again(gpu, work, read_bytes, blocks)
    memory_us = _memory_us(gpu, work, used, read_bytes + write_bytes + again, blocks) + spill_us
    serial_us = _serial_us(gpu, work, used, read_bytes + again, sum(counts.values()), barriers, blocks)
    overlapped = (memory_us**_OVERLAP + compute_us**_OVERLAP) ** (1 / _OVERLAP)
    busy = max(overlapped, serial_us)
    parts = {"memory": memory_us, "compute": compute_us, "latency": serial_us, "launch": gpu.launch_us}
    return Prediction(
        time_us=gpu.launch_us + busy,
        memory_us=memory_us,
        compute_us=compute_us,
        serial_us=serial_us,
        spill_us=spill_us,
        bound_by=max(parts, key=lambda name: parts[name]),
        busiest=busiest,
        regs_per_thread=used.regs_per_thread,
        spill_bytes=used.spill_store_bytes + used.spill_load_bytes,
        residency=held,
        source=source,
    )


def _executed(work: Work, used: Resources) -> tuple[Counter[str], float]:
    """(instructions that a warp executes, by class; barriers that a program meets)."""
    counts: Counter[str] = Counter(used.straight.instructions)
    barriers: float = used.straight.barriers
    turns = _loop_turns(work, used)
    for number, section in enumerate(used.loops):
        times = turns[number] if number < len(turns) else 1.0  # a loop that is not the kernel's own is some function's
        for name, count in section.instructions.items():
            counts[name] += count * times  # type: ignore[assignment]  # a mean: fractions are meant
        barriers += section.barriers * times
    return counts, barriers


def _spill_turns(used: Resources, counts: Mapping[str, float]) -> float:
    """How often a spill of the code is executed, in the mean: those inside of loops more than once."""
    standing = sum(s.instructions.get("local", 0) for s in (used.straight, *used.loops))
    return counts["local"] / standing if standing else 1.0


def _loop_turns(work: Work, used: Resources) -> list[float]:
    """How often the code of each loop runs: fewer times than the loop has turns where the assembler unrolled it."""
    threads = used.num_warps * 32  # as lower/work.py counts them
    found: list[float] = []
    for number, loop in enumerate(work.loops):
        if number < len(used.loops):
            expected = (loop.load_bytes + loop.store_bytes) / threads
            section = used.loops[number].load_bytes + used.loops[number].store_bytes
            found.append(loop.turns / max(1, round(section / expected)) if expected else loop.turns)
        else:
            found.append(1.0 if used.instructions else loop.turns)  # unrolled whole, or nothing is known of the code
    return found


def _compute_us(
    gpu: GpuModel, work: Work, used: Resources, counts: Mapping[str, float], blocks: int
) -> tuple[float, str]:
    threads = work.programs * used.num_warps * gpu.arch.warp_size
    executed = {unit: threads * count for unit, count in counts.items()}
    times = {
        "issue": roofline.issue_us(sum(executed.values()), gpu),
        "integer": roofline.int_us(executed.get("integer", 0.0), 0.0, gpu),
        "float": roofline.fma_us(executed.get("float", 0.0), gpu),
        "special": roofline.special_us(executed.get("special", 0.0), gpu),
    }
    fetched = sum(counts.values()) * INSTRUCTION_BYTES * _missed(used.code_bytes, _CODE_CACHE)
    times["fetch"] = work.programs * fetched / (_FETCHED_BYTES * gpu.sm_count * gpu.clock_hz) * 1e6
    times |= {unit: roofline.lanes_us(executed.get(unit, 0.0), lanes, gpu) for unit, lanes in _UNITS.items()}
    busiest = max(times, key=lambda unit: times[unit])
    return times[busiest] * _tail(work.programs, blocks, gpu), busiest


def _missed(size: float, cache: float) -> float:
    """Share of what is read in circles that a cache does not keep: its sets do not fill alike."""
    return min(1.0, max(0.0, (size / cache - _FIRST_MISS) / (_ALL_MISS - _FIRST_MISS)))


def _tail(programs: int, blocks: int, gpu: GpuModel) -> float:
    """Programs of the busiest SM / mean: for grids of several waves the SMs drift apart, and even out."""
    mean = programs / gpu.sm_count
    if mean >= 2 * blocks:
        return 1.0
    return -(-programs // gpu.sm_count) / mean


def _memory_us(gpu: GpuModel, work: Work, used: Resources, dram_bytes: float, blocks: int) -> float:
    resident = min(work.programs, blocks * gpu.sm_count)
    turns = (work.straight, *work.loops)
    asked = max(t.load_bytes * (work.pipelined if t is not work.straight else 1) for t in turns)
    asked = max(asked, max(t.store_bytes for t in turns), 1.0)
    from_dram = roofline.memory_us(dram_bytes, resident * asked, gpu)
    # programs read small tensors in circles, from what shared memory leaves of the SM's first-level cache
    near = min(work.near_bytes, blocks * work.near_asked_bytes)
    far = work.programs * work.near_asked_bytes * _missed(near, _l1_bytes(gpu, used, blocks))
    return max(from_dram, roofline.l2_us(work.access_bytes + far, gpu))


def _l1_bytes(gpu: GpuModel, used: Resources, blocks: int) -> int:
    """First-level cache beside the shared memory of the resident programs, at least one byte."""
    asked = blocks * (used.shared_bytes + gpu.arch.shared_reserved_per_block)
    split = next((size for size in gpu.arch.shared_splits if size >= asked), gpu.arch.shared_bytes_per_sm)
    return max(1, gpu.arch.shared_bytes_per_sm - split)


def _read_again(gpu: GpuModel, work: Work, read_bytes: float, blocks: int) -> float:
    """Bytes that later passes over a row read from device memory again: what the last-level cache could not keep.

    It keeps the rows of all resident programs up to a part of its size, and a falling share beyond. (H200, backward of
    a softmax of 4096 x 32768 bf16, two passes: 201 us with two rows an SM, 259 us with three.)
    """
    again = max(0.0, work.programs * sum(t.turns * t.load_bytes for t in work.loops) - read_bytes)
    held = min(work.programs, blocks * gpu.sm_count) * read_bytes / max(1, work.programs)
    room = _KEPT_OF_CACHE * gpu.l2_bytes
    return again * min(1.0, max(0.0, held - room) / (gpu.l2_bytes - room))


def _serial_us(
    gpu: GpuModel, work: Work, used: Resources, read_bytes: float, instructions: float, barriers: float, blocks: int
) -> float:
    """The programs that follow each other in one place of an SM, each by itself."""
    warps = used.num_warps / gpu.arch.sub_partitions
    chain = instructions * max(_CYCLES_PER_INSTRUCTION, warps) + barriers * _BARRIER_CYCLES
    turns = _loop_turns(work, used)  # where the assembler unrolled a loop, its loads are on their way together
    pairs = zip(turns, work.loops, strict=True)
    rounds = (1 if work.straight.load_bytes else 0) + sum(n / work.pipelined for n, t in pairs if t.load_bytes)
    loaded = sum(t.turns * t.load_bytes for t in (work.straight, *work.loops))
    fresh = min(loaded, read_bytes / max(1, work.programs))
    moved = fresh / roofline.stream_bytes_per_s(gpu).value + (loaded - fresh) / gpu.l2_bytes_per_s
    each = chain / gpu.clock_hz + rounds * gpu.dram_latency_s + moved * gpu.sm_count
    in_line = max(1.0, work.programs / (blocks * gpu.sm_count))
    return (in_line * each + (in_line - 1) * _TURNOVER_S) * 1e6
