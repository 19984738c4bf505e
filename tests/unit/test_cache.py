"""The kernel cache: checked entries, several processes, folders that cannot be written."""

from __future__ import annotations

import errno
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fusewise.errors import CacheFailure
from fusewise.runtime import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_private_folder", cache._PrivateFolder())
    cache._warn_once.cache_clear()
    yield tmp_path / "cache"


def counting(payload: bytes) -> tuple[Callable[[], bytes], list[int]]:
    calls: list[int] = []

    def make() -> bytes:
        calls.append(1)
        return payload

    return make, calls


def test_entry_is_made_once(folder: Path) -> None:
    make, calls = counting(b"payload")
    key = cache.key_of("source", "flags")
    assert cache.fetch("cpp", key, make) == b"payload"
    assert cache.fetch("cpp", key, make) == b"payload"
    assert len(calls) == 1


def test_file_starts_with_the_payload(folder: Path) -> None:
    path = cache.fetch_file("cpp", cache.key_of("a"), lambda: b"\x7fELF...", ".so")
    assert path.suffix == ".so" and path.is_relative_to(folder)
    assert path.read_bytes().startswith(b"\x7fELF...")


def test_key_keeps_its_parts_apart() -> None:
    keys = [cache.key_of("ab", "c"), cache.key_of("a", "bc"), cache.key_of("abc"), cache.key_of("abc", "")]
    assert len(set(keys)) == 4


def test_empty_payload_is_an_entry(folder: Path) -> None:
    make, calls = counting(b"")
    for _ in range(2):
        assert cache.fetch("cpp", cache.key_of("empty"), make) == b""
    assert len(calls) == 1


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped", "foreign"])
def test_damaged_entry_is_made_again(folder: Path, damage: str) -> None:
    key, other = cache.key_of("one"), cache.key_of("two")
    path = cache.fetch_file("cpp", key, lambda: b"first" * 100)
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage == "flipped":
        path.write_bytes(data[:7] + bytes([data[7] ^ 1]) + data[8:])
    else:  # whole and in good order, but stored for another key
        path.write_bytes(cache.fetch_file("cpp", other, lambda: b"other").read_bytes())
    make, calls = counting(b"second")
    assert cache.fetch("cpp", key, make) == b"second"
    assert cache.fetch("cpp", key, make) == b"second"
    assert len(calls) == 1


def test_failure_to_make_leaves_nothing(folder: Path) -> None:
    key = cache.key_of("broken")

    def fail() -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.fetch("cpp", key, fail)
    assert [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"] == []
    assert cache.fetch("cpp", key, lambda: b"fine") == b"fine"


def test_interrupt_while_writing_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(source: str, target: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cache.fetch("cpp", cache.key_of("x"), lambda: b"payload")
    assert [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"] == []


def test_forgotten_entry_is_made_again(folder: Path) -> None:
    make, calls = counting(b"payload")
    key = cache.key_of("loads badly")
    cache.fetch("cpp", key, make, ".so")
    cache.forget("cpp", key, ".so")
    cache.fetch("cpp", key, make, ".so")
    cache.forget("cpp", cache.key_of("never stored"), ".so")
    assert len(calls) == 2


def test_full_disk_falls_back_with_one_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = cache._write

    def full(place: Path, key: str, payload: bytes) -> None:
        if place.is_relative_to(folder):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(place, key, payload)

    monkeypatch.setattr(cache, "_write", full)
    make, calls = counting(b"payload")
    with pytest.warns(RuntimeWarning, match="No space left on device") as caught:
        first = cache.fetch_file("cpp", cache.key_of("a"), make)
        assert cache.fetch("cpp", cache.key_of("b"), make) == b"payload"
        assert cache.fetch_file("cpp", cache.key_of("a"), make) == first
    assert len(caught) == 1 and "FUSEWISE_CACHE_DIR" in str(caught[0].message)
    assert not first.is_relative_to(folder)
    assert len(calls) == 2


def test_folder_that_is_a_file_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(blocked))
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        assert cache.fetch("cpp", cache.key_of("a"), lambda: b"payload") == b"payload"


def test_nowhere_to_write_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(place: Path, key: str, payload: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache, "_write", full)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CacheFailure, match="cannot be stored") as caught:
            cache.fetch("cpp", cache.key_of("a"), lambda: b"payload")
    assert "FUSEWISE_CACHE_DIR" in caught.value.remedy


def _fetch_in_process(folder: str, log: str) -> None:
    os.environ["FUSEWISE_CACHE_DIR"] = folder

    def make() -> bytes:
        with open(log, "a") as file:
            file.write("made\n")
        return b"shared" * 1000

    assert cache.fetch("cpp", cache.key_of("shared"), make) == b"shared" * 1000


def test_processes_make_an_entry_once(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_fetch_in_process, args=(str(folder), str(log))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [w.exitcode for w in workers] == [0] * 4
    assert log.read_text() == "made\n"


def test_threads_make_an_entry_once(folder: Path) -> None:
    make, calls = counting(b"payload")
    key = cache.key_of("threads")
    threads = [threading.Thread(target=cache.fetch, args=("cpp", key, make)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(calls) == 1
