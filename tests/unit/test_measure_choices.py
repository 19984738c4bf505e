from __future__ import annotations

from dataclasses import replace

import pytest

from fusewise.measure.choices import NOISE, SPLIT, SUBJECT, UNFUSED, WHOLE, Choice, choice_of, summary_of
from fusewise.measure.results import BenchRow
from fusewise.measure.stats import Summary
from tests.unit.test_measure_results import ROW


def row_of(spread: float = 0.001, **times: float) -> BenchRow:
    """A row with these medians, `fusewise_whole` for `fusewise-whole`; p10 and p90 lie `spread` away."""
    names = {name.replace("_", "-"): us for name, us in times.items()}
    summaries = {name: Summary(us, us * (1 - spread), us * (1 + spread), 30) for name, us in names.items()}
    return replace(ROW, times_us=summaries)


def choose(row: BenchRow, **predicted: tuple[float, str]) -> Choice:
    found = choice_of(row, {name.replace("_", "-"): plan for name, plan in predicted.items()})
    assert found is not None
    return found


def test_the_loss_is_against_the_fastest_of_all() -> None:
    found = choose(row_of(fusewise=120.0, fusewise_whole=150.0, fusewise_split=130.0, fusewise_unfused=100.0))
    assert (found.fastest, found.right, found.overlaps) == (UNFUSED, False, False)
    assert found.loss == pytest.approx(0.2)
    assert found.times_us == {SUBJECT: 120.0, WHOLE: 150.0, SPLIT: 130.0, UNFUSED: 100.0}
    fastest = choose(row_of(fusewise=120.0, fusewise_whole=150.0, fusewise_split=130.0))
    assert (fastest.fastest, fastest.loss, fastest.right) == (SUBJECT, 0.0, True)


@pytest.mark.parametrize(
    ("loss", "spread", "right"), [(NOISE * 0.9, 0.0, True), (NOISE * 1.1, 0.0, False), (NOISE * 1.1, 0.05, True)]
)
def test_noise_is_no_wrong_choice(loss: float, spread: float, right: bool) -> None:
    found = choose(row_of(spread, fusewise=100 * (1 + loss), fusewise_whole=100.0, fusewise_split=200.0))
    assert found.right is right
    assert found.measured_order == "whole"


def test_the_same_plan_cannot_be_a_wrong_choice_and_shows_the_noise() -> None:
    row = row_of(fusewise=110.0, fusewise_whole=100.0, fusewise_split=200.0)
    found = choose(row, fusewise=(90.0, "a"), fusewise_whole=(90.0, "a"), fusewise_split=(180.0, "b"))
    assert found.right and found.same_plans == ((SUBJECT, WHOLE),)
    assert found.same_plans_differ_by == (pytest.approx(0.1),)
    assert not choose(row, fusewise=(90.0, "a"), fusewise_whole=(90.0, "b")).right


@pytest.mark.parametrize(
    ("whole", "split", "predicted", "orders", "right"),
    [
        (100.0, 120.0, (50.0, 60.0), ("whole", "whole"), True),
        (120.0, 100.0, (50.0, 60.0), ("split", "whole"), False),
        (100.0, 120.0, (60.0, 60.0), ("whole", "same"), False),
        (100.0, 101.0, (50.0, 60.0), ("same", "whole"), None),
    ],
)
def test_whole_and_split_in_order(
    whole: float, split: float, predicted: tuple[float, float], orders: tuple[str, str], right: bool | None
) -> None:
    row = row_of(fusewise=100.0, fusewise_whole=whole, fusewise_split=split)
    found = choose(row, fusewise_whole=(predicted[0], "a"), fusewise_split=(predicted[1], "b"))
    assert (found.measured_order, found.predicted_order, found.order_right) == (*orders, right)


def test_without_all_three_there_is_nothing_to_say() -> None:
    assert choice_of(row_of(fusewise=1.0, fusewise_whole=1.0, fusewise_unfused=1.0), {}) is None
    assert summary_of([]) is None
    unpredicted = choose(row_of(fusewise=1.0, fusewise_whole=1.0, fusewise_split=2.0))
    assert unpredicted.predicted_order is None and unpredicted.order_right is None


def test_the_summary_counts() -> None:
    good = choose(
        row_of(fusewise=100.0, fusewise_whole=102.0, fusewise_split=150.0),
        fusewise=(90.0, "a"),
        fusewise_whole=(90.0, "a"),
        fusewise_split=(99.0, "b"),
    )
    bad = replace(choose(row_of(fusewise=150.0, fusewise_whole=150.0, fusewise_split=100.0)), name="other")
    total = summary_of([good, bad])
    assert total is not None
    assert (total["count"], total["right"], total["share_right"]) == (2, 1, 0.5)
    assert total["worst"].startswith("other ") and total["worst_loss"] == pytest.approx(0.5)
    assert (total["orders"], total["orders_right"]) == (1, 1)
    assert total["same_plans_differ_by"] == pytest.approx(0.02)
    assert [row["name"] for row in total["rows"]] == [good.name, "other"]
