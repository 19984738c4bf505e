"""The rows of the bench: one schema, its check, the results file, and the table that a README shows.

The fields are described in docs/bench-schema.md. This module needs no torch.
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fusewise.errors import ResultsInvalid
from fusewise.measure.stats import Summary, geometric_mean

SCHEMA = "fusewise-bench/1"
TABLE_BEGIN = "<!-- bench table: written by a command, do not edit -->"
TABLE_END = "<!-- end of bench table -->"


OURS = "fusewise"  # the contender that the others are compared with


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One launch of a call: the kernel's name as the device records it, and its median duration on the device in us."""

    kernel: str
    time_us: float


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One program at one size, timed for every contender in one run. See docs/bench-schema.md."""

    name: str
    direction: Literal["forward", "train"]
    size: str
    shape: dict[str, int]
    dtype: str
    device: str
    floor_us: float
    floor_bound: Literal["bytes", "flops", "launch"]
    floor_two_read_us: float | None
    least_bytes: int
    unfused_bytes: int
    flops: int
    traffic_gain: float
    times_us: dict[str, Summary]
    share_of_floor: dict[str, float]
    achieved_gbps: dict[str, float]
    peak_bytes: dict[str, int | None]
    kernels: dict[str, int | None]
    compile_s: dict[str, float]
    verified: bool
    mismatched: bool
    verify_note: str
    impossible: tuple[str, ...]
    failures: dict[str, str]
    versions: dict[str, str]
    commit: str | None
    date: str
    kernel_times: dict[str, tuple[KernelTime, ...]] = field(default_factory=dict)
    copy_us: Summary | None = None

    def speedup(self, over: str, of: str = OURS) -> float | None:
        """Median time of `over` / median time of `of`; None where one of them is missing."""
        if over not in self.times_us or of not in self.times_us:
            return None
        return self.times_us[over].median / self.times_us[of].median


@dataclass(frozen=True, slots=True)
class CallOverhead:
    """Host time in us of one call on tiny tensors: dispatch, launches, and kernels with next to nothing to do."""

    contender: str
    direction: Literal["forward", "train"]
    call_us: Summary


@dataclass(frozen=True, slots=True)
class BenchResult:
    """All rows of one run, with the ceilings that their floors rest on.

    Attributes:
        rows: one per program, size, dtype and direction.
        ceilings: the fields of `floors.Ceilings`.
        machine: what the run stood on, by name: device, host, threads.
        overheads: host time of a call by contender, where it was measured.
        cpu: of a run on a CPU, `isa` and the figures of `device.CpuModel` by name, for predictions elsewhere.
    """

    rows: tuple[BenchRow, ...]
    ceilings: dict[str, Any]
    machine: dict[str, str]
    overheads: tuple[CallOverhead, ...] = ()
    cpu: dict[str, str | float] = field(default_factory=dict)

    @property
    def findings(self) -> list[str]:
        """What makes the command fail: impossible times and programs that were compared and differ."""
        found = []
        for row in self.rows:
            label = f"{row.name} ({row.direction}, {row.size}, {row.dtype})"
            found += [f"{label}: the time of {name} is below what the hardware allows" for name in row.impossible]
            if row.mismatched:
                found.append(f"{label}: {row.verify_note}")
        return found


def write_results(path: Path, result: BenchResult) -> None:
    """Write the results file; an earlier one at that path is replaced in one step.

    Raises:
        ProfilerActive: a profiler watches this process.
    """
    from fusewise.measure.guard import refuse_under_profiler  # needs torch, which reading results does not

    refuse_under_profiler()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(to_json(result), encoding="utf-8")
    draft.replace(path)


def to_json(result: BenchResult) -> str:
    """The text of a results file."""
    document = {
        "schema": SCHEMA,
        "machine": result.machine,
        **({"cpu": result.cpu} if result.cpu else {}),
        "ceilings": result.ceilings,
        "overheads": [asdict(overhead) for overhead in result.overheads],
        "rows": [asdict(row) for row in result.rows],
    }
    return json.dumps(document, indent=1) + "\n"


def load_results(path: Path) -> BenchResult:
    """Read a results file and check every row against the schema; raises `ResultsInvalid`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsInvalid(f"{path.name} is not a readable results file: {error}") from error
    return from_document(document, path.name)


