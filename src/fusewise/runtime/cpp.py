"""Builds and loads C++ kernels: finds the compiler, compiles a unit through the cache, hands out its functions."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from fusewise import __version__, codegen
from fusewise.codegen.cpp import HEADER
from fusewise.config import CXX, cache_dir
from fusewise.errors import CacheFailure, CompileFailed, CompilerMissing, LaunchFailed
from fusewise.runtime import cache

HEADERS = Path(codegen.__file__).parent
TIMEOUT_S = 600

FLAGS = (
    "-std=c++20",
    "-O2",
    "-march=native",
    "-fopenmp",
    "-fPIC",
    "-shared",
    # eager's arithmetic: no product and sum made one, integers that wrap; errno and traps are of no use here
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wno-psabi",
)

Kernel = Callable[..., int]
"""Takes the addresses of the buffers, then the sizes; 0: done, 1 + id: that check failed, -1: memory is out."""

_FUNCTION = re.compile(r'^extern "C" int64_t (\w+)\(([^)]*)\) (?:\{|__attribute__)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler.

    Attributes:
        command: how it is called.
        identity: its version and target.
    """

    command: tuple[str, ...]
    identity: str


class LoadedLibrary:
    """A built unit in this process."""

    def __init__(self, path: Path, parameters: dict[str, int]) -> None:
        """`parameters`: number of parameters of each function."""
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise LaunchFailed(f"a compiled kernel cannot be loaded: {error}") from error
        _one_thread_after_fork()
        self._parameters = parameters
        self.path = path

    def function(self, name: str) -> Kernel:
        """The kernel called `name`."""
        function: Kernel = getattr(self._library, name)
        # Addresses and sizes alike go as pointers: ctypes converts a whole number to one twice as fast as to an int64.
        function.argtypes = [ctypes.c_void_p] * self._parameters[name]  # type: ignore[attr-defined]
        function.restype = ctypes.c_int64  # type: ignore[attr-defined]
        return function


@functools.cache
def _one_thread_after_fork() -> None:
    """A child has none of its parent's OpenMP threads, and GNU's runtime would wait for them."""
    os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))


def find_compiler() -> Compiler:
    """The compiler that `CXX` names; raises `CompilerMissing` where it is not there."""
    return _find_compiler(CXX.get())


def build(source: str) -> LoadedLibrary:
    """Compiles a unit, or takes it from the cache, and loads it.

    Raises:
        CompilerMissing: there is no C++ compiler.
        CompileFailed: it refused the source, was killed, or took too long.
        CacheFailure: there is nowhere to store the result.
        LaunchFailed: the result cannot be loaded.
    """
    compiler = find_compiler()
    key = cache.key_of(source, compiler.identity, *_flags(), _headers_digest(), cpu_identity(), _versions())
    parameters = {name: len(text.split(",")) if text else 0 for name, text in _FUNCTION.findall(source)}
    path = cache.fetch_file("cpp", key, lambda: compile_unit(compiler, source), ".so")
    try:
        return LoadedLibrary(path, parameters)
    except LaunchFailed:
        cache.forget("cpp", key, ".so")
        path = cache.fetch_file("cpp", key, lambda: compile_unit(compiler, source), ".so")
        return LoadedLibrary(path, parameters)


def compile_unit(compiler: Compiler, source: str) -> bytes:
    """The shared object of a unit."""
    with tempfile.TemporaryDirectory(prefix="fusewise-build-") as name:
        folder = Path(name)
        (folder / "unit.cpp").write_text(source, encoding="utf-8")
        output = folder / "unit.so"
        headers = precompiled_headers(compiler, cache_dir())
        if headers is not None:
            (folder / f"{HEADER}.gch").symlink_to(headers)
        runtime = openmp_library()
        if runtime is not None:
            # PyTorch's own OpenMP runtime, so that the process has one pool of threads
            (folder / "libgomp.so").symlink_to(runtime)
        command = [
            *compiler.command,
            *_flags(),
            f"-I{HEADERS}",
            str(folder / "unit.cpp"),
            "-o",
            str(output),
            f"-L{folder}",
            f"-L{torch_library().parent}",
            "-Wl,--as-needed",
            "-ltorch_cpu",
        ]
        _run(command, source)
        return output.read_bytes()


