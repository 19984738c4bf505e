"""What counts as worse between two plans, and the file that holds one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusewise.errors import UsageError
from fusewise.gate.compare import Change, compare
from fusewise.gate.state import (
    BreakState,
    DeviceState,
    GraphState,
    KernelState,
    PlanState,
    Request,
    WallState,
    read_state,
)

KERNEL = KernelState("fused_gelu_0", ("aten.gelu.default",), ("m.py:3",), 800, 1600, 40, 0, 128)
WALL = WallState("aten.mm.default", "the vendor's", "m.py:4", "x @ w", 200)
BREAK = BreakState("cannot follow print", "m.py:5", "print(x)")
TOOLS = {"fusewise": "0.1.0", "torch": "2.13.0", "triton": "3.7.1"}


def plan(
    kernels: tuple[KernelState, ...] = (KERNEL,),
    walls: tuple[WallState, ...] = (WALL,),
    breaks: tuple[BreakState, ...] = (),
    fallback: str = "",
    **tools: str,
) -> PlanState:
    graph = GraphState("forward", kernels, walls, fallback)
    request = Request("m.py:f", ("x:f32[8]",), ("h200",), "balanced")
    return PlanState(request, TOOLS | tools, breaks, (DeviceState("h200", (graph,)),))


def findings(after: PlanState, before: PlanState | None = None) -> list[tuple[str, str, int, int, tuple[str, ...]]]:
    found = compare(before or plan(), after).findings
    return [(c.kind, c.what, c.before, c.after, c.names) for c in found]


def test_the_same_plan_has_no_changes() -> None:
    found = compare(plan(), plan())
    assert found.changes == found.notes == () and found.as_dict()["ok"]


def test_a_new_graph_break() -> None:
    text = ("m.py:5 print(x): cannot follow print",)
    assert findings(plan(breaks=(BREAK,))) == [("graph breaks", "", 0, 1, text)]
    moved = replace(BREAK, line="m.py:9")
    assert not compare(plan(breaks=(BREAK,)), plan(breaks=(moved,))).changes
    again = compare(plan(breaks=(BREAK,)), plan(breaks=(BREAK, moved)))
    assert [c.names for c in again.findings] == [("m.py:9 print(x): cannot follow print",)]


def test_a_new_wall_is_named_and_one_that_moves_is_none() -> None:
    sort = WallState("aten.sort.default", "no kernel", "m.py:7", "x.sort()", 0)
    assert findings(plan(walls=(WALL, sort))) == [
        ("walls", "", 0, 1, ("forward aten.sort.default m.py:7 x.sort(): no kernel",))
    ]
    assert not compare(plan(), plan(walls=(replace(WALL, line="m.py:90", code="y @ w"),))).changes
    (second,) = findings(plan(walls=(WALL, replace(WALL, line="m.py:8", code="y @ w", dram_bytes=0))))
    assert second == ("walls", "", 1, 2, ("forward aten.mm.default m.py:8 y @ w: the vendor's",))
    # one wall for another is a new wall
    kinds = [(c.kind, c.is_worse) for c in compare(plan(), plan(walls=(replace(sort, dram_bytes=200),))).changes]
    assert kinds == [("walls", False), ("walls", True)]


def test_a_new_fallback() -> None:
    assert findings(plan(fallback="planning failed")) == [("fallbacks", "", 0, 1, ("forward: planning failed",))]
    broken = replace(KERNEL, regs_per_thread=None, spill_bytes=None, shared_bytes=None, problem="ptxas refused it")
    assert findings(plan((broken,))) == [("fallbacks", "", 0, 1, ("forward: fused_gelu_0: ptxas refused it",))]


def test_more_kernels_and_bytes() -> None:
    second = replace(KERNEL, name="fused_add_0", dram_bytes=100)
    assert findings(plan((KERNEL, second))) == [
        ("kernels", "", 1, 2, ("forward fused_add_0",)),
        ("bytes", "", 1000, 1100, ()),
    ]


@pytest.mark.parametrize(("field", "kind", "old"), [("regs_per_thread", "registers", 40), ("spill_bytes", "spills", 0)])
def test_more_registers_or_spills(field: str, kind: str, old: int) -> None:
    more: dict[str, Any] = {field: old + 8}
    assert findings(plan((replace(KERNEL, **more),))) == [(kind, "forward fused_gelu_0", old, old + 8, ())]
    better = compare(plan((replace(KERNEL, **more),)), plan())
    assert not better.findings and [c.kind for c in better.improvements] == [kind]
    # under another name: held against what it replaces
    renamed = replace(KERNEL, name="fused_gelu_add_0", **more)
    assert findings(plan((renamed,))) == [(kind, "forward fused_gelu_add_0", old, old + 8, ())]
    assert not compare(plan((renamed,)), plan()).changes


def test_what_is_better_is_no_finding() -> None:
    found = compare(plan(breaks=(BREAK,)), plan(walls=()))
    assert not found.findings and [c.kind for c in found.improvements] == ["graph breaks", "walls", "bytes"]


def test_other_tools_are_named() -> None:
    found = compare(plan(triton="3.6.0"), plan())
    assert not found.changes and len(found.notes) == 1
    assert "planned with triton 3.7.1, saved with triton 3.6.0" in found.notes[0] and "registers" in found.notes[0]


def test_a_change_knows_what_is_worse() -> None:
    assert Change("bytes", "h200", "", 1, 2).is_worse and not Change("bytes", "h200", "", 2, 1).is_worse


def test_the_file_keeps_everything(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    state = plan(breaks=(BREAK,), fallback="why")
    file.write_text(state.to_json())
    assert read_state(file) == state


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no file"),
        ("{", "holds no plan: "),
        ("[]", "its schema is None"),
        ('{"schema": "fusewise-plan/99"}', "its schema is 'fusewise-plan/99', not 'fusewise-plan/1'"),
        ('{"schema": "fusewise-plan/1"}', "a field is missing, unknown or of another type: 'request'"),
    ],
)
def test_files_that_hold_no_plan(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "plan.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        read_state(file)
    assert "fusewise plan FILE.py:NAME --device h200 --save" in caught.value.remedy


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("request", "devices"), 7, "devices is 7"),
        (("request", "inputs"), [7], r"inputs is \[7\]"),
        (("devices", 0, "graphs", 0, "kernels", 0, "dram_bytes"), "many", "dram_bytes is 'many'"),
    ],
)
def test_a_value_of_another_type(tmp_path: Path, path: tuple[str | int, ...], value: object, says: str) -> None:
    file = tmp_path / "plan.json"
    document = json.loads(plan().to_json())
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    file.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=f"holds no plan: .*{says}"):
        read_state(file)


def test_a_field_of_another_version(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    document = json.loads(plan().to_json())
    document["devices"][0]["graphs"][0]["kernels"][0]["colour"] = "red"
    file.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="colour"):
        read_state(file)
