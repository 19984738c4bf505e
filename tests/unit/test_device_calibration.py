"""The store of measured figures: kept, merged, replaced in one step, and never the cause of a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusewise import config
from fusewise.device import Calibration, calibrated, load, load_gpu, probe_cpu
from fusewise.device.calibration import (
    CPU_KEYS,
    GPU_KEYS,
    CalibrationWarning,
    calibration_keys,
    merge,
    read_store,
    store,
    store_path,
)
from fusewise.errors import CacheFailure, UnknownName, UsageError

H200 = load_gpu("h200")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(config.CACHE_DIR.name, str(tmp_path / "cache"))
    return tmp_path / "cache" / "calibration.json"


def test_the_file_lies_in_the_cache_folder(file: Path) -> None:
    assert store_path() == file


def test_nothing_measured_changes_nothing(file: Path) -> None:
    assert read_store() == {}
    assert calibrated(H200) is H200
    assert not file.parent.exists()


def test_measured_figures_replace_the_datasheets(file: Path) -> None:
    assert store(Calibration("h200", "2026-01-31", {"copy_bytes_per_s": 4.25e12, "launch_us": 4.5})) == file
    model = calibrated(load("h200"))
    copy = model.figure("copy_bytes_per_s")
    assert (copy.value, copy.source, copy.doc) == (4.25e12, "calibrated", "measured on 2026-01-31")
    assert model.figure("launch_us").source == "calibrated"
    assert model.figure("dram_bytes_per_s") == H200.figure("dram_bytes_per_s")
    assert model.figure("dram_latency_ns") == H200.figure("dram_latency_ns")
    assert calibrated(load_gpu("h100")) == load_gpu("h100")
    assert load_gpu("h200") == H200


def test_a_second_measurement_adds_and_replaces(file: Path) -> None:
    store(Calibration("h200", "2026-01-31", {"copy_bytes_per_s": 4.25e12, "launch_us": 4.5}))
    store(Calibration("a100", "2026-01-31", {"copy_bytes_per_s": 1.8e12}))
    store(Calibration("h200", "2026-02-01", {"launch_us": 3.5}))
    assert read_store() == {
        "a100": Calibration("a100", "2026-01-31", {"copy_bytes_per_s": 1.8e12}),
        "h200": Calibration("h200", "2026-02-01", {"copy_bytes_per_s": 4.25e12, "launch_us": 3.5}),
    }
    assert [path.name for path in file.parent.iterdir()] == ["calibration.json"]


def test_a_cpu_is_kept_by_its_own_name(file: Path) -> None:
    cpu = probe_cpu()
    store(Calibration(cpu.calibration_key, "2026-01-31", {"copy_bytes_per_s": 2e10}))
    assert calibrated(cpu).figure("copy_bytes_per_s").value == 2e10
    store(Calibration("cpu: another, 64 threads", "2026-01-31", {"copy_bytes_per_s": 2e11}))
    assert calibrated(cpu).figure("copy_bytes_per_s").value == 2e10


def test_keys_are_figures_of_the_device(file: Path) -> None:
    cpu = probe_cpu()
    assert (calibration_keys(H200), calibration_keys(cpu)) == (GPU_KEYS, CPU_KEYS)
    for model in (H200, cpu):
        entry = Calibration(model.calibration_key, "2026-01-31", dict.fromkeys(calibration_keys(model), 1e9))
        for key in calibration_keys(model):
            assert merge(model, entry).figure(key).source == "calibrated"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 1}',
        '{"version": 2, "devices": {}}',
        '{"version": 1, "devices": []}',
        "[" * 100_000,
        "\x00",
    ],
)
def test_a_damaged_file_is_ignored_and_then_replaced(content: str, file: Path) -> None:
    file.parent.mkdir()
    file.write_text(content)
    with pytest.warns(CalibrationWarning, match="calibration.json is ignored"):
        assert calibrated(H200) == H200
    with pytest.warns(CalibrationWarning):
        store(Calibration("h200", "2026-01-31", {"launch_us": 3.0}))
    assert calibrated(H200).launch_us == 3.0


def test_bytes_that_are_no_text_are_ignored(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.warns(CalibrationWarning, match="cannot be read"):
        assert read_store() == {}


@pytest.mark.parametrize(
    "entry",
    [
        7,
        {},
        {"taken": "2026-01-31"},
        {"taken": 5, "figures": {}},
        {"taken": "2026-01-31", "figures": []},
        {"taken": "2026-01-31", "figures": {"sm_count": 5}},
        {"taken": "2026-01-31", "figures": {"launch_us": "fast"}},
        {"taken": "2026-01-31", "figures": {"launch_us": -1}},
        {"taken": "2026-01-31", "figures": {"launch_us": float("nan")}},
        {"taken": "2026-01-31", "figures": {"launch_us": True}},
    ],
)
def test_a_damaged_entry_is_ignored_and_the_others_stay(entry: object, file: Path) -> None:
    good = {"taken": "2026-01-31", "figures": {"launch_us": 5.0}}
    file.parent.mkdir()
    file.write_text(json.dumps({"version": 1, "devices": {"h200": entry, "a100": good}}))
    with pytest.warns(CalibrationWarning, match="its entry of 'h200' is damaged"):
        assert set(read_store()) == {"a100"}


def test_impossible_measurements_are_not_stored(file: Path) -> None:
    with pytest.raises(UsageError, match="calibration of h200: launch_us is -1"):
        store(Calibration("h200", "2026-01-31", {"launch_us": -1.0}))
    with pytest.raises(UnknownName, match="launch_us"):
        store(Calibration("h200", "2026-01-31", {"launch_s": 1.0}))
    with pytest.raises(UnknownName, match="l2_bytes_per_s"):
        store(Calibration("cpu: x, 1 threads", "2026-01-31", {"l2_bytes_per_s": 100.0}))
    assert not file.exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(config.CACHE_DIR.name, str(tmp_path / "file"))
    with pytest.raises(CacheFailure, match="the calibration cannot be written"):
        store(Calibration("h200", "2026-01-31", {"launch_us": 3.0}))
    assert calibrated(H200) == H200  # such a folder holds none, and that is nothing to warn of


def test_a_failed_replacement_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(Calibration("h200", "2026-01-31", {"launch_us": 3.0}))

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(CacheFailure, match="No space left on device"):
        store(Calibration("h200", "2026-02-01", {"launch_us": 9.0}))
    assert calibrated(H200).launch_us == 3.0
    assert [path.name for path in file.parent.iterdir()] == ["calibration.json"]
