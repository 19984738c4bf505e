"""`fusewise doctor`: versions, device, compilers, cache, what is missing; or what a program compiles again and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fusewise.commands.common import ENVIRONMENT, FINDING, JsonOption, console, print_json, say
from fusewise.errors import UsageError

if TYPE_CHECKING:
    from fusewise.recompiles import Recompiles

RecompilesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.py", help="Run this program, and say what it compiles more than once and why."),
]
Arguments = Annotated[
    list[str] | None, typer.Argument(help="Arguments of that program, behind --.", show_default=False)
]


def doctor(arguments: Arguments = None, recompiles: RecompilesOption = None, json: JsonOption = False) -> None:
    """What is on this machine, what is missing, and the command that gets it.

    Exit code 3 where something is missing that Fusewise needs. With --recompiles, exit code 1 where a function is
    compiled more than twice.
    """
    if recompiles is not None:
        _recompiles(recompiles, arguments or [], json)
        return
    if arguments:
        raise UsageError(f"doctor takes no argument {arguments[0]!r}.", "Name a program: --recompiles FILE.py")
    from rich.text import Text

    from fusewise.doctor import diagnose
    from fusewise.report.terminal import table_of

    found = diagnose()
    if json:
        print_json(found.as_dict())
    else:
        marks = {"ok": ("ok", "green"), "optional": ("-", "yellow"), "missing": ("MISSING", "bold red")}
        table = table_of("", "what", "found", "to get it")
        for check in found.checks:
            mark, style = marks[check.status]
            table.add_row(Text(mark, style=style), check.name, Text(check.found), Text(check.remedy))
        console.print(table)
        for path in found.cache.damaged:
            console.print(Text(f"damaged: {path}", style="yellow"))
        for name, value in found.settings.items():
            console.print(Text(f"{name}={value}", style="dim"))
    if not found.ok:
        raise typer.Exit(ENVIRONMENT)


def _recompiles(program: Path, arguments: list[str], json: bool) -> None:
    from fusewise.recompiles import watch

    found = watch(program, arguments)
    if json:
        print_json(found.as_dict())
    else:
        _print(found)
    if not found.ok:
        raise typer.Exit(FINDING)


def _print(found: Recompiles) -> None:
    from fusewise.recompiles import FEW
    from fusewise.report.format import format_count, format_us

    if not found.functions:
        say(f"{found.program} compiles nothing.")
    for function in found.functions:
        many = len(function.compiles) > FEW
        place = f"{function.file}:{function.line}" if function.line else function.file
        count = "once" if len(function.compiles) == 1 else f"{len(function.compiles)} times"
        say(f"{function.name} ({place}), compiled {count}", style="bold red" if many else "bold")
        for number, one in enumerate(function.compiles, 1):
            graphs = (
                ", ".join(role if n == 1 else f"{n} {role}" for role, n in one.graphs.items()) or "no graph of ours"
            )
            what = one.change or "the first call"
            say(f"  {number}. {what}: {graphs}, {format_count(one.kernels, 'kernel')}, {format_us(one.seconds * 1e6)}")
            if one.failure:
                say(f"     PyTorch gave it up: {one.failure}", style="yellow")
            if one.advice and (many or number > 1):
                say(f"     {one.advice}", style="dim")
    if found.fallbacks:
        say(f"{format_count(found.fallbacks, 'graph')} run as eager PyTorch since a step failed.", style="yellow")
