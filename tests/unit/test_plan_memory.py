"""Peak memory of a plan and of eager, and what the planner makes of the two."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.config import Options
from fusewise.ir.graph import Graph
from fusewise.pipeline import machine_of, plan_captured
from fusewise.plan.memory import eager_peak_bytes, peak_bytes
from fusewise.plan.plan import OpaqueStep, Plan

ROWS, COLUMNS = 512, 1024
TENSOR = ROWS * COLUMNS * 4


def planned(fn: object, *inputs: torch.Tensor) -> Plan:
    (traced,) = trace_fn(fn, inputs, device="cuda")  # type: ignore[arg-type]
    captured = import_graph(traced.gm, traced.example_inputs, "balanced", "cuda")
    return plan_captured(captured, Options(), machine_of("h200"))[0]


def eager_peak(fn: object, *inputs: torch.Tensor) -> int:
    return eager_peak_bytes(planned(fn, *inputs).graph)


def test_peak_counts_inputs_until_their_last_use_and_outputs_to_the_end() -> None:
    graph: Graph = planned(lambda x: x + 1, torch.empty(ROWS, COLUMNS, device="meta")).graph
    (out,) = graph.outputs
    assert peak_bytes(graph, [(graph.inputs, [out])], [out]) == 2 * TENSOR


def test_an_eager_op_holds_what_it_reads_until_it_is_done() -> None:
    x = torch.empty(ROWS, COLUMNS, device="meta")
    # silu is several nodes: its operand is alive beside its result all the same
    assert eager_peak(lambda x: F.silu(x), x) == 2 * TENSOR
    # the second op's operand dies with it, the first's with the first
    assert eager_peak(lambda x: F.silu(F.silu(x)), x) == 2 * TENSOR


def test_the_draw_of_a_seed_keeps_nothing_apart() -> None:
    def norm_then_dropout(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.dropout(F.silu(F.group_norm(x, 8, w)), 0.1)

    x, w = torch.empty(4, 64, 128, 128, device="meta"), torch.empty(64, device="meta")
    plan = planned(norm_then_dropout, x, w)
    last = plan.kernels[-1]
    assert {"silu", "keep"} <= {plan.graph[n].origin.aten.split(".")[1] for n in last.nodes}
    assert sum(isinstance(s, OpaqueStep) for s in plan.steps) == 1


def test_products_that_are_added_up_do_not_wait_for_each_other() -> None:
    def ten(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x)
        for number in range(10):
            total = total + torch.relu(x * number) @ w
        return total

    x, w = torch.empty(1024, 1024, device="meta"), torch.empty(1024, 1024, device="meta")
    plan = planned(ten, x, w)
    steps = [
        (s.operands and [p.base for p in s.operands], s.results) if isinstance(s, OpaqueStep) else (s.reads, s.writes)
        for s in plan.steps
    ]
    outputs = [p.base for p in plan.outputs]
    assert peak_bytes(plan.graph, steps, outputs) <= 1.03 * eager_peak_bytes(plan.graph) + (1 << 20)
