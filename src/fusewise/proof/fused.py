"""Fusewise's own compile of a function under proof: memory poisoned, each graph kept to say which kernel was wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule

from fusewise import trace
from fusewise.capture.captured import TensorOutput
from fusewise.capture.reference import run_eagerly, run_in_float64, with_own, written_inputs
from fusewise.config import Options
from fusewise.errors import FusewiseError
from fusewise.pipeline import Compiled, compile_graph
from fusewise.plan.plan import KernelStep
from fusewise.proof.compare import compare
from fusewise.proof.poison import Poison
from fusewise.proof.reference import Role, same_draws

Call = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class WrongKernel:
    """The first result of a graph that differs: the kernel that wrote it, and the role of its graph."""

    kernel: str
    role: str


class Fused:
    """Compiles a graph as Fusewise does; made for `Backend(compile_graph=...)`.

    Args:
        fuel: the greatest number of fusions in all graphs together, in the order of their compiles; None: no limit.

    Attributes:
        compiled: every graph that was compiled.
        eager: why other graphs run as eager.
        unpoisoned: graphs whose memory could not be poisoned.
        overruns: whether a kernel wrote behind its result.
    """

    def __init__(self, fuel: int | None = None) -> None:
        self._fuel = fuel
        self.compiled: list[Compiled] = []
        self.eager: list[str] = []
        self.unpoisoned = 0
        self.overruns = False
        self._poison = Poison()
        self._watching = False
        self._wrong: list[WrongKernel] = []

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any], options: Options, *, role: Role) -> Call:
        """The compiled graph as a function that takes a list, empties it, and returns a list."""
        if self._fuel is not None:
            options = replace(options, fuel=self._fuel)
        try:
            call = compile_graph(gm, example_inputs, options, role=role)
        except Exception as cause:
            self.eager.append(f"{role}: {_problem(cause)}")
            raise
        compiled = trace.last()
        assert compiled is not None
        self.compiled.append(compiled)
        if self._fuel is not None:
            self._fuel -= sum(d.taken for d in compiled.plan.decisions)
        self.unpoisoned += not self._poison.plant(call, compiled.captured.graph.device)

        def run(arguments: list[Any]) -> list[Any]:
            try:
                if self._watching:
                    return self._watch(gm, compiled, call, arguments, options)
                return call(arguments)
            except Exception as cause:  # the backend then runs the graph as eager
                self.eager.append(f"{role}, when it was called: {_problem(cause)}")
                raise
            finally:
                self.overruns |= self._poison.damaged()

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def find_wrong(self, again: Callable[[], object]) -> WrongKernel | None:
        """Calls `again` with each graph compared on the same arguments; the first kernel that is wrong in one."""
        self._watching, self._wrong = True, []
        try:
            again()
        finally:
            self._watching = False
        return self._wrong[0] if self._wrong else None

    def _watch(
        self, gm: GraphModule, compiled: Compiled, call: Call, arguments: list[Any], options: Options
    ) -> list[Any]:
        written = written_inputs(gm)
        inputs = list(arguments)
        before = with_own(gm, inputs)
        with same_draws() as draw_again:
            results = call(arguments)
            draw_again()
            exact = run_in_float64(gm, before)
            draw_again()
            eager = run_eagerly(gm, before)
        ends = [*results, *(inputs[i] for i in written)]
        eager += [before[i] for i in written]
        wrong = [
            position
            for position, (fused, own, wide) in enumerate(zip(ends, eager, exact, strict=True))
            if isinstance(fused, torch.Tensor)
            and not compare(fused, own, wide if own.is_floating_point() else None, options.policy == "conservative").ok
        ]
        kernels = [_writer(compiled, position) for position in wrong]
        order = {step.name: number for number, step in enumerate(compiled.plan.kernels)}
        named = sorted((k for k in kernels if k), key=order.__getitem__)
        self._wrong += [WrongKernel(name, compiled.role) for name in named]
        return results


def _problem(cause: Exception) -> str:
    """The first line of an error, with its kind where it is none of ours."""
    text = str(cause).partition("\n")[0]
    return text if isinstance(cause, FusewiseError) else f"{type(cause).__name__}: {text}".removesuffix(": ")


def _writer(compiled: Compiled, position: int) -> str | None:
    """The kernel that writes the graph's result at this position, or behind the results an argument; None where
    PyTorch's own op does."""
    results = len(compiled.captured.outputs)
    if position < results:
        kind = compiled.captured.outputs[position]
        if not isinstance(kind, TensorOutput):
            return None
        index = kind.index
    else:
        writes = compiled.captured.graph.writes
        index = sorted(writes, key=writes.__getitem__)[position - results]
    base = compiled.plan.outputs[index].base
    for step in compiled.plan.steps:
        if isinstance(step, KernelStep) and base in step.writes:
            return step.name
    return None
