"""What the forms of a C++ kernel share: what is computed once, the loop over points and threads, reductions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from fusewise.codegen.cpp_body import Scope, Writer, streamed
from fusewise.codegen.cpp_ops import Value, as_vector, compute, stored_type
from fusewise.codegen.expr import identifier, print_size
from fusewise.errors import IRError
from fusewise.ir.affine import Index
from fusewise.ir.affine import axis as axis_index
from fusewise.ir.dtypes import BOOL, U8
from fusewise.ir.sizes import Size, prod
from fusewise.lower.kernel import (
    Axis,
    Check,
    Kernel,
    Pass,
    Random,
    Reduce,
    Store,
    operands,
    result_dtype,
)

LARGE_BYTES = 32 << 20
"""Outputs from this size on get pages of 2 MB and are stored past the cache.

The C library maps blocks of this size anew at each allocation: a 64 MB chain into fresh memory took 29 ms in pages of
4 KB and 6.5 ms in pages of 2 MB, 5.9 with stores past the cache.
"""

POINT = "continue;"
"""What a failed check does in the loop over points; the call's result is dropped, so skipping work is safe."""


def size_name(axis: Axis | str) -> str:
    """C++ variable that holds an axis's size."""
    return f"n_{identifier(axis if isinstance(axis, str) else axis.name)}"


def all_of(kernel: Kernel) -> list[int]:
    """Every instruction that runs before `final`, reductions excluded, in order of execution and without repeats."""
    order = list(kernel.before)
    for one in kernel.passes:
        order += [*one.elem, *one.after]
    return [n for n in dict.fromkeys(order) if not isinstance(kernel.body[n], Reduce)]


def constants(kernel: Kernel) -> list[int]:
    """Instructions whose value is the same for the whole kernel: computed once, before the threads start."""
    early: set[int] = set()
    for number in sorted({*all_of(kernel), *kernel.final}):
        instr = kernel.body[number]
        if kernel.varies[number] or isinstance(instr, (Reduce, Store)):
            continue
        if all(arg in early for arg in operands(instr)):
            early.add(number)
    return sorted(early)


def open_points(
    out: Writer,
    kernel: Kernel,
    axes: Sequence[Axis],
    pieces: Sequence[tuple[str, str]] = (),
    rows: Sequence[tuple[str, str, str]] = (),
    draws: Iterable[int] = (),
) -> None:
    """Opens the loop over the points of `axes`; every thread takes a contiguous share of them.

    Args:
        out, kernel: where to print, and what.
        axes: axes whose coordinates each point fixes.
        pieces: (name, C++ text of the number) of further coordinates, inside the axes.
        rows: (C++ type, name, elements) of arrays that each thread holds.
        draws: instructions that may draw random bits in this loop.
    """
    coordinates = [(identifier(a.name), size_name(a)) for a in axes] + list(pieces)
    out.line(f"const int64_t points = {' * '.join(size for _, size in coordinates) or '1'};")
    if threaded(kernel):
        out.line("#pragma omp parallel if (points > 1)")
    out.open("{")
    for number in sorted(n for n in draws if streamed(kernel, n)):
        instr = kernel.body[number]
        assert isinstance(instr, Random)
        kind = "KeepStream" if instr.kind == "keep" else "UniformStream"
        out.line(f"fw::{kind} stream{number}(v{instr.seed}, {instr.slot & 0xFFFFFFFF}u);")
    for order, (kind, name, count) in enumerate(rows):
        out.line(f"{kind}* const {name} = fw::scratch<{order}, {kind}>({count});")
    mine = "fw::share(points)"
    if rows:
        mine = f"{' && '.join(name for _, name, _ in rows)} ? {mine} : fw::no_memory(status)"
    out.line(f"const fw::Share mine = {mine};")
    if len(coordinates) < 2:
        out.open("for (int64_t point = mine.begin; point < mine.end; ++point) {")
        decode(out, "point", coordinates)
        return
    # divisions once a thread, then counting
    decode(out, "mine.begin", coordinates, kind="int64_t")
    backwards = [part for name, size in reversed(coordinates) for part in (name, size)][:-1]
    count = f"fw::count_up({', '.join(backwards)})"
    out.open(f"for (int64_t point = mine.begin; point < mine.end; ++point, {count}) {{")


def close_points(out: Writer, fence: bool = False) -> None:
    """Closes what `open_points` opened; `fence` where stores went past the cache."""
    out.close()
    if fence:
        out.line("fw::direct_fence();")
    out.close()


