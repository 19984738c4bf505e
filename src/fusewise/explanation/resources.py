"""What a kernel takes on a GPU that need not be here: it is generated, compiled for it, and the result is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusewise.config import Policy
from fusewise.device import GpuModel, staircase
from fusewise.device.occupancy import occupancy
from fusewise.errors import CompileFailed, CompilerMissing
from fusewise.lower.launch import LaunchUnit, members_of
from fusewise.lower.registers import predict_resources
from fusewise.plan.resources import Resources
from fusewise.plan.schedule import TritonSchedule
from fusewise.report.documents import KernelResources, OccupancyStep

FIRST_STEP = 16  # registers a thread from which a staircase starts: with fewer, nothing changes


@dataclass(frozen=True, slots=True)
class GpuBuild:
    """One kernel compiled for a GPU.

    Attributes:
        resources: what it takes.
        texts: `triton`, and `ptx` where there is one.
        cubin: machine code of an NVIDIA kernel.
        problem: why there is none, and what to do; empty where there is.
    """

    resources: KernelResources
    texts: dict[str, str] = field(default_factory=dict)
    cubin: bytes | None = None
    problem: str = ""


def build_for(gpu: GpuModel, kernel: LaunchUnit, policy: Policy) -> GpuBuild:
    """Generates Triton for a kernel, compiles it for the GPU, and reads what it uses."""
    from fusewise.codegen.triton import module
    from fusewise.runtime.gpu_resources import read_resources
    from fusewise.runtime.triton_compile import GpuTarget, compile_kernel

    source = module([kernel], policy == "conservative", "amd" if gpu.vendor == "amd" else "nvidia")
    texts = {"triton": source}
    arch: int | str = gpu.arch.name if gpu.vendor == "amd" else int(gpu.arch.name.replace(".", ""))
    try:
        compiled = compile_kernel(source, kernel, GpuTarget(arch))
        used = read_resources(compiled, kernel, sass=False)
    except (CompilerMissing, CompileFailed) as cause:
        problem = f"{cause.problem}. {cause.remedy}".strip()
        used = max(
            (predict_resources(member, gpu.arch) for member in members_of(kernel)),
            key=lambda found: found.regs_per_thread,
        )
        return GpuBuild(_resources(gpu, kernel, used, "modelled", cause.problem), texts, problem=problem)
    if "ptx" in compiled.asm:
        texts["ptx"] = compiled.asm["ptx"]
    return GpuBuild(_resources(gpu, kernel, used, "compiled"), texts, compiled.asm.get("cubin"))


def _resources(gpu: GpuModel, kernel: LaunchUnit, used: Resources, source: str, note: str = "") -> KernelResources:
    schedule = members_of(kernel)[0].schedule
    assert isinstance(schedule, TritonSchedule)
    threads = used.num_warps * gpu.arch.warp_size
    held = occupancy(gpu.arch, used.regs_per_thread, used.shared_bytes, threads)
    return KernelResources(
        source=source,
        regs_per_thread=used.regs_per_thread,
        spill_store_bytes=used.spill_store_bytes,
        spill_load_bytes=used.spill_load_bytes,
        shared_bytes=used.shared_bytes,
        threads_per_block=threads,
        blocks_per_sm=held.blocks_per_sm,
        occupancy=held.fraction,
        limiter=held.limiter,
        next_regs_down=held.next_regs_down,
        next_regs_up=held.next_regs_up,
        staircase=tuple(
            OccupancyStep(s.regs_from, s.regs_to, s.blocks_per_sm, s.fraction, s.limiter)
            for s in staircase(gpu.arch, used.shared_bytes, threads, min(used.regs_per_thread, FIRST_STEP))
        ),
        note=note,
        maxnreg=schedule.maxnreg,
        shared_spill_bytes=used.shared_spill_bytes,
    )
