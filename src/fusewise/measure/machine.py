"""What a measurement stood on: device, versions, commit, date."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import torch

CPU_INFO = Path("/proc/cpuinfo")


def device_name(device: str) -> str:
    """The GPU's name, or the CPU's with the number of threads that PyTorch uses."""
    if torch.device(device).type == "cuda":
        return str(torch.cuda.get_device_name(device))
    model = platform.machine()
    if CPU_INFO.is_file():
        for line in CPU_INFO.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                model = value.strip()
                break
    return f"{model}, {torch.get_num_threads()} threads"


def versions() -> dict[str, str]:
    """Versions of what shapes a time, by name; what is not installed is left out."""
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    for package in ("triton", "fusewise", "liger-kernel"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found


def commit() -> str | None:
    """The commit of the checkout that this code lies in, with "+changes" if it has any; None outside one."""
    folder = Path(__file__).parent
    head = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not head:
        return None
    return head + ("+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        run = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()


def now() -> str:
    """The time in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def free_cpu_bytes() -> int | None:
    """Memory that the system can still hand out; None where it does not say."""
    info = Path("/proc/meminfo")
    if info.is_file():
        for line in info.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
