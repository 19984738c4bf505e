"""The occupancy calculator against NVIDIA's own: the header that the CUDA toolkit and triton ship.

The header is plain C++ that needs no GPU. Where neither a copy of it nor a compiler is found, there is nothing
to compare with.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fusewise.device.arch import Arch, load_arch
from fusewise.device.occupancy import Limiter, occupancy

ARCHS = ["8.0", "8.6", "8.9", "9.0", "10.0", "12.0"]
REGS = [0, 1, 16, 24, 31, 32, 33, 40, 41, 48, 56, 64, 65, 72, 80, 96, 97, 128, 129, 168, 169, 200, 254, 255]
SHARED = [0, 1, 512, 4096, 8191, 16384, 30000, 49152, 49153, 76800, 101376, 101377, 166912, 200000, 232448]
THREADS = [1, 32, 33, 64, 96, 128, 160, 256, 384, 512, 672, 992, 1024, 1056]
CARVEOUTS = [None, 0, 30, 50, 100]
BARRIERS = [1, 4]

# Bits of limitingFactors in the header.
LIMITER_BITS: dict[Limiter, int] = {
    "threads": 0x01,
    "warps": 0x01,
    "registers": 0x02,
    "shared": 0x04,
    "blocks": 0x08,
    "barriers": 0x10,
}

PROGRAM = """
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
  int cc, warps_sm, sh_sm, sh_max, regs, threads, carveout, barriers;
  long long shared;
  while (scanf("%d %d %d %d %d %lld %d %d %d", &cc, &warps_sm, &sh_sm, &sh_max, &regs, &shared, &threads,
               &carveout, &barriers) == 9) {
    cudaOccDeviceProp gpu;
    gpu.computeMajor = cc / 10;
    gpu.computeMinor = cc % 10;
    gpu.maxThreadsPerBlock = 1024;
    gpu.maxThreadsPerMultiprocessor = warps_sm * 32;
    gpu.regsPerBlock = 65536;
    gpu.regsPerMultiprocessor = 65536;
    gpu.warpSize = 32;
    gpu.sharedMemPerBlock = 49152;
    gpu.sharedMemPerMultiprocessor = sh_sm;
    gpu.numSms = 1;
    gpu.sharedMemPerBlockOptin = sh_max;
    gpu.reservedSharedMemPerBlock = 1024;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = regs;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = shared;
    kernel.numBlockBarriers = barriers;
    cudaOccDeviceState state;
    state.carveoutConfig = carveout;
    cudaOccResult result;
    cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, threads, shared);
    printf("%d %d %u\\n", (int)error, result.activeBlocksPerMultiprocessor, result.limitingFactors);
  }
}
"""


def header_folder() -> Path | None:
    candidates = [Path("/usr/local/cuda/include")]
    if "CUDA_HOME" in os.environ:
        candidates.insert(0, Path(os.environ["CUDA_HOME"]) / "include")
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin:
        candidates.insert(0, Path(triton.origin).parent / "backends" / "nvidia" / "include")
    return next((folder for folder in candidates if (folder / "cuda_occupancy.h").is_file()), None)


def cases() -> list[tuple[Arch, int, int, int, int | None, int]]:
    grid = []
    for name in ARCHS:
        arch = load_arch(name)
        # Larger than the largest split is an error in the header and no launch here: see the known answers.
        sizes = [size for size in SHARED if size <= arch.shared_bytes_per_block_max]
        for regs, size, block in itertools.product(REGS, sizes, THREADS):
            grid.append((arch, regs, size, block, None, 1))
        for size, block, carveout, barriers in itertools.product(sizes, THREADS, CARVEOUTS, BARRIERS):
            grid.append((arch, 32, size, block, carveout, barriers))
    return grid


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, compiler = header_folder(), shutil.which(shlex.split(os.environ.get("CXX", "g++"))[0])
    if folder is None or compiler is None:
        pytest.skip("needs cuda_occupancy.h (triton or a CUDA toolkit) and a C++ compiler")
    build = tmp_path_factory.mktemp("oracle")
    (build / "oracle.cpp").write_text(PROGRAM)
    # -w: the header is not ours to warn about.
    subprocess.run([compiler, "-O1", "-w", f"-I{folder}", "oracle.cpp", "-o", "oracle"], cwd=build, check=True)
    return build / "oracle"


def test_blocks_and_limiter_equal_those_of_the_cuda_header(oracle: Path) -> None:
    grid = cases()
    assert len(grid) > 20_000
    lines = [
        f"{arch.name.replace('.', '')} {arch.max_warps_per_sm} {arch.shared_bytes_per_sm}"
        f" {arch.shared_bytes_per_block_max} {regs} {size} {block} {-1 if carveout is None else carveout} {bars}"
        for arch, regs, size, block, carveout, bars in grid
    ]
    answer = subprocess.run([oracle], input="\n".join(lines), capture_output=True, text=True, check=True)
    rows = [tuple(int(word) for word in line.split()) for line in answer.stdout.splitlines()]
    assert len(rows) == len(grid)
    wrong = []
    for (arch, *point), (error, blocks, factors) in zip(grid, rows, strict=True):
        found = occupancy(arch, *point)
        if error or found.blocks_per_sm != blocks or not factors & LIMITER_BITS[found.limiter]:
            wrong.append((arch.name, point, found, error, blocks, factors))
    assert not wrong, f"{len(wrong)} of {len(grid)} differ, first {wrong[0]}"
