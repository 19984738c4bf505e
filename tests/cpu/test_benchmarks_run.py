"""Every program of the catalogue runs, and the bench itself runs with and without contenders that work."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.catalogue import PROGRAMS
from fusewise.commands.bench import count_kernels
from fusewise.errors import EnvironmentFailure
from fusewise.measure import bench
from fusewise.measure.bench import BenchCase, Settings, bench_cases, run, run_cases
from fusewise.measure.contenders import Contender, contenders_named, peers_of
from fusewise.measure.floors import Ceilings
from fusewise.measure.overhead import measure_overheads
from fusewise.measure.prediction import predict_results
from fusewise.measure.program import Program
from fusewise.measure.results import KernelTime, load_results, write_results
from fusewise.measure.timers import CpuTimer
from fusewise.measure.traffic import Call, KernelTimesWarning
from fusewise.measure.workload import prepare, tensors_in

CASES = [
    pytest.param(program, direction, dtype, id=f"{program.name}-{direction}-{dtype}")
    for program in PROGRAMS.values()
    for direction in program.directions
    for dtype in program.dtypes
]


@pytest.mark.parametrize(("program", "direction", "dtype"), CASES)
def test_program_runs(program: Program, direction: str, dtype: str) -> None:
    workload = prepare(program, program.case("tiny", dtype, direction=direction))
    results = workload.results(workload.function, seed=0)
    assert results
    assert all(t.isfinite().all() for t in results)
    if direction == "train":
        assert workload.leaves
        gradients = results[-len(workload.leaves) :]
        assert [g.shape for g in gradients] == [leaf.shape for leaf in workload.leaves]
        assert all(g.any() for g in gradients)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_inputs_are_the_same_each_time(program: Program) -> None:
    _, first = program.make("tiny", program.dtypes[0])
    _, second = program.make("tiny", program.dtypes[0])
    assert all(torch.equal(a, b) for a, b in zip(tensors_in(first), tensors_in(second), strict=True))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_peers_compute_the_same(program: Program) -> None:
    case = program.case("tiny", program.dtypes[0])
    workload = prepare(program, case)
    expected = workload.results(workload.function, seed=0)
    for peer in peers_of(program, case):
        found = workload.results(peer.compile(workload.function), seed=0)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)


def _broken(function: object) -> object:
    raise RuntimeError("no such compiler\nmore about it")


def test_bench_of_one_program(tmp_path: Path) -> None:
    shares: list[float] = []
    cases = bench_cases([PROGRAMS["gelu_dropout_residual_layer_norm"]], ["tiny"], "cpu", directions=["train"])
    contenders = (*contenders_named(["eager", "inductor"]), Contender("broken", _broken))  # type: ignore[arg-type]
    settings = Settings(rounds=5, subject="inductor")
    result = run_cases(cases, contenders, "cpu", settings, lambda share, text: shares.append(share))
    (row,) = result.rows
    assert row.verified and not row.mismatched, row.verify_note
    assert set(row.times_us) == {"eager", "inductor"}
    assert all(summary.runs == 5 for summary in row.times_us.values())
    assert row.failures == {"broken": "RuntimeError: no such compiler"}
    assert set(row.compile_s) == {"inductor"} and row.compile_s["inductor"] > 0.0
    assert row.kernels["eager"] == 9  # dropout is three operators forward on a CPU, one backward
    assert row.kernels["inductor"] == 3  # forward, its seed, backward
    assert all(peak is not None and peak > 0 for peak in row.peak_bytes.values())
    assert result.findings == []
    assert shares == sorted(shares) and shares[-1] == 1.0
    write_results(tmp_path / "run.json", result)
    assert load_results(tmp_path / "run.json") == result


def test_what_the_planner_chose_from_is_timed_beside_it() -> None:
    names = ["eager", "fusewise", "fusewise-whole", "fusewise-split", "fusewise-unfused"]
    cases = bench_cases([PROGRAMS["chain"]], ["tiny"], "cpu", directions=["forward"])
    result = run_cases(cases, contenders_named(names, count_kernels), "cpu", Settings(rounds=3))
    (row,) = result.rows
    assert row.verified and set(row.times_us) == set(names), row.failures
    assert row.kernels["fusewise"] == row.kernels["fusewise-whole"] == row.kernels["fusewise-split"] == 1
    unfused, eager = row.kernels["fusewise-unfused"], row.kernels["eager"]
    assert unfused is not None and eager is not None and unfused >= eager
    assert row.kernel_times == {}  # a GPU's profiler gives them
    found = predict_results([result], PROGRAMS, "cpu", (), lambda share, text: None)
    assert [p.contender for p in (*found.rows, *found.alternatives)] == names[1:4]
    (choice,) = found.choices
    assert set(choice.times_us) == set(names[1:])
    assert choice.predicted_order == choice.measured_order == "same"  # no kernel of a CPU is split
    assert found.kernel_errors == ()


def test_a_profiler_that_gives_nothing_ends_in_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def time_kernels(call: Call, flush: Call) -> tuple[KernelTime, ...]:
        flush()
        if call() == "lost":
            raise EnvironmentFailure("the profiler recorded no kernels.")
        return (KernelTime("k", 1.0),)

    monkeypatch.setattr(bench, "device_kernel_times", time_kernels)
    program = PROGRAMS["chain"]
    case = BenchCase(program, "tiny", "fp32", program.case("tiny", "fp32", "cuda"))
    results = {"eager": "fine", "fusewise": "fine", "fusewise-split": "lost"}
    runs = {
        name: bench._Started(contender, lambda: None, lambda result=results[name]: result, None, [])  # type: ignore[misc]
        for name, contender in zip(results, contenders_named(results), strict=True)
    }
    with pytest.warns(KernelTimesWarning, match="fusewise-split for chain forward tiny fp32: the profiler recorded no"):
        found = bench._time_kernels(case, runs, CpuTimer())
    assert found == {"fusewise": (KernelTime("k", 1.0),)}


def test_impossible_times_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Ceilings(1e-3, 1e-3, 1e-3, {}, empty_kernel_us=0.1)  # 1 MB/s: nothing may be as fast as it is
    monkeypatch.setattr(bench, "measure_ceilings", lambda *_: slow)
    settings = Settings(rounds=3, subject="eager")
    result = run([PROGRAMS["add_mul"]], ["tiny"], ["eager"], directions=["forward"], settings=settings)
    assert result.rows[0].impossible == ("eager",)
    assert len(result.findings) == 1


def test_call_overheads() -> None:
    found = measure_overheads(contenders_named(["eager"]), "cpu", rounds=3, calls=20)
    by_name = {(o.contender, o.direction): o.call_us.median for o in found}
    assert set(by_name) == {(c, d) for c in ("empty", "eager") for d in ("forward", "train")}
    assert all(value > 0.0 for value in by_name.values())


def test_a_missing_device_is_named() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    with pytest.raises(EnvironmentFailure, match="no CUDA device"):
        run([PROGRAMS["softmax"]], device="cuda")


def test_what_does_not_fit_in_memory_is_refused_before_it_is_built() -> None:
    huge = {"n": 2**42, "k": 8}
    program = PROGRAMS["chain"]
    case = program.case(huge, "fp32")
    with pytest.raises(EnvironmentFailure, match="GB of memory"):
        run_cases([BenchCase(program, "huge", "fp32", case)], contenders_named(["eager"]), "cpu")
