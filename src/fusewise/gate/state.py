"""A plan as it is kept in a file: what was asked, with which tools, and what came out.

The file is the same whoever makes it: it holds no time, no path of a machine and no figure that was measured on one.
Predicted times are left out, since they follow from the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from fusewise.errors import UsageError

SCHEMA = "fusewise-plan/1"


State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Request:
    """What is planned: enough to do it again.

    Attributes:
        target: `FILE.py:NAME`, the file relative to the folder of the plan's file; or `module:NAME`.
        inputs: the `--input` options.
        devices: names of GPUs, or `cpu`.
        policy: of the compile.
        inference: without gradients, and a module in evaluation mode.
    """

    target: str
    inputs: tuple[str, ...]
    devices: tuple[str, ...]
    policy: str
    inference: bool = False


@dataclass(frozen=True, slots=True)
class KernelState:
    """One generated kernel.

    Attributes:
        name: made of the ATen ops in it.
        ops: those ops.
        lines: the user's lines, as `model.py:12`.
        dram_bytes, unfused_bytes: that it moves, and that one eager kernel an op would move.
        regs_per_thread, spill_bytes, shared_bytes: read off the compiled kernel; None on a CPU. Spills are bytes a
            thread, stored and loaded again.
        problem: why it cannot be compiled: such a graph runs as eager.
    """

    name: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    dram_bytes: int
    unfused_bytes: int
    regs_per_thread: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class WallState:
    """One op that runs as PyTorch's own kernel: the op, why, where, that line's code, and the bytes it moves."""

    op: str
    reason: str
    line: str
    code: str
    dram_bytes: int


@dataclass(frozen=True, slots=True)
class GraphState:
    """One graph; `fallback` says why all of it runs as eager PyTorch, and is empty where it does not."""

    role: str
    kernels: tuple[KernelState, ...]
    walls: tuple[WallState, ...]
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The plan for one device."""

    device: str
    graphs: tuple[GraphState, ...]

    @property
    def kernels(self) -> tuple[tuple[str, KernelState], ...]:
        """(role, kernel) of every graph."""
        return tuple((g.role, k) for g in self.graphs for k in g.kernels)

    @property
    def walls(self) -> tuple[tuple[str, WallState], ...]:
        """(role, wall) of every graph."""
        return tuple((g.role, w) for g in self.graphs for w in g.walls)

    @property
    def fallbacks(self) -> tuple[tuple[str, str], ...]:
        """(role, reason) of what runs as eager because a step failed."""
        graphs = [(g.role, g.fallback) for g in self.graphs if g.fallback]
        return (*graphs, *((role, f"{k.name}: {k.problem}") for role, k in self.kernels if k.problem))

    @property
    def dram_bytes(self) -> int:
        """Bytes that kernels and walls move."""
        return sum(k.dram_bytes for _, k in self.kernels) + sum(w.dram_bytes for _, w in self.walls)


@dataclass(frozen=True, slots=True)
class BreakState:
    """One graph break: why, where, and that line's code."""

    reason: str
    line: str
    code: str


@dataclass(frozen=True, slots=True)
class PlanState:
    """A plan as a file keeps it.

    Attributes:
        request: what was planned.
        toolchain: versions by name of what decides the plan.
        graph_breaks: where the function falls apart.
        devices: one plan each.
    """

    request: Request
    toolchain: Mapping[str, str]
    graph_breaks: tuple[BreakState, ...]
    devices: tuple[DeviceState, ...]

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """The plan of a parsed file; raises `ValueError` where it is not one."""
        if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
            found = plain.get("schema") if isinstance(plain, dict) else None
            raise ValueError(f"its schema is {found!r}, not {SCHEMA!r}")
        try:
            return cls(
                _made(Request, plain["request"]),
                {str(k): str(v) for k, v in plain["toolchain"].items()},
                tuple(_made(BreakState, b) for b in plain["graph_breaks"]),
                tuple(DeviceState(d["device"], tuple(map(_graph, d["graphs"]))) for d in plain["devices"]),
            )
        except (KeyError, TypeError, AttributeError) as cause:
            raise ValueError(f"a field is missing, unknown or of another type: {cause}") from cause


def read_state(file: Path) -> PlanState:
    """The plan in a file.

    Raises:
        UsageError: no such file, or it holds no plan of this version.
    """
    remedy = f"Make it: fusewise plan FILE.py:NAME --device h200 --save {file}"
    try:
        return PlanState.from_plain(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UsageError(f"no file {file}.", remedy) from None
    except (OSError, ValueError, RecursionError) as cause:
        raise UsageError(f"{file} holds no plan: {cause}.", remedy) from cause


def _graph(plain: Mapping[str, Any]) -> GraphState:
    return GraphState(
        plain["role"],
        tuple(_made(KernelState, k) for k in plain["kernels"]),
        tuple(_made(WallState, w) for w in plain["walls"]),
        plain["fallback"],
    )


def _made(cls: type[State], plain: Mapping[str, Any]) -> State:
    """An object of flat fields; raises TypeError where a value is not of its field's type."""
    values = _tuples(plain)
    made = cls(**values)
    for name, hint in get_type_hints(cls).items():
        value = getattr(made, name)
        fits = isinstance(value, tuple if get_origin(hint) is tuple else hint)
        if not fits or (isinstance(value, tuple) and not all(isinstance(item, get_args(hint)[0]) for item in value)):
            raise TypeError(f"{name} is {plain.get(name)!r}")
    return made


def _tuples(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, Sequence) and not isinstance(v, str) else v for k, v in plain.items()}