@functools.cache
def precompiled_headers(compiler: Compiler, folder: Path) -> Path | None:
    """The headers of kernels as GCC keeps them once parsed, most of the time of a small unit; made once a cache folder.

    GCC looks for them beside the unit, and takes the headers themselves where these do not fit. None for another
    compiler, and where they cannot be made: the unit then says what is wrong.
    """
    if "Free Software Foundation" not in compiler.identity:
        return None
    key = cache.key_of("headers", compiler.identity, *_flags(), _headers_digest(), cpu_identity())
    with contextlib.suppress(CompileFailed, CacheFailure):
        return cache.fetch_file("cpp", key, lambda: _parse_headers(compiler), ".gch")
    return None


def _parse_headers(compiler: Compiler) -> bytes:
    with tempfile.TemporaryDirectory(prefix="fusewise-build-") as name:
        output = Path(name) / f"{HEADER}.gch"
        header = str(HEADERS / HEADER)
        _run([*compiler.command, *_flags(), "-x", "c++-header", header, "-o", str(output)], "")
        return output.read_bytes()


def _run(command: list[str], source: str) -> None:
    names = [name for name, _ in _FUNCTION.findall(source)]
    named = (", ".join(names[:3]) or "a unit") + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise CompileFailed(f"compiling {named} took longer than {TIMEOUT_S} s and was stopped") from error
    except OSError as error:
        raise CompileFailed(f"the compiler of {named} could not be started: {error}") from error
    if done.returncode < 0:
        raise CompileFailed(
            f"the compiler of {named} was killed by signal {-done.returncode}",
            "Often memory ran out: free some, or compile fewer kernels at a time.",
        )
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        first = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
        killed = "Killed" in done.stderr or "Terminated" in done.stderr
        hint = "Often memory ran out: free some, or compile fewer kernels at a time." if killed else ""
        raise CompileFailed(f"{named} does not compile: {first.strip()}", hint or shlex.join(command))


@functools.cache
def _find_compiler(named: str) -> Compiler:
    words = shlex.split(named)
    found = shutil.which(words[0]) if words else None
    if found is None:
        raise CompilerMissing(
            f"no C++ compiler: {named!r} is not on the path",
            "On Debian and Ubuntu: apt install g++. On Fedora: dnf install gcc-c++. "
            "Or name another in CXX, such as CXX=clang++.",
        )
    command = (found, *words[1:])
    try:
        version = subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerMissing(f"the C++ compiler {named!r} does not run: {error}") from error
    return Compiler(command, f"{' '.join(command)}\n{version.stdout}")


@functools.cache
def _flags() -> tuple[str, ...]:
    return (*FLAGS, f"-DFW_SLEEF={int(has_sleef())}")


@functools.cache
def torch_library() -> Path:
    """PyTorch's CPU library, loaded in this process: it exports SLEEF's functions."""
    return Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


@functools.cache
def has_sleef() -> bool:
    """True where PyTorch's library exports SLEEF for x86 vectors."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        library = ctypes.CDLL(str(torch_library()))
    except OSError:
        return False
    return all(hasattr(library, f"Sleef_{name}") for name in ("expd8_u10avx512f", "expd4_u10avx2"))


@functools.cache
def openmp_library() -> Path | None:
    """The OpenMP runtime that PyTorch has loaded, None where it cannot be told."""
    try:
        text = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.findall(r"(/\S*/lib(?:gomp|iomp5|omp)[^/\s]*\.so[^/\s]*)$", text, re.MULTILINE)
    return Path(found[0]) if found else None


@functools.cache
def cpu_identity() -> str:
    """What `-march=native` depends on: the processor's model and features."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part")
    lines = [line for line in text.split("\n\n")[0].splitlines() if line.split("\t")[0].strip() in wanted]
    return "\n".join([platform.machine(), *lines])


@functools.cache
def _headers_digest() -> str:
    files = sorted([HEADERS / "fusewise_cpu.h", *(HEADERS / "cpu").glob("*.h")])
    return cache.key_of(*(part for f in files for part in (f.name, f.read_bytes())))


def _versions() -> str:
    return f"fusewise {__version__}, torch {torch.__version__}"
