from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fusewise.errors import ProfilerActive, ResultsInvalid
from fusewise.measure import guard
from fusewise.measure.floors import Ceilings
from fusewise.measure.results import (
    TABLE_BEGIN,
    TABLE_END,
    BenchResult,
    BenchRow,
    CallOverhead,
    KernelTime,
    caption,
    load_results,
    markdown_table,
    replace_table,
    to_json,
    write_results,
)
from fusewise.measure.stats import Summary

ROOT = Path(__file__).parents[2]

ROW = BenchRow(
    name="layer_norm",
    direction="train",
    size="small",
    shape={"rows": 4096, "cols": 1024},
    dtype="bf16",
    device="a device",
    floor_us=100.0,
    floor_bound="bytes",
    floor_two_read_us=None,
    least_bytes=5,
    unfused_bytes=10,
    flops=0,
    traffic_gain=2.0,
    times_us={"eager": Summary(400.0, 390.0, 410.0, 30), "fusewise": Summary(125.0, 120.0, 130.0, 30)},
    share_of_floor={"eager": 0.25, "fusewise": 0.8},
    achieved_gbps={"eager": 1.0, "fusewise": 3.2},
    peak_bytes={"eager": 100, "fusewise": None},
    kernels={"eager": 2, "fusewise": 1},
    compile_s={"fusewise": 1.5},
    verified=True,
    mismatched=False,
    verify_note="compared",
    impossible=(),
    failures={"inductor": "RuntimeError: no"},
    versions={"torch": "2"},
    commit=None,
    date="2026-01-01T00:00:00Z",
)
RESULT = BenchResult(
    (ROW, replace(ROW, direction="forward", floor_two_read_us=150.0, copy_us=Summary(110.0, 108.0, 115.0, 30))),
    {"copy_gbps": 1.5},
    {"device": "a device"},
    (CallOverhead("empty", "train", Summary(60.0, 59.0, 61.0, 30)),),
)


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "results" / "run.json"
    write_results(path, RESULT)
    assert load_results(path) == RESULT
    assert [p.name for p in path.parent.iterdir()] == ["run.json"]


