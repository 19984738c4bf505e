"""Which fusion makes a result wrong, or a function slower: the plan with only its first n fusions, for some n.

Fusions are numbered as the planner takes them, over all graphs in the order of their compiles. A limit on their number
leaves those before it as they are. Kernels are not split again by what their machine code uses, which is decided for
the whole plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from fusewise import trace
from fusewise.backend import Backend
from fusewise.config import Options
from fusewise.errors import ProfilerActive
from fusewise.explanation.places import lines_of, ops_of, source_line
from fusewise.measure.guard import active_profiler
from fusewise.measure.stats import median
from fusewise.measure.timers import interleave, make_timer
from fusewise.pipeline import Compiled, compile_graph
from fusewise.plan.decisions import REASONS
from fusewise.plan.plan import KernelStep, Plan
from fusewise.proof.calls import Calls, Function, own_entry
from fusewise.proof.inputs import CALLER, HARD, RANDOM, make_inputs
from fusewise.proof.reference import Role
from fusewise.proof.run import Progress, verify
from fusewise.report.bisection import Bisection, Fusion, Side, Trial
from fusewise.report.documents import Verification

SLOWER = 1.05  # what counts as slower, of two medians taken in turns
_ROUNDS, _BUDGET_S = 30, 4.0


def bisect_wrong(
    function: Function,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    *,
    name: str = "",
    seed: int = 0,
    hard: bool = True,
    progress: Progress | None = None,
) -> Bisection:
    """The first fusion with which `fusewise.verify` fails.

    Raises:
        UsageError: eager PyTorch itself fails on the caller's inputs.
    """
    options = replace(options, fuel=None, fission="never")
    trials: list[Trial] = []

    def attempt(fuel: int | None, sets: Any = None) -> tuple[Verification, list[Compiled]]:
        found, fused = verify(function, args, kwargs, options, name=name, seed=seed, hard=hard, sets=sets, fuel=fuel)
        taken = sum(map(_taken, fused.compiled))
        trials.append(Trial(taken, ok=found.ok))
        if progress is not None:
            progress(min(0.95, len(trials) / 10), f"{taken} fusions: {'right' if found.ok else 'wrong'}")
        return found, fused.compiled

    whole, compiled = attempt(None)
    total = sum(map(_taken, compiled))

    def answer(text: str, culprit: Fusion | None = None, details: Sequence[str] = (), found: bool = True) -> Bisection:
        at = whole.device
        return Bisection(
            whole.target, options.policy, at, "wrong", total, culprit, tuple(trials), text, tuple(details), found
        )

    if whole.ok:
        return answer("Every result is right: there is nothing to find.", found=False)
    failed = {c.inputs for c in whole.failures}
    sets = [s for s in (CALLER, RANDOM, *HARD) if s.name in failed]
    bare, right = attempt(0, sets)
    if not bare.ok:
        difference = next((c.difference for c in bare.failures if c.difference is not None), None)
        written = difference.kernel if difference is not None and difference.kernel else ""
        text = "It is wrong without any fusion too: an op's own kernel is at fault, not a fusion."
        details = [f"The first result that is wrong then is written by {written}."] if written else []
        return answer(text, details=[*details, "`fusewise verify` with FUSEWISE_FUEL=0 shows it."])
    low, high, wrong = 0, total, compiled
    while high - low > 1:
        middle = (low + high) // 2
        found, tried = attempt(middle, sets)
        if found.ok:
            low, right = middle, tried
        else:
            high, wrong = middle, tried
    culprit = describe(right, wrong, high)
    if culprit is None:
        return answer(f"With {high} fusions it is wrong and with {low} right, but the plans do not tell the fusion.")
    return answer(f"Fusion {high} of {total} makes it wrong.", culprit, advice(culprit))


def bisect_slower(
    function: Function,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    *,
    name: str = "",
    progress: Progress | None = None,
) -> Bisection:
    """The first fusion that makes a call (with its backward, where gradients are on) slower than without it.

    One fusion is added after the other; each step is timed in turns with the one before, and a rise is measured twice.

    Raises:
        ProfilerActive: a profiler is attached.
    """
    watched = active_profiler()
    if watched is not None:
        raise ProfilerActive(f"no times are taken: {watched}.", "Detach the profiler.")
    options = replace(options, fuel=None, fission="never")
    calls = Calls(function, tuple(args), dict(kwargs), 0)
    device = calls.device()
    timer = make_timer(device)
    trials: list[Trial] = []
    total = sum(map(_taken, _Limited(calls, options, None).compiled))

    def answer(text: str, culprit: Fusion | None = None, details: Sequence[str] = ()) -> Bisection:
        found = culprit is not None
        target = name or calls.name()
        return Bisection(
            target, options.policy, device, "slower", total, culprit, tuple(trials), text, tuple(details), found
        )

    try:
        before = _Limited(calls, options, 0)
        for number in range(1, total + 1):
            if progress is not None:
                progress(number / (total + 1), f"fusion {number} of {total}")
            after = _Limited(calls, options, number)
            pair = {"before": before.run, "after": after.run}
            times = _medians(timer, pair)
            if number == 1:
                trials.append(Trial(0, time_us=times["before"]))
            trials.append(Trial(number, time_us=times["after"]))
            if times["after"] > SLOWER * times["before"]:
                again = _medians(timer, pair)
                culprit = describe(before.compiled, after.compiled, number)
                if again["after"] > SLOWER * again["before"] and culprit is not None:
                    ratio = again["after"] / again["before"]
                    text = f"Fusion {number} of {total} makes it slower: time(with) / time(without) = {ratio:.2f}."
                    return answer(text, culprit, advice(culprit))
            before = after
    finally:
        calls.restore()
    return answer("No fusion makes it slower.")


def _medians(timer: Any, calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    samples = interleave(timer, calls, _ROUNDS, budget_s=_BUDGET_S)
    return {name: median(values) for name, values in samples.items()}


class _Limited:
    """A function compiled with a limit on its fusions, called once."""

    def __init__(self, calls: Calls, options: Options, fuel: int | None) -> None:
        self.compiled: list[Compiled] = []
        self._options = options
        self._left = fuel
        self._entry = torch.compile(own_entry(calls.function), backend=Backend(options, self._compile))
        self._args, self._kwargs = make_inputs(CALLER, calls.inputs, calls.seed)
        self.run()

    def _compile(self, gm: GraphModule, example_inputs: Sequence[Any], options: Options, *, role: Role) -> Any:
        call = compile_graph(gm, example_inputs, replace(options, fuel=self._left), role=role)
        compiled = trace.last()
        assert compiled is not None
        self.compiled.append(compiled)
        if self._left is not None:
            self._left -= _taken(compiled)
        return call

    def run(self) -> None:
        """One call, and its backward."""
        outputs = self._entry(*self._args, **self._kwargs)
        roots = [t for t in tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.requires_grad]
        if not torch.is_grad_enabled() or not roots:
            return
        given = [t for t in tree_leaves((self._args, self._kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
        torch.autograd.backward(roots, [torch.ones_like(t) for t in roots])
        for leaf in given:
            leaf.grad = None


def _taken(compiled: Compiled) -> int:
    return sum(d.taken for d in compiled.plan.decisions)


def describe(before: Sequence[Compiled], after: Sequence[Compiled], number: int) -> Fusion | None:
    """Fusion `number` of all graphs: `before` was compiled without it, `after` with it as the last one."""
    done = 0
    for without, graph in zip(before, after, strict=True):
        taken = [d for d in graph.plan.decisions if d.taken]
        if number > done + len(taken):
            done += len(taken)
            continue
        decision = taken[number - done - 1]
        first, second = _step_of(without.plan, decision.producer), _step_of(without.plan, decision.consumer)
        fused = _step_of(graph.plan, decision.consumer)
        if first is None or second is None or fused is None:
            return None
        passed = [v for v in second.reads if v in first.nodes] or [v for v in second.reads if v in first.reads]
        origin = graph.plan.graph[passed[0]].origin if passed else None
        return Fusion(
            number=number,
            role=graph.role,
            fuel=number - done,
            kind=decision.kind,
            code=decision.code,
            meaning=REASONS[decision.code],
            bytes_saved=decision.bytes_saved,
            gain_us=decision.gain_us,
            first=_side(without.plan, first),
            second=_side(without.plan, second),
            fused=f"{graph.role}/{_launch_of(graph.plan, fused) if decision.kind == 'launch' else fused.name}",
            value=origin.aten if origin is not None else "",
            line=source_line(origin) if origin is not None and origin.file else None,
        )
    return None


def _step_of(plan: Plan, node: int) -> KernelStep | None:
    return next((s for s in plan.kernels if node in s.nodes), None)


def _launch_of(plan: Plan, step: KernelStep) -> str:
    return next(launch.name for launch in plan.launches if step in launch.steps)


def _side(plan: Plan, step: KernelStep) -> Side:
    return Side(step.name, ops_of(plan.graph, step.nodes), lines_of(plan.graph[n].origin for n in step.nodes))


def advice(fusion: Fusion) -> tuple[str, ...]:
    """How to do without a fusion."""
    by_hand = f"FUSEWISE_FUEL={fusion.fuel - 1} takes only the fusions before it (the limit holds for each graph)."
    if fusion.kind == "launch":
        return ("", by_hand)
    place = "the value between the two"
    if fusion.line is not None:
        what = fusion.value.split(".")[1] if "." in fusion.value else fusion.value
        place = f"what {what} gives in line {fusion.line.line} of {fusion.line.file}"
    return (
        "",
        f"To forbid it, put `fusewise.barrier(...)` around {place}.",
        f"By hand: {by_hand}",
    )
