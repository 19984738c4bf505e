"""Spilling registers to shared memory: PTX's pragma `enable_smem_spilling`, of the assembler (ptxas) of CUDA 13.0 on.

PTX ISA 9.0: the pragma stands inside a function; it is refused where the kernel's own shared memory is dynamic, and
wants the number of threads to be known, which Triton's kernels say (`.reqntid`). Older assemblers do not document it.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING

from fusewise.errors import CompileFailed, CompilerMissing

if TYPE_CHECKING:
    from fusewise.runtime.triton_compile import GpuTarget

PRAGMA = '.pragma "enable_smem_spilling";'
NEEDED = (13, 0)  # CUDA version of the assembler

_BODY = re.compile(r"^\.visible \.entry .*?^\{\n", re.MULTILINE | re.DOTALL)


def require_shared_spilling(target: GpuTarget) -> None:
    """Raises `CompilerMissing` where the compiler at hand cannot spill to shared memory for a GPU."""
    if not isinstance(target.arch, int):
        raise CompilerMissing("spilling to shared memory is a pragma of NVIDIA's PTX")
    from triton import knobs
    from triton.backends.nvidia.compiler import CUDAOptions

    blackwell = target.arch >= 100  # Triton has an assembler of its own for these
    tool = knobs.nvidia.ptxas_blackwell if blackwell else knobs.nvidia.ptxas
    if tuple(map(int, tool.version.split(".")[:2])) < NEEDED:
        variable = "TRITON_PTXAS_BLACKWELL_PATH" if blackwell else "TRITON_PTXAS_PATH"
        raise CompilerMissing(
            f"spilling to shared memory needs ptxas of CUDA {NEEDED[0]}.{NEEDED[1]}; the one at hand is {tool.version}",
            f"Name a newer one in {variable}.",
        )
    if "ir_override" not in {f.name for f in fields(CUDAOptions)}:
        raise CompilerMissing("this Triton takes no PTX in place of its own", "Triton 3.5 and newer do.")


def spill_to_shared(ptx: str) -> str:
    """The PTX of a kernel with the pragma.

    Raises:
        CompileFailed: the kernel's shared memory is dynamic.
    """
    if re.search(r"^\s*\.extern \.shared", ptx, re.MULTILINE):
        raise CompileFailed(
            "a kernel with dynamic shared memory cannot spill to shared memory", "Reductions across warps use it."
        )
    found = _BODY.search(ptx)
    if found is None:
        raise CompileFailed("no kernel is found in Triton's PTX, to tell it to spill to shared memory", ptx[:400])
    return f"{ptx[: found.end()]}\t{PRAGMA}\n{ptx[found.end() :]}"
