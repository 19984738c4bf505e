"""Writes docs/guarantees.md: what is guaranteed under each policy, how it is proven, and the counts of the last runs.

python docs/make_guarantees.py

Every number comes from benchmarks/results/: exhaustive-*.json and unclaimed-*.json, written by `fusewise verify
--exhaustive`, and opinfo-*.json, written by tests/peer/report.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fusewise.proof.compare import ERROR_RULE
from fusewise.proof.op_cases import claimed_ops, pointwise_ops
from fusewise.report.format import short_op

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "guarantees.md"

# (policy, what is guaranteed, what proves it)
POLICIES = (
    (
        "every",
        "shapes, dtypes, strides and aliasing are eager's; integers and truth values are equal;"
        " the same call gives the same bits again",
        "`fusewise verify FILE.py:NAME` on your function; the operator samples below",
    ),
    (
        "every",
        "fusing changes nothing: each kernel computes the bits that its operators compute one by one",
        "`fusewise verify FILE.py:NAME --against unfused`",
    ),
    (
        "`conservative`",
        "every bit is eager's",
        "`fusewise verify --exhaustive` for the pointwise operators; the rest runs as PyTorch's own kernels",
    ),
    (
        "`balanced`",
        ERROR_RULE.replace("against fp64 at most", "against fp64 is at most"),
        "`fusewise verify`; the operator samples below",
    ),
    ("`aggressive`", "nothing beyond the first two rows", "`fusewise verify` counts the errors"),
)

HEAD = """# What is guaranteed, and how it is proven

<!-- Written by `python docs/make_guarantees.py` from benchmarks/results/; a test compares it. Do not edit. -->

[Policies](policies.md) says what each policy may change. This page says what is proven of it, by which command, and
what the last run counted.

{policies}

Each command ends with exit code 1 where the guarantee does not hold, and names the first element and the kernel.

## Fusions: `verify --against unfused`

Both sides run the same planned graph with the same functions, once fused and once with every operator a kernel of its
own (padding, gathers and joins too), so that what differs is the fusion's doing. Each kernel gets the same operands on
both sides: a wrong kernel is named, and what only reads its result is not. Memory holds other numbers beforehand on
either side, so that what a kernel forgets to write differs too.

A sum of floats depends on the order in which it is taken, and a fused kernel takes it in the order of its tiles. Sums
are compared within the error that any order can have; everything before and after them is compared bit for bit. On a
GPU both sides use the functions of `conservative`: which cheaper function serves is chosen by what follows it.

## Operators: `verify --exhaustive`

Each pointwise operator that `conservative` fuses is compiled and compared with eager's kernel, bit for bit (a NaN
equals a NaN, whatever its payload). On a GPU an operator of one operand gets every one of the 2^32 inputs of f32 and
all 65,536 of bf16 and f16; one of two operands gets all pairs of hard values and 10^8 random ones. On a CPU eager's
bits can depend on an element's place: there each call also runs at every length of tail, in several layouts and with
one, two and three threads, beside at least 10^7 inputs (or all of a 16-bit type).

Floating-point sums, products, norms, softmax, losses and matrix products are not fused under `conservative` at all: in
which order eager's kernels add depends on the shape, the device and the number of threads. Maxima, minima, `any`,
`all` and positions of extremes do not depend on it.

Where sizes are symbolic, torch.compile itself writes `hardshrink` and `softshrink` in other operators before any
backend sees them, and a zero that `softshrink` gives may have the other sign then.
"""

TAIL = """
## Finding what breaks a guarantee

    fusewise bisect model.py:block             the first fusion that makes a result wrong: its operators and lines
    fusewise bisect model.py:block --slower    the first fusion that makes it slower
    FUSEWISE_FUEL=12                           by hand: only the first 12 fusions of each graph

