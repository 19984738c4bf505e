"""Every option and environment variable of Fusewise, declared once: name, type, default, meaning."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from fusewise.errors import UnknownName, UsageError

Policy = Literal["conservative", "balanced", "aggressive"]
POLICIES: tuple[str, ...] = get_args(Policy)
Fission = Literal["auto", "never", "always"]
FISSIONS: tuple[str, ...] = get_args(Fission)
SideBySide = Literal["auto", "never", "always"]
SIDE_BY_SIDE: tuple[str, ...] = get_args(SideBySide)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one compile.

    Attributes:
        policy: how far a fusion may go from eager's bits (`conservative`: bit-identical to eager;
            `balanced`: reassociates where it pays, error against fp64 within eager's own;
            `aggressive`: also keeps fp32 across half-precision ops).
        strict: raise instead of running an op or a graph as eager does when a step of ours fails.
        check: run the IR verifier between passes (also `FUSEWISE_CHECK=1`).
        fuel: the greatest number of fusions taken, to bisect a wrong result (also `FUSEWISE_FUEL`);
            None: no limit.
        fission: whether a GPU kernel that registers hold back is split in two: `auto` where the parts are predicted to
            be faster, `never`, or `always` at the best place, to time what `auto` did not choose.
        side_by_side: whether independent GPU kernels share a launch (horizontal fusion): `auto` where that is predicted
            to be faster, `never`, or `always` where one launch can hold them, also to time what `auto` did not choose.
        tune: time the best schedules of each GPU kernel on the device that is present, and print the `schedules` that
            pin the choice.
        schedules: schedules by kernel name, as `tune` prints them (pairs of names; a mapping is taken too).
    """

    policy: Policy = "balanced"
    strict: bool = False
    check: bool = False
    fuel: int | None = None
    fission: Fission = "auto"
    side_by_side: SideBySide = "auto"
    tune: bool = False
    schedules: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One environment variable: its name, default and meaning."""

    name: str
    default: str
    meaning: str

    def get(self) -> str:
        """The value set in the environment, or the default."""
        return os.environ.get(self.name, self.default)


CACHE_DIR = EnvVar("FUSEWISE_CACHE_DIR", "", "folder of compiled kernels; default: the user's cache folder")
CHECK = EnvVar("FUSEWISE_CHECK", "0", "1: verify the IR between passes")
FUEL = EnvVar("FUSEWISE_FUEL", "", "greatest number of fusions taken in one graph; empty: no limit")
STRICT = EnvVar("FUSEWISE_STRICT", "0", "1: raise where a failure would otherwise fall back to eager")
LOGS = EnvVar(
    "FUSEWISE_LOGS", "", "logs to print, comma separated: capture, plan, codegen, runtime; +x: more, -x: less"
)
CXX = EnvVar("CXX", "g++", "C++ compiler of CPU kernels")
DEVICE_DIR = EnvVar("FUSEWISE_DEVICE_DIR", "", "folder with further device TOML files of this user")
COLUMNS = EnvVar("COLUMNS", "", "width of what commands print; default: the terminal's, else 120")

ENV_VARS: tuple[EnvVar, ...] = (CACHE_DIR, CHECK, FUEL, STRICT, LOGS, CXX, DEVICE_DIR, COLUMNS)


def cache_dir() -> Path:
    """Folder for compiled kernels, made by whoever writes first."""
    chosen = CACHE_DIR.get()
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    if not base:
        try:
            base = str(Path.home() / ".cache")
        except RuntimeError:  # a user without a home
            base = os.devnull  # no folder can be made there: kernels then go to a temporary folder of the process
    return Path(base) / "fusewise"


def make_options(**given: object) -> Options:
    """Options from keyword arguments and the environment; unknown names and values raise `UsageError`."""
    known = {f.name for f in fields(Options)}
    for name in given:
        if name not in known:
            raise UnknownName("option", name, known)
    merged: dict[str, object] = {
        "check": CHECK.get() == "1",
        "strict": STRICT.get() == "1",
        "fuel": _fuel_from_env(),
    }
    merged.update(given)
    policy = merged.get("policy", "balanced")
    if policy not in POLICIES:
        raise UnknownName("policy", str(policy), POLICIES)
    fission = merged.get("fission", "auto")
    if fission not in FISSIONS:
        raise UnknownName("fission", str(fission), FISSIONS)
    side_by_side = merged.get("side_by_side", "auto")
    if side_by_side not in SIDE_BY_SIDE:
        raise UnknownName("side_by_side", str(side_by_side), SIDE_BY_SIDE)
    merged["schedules"] = tuple(sorted(dict(merged.get("schedules", ())).items()))  # type: ignore[call-overload]
    return Options(**merged)  # type: ignore[arg-type]


def _fuel_from_env() -> int | None:
    text = FUEL.get()
    if not text:
        return None
    if not text.isdigit():
        raise UsageError(f"FUSEWISE_FUEL must be a whole number, not {text!r}.")
    return int(text)
