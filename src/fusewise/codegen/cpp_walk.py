"""The form of a C++ kernel that walks rows and sums over them as it goes: a row kernel with column sums beside it.

The rows are cut into chunks, whatever the number of threads. A point is one chunk: it has accumulators over the row for
each sum over the loop axes, and leaves them in memory. A second loop, over the row, adds up the chunks in f64 and runs
what depends on the sums.
"""

from __future__ import annotations

from dataclasses import replace

from fusewise.codegen.cpp_body import Scope, streamed
from fusewise.codegen.cpp_loops import (
    POINT,
    all_of,
    close_points,
    decode,
    is_scalar_sum,
    open_points,
    reduction,
    reduction_class,
    reduction_operands,
    rule_of,
    size_name,
    split_levels,
)
from fusewise.codegen.cpp_ops import Value, scalar_type, stored_type
from fusewise.codegen.cpp_rows import carried_rows, row_offset, row_passes
from fusewise.codegen.expr import identifier
from fusewise.errors import IRError
from fusewise.ir.dtypes import BOOL
from fusewise.lower.kernel import Axis, Check, Compute, Kernel, Pass, Reduce, Store, operands

TILE = 4096
"""Elements of the row that a point covers where nothing is reduced along the row."""

COMBINE = 256
"""Elements of the row that a point of the second loop covers."""


def walk_form(scope: Scope, vector: Axis) -> None:
    """Chunks of rows, then the sums over the chunks; `vector` is an axis of the row."""
    kernel, out = scope.kernel, scope.out
    sums = [n for one in kernel.passes for n in one.elem if isinstance(kernel.body[n], Reduce)]
    for number in sums:
        if vector.name not in kernel.varies[number] and not is_scalar_sum(kernel, number):
            raise IRError(f"kernel {kernel.name}: %{number} varies along the row but not along its vector axis")
    out.line(f"const int64_t rows = {'*'.join(size_name(a) for a in kernel.loop)};")
    out.line("const int64_t chunk_rows = fw::chunk_rows(rows);")
    out.line("const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));")
    out.line(f"const int64_t row = {'*'.join(size_name(a) for a in kernel.reduce)};")
    outer = "*".join(size_name(a) for a in kernel.parallel) or "1"
    for order, number in enumerate(sums):
        kind = stored_type(reduction(kernel, number).dtype)
        count = f"{outer}*chunks" + ("" if is_scalar_sum(kernel, number) else "*row")
        # the calling thread's room: apart from the rows that each thread carries
        out.line(f"{kind}* const part{number} = fw::scratch<{100 + order}, {kind}>({count});")
        out.line(f"if (!part{number}) return -1;")
    _chunks(scope, vector, sums)
    out.line("if (status != 0) return status;")
    _combine(scope, vector, sums)


def _chunks(scope: Scope, vector: Axis, sums: list[int]) -> None:
    kernel, out = scope.kernel, scope.out
    # without a reduction along the row its pieces are independent: wide rows stay in the cache
    tiled = len(kernel.reduce) == 1 and not any(one.reduces for one in kernel.passes)
    pieces = [("chunk", "chunks")]
    out.open("{")
    if tiled:
        out.line(f"const int64_t tiles = fw::most(1, fw::ceil_div(row, {TILE}));")
        pieces.append(("tile", "tiles"))
    open_points(out, kernel, kernel.parallel, pieces, carried_rows(kernel), all_of(kernel))
    if tiled:
        out.line(f"const int64_t begin = tile * {TILE}, end = fw::least(row, begin + {TILE});")
    out.line(f"const int64_t place = {'point / tiles' if tiled else 'point'};")
    for number in sums:
        if is_scalar_sum(kernel, number):
            out.line(f"{reduction_class(kernel, number, 'scalar')} acc{number};")
        else:
            kind = stored_type(reduction(kernel, number).dtype)
            out.line(f"{kind}* const acc{number} = part{number} + place*row;")
            limits = "begin, end" if tiled else "0, row"
            out.line(f"fw::start<{rule_of(kernel, number)}>(acc{number}, {limits});")
    out.line("const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);")
    group = _rows_at_once(kernel, sums) if tiled else 1
    if group > 1:
        _several_rows(scope.inner(None, POINT), vector, sums, group)
    else:
        out.open("for (int64_t at_row = chunk*chunk_rows; at_row < last; ++at_row) {")
        decode(out, "at_row", [(identifier(a.name), size_name(a)) for a in kernel.loop])
        row_passes(scope.inner(None, POINT), vector, {vector.name: "begin, end"} if tiled else {})
        out.close()
    for number in sums:
        if is_scalar_sum(kernel, number):
            out.line(f"part{number}[place] = acc{number}.result();")
    close_points(out)
    out.close()


def _rows_at_once(kernel: Kernel, sums: list[int]) -> int:
    """Rows that a vector of columns is taken through at once, its sums in registers; 1 where that does not fit."""
    if any(is_scalar_sum(kernel, n) for n in sums) or any(streamed(kernel, n) for n in all_of(kernel)):
        return 1
    work = [n for one in kernel.passes for n in one.elem if n not in sums and kernel.varies[n]]
    row_level = [*kernel.before, *(n for n in work if not kernel.is_element(n)), *kernel.passes[0].after]
    if len(kernel.passes) != 1 or any(isinstance(kernel.body[n], Compute) and kernel.varies[n] for n in row_level):
        return 1
    return 8 if len(work) <= 6 else 4 if len(work) <= 16 else 1


