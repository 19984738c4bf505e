"""What a program compiled more than once, and why: PyTorch's own records of each compile, in plain words.

PyTorch guards what it compiles: a call for which a guard fails is compiled again. It records the guard; `_RULES` says
what that means and what to do about it.
"""

from __future__ import annotations

import contextlib
import re
import runpy
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fusewise import trace
from fusewise.errors import UsageError

FEW = 2
"""Compiles of one function that need no remedy: for its first sizes, and for all others."""

_RECORDS = 100_000  # compiles that PyTorch is told to remember; it keeps 64 of its own accord


@dataclass(frozen=True, slots=True)
class Compile:
    """One compile of a function.

    Attributes:
        change: what was different from the calls before; empty for the first compile.
        advice: how to compile less; empty where nothing is amiss.
        guard: PyTorch's own words for it.
        graphs: our compiles that came of it, by role (`forward`, `backward`, `inference`).
        kernels: in these graphs.
        seconds: wall time of it all, backward excluded.
        failure: why PyTorch gave the compile up; empty where it did not.
    """

    change: str
    advice: str
    guard: str
    graphs: dict[str, int]
    kernels: int
    seconds: float
    failure: str = ""


@dataclass(frozen=True, slots=True)
class CompiledFunction:
    """A function and its compiles, in order."""

    name: str
    file: str
    line: int
    compiles: tuple[Compile, ...]


@dataclass(frozen=True, slots=True)
class Recompiles:
    """What one run of a program compiled.

    Attributes:
        program: the file.
        functions: what was compiled, in order of the first compile.
        fallbacks: graphs that run as eager PyTorch since a step failed.
    """

    program: str
    functions: tuple[CompiledFunction, ...]
    fallbacks: int

    @property
    def ok(self) -> bool:
        """True where nothing was compiled more than twice."""
        return all(len(f.compiles) <= FEW for f in self.functions)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"ok": self.ok, **asdict(self)}


def watch(program: Path, arguments: Sequence[str] = ()) -> Recompiles:
    """Runs a Python file as the main program, its output on standard error, and reports what it compiled.

    Raises:
        UsageError: there is no such file, or it failed.
    """
    if not program.is_file():
        raise UsageError(f"no file {program}.", "Name a Python program, as in --recompiles train.py")
    import torch
    from torch._dynamo import utils

    torch._dynamo.reset()
    trace.clear()
    utils.counters.clear()
    utils.clear_compilation_metrics()
    utils.set_compilation_metrics_limit(_RECORDS)
    with _as_main(program, arguments):
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise UsageError(f"{program} ended with {end.code!r}.", "Name arguments of it behind --.") from end
        except Exception as cause:
            text = str(cause).strip().partition("\n")[0]
            raise UsageError(f"{program} failed: {type(cause).__name__}: {text}") from cause
    return Recompiles(
        str(program), _functions(utils.get_compilation_metrics()), utils.counters["fusewise"]["fallbacks"]
    )


@contextlib.contextmanager
def _as_main(program: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.resolve().parent))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _functions(records: Sequence[Any]) -> tuple[CompiledFunction, ...]:
    import torch

    ours: dict[str, list[Any]] = {}
    for number, made in trace.compiled_by():
        ours.setdefault(number, []).append(made)
    found: dict[tuple[str, str, int], list[Compile]] = {}
    inside_torch = str(Path(torch.__file__).parent)
    for record in records:
        if record.co_name is None:  # a backward, which belongs to the forward of the same number
            continue
        graphs = ours.get(str(record.compile_id), [])
        name, file, line = record.co_name, record.co_filename or "", record.co_firstlineno or 0
        if file.startswith(inside_torch):  # a module of torch's own: PyTorch compiles a wrapper around it
            name, file, line = "a module", *_place_of(graphs, str(record.compile_id).partition("/")[0])
        guard = record.recompile_reason or ""
        change, advice = explain_guard(guard) if guard else ("", "")
        found.setdefault((name, file, line), []).append(
            Compile(
                change=change,
                advice=advice,
                guard=guard.partition("\n")[0],
                graphs=dict(Counter(made.role for made in graphs)),
                kernels=sum(len(made.kernels) for made in graphs),
                seconds=round(record.entire_frame_compile_time_s or 0.0, 3),
                failure=(record.fail_reason or "").partition("\n")[0],
            )
        )
    return tuple(CompiledFunction(*place, tuple(compiles)) for place, compiles in found.items())


