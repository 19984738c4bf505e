"""The text forms themselves: every instruction has one, and none depends on what was planned before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import get_args

import pytest

from fusewise.ir.affine import Mod, axis, make
from fusewise.ir.builder import Builder
from fusewise.ir.dtypes import BF16, BOOL, F32, I64
from fusewise.ir.graph import Graph
from fusewise.ir.sizes import symbol
from fusewise.lower.kernel import Axis, CppSchedule, Instr, Kernel, Schedule, TritonSchedule
from fusewise.lower.printer import print_kernel, print_schedule
from fusewise.plan.decisions import Decision
from fusewise.plan.plan import make_plan
from fusewise.plan.printer import print_decision, print_plan
from fusewise.plan.region import fresh_axis
from tests.cpu.cpp_kernels import Make, at, loaded
from tests.golden.programs import machine

N = symbol("s0")


def everything() -> Kernel:
    """A kernel with every kind of instruction, axis and section."""
    m = Make("everything", [Axis("x0", N), Axis("l0", 4, loop=True), Axis("r0", 8, reduce=True)], "r0", carry=True)
    row = at(("x0", 32), ("l0", 8), ("r0", 1))
    length = m.size(N * 2)
    index = m.load("places", I64, at(("x0", 1)))
    m.check(m.op("lt", index, length), mask=m.op("ge", index, m.const(0, I64)))
    x = m.op("cast", m.load("x", BF16, row), dtype=F32)
    inside = m.op("lt", m.index(axis("r0")), index)
    table = m.load("table", F32, loaded(index) * 8 + make({Mod(axis("r0"), 3): 1}), mask=inside, other=-1.0)
    kept = m.random("keep", m.load("seed", I64, at()), row, 2, 0.9, BOOL)
    product = m.op("where", kept, m.op("mul", x, table), m.const(float("nan"), F32))
    m.reduce("argmax", product, position=axis("r0"))
    total = m.reduce("sum", product)
    column = m.reduce("sum", m.op("div", product, total), over_loop=True)
    m.store("y", row, m.op("cast", m.op("sub", x, total), dtype=BF16))
    m.store("columns", at(("x0", 8), ("r0", 1)), column)
    return m.done()


def test_every_kind_of_instruction_has_a_text(golden: Callable[[str, str], None]) -> None:
    kernel = everything()
    assert {type(i) for i in kernel.body} == set(get_args(Instr))
    golden("printers/kernel.txt", print_kernel(kernel))


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (
            TritonSchedule(("x0",), ("x1", "x2"), 4, 64, 1, True, 8, 1, 64),
            "triton: y 4 (x0) by x 64 (x1, x2) by r 1, row held, 8 warps, 1 stage, 64-bit indexes",
        ),
        (
            TritonSchedule((), (), 1, 1, 1024, False, 4, 3),
            "triton: one program by r 1024, row walked, 4 warps, 3 stages, 32-bit indexes",
        ),
        (CppSchedule(None, False), "cpp: scalar, one thread"),
    ],
)
def test_schedules(schedule: Schedule, text: str) -> None:
    assert print_schedule(schedule) == text


def shifted() -> Graph:
    """Four rows of six in one vector, each with its neighbour added: read where they are not computed."""
    b = Builder()
    y = b.op("exp", b.input((24,), F32))
    rows = b.reshape(y, (4, 6))
    return b.finish([b.slice(rows, 1, 1, 5) + b.slice(rows, 1, 0, 5), y])


def test_a_plan_reads_the_same_whatever_was_planned_before() -> None:
    graph = shifted()
    first = print_plan(make_plan(graph, machine("cpu")))
    assert "read at [6*a0 + a1" in first, "a decision with two axes is what may differ"
    # axes are numbered on through a process: plan where their names grow longer: the sum has a999 and a1000
    while not re.fullmatch("a9+7", fresh_axis()):
        pass
    assert print_plan(make_plan(graph, machine("cpu"))) == first


def test_axes_of_a_decision_are_numbered_as_they_come() -> None:
    decision = Decision("vertical", 3, 9, False, "index-map", "read at [a812 + 4*a9], computed at [a9]", 4096, 1.94)
    text = "refused vertical %3 %9 index-map: 4096 bytes, 1.9 us; read at [a0 + 4*a1], computed at [a1]"
    assert print_decision(decision) == text
