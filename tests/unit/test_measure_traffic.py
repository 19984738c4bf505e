from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from benchmarks.catalogue import PROGRAMS
from fusewise.errors import EnvironmentFailure
from fusewise.measure import traffic
from fusewise.measure.program import Program
from fusewise.measure.results import KernelTime
from fusewise.measure.traffic import (
    OperatorTraffic,
    device_kernel_times,
    device_kernels,
    eager_kernels,
    kernels_in_wrapper,
    median_kernel_times,
    operator_traffic,
    peak_bytes,
    tensor_dram_bytes,
)
from fusewise.measure.workload import prepare

CASES = [
    pytest.param(program, direction, dtype, id=f"{program.name}-{direction}-{dtype}")
    for program in PROGRAMS.values()
    for direction in program.directions
    for dtype in program.dtypes[:2]
    if program.name != "rms_norm"  # one operator on a GPU, several on a CPU
]


def _native_dropout(x: torch.Tensor, p: float = 0.5, training: bool = True) -> torch.Tensor:
    """Dropout as a GPU runs it: one operator. On a CPU it is three."""
    return torch.native_dropout(x, p, training)[0]


@pytest.mark.parametrize(("program", "direction", "dtype"), CASES)
def test_unfused_bytes_are_what_the_operators_move(
    program: Program, direction: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(F, "dropout", _native_dropout)
    case = program.case("tiny", dtype, direction=direction)
    workload = prepare(program, case)
    moved = sum(op.dram_bytes for op in operator_traffic(workload.step(workload.function)))
    # Statistics of norms and scalars of losses are left out of the formulas.
    assert moved == pytest.approx(program.cost(case).unfused_bytes, rel=0.01)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_least_is_no_more_than_unfused(program: Program) -> None:
    for size in program.sizes:
        for direction in program.directions:
            cost = program.cost(program.case(size, program.dtypes[0], direction=direction))
            assert 0 < cost.least_bytes <= cost.unfused_bytes


def test_operators_of_a_call() -> None:
    x = torch.ones(100)
    y = torch.ones(100, 1)
    assert operator_traffic(lambda: (x * y.expand(100, 100)).t()) == [OperatorTraffic("mul", 400 + 400 + 40000)]
    assert operator_traffic(lambda: x * x) == [OperatorTraffic("mul", 800)]
    assert operator_traffic(lambda: torch.zeros_like(x)) == [OperatorTraffic("zeros_like", 400)]
    index = torch.tensor([1, 2])
    assert operator_traffic(lambda: x[index]) == [OperatorTraffic("index", 8 + 16 + 8)]
    assert operator_traffic(lambda: x.view(10, 10).t()) == []


def test_a_broadcast_axis_counts_once() -> None:
    assert tensor_dram_bytes(torch.ones(3, 1).expand(3, 1000)) == 12
    assert tensor_dram_bytes(torch.ones(3, 0).expand(3, 0)) == 0


def test_eager_kernels_count_the_backward() -> None:
    x = torch.ones(10, requires_grad=True)
    assert eager_kernels(lambda: torch.relu(x)) == 1
    grad = torch.ones(10)
    assert eager_kernels(lambda: torch.autograd.grad(torch.relu(x), x, grad)) == 2


def test_peak_bytes_of_a_cpu_call() -> None:
    x = torch.ones(1_000_000)

    def call() -> torch.Tensor:
        y = x + 1  # 4 MB, freed once z stands
        z = y * 2
        del y
        return z.sum()

    peak = peak_bytes(call, "cpu")
    assert peak is not None
    assert 8_000_000 <= peak < 8_100_000


WRAPPER = """
async_compile = AsyncCompile()
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*'], source)

class Runner:
    def call(self, args):
        primals_1, primals_2 = args
        buf0 = empty_strided_cpu((8, 16), (16, 1), torch.float32)
        cpp_fused_add_0(primals_1, buf0)
        extern_kernels.mm(buf0, primals_2, out=buf1)
        aten.randint.low_out(0, 1, [1], out=buf2)
        buf3 = torch.ops.mkldnn._linear_pointwise.default(buf0, primals_2, None, 'none', [], '')
        triton_poi_fused_0.run(buf1, 128, stream=stream0)
        buf4 = reinterpret_tensor(buf3, (8, 24), (24, 1), 0)
        return (buf3, )

def benchmark_compiled_module(args):
    extern_kernels.mm(a, b)
"""


def test_kernels_of_an_inductor_wrapper() -> None:
    assert kernels_in_wrapper(WRAPPER) == 5
    assert kernels_in_wrapper("no wrapper") == 0


def event(name: str, start: float, us: float, device: str = "CUDA", note: bool = False) -> SimpleNamespace:
    """What the profiler has of one kernel."""
    interval = SimpleNamespace(start=start, elapsed_us=lambda: us)
    return SimpleNamespace(
        name=name, time_range=interval, device_type=SimpleNamespace(name=device), is_user_annotation=note
    )


def rounds_of(*calls: Sequence[tuple[str, float]]) -> list[SimpleNamespace]:
    launches = [launch for call in calls for launch in call]
    return [event(name, 100.0 * place, us) for place, (name, us) in enumerate(launches)]


FLUSH = "fill<unsigned char>"


def test_kernels_are_timed_in_order_of_launch_and_the_flush_is_left_out() -> None:
    # the program fills too, and launches one of its kernels twice
    calls = [
        [(FLUSH, 90.0), ("fused_a_0", 5.0 + i), (FLUSH, 3.0), ("fused_a_0", 9.0 - i), ("fused_b_0_and_2_more", 40.0)]
        for i in (0, 7, 1)
    ]
    events = rounds_of(*calls)
    found = median_kernel_times(events[::-1], calls=3)
    assert found == (
        KernelTime("fused_a_0", 6.0),
        KernelTime(FLUSH, 3.0),
        KernelTime("fused_a_0", 8.0),
        KernelTime("fused_b_0_and_2_more", 40.0),
    )


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        ([], "recorded no kernels"),
        ([[(FLUSH, 90.0)], [(FLUSH, 90.0)]], "recorded no kernels"),
        ([[(FLUSH, 90.0), ("a", 1.0)], [(FLUSH, 90.0)]], "recorded no kernels"),  # one of them was lost
        ([[(FLUSH, 90.0), ("a", 1.0), ("b", 1.0)], [(FLUSH, 90.0), ("a", 1.0)]], "other kernels"),
        ([[(FLUSH, 90.0), ("a", 1.0)], [(FLUSH, 90.0), ("b", 1.0)]], "other kernels"),
    ],
)
def test_lost_kernels_are_no_times(calls: list[list[tuple[str, float]]], problem: str) -> None:
    with pytest.raises(EnvironmentFailure, match=problem):
        median_kernel_times(rounds_of(*calls), calls=2)


