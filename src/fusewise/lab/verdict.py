"""What a run of the lab says, in words, and the next step to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusewise.lab.run import Result, Row, groups_of

NEAR = 1.05  # two times within 5% of each other count as equal
MOSTLY, HARDLY = 0.5, 0.2  # shares of a saving
NEAR_BOUND = 0.85
NOISY = 1.5  # p90 / p10 from which a row counts as disturbed
REGIMES = {"launch": "launch-bound size", "cache": "cache-resident size", "memory": "memory-bound size", "": ""}


@dataclass(frozen=True, slots=True)
class Gain:
    """Naive against fused at one size and k, each at its fastest width; a ratio is time(other) / time(fused).

    Attributes:
        regime, n, k: which.
        fused_ms: of the fastest width.
        width: that width.
        naive, copies, graph: ratios; None where the row was not measured.
        narrow: time at the narrowest width / time at the fastest.
    """

    regime: str
    n: int
    k: int
    fused_ms: float
    width: int
    naive: float | None
    copies: float | None
    graph: float | None
    narrow: float

    @property
    def launch_share(self) -> float | None:
        """Share of what fusing saves over naive that a replay without launches saves already, from 0 to 1."""
        if self.naive is None or self.graph is None or self.naive <= 1:
            return None
        return min(1.0, max(0.0, (self.naive - self.graph) / (self.naive - 1)))


@dataclass(frozen=True, slots=True)
class FatCost:
    """The probe at one number of live values; a ratio is time(other) / time(fused at the same width).

    Attributes:
        live: values.
        fat, thin, hold: ratios; None where the row was not measured.
        regs, blocks: of the fat kernel; None on a CPU.
        spill_bytes: of the fat kernel; None on a CPU.
    """

    live: int
    fat: float
    thin: float | None
    hold: float | None
    regs: int | None
    blocks: int | None
    spill_bytes: int | None


def gains_of(rows: Sequence[Row]) -> tuple[Gain, ...]:
    """One a size and k that holds both a fused and an unfused row."""
    found = []
    for group in groups_of(rows):
        fused = [row for row in group if row.kind == "fused" and not row.shared_bytes]
        times: dict[str, float] = {}  # of the fastest width
        for row in group:
            if row.kind.startswith("naive"):
                times[row.kind] = min(row.median_ms, times.get(row.kind, row.median_ms))
        if not fused or not times:
            continue
        best = min(fused, key=lambda row: row.median_ms)
        narrow = min(fused, key=lambda row: row.width)
        ratios = {kind: time / best.median_ms for kind, time in times.items()}
        found.append(
            Gain(
                regime=best.regime,
                n=best.n,
                k=best.k,
                fused_ms=best.median_ms,
                width=best.width,
                naive=ratios.get("naive"),
                copies=ratios.get("naive_copies"),
                graph=ratios.get("naive_graph"),
                narrow=narrow.median_ms / best.median_ms,
            )
        )
    return tuple(found)


def fat_costs_of(rows: Sequence[Row]) -> tuple[FatCost, ...]:
    """One a number of live values, against the fused row of the same width; capped rows are left out.

    Where several k or n were run, the first counts.
    """
    found = []
    fats = [row for row in rows if row.live]
    rows = [row for row in rows if fats and (row.k, row.n) == (fats[0].k, fats[0].n)]
    for live in sorted({row.live for row in rows if row.live}):
        mine = {row.kind: row for row in rows if row.live == live and not row.max_regs}
        fat = mine.get("fat") or mine.get("fat_published")
        if fat is None:
            continue
        base = _fused_time(rows, fat)
        if base is None:
            continue
        thin, hold = mine.get("thin"), mine.get("hold")
        found.append(
            FatCost(
                live=live,
                fat=fat.median_ms / base,
                thin=None if thin is None else thin.median_ms / base,
                hold=None if hold is None else hold.median_ms / base,
                regs=fat.regs_per_thread,
                blocks=fat.occ_blocks_per_sm,
                spill_bytes=fat.spill_bytes,
            )
        )
    return tuple(found)


def _fused_time(rows: Sequence[Row], like: Row) -> float | None:
    """Time of the fused kernel with the same k, n and width: the nearest in the order of the run, for drift."""
    size = (like.k, like.n, like.width)
    fused = [(i, r) for i, r in enumerate(rows) if r.kind == "fused" and not r.shared_bytes]
    mine = [(i, r) for i, r in fused if (r.k, r.n, r.width) == size]
    place = rows.index(like)
    return min(mine, key=lambda found: abs(found[0] - place))[1].median_ms if mine else None


def verdict_of(result: Result) -> tuple[str, ...]:
    """Sentences, the last of which is the next step."""
    gains, costs = gains_of(result.rows), fat_costs_of(result.rows)
    said = [_wrong(result)] if result.wrong else []
    for regime, n in dict.fromkeys((g.regime, g.n) for g in gains):
        said += _of_size([g for g in gains if (g.regime, g.n) == (regime, n)], result.published)
    said += _of_fat(costs, result.published)
    said += _of_throttle(result.rows) + _of_caps(result.rows) + _of_phases(result.rows)
    if not gains:
        said += _of_forms(result.rows)
    said += _of_noise(result.rows)
    return (*said, "Next: " + _next_step(result, gains, costs))


def _wrong(result: Result) -> str:
    tags = ", ".join(dict.fromkeys(row.tag for row in result.wrong))
    return f"NOT exact: {tags}. Their times mean nothing."


def _of_forms(rows: Sequence[Row]) -> list[str]:
    """Where naive or fused ran alone: its forms beside each other."""
    said = []
    for group in groups_of(rows):
        where = f"{_where(group[0].regime, group[0].n)}, k = {group[0].k}"
        times: dict[str, float] = {}
        for row in group:
            times[row.kind] = min(row.median_ms, times.get(row.kind, row.median_ms))
        if "naive" in times and "naive_copies" in times and "naive_graph" in times:
            said.append(
                f"{where}: the published copies make naive {times['naive_copies'] / times['naive']:.2f}x as long;"
                f" replayed without launches it takes {times['naive_graph'] / times['naive']:.2f}x."
            )
        fused = [row for row in group if row.kind == "fused" and not row.shared_bytes]
        if len({row.width for row in fused}) > 1:
            best, narrow = min(fused, key=lambda r: r.median_ms), min(fused, key=lambda r: r.width)
            ratio = narrow.median_ms / best.median_ms
            said.append(f"{where}: fused is fastest at {best.width} elements an access, {ratio:.2f}x faster than one.")
    return said


def _of_noise(rows: Sequence[Row]) -> list[str]:
    noisy = [row for row in rows if row.p90_ms > NOISY * row.p10_ms]
    if not noisy:
        return []
    worst = max(noisy, key=lambda row: row.p90_ms / row.p10_ms)
    return [
        f"{len(noisy)} of {len(rows)} rows spread by more than {NOISY:.1f}x from p10 to p90 (worst: {worst.tag},"
        f" k = {worst.k}, n = {worst.n:,}): something else used the machine, so read these medians with care."
    ]


def _of_size(gains: Sequence[Gain], as_published: bool) -> list[str]:
    first, last = gains[0], gains[-1]
    where = _where(last.regime, last.n)
    said = []
    if last.naive is not None and first.naive is not None:
        said.append(_trend(where, "naive", first.naive, last.naive, first.k, last.k) + " The bound is k.")
    if last.copies is not None and first.copies is not None:
        text = _trend(where, "naive with the published copies", first.copies, last.copies, first.k, last.k)
        passes = "its passes are k + 1 for odd k and k + 2 for even k"
        said.append(f"{text} It also times the copies: {passes}.")
    share = last.launch_share
    if share is not None and not as_published:
        percent = f"{100 * share:.0f}%"
        if share >= MOSTLY:
            said.append(f"{where}, it is launches: replaying naive without them keeps {percent} of what fusing saves.")
        elif share <= HARDLY:
            said.append(f"{where}, it is traffic: replaying naive without its launches saves only {percent} of it.")
        else:
            said.append(f"{where}, it is both: launches are {percent} of what fusing saves, traffic the rest.")
    if last.narrow > NEAR:
        said.append(f"{where}, {last.width} elements an access are {last.narrow:.2f}x faster than one.")
    return said


def _where(regime: str, n: int) -> str:
    return f"At the {REGIMES[regime]} (n = {n:,})" if regime else f"At n = {n:,}"


def _trend(where: str, name: str, first: float, last: float, first_k: int, last_k: int) -> str:
    if first_k == last_k:
        return f"{where}, time({name}) / time(fused) is {last:.2f} at k = {last_k}."
    how = "rises" if last > first * NEAR else "falls" if last < first / NEAR else "does not change"
    return f"{where}, time({name}) / time(fused) {how} with k: {first:.2f} at {first_k}, {last:.2f} at {last_k}."


def _of_fat(costs: Sequence[FatCost], as_published: bool) -> list[str]:
    if not costs:
        return []
    worst = max(costs, key=lambda cost: cost.fat)
    loses = "loses" if worst.fat > NEAR else "does not lose"
    blocks = "1 block" if worst.blocks == 1 else f"{worst.blocks} blocks"
    held = f" ({worst.regs} registers, {blocks} an SM)" if worst.regs is not None else ""
    said = [f"Fat {loses}: with {worst.live} live values{held} it takes {worst.fat:.2f}x the time of fused."]
    if as_published:
        said.append("The published probe also does arithmetic and atomics, so that this is not occupancy alone.")
    elif worst.thin is not None:
        own = worst.fat / worst.thin
        said.append(
            f"The same arithmetic with 8 values at a time takes {worst.thin:.2f}x: "
            f"live values themselves cost {own:.2f}x, arithmetic the rest."
        )
    held_rows = [cost for cost in costs if cost.hold is not None]
    if held_rows:
        least, most = held_rows[0], held_rows[-1]
        said.append(
            f"With the instructions held fixed, {most.live} values that only stay alive take {most.hold:.2f}x"
            f" where {least.live} take {least.hold:.2f}x."
        )
    return said


def _throttled(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        if row.shared_bytes and row.occ_blocks_per_sm is not None:
            found.setdefault(row.width, []).append(row)
    return {width: sorted(mine, key=lambda r: r.occ_blocks_per_sm or 0) for width, mine in found.items()}


def _of_throttle(rows: Sequence[Row]) -> list[str]:
    said = []
    for width, mine in _throttled(rows).items():
        best = min(row.median_ms for row in mine)
        enough = next(row for row in mine if row.median_ms <= NEAR * best)
        said.append(
            f"One kernel, residency throttled, {width} elements an access: {enough.occ_blocks_per_sm} of"
            f" {mine[-1].occ_blocks_per_sm} blocks an SM are within 5% of the best; with one block it takes"
            f" {mine[0].median_ms / best:.2f}x."
        )
    return said


def _of_caps(rows: Sequence[Row]) -> list[str]:
    capped = [row for row in rows if row.max_regs]
    if not capped:
        return []
    whole = next((r for r in rows if (r.kind, r.live, r.max_regs) == ("fat", capped[0].live, 0)), None)
    if whole is None:
        return []
    best = min(capped, key=lambda row: row.median_ms)
    ratio = best.median_ms / whole.median_ms
    how = "is faster than" if ratio < 1 / NEAR else "is slower than" if ratio > NEAR else "equals"
    return [
        f"Capping fat's registers and spilling {how} holding {whole.live} values: at best {ratio:.2f}x of its time,"
        f" with {best.max_regs} registers and {best.spill_bytes} spilled bytes a thread."
    ]


def _of_phases(rows: Sequence[Row]) -> list[str]:
    said = []
    for group in groups_of(rows):
        times = {row.kind: row.median_ms for row in group}
        if "phases_one" not in times or "phases_two" not in times:
            continue
        ratio = times["phases_two"] / times["phases_one"]
        how = "is faster than" if ratio > NEAR else "is slower than" if ratio < 1 / NEAR else "equals"
        graph = times.get("phases_graph")
        replay = "" if graph is None else f"; the two in a graph take {graph / times['phases_one']:.2f}x of it"
        where = _where(group[0].regime, group[0].n)
        said.append(f"{where}, one launch with a barrier {how} two: time(two) / time(one) = {ratio:.2f}{replay}.")
    return said


def _next_step(result: Result, gains: Sequence[Gain], costs: Sequence[FatCost]) -> str:
    if result.wrong:
        return "find the row that is not exact before anything else."
    if result.published:
        return f"run `fusewise lab {result.verb}` without --published, which separates copies, launches and traffic."
    largest = [g for g in gains if g.n == max(g.n for g in gains)]
    if largest:
        last = largest[-1]
        if last.naive is not None and last.launch_share is not None and last.launch_share >= MOSTLY:
            return "replay the launches (a CUDA Graph) before fusing: it keeps most of the gain with no new kernel."
        if last.naive is not None and last.naive < NEAR_BOUND * last.k:
            return (
                f"look at the fused kernel: at k = {last.k} it gains {last.naive:.2f} where traffic allows {last.k};"
                " compare its bytes a second with the copy rate (`fusewise device calibrate`)."
            )
        if not costs:
            return "fuse: the gain is near its bound. `fusewise lab fat` shows how many live values it can carry."
    if costs:
        cost = max(costs, key=lambda c: c.live)
        own = cost.fat / cost.thin if cost.thin else None
        if own is not None and own > NEAR:
            return f"split a fusion that keeps {cost.live} values alive: beside their arithmetic they cost {own:.2f}x."
        if own is not None:
            return "fuse on: live values cost less than 5% beside their arithmetic, as far as they were swept."
    if any(row.kind == "phases_one" for row in result.rows):
        return "take one launch where launches bind, and two kernels where both take equally long: they are simpler."
    return f"compare with the other forms: `fusewise lab sweep --device {result.device}`."
