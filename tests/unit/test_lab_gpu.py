"""The lab's own logic on a GPU, over a device that computes with numpy: launches, buffers, copies, graphs, limits."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fusewise.device.arch import list_archs, load_arch
from fusewise.device.model import load_gpu
from fusewise.device.occupancy import occupancy
from fusewise.errors import UnknownName, UsageError, VerifyMismatch
from fusewise.lab import gpu
from fusewise.lab.backend import Call
from fusewise.lab.chain import Floats, expected, has_relu, scale_of, shift_of
from fusewise.lab.compile import Compiled
from fusewise.lab.gpu import GpuBackend, model_of, throttle_bytes
from fusewise.lab.run import Result, run
from fusewise.lab.spec import VERBS, Settings, Spec, Verb
from fusewise.runtime.gpu_resources import Resources

PAGE = 1 << 32
SETTINGS = {"n": 4096, "runs": 30, "warmup": 1}


class FakeDriver:
    """A device whose kernels are numpy functions; its clock counts what has been started."""

    name = "NVIDIA H200"
    sm_count = 4
    cache_bytes = 1 << 20
    memory_bytes = 1 << 30

    def __init__(self) -> None:
        self.memory: dict[int, Floats] = {}
        self.shared: dict[int, int] = {}
        self.started: list[str] = []
        self.recording = False
        self._next = PAGE

    def load(self, cubin: bytes, entry: str) -> Any:
        return pickle.loads(cubin)

    def allocate(self, size_bytes: int) -> int:
        address, self._next = self._next, self._next + PAGE
        self.memory[address] = np.full(size_bytes // 4, np.nan, dtype=np.float32)
        return address

    def free(self, address: int) -> None:
        del self.memory[address]

    def upload(self, address: int, data: Floats) -> None:
        self.memory[address][:] = data

    def download(self, address: int, n: int) -> Floats:
        return self.memory[address][:n].copy()

    def copier(self, target: int, source: int, size_bytes: int) -> Call:
        def work() -> None:
            self.memory[target][: size_bytes // 4] = self.memory[source][: size_bytes // 4]

        return self._starter("copy", work)

    def filler(self, address: int, word: int, count: int) -> Call:
        def work() -> None:
            self.memory[address][:count].view(np.uint32)[:] = word

        return self._starter("fill", work)

    def launcher(
        self,
        kernel: Any,
        grid: int,
        block: int,
        arguments: Sequence[np.generic],
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> Call:
        spec, phase = kernel
        assert cooperative == (spec.kind == "phases_one")
        assert all(isinstance(argument, np.generic) for argument in arguments)
        name = spec.tag + (f" {shared_bytes}" if shared_bytes else "")
        return self._starter(name, lambda: self.compute(spec, phase, arguments))

    def compute(self, spec: Spec, phase: int, arguments: Sequence[Any]) -> None:
        if spec.kind.startswith("naive"):
            x, y, count, scale, shift, relu = arguments
            result = scale * self.memory[x] + shift
            self.memory[y][:] = np.maximum(result, np.float32(0)) if relu else result
            assert count * spec.width == spec.n
        elif spec.kind == "phases_one":
            x, t, y, n, half, _ = arguments
            self.memory[t][:] = self.chain(self.memory[x], 0, spec.k // 2)
            self.memory[y][:] = np.roll(self.chain(self.memory[t], spec.k // 2, spec.k), -int(half))
        elif spec.kind.startswith("phases"):
            source, target = arguments[0], arguments[1]
            first, last = ((0, spec.k // 2), (spec.k // 2, spec.k))[phase]
            result = self.chain(self.memory[source], first, last)
            self.memory[target][:] = np.roll(result, -int(arguments[3])) if phase else result
        else:
            self.memory[arguments[1]][:] = self.chain(self.memory[arguments[0]], 0, spec.k)
            assert int(arguments[2]) * spec.width == spec.n

    def chain(self, values: Floats, first: int, last: int) -> Floats:
        for stage in range(first, last):
            values = scale_of(stage) * values + shift_of(stage)
            values = np.maximum(values, np.float32(0)) if has_relu(stage) else values
        return values

    def _starter(self, name: str, work: Callable[[], None]) -> Call:
        def start() -> None:
            self.started.append(name)
            work()

        return start

    def graph(self, calls: Sequence[Call]) -> Call:
        held = list(calls)
        return self._starter("graph", lambda: [call() for call in held] and None)

    def allow_shared(self, kernel: Any, shared_bytes: int) -> None:
        self.shared[id(kernel)] = shared_bytes

    def blocks_per_sm(self, kernel: Any, block: int, shared_bytes: int) -> int:
        return occupancy(load_arch("9.0"), 32, shared_bytes, block).blocks_per_sm

    def time_ms(self, call: Call) -> float:
        before = len(self.started)
        call()
        return float(len(self.started) - before)

    def state(self) -> dict[str, str]:
        return {"driver": "580", "power limit": "700 W"}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    def compile_row(spec: Spec, block: int, model: Any, phase: int = 0) -> Compiled:
        resources = Resources(32 + spec.live, 0, 0, 0, 0, block // 32)
        return Compiled(pickle.dumps((spec, phase)), resources, "none")

    monkeypatch.setattr(gpu, "compile_row", compile_row)
    monkeypatch.setattr(gpu, "compiler_name", lambda arch: "none")
    return FakeDriver()


def backend_of(driver: FakeDriver) -> GpuBackend:
    made = GpuBackend(driver, load_gpu("h200"))
    made.fma = False  # type: ignore[misc] # numpy rounds the product and the sum
    return made


def measured(verb: Verb, driver: FakeDriver, **given: Any) -> Result:
    return run(verb, Settings(**(SETTINGS | given)), backend_of(driver))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_gives_exact_rows(verb: Verb, driver: FakeDriver) -> None:
    found = measured(verb, driver, k=(2, 5))
    assert found.rows and all(row.verified and row.runs == 30 for row in found.rows)
    assert all(row.occ_blocks_per_sm and row.regs_per_thread for row in found.rows)
    assert found.machine["driver, before"] == "580" and found.machine["power limit, after"] == "700 W"


@pytest.mark.parametrize("published", [False, True])
def test_naive_starts_what_it_says(driver: FakeDriver, published: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fusewise.lab.published.N", 4096)
    monkeypatch.setattr("fusewise.lab.spec.DEFAULT_N", 4096)
    given: dict[str, Any] = {"published": True, "n": None} if published else {"k": (2, 3, 8)}
    for row in measured("naive", driver, **given).rows:
        started = row.launches + row.k if row.kind == "naive_graph" else row.launches
        assert row.median_ms == started, row.tag


def test_the_published_probe_is_timed_with_its_memset(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fusewise.lab.published.N", 4096)
    found = measured("modes", driver, published=True, n=None)
    fat = next(row for row in found.rows if row.kind == "fat_published")
    assert (fat.tag, fat.median_ms) == ("fat_published_t48", 2.0)


def test_residency_is_throttled_by_shared_memory(driver: FakeDriver) -> None:
    rows = [row for row in measured("fat", driver).rows if row.shared_bytes]
    assert [row.occ_blocks_per_sm for row in rows] == [*range(1, 9), *range(1, 9)]


@pytest.mark.parametrize("name", [name for name in list_archs() if not name.startswith("gfx")])
def test_throttling_gives_the_wanted_residency_on_every_architecture(name: str) -> None:
    arch = load_arch(name)
    free = occupancy(arch, 24, 0, 256).blocks_per_sm
    for blocks in range(1, free + 1):
        found = occupancy(arch, 24, throttle_bytes(arch, blocks), 256)
        assert found.blocks_per_sm == blocks, (name, blocks)


def test_a_kernel_that_is_wrong_is_found(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    right = driver.compute

    def compute(spec: Spec, phase: int, arguments: Sequence[Any]) -> None:
        right(spec, phase, arguments)
        if spec.tag == "fused_w4":
            driver.memory[int(arguments[1])][-1] += 1

    monkeypatch.setattr(driver, "compute", compute)
    assert [row.tag for row in measured("fused", driver).wrong] == ["fused_w4"]


def test_a_kernel_that_does_not_write_is_found(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    right = driver.compute

    def compute(spec: Spec, phase: int, arguments: Sequence[Any]) -> None:
        if spec.tag != "fused_w2":  # its result would be that of the row before it
            right(spec, phase, arguments)

    monkeypatch.setattr(driver, "compute", compute)
    assert [row.tag for row in measured("fused", driver).wrong] == ["fused_w2"]


def test_a_kernel_that_is_right_only_at_first_is_found(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    right = driver.compute

    def compute(spec: Spec, phase: int, arguments: Sequence[Any]) -> None:
        right(spec, phase, arguments)
        if driver.started.count(spec.tag) > 20:
            driver.memory[int(arguments[1])][0] = np.nan

    monkeypatch.setattr(driver, "compute", compute)
    with pytest.raises(VerifyMismatch, match="does not repeat"):
        measured("fused", driver)


def test_buffers_follow_n_and_nothing_leaks(driver: FakeDriver) -> None:
    backend = backend_of(driver)
    for n in (4096, 8192, 4096):
        ready = backend.prepare(Spec("fused", 3, n), Settings())
        ready.call()
        assert np.array_equal(ready.result(), expected(n, 3, fma=False))
    assert len(driver.memory) == 5  # four buffers and the scratch


def test_what_does_not_fit_is_said_in_one_line(driver: FakeDriver) -> None:
    backend = backend_of(driver)
    with pytest.raises(UsageError, match="4 buffers of it need"):
        backend.prepare(Spec("fused", 3, 1 << 27), Settings())
    with pytest.raises(UsageError, match="needs every block resident"):
        backend.prepare(Spec("phases_one", 4, 4096), Settings(grid=1000))
    assert backend.prepare(Spec("phases_one", 4, 1 << 16), Settings()).grid == 8 * driver.sm_count
    assert backend.prepare(Spec("fused", 4, 1 << 16, width=4), Settings()).grid == (1 << 16) // 1024


def test_the_driver_s_names_of_gpus() -> None:
    assert model_of("NVIDIA H200").name == "h200"
    assert model_of("NVIDIA A100-SXM4-80GB").name == "a100"
    assert model_of("NVIDIA GeForce RTX 5090").name == "rtx5090"
    with pytest.raises(UnknownName, match="unknown GPU"):
        model_of("Voodoo 2")