def direct_stores(scope: Scope, vector: Axis, begin: str) -> dict[int, str]:
    """Names of the C++ flags that say whether a store goes past the cache, by instruction; prints their definitions.

    Large outputs do, where their vectors are aligned: they would push everything else out, and a cache reads a line
    before it is written to. `begin`: first place on the vector axis.
    """
    kernel = scope.kernel
    fixed = {vector.name, *(a.name for a in kernel.parallel)}
    found: dict[int, str] = {}
    for number, instr in enumerate(kernel.body):
        if not isinstance(instr, Store) or not instr.index.is_affine or instr.index.coefficient(vector.name) != 1:
            continue
        if not instr.index.axes() <= fixed:
            continue
        buffer = kernel.buffers[instr.buffer]
        count = _stored_elements(kernel, instr)
        if buffer.dtype.bytes == 1 or (isinstance(count, int) and count * buffer.dtype.bytes < LARGE_BYTES):
            continue
        start = Index(tuple((a, c) for a, c in instr.index.terms if a != vector.name), instr.index.const)
        text = f"fw::aligned({identifier(buffer.name)} + ({scope.index_text(start)}) + {begin})"
        if not isinstance(count, int):
            text = f"{print_size(count * buffer.dtype.bytes)} >= {LARGE_BYTES} && {text}"
        scope.out.line(f"const bool direct{number} = {text};")
        found[number] = f"direct{number}"
    return found


def large_outputs(out: Writer, kernel: Kernel) -> None:
    """Asks for large pages under the outputs that are, or may be, large."""
    seen: set[int] = set()
    for instr in kernel.body:
        if not isinstance(instr, Store) or instr.buffer in seen or not instr.index.is_affine:
            continue
        if any(isinstance(c, int) and c < 0 for _, c in instr.index.terms):
            continue  # the buffer's address is not its lowest
        buffer = kernel.buffers[instr.buffer]
        count = _stored_elements(kernel, instr)
        if isinstance(count, int) and count * buffer.dtype.bytes < LARGE_BYTES:
            continue
        seen.add(instr.buffer)
        size = print_size(count * buffer.dtype.bytes)
        condition = "" if isinstance(count, int) else f"if ({size} >= {LARGE_BYTES}) "
        out.line(f"{condition}fw::large_output({identifier(buffer.name)}, {size});")


def _stored_elements(kernel: Kernel, store: Store) -> Size:
    sizes = kernel.axis_sizes()
    return prod(sizes[a] for a in store.index.axes())


def threaded(kernel: Kernel) -> bool:
    """True where the points are shared between threads."""
    return bool(getattr(kernel.schedule, "threads", False))


def decode(out: Writer, number: str, coordinates: Sequence[tuple[str, str]], kind: str = "const int64_t") -> None:
    """Defines coordinates (name, size) from their row-major `number`."""
    if not coordinates:
        out.line(f"(void){number};")
        return
    if len(coordinates) == 1:
        out.line(f"{kind} {coordinates[0][0]} = {number};")
        return
    rest = number
    for name, size in reversed(coordinates[1:]):
        out.line(f"{kind} {name} = {_bracketed(rest)} % {size};")
        rest = f"{_bracketed(rest)} / {size}"
    out.line(f"{kind} {coordinates[0][0]} = {rest};")


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text


def split_levels(kernel: Kernel, numbers: Iterable[int], axes: Sequence[Axis]) -> list[list[int]]:
    """Instructions by loop: list 0 stands outside the loops over `axes`, list k in the k-th of them."""
    levels: list[list[int]] = [[] for _ in range(len(axes) + 1)]
    for number in numbers:
        depth = 0
        for position, axis in enumerate(axes, start=1):
            if axis.name in kernel.varies[number]:
                depth = position
        levels[depth].append(number)
    return levels


def leave_after_failure(scope: Scope, numbers: Iterable[int]) -> None:
    """Gives a point up when a check among `numbers` has failed: what comes later may rely on it."""
    if any(isinstance(scope.kernel.body[n], Check) for n in numbers):
        scope.out.line(f"if (fw::failed(status)) {scope.leave}")


def reduction(kernel: Kernel, number: int) -> Reduce:
    """Instruction `number`, which is a reduction."""
    instr = kernel.body[number]
    if not isinstance(instr, Reduce):
        raise IRError(f"kernel {kernel.name}: %{number} is no reduction")
    return instr


