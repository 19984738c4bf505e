"""The text form of a graph: one line a node, stable, as golden tests hold it.

graph cpu
s0: hint 128, 2 .. , inputs[0].size(0)
%0: bf16[s0, 4] = input 0, strides (4, 1)
%1: f32[s0, 4] = cast %0  # aten.gelu.default model.py:12
...
return %7, %9
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from fusewise.ir import affine
from fusewise.ir.affine import Index
from fusewise.ir.graph import Graph, Node, Origin, SymbolInfo
from fusewise.ir.sizes import Size, contiguous_strides, same_all


def print_graph(graph: Graph, origins: bool = True) -> str:
    """The graph as text, ending in a newline.

    Args:
        origins: end each line with the ATen op and the source line that it came from.
    """
    lines = [f"graph {graph.device}"]
    lines += [_symbol(name, info) for name, info in graph.symbols.items()]
    lines += [_line(graph, node, origins) for node in graph]
    lines += [f"write %{graph.outputs[o]} to %{graph.inputs[i]}" for o, i in graph.writes.items()]
    lines.append(f"return {_refs(n for o, n in enumerate(graph.outputs) if o not in graph.writes)}".rstrip())
    return "\n".join(lines) + "\n"


def print_node(node: Node) -> str:
    """One node: `%3: f32[4, s0] = add %1, %2`."""
    parts = [_refs(node.args), *_attributes(node)]
    body = ", ".join(p for p in parts if p)
    return f"%{node.id}: {node.dtype}{shape_text(node.shape)} = {node.op} {body}".rstrip()


def shape_text(shape: Iterable[Size]) -> str:
    """`[4, s0]`; `[]` for a scalar."""
    return f"[{', '.join(map(str, shape))}]"


def _symbol(name: str, info: SymbolInfo) -> str:
    high = "" if info.high is None else info.high
    return f"{name}: hint {info.hint}, {info.low} .. {high}, {info.definition}"


def _line(graph: Graph, node: Node, origins: bool) -> str:
    text = print_node(node)
    strides = graph.strides.get(node.id)
    if strides is not None and not same_all(strides, contiguous_strides(node.shape)):
        text += f", strides ({', '.join(map(str, strides))})"
    comment = origin_text(node.origin) if origins else ""
    return f"{text}  # {comment}" if comment else text


def origin_text(origin: Origin) -> str:
    """`aten.gelu.default model.py:12`; empty where nothing is known."""
    # the file's name alone: a golden text must not depend on where the sources lie
    place = f"{PurePath(origin.file).name}:{origin.line}" if origin.file else ""
    return " ".join(part for part in (origin.aten, place) if part)


def _refs(nodes: Iterable[int]) -> str:
    return ", ".join(f"%{n}" for n in nodes)


def _attributes(node: Node) -> list[str]:
    """The attributes, the op's main one first and bare."""
    values = dict(node.attrs)
    bare = [_value(values.pop(name)) for name in _BARE.get(node.op, ()) if name in values]
    # a message is the user's own text
    return bare + [f"{name} {repr(value) if name == 'message' else _value(value)}" for name, value in values.items()]


_BARE = {"input": ("position",), "const": ("value",), "size": ("expr",), "view": ("map",), "result": ("index",)}


def _value(value: Any) -> str:
    if isinstance(value, Index):
        return affine.render(value)
    if value is None:
        return "*"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value) if isinstance(value, float) else str(value)
