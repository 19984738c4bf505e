"""Schedules of GPU kernels by their shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusewise.plan.gpu_schedule import OVERHEAD_REGISTERS, REGISTERS, choose_gpu_schedule
from fusewise.plan.schedule import AxisShape, KernelShape, TritonSchedule

SMS = 132


def shape(
    axes: list[AxisShape],
    unit: dict[str, int],
    access: tuple[int, ...] = (2, 2),
    live: int = 2,
    offset: int | None = None,
) -> KernelShape:
    points = 1
    for a in axes:
        points *= a.size
    return KernelShape(
        axes=tuple(axes),
        unit_bytes=unit,
        access_bytes=access,
        reads=points * access[0],
        writes=points * access[-1],
        passes=3,
        live_elements=live,
        instructions=10.0,
        max_offset=points - 1 if offset is None else offset,
    )


def parallel(name: str, size: int, static: bool = True) -> AxisShape:
    return AxisShape(name, size, static, False)


def row(name: str, size: int, static: bool = True) -> AxisShape:
    return AxisShape(name, size, static, True)


def rows(columns: int, count: int = 16384, width: int = 2, live: int = 2, static: bool = True) -> KernelShape:
    axes = [parallel("x0", count), row("r0", columns, static)]
    return shape(axes, {"r0": 2 * width * count * columns}, (width, width), live)


def best(of: KernelShape) -> TritonSchedule:
    return choose_gpu_schedule(of, SMS)[0]


@pytest.mark.parametrize(("width", "each"), [(2, 16), (4, 8), (8, 4)])
def test_pointwise_threads_take_whole_vectors(width: int, each: int) -> None:
    found = best(shape([parallel("x0", 1 << 24)], {"x0": 1}, (width, width)))
    assert found.x_block == 32 * found.num_warps * each


def test_many_inputs_need_fewer_elements_a_thread() -> None:
    found = best(shape([parallel("x0", 1 << 24)], {"x0": 1}, (4, 4, 4, 4, 4)))
    assert found.x_block == 128 * 4


def test_a_small_tensor_is_spread_over_the_gpu() -> None:
    found = best(shape([parallel("x0", 40_000)], {"x0": 1}))
    assert -(-40_000 // found.x_block) >= SMS
    assert best(shape([parallel("x0", 10)], {"x0": 1})).x_block == 128


@pytest.mark.parametrize("columns", [256, 1000, 4096, 8192, 16384, 32768])
def test_a_row_stays_on_chip(columns: int) -> None:
    found = best(rows(columns))
    assert found.persistent and found.r_block >= columns
    threads = 32 * found.num_warps
    assert found.x_block * found.r_block / threads <= 64
    assert found.x_block * found.r_block + OVERHEAD_REGISTERS * threads <= REGISTERS


@pytest.mark.parametrize(("columns", "warps"), [(1024, 1), (2048, 2), (8192, 8)])
def test_a_row_takes_a_warp_for_1024_elements(columns: int, warps: int) -> None:
    assert best(rows(columns)).num_warps == warps


def test_two_rows_held_at_once_take_twice_the_warps() -> None:
    assert best(rows(2048)).num_warps == 2
    assert best(replace(rows(2048), access_bytes=(2, 2, 2))).num_warps == 4


def test_short_rows_share_a_warp() -> None:
    found = best(rows(100))
    assert found.x_block == 16 and found.r_block == 128


def test_a_row_that_does_not_fit_is_walked() -> None:
    assert not best(rows(1 << 17)).persistent
    assert not best(rows(16384, live=6)).persistent
    assert not best(rows(4096, static=False)).persistent


def test_few_rows_get_more_warps() -> None:
    assert best(rows(8192, count=8)).num_warps > best(rows(8192)).num_warps


def test_two_rows_of_4096_share_a_program_where_arithmetic_is_light() -> None:
    light = best(rows(4096))
    heavy = best(replace(rows(4096), instructions=90.0))
    assert (light.num_warps, light.x_block) == (16, 2) and (heavy.num_warps, heavy.x_block) == (4, 1)


def test_two_rows_share_what_the_first_level_cache_cannot_keep() -> None:
    plain = replace(rows(4096), instructions=90.0)
    near, far = (replace(plain, vector_bytes=bytes_) for bytes_ in (16384, 262144))
    assert choose_gpu_schedule(near, SMS) == choose_gpu_schedule(plain, SMS)
    first, second = choose_gpu_schedule(far, SMS)[:2]
    assert first == best(plain) and second.x_block == 2
    assert second.num_warps == 4 * first.num_warps  # half the code for each of the two rows


def test_a_row_that_fills_a_multiprocessor_may_be_read_twice() -> None:
    found = choose_gpu_schedule(rows(32768), SMS)
    assert found[0].persistent and not any(s.persistent for s in found[1:])
    assert all(s.persistent for s in choose_gpu_schedule(rows(8192), SMS))


def test_a_walk_over_columns_has_tiles_in_flight_within_shared_memory() -> None:
    axes = [parallel("x0", 65536), row("r0", 4096)]
    narrow, wide = (choose_gpu_schedule(shape(axes, {"x0": 1 << 30}, access), SMS) for access in ((2, 2), (8,) * 12))
    assert narrow[0].num_stages == 3
    assert all(3 * s.x_block * s.r_block * 96 <= 49152 or s.num_stages == 1 for s in wide)


def test_columns_are_read_in_whole_segments() -> None:
    axes = [parallel("x0", 65536), row("r0", 4096)]
    found = best(shape(axes, {"x0": 65536 * 4096 * 2}))
    assert not found.persistent
    assert found.x_block * 2 >= 64 and found.r_block > 1


def test_few_columns_still_fill_the_gpu() -> None:
    axes = [parallel("x0", 4096), row("r0", 65536)]
    found = best(shape(axes, {"x0": 65536 * 4096 * 2}))
    assert -(-4096 // found.x_block) >= SMS


def test_a_transpose_gets_a_square_tile() -> None:
    axes = [parallel("x0", 4096), parallel("x1", 4096)]
    found = best(shape(axes, {"x0": 1 << 24, "x1": 1 << 24}))
    assert (found.y_axes, found.x_axes) == (("x0",), ("x1",))
    assert found.y_block == found.x_block == 64 and found.num_warps == 4


def test_a_tile_of_a_transpose_spans_several_outer_axes() -> None:
    """Channels in groups: 16 neighbours of one group are no end, the next group lies behind them."""
    axes = [parallel("x0", 16), parallel("x1", 32), parallel("x2", 16), parallel("x3", 4096)]
    found = best(shape(axes, {"x2": 1 << 25, "x3": 1 << 25}))
    assert (found.y_axes, found.x_axes) == (("x0", "x1", "x2"), ("x3",)) and found.y_block == 64


def test_a_loop_over_rows_holds_the_row() -> None:
    axes = [parallel("x0", 264), AxisShape("l0", 62, True, False, loop=True), row("r0", 4096)]
    found = best(shape(axes, {"r0": 1}))
    assert found.persistent and found.x_axes == ("x0",) and found.r_block == 4096
    # several rows in flight: the next ones are read while one is computed
    assert found.num_stages > 1 and found.r_block / (32 * found.num_warps) <= 32


@pytest.mark.parametrize(("count", "static", "bits"), [(1 << 24, True, 32), (1 << 31, True, 64), (1 << 24, False, 64)])
def test_index_bits(count: int, static: bool, bits: int) -> None:
    found = choose_gpu_schedule(shape([parallel("x0", count, static)], {"x0": 1}), SMS)
    assert {s.index_bits for s in found} == {bits}


def test_candidates_differ() -> None:
    for of in [rows(100), rows(4096), rows(1 << 17), shape([parallel("x0", 1 << 24)], {"x0": 1})]:
        found = choose_gpu_schedule(of, SMS)
        assert len(found) == len(set(found)) >= 2


def test_neighbours_that_draw_together_lie_along_the_inner_axis() -> None:
    """Channels-last read, row-major written and numbered: a channel's bytes weigh a little more, the draws decide."""
    axes = [parallel("n", 16), parallel("c", 512), parallel("p", 4096)]
    points = 16 * 512 * 4096
    plain = shape(axes, {"c": 2 * points + 4096, "p": 2 * points})
    assert best(plain).x_axes == ("c",)
    drawing = replace(plain, drawn_along=frozenset({"p"}))
    assert best(drawing).x_axes == ("p",) and best(drawing).y_axes[-1] == "c"
