"""Checks a graph against the rules of the IR: order, arity, types, shapes, attributes, index bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fusewise.errors import IRError
from fusewise.ir import affine
from fusewise.ir.affine import Index
from fusewise.ir.dtypes import BOOL, F32, I32, I64, DType
from fusewise.ir.graph import Graph, Node
from fusewise.ir.ops import ERRORS, OPS
from fusewise.ir.printer import print_node, shape_text
from fusewise.ir.sizes import Size, norm, prod, same, same_all, symbols_of


def check(graph: Graph) -> None:
    """Raises `IRError` at the first node that breaks a rule; the message names the node and the rule."""
    for position, node in enumerate(graph.nodes):
        try:
            _check_node(graph, node, position)
        except IRError as problem:
            raise IRError(f"node %{position}: {problem.problem}", _text(node)) from None
    _check_ends(graph)


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise IRError(rule)


def _text(node: Node) -> str:
    try:
        return print_node(node)
    except Exception:  # a node that is broken enough cannot be printed either
        return repr(node)


def _check_ends(graph: Graph) -> None:
    count = len(graph.nodes)
    for name, ids in (("input", graph.inputs), ("output", graph.outputs), ("stride", graph.strides)):
        for number in ids:
            _require(0 <= number < count, f"{name} %{number} is no node")
    for position, number in enumerate(graph.inputs):
        node = graph[number]
        _require(node.op == "input" and node.attr("position") == position, f"input {position} is %{number} ({node.op})")
    found = [n.id for n in graph if n.op == "input"]
    _require(sorted(graph.inputs) == found, "the graph's inputs are not its input nodes")
    for number in graph.outputs:
        _require(graph[number].op != "opaque", f"output %{number} is an opaque call, not one of its results")
    for output, position in graph.writes.items():
        _require(0 <= output < len(graph.outputs), f"a write of output {output}, which is none")
        _require(0 <= position < len(graph.inputs), f"a write to input {position}, which is none")
        value, place = graph[graph.outputs[output]], graph[graph.inputs[position]]
        alike = value.dtype == place.dtype and same_all(value.shape, place.shape)
        _require(alike, f"%{value.id} is written to %{place.id}, which has another type or shape")
    _require(len(set(graph.writes.values())) == len(graph.writes), "an input is written to twice")
    for number, strides in graph.strides.items():
        _require(len(strides) == len(graph[number].shape), f"%{number} has {len(strides)} strides for its shape")


def _check_node(graph: Graph, node: Node, position: int) -> None:
    _require(node.id == position, f"its id is {node.id}")
    _require(node.op in OPS, f"unknown op {node.op!r}")
    info = node.info
    _require(info.arity in (-1, len(node.args)), f"{node.op} takes {info.arity} operands, not {len(node.args)}")
    for arg in node.args:
        _require(0 <= arg < position, f"operand %{arg} does not come before it")
    _require(list(node.attrs) == sorted(node.attrs, key=lambda item: item[0]), "attributes are not in order")
    for size in node.shape:
        _require(not (isinstance(size, int) and size < 0), f"negative size {size}")
    unknown = symbols_of(node.shape) - set(graph.symbols)
    _require(not unknown or not graph.symbols, f"unknown size symbols {', '.join(sorted(unknown))}")
    args = [graph[a] for a in node.args]
    for operand in args:
        _require(operand.op != "opaque" or node.op == "result", f"%{operand.id} is an opaque call: take its result")
    rule = _RULES.get(node.op) or _GROUP_RULES[info.group]
    rule(node, args)


# ---- one rule a kind of op


def _attr(node: Node, name: str) -> object:
    _require(node.has(name), f"{node.op} lacks the attribute {name!r}")
    return node.attr(name)


def _dim(node: Node, name: str, rank: int) -> int:
    dim = _attr(node, name)
    _require(isinstance(dim, int) and 0 <= dim < rank, f"{name} {dim} is no dim of rank {rank}")
    assert isinstance(dim, int)
    return dim


def _dtype(node: Node, wanted: DType) -> None:
    _require(node.dtype == wanted, f"its dtype is {node.dtype}, {node.op} gives {wanted}")


def _shape(node: Node, wanted: Sequence[Size]) -> None:
    _require(
        same_all(node.shape, wanted), f"its shape is {shape_text(node.shape)}, {node.op} gives {shape_text(wanted)}"
    )


def _input(node: Node, args: Sequence[Node]) -> None:
    _require(isinstance(_attr(node, "position"), int), "an input without a position")


def _const(node: Node, args: Sequence[Node]) -> None:
    value = getattr(_attr(node, "value"), "value", None)
    _shape(node, ())
    kind: type = {"float": float, "bool": bool}.get(node.dtype.kind, int)
    _require(type(value) is kind, f"the value {value!r} of a {node.dtype} constant is no {kind.__name__}")
    if node.dtype.is_integer:
        assert isinstance(value, int)
        low = 0 if node.dtype.kind == "uint" else -(1 << (node.dtype.bits - 1))
        _require(low <= value < low + (1 << node.dtype.bits), f"{value} does not fit {node.dtype}")


def _size(node: Node, args: Sequence[Node]) -> None:
    _attr(node, "expr")
    _shape(node, ())
    _dtype(node, I64)


def _iota(node: Node, args: Sequence[Node]) -> None:
    _dim(node, "dim", len(node.shape))
    _dtype(node, I64)


def _pointwise(node: Node, args: Sequence[Node]) -> None:
    info = node.info
    data = args[1:] if node.op in ("where", "guard") else args
    if node.op == "guard":
        _require(_attr(node, "error") in ERRORS, f"unknown error {node.attr('error')!r}")
        _require(isinstance(_attr(node, "message"), str), "a guard without a message")
    if node.op in ("where", "guard"):
        _require(args[0].dtype == BOOL, f"the condition is {args[0].dtype}, not bool")
    names = ", ".join(a.dtype.name for a in data)
    _require(all(a.dtype == data[0].dtype for a in data), f"operands of {names}: they must agree")
    dtype = data[0].dtype
    if info.domain == "float":
        _require(dtype.is_float, f"{node.op} takes floats, not {dtype}")
    if info.domain == "int":
        _require(not dtype.is_float, f"{node.op} takes integers, not {dtype}")
    if node.op not in _ON_STORAGE:
        _require(not dtype.is_half, f"{node.op} computes on {dtype}: cast to f32 first")
    if info.result == "bool":
        _dtype(node, BOOL)
    elif info.result == "same":
        _dtype(node, args[-1].dtype)
    if node.op == "bitcast":
        _require(node.dtype.bits == dtype.bits, f"a bitcast from {dtype} to {node.dtype}")
    for operand in args:
        _require(
            not operand.shape or same_all(operand.shape, node.shape),
            f"operand %{operand.id} of shape {shape_text(operand.shape)} in a result of {shape_text(node.shape)}",
        )
    _require(any(o.shape for o in args) == bool(node.shape), f"its shape is {shape_text(node.shape)}")


_ON_STORAGE = frozenset({"cast", "bitcast", "copy", "guard"})


def _reduce(node: Node, args: Sequence[Node]) -> None:
    (operand,) = args
    dims = _attr(node, "dims")
    rank = len(operand.shape)
    _require(
        isinstance(dims, tuple)
        and len(dims) > 0
        and list(dims) == sorted(set(dims))
        and dims[0] >= 0
        and dims[-1] < rank,
        f"dims {dims} of rank {rank}",
    )
    assert isinstance(dims, tuple)
    _shape(node, [n for d, n in enumerate(operand.shape) if d not in dims])
    if node.info.domain == "bool":
        _require(operand.dtype == BOOL, f"{node.op} takes bools, not {operand.dtype}")
    _require(not operand.dtype.is_half, f"{node.op} computes on {operand.dtype}: cast to f32 first")
    _require(operand.dtype != BOOL or node.info.domain == "bool", f"{node.op} of bools")
    _dtype(node, I64 if node.op.startswith("arg") else operand.dtype)


def _bounds(index: Index, size: Size, axes: Mapping[str, Size]) -> None:
    """Raises where the index certainly leaves [0, size)."""
    _require(index.axes() <= axes.keys(), f"index {affine.render(index)} has an axis that the result has not")
    top = affine.upper_bound(index, axes)
    empty = any(isinstance(n, int) and n == 0 for n in axes.values())
    if isinstance(top, int) and isinstance(size, int) and not empty:
        _require(top < size, f"index {affine.render(index)} reaches {top} in a dim of {size}")
    lowest = norm(index.const + sum((c * (n - 1) for a, c, n in _negative(index, axes)), start=0))
    if isinstance(lowest, int) and not empty:
        _require(lowest >= 0, f"index {affine.render(index)} reaches {lowest}")


def _negative(index: Index, axes: Mapping[str, Size]) -> list[tuple[str, Size, Size]]:
    """The bare axes with a coefficient that is known to be negative, with their sizes."""
    found: list[tuple[str, Size, Size]] = []
    for atom, coef in index.terms:
        if isinstance(atom, str) and (coef < 0 if isinstance(coef, int) else bool(coef.is_negative)):
            found.append((atom, coef, axes[atom]))
    return found


def _axes(node: Node) -> dict[str, Size]:
    return {f"o{d}": n for d, n in enumerate(node.shape)}


def _map(node: Node, name: str, operand: Node, hole: int | None = None) -> None:
    index = _attr(node, name)
    _require(isinstance(index, tuple) and len(index) == len(operand.shape), f"{name} has not one index a dim")
    assert isinstance(index, tuple)
    for dim, (entry, size) in enumerate(zip(index, operand.shape, strict=True)):
        if dim == hole:
            _require(entry is None, f"{name} has an index at the gathered dim")
        else:
            _require(isinstance(entry, Index), f"{name} has no index for dim {dim}")
            _bounds(entry, size, _axes(node))


def _view(node: Node, args: Sequence[Node]) -> None:
    _dtype(node, args[0].dtype)
    _map(node, "map", args[0])


def _reshape(node: Node, args: Sequence[Node]) -> None:
    _dtype(node, args[0].dtype)
    _require(same(prod(node.shape), prod(args[0].shape)), f"{shape_text(args[0].shape)} has another number of elements")


def _pad(node: Node, args: Sequence[Node]) -> None:
    low = _attr(node, "low")
    _require(isinstance(low, tuple) and len(low) == len(node.shape) == len(args[0].shape), f"low {low}")
    assert isinstance(low, tuple)
    _require(hasattr(_attr(node, "value"), "value"), "a fill that is no constant")
    _dtype(node, args[0].dtype)
    for before, inner, outer in zip(low, args[0].shape, node.shape, strict=True):
        after = norm(outer - inner - before)
        _require(not any(isinstance(n, int) and n < 0 for n in (before, after)), f"a pad by {before} and {after}")


def _cat(node: Node, args: Sequence[Node]) -> None:
    _require(bool(args), "cat of nothing")
    dim = _dim(node, "dim", len(node.shape))
    total: Size = 0
    for operand in args:
        _dtype(node, operand.dtype)
        _require(len(operand.shape) == len(node.shape), f"%{operand.id} has another rank")
        for d, (a, b) in enumerate(zip(operand.shape, node.shape, strict=True)):
            _require(d == dim or same(a, b), f"%{operand.id} has size {a} in dim {d}, the result {b}")
        total = total + operand.shape[dim]
    _require(same(norm(total), node.shape[dim]), f"the operands have {norm(total)} along dim {dim}")


def _gather(node: Node, args: Sequence[Node]) -> None:
    value, index = args
    _dtype(node, value.dtype)
    _require(index.dtype in (I32, I64), f"an index of {index.dtype}")
    _map(node, "map", value, hole=_dim(node, "dim", len(value.shape)))
    _map(node, "index_map", index)


def _random(node: Node, args: Sequence[Node]) -> None:
    _require(
        args[0].dtype == I64 and same(prod(args[0].shape), 1), f"a seed of {args[0].dtype}{shape_text(args[0].shape)}"
    )
    _require(isinstance(_attr(node, "slot"), int), "a slot that is no integer")
    _dtype(node, BOOL if node.op == "keep" else F32)
    if node.op == "keep":
        prob = _attr(node, "keep_prob")
        _require(isinstance(prob, float) and 0.0 <= prob <= 1.0, f"keep_prob {prob}")


def _opaque(node: Node, args: Sequence[Node]) -> None:
    _attr(node, "key")
    _attr(node, "reason")


def _result(node: Node, args: Sequence[Node]) -> None:
    _require(args[0].op == "opaque", f"%{args[0].id} is no opaque call")
    _require(isinstance(_attr(node, "index"), int), "an index that is no integer")


_Rule = Callable[[Node, Sequence[Node]], None]

_RULES: dict[str, _Rule] = {
    "input": _input,
    "const": _const,
    "size": _size,
    "iota": _iota,
    "opaque": _opaque,
    "result": _result,
    "view": _view,
    "reshape": _reshape,
    "pad": _pad,
    "cat": _cat,
    "gather": _gather,
    "keep": _random,
    "uniform": _random,
}
_GROUP_RULES: dict[str, _Rule] = {"pointwise": _pointwise, "reduce": _reduce}
