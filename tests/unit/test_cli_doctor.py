"""`fusewise doctor`: the cache's state, what is missing, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusewise import doctor
from fusewise.cli import app
from fusewise.runtime import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_empty_cache(folder: Path) -> None:
    state = doctor.cache_state()
    assert state.writable and state.entries == 0 and folder.is_dir()


def test_entries_and_a_damaged_one(folder: Path) -> None:
    good = cache.fetch_file("cpp", cache.key_of("good"), lambda: b"payload", ".so")
    bad = cache.fetch_file("cpp", cache.key_of("bad"), lambda: b"payload", ".so")
    bad.write_bytes(bad.read_bytes()[:-1])
    state = doctor.cache_state()
    assert state.entries == 2 and state.damaged == (str(bad),)
    assert state.bytes == good.stat().st_size + bad.stat().st_size


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(blocker / "cache"))
    state = doctor.cache_state()
    assert not state.writable and "cannot be written" in state.problem
    found = CliRunner().invoke(app, ["doctor", "--json"])
    (check,) = [c for c in json.loads(found.output)["checks"] if c["name"] == "kernel cache"]
    assert "FUSEWISE_CACHE_DIR" in check["remedy"]


def test_no_compiler_on_a_machine_without_a_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = CliRunner().invoke(app, ["doctor"])
    assert found.exit_code == 3
    assert "MISSING" in found.output and "no-such-compiler" in found.output and "apt install g++" in found.output


def test_all_is_well(folder: Path) -> None:
    pytest.importorskip("torch")
    found = CliRunner().invoke(app, ["doctor", "--json"])
    document = json.loads(found.output)
    assert (found.exit_code == 0) == document["ok"]
    assert {c["name"] for c in document["checks"]} >= {"python", "torch", "triton", "C++ compiler", "kernel cache"}
    assert document["settings"]["FUSEWISE_CACHE_DIR"] == str(folder)
