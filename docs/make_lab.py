"""Writes docs/lab.md: what the lab measured, beside the published figures.

python docs/make_lab.py

Every number comes from benchmarks/results/lab-*.json, which `fusewise lab` wrote (`--csv`, or `modes --json` for a GPU
that was not there); figures are the docs/img/lab-*.png that it drew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fusewise.lab import published
from fusewise.lab.chain import published_passes
from fusewise.lab.offline import SCHEMA as COMPILED
from fusewise.lab.results import load
from fusewise.lab.run import Result
from fusewise.lab.verdict import REGIMES, Gain, fat_costs_of, gains_of, verdict_of

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "lab.md"

HEAD = """# The lab: where fusion stops paying

<!-- Written by `python docs/make_lab.py` from benchmarks/results/lab-*.json; a test compares it. Do not edit. -->

A chain of k pointwise stages, y = (1 + 0.01 (s + 1)) x + 0.001 (s + 1) and a ReLU where s is even, fp32. Unfused it is
one kernel a stage, and each reads and writes the whole array. Fused it is one kernel, and the chain stays in registers.
How much does fusing gain, why, and what does it cost once many values must stay alive?

    fusewise lab sweep                     naive against fused over k, at three sizes
    fusewise lab fat                       live values from 8 to 240, residency alone, register caps
    fusewise lab modes                     all forms at one size, with registers and occupancy
    fusewise lab phases                    two kernels against one with a barrier across the grid
    fusewise lab modes --device rtx5090    a GPU that is not here: compiled, not timed
    fusewise lab sweep --published         the original's own protocol

