"""The proof of a plan's fusions: each kernel against the same graph with every op a kernel of its own, bit for bit.

Both sides compute the same planned graph with the same functions: whatever differs, the fusion made. Each kernel is
judged on the same operands: once a value has been compared, both sides go on with the fused one, so that every wrong
kernel is named and none that only reads what is wrong.

A sum of floats is the exception. Its bits depend on the order in which it is taken, which the fused kernel's tiles and
the work beside it decide. It is stored by a copy of the fused kernel that has one store more, compared within the error
that any order can have, and what follows it is compared bit for bit again. That the copy computes what the kernel does
is checked too, on the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule

from fusewise import trace
from fusewise.backend import Backend
from fusewise.capture.captured import TensorOutput
from fusewise.capture.reference import has_collectives, with_own
from fusewise.config import Options
from fusewise.ir.graph import Node
from fusewise.ir.sizes import hint
from fusewise.pipeline import Compiled, compile_graph
from fusewise.plan.plan import KernelStep, OpaqueStep
from fusewise.plan.prepare import place
from fusewise.plan.unfused import reassociates, unfused, with_sums_stored
from fusewise.proof.calls import Calls, Function, first_line, own_entry
from fusewise.proof.compare import same_bits
from fusewise.proof.inputs import InputSet
from fusewise.proof.reference import Role, same_draws
from fusewise.proof.run import Progress, sets_for
from fusewise.proof.steps import Steps
from fusewise.report.proofs import FusionCheck, UnfusedProof

Call = Callable[[list[Any]], list[Any]]

# A sum of n terms in any order is off by at most (n - 1) epsilon times the sum of their sizes, to first order; ours
# never add more than this many terms in f32 before they go to f64, or a tree of that depth.
LONGEST_CHAIN = 1024


def verify_unfused(
    function: Function,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    *,
    name: str = "",
    seed: int = 0,
    hard: bool = True,
    progress: Progress | None = None,
) -> tuple[UnfusedProof, list[Compiled]]:
    """Compares each kernel that Fusewise makes of a function, and of its backward, with its ops run one by one.

    Args:
        seed: of the inputs and of random ops.
        hard: also use NaN, infinities, -0, large, tiny and subnormal numbers.

    Returns:
        The proof, and the compiled graphs that it is about.
    """
    calls = Calls(function, tuple(args), dict(kwargs), seed)
    compiler = _Compiler()
    entry = torch.compile(own_entry(function), backend=Backend(options, compiler))
    sets = sets_for(calls, hard)
    notes: list[str] = []
    try:
        for number, chosen in enumerate(sets):
            if progress is not None:
                progress(number / len(sets), f"{chosen.name} inputs")
            compiler.inputs = chosen
            try:
                calls(entry, chosen)
            except Exception as cause:
                if number == 0:
                    raise
                notes.append(f"The function fails on {chosen.name} inputs: {first_line(cause)}")
    finally:
        calls.restore()
    notes += compiler.notes
    proof = UnfusedProof(
        target=name or calls.name(),
        policy=options.policy,
        device=calls.device(),
        checks=tuple(compiler.checks),
        notes=tuple(dict.fromkeys(notes)),
        kernels=sum(len(c.plan.kernels) for c in compiler.compiled),
        fusions=sum(d.taken for c in compiler.compiled for d in c.plan.decisions),
        eager_graphs=tuple(dict.fromkeys(compiler.eager)),
        seed=seed,
    )
    return proof, compiler.compiled


class _Compiler:
    """Compiles a graph as Fusewise does and once more without fusions; compares at every call."""

    def __init__(self) -> None:
        self.compiled: list[Compiled] = []
        self.checks: list[FusionCheck] = []
        self.notes: list[str] = []
        self.eager: list[str] = []
        self.inputs: InputSet | None = None

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any], options: Options, *, role: Role) -> Call:
        try:
            call = compile_graph(gm, example_inputs, options, role=role)
        except Exception as cause:
            self.eager.append(f"{role}: {first_line(cause)}")
            raise
        compiled = trace.last()
        assert compiled is not None
        self.compiled.append(compiled)
        if has_collectives(gm):
            self.notes.append(f"A {role} graph talks to other processes and is not compared.")
            return call
        pair = _Pair(compiled, options)
        if compiled.captured.graph.device != "cpu" and options.policy != "conservative":
            self.notes.append(
                "On a GPU both sides use the functions of conservative: cheaper ones are chosen by what follows them."
            )

        def run(arguments: list[Any]) -> list[Any]:
            inputs = with_own(gm, arguments)
            with same_draws() as draw_again:
                results = call(arguments)
                draw_again()
                assert self.inputs is not None
                self.checks += pair.compare(inputs, results, self.inputs.name)
            return results

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


@dataclass(slots=True)
class _Seen:
    """What was compared of one kernel."""

    values: int = 0
    elements: int = 0
    sums: int = 0
    first: FusionCheck | None = None


class _Pair:
    """One graph, fused and not."""

    def __init__(self, compiled: Compiled, options: Options) -> None:
        captured, plan = compiled.captured, compiled.plan
        self.compiled = compiled
        self.graph = plan.graph
        # the same bits as the program itself only where that was built with the same functions
        self.same_build = options.policy == "conservative" or self.graph.device == "cpu"
        self.fused = Steps(captured, with_sums_stored(plan), exact=True, fill=math.nan, like=compiled.kernels)
        self.alone = Steps(captured, unfused(plan), exact=True, fill=7.0)
        self.maker = {n: step for step in plan.kernels for n in step.nodes}

    def compare(self, arguments: Sequence[Any], results: Sequence[Any], inputs: str) -> list[FusionCheck]:
        """One check a kernel, and one of the graph's results."""
        symbols = self.compiled.captured.symbol_values(arguments)
        values = self.fused.inputs(arguments, symbols)
        for step in self.fused.plan.steps:
            if isinstance(step, OpaqueStep):
                self.fused.run_opaque(step, values, symbols, arguments)
            else:
                self.fused.run_kernel(step, values, symbols)
        found = {step.name: _Seen() for step in self.compiled.plan.kernels}
        self._run_alone(values, symbols, inputs, found)
        checks = [
            seen.first or self._check(inputs, self.maker_named(name), seen, True)
            for name, seen in found.items()
            if seen.values
        ]
        if self.same_build:
            checks += self._results(results, values, symbols, inputs)
        return checks

    def maker_named(self, name: str) -> KernelStep:
        return next(s for s in self.compiled.plan.kernels if s.name == name)

    def _run_alone(
        self, fused: Mapping[int, Any], symbols: Mapping[str, int], inputs: str, found: Mapping[str, _Seen]
    ) -> None:
        """Every op by itself; each value that the fused kernels stored is compared, and then taken from them."""
        values = dict(fused)
        left = _last_reads(self.alone.plan.kernels)
        for step in self.alone.plan.kernels:
            (number,) = step.nodes
            own: dict[int, Any] = {v: values[v] for v in step.reads}
            self.alone.run_kernel(step, own, symbols)
            if number in fused:
                self._judge(number, own[number], fused[number], values, symbols, inputs, found)
            else:
                values[number] = own[number]
            for value in left.get(number, ()):
                if value not in fused:
                    values.pop(value, None)

    def _judge(
        self,
        number: int,
        alone: torch.Tensor,
        fused: torch.Tensor,
        values: Mapping[int, Any],
        symbols: Mapping[str, int],
        inputs: str,
        found: Mapping[str, _Seen],
    ) -> None:
        step = self.maker[number]
        seen = found[step.name]
        node = self.graph[number]
        wrong = ~(same_bits(fused, alone) if fused.is_floating_point() else fused == alone)
        if reassociates(node) and bool(wrong.any()):
            seen.sums += 1
            wrong &= self._outside(node, alone, fused, values, symbols)
        seen.values += 1
        seen.elements += fused.numel()
        if seen.first is None and bool(wrong.any()):
            seen.first = self._check(inputs, step, seen, False, number, wrong, fused, alone)

    def _outside(
        self,
        node: Node,
        alone: torch.Tensor,
        fused: torch.Tensor,
        values: Mapping[int, Any],
        symbols: Mapping[str, int],
    ) -> torch.Tensor:
        """True where two orders of one sum or product cannot both be right."""
        source = self.graph[node.args[0]]
        count = 1
        for dim in node.attr("dims"):
            count *= max(1, hint(source.shape[dim], symbols))
        room = min(count, LONGEST_CHAIN) * 2 * torch.finfo(fused.dtype).eps
        known = fused.isfinite() & alone.isfinite()
        gap = torch.where(known, (fused.double() - alone.double()).abs(), 0.0)
        if node.op == "prod":
            return known & (gap > room * alone.double().abs() + torch.finfo(fused.dtype).tiny)
        size = self._sum_of_sizes(node, values, symbols)
        if size is None:
            size = alone.double().abs().max() * math.sqrt(count)
        return known & (gap > room * size)

    def _sum_of_sizes(self, node: Node, values: Mapping[int, Any], symbols: Mapping[str, int]) -> torch.Tensor | None:
        """The sum of the absolute values of what is summed; None where it does not lie in memory as a plain view."""
        where = place(self.graph, node.args[0])
        if where is None or where.base not in values:
            return None
        operand: torch.Tensor = self.alone.tensor(where, self.graph[node.args[0]].shape, values, symbols)
        dims = tuple(node.attr("dims"))
        return operand.double().abs().sum(dims) if dims else operand.double().abs()

    def _results(
        self, results: Sequence[Any], values: Mapping[int, Any], symbols: Mapping[str, int], inputs: str
    ) -> Iterator[FusionCheck]:
        """The program's own results against the steps that were compared."""
        for position, kind in enumerate(self.compiled.captured.outputs):
            if not isinstance(kind, TensorOutput) or kind.scalar:
                continue
            where = self.compiled.plan.outputs[kind.index]
            shape = self.graph[self.graph.outputs[kind.index]].shape
            ours, again = results[position], self.fused.tensor(where, shape, values, symbols)
            if not isinstance(ours, torch.Tensor) or where.base not in self.maker:
                continue
            ours = ours.detach()
            wrong = ~(same_bits(ours, again) if ours.is_floating_point() else ours == again)
            if bool(wrong.any()):
                seen = _Seen(1, ours.numel())
                yield self._check(inputs, self.maker[where.base], seen, False, where.base, wrong, ours, again)

    def _check(
        self,
        inputs: str,
        step: KernelStep,
        seen: _Seen,
        ok: bool,
        number: int | None = None,
        wrong: torch.Tensor | None = None,
        fused: torch.Tensor | None = None,
        alone: torch.Tensor | None = None,
    ) -> FusionCheck:
        ops = tuple(dict.fromkeys(self.graph[n].origin.aten or self.graph[n].op for n in step.nodes))
        kernel = f"{self.compiled.role}/{step.name}"
        check = FusionCheck(inputs, kernel, ops, seen.values, seen.elements, seen.sums, ok)
        if number is None or wrong is None or fused is None or alone is None:
            return check
        flat = int(wrong.flatten().to(torch.uint8).argmax())
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), wrong.shape))
        origin = self.graph[number].origin
        return replace(
            check,
            index=index,
            wrong=int(wrong.sum()),
            fused=_text(fused, index),
            unfused=_text(alone, index),
            op=origin.aten or self.graph[number].op,
            file=origin.file,
            line=origin.line,
        )


def _text(tensor: torch.Tensor, index: tuple[int, ...]) -> str:
    value = tensor[index].item()
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _last_reads(steps: Sequence[KernelStep]) -> dict[int, list[int]]:
    """For each kernel's node the values that no later kernel reads."""
    last: dict[int, int] = {}
    for step in steps:
        for value in (*step.reads, *step.writes):
            last[value] = step.nodes[0]
    found: dict[int, list[int]] = {}
    for value, number in last.items():
        found.setdefault(number, []).append(value)
    return found
