"""Generated Triton kernels under Triton's interpreter, against the interpreter of kernels.

Triton decides at import whether it interprets, so the tests proper run in a process of their own, which the one test
seen from outside starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton")

INSIDE = os.environ.get("TRITON_INTERPRET") == "1"

if INSIDE:
    from fusewise.codegen.triton import module
    from fusewise.ir.dtypes import BF16
    from fusewise.lower.kernel import Compute
    from fusewise.runtime.triton import grid_of, load_module
    from tests.cpu.cpp_kernels import compare, expected
    from tests.triton_cases import Scheduled, all_cases, points, results, tensors

    MOST = 40_000  # points of a kernel: the interpreter takes about a millisecond a program and line

    def within_the_interpreter(one: Scheduled) -> Scheduled:
        """The case without what Triton's interpreter gets wrong: an fma rounds twice, subnormals of bf16 are 0."""
        case, kernel = one.case, one.kernel
        if any(isinstance(i, Compute) and i.op == "fma" for i in kernel.body):
            case = replace(case, ulps=max(case.ulps, 4))
        if any(getattr(i, "dtype", None) == BF16 for i in kernel.body):
            case = replace(case, inputs={k: np.where(np.abs(v) < 1e-37, 0, v) for k, v in case.inputs.items()})
        return Scheduled(case, one.label)

    @pytest.mark.parametrize("one", [c for c in all_cases() if points(c.case) <= MOST], ids=repr)
    def test_kernel_equals_interpreter(one: Scheduled) -> None:
        one = within_the_interpreter(one)
        case, kernel = one.case, one.kernel
        function = getattr(load_module(module([kernel], exact=False)), kernel.name)
        held = tensors(case, "cpu")
        grid = grid_of(kernel, case.sizes)
        if grid:
            function[(grid,)](*(held[b.name] for b in kernel.buffers), *(case.sizes[s] for s in kernel.sizes))
        compare(case, results(case, held), expected(case))

else:

    def test_generated_kernels_under_the_interpreter() -> None:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__],
            env={**os.environ, "TRITON_INTERPRET": "1"},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
