"""Runs programs compiled and in eager, compares, and shrinks what differs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fusewise.backend import backend_for
from fusewise.config import make_options
from fusewise.proof.compare import compare as judge
from tests.fuzz.programs import Program, smaller

STRICT = backend_for(make_options(strict=True, check=True))
TOLERANCE = 16  # epsilons beside 1.5 times eager's own error
LEAST_SCALE = 0.05  # differences of near zero values are measured against this

_TORCH_REFUSES = "a tensor being mutated that has internal overlap"  # no backend is asked

_ZEROS = "signs of zeros"
_PICKS = ("amax", "amin", ".max(", "maximum", "minimum", "clamp")

Function = Callable[..., tuple[torch.Tensor, ...]]


@dataclass(frozen=True, slots=True)
class Result:
    """What one run gave: outputs, gradients, the inputs afterwards, and which of all these share memory."""

    outputs: list[torch.Tensor]
    grads: list[torch.Tensor | None]
    inputs: list[torch.Tensor]
    shared: set[tuple[int, int]]
    raised: str = ""


def sizes_of(program: Program) -> list[dict[str, int]]:
    """Sizes to run it with, one after the other."""
    return [{"n": 6}, {"n": 9}, {"n": 4}] if program.dynamic else [{}]


def run(program: Program, fn: Function, draw: int, sizes: dict[str, int], double: bool = False) -> Result:
    """One call, and its backward where some input wants a gradient."""
    arguments = []
    for value, kind in zip(program.arguments(draw, sizes), program.inputs, strict=True):
        if double and value.is_floating_point():
            value = value.double()
        # a leaf of eager's layout, whatever view made it
        arguments.append(value.detach().requires_grad_(kind.grad))
    inputs = list(arguments)
    try:
        outputs = list(fn(*arguments))
        roots = [o for o in outputs if o.requires_grad]
        if roots:
            weights = [
                torch.cos(torch.arange(o.numel(), dtype=torch.float64)).reshape(o.shape).to(o.dtype) for o in roots
            ]
            torch.autograd.backward(roots, weights)
    except (IndexError, RuntimeError) as problem:
        return Result([], [], [], set(), f"{type(problem).__name__}: {str(problem)[:200]}")
    everything = [*outputs, *inputs]
    shared = {
        (i, j)
        for i, a in enumerate(everything)
        for j, b in enumerate(everything)
        if i < j and a.numel() and b.numel() and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    }
    return Result([o.detach() for o in outputs], [a.grad for a in arguments], [a.detach() for a in arguments], shared)


def difference(program: Program, fn: Function, eager: Function, draw: int, sizes: dict[str, int]) -> str:
    """What the compiled `fn` does differently from eager; empty where nothing."""
    want = run(program, eager, draw, sizes)
    got = run(program, fn, draw, sizes)
    if want.raised and not got.raised:
        # an op whose result nobody reads is not run by any compiler: what torch's own tracing keeps is the judge
        torch._dynamo.reset()
        want = run(program, torch.compile(eager, backend="aot_eager", dynamic=program.dynamic), draw, sizes)
    if want.raised or got.raised:
        same = want.raised.partition(":")[0] == got.raised.partition(":")[0]
        return "" if same or _TORCH_REFUSES in got.raised else f"raised {got.raised!r}, eager {want.raised!r}"
    if got.shared != want.shared:
        return f"values that share memory: {sorted(got.shared)}, eager {sorted(want.shared)}"
    try:
        reference = run(program, eager, draw, sizes, double=True)
    except Exception:  # a program that fixes dtypes (matmul of mixed ones) has no fp64 form
        reference = None
    if reference is not None and reference.raised:
        reference = None
    for position, (o, e) in enumerate(zip(got.outputs, want.outputs, strict=True)):
        z = reference.outputs[position] if reference is not None else None
        text = _compare(o, e, z, program.exact[position], program.coarse[position], program.hard)
        if text.endswith(_ZEROS) and any(name in program.describe(0, {}) for name in _PICKS):
            text = ""  # which of -0 and 0 is the greatest depends on the order, in eager too
        if text.startswith("strides") and _steps(e) != _traced_steps(program, eager, draw, sizes, position):
            text = ""  # torch's own fake tensors have other strides than eager's, as after logsigmoid: none can know
        if text:
            return f"output {position}: {text}"
    coarse = max([torch.finfo(i.dtype).eps for i in program.inputs if i.dtype.is_floating_point], default=0.0)
    coarse = max([coarse, *program.coarse])
    for position, (o, e) in enumerate(zip(got.inputs, want.inputs, strict=True)):
        if not _same_bits(o, e) and (not o.is_floating_point() or _gap(o, e) > 64 * coarse):
            return f"input {position} afterwards differs"
    for position, (g, w) in enumerate(zip(got.grads, want.grads, strict=True)):
        if (g is None) != (w is None):
            return f"gradient {position} is {'missing' if g is None else 'there'}, unlike eager's"
        if g is not None and w is not None:
            z = reference.grads[position] if reference is not None else None
            text = _compare(g, w, z, False, coarse, False)
            if text:
                return f"gradient {position}: {text}"
    return ""


def _traced_steps(
    program: Program, eager: Function, draw: int, sizes: dict[str, int], position: int
) -> list[int] | None:
    """Strides of an output as torch's tracing has them; None where it cannot run the program."""
    try:
        with FakeTensorMode() as mode:
            return _steps(list(eager(*map(mode.from_tensor, program.arguments(draw, sizes))))[position])
    except Exception:
        return None