class FakeProfiler:
    """Records the launches of a device that is not there, and what a profiler adds of its own."""

    def __init__(self) -> None:
        self.launched: list[tuple[str, float]] = []

    def __enter__(self) -> FakeProfiler:
        self.launched.clear()
        return self

    def __exit__(self, *_: object) -> None: ...

    def events(self) -> list[SimpleNamespace]:
        own = [event("Buffer Flush", 1.0, 2.0), event("mine", 1.0, 2.0, note=True), event("aten::mul", 1.0, 2.0, "CPU")]
        return [*own, *rounds_of(self.launched)]


def test_only_what_the_device_runs_is_counted_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = FakeProfiler()
    monkeypatch.setattr(traffic, "_quiet_profile", lambda activity: profiler)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    lasted = iter(float(n) for n in range(100))

    def call() -> None:
        profiler.launched += [("fused_a_0", next(lasted)), ("fused_a_1", 7.0)]

    assert device_kernels(call) == 2
    found = device_kernel_times(call, lambda: profiler.launched.append((FLUSH, 90.0)))
    first = 2 + 2  # calls before the profiled ones: of `device_kernels`, and to warm up
    assert found == (KernelTime("fused_a_0", first + (traffic.PROFILED_CALLS - 1) / 2), KernelTime("fused_a_1", 7.0))
