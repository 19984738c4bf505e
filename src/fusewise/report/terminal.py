"""Explanations and verifications as rich tables.

Names and code come from the user's program: they are shown as `Text`, never parsed as markup.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusewise.report.choices import (
    candidate_summary,
    candidate_table,
    difference_table,
    next_step,
    render_why,
    staircase_table,
)
from fusewise.report.documents import (
    DevicePlan,
    Explanation,
    GraphPlan,
    KernelResources,
    KernelRow,
    ResultCheck,
    SourceLine,
    Verification,
)
from fusewise.report.format import (
    format_bytes,
    format_error,
    format_ops,
    format_place,
    format_share,
    format_us,
    shorten,
)
from fusewise.report.tables import table_of as table_of
from fusewise.report.ways import ways_tables

PLAIN_WIDTH = 120
CODE_LIMIT = 64
LINES_SHOWN = 6


def plain_text(view: RenderableType, width: int = PLAIN_WIDTH) -> str:
    """The same without colours, for `print` and log files."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(view)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


# ---- explanations


def render_explanation(explanation: Explanation, candidates: bool = False, staircases: bool = False) -> RenderableType:
    """The whole explanation: an overview, then each device's kernels, walls and refused fusions.

    Args:
        candidates: also every fusion that was tried.
        staircases: also occupancy against registers for each GPU kernel.
    """
    head = Text.assemble((explanation.target, "bold"), f"  policy {explanation.policy}")
    parts: list[RenderableType] = [head]
    if len(explanation.devices) > 1:
        parts.append(_device_overview(explanation.devices))
    if explanation.differences:
        parts.append(difference_table(explanation.differences))
    for device in explanation.devices:
        parts += _device(device, candidates, staircases)
    if explanation.why:
        parts.append(render_why(explanation.why))
    if explanation.graph_breaks:
        table = table_of("why", "where", title=f"Graph breaks: {len(explanation.graph_breaks)}")
        for stop in explanation.graph_breaks:
            table.add_row(Text(stop.reason), _place(stop.line))
        parts.append(table)
    else:
        parts.append(Text("No graph breaks.", style="dim"))
    return Group(*parts)


def render_plan(explanation: Explanation) -> RenderableType:
    """The kernels alone, and how many ops and neighbours stay apart, and why."""
    parts: list[RenderableType] = []
    for device in explanation.devices:
        parts.append(Text.assemble((explanation.target, "bold"), f" on {device.title}, policy {explanation.policy}"))
        for graph in device.graphs:
            if graph.eager_reason:
                parts.append(render_graph(graph))
            if graph.kernels:
                parts.append(kernel_table(graph.kernels, f"{graph.role}: {_count(len(graph.kernels), 'kernel')}"))
            if graph.walls:
                parts.append(Text(f"{graph.role}, as PyTorch's own: {format_ops(tuple(w.op for w in graph.walls))}"))
            if graph.not_fused:
                codes = Counter(pair.code for pair in graph.not_fused)
                reasons = ", ".join(f"{code} {number}" for code, number in codes.most_common())
                parts.append(Text(f"{graph.role}, neighbours that are not fused: {reasons}"))
        parts.append(_summary(device))
        parts.append(Text(""))
    return Group(*parts)


def _device_overview(devices: Sequence[DevicePlan]) -> Table:
    right = "right"
    table = table_of(
        "device",
        ("kernels", right),
        ("PyTorch ops", right),
        ("bytes unfused", right),
        ("fused", right),
        ("floor", right),
        ("predicted", right),
        ("most regs", right),
        ("spilled B", right),
        title="Side by side",
    )
    for device in devices:
        table.add_row(
            device.device,
            str(len(device.kernels)),
            str(len(device.walls)),
            format_bytes(device.unfused_bytes),
            format_bytes(device.dram_bytes),
            format_us(device.floor_us),
            format_us(device.predicted_us),
            _or_dash(device.most_regs),
            _or_dash(device.spill_bytes),
        )
    return table


