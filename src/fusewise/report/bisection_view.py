"""A bisection as text."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from fusewise.report.bisection import Bisection, Fusion, Side
from fusewise.report.format import format_bytes, format_ops, format_place, format_us, short_op
from fusewise.report.terminal import table_of


def render_bisection(found: Bisection) -> RenderableType:
    """The answer, the fusion with both its sides, and how to forbid it."""
    head = Text.assemble((found.target, "bold"), f"  policy {found.policy}, {found.device}, {found.fusions} fusions")
    parts: list[RenderableType] = [head]
    if found.trials:
        table = table_of(("fusions taken", "right"), "", title=f"Tried ({found.question}?)")
        for trial in found.trials:
            verdict = format_us(trial.time_us) if trial.time_us is not None else "right" if trial.ok else "WRONG"
            table.add_row(str(trial.fusions), verdict)
        parts.append(table)
    parts.append(Text(found.answer, style="bold red" if found.found else "bold green"))
    if found.culprit is not None:
        parts += _fusion(found.culprit)
    parts += [Text(line) for line in found.details]
    return Group(*parts)


def _fusion(fusion: Fusion) -> list[RenderableType]:
    head = Text(f"\nFusion {fusion.number}, {fusion.role} graph, {fusion.kind}: {fusion.meaning} ({fusion.code})")
    head.append(f"\nexpected to save {format_bytes(fusion.bytes_saved)} and {format_us(fusion.gain_us)}", style="dim")
    passes = f"\nbetween them: {short_op(fusion.value)}" if fusion.value else ""
    if fusion.line is not None and passes:
        passes += f", {format_place(fusion.line.file, fusion.line.line)}  {fusion.line.text}"
    head.append(passes)
    return [head, _side("first ", fusion.first), _side("second", fusion.second), Text(f"fused  {fusion.fused}")]


def _side(name: str, side: Side) -> Text:
    text = Text.assemble(f"{name} ", (side.kernel, "bold"), f"  {format_ops(side.ops)}")
    for line in side.lines:
        text.append(f"\n         {format_place(line.file, line.line)}  {line.text}", style="dim")
    return text
