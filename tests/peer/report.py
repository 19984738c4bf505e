"""One results file of the files that `opinfo.py` wrote.

    python tests/peer/report.py --out benchmarks/results/opinfo-cpu.json rows.jsonl ...

A case without a row, since its run ended early, has failed. The exit code is 1 where an operator failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

STATUSES = ("passed", "skipped", "failed")
RATIO = 1.5
ROUNDING = 0.25
"""Epsilons, root mean square: what one correct rounding to the result's type costs at most."""


def report(text: str) -> dict[str, Any]:
    """What a file of `opinfo.py` holds: its first line, with `rows`. A case that was asked for and has none failed."""
    head, *rows = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    known = {(row["op"], row["dtype"]) for row in rows}
    asked = head.pop("cases")
    for op, dtype in asked:
        if (op, dtype) not in known:
            missing = {"op": op, "dtype": dtype, "status": "failed", "samples": 0, "seconds": 0.0}
            rows.append({**missing, "detail": "no result: the run ended before it", "error": None, "eager_error": None})
    order = {(op, dtype): place for place, (op, dtype) in enumerate(asked)}
    return {**head, "rows": sorted(rows, key=lambda row: order.get((row["op"], row["dtype"]), -1))}


def merged(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """What the results file holds; of an operator and dtype that several reports have, the last one counts."""
    rows = list({(row["op"], row["dtype"]): row for found in reports for row in found["rows"]}.values())
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    skipped: dict[str, list[str]] = defaultdict(list)
    passed: dict[str, list[str]] = defaultdict(list)
    partly: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        counts[row["dtype"]][row["status"]] += 1
        if row["status"] == "skipped":
            skipped[row["detail"].partition(":")[0]].append(f"{row['op']} {row['dtype']}")
        elif row["status"] == "passed":
            passed[row["op"]].append(row["dtype"])
            if row["detail"]:
                partly[row["detail"]].append(f"{row['op']} {row['dtype']}")
    first = reports[0]
    commits = list(dict.fromkeys(found["commit"] for found in reports))
    return {
        "schema": "fusewise-opinfo/1",
        "device": first["device"],
        "versions": first["versions"],
        "commit": ", ".join(commits),  # several where the shards ran at several
        "date": max(found["date"] for found in reports),
        "settings": first["settings"],
        "counts": {s: sum(c[s] for c in counts.values()) for s in STATUSES},
        "by_dtype": {d: {s: c[s] for s in STATUSES} for d, c in counts.items()},
        "errors": _errors(rows),
        "failed": [row for row in rows if row["status"] == "failed"],
        "skipped": {reason: sorted(names) for reason, names in sorted(skipped.items())},
        "passed_in_part": dict(partly),
        "passed": {op: " ".join(dtypes) for op, dtypes in sorted(passed.items())},
    }


def _errors(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Errors against fp64 beside eager's own: counts, and the rows that are furthest from eager's."""
    known = [r for r in rows if r["status"] == "passed" and r["error"] is not None]

    def ratio(row: dict[str, Any]) -> float:
        return float(max(row["error"], ROUNDING) / max(row["eager_error"], ROUNDING))

    worst = sorted(known, key=ratio, reverse=True)[:20]
    return {
        "rows": len(known),
        "equal_or_better": sum(r["error"] <= r["eager_error"] for r in known),
        f"above_{RATIO}_times_eager": [f"{r['op']} {r['dtype']}" for r in known if ratio(r) > RATIO],
        "largest_ratios": [
            {k: r[k] for k in ("op", "dtype", "error", "eager_error")} | {"ratio": round(ratio(r), 3)} for r in worst
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    result = merged([report(p.read_text(encoding="utf-8")) for p in args.reports])
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    counts = result["counts"]
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
