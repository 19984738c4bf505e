"""Forms of a C++ kernel whose vector axis is reduced over, and the form without vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fusewise.codegen.cpp_body import Scope
from fusewise.codegen.cpp_loops import (
    POINT,
    all_of,
    carried_now,
    close_points,
    direct_stores,
    is_scalar_sum,
    leave_after_failure,
    open_points,
    reduction,
    reduction_class,
    reduction_operands,
    rule_of,
    size_name,
    split_levels,
    threaded,
)
from fusewise.codegen.cpp_ops import Value, as_vector, scalar_type, stored_type
from fusewise.codegen.expr import identifier
from fusewise.errors import IRError
from fusewise.ir.dtypes import BOOL, F32, DType
from fusewise.ir.ops import OPS
from fusewise.ir.sizes import prod
from fusewise.lower.kernel import Axis, Check, Compute, CppSchedule, Kernel, Pass, Random, Reduce, result_dtype

FEW_ROWS = 4
"""Rows that are not worth sharing between threads: each is cut into chunks instead."""


def row_form(scope: Scope, vector: Axis) -> None:
    """The vector axis is reduced over: a point is a row, and its lanes meet at the end of each pass."""
    kernel, out = scope.kernel, scope.out
    open_points(out, kernel, kernel.parallel, rows=carried_rows(kernel), draws=all_of(kernel))
    row = scope.inner(None, POINT)
    row.direct = direct_stores(row, vector, "0")
    row_passes(row, vector)
    close_points(out, fence=bool(row.direct))


def few_rows(kernel: Kernel) -> bool:
    """True where rows are too few to share: then each row is cut into chunks."""
    count = prod(a.size for a in kernel.parallel)
    return isinstance(count, int) and count <= FEW_ROWS and threaded(kernel)


def split_form(scope: Scope, vector: Axis) -> None:
    """A row form for few rows: the outermost reduce axis is cut into chunks, the same for any number of threads."""
    kernel, out = scope.kernel, scope.out
    first = kernel.reduce[0]
    of = size_name(first)
    total = "*".join(size_name(a) for a in kernel.reduce)
    step = "fw::LANES" if first == vector else "1"
    out.line(f"const int64_t chunk_size = fw::chunk_size({of}, {total}, {step});")
    out.line(f"const int64_t chunks = fw::ceil_div({of}, chunk_size);")
    for kind, name, count in carried_rows(kernel):
        out.line(f"{kind}* const {name} = fw::scratch<{100 + int(name[3:])}, {kind}>({count});")
        out.line(f"if (!{name}) return -1;")
    row = scope
    for axis in kernel.parallel:
        name = identifier(axis.name)
        out.open(f"for (int64_t {name} = 0; {name} < {size_name(axis)}; ++{name}) {{")
        row = row.inner(None, "return status;")
    row = row.inner(None, "return status;")
    row.emit_all(kernel.before)
    for index, one in enumerate(kernel.passes):
        for number in one.reduces:
            out.line(f"{reduction_class(kernel, number, 'row', _slots(kernel, one))} part{number}[fw::CHUNKS];")
        out.open("{")
        open_points(out, kernel, [], [("chunk", "chunks")], draws=one.elem)
        out.line("const int64_t begin = chunk*chunk_size;")
        out.line(f"const int64_t end = fw::least({of}, begin + chunk_size);")
        accumulate(row.inner(None, POINT), index, vector, {first.name: "begin, end"})
        for number in one.reduces:
            out.line(f"part{number}[chunk] = acc{number};")
        close_points(out)
        out.close()
        if any(isinstance(kernel.body[n], Check) for n in one.elem):
            out.line("if (status != 0) return status;")
        for number in one.reduces:
            dtype = reduction(kernel, number).dtype
            out.line(f"const {scalar_type(dtype)} v{number} = fw::merged(part{number}, chunks);")
            row.values[number] = Value(f"v{number}", dtype)
        row.emit_all(one.after)
    for _ in kernel.parallel:
        out.close()


def row_passes(row: Scope, vector: Axis, spans: Mapping[str, str] = MappingProxyType({})) -> None:
    """What is computed for one row: `before`, then each pass and what follows it. `spans`: see `accumulate`."""
    row.emit_all(row.kernel.before)
    for index in range(len(row.kernel.passes)):
        one = row.kernel.passes[index]
        accumulate(row, index, vector, spans)
        for number in one.reduces:
            dtype = reduction(row.kernel, number).dtype
            row.out.line(f"const {scalar_type(dtype)} v{number} = acc{number}.result();")
            row.values[number] = Value(f"v{number}", dtype)
        row.emit_all(one.after)


def accumulate(row: Scope, index: int, vector: Axis, spans: Mapping[str, str]) -> None:
    """The loops of one pass, which feed its reductions' accumulators `acc...`.

    `spans`: first and last place of an axis that is not run as a whole, as C++ text.
    """
    kernel, out = row.kernel, row.out
    one = kernel.passes[index]
    outer = [a for a in kernel.reduce if a.name != vector.name]
    made, read = carried_now(kernel, index)
    slots = _slots(kernel, one)
    for number in one.reduces:
        out.line(f"{reduction_class(kernel, number, 'row', slots)} acc{number};")
    sums = [n for n in one.elem if isinstance(kernel.body[n], Reduce)]
    levels = split_levels(kernel, [n for n in one.elem if n not in read and n not in sums], [*outer, vector])
    row.emit_all(levels[0])
    for number in sums:
        if is_scalar_sum(kernel, number):
            out.line(f"acc{number}.add({reduction_operands(row, number, vector=False)});")
    scope = _open_reduce_loops(row, outer, levels, spans)
    name = identifier(vector.name)
    span = spans.get(vector.name, f"0, {size_name(vector)}")
    folded = [n for n in one.reduces if reduction(kernel, n).op == "sum" and reduction(kernel, n).dtype == F32]
    if not one.reduces:
        out.open(f"fw::vectors({span}, [&](int64_t {name}, auto lanes) FW_BODY {{")
    else:
        call = "vectors_folded" if folded else "vectors_by"
        out.open(f"fw::{call}<{slots}>({span}, [&](int64_t {name}, auto lanes, auto slot) FW_BODY {{")
    body = scope.inner(vector.name, "return;")
    for number in read:
        _read_carried(body, number)
    body.emit_all(levels[-1])
    for number in made:
        _keep_carried(body, number)
    for number in one.reduces:
        out.line(f"acc{number}.add({reduction_operands(body, number, vector=True)}, lanes, slot);")
    for number in sums:
        if not is_scalar_sum(kernel, number):
            place = f"acc{number} + {row_offset(kernel, number)}"
            value = reduction_operands(body, number, vector=True)
            out.line(f"fw::accumulate<{rule_of(kernel, number)}>({place}, {value}, lanes);")
    folds = " ".join(f"acc{n}.fold();" for n in folded)
    out.close(f"}}, [&]() FW_BODY {{ {folds} }});" if folded else "});")
    for _ in outer:
        out.close()
    leave_after_failure(row, one.elem)


def _slots(kernel: Kernel, one: Pass) -> int:
    """Vectors a step: enough to hide an add's latency behind cheap elements, one where an element is dear."""
    cost = 0.0
    for number in one.elem:
        instr = kernel.body[number]
        if isinstance(instr, Compute):
            cost += OPS[instr.op].cost
        elif isinstance(instr, Random):
            cost += OPS[instr.kind].cost
    return 4 if cost <= 6 else 2 if cost <= 24 else 1


