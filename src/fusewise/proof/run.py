"""The proof: a function as Fusewise runs it, on several sets of inputs, against eager PyTorch and fp64."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from fusewise.backend import Backend
from fusewise.config import Options
from fusewise.errors import UsageError
from fusewise.proof.calls import Calls, Function, Result, first_line, own_entry
from fusewise.proof.compare import Outcome, compare
from fusewise.proof.fused import Fused
from fusewise.proof.inputs import CALLER, HARD, RANDOM, InputSet
from fusewise.proof.reference import Reference
from fusewise.report.documents import Difference, ResultCheck, Verification


class Progress(Protocol):
    """Told how far the proof is."""

    def __call__(self, share: float, text: str) -> None:
        """Show it."""
        ...


def verify(
    function: Function,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    *,
    name: str = "",
    seed: int = 0,
    hard: bool = True,
    sets: Sequence[InputSet] | None = None,
    fuel: int | None = None,
    progress: Progress | None = None,
) -> tuple[Verification, Fused]:
    """Compares what Fusewise makes of a function with eager PyTorch and with fp64.

    Outputs, arguments that the call changes, and, where gradients are on, the gradients of arguments and parameters
    that ask for one, under fixed random gradients of the outputs.

    Args:
        seed: of the inputs and of random ops.
        hard: also use hard inputs, not only the caller's and random ones.
        sets: these sets of inputs instead.
        fuel: the greatest number of fusions taken in all graphs together, in the order of their compiles.

    Returns:
        The verification, and the compiled graphs that it is about.

    Raises:
        UsageError: eager PyTorch itself fails on the caller's inputs.
    """
    calls = Calls(function, tuple(args), dict(kwargs), seed)
    chosen = sets if sets is not None else sets_for(calls, hard)
    return _Proof(calls, options, fuel).run(name, chosen, progress or (lambda s, t: None))


def sets_for(calls: Calls, hard: bool) -> list[InputSet]:
    """The caller's inputs, and random and hard ones where they may stand in their place."""
    return [CALLER, RANDOM, *(HARD if hard else ())] if calls.suits_other_inputs() else [CALLER]


