"""`fusewise doctor`: versions, device, compilers, cache, and what is missing."""

from __future__ import annotations

import typer

from fusewise.commands.common import ENVIRONMENT, JsonOption, console, print_json


def doctor(json: JsonOption = False) -> None:
    """What is on this machine, what is missing, and the command that gets it.

    Exit code 3 where something is missing that Fusewise needs.
    """
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
