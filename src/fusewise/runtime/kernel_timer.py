"""Times single kernels on the GPU that is here, on memory of its own, to choose between schedules."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from fusewise.capture.types import TO_TORCH
from fusewise.codegen.triton import module
from fusewise.ir.affine import upper_bound
from fusewise.ir.dtypes import DType
from fusewise.ir.sizes import hint
from fusewise.lower.kernel import Kernel, Load, Store
from fusewise.runtime.triton import Launcher

_ROUNDS = 15
_WARMUPS = 3
_FLUSH_BYTES = 256 << 20  # more than any last-level cache holds


class KernelTimer:
    """Time of a launch in microseconds: the median of some, the cache emptied before each.

    Args:
        device: `cuda` or `cuda:1`.
        exact: as for `codegen.triton.module`.
    """

    def __init__(self, device: str, exact: bool) -> None:
        self.device = torch.device(device)
        self.exact = exact

    def __call__(self, kernel: Kernel, hints: Mapping[str, int]) -> float | None:
        """None where the kernel cannot be run on made-up data, or memory does not suffice."""
        elements = buffer_elements(kernel, hints)
        if elements is None:
            return None
        with unset_fake_temporarily():  # a forward is compiled while tensors are fake
            return self._time(kernel, elements, hints)

    def _time(self, kernel: Kernel, elements: list[int], hints: Mapping[str, int]) -> float | None:
        try:
            buffers = [
                # a seed is on the host, as in most calls: the variant that was compiled to be priced is timed
                torch.full(
                    (n,), _made_up(b.dtype), dtype=TO_TORCH[b.dtype.name], device="cpu" if b.seed else self.device
                )
                for n, b in zip(elements, kernel.buffers, strict=True)
            ]
            flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=self.device)
        except torch.OutOfMemoryError:
            return None
        launch = Launcher(module([kernel], self.exact), kernel, self.device).launch
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream()
            pairs = zip(buffers, kernel.buffers, strict=True)
            given = [tensor if buffer.seed else tensor.data_ptr() for tensor, buffer in pairs]
            arguments = [stream.cuda_stream, *given, *(hints[s] for s in kernel.sizes)]
            for _ in range(_WARMUPS):
                launch(*arguments)
            samples: list[tuple[Any, Any]] = []
            for _ in range(_ROUNDS):
                flush.zero_()
                begin, end = _event(), _event()
                begin.record(stream)
                launch(*arguments)
                end.record(stream)
                samples.append((begin, end))
            torch.cuda.synchronize(self.device)
        return 1000.0 * float(median(begin.elapsed_time(end) for begin, end in samples))


def _made_up(dtype: DType) -> int:
    """0; of integers a large number: lengths and bounds then mask nothing off, and all of the work is done."""
    return min(1 << 20, torch.iinfo(TO_TORCH[dtype.name]).max) if dtype.is_integer else 0


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def buffer_elements(kernel: Kernel, hints: Mapping[str, int]) -> list[int] | None:
    """Elements that each buffer must have for the kernel to run on it; None where an index is data, with no bound."""
    sizes = kernel.axis_sizes()
    found = [1] * len(kernel.buffers)
    for instr in kernel.body:
        if isinstance(instr, (Load, Store)):
            bound = upper_bound(instr.index, sizes)
            if bound is None:
                return None
            found[instr.buffer] = max(found[instr.buffer], hint(bound, hints) + 1)
    return found