def _device(device: DevicePlan, candidates: bool, staircases: bool) -> list[RenderableType]:
    rate = f"{device.bytes_per_s / 1e9:,.0f} GB/s ({device.rate_source})"
    title = Text.assemble("\n", (device.title, "bold cyan"), f"  memory {rate}, {device.launch_us:g} us a launch")
    parts: list[RenderableType] = [title]
    parts += [Text(note, style="yellow") for note in device.notes]
    for graph in device.graphs:
        parts.append(render_graph(graph))
        if graph.candidates:
            parts.append(candidate_table(graph) if candidates else candidate_summary(graph))
        if candidates:
            parts += ways_tables(graph.held_back)
    if staircases:
        held = [(k.name, k.resources) for k in device.kernels if k.resources is not None and k.resources.staircase]
        parts += [staircase_table(name, resources) for name, resources in held]
    parts.append(_summary(device))
    return parts


def _summary(device: DevicePlan) -> Text:
    kernels, walls = len(device.kernels), len(device.walls)
    text = Text(f"{_count(device.fused_ops, 'op')} in {_count(kernels, 'kernel')}")
    text.append(f", {_count(walls, 'op')} as PyTorch's own. ")
    if kernels:
        gain = device.unfused_bytes / device.dram_bytes if device.dram_bytes else 1.0
        text.append(
            f"Fused part: {format_bytes(device.unfused_bytes)} unfused, {format_bytes(device.dram_bytes)} fused"
            f" ({gain:.1f}x less), floor {format_us(device.floor_us)}, predicted {format_us(device.predicted_us)}"
            " (modelled)."
        )
    return text


def render_graph(graph: GraphPlan) -> RenderableType:
    """Kernels, walls and refused fusions of one graph."""
    if graph.eager_reason:
        return Text(f"{graph.role}: runs as eager PyTorch: {graph.eager_reason}", style="yellow")
    parts: list[RenderableType] = []
    if graph.kernels:
        parts.append(kernel_table(graph.kernels, f"{graph.role}: {_count(len(graph.kernels), 'kernel')}"))
    else:
        parts.append(Text(f"{graph.role}: no kernel is generated.", style="bold"))
    if graph.walls:
        table = table_of("op", "why", "where", ("bytes", "right"), title=f"{graph.role}: as PyTorch's own kernels")
        for wall in graph.walls:
            table.add_row(Text(wall.name), Text(wall.reason), _place(wall.line), format_bytes(wall.dram_bytes))
        parts.append(table)
    if graph.not_fused:
        table = table_of(
            "pair", "why not", ("bytes between", "right"), title=f"{graph.role}: neighbours that are not fused"
        )
        for pair in graph.not_fused:
            why = Text.assemble((pair.code, "bold"), f"  {pair.detail or pair.meaning}")
            table.add_row(Text(f"{pair.first}, {pair.second}"), why, format_bytes(pair.bytes_between))
        parts.append(table)
    return Group(*parts)


def kernel_table(kernels: Sequence[KernelRow], title: str) -> Table:
    """One row a kernel: what is in it, bytes, floor, predicted time, and registers where there is a GPU.

    Figures stand below each other, so that names and code keep their width.
    """
    right = "right"
    columns: list[str | tuple[str, str]] = [
        "kernel and what is fused in it",
        ("unfused\nfused", right),
        ("floor\npredicted", right),
    ]
    gpu = any(k.resources is not None for k in kernels)
    more = "on the GPU" if gpu else "bound by" if any(k.cpu for k in kernels) else None
    table = table_of(*columns, *([(more, right)] if more else []), title=title)
    for kernel in kernels:
        row: list[RenderableType] = [
            _contents(kernel),
            f"{format_bytes(kernel.unfused_bytes)}\n{format_bytes(kernel.dram_bytes)}",
            f"{format_us(kernel.floor_us)}\n{format_us(kernel.predicted_us)}",
        ]
        if more:
            row.append(_resources(kernel.resources) if gpu else _cpu_use(kernel))
        table.add_row(*row)
    return table


def _cpu_use(kernel: KernelRow) -> str:
    """What binds a CPU kernel, and its parts."""
    use = kernel.cpu
    if use is None:
        return "-"
    spilled = f", {format_bytes(round(use.spill_bytes))} spilled" if use.spill_bytes else ""
    lines = [
        f"{kernel.bound_by}, {_count(use.cores, 'core')}",
        f"memory {format_us(use.memory_us)} ({use.level})",
        f"vector issue {format_us(use.vector_us)}" + (f" ({use.busiest})" if use.busiest else ""),
        f"{use.live_registers} of {use.vector_registers} registers{spilled}",
    ]
    return "\n".join(lines)


