"""What this machine has, what is missing, and the command that gets it. Works without torch as well."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from fusewise import __version__, config

Status = Literal["ok", "optional", "missing"]

LEAST_PYTHON = (3, 11)
LEAST_TORCH = (2, 11)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that Fusewise uses.

    Attributes:
        name: what it is.
        status: `ok`; `optional` where it is missing and the rest works without it; `missing` where it is needed.
        found: version or state.
        remedy: the command that gets it.
    """

    name: str
    status: Status
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CacheState:
    """The folder of compiled kernels.

    Attributes:
        folder: its path.
        writable: whether this user can write there.
        entries, bytes: compiled kernels and what they take.
        damaged: paths of entries whose checksum fails; they are made again when they are needed.
        problem: why the folder cannot be used.
    """

    folder: str
    writable: bool
    entries: int = 0
    bytes: int = 0
    damaged: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of this machine."""

    checks: tuple[Check, ...]
    cache: CacheState
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True where nothing is missing that Fusewise needs."""
        return all(c.status != "missing" for c in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"ok": self.ok, **asdict(self)}


def diagnose() -> Diagnosis:
    """Looks at versions, devices, compilers and the kernel cache."""
    torch_check, torch = _torch()
    cuda = torch is not None and torch.cuda.is_available()
    cache = cache_state()
    checks = [
        _python(),
        Check("fusewise", "ok", __version__),
        torch_check,
        *([] if torch is None else [_cuda(torch, cuda)]),
        _triton(needed=cuda),
        _compiler(needed=not cuda),
        _lab(),
        _cpu(),
        _cache_check(cache),
    ]
    settings = {v.name: v.get() for v in config.ENV_VARS if v.get() != v.default}
    return Diagnosis(tuple(checks), cache, settings)


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info < LEAST_PYTHON:
        return Check("python", "missing", f"{version}, at least 3.11 is needed", "Install Python 3.11 or newer.")
    return Check("python", "ok", version)


def _torch() -> tuple[Check, Any]:
    try:
        import torch
    except Exception as cause:  # a broken installation fails with any error
        return Check("torch", "missing", f"not importable: {cause}", "pip install torch"), None
    version = str(torch.__version__)
    if _version(version) < LEAST_TORCH:
        return Check("torch", "missing", f"{version}, at least 2.11 is needed", 'pip install "torch>=2.11"'), torch
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    return Check("torch", "ok", f"{version} ({build}), {torch.get_num_threads()} threads"), torch


def _cuda(torch: Any, present: bool) -> Check:
    if present:
        names = [torch.cuda.get_device_properties(i).name for i in range(torch.cuda.device_count())]
        return Check("GPU", "ok", ", ".join(names))
    found = "none; `--device h200` still explains for a GPU that is not here"
    if torch.version.cuda is None:
        return Check("GPU", "optional", found, "To run on a GPU: install a CUDA build of torch")
    return Check("GPU", "optional", found)


def _triton(needed: bool) -> Check:
    why = "Triton kernels run on the GPU" if needed else "kernels for named GPUs, and their registers"
    try:
        version = metadata.version("triton")
        import triton  # noqa: F401
    except Exception:  # as for torch
        from fusewise.runtime.triton_compile import install_line

        return Check("triton", "missing" if needed else "optional", f"not here ({why})", install_line())
    return Check("triton", "ok", version)


def _compiler(needed: bool) -> Check:
    named = config.CXX.get()
    status: Status = "missing" if needed else "optional"
    words = shlex.split(named) or ["g++"]
    try:
        run = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as cause:
        reason = "not here" if isinstance(cause, FileNotFoundError) else str(cause)
        return Check("C++ compiler", status, f"{named}: {reason} (CPU kernels)", "apt install g++, or name one in CXX")
    return Check("C++ compiler", "ok", run.stdout.partition("\n")[0])


def _lab() -> Check:
    """cuda-core and NVRTC, without which the lab times a CPU only."""
    from fusewise.lab.compile import HOW_TO_INSTALL, core

    if core() is None:
        return Check("cuda-core", "optional", "not here, or without NVRTC (`fusewise lab` on a GPU)", HOW_TO_INSTALL)
    return Check("cuda-core", "ok", f"{metadata.version('cuda-core')}, with NVRTC")


def _cpu() -> Check:
    from fusewise.device import calibrated, probe_cpu

    cpu = calibrated(probe_cpu())
    rate = cpu.figures.copy_bytes_per_s
    found = f"{cpu.title}, {cpu.cores} cores, {cpu.isa}"
    if rate is None:
        return Check("CPU", "optional", f"{found}; memory rate not measured", "fusewise device calibrate")
    return Check("CPU", "ok", f"{found}, copies {rate.value / 1e9:.1f} GB/s")


def _cache_check(cache: CacheState) -> Check:
    size = f"{cache.entries} entries, {cache.bytes / 1e6:.1f} MB in {cache.folder}"
    if not cache.writable:
        remedy = f"Free it, or name another folder in {config.CACHE_DIR.name}"
        return Check("kernel cache", "optional", f"{cache.folder}: {cache.problem}", remedy)
    if cache.damaged:
        return Check("kernel cache", "ok", f"{size}; {len(cache.damaged)} damaged, made again when needed")
    return Check("kernel cache", "ok", size)


def cache_state() -> CacheState:
    """The state of the kernel cache; makes the folder where it is missing."""
    folder = config.cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".doctor.{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as cause:
        return CacheState(str(folder), False, problem=f"cannot be written: {cause.strerror or cause}")
    entries = [p for p in folder.glob("*/??/*") if p.is_file() and p.suffix != ".lock" and not p.name.startswith(".")]
    sizes = [p.stat().st_size for p in entries]
    damaged = [str(p) for p in entries if not _is_whole(p)]
    return CacheState(str(folder), True, len(entries), sum(sizes), tuple(damaged))


class _Damaged(Exception):
    """Raised in place of making an entry anew."""


def _is_whole(entry: Path) -> bool:
    from fusewise.runtime import cache

    def refuse() -> bytes:
        raise _Damaged

    kind, key = entry.parent.parent.name, entry.parent.name + entry.name.removesuffix(entry.suffix)
    try:
        cache.fetch(kind, key, refuse, entry.suffix)
    except _Damaged:
        return False
    return True


def _version(text: str) -> tuple[int, int]:
    numbers = text.split(".")
    return int(numbers[0]), int(numbers[1])
