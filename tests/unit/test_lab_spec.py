"""The settings of the lab, and the rows that each verb plans."""

from __future__ import annotations

from typing import Any

import pytest

from fusewise.errors import UsageError
from fusewise.lab.spec import BUFFERS, VERBS, Bounds, Settings, plan_of, sizes_of

GPU = Bounds(is_gpu=True, cache_bytes=50 * 2**20, widths=(1, 2, 4), max_blocks_per_sm=8)
CPU = Bounds(is_gpu=False, cache_bytes=32 * 2**20, widths=(1, 4, 16))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": 100}, "n is 100, but must be a multiple of 64"),
        ({"n": 0}, "n is 0"),
        ({"n": 1 << 40}, "n is 1099511627776"),
        ({"k": (4, 0)}, "k is 0, but must be from 1 to 64"),
        ({"k": (65,)}, "k is 65"),
        ({"block": 48}, "block is 48, but must be a multiple of 32"),
        ({"block": 2048}, "block is 2048"),
        ({"grid": 0}, "grid is 0"),
        ({"runs": 29}, "runs is 29, but percentiles need at least 30"),
        ({"warmup": 0}, "warmup is 0"),
        ({"fat_temps": (12,)}, "fat-temps is 12, but must be a multiple of 8"),
        ({"fat_temps": (248,)}, "fat-temps is 248"),
        ({"published": True, "n": 64}, "--published fixes --n"),
    ],
)
def test_bad_settings_end_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as found:
        Settings(**given)
    assert found.value.problem.startswith(said) and "\n" not in found.value.problem


@pytest.mark.parametrize("bounds", [GPU, CPU], ids=["gpu", "cpu"])
def test_three_sizes_are_bound_by_different_things(bounds: Bounds) -> None:
    sizes = sizes_of(bounds)
    assert sizes["launch"] < sizes["cache"] < sizes["memory"]
    assert 4 * BUFFERS * sizes["cache"] <= bounds.cache_bytes / 2
    assert 4 * sizes["memory"] >= 4 * bounds.cache_bytes


@pytest.mark.parametrize("bounds", [GPU, CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize("verb", VERBS)
def test_rows_of_a_group_share_size_and_have_names_of_their_own(verb: Any, bounds: Bounds) -> None:
    for group in plan_of(verb, Settings(), bounds):
        assert len({(row.n, row.k) for row in group}) == 1
        assert len({row.tag for row in group}) == len(group)


def test_a_sweep_has_every_form_at_every_size_and_k() -> None:
    groups = plan_of("sweep", Settings(), GPU)
    assert [(g[0].regime, g[0].k) for g in groups] == [
        (regime, k) for regime in ("launch", "cache", "memory") for k in (2, 3, 4, 6, 8)
    ]
    for group in groups:
        assert [row.tag for row in group] == [
            "naive",
            "naive_w4",
            "naive_graph",
            "naive_graph_w4",
            "naive_copies",
            "fused",
            "fused_w2",
            "fused_w4",
        ]


def test_fat_sweeps_live_values_residency_and_register_caps() -> None:
    rows = [row for group in plan_of("fat", Settings(), GPU) for row in group]
    lives = sorted({row.live for row in rows if row.live})
    assert (lives[0], lives[-1]) == (8, 240)
    for live in lives:
        assert {row.kind for row in rows if row.live == live and not row.max_regs} == {"fat", "thin", "hold"}
    assert sorted({(row.width, row.blocks_per_sm) for row in rows if row.blocks_per_sm}) == [
        (width, blocks) for width in (1, 4) for blocks in range(1, 9)
    ]
    assert {row.max_regs for row in rows if row.max_regs} == {40, 64, 96, 128}


def test_the_published_protocol_has_its_own_rows_only() -> None:
    settings = Settings(published=True)
    sweep = [row for group in plan_of("sweep", settings, GPU) for row in group]
    assert {row.kind for row in sweep} == {"naive_copies", "fused"}
    assert {row.n for row in sweep} == {1 << 24} and {row.width for row in sweep} == {1}
    (modes,) = plan_of("modes", settings, GPU)
    assert [row.tag for row in modes] == ["naive_copies", "fused", "fat_published_t48"]
    with pytest.raises(UsageError, match="no phases"):
        plan_of("phases", settings, GPU)
    with pytest.raises(UsageError, match="atomics"):
        plan_of("modes", settings, CPU)


def test_phases_need_two_stages() -> None:
    with pytest.raises(UsageError, match="at least 2 stages"):
        plan_of("phases", Settings(k=(1,)), GPU)


def test_passes_and_launches_by_construction() -> None:
    (group,) = plan_of("naive", Settings(k=(6,)), GPU)
    found = {row.tag: (row.passes, row.launches) for row in group}
    assert found["naive"] == (6, 6) and found["naive_copies"] == (8, 8) and found["naive_graph"] == (6, 1)
    assert group[0].dram_bytes == 6 * 8 * group[0].n
