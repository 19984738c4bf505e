"""`modes` for a GPU that is not there: the kernels compiled, with registers, spills and occupancy; nothing is timed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fusewise.device import GpuModel
from fusewise.device.occupancy import Step, occupancy, staircase
from fusewise.lab import published
from fusewise.lab.compile import capability, compile_row, compiler_name
from fusewise.lab.gpu import WIDTHS
from fusewise.lab.spec import DEFAULT_K, DEFAULT_LIVE, DEFAULT_N, REGISTER_CAPS, Settings, Spec

SCHEMA = "fusewise-lab-compiled/1"


@dataclass(frozen=True, slots=True)
class CompiledRow:
    """One kernel of the lab on one GPU.

    Attributes:
        tag, k: as in a measured row.
        live: values that it keeps alive beside the chain's own.
        max_regs: register cap of the compiler; 0: none.
        regs_per_thread: registers.
        spill_store_bytes, spill_load_bytes, stack_bytes: a thread, each place in the code counted once.
        shared_bytes: static shared memory a block.
        blocks_per_sm, warps_per_sm: resident, by the occupancy calculator.
        occupancy: resident warps / the most an SM can hold.
        limiter: what stops one more block.
        next_regs_down, next_regs_up: register counts at which residency changes; None: there is none.
    """

    tag: str
    k: int
    live: int
    max_regs: int
    regs_per_thread: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    blocks_per_sm: int
    warps_per_sm: int
    occupancy: float
    limiter: str
    next_regs_down: int | None
    next_regs_up: int | None


@dataclass(frozen=True, slots=True)
class CompiledModes:
    """All kernels of `modes` on one GPU.

    Attributes:
        device, title: short and full name.
        compiler: which compiler made the code.
        block: threads a block.
        rows: one a kernel.
        steps: residency against registers at this block size.
    """

    device: str
    title: str
    compiler: str
    block: int
    rows: tuple[CompiledRow, ...]
    steps: tuple[Step, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the name of its schema."""
        return {"schema": SCHEMA, **asdict(self)}


def compile_modes(model: GpuModel, settings: Settings) -> CompiledModes:
    """Compiles naive, fused and fat for a GPU and reports what each uses.

    Raises:
        CompilerMissing: no compiler of CUDA kernels is here.
        UsageError: not an NVIDIA GPU.
    """
    block = settings.block or published.BLOCK
    compiler = compiler_name(capability(model.arch))
    rows = []
    for k in settings.k or (DEFAULT_K,):
        specs = [Spec("naive", k, DEFAULT_N)]
        specs += [Spec("fused", k, DEFAULT_N, width=width) for width in WIDTHS]
        lives = settings.fat_temps or DEFAULT_LIVE
        specs += [Spec("thin", k, DEFAULT_N, live=lives[-1])]
        specs += [Spec("fat", k, DEFAULT_N, live=live) for live in lives]
        specs += [Spec("fat", k, DEFAULT_N, live=max(lives), max_regs=cap) for cap in REGISTER_CAPS if cap < max(lives)]
        rows += [_row(spec, block, model) for spec in specs]
    return CompiledModes(model.name, model.title, compiler, block, tuple(rows), staircase(model.arch, 0, block))


def _row(spec: Spec, block: int, model: GpuModel) -> CompiledRow:
    used = compile_row(spec, block, model).resources
    resident = occupancy(model.arch, used.regs_per_thread, used.shared_bytes, block)
    return CompiledRow(
        tag=spec.tag,
        k=spec.k,
        live=spec.live,
        max_regs=spec.max_regs,
        regs_per_thread=used.regs_per_thread,
        spill_store_bytes=used.spill_store_bytes,
        spill_load_bytes=used.spill_load_bytes,
        stack_bytes=used.stack_bytes,
        shared_bytes=used.shared_bytes,
        blocks_per_sm=resident.blocks_per_sm,
        warps_per_sm=resident.warps_per_sm,
        occupancy=resident.fraction,
        limiter=resident.limiter,
        next_regs_down=resident.next_regs_down,
        next_regs_up=resident.next_regs_up,
    )


def verdict_of(found: CompiledModes) -> tuple[str, ...]:
    """What the compiled kernels say, in words; the last sentence is the next step."""
    fused = next(row for row in found.rows if row.tag == "fused")
    fats = [row for row in found.rows if row.live and not row.max_regs and row.tag.startswith("fat")]
    first_drop = next((row for row in fats if row.blocks_per_sm < fused.blocks_per_sm), None)
    last = fats[-1]
    said = [
        f"Fused takes {fused.regs_per_thread} registers: {_blocks(fused)} of {found.block} threads an SM.",
        f"With {last.live} live values fat takes {last.regs_per_thread} registers and spills"
        f" {last.spill_store_bytes + last.spill_load_bytes} bytes a thread: {_blocks(last)}.",
    ]
    if first_drop is not None:
        said.append(
            f"Residency first falls at {first_drop.live} live values ({first_drop.regs_per_thread} registers):"
            f" from {_blocks(fused)} to {_blocks(first_drop)}."
        )
    said.append(f"Next: run `fusewise lab fat` on this GPU ({found.title}): a compiler tells registers, not time.")
    return tuple(said)


def _blocks(row: CompiledRow) -> str:
    return f"{row.blocks_per_sm} block{'s' if row.blocks_per_sm != 1 else ''}"