def scalar_form(scope: Scope) -> None:
    """No vectors: plain loops."""
    kernel, out = scope.kernel, scope.out
    open_points(out, kernel, kernel.parallel, rows=carried_rows(kernel), draws=all_of(kernel))
    row = scope.inner(None, POINT)
    row.emit_all(kernel.before)
    for index, one in enumerate(kernel.passes):
        made, read = carried_now(kernel, index)
        for number in one.reduces:
            out.line(f"{reduction_class(kernel, number, 'scalar')} acc{number};")
        levels = split_levels(kernel, [n for n in one.elem if n not in read], kernel.reduce)
        row.emit_all(levels[0])
        body = _open_reduce_loops(row, kernel.reduce, levels, {})
        for number in read:
            dtype = _dtype(kernel, number)
            text = f"row{number}[{row_offset(kernel, number)}]" + (" != 0" if dtype == BOOL else "")
            out.line(f"const {scalar_type(dtype)} v{number} = {text};")
            body.values[number] = Value(f"v{number}", dtype)
        body.emit_all(levels[-1])
        for number in made:
            out.line(f"row{number}[{row_offset(kernel, number)}] = {body.value(number).text};")
        for number in one.reduces:
            out.line(f"acc{number}.add({reduction_operands(body, number, vector=False)});")
        for _ in kernel.reduce:
            out.close()
        leave_after_failure(row, one.elem)
        for number in one.reduces:
            dtype = reduction(kernel, number).dtype
            out.line(f"const {scalar_type(dtype)} v{number} = acc{number}.result();")
            row.values[number] = Value(f"v{number}", dtype)
        row.emit_all(one.after)
    close_points(out)


