"""Random IR graphs through planner, lowering and both interpreters, and compiled to C++."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from fusewise.ir.builder import Builder
from fusewise.ir.dtypes import BF16, F32, F64
from fusewise.ir.graph import Graph
from fusewise.ir.printer import print_graph
from fusewise.ir.rounding import Array
from fusewise.lower.kernel import Compute, Kernel
from tests.fuzz import ir_check
from tests.fuzz.ir_graphs import random_graph

GRAPHS, COMPILED = 150, 24


@pytest.mark.parametrize("small_parts", [False, True], ids=["as planned", "split early"])
def test_kernels_compute_what_the_graph_says(small_parts: bool) -> None:
    for seed in range(GRAPHS):
        graph, runs = random_graph(seed)
        for sizes in runs:
            problem = ir_check.problem_of(graph, sizes, small_parts)
            assert not problem, f"seed {seed}, sizes {sizes}: {problem}\n{print_graph(graph, origins=False)}"


@pytest.mark.parametrize("small_parts", [False, True], ids=["as planned", "split early"])
def test_compiled_kernels_compute_what_the_interpreter_does(small_parts: bool) -> None:
    drawn = [(seed, *random_graph(seed)) for seed in range(COMPILED)]
    drawn = [d for d in drawn if d[2]]
    problems = ir_check.compiled_problems([(graph, runs[-1]) for _, graph, runs in drawn], small_parts)
    for (seed, graph, _), problem in zip(drawn, problems, strict=True):
        assert not problem, f"seed {seed}: {problem}\n{print_graph(graph, origins=False)}"


def flipped_digits() -> Graph:
    """A flip of a reshape of a broadcast: the axis is cut in two, and its coefficient is below 0."""
    b = Builder("cpu")
    return b.finish([b.flip(b.reshape(b.expand(b.input((5,), F32), (5, 5)), (25,)), [0])])


def row_across_memory() -> Graph:
    """A row of two axes whose outer one runs in vectors, with a value carried from pass to pass."""
    b = Builder("cpu")
    x, limit = b.input((33, 3), F64, (2, 66)), b.input((), F32)
    low = b.op("minimum", b.reshape(x, (99,)).cast(BF16).cast(F32) + limit, limit)
    return b.finish([(low - b.reduce("sum", b.op("exp", low), [0])).cast(BF16)])


@pytest.mark.parametrize("graph", [flipped_digits(), row_across_memory()])
def test_graphs_that_once_were_wrong(graph: Graph) -> None:
    assert not ir_check.problem_of(graph, {})
    assert ir_check.compiled_problems([(graph, {})]) == [""]


def test_a_wrong_kernel_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: an interpreter that is wrong about tanh is caught, and a few lines remain of the graph."""
    right = ir_check.run_kernel

    def wrong(kernel: Kernel, buffers: Sequence[Array], sizes: Mapping[str, int] | None = None) -> None:
        right(kernel, buffers, sizes)
        if any(isinstance(i, Compute) and i.op == "tanh" for i in kernel.body):
            for buffer, values in zip(kernel.buffers, buffers, strict=True):
                if buffer.role == "out" and buffer.dtype.is_float:
                    values += 1

    monkeypatch.setattr(ir_check, "run_kernel", wrong)
    found = ((g, runs[0]) for g, runs in map(random_graph, range(100)) if runs and len(g.nodes) > 12)
    graph, sizes = next((g, s) for g, s in found if ir_check.problem_of(g, s))
    small = ir_check.shrink(graph, lambda g: ir_check.problem_of(g, sizes).startswith("output"))
    assert ir_check.problem_of(small, sizes).startswith("output") and len(small.nodes) <= 4
    assert any(n.op == "tanh" for n in small)
