"""The lab on a CUDA device: every row exact, from CUDA C++ and from PTX, and the driver's occupancy is ours."""

from __future__ import annotations

import itertools

import pytest

from fusewise.device.occupancy import occupancy
from fusewise.lab import compile as lab_compile
from fusewise.lab.cuda_source import ENTRY
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


REGISTERS = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 120, 144, 168, 200, 230)  # values that a kernel keeps alive
BLOCKS = (1, 32, 33, 64, 96, 128, 192, 256, 320, 384, 512, 672, 768, 1024)
STEP_BYTES = 8192  # of dynamic shared memory, from none to the most that a block may have


def test_the_driver_counts_blocks_as_the_calculator_does_on_a_grid(driver: CudaDriver) -> None:
    model = model_of(driver.name)
    most = model.arch.shared_bytes_per_block_max
    sizes = [*range(0, most, STEP_BYTES), most]
    wrong, points, registers = [], 0, set()
    for live in REGISTERS:
        # no block size in the kernel's launch bounds: they would cap its registers and its blocks
        compiled = lab_compile.compile_row(Spec("fat", 2, 4096, live=live), 0, model)
        kernel = driver.load(compiled.cubin, ENTRY)
        driver.allow_shared(kernel, most)
        used = compiled.resources
        registers.add(used.regs_per_thread)
        for block, shared in itertools.product(BLOCKS, sizes):
            ours = occupancy(model.arch, used.regs_per_thread, used.shared_bytes + shared, block).blocks_per_sm
            theirs = driver.blocks_per_sm(kernel, block, shared)
            points += 1
            if ours != theirs:
                wrong.append((used.regs_per_thread, block, shared, ours, theirs))
    assert len(registers) >= 12 and points >= 5000
    assert not wrong, f"{len(wrong)} of {points} differ, first {wrong[0]}"