def _open_reduce_loops(
    scope: Scope, axes: Sequence[Axis], levels: Sequence[Sequence[int]], spans: Mapping[str, str]
) -> Scope:
    """Opens a loop for each axis and prints what stands in all but the innermost."""
    out = scope.out
    for depth, axis in enumerate(axes, start=1):
        name = identifier(axis.name)
        first, last = spans.get(axis.name, f"0, {size_name(axis)}").split(", ")
        out.open(f"for (int64_t {name} = {first}; {name} < {last}; ++{name}) {{")
        scope = scope.inner(None, POINT)
        if depth < len(levels) - 1:
            scope.emit_all(levels[depth])
    return scope


# ---------------------------------------------------------------------------------------------------- carried values


def carried_rows(kernel: Kernel) -> list[tuple[str, str, str]]:
    """(C++ type, name, elements) of the rows that hold carried values of one thread."""
    held = sorted({n for index in range(len(kernel.passes)) for n in carried_now(kernel, index)[0]})
    count = "*".join(size_name(a) for a in kernel.reduce)
    return [(stored_type(_dtype(kernel, n)), f"row{n}", count) for n in held]


def row_offset(kernel: Kernel, number: int) -> str:
    """Place of an element value in a row: row-major over the reduce axes, the vector axis innermost."""
    assert isinstance(kernel.schedule, CppSchedule)
    vector = kernel.schedule.vector_axis
    axes = sorted(kernel.reduce, key=lambda a: a.name == vector)
    parts = []
    for position, axis in enumerate(axes):
        if axis.name in kernel.varies[number]:
            inner = [size_name(a) for a in axes[position + 1 :]]
            parts.append("*".join([identifier(axis.name), *inner]))
    return " + ".join(parts) or "0"


def _read_carried(scope: Scope, number: int) -> None:
    dtype = _dtype(scope.kernel, number)
    place = f"row{number} + {row_offset(scope.kernel, number)}"
    if scope.is_vector(number):
        call = f"fw::load{'_mask' if dtype == BOOL else ''}({place}, fw::Full{{}})"
        scope.out.line(f"const auto v{number} = {call};")
    else:
        scope.out.line(f"const {scalar_type(dtype)} v{number} = *({place}){' != 0' if dtype == BOOL else ''};")
    scope.values[number] = Value(f"v{number}", dtype, scope.is_vector(number))


def _keep_carried(scope: Scope, number: int) -> None:
    value = scope.value(number)
    place = f"row{number} + {row_offset(scope.kernel, number)}"
    if scope.is_vector(number):
        call = "store_mask" if value.dtype == BOOL else f"store<{stored_type(value.dtype)}>"
        # no lane more than there is: what follows may be another thread's
        scope.out.line(f"fw::{call}({place}, {as_vector(value)}, lanes);")
    else:
        scope.out.line(f"*({place}) = {value.text};")


def _dtype(kernel: Kernel, number: int) -> DType:
    dtype = result_dtype(kernel.body[number])
    if dtype is None:
        raise IRError(f"kernel {kernel.name}: %{number} has no value to carry")
    return dtype