def _several_rows(point: Scope, vector: Axis, sums: list[int], group: int) -> None:
    kernel, out = point.kernel, point.out
    name = identifier(vector.name)
    point.emit_all(n for n in kernel.before if not any(a.name in kernel.varies[n] for a in kernel.loop))
    out.open(f"fw::groups<{group}>(chunk*chunk_rows, last, [&](int64_t group, auto group_rows) FW_BODY {{")
    out.open(f"fw::vectors(begin, end, [&](int64_t {name}, auto lanes) FW_BODY {{")
    for number in sums:
        load = "load_mask" if reduction(kernel, number).dtype == BOOL else "load"
        out.line(f"auto sum{number} = fw::{load}(acc{number} + {name}, lanes);")
    out.line(f"#pragma GCC unroll {group}")
    out.open("for (int64_t at_row = group; at_row < group + group_rows.value; ++at_row) {")
    decode(out, "at_row", [(identifier(a.name), size_name(a)) for a in kernel.loop])
    body = point.inner(vector.name, "return;")
    one = kernel.passes[0]
    body.emit_all(sorted({*kernel.before, *(n for n in (*one.elem, *one.after) if n not in sums)}))
    for number in sums:
        value = reduction_operands(body, number, vector=True)
        out.line(f"sum{number} = {rule_of(kernel, number)}::apply(sum{number}, {value});")
    out.close()
    for number in sums:
        dtype = reduction(kernel, number).dtype
        store = "store_mask" if dtype == BOOL else f"store<{stored_type(dtype)}>"
        out.line(f"fw::{store}(acc{number} + {name}, sum{number}, lanes);")
    out.close("});")
    out.close("});")


def _combine(scope: Scope, vector: Axis, sums: list[int]) -> None:
    kernel, out = scope.kernel, scope.out
    outer = [a for a in kernel.reduce if a.name != vector.name]
    name, size = identifier(vector.name), size_name(vector)
    out.open("{")
    out.line(f"const int64_t blocks = fw::most(1, fw::ceil_div({size}, {COMBINE}));")
    open_points(
        out, kernel, [*kernel.parallel, *outer], [("block", "blocks")], draws=_with_operands(kernel, kernel.final)
    )
    place = "0"
    for axis in kernel.parallel:
        place = f"({place})*{size_name(axis)} + {identifier(axis.name)}" if place != "0" else identifier(axis.name)
    out.line(f"const int64_t place = ({place})*chunks;")
    point = scope.inner(None, POINT)
    for number in sums:
        if is_scalar_sum(kernel, number):
            dtype = reduction(kernel, number).dtype
            call = f"fw::combined<{rule_of(kernel, number)}>(part{number} + place, chunks)"
            out.line(f"const {scalar_type(dtype)} v{number} = {call};")
            point.values[number] = Value(f"v{number}", dtype)
    inside = [*outer, vector]
    levels = split_levels(kernel, kernel.final, inside)
    point.emit_with_operands(n for level in levels[:-1] for n in level)
    out.line(f"const int64_t begin = block * {COMBINE};")
    out.open(f"fw::vectors(begin, fw::least({size}, begin + {COMBINE}), [&](int64_t {name}, auto lanes) FW_BODY {{")
    body = point.inner(vector.name, "return;")
    for number in sums:
        if not is_scalar_sum(kernel, number):
            at = f"part{number} + place*row + {row_offset(kernel, number)}"
            call = "combined_mask" if reduction(kernel, number).dtype == BOOL else "combined"
            out.line(f"const auto v{number} = fw::{call}<{rule_of(kernel, number)}>({at}, chunks, row, lanes);")
            body.values[number] = Value(f"v{number}", reduction(kernel, number).dtype, vector=True)
    body.emit_with_operands(levels[-1])
    out.close("});")
    close_points(out)
    out.close()


def _with_operands(kernel: Kernel, numbers: tuple[int, ...]) -> set[int]:
    """Instructions and whatever they are computed from."""
    found: set[int] = set()
    stack = list(numbers)
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            stack.extend(operands(kernel.body[number]))
    return found


def as_walk(kernel: Kernel, vector: Axis) -> Kernel | None:
    """A kernel of one pass whose reduce axes are rows walked to sum down their columns; None where that does not fit.

    The vector axis, parallel before, becomes the row.
    """
    if len(kernel.passes) != 1:
        return None
    one = kernel.passes[0]
    if any(reduction(kernel, n).position is not None for n in one.reduces):
        return None
    along = {n for n in kernel.before if vector.name in kernel.varies[n]}
    if any(isinstance(kernel.body[n], Check) for n in along):
        return None
    needed: set[int] = set()
    stack = [*one.elem, *one.reduces]
    while stack:
        for number in operands(kernel.body[stack.pop()]):
            if number in along and number not in needed:
                needed.add(number)
                stack.append(number)
    late = [n for n in kernel.before if isinstance(kernel.body[n], Store)]
    axes = [replace(a, reduce=a.name == vector.name, loop=a.reduce) for a in kernel.axes]
    order = [a for a in axes if not a.loop and not a.reduce]
    order += [a for a in axes if a.loop] + [a for a in axes if a.reduce]
    body = tuple(replace(i, over_loop=True) if isinstance(i, Reduce) else i for i in kernel.body)
    return replace(
        kernel,
        axes=tuple(order),
        body=body,
        before=tuple(n for n in kernel.before if n not in along and n not in late),
        passes=(Pass(tuple(sorted({*needed, *one.elem, *one.reduces})), (), ()),),
        carried=frozenset(),
        final=(*late, *one.after),
    )
