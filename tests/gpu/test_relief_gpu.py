"""Kernels with a cap on their registers, and with spills in shared memory, on a CUDA GPU: eager's values."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton")

from fusewise import trace
from fusewise.backend import Backend
from fusewise.codegen.triton import module
from fusewise.config import Options
from fusewise.errors import CompilerMissing
from fusewise.lower.kernel import Kernel, TritonSchedule
from fusewise.plan.schedule import schedule_text
from fusewise.runtime.gpu_resources import Resources
from fusewise.runtime.shared_spill import require_shared_spilling
from fusewise.runtime.triton import GpuTarget, Launcher

pytestmark = pytest.mark.gpu

CAP = 32


def wide(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    """Values that every output needs, in another order each: more than the capped registers hold."""
    values = [torch.sigmoid(x * w[i]) for i in range(40)]
    found = []
    for o in range(3):
        total = values[o]
        for i in range(1, 40):
            total = total * 0.5 + values[(o + i * (2 * o + 1)) % 40]
        found.append(total)
    return found


def softmaxes(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    """A row kernel: reductions across warps, with dynamic shared memory."""
    return [torch.softmax(x * w[0], -1), torch.softmax(x * w[1], -1) + x]


def run(function: object, args: tuple[torch.Tensor, ...], pins: tuple[tuple[str, str], ...]) -> list[torch.Tensor]:
    torch._dynamo.reset()
    backend = Backend(Options(strict=True, fission="never", schedules=pins))
    result: list[torch.Tensor] = torch.compile(function, backend=backend)(*args)  # type: ignore[call-overload]
    return result


def used(kernel: Kernel) -> Resources:
    return Launcher(module([kernel], False), kernel, torch.device("cuda")).resources(sass=False)


@pytest.mark.parametrize(("function", "shape"), [(wide, (1 << 20,)), (softmaxes, (512, 4096))])
def test_a_capped_kernel_equals_eager(function: object, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    args = torch.randn(shape, device="cuda"), torch.randn(40, device="cuda")
    run(function, args, ())
    plain = dict(trace.compiled()[-1].kernels)
    pins = tuple((name, f"{_own(kernel)} n{CAP}") for name, kernel in plain.items())
    found = run(function, args, pins)
    capped = trace.compiled()[-1].kernels
    assert capped and all(used(kernel).regs_per_thread <= CAP for kernel in capped.values())
    for one, eager in zip(found, function(*args), strict=True):  # type: ignore[operator]
        torch.testing.assert_close(one, eager)


def test_spills_in_shared_memory_equal_eager() -> None:
    major, minor = torch.cuda.get_device_capability()
    try:
        require_shared_spilling(GpuTarget(10 * major + minor))
    except CompilerMissing as cause:
        pytest.skip(cause.problem)
    torch.manual_seed(0)
    args = torch.randn(1 << 20, device="cuda"), torch.randn(40, device="cuda")
    run(wide, args, ())
    plain = dict(trace.compiled()[-1].kernels)
    pins = tuple((name, f"{_own(kernel)} n{CAP} shared") for name, kernel in plain.items())
    found = run(wide, args, pins)
    spilled = [used(kernel).shared_spill_bytes for kernel in trace.compiled()[-1].kernels.values()]
    assert max(spilled) > 0
    for one, eager in zip(found, wide(*args), strict=True):
        torch.testing.assert_close(one, eager)


def _own(kernel: Kernel) -> str:
    """The text of a kernel's tile alone."""
    assert isinstance(kernel.schedule, TritonSchedule)
    return schedule_text(replace(kernel.schedule, maxnreg=None, spill_to_shared=False))