def _contents(kernel: KernelRow) -> Text:
    text = Text(kernel.name, style="bold")
    if kernel.members:
        text.append(f"\n{len(kernel.members)} kernels side by side", style="not bold italic")
    text.append(f"\n{format_ops(kernel.ops)}", style="not bold")
    for line in kernel.lines[:LINES_SHOWN]:
        text.append(f"\n  {format_place(line.file, line.line)}  ", style="not bold dim")
        text.append(shorten(line.text, CODE_LIMIT), style="not bold")
    if len(kernel.lines) > LINES_SHOWN:
        text.append(f"\n  and {len(kernel.lines) - LINES_SHOWN} more lines", style="not bold dim")
    return text


def _resources(found: KernelResources | None) -> str:
    if found is None or not found.is_known:
        return "registers unknown"
    about = "~" if found.source == "modelled" else ""
    lines = [
        f"{about}{found.regs_per_thread} registers" + ("" if found.maxnreg is None else f" (at most {found.maxnreg})"),
        f"{found.spill_bytes} B spilled",
        f"{format_bytes(found.shared_bytes or 0)} shared",
    ]
    if found.occupancy is not None:
        lines.append(f"{format_share(found.occupancy)} full ({found.limiter})")
        if more := next_step(found):
            lines.append(more)
    return "\n".join(lines)


def _place(line: SourceLine) -> Text:
    text = Text(format_place(line.file, line.line), style="dim")
    if line.text:
        text.append(f"\n{shorten(line.text, CODE_LIMIT)}", style="not dim")
    return text


# ---- verifications


def render_verification(verification: Verification) -> RenderableType:
    """Verdict, one row a result and set of inputs, and what differs."""
    right = "right"
    head = Text.assemble(
        (verification.target, "bold"),
        f"  policy {verification.policy}, {verification.device}, {_count(verification.kernels, 'generated kernel')}",
    )
    table = table_of(
        "result",
        "type",
        ("sets equal\nbit for bit", right),
        ("most ulp\nto eager", right),
        ("error\nto fp64", right),
        ("eager's\nerror", right),
        "",
        title="Over all sets of inputs; the errors are those on the caller's inputs",
    )
    for checks in _by_result(verification):
        first = checks[0]
        ulps = [c.max_ulp for c in checks if c.max_ulp is not None]
        ok = all(c.ok for c in checks)
        table.add_row(
            Text(first.name),
            f"{first.dtype}{list(first.shape)}" if first.dtype else "",
            f"{sum(c.bit_equal for c in checks)} of {len(checks)}",
            _or_dash(max(ulps, default=None)),
            format_error(first.error),
            format_error(first.eager_error),
            Text("ok", style="green") if ok else Text("WRONG", style="bold red"),
        )
    parts: list[RenderableType] = [head, table]
    parts += [_difference(check) for check in verification.failures]
    parts += [Text(note, style="dim") for note in verification.notes]
    parts += [Text(f"A graph ran as eager PyTorch: {why}", style="yellow") for why in verification.eager_graphs]
    parts.append(_verdict(verification))
    return Group(*parts)


def _by_result(verification: Verification) -> list[list[ResultCheck]]:
    """The checks of each result, the caller's inputs first."""
    found: dict[str, list[ResultCheck]] = {}
    for check in verification.checks:
        found.setdefault(check.name, []).append(check)
    return list(found.values())


def _difference(check: ResultCheck) -> RenderableType:
    text = Text(f"{check.name} on {check.inputs} inputs: {check.rule}", style="red")
    found = check.difference
    if found is not None:
        place = f"\nfirst at {list(found.index)}: fused {found.fused}, eager {found.eager}, fp64 {found.fp64}"
        text.append(place, style="not bold")
        if found.kernel:
            text.append(f"\nwritten by {found.kernel}: `fusewise show {found.kernel}` prints it")
    return Padding(text, (0, 0, 1, 2))


def _verdict(verification: Verification) -> Text:
    equal = sum(c.bit_equal for c in verification.checks)
    total = len(verification.checks)
    if verification.ok:
        return Text(f"Verified: {_count(total, 'comparison')}, {equal} of them equal bit for bit.", style="bold green")
    wrong = len(verification.failures)
    return Text(f"NOT equal: {wrong} of {_count(total, 'comparison')} outside what is allowed.", style="bold red")


# ---- small parts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
