"""Building and loading C++ kernels: the compiler, the cache, the failures, the cost of a call."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from fusewise.codegen.cpp import HEADER
from fusewise.errors import CompileFailed, CompilerMissing, LaunchFailed
from fusewise.runtime import cache, cpp

# Without our header: it compiles in a fraction of the time.
ADD = """#include <cstdint>

extern "C" int64_t NAME(const float* __restrict a, float* __restrict o, int64_t n) {
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] + 1.0f;
  return 0;
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compiler_script(folder: Path, body: str) -> str:
    """A stand-in for the compiler: answers --version, else runs `body`."""
    path = folder / "compiler"
    path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo stand-in; exit 0; fi\n{body}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def run(library: cpp.LoadedLibrary, name: str) -> None:
    a = np.arange(1000, dtype=np.float32)
    out = np.zeros_like(a)
    assert library.function(name)(a.ctypes.data, out.ctypes.data, 1000) == 0
    np.testing.assert_array_equal(out, a + 1)


def test_second_build_does_not_compile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ADD.replace("NAME", "add_cached")
    run(cpp.build(source), "add_cached")

    def refuse(*_: object) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(cpp, "compile_unit", refuse)
    run(cpp.build(source), "add_cached")


@pytest.mark.parametrize("what", ["flags", "compiler", "processor", "headers"])
def test_key_holds_whatever_changes_the_code(folder: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    source = ADD.replace("NAME", "add_key")
    compiled: list[str] = []
    real = cpp.compile_unit

    def count(compiler: cpp.Compiler, text: str) -> bytes:
        compiled.append(text)
        return real(compiler, text)

    monkeypatch.setattr(cpp, "compile_unit", count)
    cpp.build(source)
    if what == "flags":
        flags = (*cpp._flags(), "-DOTHER")
        monkeypatch.setattr(cpp, "_flags", lambda: flags)
    elif what == "compiler":
        other = cpp.Compiler(cpp.find_compiler().command, "another version")
        monkeypatch.setattr(cpp, "find_compiler", lambda: other)
    elif what == "processor":
        monkeypatch.setattr(cpp, "cpu_identity", lambda: "another processor")
    else:
        monkeypatch.setattr(cpp, "_headers_digest", lambda: "changed")
    cpp.build(source)
    assert len(compiled) == 2


def test_damaged_library_is_built_again(folder: Path) -> None:
    source = ADD.replace("NAME", "add_damaged")
    path = cpp.build(source).path
    whole = path.read_bytes()
    path.unlink()  # this process has mapped it: another file takes its place
    path.write_bytes(whole[:1000])
    run(cpp.build(source), "add_damaged")
    assert len(path.read_bytes()) > 1000


def test_library_that_does_not_load_is_built_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ADD.replace("NAME", "add_unloadable")
    real = cpp.compile_unit
    with monkeypatch.context() as patch:
        patch.setattr(cpp, "compile_unit", lambda *_: b"no shared object, yet its checksum holds")
        with pytest.raises(LaunchFailed, match="cannot be loaded"):
            cpp.build(source)
    assert cpp.compile_unit is real
    run(cpp.build(source), "add_unloadable")


def test_read_only_folder_falls_back(folder: Path) -> None:
    folder.parent.joinpath("file").write_text("")
    os.environ["FUSEWISE_CACHE_DIR"] = str(folder.parent / "file")  # monkeypatch of `folder` restores it
    cache._warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        run(cpp.build(ADD.replace("NAME", "add_nowhere")), "add_nowhere")


def test_missing_compiler_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CompilerMissing, match="'no-such-compiler' is not on the path") as caught:
        cpp.build(ADD.replace("NAME", "add_none"))
    assert "apt install g++" in caught.value.remedy


def test_compiler_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    with pytest.raises(CompilerMissing, match="does not run"):
        cpp.find_compiler()


def test_compiler_with_arguments(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = " ".join(cpp.find_compiler().command)
    monkeypatch.setenv("CXX", f"{command} -DEXTRA=1")
    run(cpp.build(ADD.replace("NAME", "add_arguments")), "add_arguments")


def test_refused_source_names_the_kernel_and_the_error(folder: Path) -> None:
    with pytest.raises(CompileFailed, match=r"add_wrong does not compile: .*error: .*nonsense"):
        cpp.build(ADD.replace("NAME", "add_wrong").replace("a[i] + 1.0f", "nonsense"))


def test_killed_compiler(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler_script(tmp_path, "kill -9 $$"))
    with pytest.raises(CompileFailed, match="was killed by signal 9") as caught:
        cpp.build(ADD.replace("NAME", "add_killed"))
    assert "memory" in caught.value.remedy


def test_compiler_whose_child_was_killed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1"
    monkeypatch.setenv("CXX", compiler_script(tmp_path, script))
    with pytest.raises(CompileFailed, match="Killed signal") as caught:
        cpp.build(ADD.replace("NAME", "add_child_killed"))
    assert "memory" in caught.value.remedy


def test_compiler_that_hangs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler_script(tmp_path, "exec sleep 60"))
    monkeypatch.setattr(cpp, "TIMEOUT_S", 0.2)
    with pytest.raises(CompileFailed, match="took longer than"):
        cpp.build(ADD.replace("NAME", "add_hangs"))


