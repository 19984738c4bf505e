"""The lab's figures: speed-up against k, and time against registers with the occupancy steps beneath.

matplotlib is optional: the extra `plot` brings it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fusewise.device import GpuModel
from fusewise.device.occupancy import staircase
from fusewise.errors import EnvironmentFailure, UsageError
from fusewise.lab import published
from fusewise.lab.offline import CompiledModes
from fusewise.lab.run import Result, Row
from fusewise.lab.verdict import REGIMES, fat_costs_of, gains_of

INK, MUTED, GRID = "#1f2430", "#6b7280", "#e5e7eb"
BLUE, ORANGE, GREEN, PURPLE = "#2563eb", "#ea580c", "#059669", "#7c3aed"
SUFFIXES = (".png", ".svg", ".pdf")
_STYLE = {
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.color": INK,
    "savefig.dpi": 160,
    "svg.hashsalt": "fusewise",
    "figure.facecolor": "white",
}


def check_plot(path: Path) -> None:
    """Raises where no figure could be written there: before the minutes that a run takes."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path.name} is not a figure: its name must end in {', '.join(SUFFIXES)}.")
    if not path.parent.is_dir():
        raise UsageError(f"no folder {path.parent} to write {path.name} to.")
    _pyplot()


def draw(result: Result, path: Path, model: GpuModel | None = None) -> None:
    """Draws what the rows hold: gains against k, the probe's cost, residency, phases.

    Args:
        model: of the GPU that the rows come from, for the occupancy steps; None on a CPU.

    Raises:
        EnvironmentFailure: matplotlib is not installed.
    """
    plt = _pyplot()
    panels: list[Any] = []
    gains = gains_of(result.rows)
    for regime, n in dict.fromkeys((g.regime, g.n) for g in gains):
        if len({g.k for g in gains if (g.regime, g.n) == (regime, n)}) > 1:
            panels.append(lambda axes, r=regime, m=n: _draw_gains(axes, result, r, m))
    if len(fat_costs_of(result.rows)) > 1:
        panels.append(lambda axes: _draw_fat(axes, result, model))
    if any(row.shared_bytes for row in result.rows):
        panels.append(lambda axes: _draw_throttle(axes, result.rows))
    if any(row.kind.startswith("phases") for row in result.rows):
        panels.append(lambda axes: _draw_phases(axes, result.rows))
    if not panels:
        panels.append(lambda axes: _draw_times(axes, result.rows))
    with plt.rc_context(_STYLE):
        figure, grid = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.4), squeeze=False)
        for axes, panel in zip(grid[0], panels, strict=True):
            panel(axes)
        title = result.machine.get("GPU") or result.machine.get("CPU") or result.device
        figure.suptitle(f"fusewise lab {result.verb}: {title}", x=0.01, ha="left", color=MUTED, fontsize=9)
        figure.tight_layout()
        _save(figure, path)
        plt.close(figure)


def draw_compiled(found: CompiledModes, path: Path) -> None:
    """Draws registers against live values, with the residency that they allow; raises as `draw`."""
    plt = _pyplot()
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(7, 4.4))
        fats = [
            row for row in found.rows if row.tag.startswith("fat") and not row.max_regs and row.k == found.rows[0].k
        ]
        axes.plot([r.live for r in fats], [r.regs_per_thread for r in fats], "o-", color=BLUE)
        axes.set(title="What live values cost", xlabel="values kept alive", ylabel="registers a thread")
        right = fats[-1].live * 1.18
        for step in found.steps:
            axes.axhline(step.regs_to, color=GRID, lw=1, zorder=0)
            blocks = f"{step.blocks_per_sm} block{'s' if step.blocks_per_sm != 1 else ''} an SM"
            axes.text(right, step.regs_to, blocks, va="top", ha="right", fontsize=8, color=MUTED)
        axes.set_xlim(0, right)
        axes.grid(False)
        figure.suptitle(f"{found.title}, {found.compiler}", x=0.01, ha="left", color=MUTED, fontsize=9)
        figure.tight_layout()
        _save(figure, path)
        plt.close(figure)


