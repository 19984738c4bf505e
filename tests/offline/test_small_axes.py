"""Programs over axes of no and one element compile for a GPU that is not there: alone, and several in a launch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.codegen.triton import module
from fusewise.config import Options
from fusewise.lower.launch import BundledKernel
from fusewise.pipeline import launch_units, machine_of, plan_captured
from fusewise.runtime.triton import GpuTarget, compile_kernels
from tests.small_axes import DTYPES, SHAPES, gathers, pairs, reductions

MACHINE = machine_of("h200", use_measured=False)


def compiled(fn: Any, *args: Any) -> list[Any]:
    """The launches of a call, each compiled for cc 9.0."""
    found: list[Any] = []
    for traced in trace_fn(fn, args, device="cuda"):
        captured = import_graph(traced.gm, traced.example_inputs, "balanced", "cuda", strict=True)
        plan, kernels = plan_captured(captured, Options(strict=True, check=True), MACHINE)
        units = list(launch_units(plan, kernels).values())
        assert set(compile_kernels(module(units, False), units, GpuTarget(90))) == {unit.name for unit in units}
        found += units
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_reduction_of_a_small_axis_compiles(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, y = (torch.empty(shape, dtype=dtype, device="meta") for _ in range(2))
    assert compiled(reductions, x, y, torch.empty(shape[:1], dtype=dtype, device="meta"))
    assert compiled(gathers, x, torch.empty(min(1, shape[0]), dtype=torch.int64, device="meta"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_small_programs_in_one_launch_compile(dtype: torch.dtype) -> None:
    xs, ys = ([torch.empty(shape, dtype=dtype, device="meta") for shape in SHAPES] for _ in range(2))
    assert any(isinstance(unit, BundledKernel) for unit in compiled(pairs, xs, ys))


@pytest.mark.parametrize("rows", [1, 7])
def test_positions_that_are_computed_from_what_they_are_read_from(rows: int) -> None:
    def quantile(x: torch.Tensor) -> torch.Tensor:
        place = (x[:1] * 0 + 0.3 * (rows - 1)).masked_fill(x.isnan().any(0, keepdim=True), 0)
        below, above = place.long(), place.ceil().long()
        return torch.lerp(x.gather(0, below), x.gather(0, above), place - below)

    assert compiled(quantile, torch.empty((rows, 1), device="meta"))