def _place_of(graphs: Sequence[Any], frame: str) -> tuple[str, int]:
    """Where the user's code is that a graph came from; else its first module; else PyTorch's number of the function."""
    origins = [node.origin for made in graphs for node in made.captured.graph]
    for origin in origins:
        if origin.file:
            return origin.file, origin.line
    return next((origin.text for origin in origins if origin.text), f"number {frame}"), 0


def explain_guard(guard: str) -> tuple[str, str]:
    """(what changed, what to do about it) for PyTorch's words about a guard that failed."""
    text = re.sub(r"^\d+/\d+(_\d+)?: ", "", guard.partition("\n")[0])
    text = re.split(r"\s+# | \(HINT", text)[0].strip()
    for pattern, change, advice in _RULES:
        match = re.search(pattern, text)
        if match:
            return change.format(**match.groupdict()), advice
    return text, ""


_DYNAMIC = "From here on one compile serves all sizes; dynamic=True spares the first."
_RULES: tuple[tuple[str, str, str], ...] = (
    (
        r"tensor '(?P<name>.*)' size mismatch at index (?P<dim>\d+)\. expected (?P<old>\d+), actual (?P<new>\d+)",
        "size {dim} of {name} is {new}, it was {old}",
        _DYNAMIC,
    ),
    (
        r"tensor '(?P<name>.*)' stride mismatch at index (?P<dim>\d+)\. expected (?P<old>\d+), actual (?P<new>\d+)",
        "stride {dim} of {name} is {new}, it was {old}",
        "Pass tensors of one layout: .contiguous() before the call.",
    ),
    (
        r"tensor '(?P<name>.*)' rank mismatch\. expected (?P<old>\d+), actual (?P<new>\d+)",
        "{name} has {new} dims, it had {old}",
        "Tensors of another rank are another program: reshape before the call, or compile a function for each.",
    ),
    (
        r"tensor '(?P<name>.*)' dtype mismatch\. expected (?P<old>\w+), actual (?P<new>\w+)",
        "{name} is {new}, it was {old}",
        "Convert to one dtype before the call.",
    ),
    (
        r"tensor '(?P<name>.*)' requires_grad mismatch\. expected requires_grad=(?P<old>\w+)",
        "requires_grad of {name} is no longer {old}",
        "Training and inference are two programs, as a rule.",
    ),
    (
        r"tensor '(?P<name>.*)' device.*mismatch",
        "{name} is on another device",
        "Move tensors to one device before the call.",
    ),
    (
        r"^2 <= (?P<name>[^ ]*)\.size\(\)\[(?P<dim>\d+)\]",
        "size {dim} of {name} is 0 or 1",
        "PyTorch compiles apart for sizes 0 and 1: leave the last short batch out (drop_last=True), or pad it.",
    ),
    (
        r"^GLOBAL_STATE changed: (?P<name>.*?) *$",
        "the global state changed: {name}",
        "Call it under one grad_mode, autocast and number of threads; training and inference are two programs.",
    ),
    (
        r"^___check_type_id\((?P<name>[^,]*),.*type=<class '(?P<kind>.*)'>",
        "{name} is no longer of type {kind}",
        "Pass values of one type, or a tensor.",
    ),
    (
        r"^len\((?P<name>.*)\) == (?P<old>\d+)",
        "{name} has no longer {old} items",
        "Each length is a program of its own: stack the items into a tensor, or pad to one length.",
    ),
    (
        r"^(?P<name>\S+) (?:==|is) (?P<old>[^#]+?)$",
        "{name} is no longer {old}",
        "Numbers and flags are part of the compiled program: pass one that changes often as a tensor.",
    ),
    (
        r"(?P<name>.*size\(\)\[.*(?:<|>|==|%).*)",
        "sizes no longer fulfil {name}",
        "The program branches on a size, or its sizes are tied to each other.",
    ),
)
