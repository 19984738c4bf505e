"""Kernel IR -> C++: one translation unit with every kernel of a graph.

A kernel becomes `extern "C" int64_t NAME(T* buffer..., int64_t size...)`; it returns 0, 1 + the id of a `Check` that
failed, or -1 where memory is out. Its loops, from the outside: the points of the parallel axes, shared between threads;
the other reduce axes; the vector axis. An instruction stands in the outermost loop that has every axis along which its
value varies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fusewise.codegen.cpp_body import Scope, Writer
from fusewise.codegen.cpp_columns import column_form
from fusewise.codegen.cpp_forms import joint_forms, replaced
from fusewise.codegen.cpp_loops import constants, large_outputs, size_name
from fusewise.codegen.cpp_ops import stored_type
from fusewise.codegen.cpp_pointwise import pointwise_form
from fusewise.codegen.cpp_rows import few_rows, row_form, scalar_form, split_form
from fusewise.codegen.cpp_walk import as_walk, walk_form
from fusewise.codegen.expr import identifier, print_size
from fusewise.errors import IRError
from fusewise.lower.kernel import CppSchedule, Kernel

HEADER = "fusewise_cpu.h"
LONG_COLUMN = 64


def unit(kernels: Sequence[Kernel]) -> str:
    """The C++ source of the kernels; `Unsupported` for an op without a C++ form, `IRError` for a broken kernel.

    Of kernels that differ in their names alone, as of a model's layers or an optimiser's tensors, the first one is
    compiled and the others are names of it.
    """
    names = [k.name for k in kernels]
    if len(set(names)) != len(names):
        raise IRError(f"two kernels of one unit share a name: {min(n for n in names if names.count(n) > 1)}")
    functions: dict[str, str] = {}
    texts: list[str] = []
    for kernel in kernels:
        text, name = _function(kernel), identifier(kernel.name)
        same = functions.setdefault(text.replace(f" {name}(", " (", 1), name)
        if same != name:
            text = f'extern "C" int64_t {name}({", ".join(parameters(kernel))}) __attribute__((alias("{same}")));'
        texts.append(text)
    return "\n\n".join([f'#include "{HEADER}"', *texts]) + "\n"


def parameters(kernel: Kernel) -> list[str]:
    """C++ declarations of the kernel's parameters, in order."""
    # an input that the kernel writes over has two names
    written = {b.over for b in kernel.buffers if b.over is not None}
    pointers = [
        f"{'const ' if b.role == 'in' else ''}{stored_type(b.dtype)}*"
        f" {'' if b.over is not None or b.node in written else '__restrict '}{identifier(b.name)}"
        for b in kernel.buffers
    ]
    return [*pointers, *(f"int64_t {identifier(s)}" for s in kernel.sizes)]


_TAKEN = re.compile(
    r"(v|acc|row|held|part|stream|sum|direct|square)\d+|n_\w*|points?|mine|status|begin|end|last|blocks?|bands?|band_begin|band_end|tiles?|width|count|rows?|chunks?"
    r"|chunk_rows|chunk_size|place|at_row|group|group_rows|lanes?|slot|col"
)


def _function(kernel: Kernel) -> str:
    if not isinstance(kernel.schedule, CppSchedule):
        raise IRError(f"kernel {kernel.name} has no C++ schedule")
    for name in [*(b.name for b in kernel.buffers), *kernel.sizes, *(a.name for a in kernel.axes)]:
        if _TAKEN.fullmatch(name):
            raise IRError(f"kernel {kernel.name}: {name!r} is a name that generated C++ uses itself")
    out = Writer()
    out.open(f'extern "C" int64_t {identifier(kernel.name)}({", ".join(parameters(kernel))}) {{')
    for axis in kernel.axes:
        out.line(f"const int64_t {size_name(axis)} = {print_size(axis.size)};")
    empty = " || ".join(f"{size_name(a)} == 0" for a in kernel.parallel)
    if empty:
        out.line(f"if ({empty}) return 0;")
    large_outputs(out, kernel)
    out.line("int64_t status = 0;")
    forms = joint_forms(kernel)
    scope = Scope(out, kernel, {}, None, "return status;", forms=forms, replaced=replaced(kernel, forms))
    scope.emit_all(constants(kernel))
    _loops(scope, kernel.schedule)
    out.line("return status;")
    out.close()
    return "\n".join(out.lines)


def _loops(scope: Scope, schedule: CppSchedule) -> None:
    kernel = scope.kernel
    axes = {a.name: a for a in kernel.axes}
    if schedule.vector_axis is not None and schedule.vector_axis not in axes:
        raise IRError(f"kernel {kernel.name} has no axis {schedule.vector_axis!r}")
    vector = axes[schedule.vector_axis] if schedule.vector_axis else None
    if kernel.loop:
        row = vector if vector is not None and vector.reduce else (kernel.reduce or (None,))[-1]
        if row is None:
            raise IRError(f"kernel {kernel.name} walks rows that have no axis")
        walk_form(scope, row)
    elif vector is None:
        scalar_form(scope)
    elif vector.reduce:
        (split_form if few_rows(kernel) else row_form)(scope, vector)
    elif not kernel.reduce:
        pointwise_form(scope, vector)
    elif (walk := as_walk(kernel, vector)) is not None and _long(kernel):
        walk_form(replace(scope, kernel=walk), replace(vector, reduce=True))
    else:
        column_form(scope, vector)


def _long(kernel: Kernel) -> bool:
    """True where columns may be long: then rows are walked in chunks, which costs a second loop over the results."""
    size = kernel.reduce_size
    return not isinstance(size, int) or size > LONG_COLUMN
