"""The form of a C++ kernel whose vector axis is parallel and that reduces over other axes: sums down columns.

A point is a tile of columns. Each pass streams its rows, one tile-wide piece after the other, into accumulators that
stay in the first-level cache; what a column knows outlives its loop in an array over the tile.
"""

from __future__ import annotations

from collections.abc import Iterable

from fusewise.codegen.cpp_body import Scope
from fusewise.codegen.cpp_loops import (
    POINT,
    all_of,
    close_points,
    leave_after_failure,
    open_points,
    reduction,
    reduction_class,
    reduction_operands,
    size_name,
    split_levels,
)
from fusewise.codegen.cpp_ops import Value, as_vector, scalar_type, vector_type
from fusewise.codegen.expr import identifier
from fusewise.lower.kernel import Axis, Kernel, operands, result_dtype


def column_form(scope: Scope, vector: Axis) -> None:
    """The vector axis is parallel; the reduce axes are loops outside it."""
    kernel, out = scope.kernel, scope.out
    outer = [a for a in kernel.parallel if a.name != vector.name]
    size = size_name(vector)
    points = " * ".join(size_name(a) for a in outer) or "1"
    rows = "*".join(size_name(a) for a in kernel.reduce)
    out.line(f"const int64_t width = fw::tile_width({size}, {points}, {rows}, {len(kernel.passes)});")
    out.line(f"const int64_t tiles = fw::ceil_div({size}, width);")
    open_points(out, kernel, outer, [("tile", "tiles")], draws=all_of(kernel))
    out.line("const int64_t begin = tile * width;")
    out.line(f"const int64_t end = fw::least({size}, begin + width);")
    out.line("const int count = static_cast<int>(fw::ceil_div(end - begin, fw::LANES));")
    _Columns(scope.inner(None, POINT), vector).print()
    close_points(out)


class _Columns:
    """Prints one tile, and keeps track of which values are held in arrays over it."""

    def __init__(self, tile: Scope, vector: Axis) -> None:
        self.tile = tile
        self.kernel: Kernel = tile.kernel
        self.out = tile.out
        self.vector = vector
        self.held: set[int] = set()

    def print(self) -> None:
        kernel = self.kernel
        self._columns(kernel.before, (), self._used_after(-1))
        for index, one in enumerate(kernel.passes):
            for number in one.reduces:
                wide = self._is_wide(number)
                kind = reduction_class(kernel, number, "column" if wide else "scalar")
                self.out.line(f"{kind} acc{number}{'(count)' if wide else ''};")
            self._stream(index)
            self._columns(one.after, one.reduces, self._used_after(index))

    def _is_wide(self, number: int) -> bool:
        """True for a value that differs from column to column; a sum of what is spread over the columns does not."""
        return self.vector.name in self.kernel.varies[number]

    def _used_after(self, index: int) -> set[int]:
        """Values that a later phase than the one after pass `index` reads."""
        used: set[int] = set()
        for one in self.kernel.passes[index + 1 :]:
            for number in (*self._elements(one.elem, one.reduces), *one.reduces, *one.after):
                used.update(operands(self.kernel.body[number]))
        return used

    def _elements(self, elem: Iterable[int], reduces: Iterable[int]) -> list[int]:
        """Element instructions of a pass and, since nothing is carried here, those that they are computed from."""
        needed = set(elem)
        stack = [*elem, *reduces]
        while stack:
            for number in operands(self.kernel.body[stack.pop()]):
                if number not in needed and self.kernel.is_element(number):
                    needed.add(number)
                    stack.append(number)
        return sorted(needed)

    def _columns(self, numbers: Iterable[int], results: Iterable[int], used: set[int]) -> None:
        """One loop over the columns of the tile: results of a pass, then row instructions."""
        numbers, results = list(numbers), list(results)
        once, each = split_levels(self.kernel, numbers, [self.vector])
        for number in [n for n in results if not self._is_wide(n)]:
            results.remove(number)
            dtype = reduction(self.kernel, number).dtype
            self.out.line(f"const {scalar_type(dtype)} v{number} = acc{number}.result();")
            self.tile.values[number] = Value(f"v{number}", dtype)
        self.tile.emit_all(once)
        if not each and not results:
            return
        keep = [n for n in (*results, *each) if n in used]
        for number in keep:
            self.out.line(f"{self._vector_type(number)} held{number}[fw::TILE];")
        body = self._open(each)
        for number in results:
            self.out.line(f"const auto v{number} = acc{number}.result(col);")
            body.values[number] = Value(f"v{number}", reduction(self.kernel, number).dtype, vector=True)
        body.emit_all(each)
        for number in keep:
            self.out.line(f"held{number}[col] = {as_vector(body.value(number))};")
        self.held.update(keep)
        self.out.close("});")

    def _stream(self, index: int) -> None:
        """The loop over the rows of one pass."""
        kernel, out = self.kernel, self.out
        one = kernel.passes[index]
        elements = self._elements(one.elem, one.reduces)
        levels = split_levels(kernel, elements, [*kernel.reduce, self.vector])
        self.tile.emit_all(levels[0])
        scope = self.tile
        for axis, level in zip(kernel.reduce, levels[1:], strict=False):
            name = identifier(axis.name)
            out.open(f"for (int64_t {name} = 0; {name} < {size_name(axis)}; ++{name}) {{")
            scope = scope.inner(None, POINT)
            scope.emit_all(level)
        wide = [n for n in one.reduces if self._is_wide(n)]
        for number in one.reduces:
            if number not in wide:
                out.line(f"acc{number}.add({reduction_operands(scope, number, vector=False)});")
        if levels[-1] or wide:
            body = self._open([*levels[-1], *wide], scope)
            body.emit_all(levels[-1])
            for number in wide:
                out.line(f"acc{number}.add({reduction_operands(body, number, vector=True)}, col);")
            out.close("});")
        for number in wide:
            out.line(f"acc{number}.row();")
        for _ in kernel.reduce:
            out.close()
        leave_after_failure(self.tile, elements)

    def _open(self, numbers: Iterable[int], scope: Scope | None = None) -> Scope:
        """Opens a loop over the tile's columns, with the held values that `numbers` read."""
        name = identifier(self.vector.name)
        self.out.open(f"fw::columns(begin, end, [&](int64_t {name}, auto lanes, int col) FW_BODY {{")
        self.out.line("(void)col;")
        body = (scope or self.tile).inner(self.vector.name, "return;")
        needed = {arg for n in numbers for arg in operands(self.kernel.body[n])} & self.held
        for number in sorted(needed):
            self.out.line(f"const auto v{number} = held{number}[col];")
            dtype = result_dtype(self.kernel.body[number])
            assert dtype is not None
            body.values[number] = Value(f"v{number}", dtype, vector=True)
        return body

    def _vector_type(self, number: int) -> str:
        dtype = result_dtype(self.kernel.body[number])
        assert dtype is not None
        return vector_type(dtype)
