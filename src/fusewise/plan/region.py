"""Regions: sets of nodes that run as one kernel over a common set of axes, and when two of them can be one.

Each native node of a region has an index over the region's axes and is computed once a point. A value that varies along
a reduce axis is an element value, any other a row value. Merging lines up the axes of a producer and a consumer: an
axis is split where one side has it finer (a reshape costs nothing), and a consumer that spreads a row's result over the
row again shares the row's reduce axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fusewise.ir import affine
from fusewise.ir.affine import Index
from fusewise.ir.graph import Graph, Node
from fusewise.ir.indexing import At, digits, operand_at, reduction_at, resolve, wanted_splits
from fusewise.ir.sizes import Size, divide, norm, same

_names = itertools.count()


class CannotMerge(Exception):
    """Two regions cannot be one kernel; `code` is the reason code of the decision."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


@dataclass(slots=True)
class Region:
    """Nodes that run as one kernel.

    Attributes:
        axes: size of each axis, outermost first.
        reduce: the axes of the row, which are reduced over.
        loop: axes that one program walks row by row, summing over them at each point of the row.
        at: index of each native node's value.
        operand: for a native reduction, the index at which it reads its operand.
        reads: values from outside, each with the indexes at which they are read.
    """

    axes: dict[str, Size]
    reduce: frozenset[str]
    at: dict[int, At]
    operand: dict[int, At]
    reads: dict[int, list[At]] = field(default_factory=dict)
    loop: frozenset[str] = frozenset()

    @property
    def nodes(self) -> Iterable[int]:
        return self.at.keys()

    def substitute(self, table: Mapping[str, Index]) -> None:
        """Replaces axes by expressions in every index; `axes` must hold the new axes already."""

        def change(at: At) -> At:
            return tuple(affine.substitute(i, table, self.axes) for i in at)

        cache: dict[At, At] = {}

        def cached(at: At) -> At:
            found = cache.get(at)
            if found is None:
                found = cache[at] = change(at)
            return found

        self.at = {n: cached(at) for n, at in self.at.items()}
        self.operand = {n: cached(at) for n, at in self.operand.items()}
        self.reads = {n: list(dict.fromkeys(map(cached, ats))) for n, ats in self.reads.items()}

    def split(self, axis: str, inner: Size) -> None:
        """Replaces `axis` by an outer and an inner axis of size `inner` (which divides it)."""
        outer_size = divide(self.axes[axis], inner)
        assert outer_size is not None
        outer, low = fresh_axis(), fresh_axis()
        axes: dict[str, Size] = {}
        for name, size in self.axes.items():
            if name == axis:
                axes[outer], axes[low] = outer_size, inner
            else:
                axes[name] = size
        self.axes = axes
        if axis in self.reduce:
            self.reduce = (self.reduce - {axis}) | {outer, low}
        if axis in self.loop:
            self.loop = (self.loop - {axis}) | {outer, low}
        self.substitute({axis: affine.axis(outer) * inner + affine.axis(low)})

    def copy(self) -> Region:
        return Region(
            dict(self.axes),
            self.reduce,
            dict(self.at),
            dict(self.operand),
            {n: list(a) for n, a in self.reads.items()},
            self.loop,
        )

    def over(self, node: int) -> frozenset[str]:
        """Axes that a native reduction reduces over; none where each of the reduced sizes is 1."""
        return frozenset().union(*(i.axes() for i in self.operand[node])) - self.at_axes(node)

    def is_column(self, node: int) -> bool:
        """True for a native reduction over the loop axes."""
        return bool(self.over(node) & self.loop)

    def at_axes(self, node: int) -> frozenset[str]:
        """Axes along which a native value varies."""
        return frozenset().union(*(i.axes() for i in self.at[node]))


def fresh_axis() -> str:
    """A new axis name."""
    return f"a{next(_names)}"


def single(graph: Graph, node: Node) -> Region:
    """The region of one node."""
    axes: dict[str, Size] = {}

    def index_for(shape: Iterable[Size]) -> At:
        at: list[Index] = []
        for size in shape:
            if same(size, 1):
                at.append(affine.constant(0))
            else:
                name = fresh_axis()
                axes[name] = size
                at.append(affine.axis(name))
        return tuple(at)

    at = index_for(node.shape)
    operand: dict[int, At] = {}
    reduce: frozenset[str] = frozenset()
    if node.info.group == "reduce":
        outer = set(axes)
        source = graph[node.args[0]]
        inner = index_for(source.shape[d] for d in node.attr("dims"))
        reduce = frozenset(axes) - outer
        operand[node.id] = reduction_at(node, at, inner)
    region = Region(axes, reduce, {node.id: at}, operand)
    find_reads(graph, region)
    return region


