"""The interpreter: runs a graph in numpy. The oracle of every test that needs no device.

Values are numpy arrays; bf16 is held as f32 rounded to bf16 (`ir.rounding`). Transcendental functions of f32 are
computed in f64 and rounded once, sums and products of f32 likewise: nearer to the true value than any kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fusewise.errors import IRError, UsageError
from fusewise.ir import philox
from fusewise.ir.affine import Div, Index, Loaded, Mod
from fusewise.ir.dtypes import DType
from fusewise.ir.graph import Graph, Node
from fusewise.ir.ops import ERRORS, OPS
from fusewise.ir.pointwise import cast, compute
from fusewise.ir.reductions import reduce
from fusewise.ir.rounding import NUMPY, Array, bf16_from_bits, bf16_to_bits
from fusewise.ir.sizes import Size

Opaque = Callable[[Node, Sequence[Array]], Sequence[Array]]


def run(
    graph: Graph, inputs: Sequence[Any], opaque: Opaque | None = None, sizes: Mapping[str, int] | None = None
) -> list[Array]:
    """The graph's outputs.

    Args:
        inputs: one array an input, of the shape and numpy type of `ir.rounding.NUMPY` (bf16: f32 already rounded).
        opaque: called with an `opaque` node and its operands; returns that op's results.
        sizes: value of each size symbol; the others are read off the inputs' shapes, or are their hints where
            all known ones are.

    Raises:
        UsageError: an input of another shape, a size that is not known, or an opaque node without `opaque`.
        IndexError, RuntimeError: a gather out of range or a guard that fails, as eager raises it.
    """
    machine = _Machine(graph, inputs, opaque, dict(sizes or {}))
    with np.errstate(all="ignore"):
        for node in graph:
            machine.values.append(machine.step(node))
    return [machine.values[i] for i in graph.outputs]


class _Machine:
    """The values so far and the sizes of the symbols."""

    def __init__(self, graph: Graph, inputs: Sequence[Any], opaque: Opaque | None, sizes: dict[str, int]) -> None:
        if len(inputs) != len(graph.inputs):
            raise UsageError(f"the graph takes {len(graph.inputs)} inputs, not {len(inputs)}")
        self.graph = graph
        self.values: list[Any] = []
        self.inputs = [
            np.asarray(i, dtype=NUMPY[graph[n].dtype.name]) for i, n in zip(inputs, graph.inputs, strict=True)
        ]
        self.opaque = opaque
        self.sizes = sizes
        for array, node in zip(self.inputs, graph.inputs, strict=True):
            for found, size in zip(array.shape, graph[node].shape, strict=False):
                if not isinstance(size, int) and size.is_Symbol:
                    self.sizes.setdefault(str(size), found)
        self._take_hints(graph.hints())
        for array, node in zip(self.inputs, graph.inputs, strict=True):
            if array.shape != self.shape(graph[node].shape):
                raise UsageError(f"input %{node} has shape {array.shape}, the graph wants {graph[node].shape}")

    def _take_hints(self, hints: Mapping[str, int]) -> None:
        """Hints for the symbols that no input's shape tells; at other sizes than the hints they must be given."""
        missing = hints.keys() - self.sizes.keys()
        if missing and any(self.sizes.get(name, hint) != hint for name, hint in hints.items()):
            raise UsageError(f"the value of {', '.join(sorted(missing))} is not known", "Pass it in `sizes`.")
        for name in missing:
            self.sizes[name] = hints[name]

    def size(self, size: Size) -> int:
        """The value of a size."""
        if isinstance(size, int):
            return size
        return int(size.subs({s: self.sizes[str(s)] for s in size.free_symbols}))

    def shape(self, shape: Sequence[Size]) -> tuple[int, ...]:
        return tuple(map(self.size, shape))

    def step(self, node: Node) -> Any:
        """The value of `node`; a list of arrays for an opaque op."""
        args = [self.values[a] for a in node.args]
        info = OPS[node.op]
        shape = self.shape(node.shape)
        if info.group == "pointwise":
            return self.pointwise(node, args)
        if info.group == "reduce":
            return reduce(node.op, args[0], node.attr("dims"), node.dtype)
        match node.op:
            case "input":
                return self.inputs[node.attr("position")]
            case "const":
                return cast(np.asarray(node.attr("value").value), node.dtype)
            case "size":
                return np.asarray(self.size(node.attr("expr")), dtype=np.int64)
            case "iota":
                return np.broadcast_to(_grid(shape)[node.attr("dim")], shape)
            case "view":
                return self.at(args[0], node.attr("map"), shape)
            case "reshape":
                return args[0].reshape(shape)
            case "pad":
                out = np.full(shape, cast(np.asarray(node.attr("value").value), node.dtype))
                low = self.shape(node.attr("low"))
                out[tuple(slice(a, a + n) for a, n in zip(low, args[0].shape, strict=True))] = args[0]
                return out
            case "cat":
                return np.concatenate(args, axis=node.attr("dim"))
            case "gather":
                return self.gather(node, args[0], args[1], shape)
            case "keep":
                element = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
                return philox.keep(_seed(args[0]), node.attr("slot"), element, node.attr("keep_prob"))
            case "uniform":
                element = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
                return philox.uniform(_seed(args[0]), node.attr("slot"), element)
            case "opaque":
                if self.opaque is None:
                    raise UsageError(f"%{node.id} is an opaque op ({node.origin.aten})", "Pass `opaque`.")
                return list(self.opaque(node, args))
            case "result":
                return np.asarray(args[0][node.attr("index")], dtype=NUMPY[node.dtype.name])
            case _:
                raise IRError(f"the interpreter does not know {node.op!r}")

    def pointwise(self, node: Node, args: Sequence[Array]) -> Array:
        if node.op == "guard":
            if not args[0].all():
                raise ERRORS[node.attr("error")](node.attr("message"))
            return np.broadcast_to(args[1], self.shape(node.shape))
        if node.op == "bitcast":
            source = self.graph[node.args[0]].dtype
            return _from_storage(_to_storage(args[0], source), node.dtype)
        return compute(node.op, args, node.dtype)

    def at(self, value: Array, index: Sequence[Index], shape: tuple[int, ...]) -> Array:
        """value[index[0], index[1], ...] over the axes o0, o1, ... of `shape`."""
        grid = _grid(shape)
        return np.broadcast_to(value[tuple(self.index(i, grid) for i in index)], shape)

    def gather(self, node: Node, value: Array, index: Array, shape: tuple[int, ...]) -> Array:
        grid, dim = _grid(shape), node.attr("dim")
        row = self.at(index, node.attr("index_map"), shape)
        size = value.shape[dim]
        if row.size and (row.min() < -size or row.max() >= size):
            error = ERRORS[node.attr("error") if node.has("error") else "IndexError"]
            raise error(f"index out of range in {node.origin.aten or 'gather'} (%{node.id})")
        where = [self.index(i, grid) if i is not None else np.where(row < 0, row + size, row) for i in node.attr("map")]
        return np.broadcast_to(value[tuple(where)], shape)

    def index(self, index: Index, grid: Sequence[Array]) -> Array:
        """An index expression over the axes o0, o1, ...; broadcastable to the grid."""
        total: Array = np.asarray(self.size(index.const), dtype=np.int64)
        for atom, coef in index.terms:
            term: Array
            if isinstance(atom, str):
                term = grid[int(atom[1:])]
            elif isinstance(atom, Div):
                term = self.index(atom.arg, grid) // self.size(atom.by)
            elif isinstance(atom, Mod):
                term = self.index(atom.arg, grid) % self.size(atom.by)
            else:
                term = self.loaded(atom, grid)
            total = total + term * self.size(coef)
        return total

    def loaded(self, atom: Loaded, grid: Sequence[Array]) -> Array:
        value: Array = self.values[atom.node][tuple(self.index(i, grid) for i in atom.at)]
        return value.astype(np.int64)


def _grid(shape: tuple[int, ...]) -> list[Array]:
    """The index along each dim, each broadcastable to `shape`."""
    return [
        np.arange(n, dtype=np.int64).reshape([-1 if e == d else 1 for e in range(len(shape))])
        for d, n in enumerate(shape)
    ]


def _seed(value: Array) -> int:
    return int(value.reshape(())) & 0xFFFFFFFFFFFFFFFF


def _to_storage(value: Array, dtype: DType) -> Array:
    """The bits of stored elements, as unsigned integers."""
    if dtype.name == "bf16":
        return bf16_to_bits(value)
    return np.ascontiguousarray(value).view(f"u{dtype.bytes}").reshape(value.shape)


def _from_storage(bits: Array, dtype: DType) -> Array:
    if dtype.name == "bf16":
        return bf16_from_bits(bits)
    return bits.view(NUMPY[dtype.name])
