"""Kernels that registers hold back, and every way that was weighed to run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from fusewise.plan.decisions import HeldBack
from fusewise.plan.plan import Plan
from fusewise.report.ways import HeldBackRow, WayRow


def held_back_rows(plan: Plan, names: Sequence[str], owner: Mapping[int, int]) -> tuple[HeldBackRow, ...]:
    """A row for each of a plan's kernels that was held back.

    Args:
        names: of the plan's steps.
        owner: position of the step that makes each value.
    """
    return tuple(_row(held, names, owner) for held in plan.held_back)


def _row(held: HeldBack, names: Sequence[str], owner: Mapping[int, int]) -> HeldBackRow:
    steps = sorted({owner[node] for node in held.nodes if node in owner})
    ways = tuple(WayRow(**{f.name: getattr(way, f.name) for f in fields(WayRow)}) for way in held.ways)
    return HeldBackRow(held.kernel, tuple(dict.fromkeys(names[step] for step in steps)), ways)