def reduction_class(kernel: Kernel, number: int, along: Literal["row", "column", "scalar"], slots: int = 1) -> str:
    """C++ class that accumulates reduction `number`: lanes of a row in `slots`, a tile of columns, or one scalar."""
    instr = reduction(kernel, number)
    kind = stored_type(instr.dtype)
    prefix = {"row": "fw::", "column": "fw::Column", "scalar": "fw::Scalar"}[along]
    tail = f", {slots}" if along == "row" else ""
    if instr.op == "sum":
        return f"{prefix}Sum<{kind}{tail}>"
    if instr.op == "prod":
        return f"{prefix}Fold<fw::Product, {kind}{tail}>"
    if instr.op in ("any", "all"):
        return f"{prefix}{'AnyOf' if instr.op == 'any' else 'AllOf'}"
    rule = "fw::Largest" if instr.op in ("max", "argmax") else "fw::Smallest"
    if instr.op in ("max", "min"):
        if instr.dtype == BOOL:
            return f"{prefix}{'AnyOf' if instr.op == 'max' else 'AllOf'}"
        name = "Extreme" if instr.dtype.is_float and along == "row" else "Fold"
        return f"{prefix}{name}<{rule}, {kind}{tail}>"
    if instr.op in ("argmax", "argmin"):
        of = result_dtype(kernel.body[instr.arg])
        if of is None or instr.position is None:
            raise IRError(f"kernel {kernel.name}: %{number} has no operand or no position")
        if along == "row" and is_place(kernel, number):
            return f"fw::Place<{rule}, {stored_type(of)}, {slots}>"
        return f"{prefix}Position<{rule}, {stored_type(of)}>"
    raise IRError(f"kernel {kernel.name}: unknown reduction {instr.op!r}")


def is_place(kernel: Kernel, number: int) -> bool:
    """True for an argmax or argmin whose position is the place on the only reduce axis."""
    return len(kernel.reduce) == 1 and reduction(kernel, number).position == axis_index(kernel.reduce[0].name)


def rule_of(kernel: Kernel, number: int) -> str:
    """C++ rule by which two values of reduction `number` become one."""
    instr = reduction(kernel, number)
    rules = {"sum": "Plus", "prod": "Product", "max": "Largest", "min": "Smallest", "any": "Either", "all": "Both"}
    if instr.op not in rules:
        raise IRError(f"kernel {kernel.name}: {instr.op} cannot be summed over the loop")
    if instr.dtype == BOOL:
        return "fw::Either" if instr.op in ("any", "max") else "fw::Both"
    return f"fw::{rules[instr.op]}"


def is_scalar_sum(kernel: Kernel, number: int) -> bool:
    """True for a reduction over the loop axes whose value is the same all along the row."""
    return not any(a.name in kernel.varies[number] for a in kernel.reduce)


def reduction_operands(scope: Scope, number: int, vector: bool) -> str:
    """Text of what a reduction takes in: the value in the accumulator's type, and the position where it needs one."""
    instr = reduction(scope.kernel, number)
    value = scope.value(instr.arg)
    if instr.op in ("argmax", "argmin") and value.dtype == BOOL:
        value = Value(compute("cast", [value], U8, value.vector), U8, value.vector)
    if instr.op not in ("argmax", "argmin", "any", "all") and value.dtype != instr.dtype:
        text = compute("cast", [value], instr.dtype, value.vector)
        value = Value(text, instr.dtype, value.vector)
    text = as_vector(value) if vector else value.text
    if instr.position is None:
        return text
    if vector and scope.vector_axis == scope.kernel.reduce[0].name and is_place(scope.kernel, number):
        return f"{text}, {scope.index_text(instr.position)}"
    return f"{text}, {scope.position(instr.position, vector)}"


def carried_now(kernel: Kernel, index: int) -> tuple[list[int], list[int]]:
    """(carried values that pass `index` computes first, carried values of earlier passes that it reads)."""
    passes = kernel.passes
    earlier = {n for p in passes[:index] for n in p.elem} & kernel.carried
    here = passes[index]
    later = {n for p in passes[index + 1 :] for n in _touched(kernel, p)}
    made = [n for n in here.elem if n in kernel.carried and n not in earlier and n in later]
    read = sorted(earlier & _touched(kernel, here))
    return made, read


def _touched(kernel: Kernel, one: Pass) -> set[int]:
    touched = set(one.elem)
    for number in (*one.elem, *one.reduces):
        touched.update(operands(kernel.body[number]))
    return touched
