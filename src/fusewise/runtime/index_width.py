"""Two variants of a kernel of changing sizes: 32-bit indexes where every offset of a call fits them, else 64-bit.

On a GPU 64-bit index arithmetic costs several times as much as 32-bit, and nearly every call fits; which one runs is
decided at each call, from the sizes alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fusewise.ir.affine import Index, upper_bound
from fusewise.ir.sizes import Size, norm
from fusewise.lower.kernel import Kernel, Load, Random, Store, TritonSchedule
from fusewise.lower.launch import BundledKernel, LaunchUnit, members_of
from fusewise.runtime.program import Launch

LIMIT = 2**31 - 2**20  # a last tile may reach past the size by less than 2^20


def narrow_variant(unit: LaunchUnit) -> LaunchUnit | None:
    """What a launch runs with 32-bit indexes, or None where it has them, or where no bound of its offsets is known."""
    if isinstance(unit, Kernel):
        return _narrow(unit)
    members = tuple(_narrow(member) or member for member in unit.members)
    return None if members == unit.members else BundledKernel(f"{unit.name}_i32", members)


def _narrow(kernel: Kernel) -> Kernel | None:
    schedule = kernel.schedule
    if not isinstance(schedule, TritonSchedule) or schedule.index_bits == 32 or not kernel.sizes:
        return None
    if _bounds(kernel) is None:
        return None
    return replace(kernel, name=f"{kernel.name}_i32", schedule=replace(schedule, index_bits=32))


def choose_by_size(kernel: LaunchUnit, narrow: Launch, wide: Launch) -> Launch:
    """A launch that takes the narrow variant where every offset and number of points is below `LIMIT`."""
    narrowed = [member for member in members_of(kernel) if _narrow(member) is not None]
    bounds = dict.fromkeys(bound for member in narrowed for bound in _bounds(member) or ())
    sizes = ", ".join(kernel.sizes)
    tests = " and ".join(f"{norm(b)} < {LIMIT}" for b in bounds) or "True"
    pointers = ", ".join(f"p{n}" for n in range(len(kernel.buffers)))
    arguments = ", ".join(part for part in ("stream", pointers, sizes) if part)
    # the text holds names of sizes and numbers alone
    source = f"def launch({arguments}):\n    return (narrow if {tests} else wide)({arguments})\n"
    scope: dict[str, Any] = {"narrow": narrow, "wide": wide}
    exec(compile(source, f"<launch of {kernel.name}>", "exec"), scope)
    launch: Launch = scope["launch"]
    return launch


def _bounds(kernel: Kernel) -> list[Size] | None:
    """Greatest values of what the kernel computes with as indexes, without repeats; None where one is not known."""
    sizes: Mapping[str, Size] = kernel.axis_sizes()
    points: Size = 1
    for size in sizes.values():
        points = norm(points * size)
    found: dict[Size, None] = {points: None}
    for instr in kernel.body:
        index: Index | None = None
        if isinstance(instr, (Load, Store)):
            index = instr.index
        elif isinstance(instr, Random):
            index = instr.element
        if index is not None and index.terms:
            bound = upper_bound(index, sizes)
            if bound is None:
                return None
            found[bound] = None
    return [b for b in found if not isinstance(b, int) or b >= LIMIT]
