"""The graph: immutable nodes of primitive ops in topological order, and the builder that makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fusewise.ir.dtypes import DType
from fusewise.ir.ops import OPS, OpInfo
from fusewise.ir.sizes import Size


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node came from.

    Attributes:
        aten: the ATen op, for example `aten.gelu.default`.
        file: the user's source file, empty where unknown.
        line: line in that file, 0 where unknown.
        text: that line of code.
        call: name of the call in the captured program; an op that becomes several nodes gives all of them this name.
        repeated: in a backward graph, an op of forward's that runs again instead of having its result saved.
    """

    aten: str = ""
    file: str = ""
    line: int = 0
    text: str = ""
    call: str = ""
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One value of the graph.

    Attributes:
        id: position in `Graph.nodes`.
        op: name in `ir.ops.OPS`.
        args: ids of the operands.
        shape: sizes; () for a scalar.
        dtype: element type.
        attrs: the op's attributes, name and value, ordered by name; values are hashable.
        origin: the PyTorch op and source line that it came from.
    """

    id: int
    op: str
    args: tuple[int, ...]
    shape: tuple[Size, ...]
    dtype: DType
    attrs: tuple[tuple[str, Any], ...] = ()
    origin: Origin = field(default=Origin(), compare=False)

    @property
    def info(self) -> OpInfo:
        return OPS[self.op]

    def attr(self, name: str) -> Any:
        """The attribute `name`; KeyError where the node has none."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(f"node %{self.id} ({self.op}) has no attribute {name!r}")

    def has(self, name: str) -> bool:
        return any(key == name for key, _ in self.attrs)


@dataclass(frozen=True, slots=True)
class SymbolInfo:
    """What is known about one size symbol.

    Attributes:
        hint: the value at capture.
        definition: how a caller computes it, as the Python text of an expression over the graph's inputs
            (`inputs[2].size(0)` or `inputs[0]` for a size that is passed in).
        low, high: range that the guards guarantee (high None: no bound).
    """

    hint: int
    definition: str
    low: int = 2
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A whole program: what enters, what is computed, what leaves.

    Attributes:
        nodes: every value, each after its operands; `nodes[i].id == i`.
        inputs: ids of the `input` nodes, in the order of the caller's tensors.
        outputs: ids of the results, in order; an id may repeat.
        strides: element strides of the values whose layout is fixed (inputs, results of opaque ops, and values that
            are PyTorch tensors in eager); a value that is not listed may be stored in any layout.
        symbols: what is known of each size symbol.
        device: `cpu` or `cuda` (with an index, such as `cuda:0`).
        writes: outputs that the caller's own tensors take on at the end: position among `outputs` -> position among
            `inputs`. Everything in the graph reads the input as it was before.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    strides: Mapping[int, tuple[Size, ...]] = field(default_factory=dict)
    symbols: Mapping[str, SymbolInfo] = field(default_factory=dict)
    device: str = "cpu"
    writes: Mapping[int, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __getitem__(self, node: int) -> Node:
        return self.nodes[node]

    def root(self, value: int) -> int:
        """The value that a chain of views looks at; `value` itself where it is no view."""
        while self.nodes[value].info.group == "view":
            value = self.nodes[value].args[0]
        return value

    def users(self) -> tuple[tuple[int, ...], ...]:
        """For each node the ids of the nodes that read it, ascending, without repeats."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for arg in dict.fromkeys(node.args):
                found[arg].append(node.id)
        return tuple(map(tuple, found))

    def hints(self) -> dict[str, int]:
        """Value at capture of each size symbol."""
        return {name: info.hint for name, info in self.symbols.items()}


def freeze_attrs(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Attributes in the form that `Node` keeps."""
    return tuple(sorted(attrs.items()))


def live_nodes(nodes: Iterable[Node], outputs: Iterable[int]) -> set[int]:
    """Ids of the nodes that an output depends on."""
    table = list(nodes)
    live: set[int] = set()
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node not in live:
            live.add(node)
            stack.extend(table[node].args)
    return live
