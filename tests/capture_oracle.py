"""A stand-in for the compiler: what capture hands on is run by the numpy interpreter, opaque calls by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from fusewise.backend import Backend
from fusewise.capture.captured import (
    Captured,
    ConstantOutput,
    InputOutput,
    SizeOutput,
    TensorOutput,
    flatten_results,
    size_value,
)
from fusewise.capture.importer import import_graph
from fusewise.capture.types import TO_TORCH
from fusewise.config import Options
from fusewise.ir import interp
from fusewise.ir.dtypes import DType
from fusewise.ir.graph import Node
from fusewise.ir.verifier import check


def to_numpy(tensor: torch.Tensor) -> Any:
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def to_torch(array: Any, dtype: DType, strides: Sequence[int] | None = None) -> torch.Tensor:
    dense = torch.from_numpy(np.array(array)).to(TO_TORCH[dtype.name])
    if strides is None or 0 in strides:
        return dense
    return torch.empty_strided(dense.shape, strides, dtype=dense.dtype).copy_(dense)


def run_captured(captured: Captured, inputs: Sequence[Any]) -> list[Any]:
    """The caller's results for its arguments."""
    graph = captured.graph
    symbols = captured.symbol_values(inputs)

    def strides(node: int) -> list[int] | None:
        found = graph.strides.get(node)
        return None if found is None else [size_value(s, symbols) for s in found]

    def operand(node: int, array: Any) -> Any:
        if graph[node].op == "result":
            call = captured.opaques[graph[graph[node].args[0]].attr("key")]
            if call.results[graph[node].attr("index")] == "scalar":
                return array.item()
        return to_torch(array, graph[node].dtype, strides(node))

    def opaque(node: Node, arrays: Sequence[Any]) -> list[Any]:
        call = captured.opaques[node.attr("key")]
        operands = [operand(a, array) for a, array in zip(node.args, arrays, strict=True)]
        results = flatten_results(call.bind()(operands, symbols, inputs))
        assert len(results) == len(call.results)
        return [to_numpy(r) if isinstance(r, torch.Tensor) else np.asarray(r) for r in results]

    tensors = captured.tensors(inputs)
    for node, tensor in zip(graph.inputs, tensors, strict=True):
        wanted = [size_value(s, symbols) for s in graph.strides[node]]
        assert list(tensor.shape) == [size_value(s, symbols) for s in graph[node].shape]
        assert all(n <= 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), wanted, strict=True))
    arrays = interp.run(graph, [to_numpy(t) for t in tensors], opaque, symbols)
    made: list[Any] = []
    for node, array in zip(graph.outputs, arrays, strict=True):
        if graph[node].op == "input":
            made.append(tensors[graph[node].attr("position")])
        else:
            made.append(to_torch(array, graph[node].dtype, strides(node)))
    for output, position in graph.writes.items():
        tensors[position].detach().copy_(made[output])
    results: list[Any] = []
    for kind in captured.outputs:
        match kind:
            case TensorOutput(index=index, scalar=scalar):
                results.append(made[index].item() if scalar else made[index])
            case SizeOutput(expr=expr):
                results.append(size_value(expr, symbols))
            case ConstantOutput(value=value):
                results.append(value)
            case InputOutput(position=position):
                results.append(inputs[position])
    return results


class Recorder:
    """A `compile_graph` that keeps what it saw; `captured` and `graphs` by role, in order."""

    def __init__(self) -> None:
        self.captured: list[tuple[str, Captured]] = []
        self.graphs: list[tuple[str, torch.fx.GraphModule]] = []

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options, *, role: str
    ) -> Callable[[list[Any]], list[Any]]:
        captured = import_graph(gm, example_inputs, options.policy, strict=True)
        check(captured.graph)
        self.captured.append((role, captured))
        self.graphs.append((role, gm))

        def run(arguments: list[Any]) -> list[Any]:
            taken = list(arguments)
            arguments.clear()
            return run_captured(captured, taken)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def only(self, role: str = "inference") -> Captured:
        (found,) = (c for r, c in self.captured if r == role)
        return found


def backend(**options: Any) -> tuple[Backend, Recorder]:
    """A backend on the oracle, strict unless told otherwise, and what it records."""
    recorder = Recorder()
    return Backend(Options(**{"strict": True, **options}), recorder), recorder