`--csv` writes the rows, and beside them a JSON with clocks, power limit, driver and versions; `--plot` draws them.
`make lab DEVICE=cpu` (or a GPU's name) measures all of it and writes this page again.

| row | what it is |
|---|---|
| `naive` | one kernel a stage, two buffers in turn |
| `naive_copies` | the same with the device copies that the published time holds |
| `naive_graph` | the same kernels without their launches: a CUDA Graph; on a CPU one parallel region |
| `fused` | one kernel; `_w4`: 4 elements a memory access |
| `fat` | fused, and N values for each element that feed each other in a loop, so that all stay alive |
| `thin` | the arithmetic of fat, 8 values at a time: what fat costs without its registers |
| `hold` | fused, and N values that only stay alive: what registers cost without arithmetic |
| `fused_occN` | fused, with residency throttled to N blocks an SM by shared memory: the instructions stay the same |
| `fat_rN` | fat under a cap of N registers: it spills |

Before and after it is timed, every element of every row is compared with the exact result, bit for bit. Rows of one
size and k take turns, at least 30 runs each; medians here, 10th and 90th percentiles in the files. A ratio always reads
time(other) / time(fused), each at its fastest width.
"""

WHY = """
Why they differ:

* **Copies.** The published naive time also holds one device copy for odd k and two for even k. Its ratios are those of
  k + 1 and k + 2 passes, and lie above k. By its own time for a pass they become the column "without copies". `naive`
  leaves the copies out; `naive_copies` keeps them.
* **The bound is k.** Naive moves the array k times, fused once. While memory is the limit no ratio of the two can be
  larger; what exceeds k came from launches or from a fused kernel's better accesses.
* **Size.** Launches, a cache and memory give three different curves: a ratio without its size says little.
* **The fat probe.** Published: time(fat) / time(fused) = {fat:.2f} as resident blocks fell from {high} to {low}. That
  probe also does {temps} values' arithmetic for each element, adds to one address from all threads, and clears it, so
  its time is not occupancy alone. `thin` and `hold` take the two apart.
* **Another machine.** Published on an {device}; ours are named below.
"""


def page() -> str:
    """The whole page."""
    found = [load(path) for path in sorted(RESULTS.glob("lab-*.json")) if not _is_compiled(path)]
    compiled = [_read(path) for path in sorted(RESULTS.glob("lab-*.json")) if _is_compiled(path)]
    parts = [HEAD, "\n## Published figures, and ours\n\n", _published(found), _why()]
    for device in dict.fromkeys(result.device for result in found):
        parts.append(_device([result for result in found if result.device == device]))
    parts += [_compiled(document) for document in compiled]
    return "".join(parts)


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _is_compiled(path: Path) -> bool:
    return _read(path).get("schema") == COMPILED


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _title(result: Result) -> str:
    return result.machine.get("GPU") or result.machine.get("CPU") or result.device


def _large(result: Result) -> dict[int, Gain]:
    """Gains by k at the memory-bound size, or at the published one."""
    return {g.k: g for g in gains_of(result.rows) if g.regime == "memory" or g.n == published.N}


def _published(found: Sequence[Result]) -> str:
    sweeps = [r for r in found if r.verb == "sweep" and _large(r)]
    head = ["k", "bound", f"published, {published.DEVICE}", "its passes", "without copies"]
    for result in sweeps:
        kind = "published protocol" if result.published else "memory-bound size"
        head += [f"{_title(result)}, {kind}: with copies"] + ([] if result.published else ["naive", "replayed"])
    rows = []
    for k in published.KS:
        cells = [str(k), str(k), _ratio(published.NAIVE_OVER_FUSED[k]), str(published_passes(k))]
        cells.append(_ratio(published.without_copies(k)))
        for result in sweeps:
            gain = _large(result).get(k)
            cells.append(_ratio(gain and gain.copies))
            if not result.published:
                cells += [_ratio(gain and gain.naive), _ratio(gain and gain.graph)]
        rows.append(cells)
    return _table(head, rows)


def _why() -> str:
    high, low = published.FAT_OCCUPANCY
    return WHY.format(
        fat=published.FAT_OVER_FUSED, high=high, low=low, temps=published.FAT_TEMPS, device=published.DEVICE
    )


def _device(found: Sequence[Result]) -> str:
    parts = [f"\n## {_title(found[0])}\n"]
    for result in found:
        name = f"lab-{result.device}-{result.verb}{'-published' if result.published else ''}"
        protocol = ", published protocol" if result.published else ""
        parts.append(f"\n### `fusewise lab {result.verb}`{protocol}\n\n")
        parts += [f"* {sentence}\n" for sentence in verdict_of(result)]
        parts.append(_figure(name, f"{result.verb} on {_title(result)}"))
        parts.append(_gains(result) + _fat(result))
        parts.append(f"\n{_recorded(result)}\n")
    return "".join(parts)


def _figure(name: str, what: str) -> str:
    """The figure, where it was drawn."""
    there = (ROOT / "docs" / "img" / f"{name}.png").is_file()
    return f"\n![{what}](img/{name}.png)\n" if there else ""


def _gains(result: Result) -> str:
    gains = gains_of(result.rows)
    if not gains:
        return ""
    rows = [
        [
            f"{g.n:,}{f' ({REGIMES[g.regime]})' if g.regime else ''}",
            str(g.k),
            _ratio(g.naive),
            _ratio(g.copies),
            _ratio(g.graph),
            f"{1e3 * g.fused_ms:.4g}",
            str(g.width),
        ]
        for g in gains
    ]
    head = ["n", "k", "naive", "with copies", "replayed", "fused us", "fastest width"]
    return f"\nTime / time of fused:\n\n{_table(head, rows)}"


def _fat(result: Result) -> str:
    costs = fat_costs_of(result.rows)
    if not costs:
        return ""
    on_gpu = costs[0].regs is not None
    head = ["live values", *(["registers", "blocks an SM", "spilled B"] if on_gpu else []), "fat", "thin", "fat / thin"]
    rows = []
    for cost in costs:
        own = cost.fat / cost.thin if cost.thin else None
        resources = [str(cost.regs), str(cost.blocks), str(cost.spill_bytes)] if on_gpu else []
        held = [_ratio(cost.hold)] if on_gpu else []
        rows.append([str(cost.live), *resources, _ratio(cost.fat), _ratio(cost.thin), _ratio(own), *held])
    size = next(row.n for row in result.rows if row.live)
    table = _table([*head, *(["hold"] if on_gpu else [])], rows)
    return f"\nTime / time of fused at the same width, n = {size:,}:\n\n{table}"


def _recorded(result: Result) -> str:
    """One line: everything that was recorded of the machine."""
    runs = sorted({row.runs for row in result.rows})
    return f"{', '.join(map(str, runs))} runs a row; " + "; ".join(f"{k}: {v}" for k, v in result.machine.items()) + "."


def _compiled(document: dict[str, Any]) -> str:
    head = ["kernel", "registers", "spilled B", "blocks an SM", "occupancy", "limit", "steps at"]
    rows = []
    for row in document["rows"]:
        near = "/".join(
            "-" if row[f"next_regs_{way}"] is None else str(row[f"next_regs_{way}"]) for way in ("down", "up")
        )
        spilled = row["spill_store_bytes"] + row["spill_load_bytes"]
        rows.append(
            [
                f"`{row['tag']}`",
                str(row["regs_per_thread"]),
                str(spilled),
                str(row["blocks_per_sm"]),
                f"{100 * row['occupancy']:.0f}%",
                row["limiter"],
                near,
            ]
        )
    said = "".join(f"* {sentence}\n" for sentence in document["verdict"])
    figure = _figure(f"lab-{document['device']}-compiled", f"Registers against live values on {document['title']}")
    steps = "Steps at: the next register counts down and up at which residency changes."
    return (
        f"\n## {document['title']}, compiled and not timed\n\n{said}{figure}\n"
        f"{document['block']} threads a block; compiler: {document['compiler']}. {steps}\n\n{_table(head, rows)}"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
