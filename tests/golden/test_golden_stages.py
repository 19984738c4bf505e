"""The text of every stage of the catalogue's programs: graph, plan, kernel IR, C++ and Triton."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from fusewise.codegen.cpp import unit
from fusewise.codegen.triton import module
from fusewise.ir.printer import print_graph
from fusewise.lower.launch import launch_units
from fusewise.lower.printer import print_kernel
from fusewise.plan.printer import print_plan
from tests.golden.programs import CASES, DEVICES, ROOT, GoldenCase, PlannedGraph, planned

_PINNED = re.search(r"^torch==(\d+\.\d+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
assert _PINNED is not None
PINNED_TORCH = _PINNED[1]

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(f"{PINNED_TORCH}."),
    reason=f"golden files hold the graphs of torch {PINNED_TORCH} (constraints.txt); this is {torch.__version__}",
)

# Source lines are left out: a line more in a program's file would change every golden file of it.
_SOURCE_LINE = re.compile(r" \w+\.py:\d+$", re.MULTILINE)


def _graph(case: GoldenCase, graph: PlannedGraph) -> str:
    return print_graph(graph.plan.graph)


def _plan(case: GoldenCase, graph: PlannedGraph) -> str:
    return print_plan(graph.plan, [call.reason for call in graph.captured.opaques])


def _kernels(case: GoldenCase, graph: PlannedGraph) -> str:
    return "\n".join(map(print_kernel, graph.kernels.values()))


def _cpp(case: GoldenCase, graph: PlannedGraph) -> str:
    return unit(list(graph.kernels.values()))


def _triton(case: GoldenCase, graph: PlannedGraph) -> str:
    return module(list(launch_units(graph.plan, graph.kernels).values()), case.policy == "conservative")


STAGES: dict[str, Callable[[GoldenCase, PlannedGraph], str]] = {
    "cpu/graph.txt": _graph,
    "cpu/plan.txt": _plan,
    "cpu/kernels.txt": _kernels,
    "cpu/kernels.cpp": _cpp,
    "h200/graph.txt": _graph,
    "h200/plan.txt": _plan,
    "h200/kernels.txt": _kernels,
    "h200/kernels.py": _triton,
}
_COMMENT = {"txt": "#", "cpp": "//", "py": "#"}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_text_of_a_stage(case: GoldenCase, stage: str, golden: Callable[[str, str], None]) -> None:
    device, kind = stage.split("/")[0], stage.rsplit(".")[1]
    assert device in DEVICES
    sections = [
        f"{_COMMENT[kind]} {graph.role}\n\n{STAGES[stage](case, graph)}"
        for graph in planned(case, device)
        if graph.kernels or kind == "txt"
    ]
    golden(f"{case.name}/{stage}", _SOURCE_LINE.sub("", "\n".join(sections)))
