"""Schedules by the clock and by name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.config import make_options
from fusewise.errors import UnknownName
from fusewise.lower.fission import Refined, refine
from fusewise.lower.kernel import Kernel
from fusewise.lower.price import Pricer
from fusewise.lower.tune import candidates, pin, tune
from fusewise.pipeline import machine_of
from fusewise.plan.plan import make_plan
from fusewise.plan.schedule import TritonSchedule, schedule_text
from fusewise.runtime.kernel_timer import buffer_elements

MACHINE = machine_of("h200")
assert MACHINE.gpu is not None
GPU = MACHINE.gpu
PRICER = Pricer(GPU, None)


@pytest.fixture(scope="module")
def refined() -> Refined:
    x = torch.empty(8192, 4096, dtype=torch.bfloat16, device="meta")
    (traced,) = trace_fn(lambda x: torch.softmax(x, -1), (x,), device="cuda")
    graph = import_graph(traced.gm, traced.example_inputs, "balanced", "cuda").graph
    return refine(lambda cuts: make_plan(graph, MACHINE, apart=cuts), PRICER)


def text(kernel: Kernel) -> str:
    assert isinstance(kernel.schedule, TritonSchedule)
    return schedule_text(kernel.schedule)


def test_the_fastest_by_the_clock_is_taken_and_pinned(refined: Refined) -> None:
    (step,) = refined.plan.kernels
    known = candidates(refined.plan, step, GPU)
    assert len(known) > 2
    wanted = list(known)[-1]

    def clock(kernel: Kernel, hints: Mapping[str, int]) -> float:
        return 10.0 if text(kernel) == wanted else 20.0

    found, pins = tune(refined, PRICER, clock)
    assert pins == {step.name: wanted}
    assert text(found.kernels[step.name]) == wanted
    pinned = pin(refined, PRICER, pins)
    assert text(pinned.kernels[step.name]) == wanted
    for chosen in (found, pinned):  # the plan tells what is predicted of the schedule that it runs under
        (told,) = chosen.plan.kernels
        assert step.prediction != told.prediction == chosen.priced[step.name].prediction
        assert told.predicted_us == chosen.time_us


def test_noise_changes_nothing(refined: Refined) -> None:
    (step,) = refined.plan.kernels
    before = text(refined.kernels[step.name])
    times = iter([20.0, 19.9, 20.1, 19.8, 20.0, 20.0])
    found, pins = tune(refined, PRICER, lambda kernel, hints: next(times))
    assert text(found.kernels[step.name]) == before == pins[step.name]


def test_what_cannot_be_timed_keeps_its_schedule(refined: Refined) -> None:
    found, pins = tune(refined, PRICER, lambda kernel, hints: None)
    assert (found.kernels, pins) == (refined.kernels, {})


def test_an_unknown_schedule_names_those_there_are(refined: Refined) -> None:
    (step,) = refined.plan.kernels
    with pytest.raises(UnknownName, match="schedule of"):
        pin(refined, PRICER, {step.name: "x3 w5"})
    assert pin(refined, PRICER, {"kernel_of_another_graph": "x3 w5"}).kernels == refined.kernels


def test_buffers_hold_every_element_that_the_kernel_touches(refined: Refined) -> None:
    (kernel,) = refined.kernels.values()
    assert buffer_elements(kernel, {}) == [8192 * 4096, 8192 * 4096]


def test_options_take_a_mapping() -> None:
    options = make_options(tune=True, schedules={"b": "x1 w4", "a": "x2 w8"})
    assert options.schedules == (("a", "x2 w8"), ("b", "x1 w4"))
