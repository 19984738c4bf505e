"""Whole programs planned for a GPU and run under Triton's interpreter, on the CPU's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from fusewise import pipeline
from fusewise.codegen.triton import module
from fusewise.ir.sizes import hint
from fusewise.lower.kernel import Buffer
from fusewise.lower.launch import LaunchUnit
from fusewise.pipeline import machine_of
from fusewise.runtime.program import TORCH_DTYPES, Launch
from fusewise.runtime.triton import grid_of, load_module


def plan_for_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled from here on for the CPU gets an H200's kernels, which the interpreter runs."""
    gpu = machine_of("h200", use_measured=False)
    monkeypatch.setattr(pipeline, "machine_of", lambda device: gpu)
    monkeypatch.setattr(pipeline, "compiler_for", lambda machine, policy: None)
    monkeypatch.setattr(pipeline, "build_kernels", _interpreted)


def _interpreted(units: Mapping[str, LaunchUnit], device: str, exact: bool) -> tuple[str, dict[str, Launch], str]:
    source = module(list(units.values()), exact)
    return source, {name: _launch(source, unit) for name, unit in units.items()}, ""


def _launch(source: str, unit: LaunchUnit) -> Launch:
    function = getattr(load_module(source), unit.name)

    def launch(*arguments: int) -> None:
        pointers, sizes = arguments[: len(unit.buffers)], arguments[len(unit.buffers) :]
        values = dict(zip(unit.sizes, sizes, strict=True))
        if grid := grid_of(unit, values):
            held = [_memory(b, p, values) for b, p in zip(unit.buffers, pointers, strict=True)]
            function[(grid,)](*held, *sizes)

    return launch


def _memory(buffer: Buffer, pointer: int, sizes: Mapping[str, int]) -> torch.Tensor:
    """The elements at an address, as a tensor that shares them."""
    dtype = TORCH_DTYPES[buffer.dtype.name]
    count = max(0, hint(buffer.extent, sizes) + 1)
    if not pointer or not count:  # of an empty tensor
        return torch.empty(0, dtype=dtype)
    room: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(pointer)
    return torch.frombuffer(room, dtype=dtype)
