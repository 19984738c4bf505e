"""Runs one verb of the lab: each row is checked against the exact result, then timed in turns with its group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fusewise.errors import VerifyMismatch
from fusewise.lab.backend import Backend, Prepared
from fusewise.lab.chain import Floats, expected, first_difference
from fusewise.lab.spec import Settings, Spec, Verb, plan_of
from fusewise.measure.machine import commit, now, versions
from fusewise.measure.stats import summarize

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One measured row; times are of the whole row, launches included.

    Attributes:
        tag: see `Spec.tag`.
        kind, k, n, width, live, regime: of the spec; `regime` is empty where n was given.
        block, grid: threads a block and blocks; 1 and threads on a CPU.
        median_ms, p10_ms, p90_ms: of `runs` runs.
        occ_blocks_per_sm: by the driver's own occupancy call; None on a CPU.
        passes, launches: what the row does by its construction.
        regs_per_thread, spill_bytes, stack_bytes: of the compiled kernel; None on a CPU.
        shared_bytes: dynamic shared memory a block, which throttles residency.
        max_regs: register cap of the compiler; 0: none.
        verified: every element equals the exact result bit for bit.
    """

    tag: str
    kind: str
    k: int
    n: int
    width: int
    live: int
    regime: str
    block: int
    grid: int
    median_ms: float
    p10_ms: float
    p90_ms: float
    runs: int
    occ_blocks_per_sm: int | None
    passes: int
    launches: int
    dram_bytes: int
    regs_per_thread: int | None
    spill_bytes: int | None
    stack_bytes: int | None
    shared_bytes: int
    max_regs: int
    verified: bool

    @property
    def gbps(self) -> float:
        """Bytes that the row must move where nothing stays in a cache / median time, in 1e9 a second."""
        return self.dram_bytes / self.median_ms / 1e6


@dataclass(frozen=True, slots=True)
class Result:
    """All rows of one verb on one machine.

    Attributes:
        verb: which.
        device: short name, such as "h200" or "cpu".
        published: the original's own protocol.
        rows: in the order in which they ran.
        machine: title, compilers, clocks before and after, versions, commit, date.
        cache_bytes: last-level cache of the machine.
    """

    verb: str
    device: str
    published: bool
    rows: tuple[Row, ...]
    machine: dict[str, str] = field(default_factory=dict)
    cache_bytes: int = 0

    @property
    def wrong(self) -> tuple[Row, ...]:
        """Rows whose results are not exact."""
        return tuple(row for row in self.rows if not row.verified)


def run(verb: Verb, settings: Settings, backend: Backend, progress: Progress | None = None) -> Result:
    """Measures every row of the verb.

    Raises:
        UsageError: a setting that does not fit the verb or the machine.
        VerifyMismatch: a row whose repeated runs do not give the result of its first.
    """
    show = progress or (lambda share, text: None)
    groups = plan_of(verb, settings, backend.bounds)
    total = sum(len(group) for group in groups)
    before = backend.state()
    check = _Checker(backend.fma)
    rows: list[Row] = []
    for group in groups:
        show(len(rows) / total, f"{group[0].tag} and {len(group) - 1} more, k = {group[0].k}, n = {group[0].n}")
        prepared = [backend.prepare(spec, settings) for spec in group]
        verified = [check(spec, ready) for spec, ready in zip(group, prepared, strict=True)]
        samples = _time(backend, prepared, settings)
        for spec, ready, ok, times in zip(group, prepared, verified, samples, strict=True):
            if ok and not check(spec, ready, run_once=False):
                raise VerifyMismatch(f"{spec.tag} (k = {spec.k}, n = {spec.n}) does not repeat its own result")
            rows.append(_row(spec, ready, ok, times))
    machine = {**backend.describe(), **{f"{key}, before": value for key, value in before.items()}}
    machine |= {f"{key}, after": value for key, value in backend.state().items()}
    machine["versions"] = ", ".join(f"{name} {version}" for name, version in versions().items())
    machine |= {"commit": commit() or "unknown", "date": now()}
    return Result(verb, backend.name, settings.published, tuple(rows), machine, backend.bounds.cache_bytes)


class _Checker:
    """Compares a row with the exact result; the last exact result is kept, since rows of a group share it."""

    def __init__(self, fma: bool) -> None:
        self._fma = fma
        self._key: tuple[int, int, int] | None = None
        self._wanted: Floats | None = None

    def __call__(self, spec: Spec, ready: Prepared, run_once: bool = True) -> bool:
        """Args: `run_once`: clear what the row writes and run it; else look at what its last run left."""
        rotate = spec.n // 2 if spec.kind.startswith("phases") else 0
        key = (spec.n, spec.k, rotate)
        if key != self._key or self._wanted is None:
            self._key, self._wanted = key, expected(spec.n, spec.k, self._fma, rotate)
        if run_once:
            ready.clear()
        ready.call()
        return first_difference(ready.result(), self._wanted) is None


def _time(backend: Backend, prepared: Sequence[Prepared], settings: Settings) -> list[list[float]]:
    """Samples in ms; the rows of a group take turns, except under the published protocol, which runs one at a time."""
    samples: list[list[float]] = [[] for _ in prepared]
    if settings.published:
        for place, ready in enumerate(prepared):
            for _ in range(settings.warmup):
                ready.call()
            samples[place] = [backend.time_ms(ready.call) for _ in range(settings.runs)]
        return samples
    for ready in prepared:
        for _ in range(settings.warmup):
            ready.call()
    for turn in range(settings.runs):
        first = turn % len(prepared)
        for place in [*range(first, len(prepared)), *range(first)]:
            samples[place].append(backend.time_ms(prepared[place].call))
    return samples


def _row(spec: Spec, ready: Prepared, verified: bool, times: Sequence[float]) -> Row:
    summary = summarize(times)
    used = ready.resources
    return Row(
        tag=spec.tag,
        kind=spec.kind,
        k=spec.k,
        n=spec.n,
        width=spec.width,
        live=spec.live,
        regime=spec.regime,
        block=ready.block,
        grid=ready.grid,
        median_ms=summary.median,
        p10_ms=summary.p10,
        p90_ms=summary.p90,
        runs=summary.runs,
        occ_blocks_per_sm=ready.occ_blocks_per_sm,
        passes=spec.passes,
        launches=spec.launches,
        dram_bytes=spec.dram_bytes,
        regs_per_thread=None if used is None else used.regs_per_thread,
        spill_bytes=None if used is None else used.spill_store_bytes + used.spill_load_bytes,
        stack_bytes=None if used is None else used.stack_bytes,
        shared_bytes=ready.shared_bytes,
        max_regs=spec.max_regs,
        verified=verified,
    )


def groups_of(rows: Sequence[Row]) -> list[tuple[Row, ...]]:
    """Rows of the same regime, n and k together, in order."""
    found: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row.regime, row.n, row.k), []).append(row)
    return [tuple(group) for group in found.values()]
