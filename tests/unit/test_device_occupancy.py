"""The occupancy calculator: known answers, published profiler reports, properties, an allocation simulated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusewise.device.arch import Arch, list_archs, load_arch
from fusewise.device.occupancy import Limiter, Occupancy, max_regs_for_blocks, occupancy, staircase
from fusewise.errors import UsageError

archs = st.sampled_from([load_arch(name) for name in list_archs()])
registers = st.integers(0, 255)
shared = st.integers(0, 240 * 1024)
threads = st.integers(1, 1024)


def simulated_blocks(arch: Arch, regs: int, shared_bytes: int, threads_per_block: int) -> int:
    """Blocks that fit when they are placed one by one: each warp in the sub-partition with most room."""
    warps = (threads_per_block + arch.warp_size - 1) // arch.warp_size
    units_per_warp = 0
    while units_per_warp * arch.register_alloc_unit < max(regs, 1) * arch.warp_size:
        units_per_warp += 1
    shared_per_block = shared_bytes + arch.shared_reserved_per_block
    while shared_per_block % arch.shared_alloc_unit:
        shared_per_block += 1
    if shared_bytes > arch.shared_bytes_per_block_max or regs > arch.max_registers_per_thread:
        return 0
    free_units = [arch.registers_per_sm // arch.sub_partitions // arch.register_alloc_unit] * arch.sub_partitions
    free_shared, free_warps = arch.shared_bytes_per_sm, arch.max_warps_per_sm
    for placed in range(arch.max_blocks_per_sm):
        free_shared -= shared_per_block
        free_warps -= warps
        for _ in range(warps):
            roomiest = free_units.index(max(free_units))
            free_units[roomiest] -= units_per_warp
        if free_shared < 0 or free_warps < 0 or min(free_units) < 0:
            return placed
    return arch.max_blocks_per_sm


@given(archs, registers, shared, threads)
def test_blocks_equal_those_placed_one_by_one(arch: Arch, regs: int, shared_bytes: int, block: int) -> None:
    assert occupancy(arch, regs, shared_bytes, block).blocks_per_sm == simulated_blocks(arch, regs, shared_bytes, block)


def test_registers_are_allocated_in_units() -> None:
    # 33 registers take the room of 40: a plain division of the register file would answer 15.
    assert occupancy(load_arch("9.0"), 33, 0, 128) == Occupancy(
        blocks_per_sm=12,
        warps_per_sm=48,
        limiter="registers",
        fraction=0.75,
        next_regs_down=32,
        next_regs_up=41,
    )


# Rows of Nsight Compute reports that people published: what the profiler said on a real GPU. Shared memory is
# without the 1 KB of the driver; the reports round it to 10 bytes.
PROFILED = [
    # arch, registers, threads, registers allow, warps allow, SM allows, warps resident
    ("8.6", 16, 256, 16, 6, 16, 48),
    ("8.9", 22, 512, 5, 3, 24, 48),
    ("8.9", 54, 512, 2, 3, 24, 32),
    ("8.9", 80, 128, 6, 12, 24, 24),
    ("9.0", 167, 128, 3, 16, 32, 12),
    ("9.0", 240, 256, 1, 8, 32, 8),
    ("10.0", 168, 384, 1, 5, 32, 12),
]


@pytest.mark.parametrize(("name", "regs", "block", "by_registers", "by_warps", "by_sm", "warps"), PROFILED)
def test_limits_of_published_profiles(
    name: str, regs: int, block: int, by_registers: int, by_warps: int, by_sm: int, warps: int
) -> None:
    arch = load_arch(name)
    found = occupancy(arch, regs, 0, block)
    assert found.blocks_per_sm == min(by_registers, by_warps, by_sm)
    assert found.warps_per_sm == warps
    assert occupancy(arch, 1, 0, block).blocks_per_sm == min(by_warps, by_sm)
    roomy = replace(arch, max_threads_per_sm=arch.max_threads_per_sm * 64, max_blocks_per_sm=1000)
    assert occupancy(roomy, regs, 0, block, barriers_per_block=0).blocks_per_sm == by_registers


def test_shared_memory_of_published_profiles() -> None:
    # 65.54 KB were configured on the L4 and 29.82 KB used a block: two blocks, as the profiler said.
    found = occupancy(load_arch("8.9"), 54, 29_820, 512, carveout_percent=64)
    assert (found.blocks_per_sm, found.fraction) == (2, pytest.approx(0.6667, abs=1e-4))
    assert occupancy(load_arch("8.9"), 16, 43_780, 128).blocks_per_sm == 2
    # B200: 205696 bytes a block.
    found = occupancy(load_arch("10.0"), 16, 205_696, 384)
    assert (found.blocks_per_sm, found.limiter) == (1, "shared")


@pytest.mark.parametrize(
    ("name", "regs", "shared_bytes", "block", "blocks", "limiter"),
    [
        ("9.0", 32, 0, 1024, 2, "warps"),
        ("9.0", 32, 0, 32, 32, "blocks"),
        ("12.0", 32, 0, 32, 24, "blocks"),
        ("9.0", 255, 0, 1024, 0, "registers"),
        ("9.0", 64, 0, 1024, 1, "registers"),
        ("9.0", 65, 0, 1024, 0, "registers"),
        ("9.0", 256, 0, 32, 0, "registers"),
        ("9.0", 32, 232448, 128, 1, "shared"),
        ("9.0", 32, 232449, 128, 0, "shared"),
        ("9.0", 32, 115712, 128, 2, "shared"),
        ("9.0", 32, 115713, 128, 1, "shared"),
        ("9.0", 32, 0, 1025, 0, "threads"),
        ("8.0", 32, 166912, 128, 1, "shared"),
        ("8.9", 32, 101376, 128, 1, "shared"),
        # 48 registers: 10 warps a sub-partition, 40 of the SM; three warps a block leave one over.
        ("8.0", 48, 0, 96, 13, "registers"),
        # Waves of 64 threads: 512 vector registers a lane and SIMD, at most 8 waves on it.
        ("gfx942", 64, 0, 256, 8, "warps"),
        ("gfx942", 65, 0, 256, 7, "registers"),
        ("gfx942", 512, 0, 256, 1, "registers"),
        ("gfx942", 512, 0, 320, 0, "registers"),
        ("gfx942", 32, 32768, 256, 2, "shared"),
        ("gfx942", 32, 32769, 256, 1, "shared"),
    ],
)
def test_known_answers(name: str, regs: int, shared_bytes: int, block: int, blocks: int, limiter: Limiter) -> None:
    found = occupancy(load_arch(name), regs, shared_bytes, block)
    assert (found.blocks_per_sm, found.limiter) == (blocks, limiter)


def test_barriers_limit_where_the_architecture_counts_them() -> None:
    found = occupancy(load_arch("10.0"), 16, 0, 32, barriers_per_block=7)
    assert (found.blocks_per_sm, found.limiter) == (9, "barriers")
    assert occupancy(load_arch("8.0"), 16, 0, 32, barriers_per_block=7).blocks_per_sm == 32


@pytest.mark.parametrize(
    ("percent", "blocks"),
    [(None, 32), (100, 32), (50, 26), (25, 12), (0, 1)],  # splits of 228, 132, 64 and, for one block, 8 KB
)
def test_carveout_picks_a_split(percent: int | None, blocks: int) -> None:
    found = occupancy(load_arch("9.0"), 16, 4096, 32, carveout_percent=percent)
    assert found.blocks_per_sm == blocks


@given(archs, registers, shared, threads)
def test_more_of_anything_never_gives_more_blocks(arch: Arch, regs: int, shared_bytes: int, block: int) -> None:
    here = occupancy(arch, regs, shared_bytes, block).blocks_per_sm
    assert occupancy(arch, regs + 1, shared_bytes, block).blocks_per_sm <= here
    assert occupancy(arch, regs, shared_bytes + 1, block).blocks_per_sm <= here
    assert occupancy(arch, regs, shared_bytes, block + 1).blocks_per_sm <= here
    assert occupancy(arch, regs, shared_bytes, block, barriers_per_block=16).blocks_per_sm <= here
    assert occupancy(arch, regs, shared_bytes, block, carveout_percent=30).blocks_per_sm <= here


@given(archs, registers, shared, threads)
def test_result_is_consistent(arch: Arch, regs: int, shared_bytes: int, block: int) -> None:
    found = occupancy(arch, regs, shared_bytes, block)
    assert found.warps_per_sm == found.blocks_per_sm * -(-block // arch.warp_size)
    assert 0 <= found.warps_per_sm <= arch.max_warps_per_sm
    assert found.fraction == found.warps_per_sm / arch.max_warps_per_sm


@given(archs, st.integers(1, 255), shared, threads)
def test_next_register_counts_are_the_nearest_changes(arch: Arch, regs: int, shared_bytes: int, block: int) -> None:
    def blocks(count: int) -> int:
        return occupancy(arch, count, shared_bytes, block).blocks_per_sm

    found = occupancy(arch, regs, shared_bytes, block)
    below = [count for count in range(1, regs) if blocks(count) > found.blocks_per_sm]
    most = arch.max_registers_per_thread
    above = [count for count in range(regs + 1, most + 1) if blocks(count) < found.blocks_per_sm]
    assert found.next_regs_down == (below[-1] if below else None)
    assert found.next_regs_up == (above[0] if above else None)


@given(archs, shared, threads, st.integers(0, 255), st.integers(0, 255))
def test_staircase_has_every_register_count_once(
    arch: Arch, shared_bytes: int, block: int, one: int, other: int
) -> None:
    first, last = min(one, other), max(one, other)
    steps = staircase(arch, shared_bytes, block, first, last)
    assert [regs for step in steps for regs in range(step.regs_from, step.regs_to + 1)] == list(range(first, last + 1))
    for step in steps:
        for regs in (step.regs_from, step.regs_to):
            assert occupancy(arch, regs, shared_bytes, block).blocks_per_sm == step.blocks_per_sm
    assert [step.blocks_per_sm for step in steps] == sorted({step.blocks_per_sm for step in steps}, reverse=True)


def test_register_budget_of_a_number_of_blocks() -> None:
    assert max_regs_for_blocks(load_arch("9.0"), 12, 128) == 40
    assert max_regs_for_blocks(load_arch("9.0"), 1, 128) == 255
    assert max_regs_for_blocks(load_arch("9.0"), 65, 128) is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"regs_per_thread": -1}, "regs_per_thread is -1"),
        ({"shared_bytes_per_block": -1}, "shared_bytes_per_block is -1"),
        ({"threads_per_block": 0}, "threads_per_block is 0"),
        ({"carveout_percent": 101}, "carveout_percent is 101"),
        ({"barriers_per_block": -1}, "barriers_per_block is -1"),
    ],
)
def test_impossible_input_is_named(arguments: dict[str, int], named: str) -> None:
    good = {"regs_per_thread": 32, "shared_bytes_per_block": 0, "threads_per_block": 128}
    with pytest.raises(UsageError, match=named):
        occupancy(load_arch("9.0"), **(good | arguments))


@pytest.mark.parametrize(("first", "last"), [(40, 30), (-1, 10), (16, 256)])
def test_impossible_range_of_a_staircase_is_named(first: int, last: int) -> None:
    with pytest.raises(UsageError, match=f"registers from {first} to {last}"):
        staircase(load_arch("9.0"), 0, 128, first, last)
