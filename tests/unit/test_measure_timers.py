from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fusewise.measure import timers
from fusewise.measure.timers import Call, CpuTimer, interleave, last_level_cache_bytes, time_us


class CountingTimer:
    """Gives the n-th run the time n, so that a sample tells its place."""

    def __init__(self) -> None:
        self.runs = 0

    def flush(self) -> None:
        pass

    def start(self, call: Call) -> Callable[[], float]:
        call()
        self.runs += 1
        place = float(self.runs)
        return lambda: place

    def wait(self) -> None:
        pass


def test_contenders_take_turns_and_each_starts_a_round() -> None:
    ran: list[str] = []
    calls = {name: (lambda name=name: ran.append(name)) for name in "abc"}
    samples = interleave(CountingTimer(), calls, rounds=3, warmup=1)
    assert "".join(ran) == "abc" + "abc" + "bca" + "cab"
    assert samples == {"a": [1.0, 6.0, 8.0], "b": [2.0, 4.0, 9.0], "c": [3.0, 5.0, 7.0]}


def test_a_spent_budget_leaves_the_least_rounds() -> None:
    samples = interleave(CountingTimer(), {"a": lambda: None}, rounds=50, budget_s=0.0, least_rounds=7)
    assert len(samples["a"]) == 7


def test_progress_hears_of_each_run() -> None:
    heard: list[str] = []
    interleave(CountingTimer(), {"a": lambda: None, "b": lambda: None}, rounds=2, progress=heard.append)
    assert heard == ["a", "b", "b", "a"]


def test_cpu_times_are_wall_times_and_the_flush_is_not_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = CpuTimer()
    clock = iter([1_000, 9_000, 20_000, 21_500])  # ns: read just before and just after each call
    monkeypatch.setattr(timers.time, "perf_counter_ns", lambda: next(clock))
    assert time_us(timer, lambda: None, rounds=2) == [8.0, 1.5]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"index0": "48K\n", "index3": "32768K\n"}, 32 * 2**20),
        ({"index2": "4M"}, 4 * 2**20),
        ({}, timers.UNKNOWN_CPU_CACHE_BYTES),
    ],
)
def test_cache_size_as_the_kernel_writes_it(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    for name, text in files.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "size").write_text(text)
    assert last_level_cache_bytes(tmp_path) == expected