def from_document(document: Any, source: str = "results") -> BenchResult:
    """The result that a parsed results file holds; `source` names it in errors."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ResultsInvalid(f"{source} does not follow the schema {SCHEMA}.", "Write it again with `fusewise bench`.")
    missing = {"rows", "ceilings", "machine", "overheads"} - set(document)
    if missing:
        raise ResultsInvalid(f"{source} lacks {', '.join(sorted(missing))}.")
    rows = tuple(_typed(BenchRow, row, f"{source}, row {i}") for i, row in enumerate(document["rows"]))
    overheads = _typed(tuple[CallOverhead, ...], document["overheads"], f"{source}, overheads")
    cpu = document.get("cpu", {})
    if not isinstance(cpu, dict):
        raise ResultsInvalid(f"{source}, cpu: not an object.")
    return BenchResult(rows, dict(document["ceilings"]), dict(document["machine"]), overheads, cpu)


def _typed(kind: Any, value: Any, where: str) -> Any:
    """`value` as the annotated type `kind`, or `ResultsInvalid` with the place of the first mismatch."""
    if is_dataclass(kind) and isinstance(kind, type):
        return _typed_dataclass(kind, value, where)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        return _typed(next(a for a in args if a is not type(None)), value, where)
    if origin is Literal:
        if value in args:
            return value
    elif origin is dict:
        if isinstance(value, dict):
            return {str(key): _typed(args[1], item, f"{where}[{key!r}]") for key, item in value.items()}
    elif origin is tuple:
        if isinstance(value, list | tuple):
            return tuple(_typed(args[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    elif kind is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise ResultsInvalid(f"{where}: {value!r} is not {getattr(kind, '__name__', kind)}.")


def _typed_dataclass(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ResultsInvalid(f"{where}: not an object.")
    hints = get_type_hints(kind)
    names = {f.name for f in fields(kind)}
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    for problem, found in (("lacks", needed - set(value)), ("has the unknown field", set(value) - names)):
        if found:
            raise ResultsInvalid(f"{where} {problem} {', '.join(sorted(found))}.")
    return kind(**{name: _typed(hints[name], value[name], f"{where}, {name}") for name in sorted(value)})


# --- the table ----------------------------------------------------------------------------------------------


def markdown_table(rows: Sequence[BenchRow], contenders: Sequence[str], against: str = "inductor") -> str:
    """A table with the floor, a copy of as many bytes, and each contender's median time and share of floor.

    Args:
        contenders: columns, in order; one that a row lacks shows a dash.
        against: a column holds time(against) / time(fusewise), the last one the same of the fastest column but ours,
            in rows that have `against`; both are closed by their geometric means.
    """
    others = [name for name in contenders if name != OURS]
    compared = [f"{against} / {OURS}", f"best other / {OURS}"]
    head = ["program", "direction", "size", "dtype", "floor us", "copy us", *contenders, *compared]
    lines = [_table_row(head), _table_row(["---"] * len(head))]
    ratios: tuple[list[float], list[float]] = ([], [])
    for row in rows:
        shape = " ".join(f"{key} {value}" for key, value in row.shape.items())
        copy = "-" if row.copy_us is None else f"{row.copy_us.median:.0f}"
        cells = [row.name, row.direction, shape, row.dtype, f"{row.floor_us:.0f}", copy]
        cells += [_time_cell(row, name) for name in contenders]
        base = row.speedup(against)
        best = base and min((r for name in others if (r := row.speedup(name)) is not None), default=None)
        for ratio, column in zip((base, best), ratios, strict=True):
            column += [] if ratio is None else [ratio]
            cells.append("-" if ratio is None else f"{ratio:.2f}x")
        lines.append(_table_row(cells))
    if any(ratios):
        blanks = [""] * (len(head) - 3)
        means = [f"{geometric_mean(column):.2f}x" if column else "-" for column in ratios]
        lines.append(_table_row(["geometric mean", *blanks, *means]))
    return "\n".join(lines)


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _time_cell(row: BenchRow, contender: str) -> str:
    summary = row.times_us.get(contender)
    if summary is None:
        return "failed" if contender in row.failures else "-"
    mark = " impossible" if contender in row.impossible else ""
    if contender == OURS and not row.verified:
        mark += " not verified"
    share = f"{100 * row.share_of_floor[contender]:.0f}%"
    if contender == OURS and row.floor_two_read_us is not None:
        share += f", of two reads {100 * row.floor_two_read_us / summary.median:.0f}%"
    return f"{summary.median:.0f} ({share}){mark}"


def replace_table(text: str, table: str) -> str:
    """The text with what stands between the two table markers replaced; raises `ResultsInvalid` without them."""
    before, begin, rest = text.partition(TABLE_BEGIN)
    _, end, after = rest.partition(TABLE_END)
    if not begin or not end:
        raise ResultsInvalid("the page has no place for the bench table.", f"Add the lines\n{TABLE_BEGIN}\n{TABLE_END}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def caption(result: BenchResult) -> str:
    """One line that says where the figures come from."""
    if not result.rows:
        return "No rows."
    row = result.rows[0]
    versions: Mapping[str, str] = row.versions
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{row.device}; {named}; commit {row.commit or 'unknown'}; {row.date}."
