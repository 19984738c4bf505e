"""`fusewise plan` and `fusewise check`: a plan kept in a file, and what has become worse since. No GPU is needed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fusewise.commands.common import (
    FINDING,
    JsonOption,
    check_output,
    console,
    gradients,
    print_document,
    print_json,
    progress_bar,
    say,
)
from fusewise.commands.options import InferenceOption, InputOption, PolicyOption, TargetArgument, split_names
from fusewise.errors import UsageError

if TYPE_CHECKING:
    from fusewise.gate.compare import Change, Comparison
    from fusewise.gate.state import PlanState, Request
    from fusewise.report.documents import Explanation

DEFAULT_DEVICE = "h200"


def plan(
    target: TargetArgument,
    input: InputOption = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="A name of `fusewise device list`, or cpu; several with commas.", show_default=DEFAULT_DEVICE
        ),
    ] = None,
    policy: PolicyOption = "balanced",
    inference: InferenceOption = False,
    save: Annotated[Path | None, typer.Option(help="File to keep the plan in, for `fusewise check`.")] = None,
    json: JsonOption = False,
) -> None:
    """The plan of a function for a GPU that need not be here, and a file that holds it for your CI.

    \b
    fusewise plan model.py:block --device h200 --save plan.json
    fusewise check plan.json

    Nothing is run, and figures measured on this machine play no part: with the same torch and triton the file is the
    same everywhere. It names kernels, bytes, registers, spills, shared memory, PyTorch's own kernels, graph breaks, and
    what runs as eager. `fusewise explain` says why.

    Inputs are written as for `fusewise explain`.
    """
    from fusewise.gate.state import Request

    check_output(save)
    devices = tuple(dict.fromkeys(split_names(device) or [DEFAULT_DEVICE]))
    request = Request(target, tuple(input or ()), devices, policy, inference)
    explanation, state = _planned(request, json)
    if save is not None:
        _write(save, replace(state, request=_moved(request, Path.cwd(), save.parent)))
    if json:
        print_document(state.to_json())
        return
    from fusewise.report.terminal import render_plan

    console.print(render_plan(explanation))
    for stop in state.graph_breaks:
        say(f"graph break at {stop.line} {stop.code}: {stop.reason}")
    if save is not None:
        say(f"written to {save}; `fusewise check {save}` tells what has become worse since")


def check(
    file: Annotated[Path, typer.Argument(help="The file of `fusewise plan --save`.", show_default=False)],
    accept: Annotated[bool, typer.Option("--accept", help="Keep the new plan in the file; exit code 0.")] = False,
    json: JsonOption = False,
) -> None:
    """Plan again what a file holds; exit code 1 where anything has become worse.

    \b
    fusewise check plan.json
    fusewise check plan.json --accept

    Worse is: a new graph break, a new PyTorch kernel, a graph that now runs as eager, or more kernels, bytes, registers
    or spills. What is better is noted. Another torch or triton than the saved one is named, since it may be the reason.
    """
    from fusewise.gate.compare import compare
    from fusewise.gate.state import read_state

    saved = read_state(file)
    _, now = _planned(_moved(saved.request, file.parent, Path.cwd()), json)
    now = replace(now, request=saved.request)
    found = compare(saved, now)
    if accept:
        _write(file, now)
    if json:
        print_json({**found.as_dict(), "file": str(file), "target": saved.request.target, "accepted": accept})
    else:
        _print(file, saved, found, accept)
    if found.findings and not accept:
        raise typer.Exit(FINDING)


def _planned(request: Request, silent: bool) -> tuple[Explanation, PlanState]:
    from fusewise.commands.targets import load_target
    from fusewise.config import make_options
    from fusewise.stages import keep

    options = make_options(policy=request.policy)
    loaded = load_target(request.target, request.inputs, "meta", request.inference)
    from fusewise.gate.make import planned, state_of

    with progress_bar(silent=silent) as show, gradients(not request.inference):
        found = planned(loaded.function, loaded.args, loaded.kwargs, request.devices, options, request.target, show)
    keep(f"fusewise plan {request.target}", found.stages)
    return found.explanation, state_of(found.explanation, request)


def _moved(request: Request, start: Path, folder: Path) -> Request:
    """The same with the target's file relative to another folder, so that it is found from anywhere."""
    place, colon, name = request.target.rpartition(":")
    if not (place.endswith(".py") or "/" in place):  # a module is found by its name
        return request
    moved = Path(os.path.relpath(start.resolve() / place, folder.resolve())).as_posix()
    return replace(request, target=f"{moved}{colon}{name}")


def _write(file: Path, state: PlanState) -> None:
    try:
        file.write_text(state.to_json(), encoding="utf-8")
    except OSError as cause:
        raise UsageError(f"{file} cannot be written: {cause.strerror or cause}.") from cause


def _print(file: Path, saved: PlanState, found: Comparison, accepted: bool) -> None:
    request = saved.request
    say(f"{request.target} on {', '.join(request.devices)}, policy {request.policy}, against {file}", "bold")
    for note in found.notes:
        say(f"note: {note}", "yellow")
    for change in found.findings:
        say(f"worse: {_text(change)}", "red")
        for name in change.names:
            say(f"         {name}")
    for change in found.improvements:
        say(f"better: {_text(change)}", "green")
        for name in change.names:
            say(f"         {name}", "dim")
    if accepted:
        say(f"The new plan is kept in {file}." if found.changes or found.notes else f"Nothing has changed in {file}.")
    elif found.findings:
        say(f"Worse than the saved plan. Where that is meant: fusewise check {file} --accept")
    elif found.changes:
        say(f"Nothing is worse. To hold on to what is better: fusewise check {file} --accept")
    else:
        say("As saved.", "green")


def _text(change: Change) -> str:
    """For example `h200: 4 kernels, 3 before`."""
    from fusewise.report.format import format_bytes, format_count

    where = f"{change.device}: " if change.device else ""
    before, after = change.before, change.after
    if change.kind == "bytes":
        return f"{where}{format_bytes(after)} moved, {format_bytes(before)} before ({after} and {before} bytes)"
    unit = {"registers": "registers a thread", "spills": "bytes a thread spilled"}.get(change.kind)
    if unit is not None:
        return f"{where}{after} {unit} in {change.what}, {before} before"
    return f"{where}{format_count(after, change.kind.removesuffix('s'))}, {before} before"
