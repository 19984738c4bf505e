"""What capture hands on: our graph, the PyTorch calls that stay as they are, how inputs and outputs are made."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from fusewise.ir.graph import Graph, Origin
from fusewise.ir.sizes import Size


@dataclass(frozen=True, slots=True)
class TensorInput:
    """The caller's argument is a tensor: input `index` of the graph."""

    index: int


@dataclass(frozen=True, slots=True)
class SizeInput:
    """The caller's argument is a whole number, `expr` (a symbol, or a number that was specialised)."""

    expr: Size


@dataclass(frozen=True, slots=True)
class OtherInput:
    """The caller's argument is neither tensor nor size; only opaque ops read it, as `ArgInput`."""


InputKind: TypeAlias = TensorInput | SizeInput | OtherInput


@dataclass(frozen=True, slots=True)
class TensorOutput:
    """The caller gets output `index` of the graph (`scalar`: a Python number that an opaque op returned)."""

    index: int
    scalar: bool = False


@dataclass(frozen=True, slots=True)
class SizeOutput:
    """The caller gets a size as a Python int."""

    expr: Size


@dataclass(frozen=True, slots=True)
class ConstantOutput:
    """The caller gets this object (None for a gradient that is not needed)."""

    value: Any


@dataclass(frozen=True, slots=True)
class InputOutput:
    """The caller gets its own argument `position` back: one that is no tensor, or that the program wrote to."""

    position: int


OutputKind: TypeAlias = TensorOutput | SizeOutput | ConstantOutput | InputOutput


@dataclass(frozen=True, slots=True)
class ArgTensor:
    """In the arguments of an opaque call: operand `index` of the opaque node."""

    index: int


@dataclass(frozen=True, slots=True)
class ArgSize:
    """In the arguments of an opaque call: a size that depends on symbols."""

    expr: Size


@dataclass(frozen=True, slots=True)
class ArgInput:
    """In the arguments of an opaque call: the caller's argument `position`, neither tensor nor size."""

    position: int


ResultKind = Literal["tensor", "scalar", "size", "none"]
Bound: TypeAlias = Callable[[Sequence[Any], Mapping[str, int], Sequence[Any]], Any]