def test_a_cpus_figures_are_kept_and_may_be_absent(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    found = replace(RESULT, cpu={"isa": "avx512", "cores": 2.0})
    write_results(path, found)
    assert load_results(path) == found
    assert "cpu" not in json.loads(to_json(RESULT))


def test_times_of_kernels_are_kept_and_may_be_absent(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    times = {"fusewise": (KernelTime("fused_mul_0", 20.5), KernelTime("fused_mul_0", 21.0))}
    found = replace(RESULT, rows=(replace(ROW, kernel_times=times),))
    write_results(path, found)
    assert load_results(path) == found
    document = json.loads(to_json(RESULT))
    for row in document["rows"]:  # as files have them that are older than the field
        del row["kernel_times"]
    path.write_text(json.dumps(document))
    assert load_results(path) == RESULT


def _broken(change: dict[str, Any], drop: str | None = None) -> str:
    document = json.loads(to_json(RESULT))
    document["rows"][1].update(change)
    if drop is not None:
        del document["rows"][1][drop]
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not a readable results file"),
        ("[]", "does not follow the schema"),
        ('{"schema": "fusewise-bench/0", "rows": []}', "does not follow the schema"),
        ('{"schema": "fusewise-bench/1", "rows": []}', "lacks ceilings, machine, overheads"),
        (json.dumps(json.loads(to_json(RESULT)) | {"cpu": []}), "cpu: not an object"),
        (_broken({}, drop="floor_us"), "row 1 lacks floor_us"),
        (_broken({"floor": 1.0}), "row 1 has the unknown field floor"),
        (_broken({"floor_us": "fast"}), "row 1, floor_us: 'fast' is not float"),
        (_broken({"verified": 1}), "row 1, verified"),
        (_broken({"least_bytes": True}), "row 1, least_bytes"),
        (_broken({"direction": "sideways"}), "row 1, direction"),
        (_broken({"times_us": {"eager": {"median": 1.0}}}), r"times_us\['eager'\] lacks p10, p90, runs"),
        (_broken({"peak_bytes": {"eager": 1.5}}), r"peak_bytes\['eager'\]"),
        (_broken({"kernel_times": {"fusewise": [{"kernel": "k"}]}}), r"kernel_times\['fusewise'\]\[0\] lacks time_us"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(ResultsInvalid, match=problem):
        load_results(path)


def test_results_load_without_torch() -> None:
    blocked = "import sys; sys.modules['torch'] = None; import fusewise.measure.results"
    subprocess.run([sys.executable, "-c", blocked], cwd=ROOT / "src", check=True)


def test_every_field_is_documented() -> None:
    page = (ROOT / "docs" / "bench-schema.md").read_text(encoding="utf-8")
    missing = [
        f.name
        for kind in (BenchRow, Ceilings, Summary, CallOverhead, KernelTime)
        for f in fields(kind)
        if f"`{f.name}`" not in page
    ]
    assert not missing


def test_findings_are_impossible_times_and_mismatches() -> None:
    assert RESULT.findings == []
    bad = replace(ROW, impossible=("inductor",), mismatched=True, verified=False, verify_note="result 0 of 1: no")
    found = BenchResult((bad,), {}, {}).findings
    assert len(found) == 2
    assert "inductor is below" in found[0]
    assert found[1].endswith("result 0 of 1: no")


def test_table_and_its_place_on_a_page() -> None:
    table = markdown_table(RESULT.rows, ["eager", "inductor", "fusewise"], against="eager")
    assert table.splitlines()[2] == (
        "| layer_norm | train | rows 4096 cols 1024 | bf16 | 100 | - | 400 (25%) | failed | 125 (80%) | 3.20x | 3.20x |"
    )
    assert "| bf16 | 100 | 110 | 400 (25%) |" in table.splitlines()[3]
    assert table.splitlines()[-1].endswith("| 3.20x | 3.20x |")
    twice = markdown_table([replace(ROW, floor_two_read_us=110.0)], ["fusewise"])
    assert "| 125 (80%, of two reads 88%) | - | - |" in twice
    page = f"# Page\n{TABLE_BEGIN}\nold\n{TABLE_END}\nend\n"
    once = replace_table(page, table)
    assert table in once and "old" not in once and once.endswith("end\n")
    assert replace_table(once, table) == once
    with pytest.raises(ResultsInvalid, match="no place"):
        replace_table("# Page\n", table)


def test_a_table_marks_what_must_not_be_read_as_a_result() -> None:
    bad = replace(ROW, verified=False, impossible=("eager",))
    line = markdown_table([bad], ["eager", "fusewise"]).splitlines()[2]
    assert "400 (25%) impossible" in line
    assert "125 (80%) not verified" in line
    assert line.endswith("| - | - |")


def test_caption_names_device_versions_and_commit() -> None:
    assert caption(RESULT) == "a device; torch 2; commit unknown; 2026-01-01T00:00:00Z."


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["PATH", "HOME"], None),
        (["PATH", "CUDA_INJECTION64_PATH"], "CUDA_INJECTION64_PATH"),
        (["NV_COMPUTE_PROFILER_PERFWORKS_DIR"], "NV_COMPUTE_PROFILER_PERFWORKS_DIR"),
        (["NSYS_PROFILING_SESSION_ID"], "NSYS_PROFILING_SESSION_ID"),
    ],
)
def test_profilers_are_known_by_what_they_set(names: list[str], found: str | None) -> None:
    assert guard.profiler_in(names) == found


def test_no_results_under_a_profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    with torch.autograd.profiler.profile(), pytest.raises(ProfilerActive, match=r"torch\.profiler"):
        write_results(path, RESULT)
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    with pytest.raises(ProfilerActive, match="NSYS_PROFILING_SESSION_ID"):
        write_results(path, RESULT)
    assert not path.exists()
