"""Numbers that know where they come from, and the reading of TOML files that hold them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, get_args

from fusewise.errors import DeviceDataError

Source = Literal["datasheet", "probed", "calibrated", "modelled"]
"""Where a figure comes from: a vendor's document; a query of a device or of the operating system; a
measurement of this user's machine; an estimate of ours."""

SOURCES: tuple[str, ...] = get_args(Source)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number and its source.

    Attributes:
        value: the number, in the unit that the name of the figure ends with.
        source: kind of source.
        doc: the document, query or method, in words.
        checked: False where the number could not be compared with the document that it names.
    """

    value: float
    source: Source
    doc: str
    checked: bool = True


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """What a figure may be: its meaning, and the range outside which it is surely a mistake."""

    meaning: str
    least: float
    most: float
    whole: bool = False
    required: bool = True

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, as the end of a sentence, or None."""
        kind = "a whole number" if self.whole else "a number"
        wanted = f"{kind} from {self.least:g} to {self.most:g} ({self.meaning})"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"is {value!r}, but must be {wanted}"
        if not math.isfinite(value) or not self.least <= value <= self.most:
            return f"is {value!r}, but must be {wanted}"
        if self.whole and value != int(value):
            return f"is {value!r}, but must be {wanted}"
        return None


TomlFile = Path | Traversable


def read_toml(file: TomlFile) -> dict[str, object]:
    """The contents of a TOML file; unreadable files and bad syntax raise `DeviceDataError`."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as cause:
        raise DeviceDataError(f"{file.name}: cannot be read: {cause}") from cause
    except tomllib.TOMLDecodeError as cause:
        raise DeviceDataError(f"{file.name}: is not valid TOML: {cause}") from cause


def text_of(table: Mapping[str, object], key: str, where: str) -> str:
    """A required, non-empty string of a table; `where` names the table in the error."""
    if key not in table:
        raise DeviceDataError(f"{where}: {key} is missing; it must be a text.")
    value = table[key]
    if not isinstance(value, str) or not value.strip():
        raise DeviceDataError(f"{where}: {key} is {value!r}, but must be a text.")
    return value


def table_of(table: Mapping[str, object], key: str, where: str) -> dict[str, object]:
    """A required sub-table; `where` names the table in the error."""
    value = table.get(key)
    if not isinstance(value, dict):
        found = "is missing" if key not in table else f"is {value!r}"
        raise DeviceDataError(f"{where}: [{key}] {found}; it must be a table.")
    return value


def reject_unknown(table: Mapping[str, object], known: Iterable[str], where: str) -> None:
    """Raise `DeviceDataError` for the first unknown key: a mistyped one must not pass in silence."""
    names = sorted(known)
    for key in table:
        if key not in names:
            near = get_close_matches(key, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}."
            raise DeviceDataError(f"{where}: {key} is not a key of this table; {hint}")


def number_of(table: Mapping[str, object], key: str, spec: FigureSpec, where: str) -> float:
    """A required number of a table, checked against its spec."""
    if key not in table:
        raise DeviceDataError(f"{where}: {key} is missing; it must hold {spec.meaning}.")
    value = table[key]
    problem = spec.problem(value)
    if problem:
        raise DeviceDataError(f"{where}: {key} {problem}.")
    assert isinstance(value, int | float)
    return int(value) if spec.whole else float(value)


def figures_of(
    table: Mapping[str, object], docs: Mapping[str, object], specs: Mapping[str, FigureSpec], where: str
) -> dict[str, Figure]:
    """Every figure of a `[figures]` table, checked; its `doc` is a key of `docs`."""
    reject_unknown(table, specs, where)
    found: dict[str, Figure] = {}
    for key, spec in specs.items():
        if key not in table:
            if spec.required:
                raise DeviceDataError(f"{where}: {key} is missing; it must hold {spec.meaning}.")
            continue
        entry = table[key]
        at = f"{where}.{key}"
        if not isinstance(entry, dict):
            raise DeviceDataError(f"{at}: is {entry!r}, but must be a table {{ value, source, doc }}.")
        reject_unknown(entry, ("value", "source", "doc", "checked"), at)
        value = number_of(entry, "value", spec, at)
        doc_key = text_of(entry, "doc", at)
        checked = entry.get("checked", True)
        if not isinstance(checked, bool):
            raise DeviceDataError(f"{at}: checked is {checked!r}, but must be true or false.")
        found[key] = Figure(value, _source_of(entry, at), _doc_text(docs, doc_key, at), checked)
    return found


def _source_of(entry: Mapping[str, object], where: str) -> Source:
    named = text_of(entry, "source", where)
    for source in get_args(Source):
        if named == source:
            return source  # type: ignore[no-any-return]
    raise DeviceDataError(f"{where}: source is {named!r}, but must be one of {', '.join(SOURCES)}.")


def _doc_text(docs: Mapping[str, object], key: str, where: str) -> str:
    if key not in docs:
        raise DeviceDataError(f"{where}: doc names {key!r}, which is not a key of [docs].")
    return text_of(docs, key, f"{where}: [docs]")
