"""Mean and squared deviations of rows: what is taken for them, in parts and in one read, and what is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.config import Options
from fusewise.lower.kernel import Kernel, Reduce, Store, TritonSchedule
from fusewise.pipeline import machine_of, plan_captured

MACHINE = machine_of("h200", use_measured=False)
ROWS, COLUMNS = 512, 65536


def kernels_of(function: Callable[..., object], *shapes: tuple[int, ...], role: str = "inference") -> list[Kernel]:
    """The kernels of a function of bf16 tensors, planned for a GPU that is not there."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        given = tuple(torch.empty(s, dtype=torch.bfloat16, requires_grad=role == "backward") for s in shapes)
    found: list[Kernel] = []
    for traced in trace_fn(function, given, {}, "cuda"):
        if traced.role == role:
            captured = import_graph(traced.gm, traced.example_inputs, "balanced", "cuda")
            found += plan_captured(captured, Options(), MACHINE, None)[1].values()
    return found


def norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def by_hand(x: torch.Tensor) -> torch.Tensor:
    x = x.float()
    off = x - x.mean(-1, keepdim=True)
    return off * torch.rsqrt((off * off).mean(-1, keepdim=True) + 1e-5)


def centred(kernel: Kernel) -> list[Reduce]:
    return [i for i in kernel.body if isinstance(i, Reduce) and i.centred]


def test_rows_that_stay_in_the_cache_are_one_kernel_of_two_passes() -> None:
    (kernel,) = kernels_of(norm, (ROWS, COLUMNS))
    assert len(centred(kernel)) == 1 and len(kernel.passes) == 2


def test_a_program_s_own_squares_keep_two_passes() -> None:
    (kernel,) = kernels_of(by_hand, (ROWS, COLUMNS))
    assert not centred(kernel) and len(kernel.passes) == 3


@pytest.mark.parametrize(("rows", "columns"), [(ROWS, 8192), (64, COLUMNS), (ROWS, 1 << 20)])
def test_rows_on_chip_and_rows_in_parts_have_no_such_sum(rows: int, columns: int) -> None:
    kernels = kernels_of(norm, (rows, columns))
    assert kernels and not any(map(centred, kernels))


@pytest.mark.parametrize("divisor", [COLUMNS - 1, 1000.0])
def test_a_sum_over_another_count_is_no_mean(divisor: float) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = x.float()
        return ((x - x.sum(-1, keepdim=True) / divisor) ** 2).sum(-1)

    for rows in (ROWS, 64):
        kernels = kernels_of(function, (rows, COLUMNS))
        assert kernels
        for kernel in kernels:
            assert not centred(kernel)
            # in parts the two sums would be combined by Chan's update, which needs the mean
            assert sum(isinstance(i, Reduce) for i in kernel.body) <= 2


@pytest.mark.parametrize(("rows", "columns"), [(256, 1 << 16), (256, 1 << 18), (4096, 1 << 14), (16, 1 << 22)])
def test_long_rows_are_not_walked_and_what_is_cheap_is_computed_again(rows: int, columns: int) -> None:
    """Kernels that walk rows would be few, or hold more sums than registers; what the parts share is not stored."""

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (columns,), weight, bias)

    kernels = kernels_of(function, (rows, columns), (columns,), (columns,), role="backward")
    assert kernels
    for kernel in kernels:
        assert not kernel.loop
        for instr in kernel.body:
            if isinstance(instr, Store):
                whole = kernel.buffers[instr.buffer]
                assert whole.dtype.bytes == 2 or isinstance(whole.extent, int) and whole.extent < rows * columns // 2


def test_few_rows_are_summed_over_a_few_at_a_time() -> None:
    (kernel,) = kernels_of(lambda x: x.float().cos().sum(0), (16, 1 << 20))
    schedule = kernel.schedule
    assert isinstance(schedule, TritonSchedule) and not schedule.persistent
    assert (schedule.x_block, schedule.r_block) == (1024, 2)
