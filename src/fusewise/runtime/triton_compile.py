"""Compiles generated Triton modules, for the GPU at hand or for one that is not there.

Kernels have two variants. The aligned one takes every pointer to be a multiple of 16 bytes and every size that matters
a multiple of 16 elements, so that accesses are 16 bytes wide; the general one takes nothing for granted.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from fusewise.codegen.triton import is_exact, needs_debug
from fusewise.codegen.triton_index import aligned_sizes
from fusewise.codegen.triton_ops import POINTERS
from fusewise.config import cache_dir
from fusewise.errors import CacheFailure, CompileFailed, CompilerMissing
from fusewise.lower.kernel import Kernel, TritonSchedule
from fusewise.lower.launch import LaunchUnit, members_of
from fusewise.runtime.gpu_resources import Resources, read_resources
from fusewise.runtime.shared_spill import require_shared_spilling, spill_to_shared

# The triton that each torch was released with.
TRITON_OF_TORCH: Mapping[str, str] = {"2.11": "3.6.0", "2.12": "3.7.0", "2.13": "3.7.1", "2.14": "3.8.0"}

_lock = threading.Lock()
_reading = threading.RLock()
_modules: dict[str, ModuleType] = {}
_compiled: dict[tuple[str, LaunchUnit, bool, GpuTarget, bool, bool], Any] = {}
_MOST_COMPILED = 512


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """A GPU to compile for: compute capability as `90`, or an AMD architecture such as `gfx942`."""

    arch: int | str

    @property
    def backend(self) -> str:
        return "cuda" if isinstance(self.arch, int) else "hip"

    @property
    def warp_size(self) -> int:
        return 32 if isinstance(self.arch, int) else 64


def has_triton() -> bool:
    """True where triton is installed."""
    return importlib.util.find_spec("triton") is not None


def require_triton() -> None:
    """Raises `CompilerMissing` with the line that installs the right version where triton is absent."""
    if not has_triton():
        raise CompilerMissing("no triton: GPU kernels cannot be compiled", f"Install it: {install_line()}")


def install_line() -> str:
    """The command that installs the triton which fits the installed torch."""
    try:
        torch_version = ".".join(version("torch").split(".")[:2])
    except PackageNotFoundError:
        torch_version = ""
    wanted = TRITON_OF_TORCH.get(torch_version)
    return f"pip install triton=={wanted}" if wanted else "pip install triton"


def load_module(source: str) -> ModuleType:
    """The module of a generated source, which triton must find in a file."""
    require_triton()
    key = _digest(source.encode())
    with _lock:
        if key not in _modules:
            path = _file_of(f"{key}.py", source.encode())
            name = f"fusewise_kernels_{key}"
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            loaded = importlib.util.module_from_spec(spec)
            sys.modules[name] = loaded
            try:
                spec.loader.exec_module(loaded)
            except Exception as error:
                del sys.modules[name]
                raise CompileFailed("a generated Triton module does not load", str(error)) from error
            _modules[key] = loaded
        return _modules[key]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _file_of(name: str, data: bytes) -> Path:
    """A file whose name tells its content: in the cache folder, or where that cannot be written in this process's."""
    for folder in (cache_dir() / "triton", _private_folder()):
        try:
            return _write(folder, name, data)
        except OSError as error:
            failure = error
    raise CacheFailure(
        f"no file can be written for a generated Triton module: {failure}",
        "Free some space, or name a folder that can be written in FUSEWISE_CACHE_DIR.",
    ) from failure


@functools.cache
def _private_folder() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="fusewise-", ignore_cleanup_errors=True)
    atexit.register(holder.cleanup)
    return Path(holder.name)


def _write(folder: Path, name: str, data: bytes) -> Path:
    """Writes a file whose name tells its content, whole or not at all."""
    path = folder / name
    if path.exists() and path.read_bytes() == data:
        return path
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:  # an interrupt too: no half-written file stays
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def compile_kernel(
    source: str, kernel: LaunchUnit, target: GpuTarget, aligned: bool = True, numbers: bool = True
) -> Any:
    """One kernel of a generated module, compiled (Triton's `CompiledKernel`); no GPU need be present.

    What was compiled to be priced is launched as it is: a module's other kernels do not matter.

    Args:
        aligned: it may take addresses, and the sizes that accesses depend on, to be multiples of 16.
        numbers: it takes seeds as numbers, not by their address.

    Raises:
        CompileFailed: Triton or ptxas refused the kernel.
        CompilerMissing: no triton.
    """
    function = getattr(load_module(source), kernel.name)
    text: str = function.src if isinstance(kernel, Kernel) else source  # a bundle calls functions beside it
    key = (text, kernel, is_exact(source), target, aligned, numbers)
    with _lock:
        found = _compiled.get(key)
    if found is None:
        found = _compile(function, kernel, target, aligned, numbers, is_exact(source))
        with _lock:
            if len(_compiled) >= _MOST_COMPILED:
                _compiled.clear()
            _compiled[key] = found
    return found


