"""The text form of a plan: what runs in order, the bytes of it, and every decision. Axes are numbered in each kernel.

plan for NVIDIA H200: 4.8e+12 bytes/s (datasheet), 2.0 us a launch
kernel fused_add_mean_0
  axes a0 16384, row a1 4096
  read %0: bf16[16384, 4096] at [a0, a1], 134217728 bytes
  write %7: f32[16384] at [a0], 65536 bytes
  nodes %3 .. %7
  moves 134283264 bytes; one kernel an op 402718720 bytes; predicted 30.0 us
wall aten.mm.default of %8: no expansion
  ...
launch fused_gelu_1_and_7_more: the next 8 kernels side by side
  predicted 6.0 us
outputs %7
decisions
  taken vertical %3 %4 saves-bytes: 268435456 bytes, 57.9 us
  ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from fusewise.ir import affine
from fusewise.ir.indexing import At
from fusewise.ir.printer import origin_text, shape_text
from fusewise.ir.sizes import Size, contiguous_strides, same, same_all
from fusewise.plan.cost import value_bytes
from fusewise.plan.decisions import Decision
from fusewise.plan.plan import KernelStep, OpaqueStep, Plan, read_bytes
from fusewise.plan.prepare import Placement
from fusewise.plan.region import Region

_AXIS = re.compile(r"\ba\d+\b")


def print_plan(plan: Plan, reasons: Sequence[str] = (), decisions: bool = True) -> str:
    """The plan as text, ending in a newline.

    Args:
        reasons: why each wall is one, by the `key` of its node.
        decisions: also list every candidate fusion, in the order in which they were tried.
    """
    machine = plan.machine
    rate = f"{machine.bytes_per_s:.4g} bytes/s ({machine.source})"
    lines = [f"plan for {machine.name}: {rate}, {machine.launch_us} us a launch"]
    first = {bundle.members[0]: bundle for bundle in plan.bundles}
    for step in plan.steps:
        if isinstance(step, KernelStep) and step.name in first:
            bundle = first[step.name]
            lines.append(f"launch {bundle.name}: the next {len(bundle.members)} kernels side by side")
            lines.append(f"  predicted {bundle.predicted_us:.1f} us")
        lines += _kernel(plan, step) if isinstance(step, KernelStep) else _wall(plan, step, reasons)
    for position in plan.late:
        target = plan.graph.inputs[plan.graph.writes[position]]
        lines.append(f"copy {_place(plan, plan.outputs[position])} to %{target}")
    results = [_place(plan, p) for n, p in enumerate(plan.outputs) if n not in plan.graph.writes]
    lines.append(f"outputs {', '.join(results)}".rstrip())
    if decisions and plan.decisions:
        lines.append("decisions")
        lines += [f"  {print_decision(d)}" for d in plan.decisions]
    return "\n".join(lines) + "\n"


def print_decision(decision: Decision) -> str:
    """One line: `refused vertical %3 %9 domain: 4096 bytes, 1.9 us; axes of 7 and 5 have no common refinement`."""
    sides = f"%{decision.producer} %{decision.consumer}"
    text = f"{'taken' if decision.taken else 'refused'} {decision.kind} {sides} {decision.code}"
    text += f": {decision.bytes_saved} bytes, {decision.gain_us:.1f} us"
    return f"{text}; {_renumber(decision.detail)}" if decision.detail else text


def _kernel(plan: Plan, step: KernelStep) -> list[str]:
    graph, hints = plan.graph, plan.graph.hints()
    region = step.region
    names = {axis: f"a{number}" for number, axis in enumerate(region.axes)}
    lines = [f"kernel {step.name}"]
    if region.axes:
        lines.append(f"  axes {', '.join(_axis(region, axis, names) for axis in region.axes)}")
    for value in step.reads:
        places = " and ".join(_at(at, names, region) for at in region.reads[value])
        moved = read_bytes(graph, region, value, hints)
        lines.append(f"  read {_value(plan, value)} at {places}, {moved} bytes")
    over = dict(step.over)
    for value in step.writes:
        place = _at(region.at[value], names, region)
        line = f"  write {_value(plan, value)} at {place}, {value_bytes(graph, value, hints)} bytes"
        lines.append(f"{line}, in place of %{over[value]}" if value in over else line)
    lines.append(f"  nodes {_ranges(step.nodes)}")
    lines.append(
        f"  moves {step.dram_bytes} bytes; one kernel an op {step.unfused_bytes} bytes; "
        f"predicted {step.predicted_us:.1f} us"
    )
    return lines


def _wall(plan: Plan, step: OpaqueStep, reasons: Sequence[str]) -> list[str]:
    node = plan.graph[step.node]
    key = node.attr("key")
    reason = f": {reasons[key]}" if key < len(reasons) else ""
    lines = [f"wall {origin_text(node.origin) or 'call'} of %{step.node}{reason}"]
    lines += [f"  read {_place(plan, place)}" for place in step.operands]
    lines += [f"  write {_value(plan, value)}" for value in step.results]
    return lines


def _value(plan: Plan, value: int) -> str:
    node = plan.graph[value]
    text = f"%{value}: {node.dtype}{shape_text(node.shape)}"
    strides = plan.layouts.get(value)
    if strides is not None and not same_all(strides, contiguous_strides(node.shape)):
        text += f" strides ({', '.join(map(str, strides))})"
    return text


def _place(plan: Plan, place: Placement) -> str:
    """`%3`, with strides and offset where the tensor is a view of it."""
    text = f"%{place.base}"
    if place.strides != plan.layouts.get(place.base):
        text += f" strides ({', '.join(map(str, place.strides))})"
    return text if same(place.offset, 0) else f"{text} from {place.offset}"


def _axis(region: Region, axis: str, names: Mapping[str, str]) -> str:
    role = "row " if axis in region.reduce else "loop " if axis in region.loop else ""
    return f"{role}{names[axis]} {region.axes[axis]}"


def _at(at: At, names: Mapping[str, str], region: Region) -> str:
    table = {old: affine.axis(new) for old, new in names.items()}
    sizes: dict[str, Size] = {new: region.axes[old] for old, new in names.items()}
    return f"[{', '.join(affine.render(affine.substitute(index, table, sizes)) for index in at)}]"


def _renumber(text: str) -> str:
    """Axes of regions have names that differ from run to run: numbered here as they come."""
    names: dict[str, str] = {}
    return _AXIS.sub(lambda found: names.setdefault(found[0], f"a{len(names)}"), text)


def _ranges(nodes: Iterable[int]) -> str:
    """`%3 .. %7, %9`: ascending ids, runs of three and more shortened."""
    runs: list[list[int]] = []
    for node in nodes:
        if runs and runs[-1][-1] == node - 1:
            runs[-1].append(node)
        else:
            runs.append([node])
    parts = [f"%{r[0]} .. %{r[-1]}" if len(r) > 2 else ", ".join(f"%{n}" for n in r) for r in runs]
    return ", ".join(parts)
