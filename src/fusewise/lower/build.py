"""Region + schedule -> kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from fusewise.ir.affine import Div, Index, Loaded, Mod
from fusewise.ir.graph import Graph
from fusewise.ir.sizes import Size, hint, symbols_of
from fusewise.lower.axes import order_axes
from fusewise.lower.body import Body, Layouts, lower_body
from fusewise.lower.demand import mask_loads
from fusewise.lower.kernel import (
    Axis,
    Buffer,
    IndexOf,
    Kernel,
    Load,
    Random,
    Reduce,
    Schedule,
    SizeOf,
    Store,
    arithmetic,
    operands,
)
from fusewise.lower.moments import read_once
from fusewise.lower.narrow import narrow_indexes
from fusewise.lower.order import order_values, write_over, written_over
from fusewise.lower.passes import make_passes, recompute_cost
from fusewise.plan.region import Region
from fusewise.plan.schedule import AxisShape, KernelShape, TritonSchedule

_CARRY_COST = 4.0  # arithmetic an element above which a core keeps a value in its cache rather than compute it again
_CARRY_BYTES = 512 * 1024  # what the carried rows of one core may take of its second-level cache

UNBOUNDED = 2**62
"""Furthest offset into a buffer whose size is known at the call only."""

_STREAM_PART = 16  # a tensor of less than a 16th of the kernel's points is no stream: it comes out of a cache

ScheduleFor = Callable[[KernelShape], Schedule]


def build_kernel(
    graph: Graph,
    region: Region,
    stores: tuple[int, ...],
    layouts: Layouts,
    name: str,
    schedule_for: ScheduleFor,
    skip_masked: bool = False,
    over: Mapping[int, int] | None = None,
) -> Kernel:
    """The kernel of one region.

    Args:
        stores: native values that the kernel writes.
        layouts: element strides of the values in memory.
        name: a C identifier.
        schedule_for: gives the schedule for the kernel's shape.
        skip_masked: read nothing where a mask makes a value unneeded (a GPU's loads are predicated for nothing).
        over: for each store that goes to an input's memory that input.
    """
    axes, body = body_of(graph, region, stores, layouts, skip_masked, over)
    schedule = schedule_for(describe(axes, body, graph.hints()))
    return assemble(name, axes, body, schedule, graph.hints())


def body_of(
    graph: Graph,
    region: Region,
    stores: tuple[int, ...],
    layouts: Layouts,
    skip_masked: bool = False,
    over: Mapping[int, int] | None = None,
) -> tuple[tuple[Axis, ...], Body]:
    """Axes and instructions of one region, before it has a schedule; arguments as for `build_kernel`."""
    body = narrow_indexes(lower_body(graph, region, stores, layouts))
    body = order_values(mask_loads(body) if skip_masked else body)
    return order_axes(write_over(body, over) if over else body, graph.hints())


def assemble(name: str, axes: tuple[Axis, ...], body: Body, schedule: Schedule, hints: Mapping[str, int]) -> Kernel:
    """A kernel of an ordered body under a schedule."""
    if isinstance(schedule, TritonSchedule) and not schedule.persistent and body.reduce and not body.loop:
        body = read_once(body)
    is_element = [any(a in body.reduce for a in v) for v in body.varies]
    carry = _carry(axes, body, is_element, schedule, hints)
    order = make_passes(body.instrs, is_element, carry, written_over(body))
    return Kernel(
        name=name,
        axes=axes,
        buffers=body.buffers,
        sizes=tuple(sorted(_symbols(axes, body))),
        body=body.instrs,
        varies=body.varies,
        before=order.before,
        passes=order.passes,
        carried=order.carried,
        schedule=schedule,
        final=order.final,
    )


def describe(axes: tuple[Axis, ...], body: Body, hints: Mapping[str, int]) -> KernelShape:
    """What a schedule is chosen from."""
    sizes = {a.name: max(1, hint(a.size, hints)) for a in axes}
    is_element = [any(a in body.reduce for a in v) for v in body.varies]
    unit: dict[str, int] = {}
    access: list[int] = []
    moved = {"in": 0, "out": 0}
    vectors = 0
    counted: set[tuple[int, object]] = set()
    furthest = 0
    drawn: set[str] = set()
    for number, instr in enumerate(body.instrs):
        if isinstance(instr, Random):
            drawn |= {a for a in instr.element.axes() if hint(instr.element.coefficient(a), hints) == 1}
        if not isinstance(instr, (Load, Store)):
            continue
        buffer = body.buffers[instr.buffer]
        points = 1
        for name in body.varies[number] if instr.index.loaded() else instr.index.axes():
            points *= sizes[name]
        for name in instr.index.axes():
            if hint(instr.index.coefficient(name), hints) == 1:
                unit[name] = unit.get(name, 0) + points * buffer.dtype.bytes
        if points * _STREAM_PART >= math.prod(sizes.values()):
            access.append(buffer.dtype.bytes)
        if (instr.buffer, instr.index) not in counted:
            counted.add((instr.buffer, instr.index))
            moved[buffer.role] += points * buffer.dtype.bytes
            if buffer.role == "in" and body.reduce and body.varies[number] == body.reduce:
                vectors += points * buffer.dtype.bytes
        furthest = max(furthest, _furthest(instr, buffer, sizes, hints))
    passes = make_passes(body.instrs, is_element, lambda _: True, written_over(body)).passes
    return KernelShape(
        axes=tuple(AxisShape(a.name, sizes[a.name], isinstance(a.size, int), a.reduce, a.loop) for a in axes),
        unit_bytes=unit,
        access_bytes=tuple(access),
        reads=moved["in"],
        writes=moved["out"],
        passes=len(passes),
        live_elements=_live(body, is_element if body.reduce else [bool(v) for v in body.varies]),
        instructions=arithmetic(body.instrs),
        max_offset=furthest,
        drawn_along=frozenset(drawn),
        vector_bytes=vectors,
    )


def _carry(
    axes: tuple[Axis, ...], body: Body, is_element: list[bool], schedule: Schedule, hints: Mapping[str, int]
) -> Callable[[int], bool]:
    if isinstance(schedule, TritonSchedule):
        return lambda _: schedule.persistent
    row = 4
    for axis in axes:
        if axis.reduce:
            row *= max(1, hint(axis.size, hints))
    lanes = 16 if schedule.vector_axis is not None and schedule.vector_axis not in body.reduce else 1
    room = max(0, _CARRY_BYTES // (row * lanes))
    kept: set[int] = set()

    def carry(number: int) -> bool:
        if number in kept:
            return True
        instr = body.instrs[number]
        # axes that do not vary along every reduce axis would need a scratch row of another shape
        whole = body.varies[number] >= body.reduce
        if (
            isinstance(instr, (Load, IndexOf))
            or not whole
            or recompute_cost(body.instrs, is_element, number, kept) < _CARRY_COST
            or len(kept) >= room
        ):
            return False
        kept.add(number)
        return True

    return carry


def _symbols(axes: tuple[Axis, ...], body: Body) -> set[str]:
    found: set[str] = symbols_of(a.size for a in axes)

    def look(index: Index) -> None:
        sizes: list[Size] = [index.const]
        for atom, coef in index.terms:
            sizes.append(coef)
            if isinstance(atom, (Div, Mod)):
                sizes.append(atom.by)
                look(atom.arg)
            elif isinstance(atom, Loaded):
                for part in atom.at:
                    look(part)
        found.update(symbols_of(sizes))

    for instr in body.instrs:
        match instr:
            case Load(index=i) | Store(index=i) | IndexOf(index=i):
                look(i)
            case Random(element=i):
                look(i)
            case Reduce(position=i) if i is not None:
                look(i)
            case SizeOf(expr=expr):
                found.update(symbols_of([expr]))
            case _:
                pass
    return found


def _furthest(instr: Load | Store, buffer: Buffer, sizes: Mapping[str, int], hints: Mapping[str, int]) -> int:
    total = abs(hint(instr.index.const, hints))
    for atom, coef in instr.index.terms:
        if not isinstance(atom, str):
            # a quotient, a remainder or a loaded index: eight rows of a table may be its last ones
            return buffer.extent if isinstance(buffer.extent, int) else UNBOUNDED
        total += abs(hint(coef, hints)) * (sizes[atom] - 1)
    return total


def _live(body: Body, is_element: list[bool]) -> int:
    """Greatest number of element values alive at once, in the order of the instructions."""
    last: dict[int, int] = {}
    for number, instr in enumerate(body.instrs):
        for operand in operands(instr):
            last[operand] = number
    alive = peak = 0
    ends: dict[int, int] = {}
    for number, instr in enumerate(body.instrs):
        if is_element[number] and not isinstance(instr, Store) and number in last:
            alive += 1
            ends[last[number]] = ends.get(last[number], 0) + 1
        peak = max(peak, alive)
        alive -= ends.pop(number, 0)
    return peak
