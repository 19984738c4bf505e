"""A program with its arguments, ready to be called the same way by every contender."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from fusewise.measure.program import Case, Function, Program

GRADIENT_SEED = 1


@dataclass(frozen=True, slots=True)
class Workload:
    """One case, built.

    Attributes:
        function: the plain function or module.
        args: its arguments.
        case: what it was built from.
        inplace: True where a call changes its arguments.
        gradients: in the train direction, the fixed gradients of the outputs; else empty.
    """

    function: Function
    args: tuple[Any, ...]
    case: Case
    inplace: bool
    gradients: tuple[torch.Tensor, ...]

    @property
    def leaves(self) -> tuple[torch.Tensor, ...]:
        """What the backward computes gradients of: arguments first, then the module's parameters."""
        own = self.function.parameters() if isinstance(self.function, nn.Module) else ()
        return tuple(t for t in (*tensors_in(self.args), *own) if t.requires_grad)

    def step(self, entry: Function) -> Callable[[], object]:
        """One call of a contender: forward without gradients, or forward and backward."""
        if not self.case.train:
            args = self.args

            def forward() -> object:
                with torch.no_grad():
                    return entry(*args)

            return forward
        leaves = self.leaves

        def train() -> object:
            outputs = differentiable(entry(*self.args))
            return torch.autograd.grad(outputs, leaves, self.gradients, allow_unused=True)

        return train

    def results(self, entry: Function, seed: int) -> list[torch.Tensor]:
        """Outputs of one call under this seed, then changed arguments, then gradients; all detached."""
        torch.manual_seed(seed)
        work = self.cloned() if self.inplace else self
        with torch.set_grad_enabled(self.case.train):
            outputs = entry(*work.args)
        found = tensors_in(outputs) + (tensors_in(work.args) if self.inplace else [])
        if self.case.train:
            gradients = torch.autograd.grad(differentiable(outputs), work.leaves, self.gradients, allow_unused=True)
            found += [g for g in gradients if g is not None]
        return [t.detach() for t in found]

    def cloned(self) -> Workload:
        """The same with arguments of its own, for a function that changes them."""
        return replace(self, args=map_tensors(_copy, self.args))

    def in_fp64(self) -> Workload:
        """The same in fp64: the reference of a comparison."""

        def widen(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            return tensor.detach().double().requires_grad_(tensor.requires_grad)

        function = self.function
        if isinstance(function, nn.Module):
            function = copy.deepcopy(function).double()
        gradients = tuple(g.double() for g in self.gradients)
        return replace(self, function=function, args=map_tensors(widen, self.args), gradients=gradients)


def prepare(program: Program, case: Case) -> Workload:
    """Build a case; in the train direction one eager call shows which gradients its outputs need."""
    function, args = program.build(case)
    gradients: tuple[torch.Tensor, ...] = ()
    if case.train:
        generator = torch.Generator(device=case.device).manual_seed(GRADIENT_SEED)
        gradients = tuple(_gradient(output, generator) for output in differentiable(function(*args)))
    return Workload(function, args, case, "inplace" in program.tags, gradients)


def _gradient(output: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """1 for a loss, as `loss.backward()` starts; random for anything else."""
    if output.dim() == 0:
        return torch.ones_like(output)
    return torch.empty_like(output).normal_(generator=generator)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """All tensors of a nested structure, in order."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def differentiable(outputs: Any) -> list[torch.Tensor]:
    """The tensors of a nested output that a backward can start from."""
    return [t for t in tensors_in(outputs) if t.requires_grad]


def map_tensors(change: Callable[[torch.Tensor], torch.Tensor], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with each tensor changed."""
    mapped: tuple[Any, ...] = tree_map(lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, args)
    return mapped
