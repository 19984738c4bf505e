"""Choices as rich tables: candidate fusions, answers to `--why`, the occupancy staircase, differences of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fusewise.report.documents import (
    AlternativeKernel,
    CandidateRow,
    CandidateSide,
    Figures,
    FusionDifference,
    GraphPlan,
    KernelResources,
    SourceLine,
    Why,
)
from fusewise.report.format import (
    format_bytes,
    format_count,
    format_ops,
    format_place,
    format_share,
    format_us,
    short_op,
)
from fusewise.report.tables import table_of
from fusewise.report.ways import ways_tables

BAR_WIDTH = 32
SOURCES = (
    "Bytes: counted from shapes. Times: modelled (*: from the compiled code). Registers, spills, shared memory: "
    "compiled (~: modelled); occupancy follows."
)


# ---- candidates


def candidate_summary(graph: GraphPlan) -> Text:
    """One line: how many were tried, taken and refused, and the codes of the refusals."""
    fusions = [c for c in graph.candidates if c.kind not in ("fission", "launch")]
    joined = [c for c in graph.candidates if c.kind == "launch"]
    splits = [c for c in graph.candidates if c.kind == "fission"]
    refused = Counter(c.code for c in fusions if not c.taken)
    text = f"{graph.role}: {format_count(len(fusions), 'fusion')} tried, {sum(c.taken for c in fusions)} taken"
    if refused:
        codes = ", ".join(f"{code} {number}" for code, number in refused.most_common())
        text += f", {refused.total()} refused ({codes})"
    if graph.held_back:
        relieved = sum(way.taken and way.kind in ("cap", "shared-spill") for row in graph.held_back for way in row.ways)
        text += f"; {format_count(len(graph.held_back), 'kernel')} held back by registers, {relieved} relieved whole"
    if splits:
        text += f"; {format_count(len(splits), 'split')} tried, {sum(c.taken for c in splits)} taken"
    if joined:
        text += f"; {sum(c.taken for c in joined)} of {format_count(len(joined), 'kernel')} joined another's launch"
    return Text(f"{text}. `fusewise explain --candidates` lists them.", style="dim")


def distinct(candidates: Sequence[CandidateRow]) -> list[tuple[CandidateRow, int]]:
    """The candidates in order, each with how often it was tried.

    A pair that stays refused is tried again whenever one of its kernels has grown: its last try stands for all.
    """
    times: Counter[object] = Counter(map(_pair, candidates))
    left = times.copy()
    found: list[tuple[CandidateRow, int]] = []
    for row in candidates:
        left[_pair(row)] -= 1
        if not left[_pair(row)]:
            found.append((row, times[_pair(row)]))
    return found


def _pair(row: CandidateRow) -> object:
    if row.taken:
        return id(row)
    sides = tuple((side.op, side.line, side.kernel) for side in (row.first, row.second))
    return row.kind, row.code, sides


def candidate_table(graph: GraphPlan) -> RenderableType:
    """Every candidate in the order in which they were tried, before above after."""
    right = "right"
    table = table_of(
        ("", right),
        "candidate",
        "verdict",
        ("saves", right),
        ("time before\nafter", right),
        ("registers\nbefore, after", right),
        ("occupancy\nbefore, after", right),
        title=f"{graph.role}: every fusion that was tried",
    )
    for row, times in distinct(graph.candidates):
        table.add_row(
            f"{times} x" if times > 1 else "",
            Text.assemble(_side(row.first), "\n", _side(row.second)),
            _verdict(row),
            f"{format_bytes(row.bytes_saved)}\n{format_us(row.gain_us)}",
            _two(*(_time(f) for f in (row.before, row.after))),
            _two(*(_registers(f) for f in (row.before, row.after))),
            _two(*(format_share(f.occupancy) for f in (row.before, row.after))),
        )
    note = "A dash: a kernel on the way that was not compiled; `--why` compiles both ways of a pair."
    if len(distinct(graph.candidates)) < len(graph.candidates):
        note += " N x: refused so often, as the kernels grew; the last time is shown, and --json has each."
    return Group(table, Text(f"{SOURCES} {note}", style="dim"))


def _side(side: CandidateSide) -> Text:
    text = Text(short_op(side.op))
    place = format_place(side.line.file, side.line.line)
    more = f" and {side.nodes - 1} more" if side.nodes > 1 else ""
    return text.append(f"{more}  {place}".rstrip(), style="dim")


def _verdict(row: CandidateRow) -> Text:
    word = Text("taken", style="green") if row.taken else Text("refused", style="yellow")
    return Text.assemble(word, f" {row.kind}\n", (row.code, "bold"), f" {row.detail}".rstrip())


def _time(found: Figures) -> str:
    return "-" if found.predicted_us is None else _predicted(found.predicted_us, found.time_source)


def _predicted(time_us: float, source: str) -> str:
    return format_us(time_us) + ("*" if source == "compiled" else "")


def _registers(found: Figures) -> str:
    if found.regs_per_thread is None:
        return "-"
    text = _about(found.regs_per_thread, found.resources_source)
    return text + (f" +{found.spill_bytes} B spilled" if found.spill_bytes else "")


def _about(registers: int | None, source: str) -> str:
    return f"~{registers}" if source == "modelled" else str(registers)


def _two(before: str, after: str) -> str:
    return f"{before}\n{after}"


# ---- why


def render_why(answers: Sequence[Why]) -> RenderableType:
    """The answers, each with both ways to run the pair."""
    parts: list[RenderableType] = []
    for why in answers:
        parts += _answer(why)
    rates = " and ".join(sorted({why.rate_source for why in answers if why.rate_source}))
    parts.append(Text(f"{SOURCES} Memory rate: {rates}." if rates else SOURCES, style="dim"))
    return Group(*parts)


def _answer(why: Why) -> list[RenderableType]:
    where = ", ".join(part for part in (why.device, why.role) if part)
    verdict = f"one kernel, {why.first}" if why.fused else f"{why.first} and {why.second} stay apart"
    reason = Text.assemble((why.code, "bold"), f": {why.meaning}")
    if why.detail:
        reason.append(f" ({why.detail})")
    parts: list[RenderableType] = [Text.assemble((f"{where}: ", "bold cyan"), (verdict, "bold")), reason]
    if why.bytes_saved or why.gain_us:
        word = "Saves" if why.fused else "Would save"
        parts.append(Text(f"{word} {format_bytes(why.bytes_saved)} and {format_us(why.gain_us)}."))
    if why.apart:
        parts.append(_ways(why))
    if why.together is not None and why.together.resources is not None and why.together.resources.staircase:
        parts.append(staircase_table(why.together.name, why.together.resources))
    elif why.together is None and not why.fused and why.apart:
        parts.append(Text("The two cannot be one kernel, so there is none to compile.", style="dim"))
    parts += ways_tables(why.held_back)
    parts.append(Text(""))
    return parts


def _ways(why: Why) -> Table:
    right = "right"
    heads = ("bytes", "predicted", "registers", "spilled", "shared", "occupancy")
    table = table_of("way", "kernel", *((h, right) for h in heads))
    for number, kernel in enumerate(why.apart):
        table.add_row("apart" if number == 0 else "", _kernel_name(kernel), *_kernel_figures(kernel))
    if len(why.apart) > 1:
        total = sum(k.dram_bytes for k in why.apart), sum(k.predicted_us for k in why.apart)
        table.add_row("", Text("sum", style="dim"), format_bytes(total[0]), format_us(total[1]))
    if why.together is not None:
        table.add_row("as one", _kernel_name(why.together), *_kernel_figures(why.together))
    if why.whole is not None:
        table.add_row("in the plan", _kernel_name(why.whole), *_kernel_figures(why.whole))
    return table


def _kernel_name(kernel: AlternativeKernel) -> Text:
    return Text.assemble((kernel.name, "bold"), (f"\n{format_ops(kernel.ops)}", "dim"))


def _kernel_figures(kernel: AlternativeKernel) -> list[str]:
    figures = [format_bytes(kernel.dram_bytes), _predicted(kernel.predicted_us, kernel.predicted_from)]
    found = kernel.resources
    if found is None or not found.is_known:
        return [*figures, "-", "-", "-", "-"]
    return [
        *figures,
        _about(found.regs_per_thread, found.source),
        f"{found.spill_bytes} B",
        format_bytes(found.shared_bytes or 0),
        f"{format_share(found.occupancy)} ({found.limiter})",
    ]


# ---- occupancy


def staircase_table(name: str, found: KernelResources) -> Table:
    """Occupancy against registers a thread for one kernel's block, with the kernel's own place marked."""
    block = f"{found.threads_per_block} threads a block, {format_bytes(found.shared_bytes or 0)} shared"
    right = "right"
    table = table_of(
        ("registers", right),
        ("blocks an SM", right),
        "occupancy",
        "limited by",
        title=f"{name}: occupancy against registers a thread ({block})",
    )
    for step in found.staircase:
        here = step.regs_from <= (found.regs_per_thread or -1) <= step.regs_to
        bar = Text("█" * max(round(BAR_WIDTH * step.occupancy), 1 if step.occupancy else 0))
        bar.append(f" {format_share(step.occupancy)}")
        if here:
            bar.append(f"  ◀ {found.regs_per_thread} registers")
        span = str(step.regs_from) if step.regs_from == step.regs_to else f"{step.regs_from} to {step.regs_to}"
        table.add_row(span, str(step.blocks_per_sm), bar, step.limiter, style="bold green" if here else "dim")
    return table


def next_step(found: KernelResources) -> str:
    """`19% at 128`: the occupancy at the next count of registers down that raises it; empty where there is none."""
    down = found.next_regs_down
    step = next((s for s in found.staircase if down is not None and s.regs_from <= down <= s.regs_to), None)
    return "" if step is None else f"{format_share(step.occupancy)} at {down}"


# ---- devices


def difference_table(differences: Sequence[FusionDifference]) -> Table:
    """Calls that are one kernel on some devices only."""
    table = table_of("calls", "one kernel on", "apart on", title="Fused on some of them only")
    for found in differences:
        calls = Text(f"{found.role}: ", style="dim")
        calls.append(f"{_call(found.ops[0], found.lines[0])}, {_call(found.ops[1], found.lines[1])}", style="not dim")
        apart = ", ".join(f"{device} ({code})" for device, code in found.apart_on.items())
        table.add_row(calls, ", ".join(found.fused_on), apart)
    return table


def _call(op: str, line: SourceLine) -> str:
    place = format_place(line.file, line.line)
    return f"{short_op(op)} {place}".rstrip()
