"""Heat maps of speed-up over rows by columns, one panel a program and direction.

matplotlib is optional: the extra `plot` brings it, and it is imported where something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusewise.measure.grid import Grid, Panel

INK, MUTED = "#1f2430", "#6b7280"
LEAST, MOST = 0.5, 4.0  # speed-ups with the strongest colours
_TICKS = (LEAST, 0.7, 1, 1.4, 2, 2.8, MOST)
DPI = 160
WIDTH = 1400 / DPI  # inches
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.color": INK,
    "savefig.dpi": DPI,
    "svg.hashsalt": "fusewise",
    "figure.facecolor": "white",
}
_METADATA = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def format_ratio(ratio: float) -> str:
    """For example `0.94x`, `1.8x` or `12x`."""
    return f"{ratio:.2f}x" if ratio < 0.995 else f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:.0f}x"


def format_names(names: Sequence[str]) -> str:
    """For example `eager, inductor and liger`."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def format_extent(extent: int) -> str:
    """For example `16`, `1k` or `4M` (powers of 1024)."""
    for unit, name in ((2**20, "M"), (2**10, "k")):
        if extent % unit == 0:
            return f"{extent // unit}{name}"
    return str(extent)


def draw(grid: Grid, path: Path) -> None:
    """Draws every panel of a grid, 1400 pixels wide; points that were not timed stay blank."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.colors import TwoSlopeNorm

    points = [point for _, point in grid.points]
    rows, cols = sorted({p.rows for p in points}), sorted({p.cols for p in points})
    colours = plt.get_cmap("RdBu")
    norm = TwoSlopeNorm(0, math.log2(LEAST), math.log2(MOST))
    # In inches: a panel's cells, what surrounds them, the title.
    height = len(grid.panels) * (0.36 * len(rows) + 0.75) + 0.7
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(
            len(grid.panels), 1, figsize=(WIDTH, height), squeeze=False, layout="constrained", sharex=True
        )
        for panel, place in zip(grid.panels, axes[:, 0], strict=True):
            _draw_panel(place, panel, rows, cols, lambda value: colours(norm(value)))
            place.set_title(_title(grid, panel))
        axes[-1, 0].set_xlabel("columns")
        shades = plt.cm.ScalarMappable(norm, colours)
        bar = figure.colorbar(shades, ax=list(axes[:, 0]), aspect=40, pad=0.01, extend="both", extendfrac=0.02)
        bar.set_ticks([math.log2(tick) for tick in _TICKS], labels=[f"{tick:g}x" for tick in _TICKS])
        where = ", ".join(dict.fromkeys([p.device for p in grid.panels] + [p.dtype for p in grid.panels]))
        what = f"speed-up of Fusewise over the best of {format_names(grid.others)}; framed: slower by more than 5%"
        figure.suptitle(f"{where}\n{what}", x=0.01, ha="left", color=MUTED, fontsize=9)
        figure.savefig(path, metadata=_METADATA[path.suffix])
        plt.close(figure)


def _title(grid: Grid, panel: Panel) -> str:
    """Dtype and device too where there are several."""
    parts = [f"{panel.name} {panel.direction}"]
    parts += [panel.dtype] if len({p.dtype for p in grid.panels}) > 1 else []
    parts += [panel.device] if len({p.device for p in grid.panels}) > 1 else []
    return ", ".join(parts)


def _draw_panel(axes: Any, panel: Panel, rows: Sequence[int], cols: Sequence[int], colour_of: Any) -> None:
    from matplotlib.patches import Rectangle

    for point in panel.points:
        x, y = cols.index(point.cols), rows.index(point.rows)
        shade = min(max(math.log2(point.speedup), math.log2(LEAST)), math.log2(MOST))
        red, green, blue, _ = colour_of(shade)
        ink = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else INK
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=(red, green, blue), edgecolor="white", lw=1))
        if point.slower:
            axes.add_patch(Rectangle((x - 0.47, y - 0.44), 0.94, 0.88, fill=False, edgecolor=INK, lw=2, zorder=2))
        weight = "bold" if point.slower else "normal"
        axes.text(x, y, format_ratio(point.speedup), ha="center", va="center", color=ink, weight=weight)
    axes.set(xlim=(-0.5, len(cols) - 0.5), ylim=(len(rows) - 0.5, -0.5), ylabel="rows")
    axes.set_xticks(range(len(cols)), [format_extent(extent) for extent in cols])
    axes.set_yticks(range(len(rows)), [format_extent(extent) for extent in rows])
    axes.tick_params(length=0, labelbottom=True)
    axes.spines[:].set_visible(False)
