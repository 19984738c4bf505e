"""Which variant of a kernel a launch takes, and with which arguments; no GPU is asked for anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from fusewise.ir.affine import axis
from fusewise.ir.dtypes import BOOL, F32, I64
from fusewise.lower.kernel import Axis, Kernel
from fusewise.plan.schedule import TritonSchedule
from fusewise.runtime import triton as launching
from fusewise.runtime.triton import Launcher
from tests.cpu.cpp_kernels import Make, at

STREAM = 7


@dataclass
class OnGpu:
    """What a launch sees of a tensor on the GPU."""

    address: int
    is_cpu: bool = False

    def to(self, device: torch.device) -> OnGpu:
        assert device.type == "cuda"
        return self

    def data_ptr(self) -> int:
        return self.address


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[tuple[bool, bool], tuple[int, ...]]]]:
    """The variants that ran, (aligned, numbers), each with its arguments; kernels are neither compiled nor loaded."""
    found: list[tuple[tuple[bool, bool], tuple[int, ...]]] = []

    @contextmanager
    def nothing(_index: int) -> Iterator[None]:
        yield

    def bind(compiled: Any, _kernel: Any, _index: int, _numbers: bool) -> Any:
        return lambda *args: found.append((compiled, args))

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "device", nothing)
    monkeypatch.setattr(
        launching, "compile_kernel", lambda source, kernel, target, aligned, numbers: (aligned, numbers)
    )
    monkeypatch.setattr(launching, "_bind", bind)
    yield found


def scheduled(make: Make) -> Kernel:
    return replace(make.done(), schedule=TritonSchedule((), ("x0",), 1, 1024, 1, True, 4))


def doubled() -> Kernel:
    m = Make("doubled", [Axis("x0", 4096)], None)
    m.store("o", at(("x0", 1)), m.op("mul", m.load("a", F32, at(("x0", 1))), m.const(2.0, F32)))
    return scheduled(m)


def masked() -> Kernel:
    m = Make("masked", [Axis("x0", 4096)], None)
    kept = m.random("keep", m.load("seed", I64, at()), axis("x0"), 0, 0.5, BOOL)
    m.store("o", at(("x0", 1)), m.op("where", kept, m.load("a", F32, at(("x0", 1))), m.const(0.0, F32)))
    return scheduled(m)


def launcher(kernel: Kernel) -> Launcher:
    return Launcher("source", kernel, torch.device("cuda", 0))


def test_what_is_not_aligned_takes_the_general_variant(calls: list[Any]) -> None:
    launch = launcher(doubled()).launch
    launch(STREAM, 4096, 8192)
    launch(STREAM, 4096, 8196)
    launch(STREAM, 4096, 8192)
    assert calls == [
        ((True, True), (4, STREAM, 4096, 8192)),
        ((False, True), (4, STREAM, 4096, 8196)),
        ((True, True), (4, STREAM, 4096, 8192)),
    ]


@pytest.mark.parametrize("seed", [5, -1, 2**62 + 3, -(2**63)])
def test_a_seed_of_the_host_is_a_number(calls: list[Any], seed: int) -> None:
    kernel = masked()
    assert [b.seed for b in kernel.buffers] == [True, False, False]
    launch = launcher(kernel).launch
    launch(STREAM, torch.tensor(seed), 4096, 8192)
    launch(STREAM, torch.tensor(seed), 4100, 8192)
    assert calls == [
        ((True, True), (4, STREAM, seed, 4096, 8192)),
        ((False, True), (4, STREAM, seed, 4100, 8192)),
    ]


def test_a_seed_of_the_gpu_is_an_address(calls: list[Any]) -> None:
    launch: Any = launcher(masked()).launch
    launch(STREAM, OnGpu(24), 4096, 8192)  # its own address need not be aligned
    launch(STREAM, OnGpu(24), 4100, 8192)
    assert calls == [
        ((True, False), (4, STREAM, 24, 4096, 8192)),
        ((False, False), (4, STREAM, 24, 4100, 8192)),
    ]


def test_a_variant_that_cannot_be_made_leaves_the_others(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def aligned_only(_source: str, _kernel: Any, _target: Any, aligned: bool, numbers: bool) -> Any:
        if not aligned:
            raise RuntimeError("no general variant today")
        return (aligned, numbers)

    monkeypatch.setattr(launching, "compile_kernel", aligned_only)
    launch = launcher(doubled()).launch
    launch(STREAM, 4096, 8192)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no general variant"):
            launch(STREAM, 4096, 8196)
    launch(STREAM, 4096, 8192)
    assert [variant for variant, _ in calls] == [(True, True)] * 2
