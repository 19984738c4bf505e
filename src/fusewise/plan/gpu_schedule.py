"""Tiles of a GPU kernel: a pure function from a kernel's shape to schedules, best first.

What it goes by (H200, measured on such kernels unless said): a memory-bound kernel wants 16-byte accesses and a few of
them in flight a thread; a row held on chip runs at the copy rate with about 32 elements a thread and no more warps than
that takes; a row that fits the lanes of one warp should not be split over two, since its reductions then go through
shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fusewise.plan.schedule import AxisShape, KernelShape, TritonSchedule

VECTOR_BYTES = 16  # widest access of a thread
REGISTERS = 65536  # of one multiprocessor, on every GPU since cc 3.5
OVERHEAD_REGISTERS = 24  # addresses, masks, row values: a thread's registers that hold no elements
MAX_WARPS = 32
_MUCH_ARITHMETIC = 48  # instructions a point from which a row's own arithmetic counts
_SHORT_ROW = 1024  # elements up to which a program that walks rows takes several at a time
_SHORT_COLUMN = 32  # elements of a column up to which a program takes many columns and few of their elements at a time
_PIPELINE_BYTES = 49152  # of shared memory for the tiles that a loop has in flight: what every GPU gives a program
_MOST_CROSSING = 192  # values of a thread's 32 elements up to which as many cross over in shared memory
_NEAR_BYTES = 128 * 1024  # of a first-level cache, beside what else goes through it
INDEX_LIMIT = 2**31 - 2**20  # a last tile may reach past the size by less than 2^20


def choose_gpu_schedule(shape: KernelShape, sm_count: int) -> tuple[TritonSchedule, ...]:
    """Schedules for a kernel, best first.

    Args:
        sm_count: multiprocessors of the GPU.
    """
    if shape.loop:
        found = _row_loop(shape)
    elif not shape.reduce:
        found = _pointwise(shape, sm_count)
    elif _row_bytes(shape) >= _column_bytes(shape):
        found = _row(shape, sm_count)
    else:
        found = _column(shape, sm_count)
    bits = index_bits(shape)
    return tuple(dict.fromkeys(replace(s, index_bits=bits) for s in found))


def index_bits(shape: KernelShape) -> int:
    """64 where an offset or a flat index may pass 2^31 - 1; a size that is not known for good may grow."""
    points = math.prod(a.size for a in shape.axes)
    static = all(a.static for a in shape.axes)
    return 32 if static and max(points, shape.max_offset) < INDEX_LIMIT else 64


# ---- pointwise


def _pointwise(shape: KernelShape, sm_count: int) -> list[TritonSchedule]:
    axes = shape.parallel
    inner = _contiguous(axes, shape)
    other = _transposed(axes, shape, inner)
    if inner is not None and other is not None:
        return _transpose(shape, inner, other)
    x_axes = tuple(a.name for a in axes)
    # H200, SwiGLU of 16384 x 11008 bf16: 251.9 us with 8 elements a thread, 253.2 with 16; the input gradient of a
    # group norm, whose rows have values of their own: 61 with 8, 54.6 with 16
    each = _elements_a_thread(shape, 48)
    total = shape.parallel_size
    found = _inner_tiles(shape, inner, _elements_a_thread(shape, 64), sm_count)
    for elements, warps in ((each, 4), (each, 8), (max(1, each // 2), 4)):
        block = 32 * warps * elements
        # a small tensor: rather more programs than full vectors, down to one element a thread
        while block > 32 * warps and -(-total // block) < 2 * sm_count:
            block //= 2
        found.append(TritonSchedule((), x_axes, 1, min(block, _power(total, 32 * warps)), 1, True, warps))
    return found


def _inner_tiles(shape: KernelShape, inner: AxisShape | None, each: int, sm_count: int) -> list[TritonSchedule]:
    """Tiles along the inner axis alone, where it is long: the outer axes are then numbers of the program.

    What varies along the outer axes only (a norm's statistics, a channel's scale) is read and computed once a tile, and
    no element divides its index.
    """
    outer = [a for a in shape.parallel if a is not inner]
    if not outer or inner is None or inner is not shape.parallel[-1] or not inner.static:
        return []
    found = []
    for elements, warps in ((each, 4), (each, 2), (each, 1), (each, 8)):
        block = 32 * warps * elements
        tiles = -(-inner.size // block)
        if tiles * block > inner.size * 1.1 or tiles * shape.parallel_size // inner.size < 2 * sm_count:
            continue
        found.append(TritonSchedule(tuple(a.name for a in outer), (inner.name,), 1, block, 1, True, warps))
    return found


def _elements_a_thread(shape: KernelShape, access_bytes: int) -> int:
    """So many bytes of accesses a thread, in vectors of 16 bytes, within what registers hold."""
    narrow = max(1, min(shape.access_bytes, default=4))
    vector = VECTOR_BYTES // narrow
    point = sum(shape.access_bytes) or 4
    wanted = _power(access_bytes // point, 1)
    elements = min(max(wanted, vector), 2 * vector)
    least = max(1, 4 // narrow)  # a warp then still asks for whole sectors
    while elements > least and elements * max(1, shape.live_elements) > 128:
        elements //= 2
    return elements


def _transpose(shape: KernelShape, inner: AxisShape, other: AxisShape) -> list[TritonSchedule]:
    """Tiles with two sides, since some accesses are contiguous along one axis and some along another.

    What crosses over waits at a barrier: rather many elements a thread, where registers allow it. H200, a bf16 matrix
    of 8192 x 8192 transposed: 73 us in tiles of 64 x 64, 87 in 32 x 64; group norm with SiLU and dropout from
    channels-last to row-major, forward: 47 us with 32 elements a thread, 51 with 16, 65 with 8; its backward, which has
    three tensors: 73 in tiles of 16 x 128, 91 in 64 x 64.
    """
    y_axes = (*(a.name for a in shape.parallel if a not in (inner, other)), other.name)
    most = _power(shape.parallel_size // max(1, inner.size), 1)
    widest = max(shape.access_bytes, default=4)
    if widest > 4:
        tiles = [(32, 64, 8), (32, 32, 8), (32, 32, 32)]
    elif 32 * shape.live_elements <= _MOST_CROSSING:
        tiles = [(64, 64, 32), (64, 64, 16), (32, 64, 32)]
    else:
        tiles = [(16, 128 if widest <= 2 else 64, 16), (16, 64, 16), (16, 32, 16)]
    found = []
    for y_side, x_side, elements in tiles:
        x_block = min(x_side, _power(inner.size, 1))
        y_block = min(x_side * y_side // x_block, most)
        warps = max(1, min(8, x_block * y_block // (32 * elements)))
        found.append(TritonSchedule(y_axes, (inner.name,), y_block, x_block, 1, True, warps))
    return found


# ---- rows


def _row(shape: KernelShape, sm_count: int) -> list[TritonSchedule]:
    rows = shape.parallel_size
    length = shape.reduce_size
    block = _row_block(shape)
    static = all(a.static for a in shape.reduce)
    found: list[TritonSchedule] = []
    x_axes = tuple(a.name for a in shape.parallel)
    if static and _row_fits(shape, block):
        for warps, x_block in _row_shapes(shape, block, rows, sm_count):
            found.append(TritonSchedule((), x_axes, 1, x_block, block, True, warps))
        if _row_warps(shape, block) < MAX_WARPS:
            return found
        # a program that fills a multiprocessor leaves nobody to load while it computes: it may be better to read the
        # row again, from the cache
        del found[1:]
    # one row a program: many warps with little each hide the latency of its passes (H200, softmax of 4096 x 32768,
    # forward and backward: 32 warps 131 and 196 us, 16 warps 149 and 204, 8 warps 156 and 201)
    tiles: tuple[tuple[int, int], ...] = ((16, 16), (32, 4), (8, 16), (4, 16))
    if _held(shape) <= 2:  # else 32 warps of 16 elements a thread spill
        tiles = ((32, 16), (32, 4), (16, 32), *tiles)
    for warps, elements in tiles:
        # a size that changes is served by its hint: a longer row takes more turns
        r_block = min(_power(length, 32 * elements), warps * 32 * elements)
        found.append(TritonSchedule((), x_axes, 1, 1, r_block, False, min(warps, r_block // (32 * elements))))
    return found


def _row_block(shape: KernelShape) -> int:
    """A power of two that holds the reduced axes; two elements at least, which packed 16-bit instructions take."""
    return _power(shape.reduce_size, 2)


def _row_fits(shape: KernelShape, block: int) -> bool:
    """True where one multiprocessor holds a row in registers, with as many warps as a program may have."""
    threads = 32 * _row_warps(shape, block)
    return block * _held(shape) + OVERHEAD_REGISTERS * threads <= REGISTERS


def _held(shape: KernelShape) -> int:
    """Values of each element that stay in registers: while one is computed from another, both are not held for long."""
    return max(1, shape.live_elements - 1)


def _row_warps(shape: KernelShape, block: int) -> int:
    """32 elements a thread, 16 where many values an element are alive."""
    elements = 32 if _held(shape) <= 5 else 16
    warps = max(1, min(MAX_WARPS, block // (32 * elements)))
    return warps


def _row_shapes(shape: KernelShape, block: int, rows: int, sm_count: int) -> list[tuple[int, int]]:
    """(warps, rows) of a program that holds whole rows."""
    narrow = max(1, min(shape.access_bytes, default=4))
    warp_span = 32 * (VECTOR_BYTES // narrow)
    if block <= warp_span:
        # many short rows: the lanes of a warp share them
        found = []
        for warps, elements in ((4, 16), (4, 8), (8, 16), (2, 16)):
            x_block = max(1, 32 * warps * elements // block)
            while x_block > 1 and -(-rows // x_block) < sm_count:
                x_block //= 2
            found.append((warps, min(x_block, _power(rows, 1))))
        return found
    warps = _row_warps(shape, block)
    if rows < sm_count:
        # few rows: the time is that of one, so more threads a row
        warps = max(warps, min(MAX_WARPS // 2, block // (32 * 8)))
    less, more = max(1, warps // 2), min(MAX_WARPS, warps * 2)
    found = [(warps, 1), (more, 1), (less, 1)]
    if 4096 <= block < 8192 and rows >= 4 * sm_count and shape.passes > 1 and len(shape.access_bytes) > 1:
        # H200, 16384 x 4096 bf16: a layer norm takes 68.5 us with 16 warps for two rows, 70.6 with 8 a row, 71.4 with
        # 4; one of gelu, dropout and residual 103.7 with 4 a row, 104.2 with 8, in training 104.1 and 107.2
        light = shape.instructions < _MUCH_ARITHMETIC
        found = [(min(MAX_WARPS, 4 * warps), 2), *found] if light else [(warps, 1), (more, 1)]
    if 2048 <= block < 4096 and rows >= 4 * sm_count and len(shape.access_bytes) > 2:
        # H200, backward of a masked softmax of rows of 2048, which holds two rows at once: 276 us with 4 warps, 296
        # with 2 (which its registers keep at 16 an SM)
        found = [(more, 1), (warps, 1), (less, 1)]
    own = (shape.reads + shape.writes - shape.vector_bytes) // rows
    if shape.vector_bytes > max(_NEAR_BYTES, own) and rows >= 4 * sm_count:
        # the first-level cache does not keep what all rows read alike: a program reads it once for two rows
        found.insert(1, (min(MAX_WARPS, 4 * warps), 2))
    if block * 2 <= 32 * 32 * warps and rows >= 4 * sm_count:
        found.append((warps, 2))
    return found


# ---- rows taken one after the other, with sums over them


def _row_loop(shape: KernelShape) -> list[TritonSchedule]:
    """A program walks rows and keeps their column sums in registers: 32 elements a thread.

    Three rows in flight: one is computed while the next two arrive. On an H200 the backward of a layer norm of 16384 x
    4096 bf16 takes 109 us so, against 135 us with two; with gelu and dropout 186 us, against 234 us.
    """
    block = _row_block(shape)
    x_axes = tuple(a.name for a in shape.parallel)
    found = []
    if block <= _SHORT_ROW and all(a.static for a in shape.loop):
        # many short rows at a time: one alone gives a warp little to do and less to load
        walked = math.prod(a.size for a in shape.loop)  # by a power of two that divides it
        # H200, backward of a layer norm of 65536 x 256 bf16, a row a warp: 51 us with 16 elements a thread, 73 with 32
        shapes = ((4, 16),) if block == 256 else ((4, 32), (4, 16), (8, 16))
        for count, elements in shapes:
            rows = min(walked & -walked, 32 * count * elements // block)
            if rows > 1:
                busy = max(1, min(count, rows * block // (32 * 8)))
                found.append(TritonSchedule((), x_axes, 1, 1, block, True, busy, 3, l_block=rows))
        if found:
            return found
    warps = max(1, min(MAX_WARPS, block // (32 * 32)))
    for count, stages in ((warps, 3), (min(MAX_WARPS, warps * 2), 3), (warps, 2), (warps, 1)):
        found.append(TritonSchedule((), x_axes, 1, 1, block, True, count, stages))
    return found


# ---- columns


def _column(shape: KernelShape, sm_count: int) -> list[TritonSchedule]:
    """Reductions along an axis that is not the contiguous one: tiles of whole 64- or 128-byte segments of many rows."""
    axes = shape.parallel
    inner = _contiguous(axes, shape)
    x_axes = tuple(a.name for a in axes if a is not inner) + ((inner.name,) if inner is not None else ())
    narrow = max(1, min(shape.access_bytes, default=4))
    static = all(a.static for a in shape.reduce)
    columns = shape.parallel_size
    found = []
    whole = _row_block(shape)
    if static and whole <= _SHORT_COLUMN:
        # few rows, far apart: a program asks for few of them at a time (H200, backward of a layer norm of 16 x
        # 4194304 bf16: 99 us with two, 136 with four, 369 with eight, 338 to 614 with all)
        for x_block, r_block in ((1024, 2), (1024, 1), (512, 4)):
            if r_block < whole and -(-columns // x_block) >= 2 * sm_count:
                found.append(TritonSchedule((), x_axes, 1, x_block, r_block, False, 4, 3))
        if found:
            return found
    for segment, warps, elements in ((128, 4, 16), (64, 4, 16), (128, 8, 16), (256, 8, 16), (32, 4, 8)):
        x_block = min(segment // narrow, _power(columns, 1))
        r_block = min(max(1, 32 * warps * elements // x_block), whole)
        persistent = False
        if static and whole * x_block * max(1, shape.live_elements) <= 32 * warps * 64:
            persistent, r_block = True, whole
        # three tiles in flight (H200, weight gradients of a group norm with dropout, channels-last: 76 us, else 107)
        in_flight = 3 * x_block * r_block * sum(shape.access_bytes)
        stages = 3 if not persistent and in_flight <= _PIPELINE_BYTES else 1
        found.append(TritonSchedule((), x_axes, 1, x_block, r_block, persistent, warps, stages))
    # enough programs first, then wide segments
    found.sort(key=lambda s: -(-columns // s.x_block) < sm_count)
    return found


# ---- what is contiguous


def _row_bytes(shape: KernelShape) -> int:
    return sum(shape.unit_bytes.get(a.name, 0) for a in shape.reduce)


def _column_bytes(shape: KernelShape) -> int:
    return sum(shape.unit_bytes.get(a.name, 0) for a in shape.parallel if a.size > 1) if shape.reduce_size > 1 else 0


def _contiguous(axes: Sequence[AxisShape], shape: KernelShape) -> AxisShape | None:
    """The axis along which random numbers are drawn, else that with the most bytes moved by accesses of step 1; the
    innermost on a tie.

    Bytes that are contiguous along another axis cross over in shared memory; random numbers that each element draws
    alone cost eight times as much (H200, group norm, SiLU and dropout from channels-last to row-major: 151 us).
    """
    best: AxisShape | None = None

    def rank(axis: AxisShape) -> tuple[bool, int]:
        return axis.name in shape.drawn_along and _unit(axis, shape) > 0, _unit(axis, shape)

    for axis in axes:
        if axis.size > 1 and (best is None or rank(axis) >= rank(best)):
            best = axis
    return best


def _transposed(axes: Sequence[AxisShape], shape: KernelShape, inner: AxisShape | None) -> AxisShape | None:
    """Another axis along which a good part of the bytes is contiguous."""
    rest = [a for a in axes if a is not inner and a.size > 1]
    best = _contiguous(rest, shape)
    if best is None or inner is None or _unit(best, shape) * 8 < _unit(inner, shape):
        return None
    return best


def _unit(axis: AxisShape, shape: KernelShape) -> int:
    return shape.unit_bytes.get(axis.name, 0)


def _power(number: int, least: int) -> int:
    """The smallest power of two that is at least `number` and `least`."""
    return 1 << max(number - 1, least - 1, 0).bit_length()
