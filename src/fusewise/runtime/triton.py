"""Launches compiled Triton kernels with little Python: one generated function a kernel.

That function takes the stream, the data pointers and the sizes; it computes the grid, picks the aligned or the general
variant, and calls the launcher: torch's own, which needs no C compiler, or Triton's where that does not fit.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from fusewise.codegen.triton_index import aligned_sizes, make_tile, programs_of
from fusewise.errors import LaunchFailed
from fusewise.ir.sizes import hint
from fusewise.lower.launch import LaunchUnit, members_of
from fusewise.lower.parallel import side_by_side
from fusewise.runtime.gpu_resources import Resources, read_resources
from fusewise.runtime.program import Launch
from fusewise.runtime.triton_compile import (
    GpuTarget,
    compile_kernel,
    compile_kernels,
    install_line,
    load_module,
    require_triton,
    resources,
)

__all__ = [
    "GpuTarget",
    "Launcher",
    "Resources",
    "build_launchers",
    "compile_kernel",
    "compile_kernels",
    "grid_of",
    "install_line",
    "load_module",
    "require_triton",
    "resources",
]


class _Variant(NamedTuple):
    """What a variant of a kernel takes for granted: see `compile_kernel`."""

    aligned: bool
    numbers: bool


USUAL = _Variant(True, True)


class Launcher:
    """One kernel of a generated module on one device; compiled variants are kept for good.

    Call `launch(stream, *pointers, *sizes)`; in a seed's place stands its tensor, of the GPU or of the host.
    """

    def __init__(self, source: str, kernel: LaunchUnit, device: torch.device) -> None:
        self.source = source
        self.kernel = kernel
        self.index = device.index if device.index is not None else torch.cuda.current_device()
        major, minor = torch.cuda.get_device_capability(self.index)
        self.target = GpuTarget(major * 10 + minor)
        self._lock = threading.Lock()
        self._calls: dict[_Variant, Launch] = {}
        self._compiled: dict[_Variant, Any] = {}
        self.launch: Launch = self._write()

    def resources(self, sass: bool = True) -> Resources:
        """What the usual variant uses."""
        return read_resources(self.compiled(), self.kernel, sass)

    def compiled(self, variant: _Variant = USUAL) -> Any:
        """A variant, compiled on first use."""
        with self._lock:
            if variant not in self._compiled:
                self._compiled[variant] = compile_kernel(self.source, self.kernel, self.target, *variant)
            return self._compiled[variant]

    def _call(self, variant: _Variant) -> Launch:
        if variant not in self._calls:
            compiled = self.compiled(variant)
            with torch.cuda.device(self.index):
                self._calls[variant] = _bind(compiled, self.kernel, self.index, variant.numbers)
        return self._calls[variant]

    def _write(self) -> Launch:
        kernel = self.kernel
        pointers = [f"p{n}" for n in range(len(kernel.buffers))]
        sizes = list(kernel.sizes)
        arguments = ", ".join(["stream", *pointers, *sizes])
        fixed = frozenset().union(*map(aligned_sizes, members_of(kernel)))
        seeds = [p for p, buffer in zip(pointers, kernel.buffers, strict=True) if buffer.seed]
        checked = [*(p for p in pointers if p not in seeds), *sorted(fixed)]
        test = f"({' | '.join(checked)}) & 15" if checked else "False"
        lines = [
            f"def launch({arguments}):",
            f"    grid = {' + '.join(str(programs_of(m)) for m in members_of(kernel))}",
            "    if grid <= 0:",
            "        return",
        ]
        if torch.cuda.device_count() > 1:
            lines += [f"    if current_device() != {self.index}:", "        with on_device():"]
            lines += [f"            return launch({arguments})"]
        given = ", ".join(["grid", arguments])
        variants = {"aligned": _Variant(True, True), "general": _Variant(False, True)}
        if seeds:
            # while a graph is captured they are drawn on the GPU, and their values are not known here
            variants |= {f"{name}_memory": variant._replace(numbers=False) for name, variant in variants.items()}
            lines += [f"    if not ({' and '.join(f'{p}.is_cpu' for p in seeds)}):"]
            lines += [f"        kept_{p} = {p}.to(device)" for p in seeds]
            lines += [f"        {p} = kept_{p}.data_ptr()" for p in seeds]
            lines += [f"        return (general_memory if {test} else aligned_memory)({given})"]
            lines += [f"    {p} = {p}.item()" for p in seeds]
        lines += [f"    if {test}:", f"        general({given})", "    else:", f"        aligned({given})"]

        @contextlib.contextmanager
        def on_device() -> Iterator[None]:
            with torch.cuda.device(self.index):
                yield

        def first(name: str, variant: _Variant) -> Launch:
            def call(*args: int) -> None:
                scope[name] = self._call(variant)
                scope[name](*args)

            return call

        scope: dict[str, Any] = {
            "current_device": torch.cuda.current_device,
            "on_device": on_device,
            "device": torch.device("cuda", self.index),
            **{name: first(name, variant) for name, variant in variants.items()},
        }
        exec(compile("\n".join(lines), f"<launch of {kernel.name}>", "exec"), scope)
        launch: Launch = scope["launch"]
        return launch


def build_launchers(
    source: str, kernels: Sequence[LaunchUnit], device: str, later: Collection[str] = ()
) -> dict[str, Launch]:
    """The launch function of each kernel of a generated module, by name; aligned variants are compiled at once, side
    by side: Triton's passes and its assembler run outside Python.

    Args:
        device: `cuda` or `cuda:1`.
        later: kernels that are compiled when they are first called.
    """
    launchers = {kernel.name: Launcher(source, kernel, torch.device(device)) for kernel in kernels}
    side_by_side(lambda launcher: launcher.compiled(), [x for n, x in launchers.items() if n not in later])
    return {name: launcher.launch for name, launcher in launchers.items()}


def grid_of(kernel: LaunchUnit, sizes: Mapping[str, int]) -> int:
    """Number of programs of a launch at the given sizes."""
    grids = [[d for d in make_tile(member).dims if d.name in ("y", "x")] for member in members_of(kernel)]
    return sum(math.prod(-(-hint(d.size, sizes) // d.block) for d in dims) for dims in grids)


def _bind(compiled: Any, kernel: LaunchUnit, index: int, numbers: bool) -> Launch:
    """`call(grid, stream, *arguments)` for one loaded variant."""
    pointers = [f"p{n}" for n in range(len(kernel.buffers))]
    arguments = ", ".join([*pointers, *kernel.sizes])
    kinds = "".join("l" if b.seed and numbers else "O" for b in kernel.buffers) + "l" * len(kernel.sizes)
    try:
        scope, text = _torch_call(compiled, kinds, index, arguments) or _triton_call(compiled, arguments)
    except Exception as error:
        raise LaunchFailed(
            f"kernel {kernel.name} cannot be loaded: {error}", "Its resources may not fit this GPU."
        ) from error
    exec(compile(f"def call(grid, stream, {arguments}):\n    {text}", f"<call of {kernel.name}>", "exec"), scope)
    call: Launch = scope["call"]
    return call


def _torch_call(compiled: Any, kinds: str, index: int, arguments: str) -> tuple[dict[str, Any], str] | None:
    """Scope and text of a call of torch's static launcher; None where it does not fit.

    Args:
        kinds: a letter an argument, `O` of an address and `l` of an int64.
    """
    static = getattr(torch._C, "_StaticCudaLauncher", None)
    meta = compiled.metadata
    scratch = [getattr(meta, name, None) for name in ("global_scratch_size", "profile_scratch_size")]
    if static is None or any(scratch) or meta.num_ctas != 1 or torch.version.hip is not None:
        return None
    extra = sum(size is not None for size in scratch)
    kinds += "O" * extra
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        try:
            loaded = static._load_kernel(file.name, meta.name, meta.shared, index)
        except (RuntimeError, TypeError):
            return None
    function = loaded[-3]  # (function, registers, spills), newer ones with the module in front
    scope = {"run": static._launch_kernel, "kept": (compiled, loaded)}
    given = ", ".join(filter(None, [arguments, *["None"] * extra]))
    return scope, f"run({function}, grid, 1, 1, {meta.num_warps}, {meta.shared}, {kinds!r}, ({given},), stream)"


def _triton_call(compiled: Any, arguments: str) -> tuple[dict[str, Any], str]:
    """Scope and text of a call of Triton's own launcher."""
    run = compiled.run  # loads the kernel
    scope = {"run": run, "function": compiled.function, "packed": compiled.packed_metadata, "kept": compiled}
    return scope, f"run(grid, 1, 1, stream, function, packed, None, None, None, {arguments})"