class _Proof:
    def __init__(self, calls: Calls, options: Options, fuel: int | None) -> None:
        function = calls.function
        self.calls = calls
        self.options = options
        self.fused = Fused(fuel)
        self.reference = Reference()
        self.fused_entry = torch.compile(own_entry(function), backend=Backend(options, self.fused))
        self.reference_entry = torch.compile(own_entry(function), backend=Backend(options, self.reference))
        self.notes: list[str] = []

    def run(self, name: str, sets: Sequence[InputSet], progress: Progress) -> tuple[Verification, Fused]:
        try:
            return self._run(name, sets, progress)
        finally:
            self.calls.restore()

    def _run(self, name: str, sets: Sequence[InputSet], progress: Progress) -> tuple[Verification, Fused]:
        checks: list[ResultCheck] = []
        for number, chosen in enumerate(sets):
            progress(number / len(sets), f"{chosen.name} inputs")
            checks += self._check(chosen)
        progress(1.0, "done")
        if self.reference.random:
            self.notes.append(
                "It draws random numbers, and Fusewise draws others than eager does: `eager` is here PyTorch's own ops"
                " on the captured graphs, with the numbers that Fusewise draws."
            )
        if self.reference.foreign_random:
            self.notes.append("A graph holds random ops that stay PyTorch's: no fp64 result is known there.")
        if self.fused.unpoisoned:
            self.notes.append(f"The memory of {self.fused.unpoisoned} graphs could not be poisoned.")
        verification = Verification(
            target=name or self.calls.name(),
            policy=self.options.policy,
            device=self.calls.device(),
            checks=tuple(checks),
            notes=tuple(self.notes),
            kernels=sum(len(c.plan.kernels) for c in self.fused.compiled),
            eager_graphs=tuple(dict.fromkeys(self.fused.eager)),
            seed=self.calls.seed,
        )
        return verification, self.fused

    def _check(self, chosen: InputSet) -> list[ResultCheck]:
        try:
            eager = self.calls(self.calls.function, chosen)
        except (Exception, SystemExit) as cause:
            if chosen is CALLER:
                raise UsageError(f"eager PyTorch fails on these inputs: {first_line(cause)}") from cause
            self.notes.append(f"Eager PyTorch fails on {chosen.name} inputs: {first_line(cause)}")
            return []
        self.reference.shadows.clear()
        referenced = self.calls(self.reference_entry, chosen)
        if self.reference.random:
            eager = referenced
        wide = [self._wide(r.value) for r in referenced]
        try:
            fused = self.calls(self.fused_entry, chosen)
        except Exception as cause:
            return [_failed(chosen, "the call", f"raises {first_line(cause)}, and eager does not")]
        if len(fused) != len(eager):
            return [_failed(chosen, "the call", f"gives {len(fused)} results, and eager {len(eager)}")]
        exact = self.options.policy == "conservative"
        checks = [
            self._compare(chosen, ours, own, known, exact) for ours, own, known in zip(fused, eager, wide, strict=True)
        ]
        if chosen is CALLER:
            checks.append(self._repeat(chosen, fused))
        if self.fused.overruns:
            self.fused.overruns = False
            checks.append(_failed(chosen, "memory", "a kernel wrote behind the end of its result"))
        return checks

    def _repeat(self, chosen: InputSet, first: Sequence[Result]) -> ResultCheck:
        """A second call must give the bits of the first."""
        second = self.calls(self.fused_entry, chosen)
        rule = "two calls must give the same bits"
        for a, b in zip(first, second, strict=True):
            if isinstance(a.value, torch.Tensor) and not compare(b.value, a.value, None, exact=True).ok:
                return _failed(chosen, f"{a.name}, second call", rule)
        return ResultCheck(chosen.name, "a second call", "", (), True, None, None, None, True, rule)

    def _wide(self, value: Any) -> torch.Tensor | None:
        return self.reference.shadows.get_copied(value) if isinstance(value, torch.Tensor) else None

    def _compare(
        self, chosen: InputSet, fused: Result, eager: Result, fp64: torch.Tensor | None, exact: bool
    ) -> ResultCheck:
        if not isinstance(fused.value, torch.Tensor) or not isinstance(eager.value, torch.Tensor):
            same = _same_object(fused.value, eager.value)
            rule = "must be equal" if same else f"is {fused.value!r}, and eager gives {eager.value!r}"
            kind = type(eager.value).__name__
            return ResultCheck(chosen.name, fused.name, kind, (), same, None, None, None, same, rule)
        found = compare(fused.value, eager.value, fp64, exact)
        found = self._with_strides(found, fused, eager)
        return ResultCheck(
            inputs=chosen.name,
            name=fused.name,
            dtype=str(fused.value.dtype).removeprefix("torch."),
            shape=tuple(fused.value.shape),
            bit_equal=found.bit_equal,
            max_ulp=found.max_ulp,
            error=found.error,
            eager_error=found.eager_error,
            ok=found.ok,
            rule=found.rule,
            difference=None if found.ok else self._difference(chosen, found, fused.value, eager.value, fp64),
        )

    @staticmethod
    def _with_strides(found: Outcome, fused: Result, eager: Result) -> Outcome:
        """An output that does not lie in memory as eager's is wrong too."""
        ours, theirs = fused.value.stride(), eager.value.stride()
        sizes = eager.value.shape
        differ = any(a != b for n, a, b in zip(sizes, ours, theirs, strict=True) if n > 1) and eager.value.numel()
        if not found.ok or not differ or not fused.name.startswith("output"):
            return found
        rule = f"has strides {ours}, and eager's has {theirs}"
        return Outcome(found.bit_equal, found.max_ulp, found.error, found.eager_error, False, rule)

    def _difference(
        self, chosen: InputSet, found: Outcome, fused: torch.Tensor, eager: torch.Tensor, fp64: torch.Tensor | None
    ) -> Difference | None:
        wrong = self.fused.find_wrong(lambda: self.calls(self.fused_entry, chosen))
        kernel = f"{wrong.role}/{wrong.kernel}" if wrong else ""
        if found.first is None:
            return None
        wide = _text(fp64, found.first) if fp64 is not None else "unknown"
        return Difference(found.first, _text(fused, found.first), _text(eager, found.first), wide, kernel)


def _same_object(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)


def _failed(chosen: InputSet, name: str, rule: str) -> ResultCheck:
    return ResultCheck(chosen.name, name, "", (), False, None, None, None, False, rule)


def _text(tensor: torch.Tensor, index: tuple[int, ...]) -> str:
    value = tensor.detach()[index].item()
    return f"{value:.9g}" if isinstance(value, float) else str(value)
