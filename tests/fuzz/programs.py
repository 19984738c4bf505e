"""A PyTorch program as a short list of ops: printed as Python, run, and made smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

Layout = str
"""`dense`, `transposed` (last two dims), `reversed` (all dims), `sliced` (gaps, an offset), `expanded` (dim 0)."""


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that the program takes.

    Attributes:
        shape: sizes; a name stands for a size that changes from call to call.
        data: `normal`, `hard` (NaN, infinities, -0, subnormals among them), `index` (0 .. 1) or `whole`.
    """

    dtype: torch.dtype
    shape: tuple[int | str, ...]
    layout: Layout = "dense"
    data: str = "normal"
    grad: bool = False

    def make(self, generator: torch.Generator, sizes: Mapping[str, int]) -> torch.Tensor:
        """A tensor of this kind."""
        shape = [sizes[n] if isinstance(n, str) else n for n in self.shape]
        values = _values(self, [1, *shape[1:]] if self.layout == "expanded" and shape else shape, generator)
        match self.layout:
            case "transposed" if len(shape) > 1:
                return values.mT.contiguous().mT
            case "reversed" if shape:
                return values.permute(*reversed(range(len(shape)))).contiguous().permute(*reversed(range(len(shape))))
            case "sliced" if shape:
                room = torch.zeros([2 * n + 1 for n in shape], dtype=self.dtype)
                part = room[tuple(slice(1, None, 2) for _ in shape)]
                return part.copy_(values)
            case "expanded" if shape:
                return values.expand(shape)
            case _:
                return values


def _values(kind: Input, shape: list[int], generator: torch.Generator) -> torch.Tensor:
    if kind.dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not kind.dtype.is_floating_point:
        low, high = {"index": (0, 2), "hard": (-(2**40), 2**40)}.get(kind.data, (-9, 10))
        return torch.randint(low, high, shape, generator=generator).to(kind.dtype)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind.data == "whole":
        values = values.mul(2).round()
    if kind.data == "hard":
        special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-42, -3e38, 2e38, 0.5, 1.0])
        chosen = special.double()[torch.randint(0, len(special), shape, generator=generator)]
        values = torch.where(torch.rand(shape, generator=generator) < 0.4, chosen, values * 4)
    return values.to(kind.dtype)