def _compare(
    got: torch.Tensor, want: torch.Tensor, exact: torch.Tensor | None, to_the_bit: bool, coarse: float, hard: bool
) -> str:
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, eager {want.dtype}{list(want.shape)}"
    if got.numel() and _steps(got) != _steps(want):
        return f"strides {got.stride()}, eager {want.stride()}"
    if got.requires_grad != want.requires_grad:
        return f"requires_grad {got.requires_grad}"
    if not got.is_floating_point() or to_the_bit:
        if _same_bits(got, want):
            return ""
        wrong = (got != want) & ~(got.isnan() & want.isnan()) if got.is_floating_point() else got != want
        first = [int(i[0]) for i in wrong.nonzero(as_tuple=True)] if wrong.any() else _ZEROS
        return f"{int(wrong.sum())} of {got.numel()} differ, first at {first}"
    # where eager alone overflows, as its gelu does of 3e38, nothing is asked
    asked = torch.ones_like(want, dtype=torch.bool)
    if exact is not None and exact.shape == got.shape:
        asked = want.isfinite() | exact.isnan() | (exact.isinf() & want.isinf())
    if not torch.equal(got.isnan() & asked, want.isnan() & asked):
        return "NaN at other places"
    fine = want.isfinite()
    infinite = want.isinf() & asked
    if not torch.equal(got[infinite], want[infinite]):
        return "infinities differ"
    a, b = got[fine].double(), want[fine].double()
    if not a.numel():
        return ""
    eps = max(coarse, torch.finfo(got.dtype).eps)
    if hard:
        worst = float(((a - b).abs() / b.abs().clamp_min(1e-30)).max())
        if worst <= 64 * eps:
            return ""
        # eager may be further off than we are, as gelu's tail is
        known = exact is not None and exact.shape == got.shape and got.dtype != torch.float64
        if known and exact is not None and judge(got, want, exact.double(), exact=False).ok:
            return ""
        return f"relative difference {worst:.1e}"
    if exact is None or exact.shape != got.shape or not exact[fine].double().isfinite().all():
        worst = _gap(a, b)
        return f"relative difference {worst:.1e}" if worst > 64 * eps else ""
    z = exact[fine].double()
    own, theirs = _gap(a, z), _gap(b, z)
    # where fp64 goes another way (a jump at a rounded value) eager's own error says nothing
    if own > 1.5 * theirs + TOLERANCE * eps and _gap(a, b) > TOLERANCE * eps:
        return f"error {own:.1e} against fp64, eager's {theirs:.1e}"
    return ""


def _steps(tensor: torch.Tensor) -> list[int]:
    """Strides that count: where a dim has size 1, torch's own tracing gives other ones than eager."""
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not a.is_floating_point():
        return torch.equal(a, b)
    nan = a.isnan() & b.isnan()
    return bool((nan | ((a == b) & (a.signbit() == b.signbit()))).all())


def _gap(a: torch.Tensor, b: torch.Tensor) -> float:
    a, b = a.double(), b.double()
    if not a.numel():
        return 0.0
    scale = float(b[b.isfinite()].abs().max()) if b.isfinite().any() else 0.0
    return float((a - b).nan_to_num().abs().max()) / max(scale, LEAST_SCALE)


# ---- many programs


def compile_together(programs: Sequence[Program]) -> list[Function]:
    """Each program compiled by itself, in one Dynamo frame each."""
    return [torch.compile(p.function(f"fn{i}"), backend=STRICT, dynamic=p.dynamic) for i, p in enumerate(programs)]


def problem_of(program: Program, seed: int = 0) -> str:
    """What is wrong with one program, compiled afresh; a difference counts where three draws show it."""
    torch._dynamo.reset()
    eager = program.function()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fn: Function = torch.compile(program.function(), backend=STRICT, dynamic=program.dynamic)
            for sizes in sizes_of(program):
                found = ""
                for draw in range(3):
                    try:
                        taken = not run(program, eager, seed + draw, sizes).raised.startswith("RuntimeError")
                    except Exception:
                        taken = False
                    if not taken:
                        found = ""
                        break  # these sizes are none that eager takes
                    found = difference(program, fn, eager, seed + draw, sizes)
                    if not found:
                        break
                if found and not _is_torchs(program, eager, seed, sizes):
                    return found
    except Exception as problem:
        return f"raised {_root(problem)}"
    return ""


def _is_torchs(program: Program, eager: Function, seed: int, sizes: dict[str, int]) -> bool:
    """True where torch's own tracing, with eager's kernels behind it, differs from eager as well."""
    torch._dynamo.reset()
    traced: Function = torch.compile(program.function(), backend="aot_eager", dynamic=program.dynamic)
    return bool(difference(program, traced, eager, seed, sizes))


def _root(problem: BaseException) -> str:
    inner: Any = getattr(problem, "inner_exception", None) or problem
    return f"{type(inner).__name__}: {str(inner)[:300]}"


def shrink(program: Program, problem: str, limit: int = 200) -> Program:
    """A smaller program with a problem of the same kind."""
    kind = problem.split(":")[0][:30]
    tries = 0
    while tries < limit:
        for candidate in smaller(program):
            tries += 1
            if _runs(candidate) and problem_of(candidate).split(":")[0][:30] == kind:
                program = candidate
                break
            if tries >= limit:
                break
        else:
            break
    return program


def _runs(program: Program) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(program, program.function(), 0, sizes_of(program)[0])
    except Exception:
        return False
    return True
