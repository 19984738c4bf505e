"""The kernel cache on disk: content-addressed, checked at each read, shared by processes.

An entry is one file: the payload, then a mark and the SHA-256 of key and payload. A file that was cut short, damaged or
stored for another key fails the check and is made again. (A loader of shared objects ignores what follows them.)
Entries are written under another name and then renamed, so that a reader sees the whole file or none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from fusewise.config import cache_dir
from fusewise.errors import CacheFailure

_MARK = b"FUSEWISE"
_TAIL_BYTES = len(_MARK) + hashlib.sha256().digest_size


def key_of(*parts: str | bytes) -> str:
    """The key of what these parts determine: a hexadecimal SHA-256 that keeps the parts apart."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def fetch(kind: str, key: str, make: Callable[[], bytes], suffix: str = "") -> bytes:
    """The payload stored under `key`, made and stored where it is missing or damaged.

    Args:
        kind: a folder of the cache, such as `cpp` or `triton`.
        key: from `key_of`: whatever changes the payload is in it.
        make: gives the payload; called in one process at a time.
        suffix: of the file's name, such as `.so`.

    Raises:
        CacheFailure: neither the cache folder nor a temporary one can be written.
    """
    return _fetch(kind, key, make, suffix)[0]


def fetch_file(kind: str, key: str, make: Callable[[], bytes], suffix: str = "") -> Path:
    """As `fetch`, but the path of the entry's file, which starts with the payload."""
    return _fetch(kind, key, make, suffix)[1]


def forget(kind: str, key: str, suffix: str = "") -> None:
    """Removes an entry, where there is one: for a payload whose checksum holds and that fails to load all the same."""
    for base in _folders():
        with contextlib.suppress(OSError):
            _place(base, kind, key, suffix).unlink()


def _fetch(kind: str, key: str, make: Callable[[], bytes], suffix: str) -> tuple[bytes, Path]:
    for base in _folders():
        place = _place(base, kind, key, suffix)
        found = _read(place, key)
        if found is not None:
            return found, place
    made: list[bytes] = []

    def make_once() -> bytes:
        if not made:
            made.append(make())
        return made[0]

    try:
        return _fetch_in(cache_dir(), kind, key, make_once, suffix)
    except OSError as error:
        _warn_once(str(cache_dir()), error.strerror or str(error))  # without the entry's name: once a folder
    try:
        return _fetch_in(_private_folder(), kind, key, make_once, suffix)
    except OSError as error:
        raise CacheFailure(
            f"compiled kernels cannot be stored: {error}",
            f"Neither {cache_dir()} nor a temporary folder can be written. Free some space, or name a folder that "
            "can be written in FUSEWISE_CACHE_DIR.",
        ) from error


def _fetch_in(base: Path, kind: str, key: str, make: Callable[[], bytes], suffix: str) -> tuple[bytes, Path]:
    place = _place(base, kind, key, suffix)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(place.with_name(place.name + ".lock")):
        found = _read(place, key)  # another process may have made it while this one waited
        if found is None:
            found = make()
            _write(place, key, found)
    return found, place


def _folders() -> list[Path]:
    """Folders that may hold entries."""
    return [cache_dir()] + ([_private_folder.made] if _private_folder.made else [])


def _place(base: Path, kind: str, key: str, suffix: str) -> Path:
    return base / kind / key[:2] / (key[2:] + suffix)


def _tail(key: str, payload: bytes) -> bytes:
    return _MARK + hashlib.sha256(key.encode() + payload).digest()


def _read(place: Path, key: str) -> bytes | None:
    """The payload at `place`, None where there is none or its checksum fails."""
    try:
        data = place.read_bytes()
    except OSError:
        return None
    payload = data[:-_TAIL_BYTES]
    return payload if data[-_TAIL_BYTES:] == _tail(key, payload) else None


def _write(place: Path, key: str, payload: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=".", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.write(_tail(key, payload))
        os.replace(name, place)
    except BaseException:  # an interrupt too: no half-written file stays
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class _PrivateFolder:
    """A temporary folder of this process, made at the first call and removed at exit."""

    def __init__(self) -> None:
        self._holder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def made(self) -> Path | None:
        return Path(self._holder.name) if self._holder else None

    def __call__(self) -> Path:
        if self._holder is None:
            self._holder = tempfile.TemporaryDirectory(prefix="fusewise-", ignore_cleanup_errors=True)
        return Path(self._holder.name)


_private_folder = _PrivateFolder()


@functools.cache
def _warn_once(folder: str, problem: str) -> None:
    warnings.warn(
        f"the kernel cache {folder} cannot be used ({problem}); kernels of this process go to a temporary folder. "
        "Name a folder that can be written in FUSEWISE_CACHE_DIR.",
        RuntimeWarning,
        stacklevel=2,
    )
