"""Writes docs/cost-model.md: how a kernel's time is predicted, and predicted beside measured.

python docs/make_cost_model.py

The numbers come from benchmarks/results/*-predictions.json: `fusewise bench --predict --from FILE --out FILE`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fusewise.lower import price, relief
from fusewise.measure.choices import SPLIT, SUBJECT, UNFUSED, WHOLE
from fusewise.measure.prediction import SHORT_US
from fusewise.plan import cpu_cost
from fusewise.report.format import format_us
from fusewise.runtime.shared_spill import NEEDED

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "cost-model.md"

HEAD = """# The cost model

<!-- Written by `python docs/make_cost_model.py` from benchmarks/results/; a test compares it. Do not edit. -->

A fusion saves bytes and launches, and spends registers. Which of the two weighs more is decided before anything runs,
for a GPU that need not be there:

    t = launch + max(overlap(t_memory, t_compute), t_serial)

* `t_memory`: bytes / (copy rate x min(1, bytes in flight / (copy rate x latency))), and what the last-level cache must
  deliver. Bytes come from shapes and masks, bytes in flight from the registers of the compiled kernel. Rows that the
  cache cannot keep are read again, and so are small tensors that every program reads where the first-level cache cannot
  keep them all; spilled registers are traffic.
* `t_compute`: the busiest of the issue slots and of the integer, fp32, conversion, special-function, shuffle, shared-
  and global-memory units, by the instructions in the compiled kernel, each loop times its turns and the slow
  paths of functions left out; and the fetching of instructions, where the code is larger than the instruction cache.
* `t_serial`: programs that follow each other in one place of an SM, with the latency of their loads, their barriers
  and their own chain of instructions.
* `overlap`: the cubic norm. Two resources that are both busy hide each other in part.

For a CPU the same is asked of the kernel's own instructions, which nothing need compile:

    t = launch + overlap(t_memory, t_vector + t_registers) x imbalance

* `t_memory`: bytes / copy rate of the nearest level that holds all that the kernel touches: level 2 or 3, else main
  memory, of which one core alone gets only a part. Outputs from {fresh} MB on are new pages, which the system clears.
* `t_vector`: instructions of each class ({classes}) x cycles of one, over the lanes of a vector and the cores.
* `t_registers`: vectors alive at once beyond the registers that there are, or over a call of a function, each stored to
  level 1 and loaded again.
* `imbalance`: pieces of the core that gets most / mean. `launch`: a call, and the parallel loop's start and end.

`explain` says of each figure where it comes from: `datasheet`, `calibrated` (measured on your machine), `compiled`
(read off the machine code) or `modelled`. Without Triton nothing can be compiled, and registers are predicted from
what is alive in the kernel.

## What the planner does with it

1. Merges are chosen by the bytes and launches that they save ([one program through every stage](walkthrough.md)).
2. Each kernel of more than {small:g} us beside its launch is compiled. Where its predicted time is above
   {good:g} x its floor, up to {finalists} schedules are compiled, and the fastest is taken.
3. **Fission**: a kernel that spills, or that registers keep waiting for memory, is planned again with a cut at the
   places where least passes through memory. The cut stays where the compiled parts are predicted to take less than
   {gain:.0%} of the time of the whole. `explain` shows each, taken and refused, with registers, occupancy and times.
"""

RELIEF = """
## What else than a split a kernel may get

For a kernel that spills, or waits for memory or issue slots while registers keep further programs away, each way that
the device has is compiled and priced by the same model:

