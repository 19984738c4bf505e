"""Calls of a function under proof: fresh inputs, the same seed, and everything that one call gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from fusewise.proof.compare import same_bits
from fusewise.proof.inputs import InputSet, make_inputs

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Result:
    """One thing that a call gives: an output, an argument as the call leaves it, or a gradient."""

    name: str
    value: Any


class Calls:
    """Calls a function and what was compiled of it.

    Args:
        args, kwargs: the caller's inputs, which sets of inputs are made like.
        seed: of the inputs and of random ops.
    """

    def __init__(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], seed: int) -> None:
        self.function = function
        self.inputs = (args, kwargs)
        self.seed = seed
        self.state = _State(function)
        self._last_inputs: list[torch.Tensor] = []
        self._held: dict[int, torch.Tensor] = {}

    def suits_other_inputs(self) -> bool:
        """True where other floating-point numbers can stand in the place of the caller's."""
        return any(t.is_floating_point() for t in tensors_of(self.inputs))

    def device(self) -> str:
        """The device of the first tensor among the inputs."""
        return next((str(t.device) for t in tensors_of(self.inputs)), "cpu")

    def name(self) -> str:
        """What the function is called."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def restore(self) -> None:
        """Puts buffers and parameters of a module back."""
        self.state.restore()

    def __call__(self, entry: Function, chosen: InputSet) -> list[Result]:
        """Everything that one call gives, on fresh inputs under the seed."""
        self.state.restore()
        args, kwargs = make_inputs(chosen, self.inputs, self.seed)
        before = [(t, t.detach().clone(), t._version) for t in tensors_of((args, kwargs))]
        torch.manual_seed(self.seed)
        outputs = entry(*args, **kwargs)
        results = [Result(n, v) for n, v in _named("output", outputs)]
        names = dict(self._argument_names(args, kwargs))
        changed = {id(t): t for t, old, version in before if _is_changed(t.detach(), old, version)}
        # a copy: the backward below may need what was there, and a later call must not change it
        results += [Result(f"{names[key]} after the call", t.detach().clone()) for key, t in changed.items()]
        if torch.is_grad_enabled():
            results += self._gradients(outputs, names)
        return results

    def _gradients(self, outputs: Any, names: Mapping[int, str]) -> list[Result]:
        sources = [t for t in tensors_of(outputs) if t.requires_grad and t.is_floating_point()]
        leaves = self._leaves(sources, names) if sources else {}
        if not leaves:
            return []
        generators = {t.device: torch.Generator(t.device).manual_seed(self.seed + 1) for t in sources}
        given = [torch.empty_like(t).normal_(generator=generators[t.device]) for t in sources]
        found = torch.autograd.grad(sources, list(leaves.values()), given, allow_unused=True)
        return [
            Result(f"gradient of {name}", gradient)
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


def _is_changed(now: torch.Tensor, old: torch.Tensor, version: int) -> bool:
    if now.is_floating_point() and now.layout == torch.strided:
        # not by versions: eager's own batch norm changes its statistics under the old one
        return not bool(same_bits(now, old).all())
    return now._version != version


def _named(name: str, value: Any) -> list[tuple[str, Any]]:
    """The leaves of a structure with names: `output`, or `output 0`, `output 1` where there are several."""
    leaves = tree_leaves(value)
    if len(leaves) == 1:
        return [(name, leaves[0])]
    return [(f"{name} {i}", leaf) for i, leaf in enumerate(leaves)]


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of a structure."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def first_line(cause: BaseException) -> str:
    """Kind and first line of an error."""
    text = str(cause).strip().partition("\n")[0]
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__
