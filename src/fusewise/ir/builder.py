"""Builds graphs: type rules, broadcasting, views as index maps, constant folding of scalars, one node for equal values.

`Value` is a handle on a node under construction and has the arithmetic operators; both operands of an operator are
broadcast to a common shape. No type promotion happens here: operands must agree (the importer casts).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusewise.errors import IRError
from fusewise.ir import affine, dtypes
from fusewise.ir.affine import Index
from fusewise.ir.dtypes import BOOL, I64, DType
from fusewise.ir.graph import Graph, Node, Origin, SymbolInfo, freeze_attrs, live_nodes
from fusewise.ir.ops import OPS
from fusewise.ir.sizes import Size, norm, prod, same, same_all

Scalar = bool | int | float


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A node under construction: `builder.nodes[id]`."""

    builder: Builder
    id: int

    @property
    def node(self) -> Node:
        return self.builder.nodes[self.id]

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.node.shape

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    def __add__(self, other: Value | Scalar) -> Value:
        return self.builder.op("add", self, other)

    def __radd__(self, other: Scalar) -> Value:
        return self.builder.op("add", other, self)

    def __sub__(self, other: Value | Scalar) -> Value:
        return self.builder.op("sub", self, other)

    def __rsub__(self, other: Scalar) -> Value:
        return self.builder.op("sub", other, self)

    def __mul__(self, other: Value | Scalar) -> Value:
        return self.builder.op("mul", self, other)

    def __rmul__(self, other: Scalar) -> Value:
        return self.builder.op("mul", other, self)

    def __truediv__(self, other: Value | Scalar) -> Value:
        return self.builder.op("div", self, other)

    def __rtruediv__(self, other: Scalar) -> Value:
        return self.builder.op("div", other, self)

    def __neg__(self) -> Value:
        return self.builder.op("neg", self)

    def __and__(self, other: Value) -> Value:
        return self.builder.op("and", self, other)

    def __or__(self, other: Value) -> Value:
        return self.builder.op("or", self, other)

    def __invert__(self) -> Value:
        return self.builder.op("not", self)

    def __lt__(self, other: Value | Scalar) -> Value:
        return self.builder.op("lt", self, other)

    def __le__(self, other: Value | Scalar) -> Value:
        return self.builder.op("le", self, other)

    def __gt__(self, other: Value | Scalar) -> Value:
        return self.builder.op("gt", self, other)

    def __ge__(self, other: Value | Scalar) -> Value:
        return self.builder.op("ge", self, other)

    def eq(self, other: Value | Scalar) -> Value:
        return self.builder.op("eq", self, other)

    def ne(self, other: Value | Scalar) -> Value:
        return self.builder.op("ne", self, other)

    def cast(self, dtype: DType) -> Value:
        """The value converted to `dtype` (itself where it already is)."""
        return self.builder.cast(self, dtype)


# Reductions that are also an op of two operands, and up to how many stacked values are taken one by one.
_PAIRWISE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}
_MOST_STACKED = 32


