"""Forms of a C++ kernel without a reduction: blocks of the vector axis, squares where a load runs along another."""

from __future__ import annotations

from collections import Counter

from fusewise.codegen.cpp_body import Scope, streamed
from fusewise.codegen.cpp_loops import (
    POINT,
    all_of,
    close_points,
    direct_stores,
    open_points,
    size_name,
    split_levels,
)
from fusewise.codegen.cpp_ops import Value, stored_type
from fusewise.codegen.expr import identifier, print_size
from fusewise.ir.affine import Index
from fusewise.ir.dtypes import BOOL
from fusewise.lower.kernel import Axis, Kernel, Load

BLOCK = 4096
"""Elements of the vector axis that one point covers: what is shared out between threads."""

SQUARE_BLOCK = 512
"""The same where a point covers as many rows as a vector has lanes."""

SHORTEST_BAND = 4
"""Size of the other axis below which squares would be mostly empty."""


def pointwise_form(scope: Scope, vector: Axis) -> None:
    """The vector axis is cut into blocks, and the blocks of all rows are shared between threads."""
    kernel, out = scope.kernel, scope.out
    other, crossing = _crossing_loads(kernel, vector)
    if other is not None:
        _squares_form(scope, vector, other, crossing)
        return
    outer = [a for a in kernel.parallel if a.name != vector.name]
    name, size = identifier(vector.name), size_name(vector)
    out.line(f"const int64_t blocks = fw::ceil_div({size}, {BLOCK});")
    open_points(out, kernel, outer, [("block", "blocks")], draws=all_of(kernel))
    once, each = split_levels(kernel, all_of(kernel), [vector])
    row = scope.inner(None, POINT)
    row.emit_all(once)
    out.line(f"const int64_t begin = block * {BLOCK};")
    body = row.inner(vector.name, "return;")
    body.direct = direct_stores(row, vector, "begin")
    out.open(f"fw::vectors(begin, fw::least({size}, begin + {BLOCK}), [&](int64_t {name}, auto lanes) FW_BODY {{")
    body.emit_all(each)
    out.close("});")
    close_points(out, fence=bool(body.direct))


def _squares_form(scope: Scope, vector: Axis, other: Axis, crossing: list[int]) -> None:
    """Loads that run along `other` fetch a square of both axes and turn it: each line of memory is read once."""
    kernel, out = scope.kernel, scope.out
    outer = [a for a in kernel.parallel if a.name not in (vector.name, other.name)]
    name, size = identifier(vector.name), size_name(vector)
    across, across_size = identifier(other.name), size_name(other)
    out.line(f"const int64_t blocks = fw::ceil_div({size}, {SQUARE_BLOCK});")
    out.line(f"const int64_t bands = fw::ceil_div({across_size}, fw::LANES);")
    open_points(out, kernel, outer, [("band", "bands"), ("block", "blocks")])
    once, along, both = split_levels(kernel, all_of(kernel), [vector, other])
    row = scope.inner(None, POINT)
    row.emit_all(once)
    out.line(f"const int64_t begin = block * {SQUARE_BLOCK};")
    out.line("const int64_t band_begin = band * fw::LANES;")
    out.line(f"const int64_t band_end = fw::least({across_size}, band_begin + fw::LANES);")
    out.open(
        f"fw::vectors(begin, fw::least({size}, begin + {SQUARE_BLOCK}), [&](int64_t {name}, auto lanes) FW_BODY {{"
    )
    body = row.inner(vector.name, "return;")
    body.emit_all(along)
    for number in crossing:
        instr = kernel.body[number]
        assert isinstance(instr, Load)
        first = Index(
            tuple(("band_begin" if a == other.name else a, c) for a, c in instr.index.terms), instr.index.const
        )
        buffer = kernel.buffers[instr.buffer]
        out.line(f"alignas(64) {stored_type(buffer.dtype)} square{number}[fw::LANES*fw::LANES];")
        place = f"{identifier(buffer.name)} + ({body.index_text(first)})"
        step = print_size(instr.index.coefficient(vector.name))
        out.line(f"fw::load_square(square{number}, {place}, {step}, band_end - band_begin, lanes.n);")
    out.open(f"for (int64_t {across} = band_begin; {across} < band_end; ++{across}) {{")
    inside = body.inner(vector.name, "return;")
    for number in crossing:
        instr = kernel.body[number]
        assert isinstance(instr, Load)
        text = f"fw::load(square{number} + ({across} - band_begin)*fw::LANES, fw::Full{{}})"
        out.line(f"const auto v{number} = {f'fw::bool_lanes({text})' if instr.dtype == BOOL else text};")
        inside.values[number] = Value(f"v{number}", instr.dtype, vector=True)
    inside.emit_all(both)
    out.close()
    out.close("});")
    close_points(out)


def _crossing_loads(kernel: Kernel, vector: Axis) -> tuple[Axis | None, list[int]]:
    """(axis along which most loads that skip along the vector axis are contiguous, those loads)."""
    if any(streamed(kernel, n) for n in all_of(kernel)):
        return None, []  # random bits are made for one row at a time
    found: list[tuple[str, int]] = []
    for number in all_of(kernel):
        instr = kernel.body[number]
        if not isinstance(instr, Load) or instr.mask is not None or not instr.index.is_affine:
            continue
        step = instr.index.coefficient(vector.name)
        if isinstance(step, int) and step in (0, 1):
            continue
        found += [(a.name, number) for a in kernel.parallel if _is_one(instr.index.coefficient(a.name))]
    if not found:
        return None, []
    name = Counter(axis for axis, _ in found).most_common(1)[0][0]
    other = next(a for a in kernel.parallel if a.name == name)
    if isinstance(other.size, int) and other.size < SHORTEST_BAND:
        return None, []
    return other, [number for axis, number in found if axis == name]


def _is_one(size: object) -> bool:
    return isinstance(size, int) and size == 1