def _compile(function: Any, kernel: LaunchUnit, target: GpuTarget, aligned: bool, numbers: bool, exact: bool) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget

    schedule = members_of(kernel)[0].schedule
    assert isinstance(schedule, TritonSchedule)
    pointers = {b.name: POINTERS[b.dtype] for b in kernel.buffers if not (b.seed and numbers)}
    names = [*(b.name for b in kernel.buffers), *kernel.sizes]
    signature = {name: pointers.get(name, "i64") for name in names}
    fixed = frozenset().union(*map(aligned_sizes, members_of(kernel)))
    multiples = [n for n in names if n in pointers or n in fixed] if aligned else []
    attributes = {(names.index(n),): [["tt.divisibility", 16]] for n in multiples}
    options: dict[str, Any] = {
        "num_warps": schedule.num_warps,
        # eager's kernels fuse where its compiler chose to; where that matters an explicit fma says so
        "enable_fp_fusion": False,
        "debug": needs_debug(kernel),
        "sanitize_overflow": False,
    }
    if exact:
        options |= {"enable_reflect_ftz": False, **cuda_libdevice()}
    if schedule.maxnreg is not None:
        options["maxnreg"] = schedule.maxnreg
    if schedule.spill_to_shared:
        require_shared_spilling(target)

    def compiled(**more: Any) -> Any:
        return triton.compile(
            _source_class()(function, signature, {}, attributes),
            target=GPUTarget(target.backend, target.arch, target.warp_size),
            options=options | more,
        )

    try:
        found = compiled()
        if schedule.spill_to_shared:
            # the option names a file that takes the place of Triton's own PTX; its name tells its content
            text = spill_to_shared(found.asm["ptx"]).encode()
            found = compiled(ir_override=str(_file_of(f"{_digest(text)}.ptx", text)))
        return found
    except Exception as error:
        raise CompileFailed(f"Triton cannot compile kernel {kernel.name}: {_cause_of(error)}", str(error)) from error


@functools.cache
def _source_class() -> Any:
    """Triton's source of a kernel, whose Python is read by one thread at a time.

    `ast.parse` of two threads at once can fail in CPython before 3.11.8 and 3.12.2
    (https://github.com/python/cpython/issues/106905). The passes that follow still run side by side.
    """
    from triton.compiler import ASTSource

    class Source(ASTSource):  # type: ignore[misc] # triton has no types
        def hash(self) -> Any:
            with _reading:
                return super().hash()

        def make_ir(self, *args: Any, **kwargs: Any) -> Any:
            with _reading:
                return super().make_ir(*args, **kwargs)

    return Source


def _cause_of(error: BaseException) -> str:
    """One line: of Triton's own errors, which begin with a place in the source, what the innermost says."""
    while (inner := error.__cause__) is not None:
        error = inner
    text = getattr(error, "error_message", None) or str(error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def compile_kernels(
    source: str, kernels: Sequence[LaunchUnit], target: GpuTarget, aligned: bool = True
) -> dict[str, Any]:
    """Each kernel of a generated module, compiled, by name."""
    return {kernel.name: compile_kernel(source, kernel, target, aligned) for kernel in kernels}


def resources(source: str, kernels: Sequence[LaunchUnit], target: GpuTarget, sass: bool = True) -> dict[str, Resources]:
    """What each kernel uses on a GPU, by name; compiles what is not compiled yet."""
    compiled = compile_kernels(source, kernels, target)
    return {kernel.name: read_resources(compiled[kernel.name], kernel, sass) for kernel in kernels}


def cuda_libdevice() -> dict[str, Any]:
    """Options that name CUDA's own libdevice where its wheel is installed: Triton's is another version; erf differs."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for path in sorted(Path(folder).glob("**/libdevice.10.bc")):
            return {"extern_libs": {"libdevice": str(path)}}
    return {}
