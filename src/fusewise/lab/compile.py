"""Compiles the lab's kernels for a GPU that need not be there: NVRTC with cuda-core, else Triton's ptxas."""

from __future__ import annotations

import functools
import importlib
import io
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusewise.device import GpuModel
from fusewise.device.arch import Arch
from fusewise.errors import CompileFailed, CompilerMissing, UsageError
from fusewise.lab import cuda_source, ptx_source
from fusewise.lab.spec import WARP, Spec
from fusewise.runtime.gpu_resources import Resources, tool_path

HOW_TO_INSTALL = "Install it: pip install 'fusewise[lab]'"


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel: its machine code, what it uses, and which compiler made it."""

    cubin: bytes
    resources: Resources
    compiler: str


def capability(arch: Arch) -> int:
    """The compute capability as a number, such as 90; raises `UsageError` for a GPU that no CUDA compiler knows."""
    if arch.vendor != "nvidia":
        raise UsageError(
            f"the lab's GPU kernels are CUDA, which {arch.name} does not run.", "Name one of: a100, h100, h200, rtx5090"
        )
    return int(arch.name.replace(".", ""))


def compile_row(spec: Spec, block: int, model: GpuModel, phase: int = 0) -> Compiled:
    """The kernel of one row.

    Args:
        block: threads a block.
        phase: of a row with two kernels: 0 or 1.

    Raises:
        CompilerMissing: neither NVRTC nor ptxas is here, or the kernel needs NVRTC.
        CompileFailed: the compiler refused the source.
        UsageError: not an NVIDIA GPU.
    """
    arch = capability(model.arch)
    if core() is not None:
        return _by_nvrtc(spec, block, arch, phase)
    return _by_ptxas(spec, block, arch)


@functools.cache
def core() -> Any:
    """The module cuda.core with a working NVRTC; None where either is missing."""
    try:
        module = importlib.import_module("cuda.core")
        module.Program('extern "C" __global__ void probe() {}', "c++", _options(module, 90))
    except Exception:  # no package, or no libnvrtc: each version of the package has its own error
        return None
    return module


@functools.cache
def compiler_name(arch: int) -> str:
    """The compiler that `compile_row` takes for a capability such as 90; raises `CompilerMissing` without one."""
    if core() is not None:
        from cuda.bindings import nvrtc

        _, major, minor = nvrtc.nvrtcVersion()
        return f"NVRTC {major}.{minor}"
    done = subprocess.run([_ptxas(arch), "--version"], capture_output=True, text=True, check=False)
    release = re.search(r"release ([\d.]+)", done.stdout)
    return f"ptxas {release.group(1) if release else ''} on PTX text, without NVRTC"


def parse_usage(log: str, block: int) -> Resources:
    """What `ptxas -v` says of one kernel; raises `CompileFailed` where it says nothing."""
    used = re.search(r"Used (\d+) registers", log)
    frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    shared = re.search(r"(\d+) bytes smem", log)
    if used is None or frame is None:
        raise CompileFailed("the compiler printed no resource usage of the lab's kernel", log.strip()[:400])
    stack, stores, loads = map(int, frame.groups())
    return Resources(
        regs_per_thread=int(used.group(1)),
        spill_store_bytes=stores,
        spill_load_bytes=loads,
        stack_bytes=stack,
        shared_bytes=int(shared.group(1)) if shared else 0,
        num_warps=block // WARP,
    )


def _options(module: Any, arch: int, max_regs: int = 0) -> Any:
    """NVRTC's options; `max_regs`: 0 for no cap.

    Where a driver is present, NVRTC keeps what it compiled on disk, and what comes from there has no log to read the
    resources from: hence no cache.
    """
    options: dict[str, Any] = {"arch": f"sm_{arch}", "std": "c++17", "ptxas_options": ["-v"], "no_cache": True}
    if max_regs:
        options["max_register_count"] = max_regs
    return module.ProgramOptions(**options)


def _by_nvrtc(spec: Spec, block: int, arch: int, phase: int) -> Compiled:
    module = core()
    log = io.StringIO()
    try:
        options = _options(module, arch, spec.max_regs)
        program = module.Program(cuda_source.source_of(spec, block, phase), "c++", options)
        code = program.compile("cubin", logs=log)
    except Exception as error:  # NVRTCError has moved between versions of cuda-core
        first = next((line for line in str(error).splitlines() if "error" in line), str(error).strip()[:200])
        raise CompileFailed(f"NVRTC refused the kernel {spec.tag} for sm_{arch}: {first}") from error
    return Compiled(bytes(code.code), parse_usage(log.getvalue(), block), compiler_name(arch))


def _by_ptxas(spec: Spec, block: int, arch: int) -> Compiled:
    source = ptx_source.source_of(spec, block, arch)
    with tempfile.TemporaryDirectory(prefix="fusewise-lab-") as name:
        folder = Path(name)
        (folder / "kernel.ptx").write_text(source, encoding="utf-8")
        command = [
            _ptxas(arch),
            "-v",
            f"-arch=sm_{arch}",
            "-o",
            str(folder / "kernel.cubin"),
            str(folder / "kernel.ptx"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
            raise CompileFailed(f"ptxas refused the kernel {spec.tag} for sm_{arch}: {first}")
        cubin = (folder / "kernel.cubin").read_bytes()
    return Compiled(cubin, parse_usage(done.stderr + done.stdout, block), compiler_name(arch))


def _ptxas(arch: int) -> str:
    try:
        return tool_path("ptxas_blackwell" if arch >= 100 else "ptxas")
    except CompilerMissing:
        raise CompilerMissing(
            "no compiler of CUDA kernels: neither cuda-core with NVRTC nor Triton's ptxas is here.", HOW_TO_INSTALL
        ) from None
