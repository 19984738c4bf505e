"""What a compiled kernel uses on a GPU, read from its machine code: no GPU need be present.

Registers, stack and shared memory come from `cuobjdump -res-usage`, spills from `ptxas -v` (asked only where there is a
stack frame: no spill without one), instruction counts from `nvdisasm`. The three tools ship with Triton. For AMD the
figures stand in the assembly.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fusewise.errors import CompilerMissing
from fusewise.lower.kernel import Kernel, TritonSchedule

# Class of a machine instruction by the start of its mnemonic; the first that fits. Each class has a rate of its own.
_CLASSES: tuple[tuple[str, str], ...] = (
    (r"LDG|STG|LDGSTS|LD\b|ST\b|ATOM|RED|UBLKCP|UTMA", "global"),
    (r"LDS|STS|LDSM|ATOMS", "shared"),
    (r"LDL|STL", "local"),
    (r"MUFU", "special"),
    (r"F2FP|F2F|F2I|I2F|FRND|I2I|I2FP", "convert"),
    (r"SHFL|VOTE|MATCH|REDUX", "shuffle"),
    (
        r"BAR|BSSY|BSYNC|BRA|EXIT|RET|CALL|WARPSYNC|DEPBAR|LDGDEPBAR|MEMBAR|ERRBAR|BPT|BREAK|JMP|NANOSLEEP|YIELD|BMOV",
        "control",
    ),
    (r"HMMA|HGMMA|IMMA|QGMMA|DMMA|WGMMA|UTC", "matrix"),
    (r"D(ADD|MUL|FMA|SETP|MNMX)", "double"),
    (r"F(ADD|MUL|FMA|SEL|SET|SETP|MNMX|CHK|SWZADD)|H(ADD2|MUL2|FMA2|SET2|SETP2|MNMX2)", "float"),
    (r"U[A-Z]", "uniform"),
    (r"MOV|LDC|S2R|CS2R|R2UR|P2R|R2P", "move"),
    (r"NOP", "nop"),
)
_INTEGER = "integer"

_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?PT?\d*\s+)?([A-Z][A-Z0-9]*(?:\.[A-Z0-9_]+)*)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Resources:
    """What one compiled kernel uses.

    Attributes:
        regs_per_thread: 32-bit registers (vector registers on AMD).
        spill_store_bytes, spill_load_bytes: bytes a thread spills and reloads (each place in the code counted once).
        stack_bytes: stack frame of a thread; a frame alone is no spill.
        shared_bytes: shared memory of a program.
        num_warps: warps of a program.
        instructions: machine instructions by class, counted once each as they stand in the code; empty where unknown.
        instructions_per_element: executed instructions for each point of the tile; None where the code has loops.
    """

    regs_per_thread: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    num_warps: int
    instructions: Mapping[str, int] = field(default_factory=dict)
    instructions_per_element: float | None = None


def instruction_class(mnemonic: str) -> str:
    """Class of a SASS mnemonic such as `IMAD.WIDE`: global, shared, local, special, convert, float, integer, ..."""
    for pattern, name in _CLASSES:
        if re.match(pattern, mnemonic):
            return name
    return _INTEGER


def count_instructions(sass: str) -> dict[str, int]:
    """Instructions of a disassembly by class, no-ops left out."""
    counted = Counter(instruction_class(m) for m in _INSTRUCTION.findall(sass))
    counted.pop("nop", None)
    return dict(sorted(counted.items()))


def read_resources(compiled: Any, kernel: Kernel, sass: bool = True) -> Resources:
    """Resources of one compiled kernel (Triton's `CompiledKernel`).

    Args:
        sass: also disassemble and count instructions (about 50 ms).
    """
    if "cubin" not in compiled.asm:
        return _read_amd(compiled)
    cubin: bytes = compiled.asm["cubin"]
    usage = _usage(cubin)
    stack = usage["STACK"]
    arch = compiled.metadata.target.arch
    stores, loads = _spills(compiled.asm["ptx"], arch) if stack else (0, 0)
    text = disassemble(cubin) if sass else ""
    instructions = count_instructions(text)
    warps = int(compiled.metadata.num_warps)
    per_element = None
    if text and not _loops(text):
        per_element = sum(instructions.values()) * warps * 32 / tile_elements(kernel)
    return Resources(
        regs_per_thread=usage["REG"],
        spill_store_bytes=stores,
        spill_load_bytes=loads,
        stack_bytes=stack,
        shared_bytes=int(compiled.metadata.shared),
        num_warps=warps,
        instructions=instructions,
        instructions_per_element=per_element,
    )


def tile_elements(kernel: Kernel) -> int:
    """Points of the axes that one tile of the kernel covers."""
    schedule = kernel.schedule
    assert isinstance(schedule, TritonSchedule)
    return schedule.y_block * schedule.x_block * (schedule.r_block if kernel.reduce else 1)


def disassemble(cubin: bytes) -> str:
    """SASS of a cubin."""
    return _tool("nvdisasm", cubin, "-c")


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


def _tool(name: str, cubin: bytes, option: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool_path(name), option, file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerMissing(f"{name} cannot read a compiled kernel", done.stderr.strip()[:400])
    return done.stdout


@lru_cache(maxsize=512)
def _spills(ptx: str, arch: int) -> tuple[int, int]:
    target = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
    assert target is not None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx, encoding="utf-8")
        tool = tool_path("ptxas_blackwell" if arch >= 100 else "ptxas")
        command = [tool, "-v", "--fmad=false", f"--gpu-name={target[1]}", str(source), "-o", str(source) + ".o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _loops(sass: str) -> bool:
    """True where a branch leads back, the endless self-branch at a kernel's end aside."""
    places: dict[str, int] = {}
    for number, line in enumerate(sass.splitlines()):
        label = re.match(r"\s*(\.L_x_\d+):", line)
        if label:
            places[label[1]] = number
        jump = re.search(r"\bBRA(?:\.\w+)* (?:\S+, )?`\((\.L_x_\d+)\)", line)
        if jump and jump[1] in places and number - places[jump[1]] > 1:
            return True
    return False


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
