"""Comparison inside a bench run: a contender's outputs and gradients against eager's and against fp64.

The error may be at most 1.5 times eager's own plus a few units in the last place. A dropout mask is recovered first,
and eager then runs with that mask: the kept share is compared with 1 - p, and the rest as for any program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fusewise.measure.contenders import Contender, own_entry
from fusewise.measure.program import Function, Program
from fusewise.measure.workload import Workload, prepare

SEED = 20
OTHER_SEED = 21

ERROR_RATIO = 1.5
# Beside the ratio: an element may be off by this many epsilons of its own size, the whole by this many in the
# root-mean-square. Rounding alone gives at most 0.5 and about 0.3.
ELEMENT_EPSILONS = 2.0
RMS_EPSILONS = 0.25
# A share of n draws lies within this many standard deviations but for one time in 1.7 million.
SHARE_DEVIATIONS = 5.0


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of a comparison.

    Attributes:
        compared: the outputs were compared in this run.
        equal: they agree within the tolerance.
        note: how it was compared, or what differs first, or why nothing was compared.
    """

    compared: bool
    equal: bool
    note: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How one result compares with eager's.

    Attributes:
        problem: what differs by more than the tolerance, in words; None for nothing.
        ratio: error against fp64 / eager's own, both as root-mean-square; 0 where eager's is 0.
    """

    problem: str | None
    ratio: float = 0.0


def verify_contender(program: Program, workload: Workload, contender: Contender, entry: Function) -> Verification:
    """Compare a compiled contender with eager on this workload.

    Args:
        entry: what the contender made of the workload's function, as it was timed.
    """
    if "random" not in program.tags:
        return _compare(workload, workload.results(entry, SEED))
    repeated = _check_seeds(workload, entry)
    if repeated is not None:
        return repeated
    if program.probe is not None:
        return _compare_with_recovered_mask(program, workload, entry)
    # The mask cannot be seen from outside: compare what the program computes without it.
    case = replace(workload.case, dropout=0.0)
    plain = prepare(program, case)
    found = _compare(plain, plain.results(contender.compile(own_entry(plain.function)), SEED))
    return replace(found, note=f"{found.note}; without dropout, and repeatable under a seed with it")


def _check_seeds(workload: Workload, entry: Function) -> Verification | None:
    """None if equal seeds give equal results and other seeds others."""
    first, again, other = (workload.results(entry, seed) for seed in (SEED, SEED, OTHER_SEED))
    if not all(torch.equal(a, b) for a, b in zip(first, again, strict=True)):
        return Verification(True, False, "two calls under one seed differ")
    if all(torch.equal(a, b) for a, b in zip(first, other, strict=True)):
        return Verification(True, False, "calls under two seeds draw the same mask")
    return None


def _compare_with_recovered_mask(program: Program, workload: Workload, entry: Function) -> Verification:
    assert program.probe is not None
    torch.manual_seed(SEED)
    with torch.set_grad_enabled(workload.case.train):
        kept = program.probe.kept(entry(*program.probe.inputs(workload.args))).detach()
    expected = 1.0 - workload.case.dropout
    share = float(kept.double().mean())
    deviation = math.sqrt(expected * (1.0 - expected) / kept.numel())
    if abs(share - expected) > SHARE_DEVIATIONS * deviation:
        return Verification(True, False, f"dropout kept {share:.5f} of the elements instead of {expected:.5f}")
    found = _compare(workload, workload.results(entry, SEED), kept)
    return replace(found, note=f"{found.note}; with the mask that it drew, which kept {share:.5f}")


class _Reference(TorchFunctionMode):
    """Runs a plain program with a given dropout mask, and in fp64 where `wide`: casts to fp32 then stay in fp64."""

    def __init__(self, kept: torch.Tensor | None, wide: bool) -> None:
        super().__init__()
        self._kept = kept
        self._wide = wide

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.dropout and self._kept is not None:
            p = args[1] if len(args) > 1 else kwargs["p"]
            return torch.where(self._kept, args[0], 0.0) / (1.0 - p)
        if func is torch.Tensor.float and self._wide:
            return args[0].double()
        return func(*args, **kwargs)


def _compare(workload: Workload, found: Sequence[torch.Tensor], kept: torch.Tensor | None = None) -> Verification:
    with _Reference(kept, wide=False):
        eager = workload.results(workload.function, SEED)
    wide = workload.in_fp64()
    with _Reference(kept, wide=True):
        exact = wide.results(wide.function, SEED)
    if len(found) != len(eager):
        return Verification(True, False, f"{len(found)} results differ in number from eager's {len(eager)}")
    worst = 0.0
    for i, (ours, theirs, reference) in enumerate(zip(found, eager, exact, strict=True)):
        agreement = compare(ours, theirs, reference)
        if agreement.problem is not None:
            return Verification(True, False, f"result {i} of {len(found)}: {agreement.problem}")
        worst = max(worst, agreement.ratio)
    return Verification(True, True, f"{len(found)} results against eager and fp64, worst error {worst:.2f} of eager's")


def compare(ours: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor) -> Agreement:
    """Compare a result with eager's and with the same in fp64."""
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        return Agreement(f"{ours.dtype} {tuple(ours.shape)} differs from eager's {eager.dtype} {tuple(eager.shape)}")
    if not ours.is_floating_point():
        return Agreement(None if torch.equal(ours, eager) else "integers differ")
    if not ours.numel():
        return Agreement(None)
    special = ~(reference.isfinite() & eager.isfinite())
    if not _same_special(ours, eager, special):
        return Agreement("NaN or infinity where eager has none, or the other way round")
    size = reference.abs().masked_fill_(special, 0.0)
    own, other = ((t.double() - reference).abs_().masked_fill_(special, 0.0) for t in (ours, eager))
    epsilon = torch.finfo(ours.dtype).eps
    norm, own_norm, other_norm = (float(t.norm()) for t in (size, own, other))
    ratio = own_norm / other_norm if other_norm else 0.0
    if own_norm > ERROR_RATIO * other_norm + RMS_EPSILONS * epsilon * norm:
        return Agreement(f"error {own_norm / norm:.3g} against eager's {other_norm / norm:.3g}", ratio)
    excess = own - size.mul_(ELEMENT_EPSILONS * epsilon)
    if float(excess.max()) <= ERROR_RATIO * float(other.max()):
        return Agreement(None, ratio)
    place = tuple(int(i) for i in torch.unravel_index(excess.argmax(), excess.shape))
    values = f"{float(ours[place]):.6g}, eager {float(eager[place]):.6g}, fp64 {float(reference[place]):.9g}"
    return Agreement(f"at {place}: {values}", ratio)


def _same_special(ours: torch.Tensor, eager: torch.Tensor, special: torch.Tensor) -> bool:
    """True if where eager or fp64 has no number, ours is what eager's is, and a number everywhere else."""
    if not bool((ours.isfinite() | special).all()):
        return False
    chosen, theirs = ours[special], eager[special]
    return bool(((chosen == theirs) | (chosen.isnan() & theirs.isnan())).all())
