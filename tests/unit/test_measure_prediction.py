from __future__ import annotations

import json

import pytest

from fusewise.measure.choices import SPLIT, SUBJECT, WHOLE
from fusewise.measure.prediction import (
    SHORT_US,
    KernelPrediction,
    LaunchPrediction,
    Predictions,
    ProgramPrediction,
    match_launches,
)
from fusewise.measure.results import KernelTime
from tests.golden.test_golden_docs import generator
from tests.unit.test_measure_choices import choose, row_of


def test_launches_are_matched_by_name_and_order() -> None:
    predicted = [("a", 10.0, "memory"), ("b", 20.0, ""), ("a", 30.0, "compute"), ("c", 5.0, "memory")]
    measured = [KernelTime(n, us) for n, us in (("a", 11.0), ("at::fill", 2.0), ("b", 19.0), ("a", 33.0))]
    found, unmatched = match_launches(predicted, measured)
    assert found == (
        LaunchPrediction("a", 10.0, 11.0, "memory"),
        LaunchPrediction("b", 20.0, 19.0, ""),
        LaunchPrediction("a", 30.0, 33.0, "compute"),
    )
    assert unmatched == ("at::fill",)


def test_a_name_that_was_not_launched_as_often_is_not_matched() -> None:
    measured = [KernelTime("a", 11.0), KernelTime("a", 12.0)]
    assert match_launches([("a", 10.0, "memory")], measured) == ((), ("a", "a"))
    assert match_launches([("a", 10.0, "memory")], ()) == ((), ())


def program(contender: str, *launches: LaunchPrediction) -> ProgramPrediction:
    kernels = tuple(KernelPrediction(n.kernel, n.predicted_us, n.bound_by, 32, 32) for n in launches)
    total = sum(n.predicted_us for n in launches)
    measured = sum(n.measured_us for n in launches)
    return ProgramPrediction("softmax", "train", "full", "bf16", total, measured, None, kernels, contender, launches)


SHARED = LaunchPrediction("fused_a_0", 110.0, 100.0, "memory")
TINY = LaunchPrediction("fused_sum_0", 1.0, SHORT_US / 2, "")
PART = LaunchPrediction("fused_a_1", 50.0, 100.0, "latency")
CHOICE = choose(
    row_of(fusewise=130.0, fusewise_whole=130.5, fusewise_split=100.0),
    fusewise=(110.0, "a"),
    fusewise_whole=(110.0, "a"),
    fusewise_split=(160.0, "b"),
)
FOUND = Predictions(
    "h200",
    (program(SUBJECT, SHARED, TINY),),
    (),
    alternatives=(program(WHOLE, SHARED, TINY), program(SPLIT, SHARED, PART)),
    choices=(CHOICE,),
)


def test_a_kernel_that_contenders_share_counts_once_and_short_ones_do_not() -> None:
    assert FOUND.kernel_errors == pytest.approx((0.1, 0.5))
    document = json.loads(json.dumps(FOUND.to_json()))
    assert document["median_kernel_error"] == pytest.approx(0.3)
    assert (document["kernels_compared"], document["kernels_too_short"]) == (2, 1)
    assert [(k["kernel"], k["contender"]) for k in document["worst_kernels"]] == [
        ("fused_a_1", SPLIT),
        ("fused_a_0", SUBJECT),
    ]
    assert document["rows"][0]["launches"][0]["error"] == pytest.approx(0.1)
    assert document["choices"]["count"] == 1


def test_the_same_name_twice_in_a_call_counts_twice() -> None:
    twice = Predictions("h200", (program(SUBJECT, SHARED, SHARED),), ())
    assert len(twice.kernel_errors) == 2


def test_a_file_without_times_of_kernels_has_no_error_of_them() -> None:
    document = Predictions("h200", (program(SUBJECT, TINY),), ()).to_json()
    assert document["median_kernel_error"] is None and document["p90_kernel_error"] is None
    assert document["choices"] is None


def test_the_page_has_sections_for_what_a_file_holds() -> None:
    made = generator("make_cost_model")
    text = made._table(json.loads(json.dumps(FOUND.to_json())))
    assert "| kernels | 30.0% | 46.0% |" in text
    assert "| `fused_a_1` | 50.0 us | 100 us | -50% | latency | softmax train bf16, fusewise-split |" in text
    assert "Right in 0 of 1 programs (0%); worst loss 30.0%" in text
    assert "differ by up to 0.4%" in text
    assert "| fusewise-split | 30.0% | **no** | split | whole |" in text
    less = made._table(json.loads(json.dumps(Predictions("h200", FOUND.rows[:1], ()).to_json())) | {"choices": None})
    assert "Was the planner" not in less
    old = FOUND.to_json()
    for key in ("median_kernel_error", "choices", "alternatives", "worst_kernels"):
        del old[key]
    assert "###" not in made._table(old)
