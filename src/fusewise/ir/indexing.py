"""Where a node reads its operands: index maps carried from a result's index to the operands' indexes.

An index tuple has one `Index` a dim, over named axes whose sizes are given; dims of size 1 have index 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusewise.errors import IRError
from fusewise.ir import affine
from fusewise.ir.affine import Div, Index, Loaded, Mod
from fusewise.ir.graph import Graph, Node
from fusewise.ir.sizes import Size, contiguous_strides, divide, is_zero_numel, norm, prod, same

At = tuple[Index, ...]
Sizes = Mapping[str, Size]


def operand_at(graph: Graph, node: Node, position: int, at: At, sizes: Sizes) -> At:
    """Index at which `node`, computed at `at`, reads operand number `position` (not for reductions)."""
    operand = graph[node.args[position]]
    match node.op:
        case "view":
            return _through(node.attr("map"), at, sizes)
        case "reshape":
            return _unravel(operand.shape, node.shape, at, sizes)
        case "pad":
            return tuple(i - low for i, low in zip(at, node.attr("low"), strict=True))
        case "cat":
            dim = node.attr("dim")
            before: Size = sum((graph[a].shape[dim] for a in node.args[:position]), start=0)
            return tuple(i - before if d == dim else i for d, i in enumerate(at))
        case "gather":
            inner = _through(node.attr("index_map"), at, sizes)
            if position == 1:
                return inner
            dim = node.attr("dim")
            loaded = Index(((Loaded(node.args[1], inner), 1),))
            return tuple(loaded if d == dim else _one(i, at, sizes) for d, i in enumerate(node.attr("map")))
        case _ if node.info.group in ("pointwise", "random"):
            return () if not operand.shape else at
        case _:
            raise IRError(f"{node.op} does not read its operands through an index map")


def reduction_at(node: Node, at: At, inner: Sequence[Index]) -> At:
    """Index at which a reduction reads its operand: `inner` for the reduced dims, `at` for the others."""
    dims = node.attr("dims")
    rank = len(node.shape) + len(dims)
    kept, reduced = iter(at), iter(inner)
    return tuple(next(reduced) if d in dims else next(kept) for d in range(rank))


def resolve(graph: Graph, node: int, at: At, sizes: Sizes) -> tuple[int, At]:
    """Follows views from `node` at `at` to the value that they read and its index."""
    while graph[node].info.group == "view":
        at = operand_at(graph, graph[node], 0, at, sizes)
        node = graph[node].args[0]
    return node, at


def digits(index: Index, size: Size, sizes: Sizes) -> list[str] | None:
    """Axes whose mixed-radix number `index` is, innermost first, where they cover 0 .. size - 1 exactly; else None."""
    if not same(index.const, 0) or not index.is_affine:
        return None
    left: dict[str, Size] = {str(atom): coef for atom, coef in index.terms}
    expected: Size = 1
    found: list[str] = []
    while left:
        name = next((a for a, c in left.items() if same(c, expected)), None)
        if name is None:
            return None
        del left[name]
        found.append(name)
        expected = norm(expected * sizes[name])
    return found if same(expected, size) else None


def wanted_splits(at: At, sizes: Sizes) -> dict[str, Size]:
    """Axes that a quotient or remainder in `at` cuts evenly: axis -> size of its inner part."""
    found: dict[str, Size] = {}

    def look(index: Index) -> None:
        for atom, _ in index.terms:
            if isinstance(atom, (Div, Mod)):
                for name, coef in atom.arg.terms:
                    inner = divide(atom.by, -coef if _is_negative(coef) else coef)  # a flip runs down
                    if not isinstance(name, str) or inner is None or same(inner, 1) or same(inner, sizes[name]):
                        continue
                    if divide(sizes[name], inner) is not None:
                        found.setdefault(name, inner)
                look(atom.arg)
            elif isinstance(atom, Loaded):
                for part in atom.at:
                    look(part)

    for index in at:
        look(index)
    return found


def _is_negative(size: Size) -> bool:
    return size < 0 if isinstance(size, int) else bool(size.is_negative)


def strided(
    graph: Graph, node: int, strides: Mapping[int, tuple[Size, ...]]
) -> tuple[int, tuple[Size, ...], Size] | None:
    """(base, element strides, element offset) where `node` is a chain of views that PyTorch could express over the
    value `base` with the given strides; None where the chain needs a copy."""
    shape = graph[node].shape
    sizes = {f"v{d}": s for d, s in enumerate(shape)}
    at: At = tuple(affine.constant(0) if same(s, 1) else affine.axis(f"v{d}") for d, s in enumerate(shape))
    base, at = resolve(graph, node, at, sizes)
    if base not in strides:
        return None
    offset = Index()
    for index, stride in zip(at, strides[base], strict=True):
        offset = offset + index * stride
    if not offset.is_affine:
        return None
    out = []
    plain = contiguous_strides(shape)
    for d, size in enumerate(shape):
        step = offset.coefficient(f"v{d}")
        if isinstance(step, int) and step < 0:
            return None
        out.append(plain[d] if same(size, 1) else step)
    return base, tuple(out), offset.const


def _through(mapping: Sequence[Index], at: At, sizes: Sizes) -> At:
    return tuple(_one(index, at, sizes) for index in mapping)


def _one(index: Index, at: At, sizes: Sizes) -> Index:
    return affine.substitute(index, {f"o{d}": i for d, i in enumerate(at)}, sizes)


def _unravel(old: Sequence[Size], new: Sequence[Size], at: At, sizes: Sizes) -> At:
    """Index into a row-major tensor of shape `old` of what its reshape to `new` has at `at`."""
    if is_zero_numel(old):
        return (Index(),) * len(old)  # nothing is ever read, and the sizes need not match up
    result: list[Index] = [Index()] * len(old)
    for old_dims, new_dims in _groups(old, new):
        linear = Index()
        for d, stride in zip(new_dims, contiguous_strides([new[d] for d in new_dims]), strict=True):
            linear = linear + at[d] * stride
        for d in reversed(old_dims[1:]):
            result[d] = affine.modulo(linear, old[d], sizes)
            linear = affine.floordiv(linear, old[d], sizes)
        if old_dims:
            result[old_dims[0]] = linear
    return tuple(result)


def _groups(old: Sequence[Size], new: Sequence[Size]) -> list[tuple[list[int], list[int]]]:
    """Runs of old and new dims with equal products, smallest runs first."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(left), j + len(right)
        while True:
            a, b = prod(old[d] for d in left), prod(new[d] for d in right)
            if same(a, b):
                break
            take_old = i < len(old) and (j >= len(new) or divide(b, a) is not None)
            if i >= len(old) and j >= len(new):
                raise IRError(f"reshape of {tuple(old)} to {tuple(new)}: sizes do not match")
            if take_old:
                left.append(i)
                i += 1
            elif j < len(new):
                right.append(j)
                j += 1
        groups.append((left, right))
    return groups