@dataclass(frozen=True, slots=True, eq=False)
class OpaqueCall:
    """A PyTorch call that runs as it is.

    Attributes:
        target: what is called: an ATen overload, a higher-order op, any Python function of the FX graph.
        args, kwargs: the arguments; `ArgTensor`, `ArgSize` and `ArgInput` stand for what is known at run time,
            also inside lists, tuples, dicts and slices.
        results: the kinds of what comes back, in the order of its flattened form; result `i` of the graph's
            node is the i-th of them. A `scalar` is a Python number; a `size` is known from the symbols and need
            not be read.
        name: the target's name, as in `aten.mm.default`.
        reason: why the op is not expanded.
        origin: the user's source line.
    """

    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[ResultKind, ...]
    name: str
    reason: str
    origin: Origin

    def bind(self) -> Bound:
        """A function `(operands, symbols, inputs) -> result` that makes the call.

        `operands` are the opaque node's tensors in order, `symbols` the values of the size symbols by name,
        `inputs` the caller's arguments. The result is what the target returns; `flatten_results` numbers it.
        """
        if not self.kwargs and self.args == tuple(ArgTensor(i) for i in range(len(self.args))):
            target = self.target
            return lambda operands, symbols, inputs: target(*operands)
        constants: list[Any] = [self.target]

        def constant(value: Any) -> str:
            constants.append(value)
            return f"c[{len(constants) - 1}]"

        def text(value: Any) -> str:
            if isinstance(value, ArgTensor):
                return f"t[{value.index}]"
            if isinstance(value, ArgSize):
                return size_text(value.expr)
            if isinstance(value, ArgInput):
                return f"x[{value.position}]"
            if not _has_placeholder(value):
                return constant(value)
            if type(value) is list:
                return f"[{', '.join(map(text, value))}]"
            if type(value) is tuple:
                return f"({''.join(text(v) + ', ' for v in value)})"
            if type(value) is slice:
                return f"slice({text(value.start)}, {text(value.stop)}, {text(value.step)})"
            return f"{{{', '.join(f'{constant(k)}: {text(v)}' for k, v in value.items())}}}"

        # Only positions and sizes become source text; each name and constant of the user's is reached by `c`.
        parts = [text(a) for a in self.args]
        if self.kwargs:
            parts.append(f"**{{{', '.join(f'{constant(k)}: {text(v)}' for k, v in self.kwargs.items())}}}")
        source = f"lambda t, s, x: c[0]({', '.join(parts)})"
        bound: Bound = eval(source, {"c": constants})
        return bound


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an op of the user's runs as PyTorch's own kernel."""

    name: str
    reason: str
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """A captured FX graph.

    Attributes:
        graph: what is computed.
        opaques: the calls that the graph's opaque nodes name by their `key`.
        inputs: what each argument of the caller is, in the order of the arguments.
        outputs: how the caller's list of results is made.
        constants: tensors of the FX graph itself; they are the graph's last inputs, in this order.
        reasons: one entry an opaque call, in program order.
    """

    graph: Graph
    opaques: tuple[OpaqueCall, ...]
    inputs: tuple[InputKind, ...]
    outputs: tuple[OutputKind, ...]
    constants: tuple[torch.Tensor, ...]
    reasons: tuple[Reason, ...]

    def symbol_values(self, inputs: Sequence[Any]) -> dict[str, int]:
        """The size symbols' values for these arguments of the caller."""
        return {name: read(inputs) for name, read in symbol_readers(self.graph).items()}

    def tensors(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """The graph's input tensors for these arguments of the caller, constants included."""
        found = [v for v, kind in zip(inputs, self.inputs, strict=True) if isinstance(kind, TensorInput)]
        return [*found, *self.constants]


def symbol_readers(graph: Graph) -> dict[str, Callable[[Sequence[Any]], int]]:
    """For each size symbol a function from the caller's arguments to its value.

    The text of a definition is made by capture from positions, numbers and operators alone.
    """
    scope = {"__builtins__": {"max": max, "min": min, "abs": abs, "int": int}}
    return {name: eval(f"lambda inputs: {info.definition}", scope) for name, info in graph.symbols.items()}


def flatten_results(result: Any) -> list[Any]:
    """What an opaque call returned, numbered as in `OpaqueCall.results`: nested sequences laid out flat."""
    if not isinstance(result, (tuple, list)):
        return [result]
    return [leaf for part in result for leaf in flatten_results(part)]


def size_text(size: Size) -> str:
    """A size as Python text that reads its symbols from the mapping `s`."""
    if isinstance(size, int):
        return repr(size)
    if size.is_Symbol:
        return f"s[{str(size)!r}]"
    if size.is_Integer:
        return repr(int(size))
    if size.is_Pow:
        return f"{size_text(size.args[0])}**{size_text(size.args[1])}"
    sign = {"Add": " + ", "Mul": "*"}[type(size).__name__]
    return f"({sign.join(size_text(a) for a in size.args)})"


def size_value(size: Size, symbols: Mapping[str, int]) -> int:
    """A size for these values of its symbols."""
    if isinstance(size, int):
        return size
    if size.is_Symbol:
        return symbols[str(size)]
    if size.is_Integer:
        return int(size)
    if size.is_Pow:
        return int(operator.pow(size_value(size.args[0], symbols), size_value(size.args[1], symbols)))
    values = [size_value(a, symbols) for a in size.args]
    total = values[0]
    for value in values[1:]:
        total = total + value if size.is_Add else total * value
    return total


def _has_placeholder(value: Any) -> bool:
    if isinstance(value, (ArgTensor, ArgSize, ArgInput)):
        return True
    if type(value) in (list, tuple):
        return any(map(_has_placeholder, value))
    if type(value) is dict:
        return any(map(_has_placeholder, value.values()))
    if type(value) is slice:
        return any(map(_has_placeholder, (value.start, value.stop, value.step)))
    return False
