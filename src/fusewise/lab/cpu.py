"""The lab on this CPU: kernels in C++, one thread a core, the wall clock."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fusewise.device.cpu import CpuModel, probe_cpu
from fusewise.errors import UsageError
from fusewise.lab import cpu_source
from fusewise.lab.backend import Call, Prepared
from fusewise.lab.chain import ELEMENT_BYTES, Floats, make_input
from fusewise.lab.spec import BUFFERS, LIVE_UNIT, Bounds, Settings, Spec
from fusewise.measure.machine import free_cpu_bytes
from fusewise.runtime.cpp import build, find_compiler

ROUNDS = 1
_ALIGN_BYTES = 64


@dataclass(frozen=True, slots=True)
class _Buffers:
    n: int
    x: Floats
    a: Floats
    b: Floats
    y: Floats


class CpuBackend:
    """See `Backend`; raises `CompilerMissing` where there is no C++ compiler."""

    fma = False

    def __init__(self, model: CpuModel | None = None) -> None:
        """`model`: this machine's processor; None: probed now."""
        model = model or probe_cpu()
        find_compiler()
        lanes = int(model.figure("vector_bits").value) // 32
        self._lanes = lanes
        self._buffers: _Buffers | None = None
        self._model = model
        self.name = "cpu"
        self.title = f"{model.title}, {torch.get_num_threads()} threads"
        cache = int(model.figure("l3_bytes").value) or int(model.figure("l2_bytes").value)
        self.bounds = Bounds(is_gpu=False, cache_bytes=cache, widths=tuple(sorted({1, min(4, lanes), lanes})))

    def prepare(self, spec: Spec, settings: Settings) -> Prepared:
        """See `Backend`."""
        if settings.block is not None or settings.grid is not None:
            raise UsageError("--block and --grid are a GPU's.", "On a CPU there is one block a thread: leave them out.")
        held = self._buffers_for(spec.n)
        kernel = build(cpu_source.source_of(spec)).function(cpu_source.ENTRY)
        arguments = [*(buffer.ctypes.data for buffer in (held.x, held.a, held.b, held.y)), spec.n]
        if spec.kind in ("fat", "thin"):
            arguments += [ROUNDS, cpu_source.SENTINEL_BITS, spec.live // LIVE_UNIT]
        result = held.y
        if spec.kind.startswith("naive"):
            last = cpu_source.places(spec)[-1][1]
            result = held.y if spec.kind == "naive_copies" and last == "a" else getattr(held, last)

        def clear() -> None:
            for buffer in (held.a, held.b, held.y):
                buffer.fill(np.nan)

        def call() -> None:
            kernel(*arguments)

        return Prepared(call=call, clear=clear, result=lambda: result, block=1, grid=torch.get_num_threads())

    def time_ms(self, call: Call) -> float:
        """See `Backend`."""
        begin = time.perf_counter_ns()
        call()
        return (time.perf_counter_ns() - begin) / 1e6

    def state(self) -> dict[str, str]:
        """See `Backend`."""
        found = {"load average": " ".join(f"{load:.2f}" for load in os.getloadavg())}
        clocks = [
            float(line.partition(":")[2]) for line in _read("/proc/cpuinfo").splitlines() if line.startswith("cpu MHz")
        ]
        if clocks:
            found["clock"] = f"{min(clocks):.0f} to {max(clocks):.0f} MHz"
        governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
        found["governor"] = governor or "not told"
        limit = _read("/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw").strip()
        found["power limit"] = f"{int(limit) / 1e6:.0f} W" if limit.isdigit() else "not told"
        return found

    def describe(self) -> dict[str, str]:
        """See `Backend`."""
        version = find_compiler().identity.splitlines()
        return {
            "CPU": self.title,
            "vectors": f"{self._lanes} floats ({self._model.isa})",
            "vector registers": str(16 if self._model.isa == "avx2" else 32),  # AVX-512 and NEON have 32
            "compiler": version[1] if len(version) > 1 else version[0],
        }

    def _buffers_for(self, n: int) -> _Buffers:
        if self._buffers is not None and self._buffers.n == n:
            return self._buffers
        self._buffers = None
        free = free_cpu_bytes()
        needed = (BUFFERS + 2) * n * ELEMENT_BYTES  # two more while results are compared
        if free is not None and needed > free:
            raise UsageError(f"n is {n}, which needs {needed} bytes of memory, and {free} are free.")
        self._buffers = _Buffers(n, *(_aligned(n) for _ in range(BUFFERS)))
        self._buffers.x[:] = make_input(n)
        return self._buffers


def _aligned(n: int) -> Floats:
    """`n` floats that start on a cache line, in memory that has been touched."""
    raw = np.zeros(n * ELEMENT_BYTES + _ALIGN_BYTES, dtype=np.uint8)
    start = -raw.ctypes.data % _ALIGN_BYTES
    found: Floats = raw[start : start + n * ELEMENT_BYTES].view(np.float32)
    found.fill(0.0)
    return found


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