`y = fusewise.barrier(x)` in a function forbids fusing across it, forward and backward. It is the identity: a view in
eager PyTorch and under other backends, nothing copied, no graph break. `fusewise explain` names it as the reason.
"""


def page() -> str:
    """The text of the page."""
    rows = [("policy", "guaranteed", "proven by"), ("---", "---", "---"), *POLICIES]
    parts = [HEAD.format(policies="\n".join(f"| {' | '.join(row)} |" for row in rows))]
    for device, title in (("cuda", "On a GPU"), ("cpu", "On a CPU")):
        parts.append(f"\n### {title}\n")
        parts.append(_claimed(_runs(device), device))
        parts.append(_unclaimed(_load(f"unclaimed-{device}.json"), device))
    parts.append("\n## PyTorch's own operator samples (OpInfo), under `balanced`\n")
    parts.append(_samples())
    parts.append(TAIL)
    return "".join(parts)


def _load(name: str) -> dict[str, Any] | None:
    path = RESULTS / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _runs(device: str) -> list[dict[str, Any]]:
    """Runs with rows of what is claimed today, oldest first: of operators once unclaimed, and later ones of some."""
    paths = (RESULTS / f"unclaimed-{device}.json", *RESULTS.glob(f"exhaustive-{device}*.json"))
    found = [run for path in paths if (run := _load(path.name)) is not None]
    claimed = claimed_ops(device)
    for run in found:
        run["rows"] = [r for r in run["rows"] if r["op"] in claimed]
    return sorted((run for run in found if run["rows"]), key=lambda run: str(run["date"]))


def _claimed(runs: list[dict[str, Any]], device: str) -> str:
    if not runs:
        return f"\nNo run is on file. `fusewise verify --exhaustive --device {device} --out FILE` makes one.\n"
    latest = {(r["call"], r["dtype"]): r for run in runs for r in run["rows"]}
    rows = list(latest.values())
    stood = "\n\n".join(dict.fromkeys(_stood_on(run) for run in runs if any(r in rows for r in run["rows"])))
    lines = [f"\n{stood}\n", "\n| dtype | calls | fused | inputs of each | elements compared | differ |"]
    lines.append("|---|---|---|---|---|---|")
    for dtype in dict.fromkeys(r["dtype"] for r in rows):
        own = [r for r in rows if r["dtype"] == dtype]
        fused = [r for r in own if r["fused"]]
        counts = [min((r["inputs"] for r in fused), default=0), _total(fused, "compared"), _total(fused, "mismatches")]
        lines.append(f"| {dtype} | {len(own)} | {len(fused)} | " + " | ".join(f"{c:,}" for c in counts) + " |")
    lines.append("")
    lines += [f"**{r['call']} on {r['dtype']}: {r['mismatches']:,} elements differ.**" for r in rows if r["mismatches"]]
    stay: dict[str, dict[str, None]] = {}
    for row in rows:
        if not row["fused"]:
            stay.setdefault(row["reason"], {})[f"`{row['call']}` ({row['dtype']})"] = None
    if stay:
        lines += ["Calls of these operators that stay eager all the same:\n", "| why | calls |", "|---|---|"]
        lines += [f"| {why} | {', '.join(calls)} |" for why, calls in stay.items()]
    return "\n".join(lines) + "\n"


def _unclaimed(found: dict[str, Any] | None, device: str) -> str:
    claimed = claimed_ops(device)
    names = [n for n in pointwise_ops() if n not in claimed]
    text = "\nThese pointwise operators stay eager, since their bits cannot be relied on to be eager's"
    if found is None:
        return f"{text}: {', '.join(f'`{_short(n)}`' for n in names)}.\n"
    kinds: dict[str, dict[str, list[int]]] = {}
    for row in found["rows"]:
        if row["fused"]:
            count = kinds.setdefault(row["op"], {}).setdefault(row["dtype"], [0, 0])
            count[0] += row["mismatches"]
            count[1] += row["compared"]
    dtypes = list(dict.fromkeys(r["dtype"] for r in found["rows"]))
    lines = [f"{text}. The share of elements that differ where they are fused all the same:\n"]
    lines.append("| operator | " + " | ".join(dtypes) + " |")
    lines.append("|---|" + "---|" * len(dtypes))
    for name in names:
        shares = [_share(kinds.get(name, {}).get(dtype)) for dtype in dtypes]
        lines.append(f"| `{_short(name)}` | " + " | ".join(shares) + " |")
    return "\n".join(lines) + f"\n\n{_stood_on(found)}\n"


def _share(count: Sequence[int] | None) -> str:
    if count is None or not count[1]:
        return "-"
    share = count[0] / count[1]
    return "none" if not count[0] else f"{share:.2%}" if share >= 1e-4 else f"{share:.0e}"


def _samples() -> str:
    found = {name: run for name in ("cuda", "cpu") if (run := _load(f"opinfo-{name}.json")) is not None}
    if not found:
        return "\nNo run is on file. `make peer DEVICE=cpu` or `DEVICE=cuda` makes one.\n"
    titles = {"cuda": "GPU", "cpu": "CPU"}
    heads = [f"{titles[name]}: {count}" for name in found for count in ("passed", "skipped, with a reason", "failed")]
    parts = [f"\n{titles[name]}: {_stood_on(run)}\n" for name, run in found.items()]
    parts.append(f"\n| dtype | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}\n")
    for dtype in (*dict.fromkeys(d for run in found.values() for d in run["by_dtype"]), "all"):
        counts = [run["counts"] if dtype == "all" else run["by_dtype"].get(dtype) for run in found.values()]
        cells = [str(c[s]) if c else "-" for c in counts for s in ("passed", "skipped", "failed")]
        parts.append(f"| {dtype} | {' | '.join(cells)} |\n")
    return "".join(parts)


def _stood_on(found: dict[str, Any]) -> str:
    device = found.get("device_name", found.get("device", ""))
    versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items() if k in ("torch", "triton", "cuda"))
    return f"{device}; {versions}; commit {found['commit']}; {found['date']}."


def _total(rows: Sequence[dict[str, Any]], name: str) -> int:
    return sum(r[name] for r in rows)


def _short(name: str) -> str:
    return short_op(name) if name.endswith(".default") else name.removeprefix("aten.")


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