def test_builds_leave_no_temporary_files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    cpp.build(ADD.replace("NAME", "add_tidy"))
    with pytest.raises(CompileFailed):
        cpp.build(ADD.replace("NAME", "add_untidy").replace("a[i]", "nonsense"))
    assert list(scratch.iterdir()) == []


def test_one_openmp_runtime_in_the_process() -> None:
    library = cpp.build(ADD.replace("NAME", "add_threads"))
    run(library, "add_threads")
    loaded = {
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if any(name in line for name in ("libgomp", "libiomp", "libomp"))
    }
    assert len(loaded) == 1, loaded


def test_threads_follow_torch(folder: Path) -> None:
    source = """#include <cstdint>

extern "C" int omp_get_num_threads();
extern "C" int64_t threads(int64_t* __restrict o) {
  #pragma omp parallel
  o[0] = omp_get_num_threads();
  return 0;
}
"""
    function = cpp.build(source).function("threads")
    before = torch.get_num_threads()
    out = np.zeros(1, np.int64)
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            function(out.ctypes.data)
            assert out[0] == count
    finally:
        torch.set_num_threads(before)


def test_many_threads_call_one_function() -> None:
    function = cpp.build(ADD.replace("NAME", "add_many")).function("add_many")
    failures: list[int] = []

    def call(start: int) -> None:
        a = np.arange(start, start + 5000, dtype=np.float32)
        out = np.zeros_like(a)
        for _ in range(20):
            function(a.ctypes.data, out.ctypes.data, 5000)
            if not np.array_equal(out, a + 1):
                failures.append(start)

    threads = [threading.Thread(target=call, args=(s,)) for s in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []


CHILD = """
import sys
from fusewise.runtime import cpp
import numpy as np
library = cpp.build(sys.stdin.read())
a = np.arange(10, dtype=np.float32)
out = np.zeros_like(a)
assert library.function("add_processes")(a.ctypes.data, out.ctypes.data, 10) == 0
assert (out == a + 1).all()
"""


def test_two_processes_build_one_kernel(folder: Path) -> None:
    source = ADD.replace("NAME", "add_processes")
    environment = {**os.environ, "FUSEWISE_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(source)
        child.stdin.close()
    assert [child.wait(120) for child in children] == [0, 0]
    assert len(list(folder.rglob("*.so"))) == 1


def test_results_after_a_fork() -> None:
    library = cpp.build(ADD.replace("NAME", "add_forked"))
    run(library, "add_forked")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # as PyTorch's own data workers do: OpenMP's threads do not outlive a fork
        try:
            run(library, "add_forked")
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def with_headers(name: str) -> str:
    return f'#include "{HEADER}"\n' + ADD.replace("NAME", name)


def test_headers_are_parsed_once_and_used(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GCC names the headers that it opens: those kept once parsed behind `!`, those that it parses behind dots."""
    compiler = cpp.find_compiler()
    if "Free Software Foundation" not in compiler.identity:
        pytest.skip("the compiler is not GCC")
    opened, script = tmp_path / "opened", tmp_path / "compiler"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(compiler.command)} -H "$@" 2>> {opened}\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    for number in (1, 2):
        opened.write_text("")
        run(cpp.build(with_headers(f"add_parsed_{number}")), f"add_parsed_{number}")
        lines = opened.read_text().splitlines()
        assert [line for line in lines if line.startswith("!") and line.endswith(f"{HEADER}.gch")]
        parsed = [line for line in lines if line.startswith(".") and line.endswith("cpu/vec.h")]
        assert bool(parsed) == (number == 1), "the first unit has them parsed for all"
    assert len(list(folder.rglob("*.gch"))) == 1


@pytest.mark.parametrize("kept", ["damaged", "gone", "none"])
def test_headers_that_do_not_fit_are_parsed_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    path = None if kept == "none" else tmp_path / "kept.gch"
    if path is not None and kept == "damaged":
        path.write_bytes(b"gpch" + bytes(1000))
    monkeypatch.setattr(cpp, "precompiled_headers", lambda *_: path)
    run(cpp.build(with_headers(f"add_{kept}")), f"add_{kept}")
