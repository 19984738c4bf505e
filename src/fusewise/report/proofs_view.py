"""The further proofs as rich tables."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from fusewise.report.format import format_ops, format_place, short_op
from fusewise.report.proofs import ExhaustiveReport, ExhaustiveRow, FusionCheck, UnfusedProof
from fusewise.report.terminal import table_of


def render_unfused(proof: UnfusedProof) -> RenderableType:
    """Verdict, one row a kernel, and what differs."""
    head = Text.assemble(
        (proof.target, "bold"),
        f"  policy {proof.policy}, {proof.device}, {proof.kernels} kernels made by {proof.fusions} fusions",
    )
    right = "right"
    table = table_of(
        "kernel",
        "ops",
        ("sets\nof inputs", right),
        ("elements\ncompared", right),
        ("sums in\nanother order", right),
        "",
        title="Each kernel against its ops run one by one, bit for bit",
    )
    for checks in _by_kernel(proof):
        ok = all(c.ok for c in checks)
        table.add_row(
            Text(checks[0].kernel),
            Text(format_ops(checks[0].ops)),
            str(len(checks)),
            f"{sum(c.elements for c in checks):,}",
            str(max(c.sums for c in checks)),
            Text("ok", style="green") if ok else Text("WRONG", style="bold red"),
        )
    parts: list[RenderableType] = [head, table]
    parts += [_difference(check) for check in proof.failures]
    parts += [Text(note, style="dim") for note in proof.notes]
    parts += [Text(f"A graph ran as eager PyTorch: {why}", style="yellow") for why in proof.eager_graphs]
    elements = sum(c.elements for c in proof.checks)
    if proof.ok:
        parts.append(Text(f"Proven: the fusions changed none of {elements:,} elements.", style="bold green"))
    else:
        wrong = len({c.kernel for c in proof.failures})
        parts.append(Text(f"NOT equal: {wrong} of {proof.kernels} kernels differ.", style="bold red"))
    return Group(*parts)


def _by_kernel(proof: UnfusedProof) -> list[list[FusionCheck]]:
    found: dict[str, list[FusionCheck]] = {}
    for check in proof.checks:
        found.setdefault(check.kernel, []).append(check)
    return list(found.values())


def _difference(check: FusionCheck) -> Text:
    text = Text(f"{check.kernel} on {check.inputs} inputs: {check.wrong} elements of ", style="red")
    text.append(f"{short_op(check.op)} {format_place(check.file, check.line)}".rstrip())
    place = list(check.index) if check.index is not None else "?"
    text.append(f"\n  first at {place}: fused {check.fused}, one by one {check.unfused}", style="not bold")
    text.append(f"\n  `fusewise show {check.kernel}` prints it", style="not bold")
    return text


# ---- every input of an op


def render_exhaustive(report: ExhaustiveReport) -> RenderableType:
    """Verdict, the counts by dtype, what differs, and what stays eager and why."""
    head = Text.assemble(("conservative", "bold"), f"  {report.device_name}, torch {report.versions['torch']}")
    right = "right"
    columns = ("calls", "fused", "inputs\nof one call", "elements\ncompared", "differ")
    table = table_of("dtype", *((c, right) for c in columns), title="Pointwise ops against eager's, bit for bit")
    for dtype, rows in _by_dtype(report).items():
        fused = [r for r in rows if r.fused]
        table.add_row(
            dtype,
            str(len(rows)),
            str(len(fused)),
            f"{min((r.inputs for r in fused), default=0):,}",
            f"{sum(r.compared for r in fused):,}",
            f"{sum(r.mismatches for r in fused):,}",
        )
    parts: list[RenderableType] = [head, table]
    parts += [_mismatch(row) for row in report.rows if row.mismatches]
    parts += [_stays_eager(reason, rows) for reason, rows in _by_reason(report).items()]
    compared = sum(r.compared for r in report.rows)
    if report.unclaimed:
        parts.append(Text("These ops run as PyTorch's own kernels under conservative; here they were fused to count."))
    elif report.ok:
        parts.append(Text(f"Proven: {compared:,} elements, every bit eager's.", style="bold green"))
    else:
        wrong = len({r.op for r in report.failures})
        parts.append(Text(f"NOT equal: {wrong} ops differ from eager's.", style="bold red"))
    return Group(*parts)


def _by_dtype(report: ExhaustiveReport) -> dict[str, list[ExhaustiveRow]]:
    found: dict[str, list[ExhaustiveRow]] = {}
    for row in report.rows:
        found.setdefault(row.dtype, []).append(row)
    return found


def _by_reason(report: ExhaustiveReport) -> dict[str, list[ExhaustiveRow]]:
    found: dict[str, list[ExhaustiveRow]] = {}
    for row in report.rows:
        if not row.fused:
            found.setdefault(row.reason, []).append(row)
    return found


def _mismatch(row: ExhaustiveRow) -> Text:
    share = f"{row.mismatches:,} of {row.compared:,} elements differ"
    text = Text(f"{row.call} on {row.dtype}: {share}, in {', '.join(row.layouts_that_differ)}", style="red")
    if row.first is not None:
        given = ", ".join(row.first.given)
        text.append(f"\n  first on ({given}): fused {row.first.fused}, eager {row.first.eager}", style="not bold")
    return text


def _stays_eager(reason: str, rows: list[ExhaustiveRow]) -> Text:
    calls = dict.fromkeys(f"{r.call} on {r.dtype}" for r in rows)
    return Text(f"Stays eager ({reason}): {'; '.join(calls)}", style="dim")
