"""Was the planner's choice the fastest of what it chose from: all in one, all apart, nothing fused?

This module needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal, TypeAlias

from fusewise.measure.results import BenchRow
from fusewise.measure.stats import Summary

SUBJECT = "fusewise"
WHOLE = "fusewise-whole"
SPLIT = "fusewise-split"
UNFUSED = "fusewise-unfused"

# Options of what the planner chose from. Whole: no kernel split, and all that can share a launch does; split: each that
# can be is split at its best place, and every kernel has its own launch; unfused: nothing is fused.
ALTERNATIVES: dict[str, dict[str, Any]] = {
    WHOLE: {"fission": "never", "side_by_side": "always"},
    SPLIT: {"fission": "always", "side_by_side": "never"},
    UNFUSED: {"fuel": 0},
}

# Beyond the spread within a run, the same kernels differ from compile to compile: by where code and tensors come to
# lie in memory. `same_plans_differ_by` says how much of that a results file shows.
NOISE = 0.03

Order: TypeAlias = Literal["whole", "split", "same"]


@dataclass(frozen=True, slots=True)
class Choice:
    """One row of a results file, timed for the planner's choice and for what it chose from.

    Attributes:
        times_us: median by contender: `fusewise`, `fusewise-whole`, `fusewise-split`, `fusewise-unfused` where timed.
        fastest: the contender of the least median.
        loss: median of `fusewise` / least median - 1.
        right: True where the loss is within the noise, or where `fusewise` has the same plan as the fastest.
        overlaps: True where the times of `fusewise` and of the fastest overlap, each between its 10th and 90th
            percentile.
        predicted_us: of each contender that was predicted.
        same_plans: pairs of contenders that were predicted, with the same kernels.
        measured_order: which of whole and split is faster; `same` within the noise.
        predicted_order: the same by prediction; `same` for the same time; None where one of them was not predicted.
    """

    name: str
    direction: str
    size: str
    dtype: str
    times_us: dict[str, float]
    fastest: str
    loss: float
    right: bool
    overlaps: bool
    predicted_us: dict[str, float]
    same_plans: tuple[tuple[str, str], ...]
    measured_order: Order
    predicted_order: Order | None

    @property
    def label(self) -> str:
        """The row's, for the reader."""
        return f"{self.name} {self.direction} {self.size} {self.dtype}"

    @property
    def order_right(self) -> bool | None:
        """True where the prediction has the faster one of whole and split; None: not predicted, or none is faster."""
        if self.predicted_order is None or self.measured_order == "same":
            return None
        return self.predicted_order == self.measured_order

    @property
    def same_plans_differ_by(self) -> tuple[float, ...]:
        """Of each pair with the same plan: the larger median / the smaller - 1, which is noise and nothing else."""
        pairs = [(self.times_us[a], self.times_us[b]) for a, b in self.same_plans]
        return tuple(max(pair) / min(pair) - 1 for pair in pairs)


def choice_of(row: BenchRow, predicted: Mapping[str, tuple[float, object]]) -> Choice | None:
    """What a row says of the planner's choice; None where the choice, whole and split were not all timed.

    Args:
        predicted: by contender (time in us, the plan: equal plans mean equal kernels).
    """
    times = {name: row.times_us[name] for name in (SUBJECT, WHOLE, SPLIT, UNFUSED) if name in row.times_us}
    if not {SUBJECT, WHOLE, SPLIT} <= times.keys():
        return None
    fastest = min(times, key=lambda name: times[name].median)
    loss = times[SUBJECT].median / times[fastest].median - 1
    predicted = {name: found for name, found in predicted.items() if name in times}
    same = tuple((a, b) for a, b in combinations(predicted, 2) if predicted[a][1] == predicted[b][1])
    overlaps = _overlap(times[SUBJECT], times[fastest])
    order: Order | None = None
    if WHOLE in predicted and SPLIT in predicted:
        whole_us, split_us = predicted[WHOLE][0], predicted[SPLIT][0]
        order = "same" if whole_us == split_us else "whole" if whole_us < split_us else "split"
    return Choice(
        row.name,
        row.direction,
        row.size,
        row.dtype,
        {name: summary.median for name, summary in times.items()},
        fastest,
        loss,
        loss <= NOISE or overlaps or (SUBJECT, fastest) in same,
        overlaps,
        {name: time_us for name, (time_us, _) in predicted.items()},
        same,
        _measured_order(times[WHOLE], times[SPLIT], (WHOLE, SPLIT) in same),
        order,
    )


def _measured_order(whole: Summary, split: Summary, same_plan: bool) -> Order:
    slower, faster = max(whole.median, split.median), min(whole.median, split.median)
    if same_plan or slower / faster - 1 <= NOISE or _overlap(whole, split):
        return "same"
    return "whole" if whole.median < split.median else "split"


def _overlap(one: Summary, other: Summary) -> bool:
    return one.p10 <= other.p90 and other.p10 <= one.p90


def summary_of(choices: Sequence[Choice]) -> dict[str, Any] | None:
    """All choices with counts and the worst loss, as JSON (docs/bench-schema.md); None where there are none."""
    if not choices:
        return None
    worst = max(choices, key=lambda c: c.loss)
    orders = [c.order_right for c in choices if c.order_right is not None]
    noise = [differ for c in choices for differ in c.same_plans_differ_by]
    return {
        "noise": NOISE,
        "same_plans_differ_by": max(noise, default=None),
        "count": len(choices),
        "right": sum(c.right for c in choices),
        "share_right": sum(c.right for c in choices) / len(choices),
        "worst_loss": worst.loss,
        "worst": worst.label,
        "orders": len(orders),
        "orders_right": sum(orders),
        "rows": [asdict(c) | {"order_right": c.order_right} for c in choices],
    }