class Builder:
    """Collects nodes; `finish` makes the graph.

    Attributes:
        nodes: the nodes so far.
        origin: put on each node that is made; set it before expanding a PyTorch op.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.nodes: list[Node] = []
        self.origin = Origin()
        self.device = device
        self._strides: dict[int, tuple[Size, ...]] = {}
        self._symbols: dict[str, SymbolInfo] = {}
        self._seen: dict[tuple[Any, ...], int] = {}
        self._inputs: list[int] = []

    # ---- sources

    def input(self, shape: Sequence[Size], dtype: DType, strides: Sequence[Size] | None = None) -> Value:
        """The next tensor that the caller passes; `strides` in elements (default: row-major)."""
        from fusewise.ir.sizes import contiguous_strides

        value = self._emit("input", (), tuple(shape), dtype, {"position": len(self._inputs)})
        self._inputs.append(value.id)
        self._strides[value.id] = tuple(strides) if strides is not None else contiguous_strides(shape)
        return value

    def symbol(self, name: str, info: SymbolInfo) -> None:
        """Declares a size symbol."""
        self._symbols[name] = info

    def const(self, value: Scalar, dtype: DType) -> Value:
        """A scalar constant of `dtype`, rounded to it."""
        number: Scalar
        if dtype.kind == "bool":
            number = bool(value)
        elif dtype.is_integer:
            number = wrap_int(int(value), dtype)
        else:
            number = float(value)
        # repr keeps -0.0 and NaN apart from 0.0 in the key of equal values
        return self._emit("const", (), (), dtype, {"value": _ConstKey(number)})

    def size(self, expr: Size, dtype: DType = I64) -> Value:
        """A size as a scalar value."""
        expr = norm(expr)
        if isinstance(expr, int):
            return self.const(expr, dtype)
        return self._emit("size", (), (), I64, {"expr": expr}).cast(dtype)

    def iota(self, shape: Sequence[Size], dim: int) -> Value:
        """i64 tensor of `shape` whose value is the index along `dim`."""
        return self._emit("iota", (), tuple(shape), I64, {"dim": dim})

    def full(self, shape: Sequence[Size], value: Value | Scalar, dtype: DType) -> Value:
        """`value` broadcast to `shape`."""
        scalar = value if isinstance(value, Value) else self.const(value, dtype)
        return self.expand(scalar, shape)

    # ---- pointwise

    def op(self, name: str, *operands: Value | Scalar, dtype: DType | None = None, **attrs: Any) -> Value:
        """A pointwise op on broadcast operands; a Python number takes the dtype of the other operands.

        Args:
            dtype: the result's dtype where the op's table says `attr` (cast, bitcast).
        """
        info = OPS[name]
        if info.group != "pointwise" or info.arity != len(operands):
            raise IRError(f"{name} takes {info.arity} operands and is {info.group}, got {len(operands)}")
        kind = self._common_dtype(name, operands)
        values = [o if isinstance(o, Value) else self.const(o, kind) for o in operands]
        shape = broadcast_shapes([v.shape for v in values])
        values = [v if not v.shape else self.expand(v, shape) for v in values]
        result = {"same": values[-1].dtype, "bool": BOOL, "attr": dtype}[info.result]
        if result is None:
            raise IRError(f"{name} needs the dtype of its result")
        folded = self._fold(name, values, result) or self._simplify(name, values)
        return folded or self._emit(name, values, shape, result, attrs)

    def cast(self, value: Value, dtype: DType) -> Value:
        """Converts to `dtype`; the value itself where it already has it."""
        if value.dtype == dtype:
            return value
        return self.op("cast", value, dtype=dtype)

    def where(self, cond: Value, then: Value | Scalar, other: Value | Scalar) -> Value:
        """`then` where `cond`, else `other`."""
        return self.op("where", cond, then, other)

    def guard(self, cond: Value, value: Value, message: str, error: str = "RuntimeError") -> Value:
        """`value`; the call raises `error` (a name of `ir.ops.ERRORS`) where `cond` is false."""
        return self.op("guard", cond, value, error=error, message=message)

    # ---- reductions

    def reduce(self, name: str, value: Value, dims: Iterable[int] | None = None, keepdim: bool = False) -> Value:
        """Reduces over `dims` (None or empty: all). argmax and argmin give i64."""
        if OPS[name].group != "reduce":
            raise IRError(f"{name} is no reduction")
        rank = len(value.shape)
        chosen = tuple(sorted({d % rank for d in dims})) if rank and dims is not None else tuple(range(rank))
        chosen = chosen or tuple(range(rank))
        kept = tuple(s for i, s in enumerate(value.shape) if i not in chosen)
        dtype = I64 if OPS[name].result == "attr" else value.dtype
        if rank == 0:
            return self.const(0, I64) if dtype == I64 and name.startswith("arg") else value
        out = self._reduce_stack(name, value, chosen) or self._emit(name, [value], kept, dtype, {"dims": chosen})
        if keepdim:
            out = self.reshape(out, [1 if i in chosen else s for i, s in enumerate(value.shape)])
        return out

    def _reduce_stack(self, name: str, value: Value, chosen: tuple[int, ...]) -> Value | None:
        """Stacked values reduced over the axis of the stack, by one op between each two: nothing is joined for it."""
        cast = value.node.op == "cast"
        joined = Value(self, value.node.args[0]) if cast else value
        if joined.node.op != "cat" or name not in _PAIRWISE or joined.node.attr("dim") not in chosen:
            return None
        parts = [Value(self, a) for a in joined.node.args]
        if len(parts) > _MOST_STACKED or any(not same(p.shape[joined.node.attr("dim")], 1) for p in parts):
            return None
        total: Value | None = None
        for part in parts:
            reduced = self.reduce(name, self.cast(part, value.dtype) if cast else part, chosen)
            total = reduced if total is None else self.op(_PAIRWISE[name], total, reduced)
        return total

    # ---- index maps

    def view(self, value: Value, shape: Sequence[Size], index: Sequence[Index]) -> Value:
        """The view `out[o0, o1, ...] = value[index[0], ...]`, each index affine in the axes "o0", "o1", ..."""
        shape = tuple(map(norm, shape))
        identity = same_all(shape, value.shape) and all(
            i == affine.axis(f"o{d}") or (i == affine.constant(0) and same(shape[d], 1)) for d, i in enumerate(index)
        )
        if identity:
            return value
        return self._emit("view", [value], shape, value.dtype, {"map": tuple(index)})

    def expand(self, value: Value, shape: Sequence[Size]) -> Value:
        """Broadcasts to `shape` by PyTorch's rules."""
        lead = len(shape) - len(value.shape)
        if lead < 0 or any(not same(n, 1) and not same(n, shape[d + lead]) for d, n in enumerate(value.shape)):
            raise IRError(f"shape {value.shape} does not broadcast to {tuple(shape)}")
        index = [
            affine.constant(0) if same(size, 1) and not same(shape[d + lead], 1) else affine.axis(f"o{d + lead}")
            for d, size in enumerate(value.shape)
        ]
        return self.view(value, shape, index)

    def permute(self, value: Value, dims: Sequence[int]) -> Value:
        """Dim `i` of the result is dim `dims[i]` of the operand."""
        rank = len(value.shape)
        dims = [d % rank for d in dims]
        index = [affine.axis(f"o{dims.index(d)}") for d in range(rank)]
        return self.view(value, [value.shape[d] for d in dims], index)

    def slice(self, value: Value, dim: int, start: Size, length: Size, step: int = 1) -> Value:
        """Elements start, start + step, ... (`length` of them) along `dim`; a negative step flips."""
        index = [affine.axis(f"o{d}") for d in range(len(value.shape))]
        index[dim] = affine.axis(f"o{dim}") * step + start
        shape = list(value.shape)
        shape[dim] = length
        return self.view(value, shape, index)

    def select(self, value: Value, dim: int, at: Size) -> Value:
        """Drops `dim` at index `at`."""
        index = [affine.axis(f"o{d if d < dim else d - 1}") for d in range(len(value.shape))]
        index[dim] = affine.constant(at)
        return self.view(value, [s for d, s in enumerate(value.shape) if d != dim], index)

    def flip(self, value: Value, dims: Iterable[int]) -> Value:
        """Reverses the order along `dims`."""
        for dim in dims:
            size = value.shape[dim]
            value = self.slice(value, dim, norm(size - 1), size, -1)
        return value

    def reshape(self, value: Value, shape: Sequence[Size]) -> Value:
        """Row-major regrouping of the dims; the number of elements stays."""
        shape = tuple(map(norm, shape))
        if same_all(shape, value.shape):
            return value
        if not same(prod(shape), prod(value.shape)):
            raise IRError(f"cannot reshape {value.shape} to {shape}")
        squeezed = _unit_dims_only(value.shape, shape)
        if squeezed is not None:
            return self.view(value, shape, squeezed)
        return self._emit("reshape", [value], shape, value.dtype, {})

    # ---- loads with conditions or data indexes

    def pad(self, value: Value, low: Sequence[Size], high: Sequence[Size], fill: Scalar) -> Value:
        """Adds `low[d]` elements before and `high[d]` after dim d, holding `fill`. Negative amounts cut (integers)."""
        for dim, (before, after) in enumerate(zip(low, high, strict=True)):
            cut_low = -before if isinstance(before, int) and before < 0 else 0
            cut_high = -after if isinstance(after, int) and after < 0 else 0
            if cut_low or cut_high:
                value = self.slice(value, dim, cut_low, norm(value.shape[dim] - cut_low - cut_high))
        low = tuple(0 if isinstance(n, int) and n < 0 else n for n in low)
        high = tuple(0 if isinstance(n, int) and n < 0 else n for n in high)
        shape = tuple(norm(s + a + b) for s, a, b in zip(value.shape, low, high, strict=True))
        if same_all(shape, value.shape):
            return value
        return self._emit("pad", [value], shape, value.dtype, {"low": low, "value": _ConstKey(fill)})

    def cat(self, values: Sequence[Value], dim: int) -> Value:
        """Joins along `dim`; the other sizes agree."""
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        shape[dim] = norm(sum((v.shape[dim] for v in values[1:]), start=values[0].shape[dim]))
        return self._emit("cat", list(values), tuple(shape), values[0].dtype, {"dim": dim})

    def gather(
        self,
        value: Value,
        index: Value,
        dim: int,
        shape: Sequence[Size],
        at: Sequence[Index | None],
        index_at: Sequence[Index],
        error: str = "IndexError",
    ) -> Value:
        """`out[o] = value[..., index[index_at(o)], ...]`: dim `dim` of the operand is read at a loaded index.

        Args:
            index: i64 or i32, each entry in [-n, n) with n the size along `dim` (negative counts from the end).
            shape: the result's shape.
            at: one index a dim of `value` over the axes "o0", ...; None at `dim`.
            index_at: one index a dim of `index`.
            error: what is raised for an entry out of range, a name of `ir.ops.ERRORS`.
        """
        attrs: dict[str, Any] = {"dim": dim, "map": tuple(at), "index_map": tuple(index_at)}
        if error != "IndexError":
            attrs["error"] = error
        return self._emit("gather", [value, index], tuple(shape), value.dtype, attrs)

    # ---- random bits

    def keep(self, seed: Value, shape: Sequence[Size], slot: int, keep_prob: float) -> Value:
        """bool tensor, True with `keep_prob` (to 2^-16; 0 and 1 exactly), from (seed, slot, element number) alone."""
        return self._emit("keep", [seed], tuple(shape), BOOL, {"slot": slot, "keep_prob": float(keep_prob)})

    def uniform(self, seed: Value, shape: Sequence[Size], slot: int) -> Value:
        """f32 tensor in [0, 1), 24 random bits an element, from (seed, slot, element number) alone."""
        return self._emit("uniform", [seed], tuple(shape), dtypes.F32, {"slot": slot})

    # ---- opaque ops

    def opaque(self, operands: Sequence[Value], key: int, reason: str, aliases: bool = False) -> Value:
        """A PyTorch op run as it is. `key` names the call in the capture's table; take results with `result`.

        Args:
            aliases: a result may lie in the memory of an operand.
        """
        attrs = {"key": key, "reason": reason, **({"aliases": True} if aliases else {})}
        return self._emit("opaque", list(operands), (), dtypes.BOOL, attrs)

    def result(self, call: Value, index: int, shape: Sequence[Size], dtype: DType, strides: Sequence[Size]) -> Value:
        """Output `index` of an opaque op, with the strides that PyTorch gives it."""
        value = self._emit("result", [call], tuple(shape), dtype, {"index": index})
        self._strides[value.id] = tuple(strides)
        return value

    def set_strides(self, value: Value, strides: Sequence[Size]) -> None:
        """Fixes the layout that `value` has where it is stored (the first fixing stays)."""
        self._strides.setdefault(value.id, tuple(strides))

    def copy(self, node: Node, args: Sequence[Value]) -> Value:
        """A node of another graph on new operands. Inputs must be copied in their order."""
        value = self._emit(node.op, args, node.shape, node.dtype, dict(node.attrs))
        if node.op == "input":
            self._inputs.append(value.id)
        return value

    # ---- the end

    def finish(self, outputs: Sequence[Value], writes: Mapping[int, int] | None = None) -> Graph:
        """The graph of what `outputs` need (all inputs stay), numbered anew; `writes` as in `Graph`."""
        roots = [v.id for v in outputs] + self._inputs
        live = live_nodes(self.nodes, roots)
        number = {old: new for new, old in enumerate(sorted(live))}
        nodes = tuple(
            replace(self.nodes[old], id=new, args=tuple(number[a] for a in self.nodes[old].args))
            for old, new in number.items()
        )
        return Graph(
            nodes=nodes,
            inputs=tuple(number[i] for i in self._inputs),
            outputs=tuple(number[v.id] for v in outputs),
            strides={number[i]: s for i, s in self._strides.items() if i in number},
            symbols=dict(self._symbols),
            device=self.device,
            writes=dict(writes or {}),
        )

    # ---- inside

    def _emit(
        self, op: str, args: Sequence[Value], shape: tuple[Size, ...], dtype: DType, attrs: Mapping[str, Any]
    ) -> Value:
        shape = tuple(map(norm, shape))
        ids = tuple(v.id for v in args)
        frozen = freeze_attrs(attrs)
        key = (op, ids, shape, dtype, frozen)
        # an opaque op may have an effect and an input is named by its position: neither is ever merged
        if op not in ("opaque", "input") and key in self._seen:
            return Value(self, self._seen[key])
        node = Node(len(self.nodes), op, ids, shape, dtype, frozen, self.origin)
        self.nodes.append(node)
        self._seen[key] = node.id
        return Value(self, node.id)

    def _common_dtype(self, name: str, operands: Sequence[Value | Scalar]) -> DType:
        found = [o.dtype for o in (operands[1:] if name in ("where", "guard") else operands) if isinstance(o, Value)]
        if not found:
            raise IRError(f"{name} has no operand with a dtype", "Give one operand as a Value.")
        if any(d != found[0] for d in found):
            raise IRError(f"{name} of {', '.join(d.name for d in found)}: operands must agree", "Cast them first.")
        return found[0]

    def _fold(self, name: str, values: Sequence[Value], result: DType) -> Value | None:
        """The result where every operand is a constant and the op is plain arithmetic; else None."""
        if not all(v.node.op == "const" for v in values):
            return None
        numbers = [v.node.attr("value").value for v in values]
        if name == "cast":
            source = numbers[0]
            whole = not result.is_float and result.kind != "bool"
            if whole and isinstance(source, float) and not math.isfinite(source):
                return None
            if result.is_half or (result.name == "f32" and isinstance(source, float)):
                return None  # rounding is left to the kernel
            return self.const(source, result)
        return None

    def _simplify(self, name: str, values: Sequence[Value]) -> Value | None:
        """An operand that the op is equal to for every value of the others, bit for bit; else None."""

        def number(at: int) -> Scalar | None:
            root = values[at].node
            while root.info.group == "view":
                root = self.nodes[root.args[0]]
            return root.attr("value").value if root.op == "const" else None

        match name:
            case "where" if values[1].dtype == BOOL and number(1) is True and number(2) is False:
                return values[0] if values[0].shape else None
            case "where" if values[1].id == values[2].id and values[1].shape:
                return values[1]
            case "not" if values[0].node.op == "not":
                return Value(self, values[0].node.args[0])
            case "add" | "sub" | "or" | "xor" if not values[0].dtype.is_float:
                for at, other in ((1, 0), (0, 1)) if name != "sub" else ((1, 0),):
                    neutral = number(at)
                    if neutral is not None and neutral == 0 and values[other].shape:
                        return values[other]
                return None
            case "mul" if values[0].dtype.is_integer and values[0].shape and number(1) == 1:
                return values[0]
            case _:
                return None


