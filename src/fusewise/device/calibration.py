"""The user's store of measured figures, one file for all devices, and their merge over a device's model.

The file is `calibration.json` in Fusewise's cache folder:

    {"version": 1, "devices": {"h200": {"taken": "2026-01-31", "figures": {"copy_bytes_per_s": 4.2e12}}}}
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self, TypeVar

from fusewise import config
from fusewise.device.cpu import CPU_SPECS
from fusewise.device.cpu_rates import MEASURED_RATES
from fusewise.device.figures import Figure, FigureSpec
from fusewise.device.model import GPU_SPECS
from fusewise.errors import CacheFailure, UnknownName, UsageError

VERSION = 1
GPU_KEYS = ("copy_bytes_per_s", "matmul_flops_per_s", "launch_us", "dram_latency_ns", "l2_bytes_per_s")
CPU_KEYS = ("copy_bytes_per_s", "matmul_flops_per_s", "launch_us", "dram_latency_ns", *MEASURED_RATES)


class Measurable(Protocol):
    """What a device model needs for its figures to be calibrated."""

    @property
    def calibration_key(self) -> str:
        """Name under which its figures are stored."""

    def with_figures(self, measured: Mapping[str, Figure]) -> Self:
        """The same device with some figures replaced."""


Model = TypeVar("Model", bound=Measurable)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured figures of one device.

    Attributes:
        device: the device's `calibration_key`.
        taken: date of the measurement, ISO 8601.
        figures: values by name; the names are `GPU_KEYS` or `CPU_KEYS`.
    """

    device: str
    taken: str
    figures: Mapping[str, float]


class CalibrationWarning(UserWarning):
    """The store, or a part of it, is damaged and was ignored."""


def store_path() -> Path:
    """The file that holds this user's calibrations."""
    return config.cache_dir() / "calibration.json"


def read_store(path: Path | None = None) -> dict[str, Calibration]:
    """Every stored calibration by device key.

    A file that is not there is an empty store. A damaged one is ignored with a `CalibrationWarning`, as is a
    damaged entry.
    """
    file = store_path() if path is None else path
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as cause:
        _ignored(file, f"it cannot be read: {cause}")
        return {}
    devices = content.get("devices") if isinstance(content, dict) else None
    if not isinstance(devices, dict) or content.get("version") != VERSION:
        _ignored(file, f"it is not a calibration file of version {VERSION}")
        return {}
    found = {}
    for device, entry in devices.items():
        calibration = _entry_of(device, entry)
        if calibration is None:
            _ignored(file, f"its entry of {device!r} is damaged")
        else:
            found[device] = calibration
    return found


def store(calibration: Calibration, path: Path | None = None) -> Path:
    """Add one device's figures to the store, over those it had, and return the file.

    The file is replaced in one step; of two processes that store at once, the later one's file stays.

    Raises:
        UnknownName: a figure that cannot be calibrated.
        UsageError: a value that is impossible.
        CacheFailure: the folder cannot be written.
    """
    specs = _specs_for(calibration.device)
    for key, value in calibration.figures.items():
        if key not in specs:
            raise UnknownName("calibrated figure", key, specs)
        problem = specs[key].problem(value)
        if problem:
            raise UsageError(f"calibration of {calibration.device}: {key} {problem}.")
    file = store_path() if path is None else path
    known = read_store(file)
    if calibration.device in known:
        older = known[calibration.device].figures
        calibration = replace(calibration, figures={**older, **calibration.figures})
    known[calibration.device] = calibration
    content = {
        "version": VERSION,
        "devices": {
            device: {"taken": entry.taken, "figures": dict(entry.figures)} for device, entry in sorted(known.items())
        },
    }
    _replace_file(file, json.dumps(content, indent=2) + "\n")
    return file


def calibrated(model: Model, path: Path | None = None) -> Model:
    """The model with this user's measured figures over the datasheet's, or as it is where there are none."""
    entry = read_store(path).get(model.calibration_key)
    return model if entry is None else merge(model, entry)


def merge(model: Model, calibration: Calibration) -> Model:
    """The model with the figures of one calibration, each marked as calibrated."""
    doc = f"measured on {calibration.taken}"
    measured = {key: Figure(value, "calibrated", doc) for key, value in calibration.figures.items()}
    return model.with_figures(measured)


def calibration_keys(model: Measurable) -> tuple[str, ...]:
    """Names of the figures of a device that can be measured."""
    return tuple(_specs_for(model.calibration_key))


def _specs_for(device: str) -> dict[str, FigureSpec]:
    if device.startswith("cpu:"):
        return {key: CPU_SPECS[key] for key in CPU_KEYS}
    return {key: GPU_SPECS[key] for key in GPU_KEYS}


def _entry_of(device: str, entry: object) -> Calibration | None:
    """One device's entry, or None where anything in it is not as `store` wrote it."""
    if not isinstance(entry, dict):
        return None
    taken, figures = entry.get("taken"), entry.get("figures")
    if not isinstance(taken, str) or not isinstance(figures, dict):
        return None
    specs = _specs_for(device)
    if any(key not in specs or specs[key].problem(value) for key, value in figures.items()):
        return None
    return Calibration(device, taken, {key: float(value) for key, value in figures.items()})


def _ignored(file: Path, why: str) -> None:
    warnings.warn(
        f"calibration in {file} is ignored: {why}. Run `fusewise device calibrate` to write it anew.",
        CalibrationWarning,
        stacklevel=3,
    )


def _replace_file(file: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    temporary = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(temporary, file)
    except OSError as cause:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise CacheFailure(
            f"the calibration cannot be written to {file}: {cause}",
            f"Free the folder or name another in {config.CACHE_DIR.name}.",
        ) from cause