def find_reads(graph: Graph, region: Region) -> None:
    """Fills `region.reads`; axes that a read cuts evenly are split."""
    while True:
        region.reads = {}
        splits: dict[str, Size] = {}
        for number, at in region.at.items():
            node = graph[number]
            for value, where in _operand_reads(graph, region, node, at):
                splits.update(wanted_splits(where, region.axes))
                if value not in region.at:
                    places = region.reads.setdefault(value, [])
                    if where not in places:
                        places.append(where)
        if not splits:
            return
        axis, inner = next(iter(splits.items()))
        region.split(axis, inner)


def _operand_reads(graph: Graph, region: Region, node: Node, at: At) -> list[tuple[int, At]]:
    if node.id in region.operand:
        return [resolve(graph, node.args[0], region.operand[node.id], region.axes)]
    return [
        resolve(graph, arg, operand_at(graph, node, position, at, region.axes), region.axes)
        for position, arg in enumerate(node.args)
    ]


def merge(graph: Graph, producer: Region, consumer: Region, shared: Iterable[int] = ()) -> Region:
    """One region of both, or `CannotMerge`.

    Args:
        shared: values from outside that both read, tried as the link where the consumer reads nothing of the producer;
            where there is none, both must have the same axes in the same roles.
    """
    left, right = producer.copy(), consumer.copy()
    links = [n for n in right.reads if n in left.at]
    for _ in range(64):
        if links:
            problem = _line_up(graph, left, right, left.at[links[0]], right.reads[links[0]][0], graph[links[0]].shape)
        elif (link := next(iter(shared), None)) is None:
            problem = _same_axes(left, right)
        else:
            problem = _line_up(graph, left, right, left.reads[link][0], right.reads[link][0], graph[link].shape)
        if isinstance(problem, dict):
            return _join(graph, left, right, problem)
        side, axis, inner = problem
        side.split(axis, inner)
    raise CannotMerge("axes", "no common refinement of the axes was found")


_Split = tuple[Region, str, Size]


def _line_up(
    graph: Graph, left: Region, right: Region, at_left: At, at_right: At, shape: tuple[Size, ...]
) -> dict[str, str] | _Split:
    """Axis of `left` for each axis of `right`, or an axis that must be split first."""
    pairs: dict[str, str] = {}
    for index_left, index_right, size in zip(at_left, at_right, shape, strict=True):
        digits_left = digits(index_left, size, left.axes)
        digits_right = digits(index_right, size, right.axes)
        if digits_left is None or digits_right is None:
            raise CannotMerge("index-map", f"read at [{index_right}], computed at [{index_left}]")
        found = _pair(left, right, digits_left, digits_right, pairs)
        if found is not None:
            return found
    rest_left = [a for a in left.axes if a not in pairs.values()]
    rest_right = [a for a in right.axes if a not in pairs]
    if rest_left and rest_right:
        # the producer's row is spread over the consumer's remaining axes: they must be the row
        if not set(rest_left) <= left.reduce:
            raise CannotMerge("domain", "the two iterate over different axes")
        found = _pair(left, right, rest_left[::-1], rest_right[::-1], pairs)
        if found is not None:
            return found
    return pairs


def _same_axes(left: Region, right: Region) -> dict[str, str]:
    if len(left.axes) != len(right.axes):
        raise CannotMerge("domain", "the two iterate over different axes")
    for a, b in zip(left.axes, right.axes, strict=True):
        roles = (a in left.reduce) == (b in right.reduce) and (a in left.loop) == (b in right.loop)
        if not same(left.axes[a], right.axes[b]) or not roles:
            raise CannotMerge("domain", "the two iterate over different axes")
    return dict(zip(right.axes, left.axes, strict=True))


def _pair(
    left: Region, right: Region, digits_left: list[str], digits_right: list[str], pairs: dict[str, str]
) -> _Split | None:
    for a, b in itertools.zip_longest(digits_left, digits_right):
        if a is None or b is None:
            raise CannotMerge("domain", "sizes of the axes differ")
        size_a, size_b = left.axes[a], right.axes[b]
        if not same(size_a, size_b):
            if divide(size_a, size_b) is not None:
                return left, a, size_b
            if divide(size_b, size_a) is not None:
                return right, b, size_a
            raise CannotMerge("domain", f"axes of {size_a} and {size_b} have no common refinement")
        if b in pairs or a in pairs.values():
            raise CannotMerge("index-map", "an axis is read twice")
        pairs[b] = a
    return None