@dataclass(frozen=True, slots=True)
class Op:
    """One line of the program.

    Attributes:
        text: Python with `{0}`, `{1}`, ... for the operands.
        args: numbers of the values that they are: inputs first, then one an op.
        statement: it assigns nothing (an in-place op); its number then stands for operand 0.
    """

    text: str
    args: tuple[int, ...]
    statement: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What to run.

    Attributes:
        outputs: numbers of the values that it returns.
        exact: for each output whether eager's bits are fixed by IEEE and integer arithmetic.
        coarse: for each output the largest epsilon of a type that it passed through.
        dynamic: it is compiled for sizes that change.
        hard: its inputs hold NaN and the like: no fp64 reference exists.
    """

    inputs: tuple[Input, ...]
    ops: tuple[Op, ...]
    outputs: tuple[int, ...]
    exact: tuple[bool, ...]
    coarse: tuple[float, ...]
    dynamic: bool = False
    hard: bool = False

    def names(self) -> list[str]:
        """The Python name of each value."""
        found = [f"x{i}" for i in range(len(self.inputs))]
        for op in self.ops:
            found.append(found[op.args[0]] if op.statement else f"v{len(found)}")
        return found

    def source(self, name: str = "fn") -> str:
        """The program as a Python function."""
        names = self.names()
        lines = [f"def {name}({', '.join(names[: len(self.inputs)])}):"]
        for number, op in enumerate(self.ops, start=len(self.inputs)):
            text = op.text.format(*(names[a] for a in op.args))
            lines.append(f"    {text}" if op.statement else f"    {names[number]} = {text}")
        lines.append(f"    return {', '.join(names[o] for o in self.outputs)},")
        return "\n".join(lines) + "\n"

    def function(self, name: str = "fn") -> Callable[..., tuple[torch.Tensor, ...]]:
        """The program, ready to call."""
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        # a file name of its own, so that Dynamo keeps one program's code apart from the next one's
        exec(compile(self.source(name), f"<fuzz {id(self)}>", "exec"), scope)
        function: Callable[..., tuple[torch.Tensor, ...]] = scope[name]
        return function

    def arguments(self, seed: int, sizes: Mapping[str, int]) -> list[torch.Tensor]:
        """Inputs drawn by `seed`."""
        generator = torch.Generator().manual_seed(seed)
        return [i.make(generator, sizes) for i in self.inputs]

    def describe(self, seed: int, sizes: Mapping[str, int]) -> str:
        """The program and its inputs as Python that reproduces a failure."""
        lines = [self.source()]
        for number, kind in enumerate(self.inputs):
            lines.append(f"# x{number}: {kind.dtype}{list(kind.shape)} {kind.layout} {kind.data}{' grad' * kind.grad}")
        lines.append(f"# draw {seed}, sizes {dict(sizes)}, dynamic {self.dynamic}")
        return "\n".join(lines)


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less: an output, an op, a grad, a layout, half a dim."""
    if len(program.outputs) > 1:
        for position in range(len(program.outputs)):
            kept = [i for i in range(len(program.outputs)) if i != position]
            yield _tidy(
                replace(
                    program,
                    outputs=tuple(program.outputs[i] for i in kept),
                    exact=tuple(program.exact[i] for i in kept),
                    coarse=tuple(program.coarse[i] for i in kept),
                )
            )
    for position in reversed(range(len(program.ops))):
        op = program.ops[position]
        for arg in dict.fromkeys(op.args):
            yield _tidy(_without(program, position, arg))
    for position, kind in enumerate(program.inputs):
        simpler = []
        if kind.grad:
            simpler.append(replace(kind, grad=False))
        if kind.layout != "dense":
            simpler.append(replace(kind, layout="dense"))
        for new in simpler:
            yield replace(program, inputs=(*program.inputs[:position], new, *program.inputs[position + 1 :]))
    for size in sorted(
        {n for kind in program.inputs for n in kind.shape if isinstance(n, int) and n > 1}, reverse=True
    ):
        for less in dict.fromkeys((size // 2, size - 1)):
            if less >= 1:
                shrunk = [replace(k, shape=tuple(less if n == size else n for n in k.shape)) for k in program.inputs]
                yield replace(program, inputs=tuple(shrunk))


def _without(program: Program, position: int, instead: int) -> Program:
    """The program without an op, whose value is replaced by the value `instead`."""
    gone = len(program.inputs) + position

    def number(value: int) -> int:
        value = instead if value == gone else value
        return value - 1 if value > gone else value

    ops = [replace(op, args=tuple(map(number, op.args))) for i, op in enumerate(program.ops) if i != position]
    return replace(program, ops=tuple(ops), outputs=tuple(map(number, program.outputs)))


def _tidy(program: Program) -> Program:
    """Without what nothing needs: statements stay, since they may change what is needed."""
    count = len(program.inputs)
    needed = set(program.outputs)
    for position in reversed(range(len(program.ops))):
        op = program.ops[position]
        if op.statement or count + position in needed:
            needed |= {count + position, *op.args}
    kept_inputs = [i for i in range(count) if i in needed]
    kept_ops = [i for i in range(len(program.ops)) if count + i in needed]
    order = [*kept_inputs, *(count + i for i in kept_ops)]
    place = {old: new for new, old in enumerate(order)}
    return replace(
        program,
        inputs=tuple(program.inputs[i] for i in kept_inputs),
        ops=tuple(replace(program.ops[i], args=tuple(place[a] for a in program.ops[i].args)) for i in kept_ops),
        outputs=tuple(place[o] for o in program.outputs),
    )
