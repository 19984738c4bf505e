"""Fusewise: a kernel-fusion compiler for PyTorch that knows when not to fuse.

    fast = fusewise.compile(function)             # or torch.compile(function, backend="fusewise")
    print(fusewise.explain(function, x))          # kernels, bytes, floors, and why the rest is not fused
    print(fusewise.verify(function, x))           # each result against eager PyTorch and fp64

`fusewise.barrier(x)` in a function forbids fusing across it. `fusewise.trace` tells what was compiled in this process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusewise import trace as trace
    from fusewise.api import compile as compile
    from fusewise.api import explain as explain
    from fusewise.api import verify as verify
    from fusewise.capture.barrier import barrier as barrier

__version__ = "0.1.0"

__all__ = ["__version__", "barrier", "compile", "explain", "trace", "verify"]


def __getattr__(name: str) -> Any:
    # Looked up on first use: `import fusewise` and `fusewise calc` start without torch.
    if name == "trace":
        return import_module("fusewise.trace")
    if name == "barrier":
        return import_module("fusewise.capture.barrier").barrier
    if name in ("compile", "explain", "verify"):
        return getattr(import_module("fusewise.api"), name)
    raise AttributeError(f"module 'fusewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
