"""Generated Triton kernels under Triton's interpreter, against the interpreter of kernels.

Triton decides at import whether it interprets, so the tests proper run in a process of their own, which the one test
seen from outside starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

INSIDE = os.environ.get("TRITON_INTERPRET") == "1"

if INSIDE:
    import torch
    import torch.nn.functional as F
    from torch.utils._pytree import tree_leaves

    from fusewise import trace
    from fusewise.backend import Backend
    from fusewise.codegen.triton import module
    from fusewise.config import Options
    from fusewise.ir.dtypes import BF16, F32
    from fusewise.ir.sizes import symbol
    from fusewise.lower import price
    from fusewise.lower.kernel import Axis, Compute, Kernel, TritonSchedule
    from fusewise.lower.launch import BundledKernel
    from fusewise.measure.program import load_catalogue
    from fusewise.plan.schedule import KernelShape, schedule_text
    from fusewise.runtime.triton import grid_of, load_module
    from tests.bundles import plan_for_gpu
    from tests.cpu.cpp_kernels import Make, at, compare, expected
    from tests.small_axes import DTYPES, SHAPES, gathers, pairs, reductions
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
            for number in {False, any(b.seed for b in kernel.buffers)}:  # seeds come as numbers or by their address
                given = [held[b.name].item() if b.seed and number else held[b.name] for b in kernel.buffers]
                function[(grid,)](*given, *(case.sizes[s] for s in kernel.sizes))
        compare(case, results(case, held), expected(case))

    @pytest.mark.parametrize("name", ["chain", "layer_norm"])
    def test_a_cap_on_registers_changes_no_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        plan_for_gpu(monkeypatch)
        function, args = load_catalogue()[name].make("tiny", "fp32", "cpu", "forward")

        def compiled(**options: Any) -> tuple[Any, Mapping[str, Kernel]]:
            torch._dynamo.reset()
            result = torch.compile(function, backend=Backend(Options(strict=True, **options)))(*args)
            return result, trace.compiled()[-1].kernels

        plain, kernels = compiled()
        pins = tuple((name, f"{schedule_text(kernel.schedule)} n32 shared") for name, kernel in kernels.items())
        capped, found = compiled(schedules=pins)
        assert pins and all((k.schedule.maxnreg, k.schedule.spill_to_shared) == (32, True) for k in found.values())
        for one, other, eager in zip(*map(tree_leaves, (capped, plain, function(*args))), strict=True):
            assert torch.equal(one, other)
            torch.testing.assert_close(one, eager)

    @pytest.mark.parametrize(
        ("name", "size", "launches"), [("adam", {"width": 20, "layers": 3}, 2), ("small_norms", "tiny", 1)]
    )
    def test_programs_side_by_side_equal_eager(
        name: str, size: str | dict[str, int], launches: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plan_for_gpu(monkeypatch)
        torch._dynamo.reset()
        function, args = load_catalogue()[name].make(size, "fp32", "cpu", "forward")
        copies = [[t.clone() for t in group] for group in args]
        result = torch.compile(function, backend=Backend(Options(strict=True)))(*args)
        expected = function(*copies)
        plan = trace.compiled()[-1].plan
        assert len(plan.launches) == launches < len(plan.kernels) and len(plan.bundles) >= 1
        for one, other in zip(tree_leaves((result, args)), tree_leaves((expected, copies)), strict=True):
            torch.testing.assert_close(one, other)

    def row_moments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return *torch.var_mean(x, -1), F.layer_norm(x, x.shape[-1:])

    def deviation(x: torch.Tensor) -> torch.Tensor:
        return x.std(-1)

    @pytest.mark.parametrize("function", [row_moments, deviation])
    @pytest.mark.parametrize("rows", [1, 2])
    @pytest.mark.parametrize("columns", [40, 256, 700])  # less than a turn, whole turns, a last one with a tail
    def test_moments_of_rows_that_are_read_in_turns(
        function: Callable[..., Any], rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plan_for_gpu(monkeypatch)

        def in_turns(shape: KernelShape, _: int) -> tuple[TritonSchedule, ...]:
            axes = tuple(a.name for a in shape.parallel)
            return (TritonSchedule((), axes, 1, rows, 64, not shape.reduce, 4),)

        monkeypatch.setattr(price, "choose_gpu_schedule", in_turns)
        torch._dynamo.reset()
        x = torch.randn(7, columns, generator=torch.Generator().manual_seed(columns))
        x[1] += 1e4
        x[2, 0], x[3, -1] = 1e4, 1e4
        x[4], x[5, 3], x[6, -2] = 0.1, torch.inf, torch.nan
        found = torch.compile(function, backend=Backend(Options(strict=True)))(x)
        kernels = trace.compiled()[-1].kernels.values()
        assert any(getattr(i, "centred", False) for k in kernels for i in k.body)
        for one, own, true in zip(*map(tree_leaves, (found, function(x), function(x.double()))), strict=True):
            off, allowed = (one - true).abs(), (own - true).abs()
            finite = own.isfinite()
            assert torch.equal(one.isfinite(), finite)
            loose = torch.full_like(off, 4e-6)
            loose[1] = 1e-2  # a mean of 10^4 deviations
            loose[4] = 1e-5  # a mean that is rounded, 300 times larger beside a variance of 0
            assert bool((off <= 1.5 * allowed + loose * (true.abs() + 1))[finite].all())

    def shifted_softmax(x: torch.Tensor, y: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        old = x * 2
        x.add_(y)
        count.add_(1)
        return old + torch.softmax(x, -1) * count

    def averages(x: torch.Tensor, y: torch.Tensor, count: torch.Tensor) -> None:
        x.copy_(x - x.mean(-1, keepdim=True))
        y[:, 0].lerp_(x.sum(-1), 0.1)
        count.copy_(y.sum())

    @pytest.mark.parametrize("function", [shifted_softmax, averages])
    @pytest.mark.parametrize("columns", [9, 700, 20_000])  # a row held by few threads, by all, read again
    def test_programs_that_write_their_arguments(
        function: Callable[..., object], columns: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plan_for_gpu(monkeypatch)
        torch._dynamo.reset()
        torch.manual_seed(columns)
        args = [torch.randn(5, columns), torch.randn(5, columns), torch.zeros(())]
        copies = [t.clone() for t in args]
        result = torch.compile(function, backend=Backend(Options(strict=True)))(*args)
        expected = function(*copies)
        assert sum(len(step.over) for step in trace.compiled()[-1].plan.kernels) >= 1
        for one, other in zip(tree_leaves((result, args)), tree_leaves((expected, copies)), strict=True):
            if other is not None:
                # sums of a long row, which cancel, in another order than eager's
                torch.testing.assert_close(one, other, rtol=1.3e-6, atol=max(1e-5, columns * 1e-8))

    def unlike(xs: list[torch.Tensor], rows: torch.Tensor, table: torch.Tensor, scale: torch.Tensor) -> object:
        small = [torch.exp(x) * scale for x in xs] + [torch.exp2(x[: rows.shape[0] - 3]) for x in xs]
        return small, F.gelu(table.t()) + rows.shape[1], torch.softmax(rows, -1) * scale, rows[:, 1:].amax(0)

    @pytest.mark.parametrize("lengths", [(0, 300, 5), (300, 0, 0), (5, 0, 300), (0, 0, 7)])
    def test_members_without_programs(lengths: tuple[int, ...]) -> None:
        members = []
        for number in range(3):
            m = Make(f"twice{number}", [Axis("x0", symbol(f"s{number}"))], None)
            m.store("o", at(("x0", 1)), m.op("add", *[m.load("a", F32, at(("x0", 1)))] * 2))
            buffers = tuple(replace(b, node=2 * number + place) for place, b in enumerate(m.buffers))
            schedule = TritonSchedule((), ("x0",), 1, 128, 1, True, 4)
            members.append(replace(m.done(), buffers=buffers, sizes=(f"s{number}",), schedule=schedule))
        unit = BundledKernel("together", tuple(members))
        values = dict(zip(unit.sizes, lengths, strict=True))
        held = [torch.randn(max(1, n)) for n in lengths for _ in range(2)]
        before = [t.clone() for t in held]
        getattr(load_module(module([unit], exact=False)), unit.name)[(grid_of(unit, values),)](*held, *lengths)
        for number, count in enumerate(lengths):
            source, result = held[2 * number : 2 * number + 2]
            assert torch.equal(result[:count], 2 * source[:count])
            assert torch.equal(result[count:], before[2 * number + 1][count:])

    def equals_eager(function: Callable[..., object], *args: object) -> None:
        torch._dynamo.reset()
        result = torch.compile(function, backend=Backend(Options(strict=True)))(*args)
        for one, other in zip(tree_leaves(result), tree_leaves(function(*args)), strict=True):
            # eager's own layer norm of one element is 0 but for a residue
            tight = {} if one.dtype.itemsize > 2 else {"rtol": 1.6e-2, "atol": 1e-3}
            torch.testing.assert_close(one, other, equal_nan=True, **tight)

    @pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_axes_of_no_and_one_element(
        shape: tuple[int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plan_for_gpu(monkeypatch)
        x, y = (torch.randn(shape).to(dtype) for _ in range(2))
        trace.clear()
        equals_eager(reductions, x, y, torch.randn(shape[:1]).to(dtype))
        assert trace.compiled()[-1].kernels
        for count in (0, 1):
            equals_eager(gathers, x, torch.zeros(min(count, shape[0]), dtype=torch.int64))

    @pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
    def test_empty_programs_in_one_launch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
        plan_for_gpu(monkeypatch)
        xs, ys = ([torch.randn(shape).to(dtype) for shape in SHAPES] for _ in range(2))
        equals_eager(pairs, xs, ys)
        assert trace.compiled()[-1].plan.bundles

    @pytest.mark.parametrize("policy", ["conservative", "balanced"])
    def test_unlike_and_changing_sizes_side_by_side_equal_eager(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        plan_for_gpu(monkeypatch)
        torch._dynamo.reset()
        run = torch.compile(unlike, backend=Backend(Options(policy, strict=True)), dynamic=True)  # type: ignore[arg-type]
        trace.clear()
        for lengths, shape in [
            ((700, 33, 5), (7, 300)),
            ((33, 700, 5), (3, 90)),
            ((0, 33, 0), (5, 64)),
            ((0, 0, 0), (2, 3)),
        ]:
            xs = [torch.randn(n) for n in lengths]
            args = xs, torch.randn(shape), torch.randn(shape[::-1]), torch.randn(())
            result, expected = run(*args), unlike(*args)
            for one, other in zip(tree_leaves(result), tree_leaves(expected), strict=True):
                torch.testing.assert_close(one, other)
        plan = trace.compiled()[0].plan
        assert max(len(launch.steps) for launch in plan.launches) >= 4

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
