"""What `fusewise show` reads: the stages of the last run, whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusewise import stages
from fusewise.cli import app
from fusewise.errors import UnknownName, UsageError
from fusewise.stages import KernelStages, find_kernel, keep, last_run

A = KernelStages("fused_a_0", "cpu", "forward", {"graph": "g", "plan": "p", "ir": "k", "cpp": "int a;"})
B = KernelStages("fused_a_0", "cpu", "backward", {"cpp": "int b;"})
C = KernelStages("fused_c_0", "h200", "forward", {"triton": "def c(): pass", "ptx": ".target sm_90"}, b"\x7fELF")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))


def test_what_is_kept_comes_back() -> None:
    keep("fusewise explain m.py:f", [A, B, C])
    assert last_run() == ("fusewise explain m.py:f", [A, B, C])


def test_kernels_by_name_and_by_path() -> None:
    assert find_kernel([A, B, C], "fused_c_0") is C
    assert find_kernel([A, B, C], "backward/fused_a_0") is B
    assert find_kernel([A, B, C], "cpu/forward/fused_a_0") is A
    with pytest.raises(UsageError, match="2 kernels are called fused_a_0"):
        find_kernel([A, B, C], "fused_a_0")
    with pytest.raises(UnknownName, match="Did you mean fused_c_0"):
        find_kernel([A, B, C], "fused_c_1")


def test_stages() -> None:
    assert A.stages == ["graph", "plan", "ir", "cpp"] and C.stages == ["triton", "ptx", "sass"]
    assert A.text("cpp") == "int a;"
    with pytest.raises(UsageError, match="has no stage triton"):
        A.text("triton")
    with pytest.raises(UnknownName, match="Did you mean cpp"):
        A.text("cp")


def test_no_run_and_a_damaged_file() -> None:
    with pytest.raises(UsageError, match="no run has left kernels"):
        last_run()
    keep("x", [A])
    file = stages.last_run_file()
    file.write_text(file.read_text()[:-9])
    with pytest.raises(UsageError, match="cannot be read"):
        last_run()


def test_a_folder_that_cannot_be_written_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(blocker / "below"))
    keep("x", [A])
    with pytest.raises(UsageError):
        last_run()


def test_readers_see_whole_files_while_others_write() -> None:
    many = [KernelStages(f"k{i}", "cpu", "forward", {"cpp": "x" * 2000}) for i in range(50)]
    keep("first", many)

    def write() -> None:
        for number in range(30):
            keep(f"run {number}", many)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        assert len(last_run()[1]) == 50
    writer.join()
    assert [p.name for p in stages.last_run_file().parent.iterdir()] == ["run.json"]


def test_the_command() -> None:
    keep("fusewise explain m.py:f", [A, C])
    runner = CliRunner()
    listed = runner.invoke(app, ["show"])
    assert listed.exit_code == 0 and "cpu/forward/fused_a_0" in listed.output
    assert runner.invoke(app, ["show", "fused_a_0"]).output == "int a;\n"
    assert runner.invoke(app, ["show", "fused_c_0", "--as", "ptx"]).output == ".target sm_90\n"
    assert runner.invoke(app, ["show", "fused_c_0"]).output == "def c(): pass\n"
    assert '"stage": "ir"' in runner.invoke(app, ["show", "fused_a_0", "--as", "ir", "--json"]).output


def test_a_kernel_name_is_never_a_path(tmp_path: Path) -> None:
    hostile = KernelStages("../../outside", "cpu", "forward", {"cpp": "int a;"})
    keep("x", [hostile])
    found = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert found == [stages.last_run_file()] and os.path.basename(found[0]) == "run.json"