def _join(graph: Graph, left: Region, right: Region, pairs: dict[str, str]) -> Region:
    """Both regions over one set of axes; `pairs` names the axis of `left` for axes of `right`."""
    rest_left = [a for a in left.axes if a not in pairs.values()]
    rest_right = [a for a in right.axes if a not in pairs]
    if rest_left and not set(rest_left) <= left.reduce:
        raise CannotMerge("broadcast", "the consumer does not cover the producer's axes")
    if rest_right and not (set(rest_right) <= right.reduce and not left.reduce):
        # the producer would be computed again for every point of the axes that it lacks
        raise CannotMerge("broadcast", "the producer would be computed again along the consumer's other axes")
    reduce, loop = _roles(graph, left, right, pairs, whole=not rest_left and not rest_right)
    base, other, table = left, right, pairs
    if len(right.at) > len(left.at) and not rest_left:
        base, other, table = right, left, {a: b for b, a in pairs.items()}
        reduce = frozenset(table.get(a, a) for a in reduce)
        loop = frozenset(table.get(a, a) for a in loop)
    axes = dict(base.axes)
    for name, size in other.axes.items():
        if name not in table:
            axes[name] = size
    other.axes = {**other.axes, **axes}
    other.substitute({a: affine.axis(b) for a, b in table.items() if a != b})
    merged = Region(axes, reduce, {**base.at, **other.at}, {**base.operand, **other.operand}, {}, loop)
    for reads in (base.reads, other.reads):
        for value, places in reads.items():
            inside = merged.at.get(value)
            for place in places:
                if inside is None:
                    known = merged.reads.setdefault(value, [])
                    if place not in known:
                        known.append(place)
                elif place != inside:
                    raise CannotMerge("index-map", f"read at {list(place)} and computed at {list(inside)}")
    if merged.loop and not columns_are_final(graph, merged):
        raise CannotMerge("reduce-axes", "a sum over rows is used again in the same kernel")
    return merged


def _roles(
    graph: Graph, left: Region, right: Region, pairs: dict[str, str], whole: bool
) -> tuple[frozenset[str], frozenset[str]]:
    """(reduce, loop) of the merged region, in the axes of `left`."""
    reduce_right = frozenset(pairs.get(a, a) for a in right.reduce)
    loop_right = frozenset(pairs.get(a, a) for a in right.loop)
    if not left.reduce or not reduce_right or left.reduce == reduce_right:
        reduce = left.reduce | reduce_right
        loop = left.loop | loop_right
        if left.loop and loop_right and left.loop != loop_right:
            raise CannotMerge("reduce-axes", "the two sum over different rows")
        if loop & reduce:
            raise CannotMerge("reduce-axes", "one reduces over the rows that the other walks")
        return reduce, loop
    if not whole:
        raise CannotMerge("reduce-axes", "the consumer reduces over the producer's rows")
    # one sums along rows, the other along columns: one pass does both where the columns' sums are read by nobody here
    innermost = next(reversed(left.axes))
    rows, columns, walked = (left, right, reduce_right) if innermost in left.reduce else (right, left, left.reduce)
    reduce = left.reduce if rows is left else reduce_right
    loop = rows.loop if rows is left else loop_right
    if innermost not in reduce or columns.loop or walked & reduce or (loop and loop != walked):
        raise CannotMerge("reduce-axes", "the two reduce over different axes")
    if len(walked) == len(left.axes) - len(reduce):
        raise CannotMerge("reduce-axes", "the column sums are not split: one program would walk every row")
    if any(graph[n].op in ("argmax", "argmin") for n in columns.operand):
        raise CannotMerge("reduce-axes", "argmax and argmin along columns run by themselves")
    return reduce, walked


def columns_are_final(graph: Graph, region: Region) -> bool:
    """True where what depends on a sum over the loop axes can be computed after the loop: no reduction, nothing that
    varies along those axes."""
    late: set[int] = set()
    for number in sorted(region.at):
        column = number in region.operand and region.is_column(number)
        if not late.isdisjoint(_native_sources(graph, region, number)):
            if number in region.operand or region.at_axes(number) & region.loop:
                return False
            late.add(number)
        elif column:
            late.add(number)
    return True


def _native_sources(graph: Graph, region: Region, number: int) -> set[int]:
    """Native values that a native value is computed from, directly or by values that are computed again for it."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = list(graph[number].args)
    while stack:
        arg = stack.pop()
        if arg in region.at:
            found.add(arg)
        elif arg not in seen and arg not in region.reads:
            seen.add(arg)
            stack.extend(graph[arg].args)
    return found


def elements(region: Region, hints: Mapping[str, int]) -> int:
    """Points of the region's axes, by the hints."""
    from fusewise.ir.sizes import hint

    total = 1
    for size in region.axes.values():
        total *= max(1, hint(norm(size), hints))
    return total