@dataclass(frozen=True, slots=True)
class _ConstKey:
    """A Python number compared by its text, so that -0.0, 0.0, NaN, 1 and True stay apart."""

    value: Scalar

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ConstKey) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


def wrap_int(value: int, dtype: DType) -> int:
    """`value` reduced to the range of an integer dtype (two's complement)."""
    low = value & ((1 << dtype.bits) - 1)
    if dtype.kind == "int" and low >= 1 << (dtype.bits - 1):
        low -= 1 << dtype.bits
    return low


def broadcast_shapes(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The common shape by PyTorch's rules; raises `IRError` where there is none."""
    rank = max((len(s) for s in shapes), default=0)
    out: list[Size] = []
    for position in range(rank):
        size: Size = 1
        for shape in shapes:
            at = position - (rank - len(shape))
            if at < 0 or same(shape[at], 1):
                continue
            if not same(size, 1) and not same(size, shape[at]):
                raise IRError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
            size = shape[at]
        out.append(size)
    return tuple(out)


def _unit_dims_only(old: Sequence[Size], new: Sequence[Size]) -> list[Index] | None:
    """The index map of a reshape that only adds or drops dims of size 1, else None."""
    big = [d for d, s in enumerate(old) if not same(s, 1)]
    new_big = [d for d, s in enumerate(new) if not same(s, 1)]
    if not same_all([old[d] for d in big], [new[d] for d in new_big]):
        return None
    place = dict(zip(big, new_big, strict=True))
    return [affine.axis(f"o{place[d]}") if d in place else affine.constant(0) for d in range(len(old))]
