"""The JSON that other people's programs read: names and types of every field, as a golden file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from fusewise.gate.compare import compare
from fusewise.gate.state import (
    BreakState,
    DeviceState,
    GraphState,
    KernelState,
    PlanState,
    Request,
    WallState,
)
from fusewise.report.documents import (
    AlternativeKernel,
    CandidateRow,
    CandidateSide,
    CpuUse,
    DevicePlan,
    Explanation,
    Figures,
    FusionDifference,
    GraphBreak,
    GraphPlan,
    KernelResources,
    KernelRow,
    NotFused,
    OccupancyStep,
    SourceLine,
    Wall,
    Why,
)
from fusewise.report.ways import HeldBackRow, WayRow

LINE = SourceLine("m.py", 3, "y = x * 2")
STEPS = (OccupancyStep(16, 32, 16, 1.0, "warps"), OccupancyStep(33, 255, 2, 0.125, "registers"))
RESOURCES = KernelResources("compiled", 40, 8, 8, 1024, 128, 12, 0.75, "registers", 32, 41, STEPS, "note")


def explanation() -> Explanation:
    """One of each thing that an explanation can hold."""
    use = CpuUse(4.0, 1.0, 0.5, 8.0, "L2", "plain", 2, 40, 32, 64.0)
    kernel = KernelRow("fused_mul_0", ("aten.mul.Tensor",), (LINE,), 4096, 1024, 4.0, 5.0, RESOURCES, cpu=use)
    side = CandidateSide("aten.mul.Tensor", LINE, 1, "fused_mul_0")
    figures = Figures(5.0, "modelled", 40, 16, 0.75, "compiled")
    candidate = CandidateRow("vertical", side, side, False, "domain", "meaning", "detail", 64, 1.5, figures, figures)
    way = WayRow("cap", "capped at 32", True, "problem", 5.0, 32, 16, 1.0, 1024, "x256 w4 n32")
    held = HeldBackRow("fused_mul_0", ("fused_mul_0",), (way,))
    graph = GraphPlan(
        "forward",
        (kernel,),
        (Wall("mm", "aten.mm.default", "reason", LINE, 2048),),
        (NotFused("fused_mul_0", "mm", "wall", "meaning", "detail", 512),),
        1,
        "",
        (candidate,),
        (held,),
    )
    device = DevicePlan("h200", "NVIDIA H200", 4.8e12, 4.0, "datasheet", (graph,), ("note",))
    part = AlternativeKernel("fused_mul_0", ("aten.mul.Tensor",), 1024, 5.0, RESOURCES)
    why = Why(
        "h200",
        "forward",
        "a",
        "b",
        True,
        "code",
        "meaning",
        "detail",
        64,
        1.5,
        (part, part),
        part,
        part,
        "datasheet",
        (held,),
    )
    difference = FusionDifference(
        "forward", ("aten.mul.Tensor", "aten.add.Tensor"), (LINE, LINE), ("h200",), {"l4": "domain"}
    )
    return Explanation("f", "balanced", (device,), (GraphBreak("why", LINE),), (difference,), (why,))


def state(walls: int) -> PlanState:
    kernel = KernelState("fused_mul_0", ("aten.mul.Tensor",), ("m.py:3",), 1024, 4096, 40, 16, 1024, "")
    wall = WallState("aten.mm.default", "reason", "m.py:4", "x @ w", 2048)
    graph = GraphState("forward", (kernel,), (wall,) * walls, "")
    return PlanState(
        Request("m.py:f", ("x:f32[8]",), ("h200",), "balanced", False),
        {"triton": "3.7.1"},
        (BreakState("why", "m.py:5", "print(x)"),),
        (DeviceState("h200", (graph,)),),
    )


def fields(value: Any, path: str = "") -> Iterator[str]:
    """`path: type` of every leaf; the members of a list are one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from fields(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner, f"{path}[]")
    else:
        yield f"{path}: {type(value).__name__}"


def text(document: str) -> str:
    """The schema's name, then every field."""
    plain = json.loads(document)
    return "\n".join([plain["schema"], *dict.fromkeys(fields(plain))]) + "\n"


def test_explanations(golden: Callable[[str, str], None]) -> None:
    golden("schemas/explanation.txt", text(explanation().to_json()))


def test_plans(golden: Callable[[str, str], None]) -> None:
    golden("schemas/plan.txt", text(state(1).to_json()))


def test_checks(golden: Callable[[str, str], None]) -> None:
    found = compare(state(1), state(2)).as_dict()
    found["improvements"], found["notes"] = found["findings"], ["note"]
    golden("schemas/check.txt", text(json.dumps(found)))