def _draw_gains(axes: Any, result: Result, regime: str, n: int) -> None:
    gains = sorted((g for g in gains_of(result.rows) if (g.regime, g.n) == (regime, n)), key=lambda g: g.k)
    ks = [g.k for g in gains]
    axes.plot(ks, ks, "--", color=MUTED, lw=1, label="bound by traffic: k")
    for name, values, colour, mark in (
        ("naive", [g.naive for g in gains], BLUE, "o-"),
        ("naive, published copies", [g.copies for g in gains], ORANGE, "s-"),
        ("naive, replayed", [g.graph for g in gains], GREEN, "^-"),
    ):
        if all(value is not None for value in values):
            axes.plot(ks, values, mark, color=colour, ms=5, label=name)
    if n == published.N or regime == "memory":
        shown = [k for k in published.KS if min(ks) <= k <= max(ks)]
        axes.plot(shown, [published.NAIVE_OVER_FUSED[k] for k in shown], "x", color=PURPLE, label="published, RTX 5090")
    axes.axhline(1, color=INK, lw=0.8)
    size = f"{REGIMES[regime].capitalize()}, n = {n:,}" if regime else f"n = {n:,}"
    axes.set(title=size, xlabel="stages k", ylabel="time(other) / time(fused)")
    axes.set_xticks(ks)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _draw_fat(axes: Any, result: Result, model: GpuModel | None) -> None:
    costs = fat_costs_of(result.rows)
    on_gpu = all(cost.regs is not None for cost in costs)
    place = [cost.live if cost.regs is None else cost.regs for cost in costs]
    for name, values, colour, mark in (
        ("fat: the values feed each other", [c.fat for c in costs], ORANGE, "o-"),
        ("thin: the same arithmetic, 8 at a time", [c.thin for c in costs], BLUE, "s-"),
    ):
        if all(value is not None for value in values):
            axes.plot(place, values, mark, color=colour, ms=4, label=name)
    holds = {row.live: row for row in result.rows if row.kind == "hold" and row.regs_per_thread is not None}
    if holds and all(cost.hold is not None for cost in costs):
        axes.plot([holds[c.live].regs_per_thread for c in costs], [c.hold for c in costs], "^-", color=GREEN, ms=4,
                  label="hold: alive, not used")  # fmt: skip
    axes.axhline(1, color=INK, lw=0.8)
    what = "registers a thread" if on_gpu else "vector values kept alive"
    axes.set(title="Time against registers", xlabel=what, ylabel="time(other) / time(fused)")
    axes.set_ylim(bottom=0)
    registers = int(result.machine.get("vector registers", 0))
    if registers and place[0] < registers < place[-1]:
        axes.axvline(registers, color=PURPLE, lw=1, ls=":")
        axes.text(registers, 0, f" {registers} vector registers", color=PURPLE, fontsize=8, va="bottom")
    if on_gpu and model is not None:
        steps = staircase(model.arch, 0, result.rows[0].block)
        beside = axes.twinx()
        beside.step([s.regs_to for s in steps], [s.blocks_per_sm for s in steps], where="pre", color=MUTED, lw=1)
        beside.set_ylabel("resident blocks an SM", color=MUTED)
        beside.set_ylim(bottom=0)
        beside.grid(False)
        beside.spines["right"].set_visible(True)
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _draw_throttle(axes: Any, rows: Sequence[Row]) -> None:
    for width, colour in zip(sorted({r.width for r in rows if r.shared_bytes}), (BLUE, GREEN, ORANGE), strict=False):
        mine = sorted((r for r in rows if r.shared_bytes and r.width == width), key=lambda r: r.occ_blocks_per_sm or 0)
        axes.plot([r.occ_blocks_per_sm for r in mine], [r.gbps for r in mine], "o-", color=colour, ms=5,
                  label=f"{4 * width} bytes an access")  # fmt: skip
    axes.set(title="Residency alone", xlabel="resident blocks an SM", ylabel="GB/s of the fused kernel")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)


def _draw_phases(axes: Any, rows: Sequence[Row]) -> None:
    kinds = [kind for kind in ("phases_two", "phases_graph", "phases_one") if any(r.kind == kind for r in rows)]
    names = {"phases_two": "two kernels", "phases_graph": "two in a graph", "phases_one": "one, with a barrier"}
    sizes = list(dict.fromkeys((r.regime, r.n) for r in rows))
    for offset, (kind, colour) in enumerate(zip(kinds, (BLUE, GREEN, ORANGE), strict=False)):
        heights = []
        for regime, n in sizes:
            times = {r.kind: r.median_ms for r in rows if (r.regime, r.n) == (regime, n)}
            heights.append(times[kind] / times["phases_two"])
        axes.bar([i + 0.27 * offset for i in range(len(sizes))], heights, 0.25, color=colour, label=names[kind])
    axes.set_xticks([i + 0.27 for i in range(len(sizes))], [f"n = {n:,}" for _, n in sizes])
    axes.set(title="Two phases", ylabel="time / time of two kernels")
    axes.grid(axis="x", visible=False)
    axes.legend(frameon=False, fontsize=8)


def _draw_times(axes: Any, rows: Sequence[Row]) -> None:
    names = [f"{row.tag}, k = {row.k}" for row in rows]
    middle = [row.median_ms for row in rows]
    spread = [[r.median_ms - r.p10_ms for r in rows], [r.p90_ms - r.median_ms for r in rows]]
    axes.barh(names, middle, xerr=spread, color=BLUE, ecolor=INK)
    axes.set(title="Times", xlabel="ms, with 10th and 90th percentile")
    axes.invert_yaxis()


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise EnvironmentFailure(
            "a plot needs matplotlib, which is not installed.", "Install it: pip install 'fusewise[plot]'"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, path: Path) -> None:
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[path.suffix]
    figure.savefig(path, metadata=metadata)
