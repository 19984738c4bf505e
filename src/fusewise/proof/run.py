"""The proof: a function as Fusewise runs it, on several sets of inputs, against eager PyTorch and fp64."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import FunctionType
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from fusewise.backend import Backend
from fusewise.config import Options
from fusewise.errors import UsageError
from fusewise.proof.compare import Outcome, compare
from fusewise.proof.fused import Fused
from fusewise.proof.inputs import CALLER, HARD, RANDOM, InputSet, make_inputs
from fusewise.proof.reference import Reference
from fusewise.report.documents import Difference, ResultCheck, Verification

Function = Callable[..., Any]


class Progress(Protocol):
    """Told how far the proof is."""

    def __call__(self, share: float, text: str) -> None:
        """Show it."""
        ...


@dataclass(frozen=True, slots=True)
class _Result:
    """One thing that a call gives: an output, an argument as the call leaves it, or a gradient."""

    name: str
    value: Any


def verify(
    function: Function,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    *,
    name: str = "",
    seed: int = 0,
    hard: bool = True,
    progress: Progress | None = None,
) -> tuple[Verification, Fused]:
    """Compares what Fusewise makes of a function with eager PyTorch and with fp64.

    Outputs, arguments that the call changes, and, where gradients are on, the gradients of arguments and parameters
    that ask for one, under fixed random gradients of the outputs.

    Args:
        seed: of the inputs and of random ops.
        hard: also use hard inputs, not only the caller's and random ones.

    Returns:
        The verification, and the compiled graphs that it is about.

    Raises:
        UsageError: eager PyTorch itself fails on the caller's inputs.
    """
    return _Proof(function, tuple(args), dict(kwargs), options, seed).run(name, hard, progress or (lambda s, t: None))


class _Proof:
    def __init__(
        self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options, seed: int
    ) -> None:
        self.function = function
        self.inputs = (args, kwargs)
        self.options = options
        self.seed = seed
        self.fused = Fused()
        self.reference = Reference()
        self.fused_entry = torch.compile(own_entry(function), backend=Backend(options, self.fused))
        self.reference_entry = torch.compile(own_entry(function), backend=Backend(options, self.reference))
        self.state = _State(function)
        self.notes: list[str] = []
        self._last_inputs: list[torch.Tensor] = []
        self._held: dict[int, torch.Tensor] = {}

    def run(self, name: str, hard: bool, progress: Progress) -> tuple[Verification, Fused]:
        try:
            return self._run(name, hard, progress)
        finally:
            self.state.restore()

    def _run(self, name: str, hard: bool, progress: Progress) -> tuple[Verification, Fused]:
        sets = [CALLER, RANDOM, *(HARD if hard else ())]
        if not any(t.is_floating_point() for t in _tensors(self.inputs)):
            sets = [CALLER]
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
        device = next((str(t.device) for t in _tensors(self.inputs)), "cpu")
        verification = Verification(
            target=name or getattr(self.function, "__name__", type(self.function).__name__),
            policy=self.options.policy,
            device=device,
            checks=tuple(checks),
            notes=tuple(self.notes),
            kernels=sum(len(c.plan.kernels) for c in self.fused.compiled),
            eager_graphs=tuple(dict.fromkeys(self.fused.eager)),
            seed=self.seed,
        )
        return verification, self.fused

    def _check(self, chosen: InputSet) -> list[ResultCheck]:
        try:
            eager = self._call(self.function, chosen)
        except Exception as cause:
            if chosen is CALLER:
                raise UsageError(f"eager PyTorch fails on these inputs: {_first_line(cause)}") from cause
            self.notes.append(f"Eager PyTorch fails on {chosen.name} inputs: {_first_line(cause)}")
            return []
        self.reference.shadows.clear()
        referenced = self._call(self.reference_entry, chosen)
        if self.reference.random:
            eager = referenced
        wide = [self._wide(r.value) for r in referenced]
        try:
            fused = self._call(self.fused_entry, chosen)
        except Exception as cause:
            return [_failed(chosen, "the call", f"raises {_first_line(cause)}, and eager does not")]
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

    def _repeat(self, chosen: InputSet, first: Sequence[_Result]) -> ResultCheck:
        """A second call must give the bits of the first."""
        second = self._call(self.fused_entry, chosen)
        rule = "two calls must give the same bits"
        for a, b in zip(first, second, strict=True):
            if isinstance(a.value, torch.Tensor) and not compare(b.value, a.value, None, exact=True).ok:
                return _failed(chosen, f"{a.name}, second call", rule)
        return ResultCheck(chosen.name, "a second call", "", (), True, None, None, None, True, rule)

    def _wide(self, value: Any) -> torch.Tensor | None:
        return self.reference.shadows.get_copied(value) if isinstance(value, torch.Tensor) else None

    def _call(self, entry: Function, chosen: InputSet) -> list[_Result]:
        """Everything that one call gives, on fresh inputs under the seed."""
        self.state.restore()
        args, kwargs = make_inputs(chosen, self.inputs, self.seed)
        before = [(t, t._version) for t in _tensors((args, kwargs))]
        torch.manual_seed(self.seed)
        outputs = entry(*args, **kwargs)
        results = [_Result(n, v) for n, v in _named("output", outputs)]
        names = dict(self._argument_names(args, kwargs))
        changed = {id(t): t for t, version in before if t._version != version}
        # a copy: the backward below may need what was there, and a later call must not change it
        results += [_Result(f"{names[key]} after the call", t.detach().clone()) for key, t in changed.items()]
        if torch.is_grad_enabled():
            results += self._gradients(outputs, names)
        return results

    def _gradients(self, outputs: Any, names: Mapping[int, str]) -> list[_Result]:
        sources = [t for t in _tensors(outputs) if t.requires_grad and t.is_floating_point()]
        leaves = self._leaves(sources, names) if sources else {}
        if not leaves:
            return []
        generators = {t.device: torch.Generator(t.device).manual_seed(self.seed + 1) for t in sources}
        given = [torch.empty_like(t).normal_(generator=generators[t.device]) for t in sources]
        found = torch.autograd.grad(sources, list(leaves.values()), given, allow_unused=True)
        return [
            _Result(f"gradient of {name}", gradient)
            for name, gradient in zip(leaves, found, strict=True)
            if gradient is not None
        ]

    def _leaves(self, sources: Sequence[torch.Tensor], names: Mapping[int, str]) -> dict[str, torch.Tensor]:
        """What gradients are compared of: arguments, parameters, and tensors that the function holds otherwise."""
        found = {names[id(t)]: t for t in self._last_inputs if t.requires_grad and t.is_leaf}
        if isinstance(self.function, nn.Module):
            found |= {n: p for n, p in self.function.named_parameters() if p.requires_grad}
        known = {id(t) for t in found.values()}
        for leaf in _leaves_behind(sources):
            if id(leaf) not in known:
                self._held.setdefault(id(leaf), leaf)
        found |= {f"held tensor {number}": leaf for number, leaf in enumerate(self._held.values())}
        return found

    def _argument_names(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[int, str]]:
        """(id, name) of each tensor among the arguments; also notes the tensors."""
        try:
            signature = inspect.signature(getattr(self.function, "forward", self.function))
            bound = signature.bind(*args, **kwargs).arguments
        except (TypeError, ValueError):
            bound = {**{f"argument {i}": a for i, a in enumerate(args)}, **kwargs}
        found = [(t, n) for name, value in bound.items() for n, t in _named(name, value) if isinstance(t, torch.Tensor)]
        self._last_inputs = list({id(t): t for t, _ in found}.values())
        return [(id(t), n) for t, n in reversed(found)]  # of two names the first stays

    def _compare(
        self, chosen: InputSet, fused: _Result, eager: _Result, fp64: torch.Tensor | None, exact: bool
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
    def _with_strides(found: Outcome, fused: _Result, eager: _Result) -> Outcome:
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
        wrong = self.fused.find_wrong(lambda: self._call(self.fused_entry, chosen))
        kernel = f"{wrong.role}/{wrong.kernel}" if wrong else ""
        if found.first is None:
            return None
        wide = _text(fp64, found.first) if fp64 is not None else "unknown"
        return Difference(found.first, _text(fused, found.first), _text(eager, found.first), wide, kernel)


class _State:
    """Buffers and parameters of a module, put back before each call."""

    def __init__(self, function: Function) -> None:
        self.module = function if isinstance(function, nn.Module) else None
        tensors = [] if self.module is None else [*self.module.parameters(), *self.module.buffers()]
        self.saved = [(t, t.detach().clone()) for t in tensors]

    def restore(self) -> None:
        with torch.no_grad():
            for tensor, value in self.saved:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)


def own_entry(function: Function) -> Function:
    """A function that calls `function` and has code of its own, under a name of its own.

    Dynamo keeps what it compiled with the code, and takes sizes that differ between two codes of one name and place
    for one size that varies.
    """

    def entry(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    code = entry.__code__.replace(co_name=f"entry_{next(_numbers)}")
    return FunctionType(code, entry.__globals__, code.co_name, None, entry.__closure__)


_numbers = count()


def _leaves_behind(sources: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves that autograd reaches from some tensors."""
    found: dict[int, torch.Tensor] = {}
    seen: set[Any] = set()
    stack: list[Any] = [t.grad_fn for t in sources]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found[id(leaf)] = leaf
        stack.extend(before for before, _ in node.next_functions)
    return list(found.values())


def _named(name: str, value: Any) -> list[tuple[str, Any]]:
    """The leaves of a structure with names: `output`, or `output 0`, `output 1` where there are several."""
    leaves = tree_leaves(value)
    if len(leaves) == 1:
        return [(name, leaves[0])]
    return [(f"{name} {i}", leaf) for i, leaf in enumerate(leaves)]


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _same_object(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)


def _failed(chosen: InputSet, name: str, rule: str) -> ResultCheck:
    return ResultCheck(chosen.name, name, "", (), False, None, None, None, False, rule)


def _text(tensor: torch.Tensor, index: tuple[int, ...]) -> str:
    value = tensor.detach()[index].item()
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _first_line(cause: BaseException) -> str:
    text = str(cause).strip().partition("\n")[0]
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__
