"""The walk that times a load: one kernel whose loads wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fusewise
from fusewise import trace
from fusewise.errors import EnvironmentFailure
from fusewise.measure import latency
from fusewise.measure.latency import measure_latency_ns


def test_a_load_takes_some_time_and_a_walk_is_one_kernel() -> None:
    assert measure_latency_ns("cpu", fusewise.compile) > 0
    assert len(trace.compiled()[-1].kernels) == 1


def test_a_walk_follows_the_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "_LEAST_BYTES", 2**16)
    monkeypatch.setattr(latency, "last_level_cache_bytes", lambda: 0)
    monkeypatch.setattr(latency, "_RUNS", 3)
    walked = []

    def watched(walk: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        compiled = fusewise.compile(walk)

        def run(ring: torch.Tensor, start: torch.Tensor) -> Any:
            assert torch.equal(ring.sort().values, torch.arange(ring.numel())), "each place is reached once"
            walked.append(compiled(ring, start))
            assert torch.equal(walked[-1], walk(ring, start))
            return walked[-1]

        return run

    measure_latency_ns("cpu", watched)
    assert len(walked) == 2 * 3


def test_a_disturbed_measurement_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "_LEAST_BYTES", 2**16)
    monkeypatch.setattr(latency, "_MANY", latency._FEW)
    monkeypatch.setattr(latency._Clock, "start", lambda self, call: lambda: 1.0)
    with pytest.raises(EnvironmentFailure, match="latency"):
        measure_latency_ns("cpu", lambda walk: walk)
