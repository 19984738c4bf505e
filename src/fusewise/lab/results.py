"""The lab's files: a CSV with the published header, and beside it a JSON with everything that was recorded."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fusewise.errors import ResultsInvalid
from fusewise.lab.run import Result, Row

SCHEMA = "fusewise-lab/1"
HEADER = ("tag", "k", "n", "block", "grid", "median_ms", "p10_ms", "p90_ms", "occ_blocks_per_sm")


def to_csv(result: Result) -> str:
    """One line a row, under the published header; a CPU's rows have no occupancy."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for row in result.rows:
        times = (f"{value:.6f}" for value in (row.median_ms, row.p10_ms, row.p90_ms))
        occupancy = "" if row.occ_blocks_per_sm is None else row.occ_blocks_per_sm
        writer.writerow([row.tag, row.k, row.n, row.block, row.grid, *times, occupancy])
    return text.getvalue()


def to_document(result: Result) -> dict[str, Any]:
    """Plain data, with the name of its schema."""
    return {"schema": SCHEMA, **asdict(result)}


def write_csv(path: Path, result: Result) -> Path:
    """Writes `path` and, beside it, the same name with .json; gives the latter.

    Raises:
        ProfilerActive: a profiler watches this process.
    """
    from fusewise.measure.guard import refuse_under_profiler

    refuse_under_profiler()
    beside = path.with_suffix(".json")
    for file, text in ((path, to_csv(result)), (beside, json.dumps(to_document(result), indent=1) + "\n")):
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(file)
    return beside


def load(path: Path) -> Result:
    """Reads the JSON file; raises `ResultsInvalid`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsInvalid(f"{path.name} is not a readable results file: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ResultsInvalid(f"{path.name} does not follow the schema {SCHEMA}.", "Write it again: fusewise lab --csv")
    names = {f.name for f in fields(Row)}
    rows = document.get("rows", [])
    for place, row in enumerate(rows):
        odd = names ^ set(row)
        if odd:
            raise ResultsInvalid(
                f"{path.name}, row {place}: the fields {', '.join(sorted(odd))} do not fit the schema."
            )
    rest = {f.name: document[f.name] for f in fields(Result) if f.name in document and f.name != "rows"}
    try:
        return Result(rows=tuple(Row(**row) for row in rows), **rest)
    except TypeError as error:
        raise ResultsInvalid(f"{path.name} lacks a field: {error}") from error
