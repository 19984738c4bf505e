"""What a compiled kernel uses on a GPU, read from its machine code: no GPU need be present.

Registers, stack and shared memory come from `cuobjdump -res-usage`, spills from `ptxas -v` (asked only where there is a
stack frame, or the pragma that spills to shared memory: no spill without one), instruction counts from `nvdisasm`. The
three tools ship with Triton. For AMD the figures stand in the assembly.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from fusewise.errors import CompilerMissing
from fusewise.lower.kernel import Kernel, TritonSchedule
from fusewise.lower.launch import LaunchUnit
from fusewise.plan.resources import Resources as Resources
from fusewise.runtime import cache
from fusewise.runtime.sass import count_instructions, sections
from fusewise.runtime.shared_spill import PRAGMA


def read_resources(compiled: Any, kernel: LaunchUnit, sass: bool = True) -> Resources:
    """Resources of one compiled kernel (Triton's `CompiledKernel`).

    Args:
        sass: also disassemble and count instructions (half a second for code that nobody has disassembled before).
    """
    if "cubin" not in compiled.asm:
        return _read_amd(compiled)
    cubin: bytes = compiled.asm["cubin"]
    usage = _usage(cubin)
    stack = usage["STACK"]
    arch = compiled.metadata.target.arch
    ptx: str = compiled.asm["ptx"]
    more: str = compiled.metadata.ptx_options or ""  # of the user, in PTXAS_OPTIONS
    stores, loads, held = _spills(ptx, arch, more) if stack or PRAGMA in ptx else (0, 0, 0)
    # shared memory that is not asked for at the launch: Triton's own is
    shared_spills = held if PRAGMA in ptx else 0
    text = disassemble(cubin) if sass else ""
    straight, loops = sections(text)
    warps = int(compiled.metadata.num_warps)
    per_element = None
    if text and not loops and isinstance(kernel, Kernel):
        per_element = straight.total * warps * 32 / tile_elements(kernel)
    return Resources(
        regs_per_thread=usage["REG"],
        spill_store_bytes=stores,
        spill_load_bytes=loads,
        stack_bytes=stack,
        shared_bytes=int(compiled.metadata.shared) + shared_spills,
        num_warps=warps,
        instructions=count_instructions(text),
        instructions_per_element=per_element,
        straight=straight,
        loops=loops,
        shared_spill_bytes=shared_spills,
    )


def tile_elements(kernel: Kernel) -> int:
    """Points of the axes that one tile of the kernel covers."""
    schedule = kernel.schedule
    assert isinstance(schedule, TritonSchedule)
    return schedule.tile_points(bool(kernel.reduce))


def disassemble(cubin: bytes) -> str:
    """SASS of a cubin; kept on disk, since the disassembler takes half a second to start."""
    path = tool_path("nvdisasm")
    import triton

    key = cache.key_of(path, triton.__version__, cubin)
    # without its analysis of indirect branches, a third of its time: their targets are not read
    made = cache.fetch("sass", key, lambda: zlib.compress(_tool("nvdisasm", cubin, "-c", "-ndf").encode()))
    return zlib.decompress(made).decode()


def tool_path(name: str) -> str:
    """Path of a CUDA tool that ships with Triton; raises `CompilerMissing` where Triton is absent."""
    try:
        from triton import knobs
    except ImportError:
        raise CompilerMissing("triton is not installed", "Install it: `fusewise doctor` prints the line.") from None
    path: str = getattr(knobs.nvidia, name).path
    return path


@lru_cache(maxsize=512)
def _usage(cubin: bytes) -> dict[str, int]:
    text = _tool("cuobjdump", cubin, "-res-usage")
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", text)
    if found is None:
        raise CompilerMissing("cuobjdump printed no resource usage", text[:400])
    return dict(zip(("REG", "STACK", "SHARED"), map(int, found.groups()), strict=True))


def _tool(name: str, cubin: bytes, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool_path(name), *options, file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerMissing(f"{name} cannot read a compiled kernel", done.stderr.strip()[:400])
    return done.stdout


@lru_cache(maxsize=512)
def _spills(ptx: str, arch: int, more: str) -> tuple[int, int, int]:
    """(bytes a thread stored to local memory, and loaded again; static shared memory of a program)."""
    _, log = assemble(ptx, arch, more)
    found = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    shared = re.search(r"(\d+) bytes smem", log)
    return (int(found[1]) if found else 0, int(found[2]) if found else 0, int(shared[1]) if shared else 0)


def assemble(ptx: str, arch: int, more: str = "") -> tuple[bytes, str]:
    """(cubin, what `ptxas -v` says) of a kernel's PTX, by the options that Triton gives it for our kernels.

    Args:
        more: options of the user.
    """
    import triton

    target = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
    assert target is not None
    options = ["-v", "--fmad=false", f"--gpu-name={target[1]}", *more.split()]
    if tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7):
        options.append("--regAllocOptLevel=2")  # since then Triton's way around a fault of ptxas 13
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        tool = tool_path("ptxas_blackwell" if arch >= 100 else "ptxas")
        command = [tool, *options, str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return cubin.read_bytes() if cubin.exists() else b"", done.stderr


def _read_amd(compiled: Any) -> Resources:
    text: str = compiled.asm["amdgcn"]

    def figure(name: str) -> int:
        found = re.search(rf"\.{name}:\s+(\d+)", text)
        return int(found[1]) if found else 0

    spilled = 4 * figure("vgpr_spill_count")
    return Resources(
        regs_per_thread=figure("vgpr_count"),
        spill_store_bytes=spilled,
        spill_load_bytes=spilled,
        stack_bytes=figure("private_segment_fixed_size"),
        shared_bytes=int(compiled.metadata.shared),
        num_warps=int(compiled.metadata.num_warps),
    )
