"""The stages of every kernel of the last command, kept in the cache folder for `fusewise show`.

One JSON file, written whole or not at all. That it cannot be written never disturbs the command that made the kernels.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fusewise.config import cache_dir
from fusewise.errors import UnknownName, UsageError

STAGES = ("graph", "plan", "ir", "cpp", "triton", "ptx", "sass")
"""What `show` prints, in the order of a compile: of the whole graph the first two, of one kernel the rest."""

_VERSION = 1


@dataclass(frozen=True, slots=True)
class KernelStages:
    """One kernel and the text of its stages.

    Attributes:
        name: the kernel.
        device: for which it was made.
        role: of its graph: `forward`, `backward` or `inference`.
        texts: by stage; `sass` is made from `cubin` when it is asked for.
        cubin: machine code of an NVIDIA kernel.
    """

    name: str
    device: str
    role: str
    texts: dict[str, str] = field(default_factory=dict)
    cubin: bytes | None = None

    @property
    def path(self) -> str:
        """A name that tells kernels of one run apart: `h200/forward/fused_gelu_0`."""
        return f"{self.device}/{self.role}/{self.name}"

    @property
    def stages(self) -> list[str]:
        """Stages that can be shown."""
        return [s for s in STAGES if s in self.texts or (s == "sass" and self.cubin is not None)]

    def text(self, stage: str) -> str:
        """The text of a stage.

        Raises:
            UnknownName: there is no such stage.
            UsageError: this kernel has no such stage.
            CompilerMissing: the disassembler is not here.
        """
        if stage not in STAGES:
            raise UnknownName("stage", stage, STAGES)
        if stage == "sass" and self.cubin is not None:
            from fusewise.runtime.gpu_resources import disassemble

            return disassemble(self.cubin)
        if stage not in self.texts:
            made = ", ".join(self.stages)
            raise UsageError(f"kernel {self.name} for {self.device} has no stage {stage}.", f"It has: {made}.")
        return self.texts[stage]


def last_run_file() -> Path:
    """Where the last run's stages lie."""
    return cache_dir() / "last" / "run.json"


def keep(command: str, kernels: Iterable[KernelStages]) -> None:
    """Replaces what the last run left; a folder that cannot be written is passed over."""
    document = {"version": _VERSION, "command": command, "kernels": [_to_plain(k) for k in kernels]}
    file = last_run_file()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=file.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(document, stream)
            os.replace(draft, file)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise


def last_run() -> tuple[str, list[KernelStages]]:
    """(command, kernels) of the last run.

    Raises:
        UsageError: there was none, or its file is damaged.
    """
    hint = "Run `fusewise explain`, `verify`, `demo` or `bench` first."
    try:
        document = json.loads(last_run_file().read_text(encoding="utf-8"))
        kernels = [_from_plain(k) for k in document["kernels"]]
        if document["version"] != _VERSION:
            raise ValueError("written by another version")
    except FileNotFoundError:
        raise UsageError("no run has left kernels to show.", hint) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
        raise UsageError(f"the stages of the last run cannot be read: {cause}", hint) from cause
    return str(document["command"]), kernels


def find_kernel(kernels: Sequence[KernelStages], wanted: str) -> KernelStages:
    """The kernel of that name or path; a name that several have is asked for by its path.

    Raises:
        UnknownName: no such kernel.
        UsageError: several.
    """
    found = [k for k in kernels if wanted in (k.name, k.path) or k.path.endswith("/" + wanted)]
    if not found:
        raise UnknownName("kernel", wanted, {k.name for k in kernels} or {"none: the last run made no kernel"})
    if len(found) > 1:
        paths = "\n".join(k.path for k in found)
        raise UsageError(f"{len(found)} kernels are called {wanted}.", f"Name one of:\n{paths}")
    return found[0]


def _to_plain(kernel: KernelStages) -> dict[str, Any]:
    code = None if kernel.cubin is None else base64.b64encode(kernel.cubin).decode("ascii")
    names = {"name": kernel.name, "device": kernel.device, "role": kernel.role}
    return {**names, "texts": kernel.texts, "cubin": code}


def _from_plain(plain: dict[str, Any]) -> KernelStages:
    code = plain["cubin"]
    return KernelStages(
        name=str(plain["name"]),
        device=str(plain["device"]),
        role=str(plain["role"]),
        texts={str(k): str(v) for k, v in plain["texts"].items()},
        cubin=None if code is None else base64.b64decode(code),
    )
