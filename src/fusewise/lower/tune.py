"""Schedules chosen by the clock, or pinned by name: what the model alone cannot tell apart.

A schedule's text is that of `schedule_text`: `x4 r2048 w8 s3`. A cap on registers (`n96`) and spilling to shared memory
(`shared`) may follow any of a kernel's own. A text that a kernel does not know raises `UnknownName` with those it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from fusewise.device.model import GpuModel
from fusewise.errors import UnknownName
from fusewise.lower.build import assemble, body_of, describe
from fusewise.lower.fission import Refined, with_predictions
from fusewise.lower.kernel import Kernel
from fusewise.lower.price import Pricer
from fusewise.plan.gpu_schedule import choose_gpu_schedule
from fusewise.plan.plan import KernelStep, Plan
from fusewise.plan.schedule import TritonSchedule, schedule_text

Time = Callable[[Kernel, Mapping[str, int]], float | None]
"""Measured time of one launch in us at sizes by the hints; None where the kernel cannot be timed."""

# 16 to 255 registers: the assembler takes no fewer, and a thread names no more
_OPTIONS = re.compile(r"(?P<own>.*?)(?: n(?P<cap>1[6-9]|[2-9]\d|1\d\d|2[0-4]\d|25[0-5]))?(?P<shared> shared)?")
_MUST_GAIN = 0.98  # of the time of the schedule that the model chose: clocks are noisy


def pin(refined: Refined, pricer: Pricer, pins: Mapping[str, str]) -> Refined:
    """The kernels named in `pins` under the schedules given there; names of other graphs' kernels are passed over.

    Raises:
        UnknownName: a kernel has no such schedule.
    """
    priced = dict(refined.priced)
    for step in refined.plan.kernels:
        if step.name not in pins:
            continue
        known = candidates(refined.plan, step, pricer.gpu)
        kernel = _named(known, pins[step.name])
        if kernel is None:
            raise UnknownName(f"schedule of {step.name}", pins[step.name], known)
        priced[step.name] = pricer.price_kernel(refined.plan, step, kernel)
    return with_predictions(refined.plan, priced)


def tune(refined: Refined, pricer: Pricer, time_kernel: Time) -> tuple[Refined, dict[str, str]]:
    """Each kernel worth compiling under the schedule that is fastest by the clock, and the pins that say so.

    A kernel that cannot be timed keeps its schedule and is not pinned.
    """
    hints = refined.plan.graph.hints()
    priced = dict(refined.priced)
    pins: dict[str, str] = {}
    for step in refined.plan.kernels:
        if priced[step.name].prediction is None:
            continue
        chosen = _text(priced[step.name].kernel)
        known = candidates(refined.plan, step, pricer.gpu)
        times = {text: t for text, kernel in known.items() if (t := time_kernel(kernel, hints)) is not None}
        if chosen not in times:
            continue
        best = min(times, key=lambda text: times[text])
        if times[best] > _MUST_GAIN * times[chosen]:
            best = chosen
        elif best != chosen:
            priced[step.name] = pricer.price_kernel(refined.plan, step, known[best])
        pins[step.name] = best
    return with_predictions(refined.plan, priced), pins


def candidates(plan: Plan, step: KernelStep, gpu: GpuModel) -> dict[str, Kernel]:
    """The kernel of a step under each schedule that it has, by the schedule's text, best first by the model's rules.

    Where registers hold it back, the ways that were compiled for that are among them.
    """
    axes, body = body_of(plan.graph, step.region, step.writes, plan.layouts, True, dict(step.over))
    hints = plan.graph.hints()
    found: dict[str, Kernel] = {}
    for schedule in choose_gpu_schedule(describe(axes, body, hints), gpu.sm_count):
        found.setdefault(schedule_text(schedule), assemble(step.name, axes, body, schedule, hints))
    for way in (way for held in plan.held_back if held.nodes == step.nodes for way in held.ways):
        kernel = _named(found, way.schedule)
        if kernel is not None:
            found.setdefault(way.schedule, kernel)
    return found


def _named(known: Mapping[str, Kernel], text: str) -> Kernel | None:
    """The kernel under the schedule of a text: one of its own, with what the assembler is told beside."""
    match = _OPTIONS.fullmatch(text)
    kernel = None if match is None else known.get(match["own"])
    if match is None or kernel is None:
        return None
    assert isinstance(kernel.schedule, TritonSchedule)
    cap = None if match["cap"] is None else int(match["cap"])
    return replace(kernel, schedule=replace(kernel.schedule, maxnreg=cap, spill_to_shared=bool(match["shared"])))


def _text(kernel: Kernel) -> str:
    assert isinstance(kernel.schedule, TritonSchedule)
    return schedule_text(kernel.schedule)