* **A cap on registers** (Triton's `maxnreg`): at the next counts, {caps} at most, with which one more program resides.
  The first cap that loses by its spills is the last that is compiled, since tighter ones spill more.
* **Spills in shared memory** (PTX's `enable_smem_spilling`): they are instructions of the shared-memory unit instead of
  traffic of the last-level cache, and their memory counts in occupancy. It takes ptxas of CUDA {cuda} or newer
  (`TRITON_PTXAS_PATH`), and a kernel with no dynamic shared memory: no sums across warps.
* **`setmaxnreg`** (Hopper and newer) moves registers from some warps to others. All warps of a pointwise or row kernel
  do the same, so none has any to give: it is named, not tried.

The fastest is taken where it needs less than {gain:.0%} of the plain kernel's time, and a split where it beats that by
as much. `explain --candidates`, `--why` and the JSON list all of them, with registers, spills, occupancy and time.
A spill counts as often as its loop turns. `schedules` pins one by hand: `x256 w4 n96 shared`.
"""

TABLE = """
## Predicted beside measured: {device}

Each row of the results files, predicted for the same device with the copy rate and launch time of that run. Kernels are
those of today's code; `measured with` is the code that was timed, so that a difference may be a change and not a miss.
The constants of the model were fitted on an earlier run of these programs, and on the kernels of
[h200-kernels.json](../benchmarks/results/h200-kernels.json), one by one.

* Not the same number of kernels today, and left out: {left_out}.
* With an op of PyTorch's own, which is not modelled, so that their kernels alone are compared, below: {walled}.

Median error {median:.1%}, 90th percentile {p90:.1%}. Registers predicted before compiling, within 15% or 8 of the
compiled kernel: {registers:.0%}.
"""

CPU_TABLE = """
## Predicted beside measured: {device}

Each row of a results file, predicted with the copy rate and the call overhead of that run. The bench empties the caches
before each call, so what a program takes in and writes is priced as main memory's. {note}

* Not the same number of kernels today, and left out: {left_out}.
* With an op that runs as PyTorch's own, and left out: {walled}.

Median error {median:.1%}, 90th percentile {p90:.1%}.
"""

ROWS = """
| program | predicted | measured | error | slowest kernel is bound by | measured with |
|---|---|---|---|---|---|
{rows}

The worst: {worst}.

{versions}; predicted with commit {commit}, {date}.
"""

KERNELS = """
### Kernels one by one: {device}

The same files have each kernel's own time on the device, without what a launch takes: {count} kernels of `fusewise`,
`fusewise-whole` and `fusewise-split`, one that they share counted once, {short} of less than {limit:g} us not counted,
since their time is the launch's more than theirs.

| | median error | 90th percentile |
|---|---|---|
| kernels | {median:.1%} | {p90:.1%} |
| all of them, short ones too, each with its launch | {launched_median:.1%} | {launched_p90:.1%} |
| whole programs | {whole_median:.1%} | {whole_p90:.1%} |

The worst:

| kernel | predicted | measured | error | bound by | program |
|---|---|---|---|---|---|
{rows}
"""

CHOICES = """
### Was the planner's choice the fastest: {device}

Each program was timed in turns as planned (`fusewise`), with no kernel split and all independent ones together that one
launch can hold (`fusewise-whole`), with every kernel split that can be, at its best place, and in a launch of its own
(`fusewise-split`), and, where the table has it, with nothing fused. Loss: time of
`fusewise` / the least of them - 1. A choice is right where its loss is at most {noise:.0%}, where the two times overlap
between their 10th and 90th percentiles, or where the faster one has the very same kernels.{same} The last columns say
which of whole and split is faster, measured and predicted; `same` within that noise, or with the same plan.

**Right in {right} of {count} programs ({share:.0%}); worst loss {worst_loss:.1%}: {worst}.** Where whole and split
differ, the faster one was predicted in {orders_right} of {orders}.

| program | fusewise | whole | split | unfused | fastest | loss | right | faster: measured | predicted |
|---|---|---|---|---|---|---|---|---|---|
{rows}
"""

SAME = " Contenders with the very same kernels differ by up to {:.1%} in these files."


def _relief() -> str:
    return RELIEF.format(caps=relief.CAPS, cuda=".".join(map(str, NEEDED)), gain=price.MUST_GAIN)


def page() -> str:
    """The text of the page."""
    parts = [
        HEAD.format(
            small=price.TOO_SMALL_US,
            good=price.GOOD_ENOUGH,
            finalists=price.FINALISTS,
            gain=price.MUST_GAIN,
            fresh=cpu_cost.FRESH_BYTES >> 20,
            classes=", ".join(cpu_cost.CLASSES),
        )
    ]
    parts.append(_relief())
    parts += [_table(json.loads(f.read_text(encoding="utf-8"))) for f in sorted(RESULTS.glob("*-predictions.json"))]
    return "".join(parts)


def _table(found: dict[str, Any]) -> str:
    rows = sorted((r for r in found["rows"] if r["error"] is not None), key=lambda r: abs(r["error"]))
    walled = [f"{r['name']} {r['direction']}" for r in found["rows"] if r["error"] is None]
    worst = [f"{r['name']} {r['direction']} ({r['error']:+.0%})" for r in reversed(rows[-3:])]
    template = CPU_TABLE if found["registers_within"] is None else TABLE
    text = (template + ROWS).format(
        device=found["device"],
        median=found["median_error"],
        p90=found["p90_error"],
        registers=found["registers_within"],
        note=found.get("note", ""),
        rows="\n".join(map(_row, rows)),
        worst=", ".join(worst),
        walled=", ".join(walled) or "none",
        left_out=", ".join(label for label, _ in found["left_out"]) or "none",
        versions=", ".join(f"{name} {version}" for name, version in found["versions"].items()),
        commit=found["commit"],
        date=found["date"],
    )
    return text + _kernels(found) + _choices(found)


def _kernels(found: dict[str, Any]) -> str:
    """Nothing where the results file has no times of kernels."""
    if found.get("median_kernel_error") is None:
        return ""
    return KERNELS.format(
        device=found["device"],
        count=found["kernels_compared"],
        short=found["kernels_too_short"],
        limit=SHORT_US,
        median=found["median_kernel_error"],
        p90=found["p90_kernel_error"],
        launched_median=found["median_launched_error"],
        launched_p90=found["p90_launched_error"],
        whole_median=found["median_error"],
        whole_p90=found["p90_error"],
        rows="\n".join(map(_kernel_row, found["worst_kernels"])),
    )


def _kernel_row(launch: dict[str, Any]) -> str:
    cells = [
        f"`{launch['kernel']}`",
        format_us(launch["predicted_us"]),
        format_us(launch["measured_us"]),
        f"{launch['error']:+.0%}",
        launch["bound_by"] or "-",
        f"{_label(launch)}, {launch['contender']}",
    ]
    return f"| {' | '.join(cells)} |"


def _choices(found: dict[str, Any]) -> str:
    """Nothing where the results file does not time what the planner chose from."""
    total = found.get("choices")
    if total is None:
        return ""
    differ = total["same_plans_differ_by"]
    return CHOICES.format(
        device=found["device"],
        noise=total["noise"],
        same="" if differ is None else SAME.format(differ),
        right=total["right"],
        count=total["count"],
        share=total["share_right"],
        worst_loss=total["worst_loss"],
        worst=total["worst"],
        orders=total["orders"],
        orders_right=total["orders_right"],
        rows="\n".join(_choice_row(row) for row in sorted(total["rows"], key=lambda r: r["loss"])),
    )


def _choice_row(row: dict[str, Any]) -> str:
    times = row["times_us"]
    cells = [
        _label(row),
        *(format_us(times[name]) if name in times else "-" for name in (SUBJECT, WHOLE, SPLIT, UNFUSED)),
        row["fastest"],
        f"{row['loss']:.1%}",
        "yes" if row["right"] else "**no**",
        row["measured_order"],
        row["predicted_order"] or "-",
    ]
    return f"| {' | '.join(cells)} |"


def _label(row: dict[str, Any]) -> str:
    return f"{row['name']} {row['direction']} {row['dtype']}"


def _row(row: dict[str, Any]) -> str:
    slowest = max(row["kernels"], key=lambda k: k["predicted_us"])
    cells = [
        _label(row),
        format_us(row["predicted_us"]),
        format_us(row["measured_us"]),
        f"{row['error']:+.0%}",
        slowest["bound_by"] or "its floor",
        row["measured_with"] or "",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
