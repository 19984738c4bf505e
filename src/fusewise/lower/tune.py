"""Schedules chosen by the clock, or pinned by name: what the model alone cannot tell apart.

A schedule's text is its tile and warps: `x4 r2048 w8 s3` (`y` and `r` where it has them, `s` for stages beyond one).
A text that a kernel does not know raises `UnknownName` with those it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fusewise.device.model import GpuModel
from fusewise.errors import UnknownName
from fusewise.lower.build import assemble, body_of, describe
from fusewise.lower.fission import Refined
from fusewise.lower.kernel import Kernel
from fusewise.lower.price import Pricer
from fusewise.plan.gpu_schedule import choose_gpu_schedule
from fusewise.plan.plan import KernelStep, Plan
from fusewise.plan.schedule import TritonSchedule

Time = Callable[[Kernel, Mapping[str, int]], float | None]
"""Measured time of one launch in us at sizes by the hints; None where the kernel cannot be timed."""

_MUST_GAIN = 0.98  # of the time of the schedule that the model chose: clocks are noisy


def schedule_text(schedule: TritonSchedule) -> str:
    """A schedule as `schedules` names it."""
    parts = [f"x{schedule.x_block}"]
    if schedule.y_axes:
        parts.insert(0, f"y{schedule.y_block}")
    if schedule.r_block > 1:
        parts.append(f"r{schedule.r_block}")
    parts.append(f"w{schedule.num_warps}")
    if schedule.num_stages > 1:
        parts.append(f"s{schedule.num_stages}")
    return " ".join(parts)


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
        if pins[step.name] not in known:
            raise UnknownName(f"schedule of {step.name}", pins[step.name], known)
        priced[step.name] = pricer.price_kernel(refined.plan, step, known[pins[step.name]])
    return Refined(refined.plan, priced)


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
    return Refined(refined.plan, priced), pins


def candidates(plan: Plan, step: KernelStep, gpu: GpuModel) -> dict[str, Kernel]:
    """The kernel of a step under each schedule that it has, by the schedule's text, best first by the model's rules."""
    axes, body = body_of(plan.graph, step.region, step.writes, plan.layouts, True, dict(step.over))
    hints = plan.graph.hints()
    found: dict[str, Kernel] = {}
    for schedule in choose_gpu_schedule(describe(axes, body, hints), gpu.sm_count):
        found.setdefault(schedule_text(schedule), assemble(step.name, axes, body, schedule, hints))
    return found


def _text(kernel: Kernel) -> str:
    assert isinstance(kernel.schedule, TritonSchedule)
    return schedule_text(kernel.schedule)
