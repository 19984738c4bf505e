"""The lab on a CUDA device: every row exact, from CUDA C++ and from PTX, and the driver's occupancy is ours."""

from __future__ import annotations

import pytest

from fusewise.device.occupancy import occupancy
from fusewise.lab import compile as lab_compile
from fusewise.lab.driver import CudaDriver, open_driver
from fusewise.lab.gpu import GpuBackend, model_of
from fusewise.lab.run import run
from fusewise.lab.spec import VERBS, Settings, Spec, Verb

pytestmark = pytest.mark.gpu

SMALL = {"n": 1 << 18, "k": (2, 5), "runs": 30, "warmup": 2, "fat_temps": (8, 48, 240)}


@pytest.fixture(scope="module")
def driver() -> CudaDriver:
    found = open_driver()
    if found is None:
        pytest.skip("cuda-core with NVRTC is not here")
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_gives_exact_rows(verb: Verb, driver: CudaDriver) -> None:
    backend = GpuBackend(driver, model_of(driver.name))
    found = run(verb, Settings(**SMALL), backend)  # type: ignore[arg-type]
    assert found.rows and not found.wrong, [row.tag for row in found.wrong]
    assert found.machine["driver, before"]


def test_a_kernel_that_was_compiled_before_still_says_what_it_uses(driver: CudaDriver) -> None:
    """With a driver NVRTC would take the second one from its cache, without a word."""
    model = model_of(driver.name)
    first, again = (lab_compile.compile_row(Spec("fused", 7, 4096), 256, model).resources for _ in range(2))
    assert first == again and first.regs_per_thread >= 8


def test_the_published_protocol_runs(driver: CudaDriver) -> None:
    backend = GpuBackend(driver, model_of(driver.name))
    assert not run("modes", Settings(runs=30, warmup=2, published=True), backend).wrong


@pytest.mark.parametrize("verb", ["sweep", "fat"])
def test_the_ptx_kernels_compute_the_same(verb: Verb, driver: CudaDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(lab_compile, "core", lambda: None)
    backend = GpuBackend(driver, model_of(driver.name))
    assert not run(verb, Settings(**SMALL), backend).wrong  # type: ignore[arg-type]


def test_the_driver_counts_blocks_as_the_calculator_does(driver: CudaDriver) -> None:
    model = model_of(driver.name)
    for row in run("fat", Settings(**SMALL), GpuBackend(driver, model)).rows:  # type: ignore[arg-type]
        assert row.regs_per_thread is not None
        ours = occupancy(model.arch, row.regs_per_thread, row.shared_bytes, row.block)
        assert row.occ_blocks_per_sm == ours.blocks_per_sm, row.tag
