"""`fusewise show`: any stage of any kernel of the last run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fusewise.commands.common import JsonOption, console, print_json
from fusewise.errors import UsageError


def show(
    kernel: Annotated[str | None, typer.Argument(help="Name or path of a kernel; none: list them.")] = None,
    stage: Annotated[str | None, typer.Option("--as", help="graph, plan, ir, cpp, triton, ptx or sass.")] = None,
    json: JsonOption = False,
) -> None:
    """Print a stage of a kernel of the last run (of explain, verify, demo or bench).

    \b
    fusewise show
    fusewise show fused_gelu_0 --as cpp
    fusewise show h200/backward/fused_mul_0 --as sass

    graph and plan are those of the whole graph that the kernel belongs to. Without --as: the generated source.
    """
    from rich.text import Text

    from fusewise.report.terminal import table_of
    from fusewise.stages import find_kernel, last_run

    command, kernels = last_run()
    if kernel is None:
        if stage is not None:
            raise UsageError(f"--as {stage} of which kernel?", "`fusewise show` lists them.")
        if json:
            print_json({"command": command, "kernels": [{"path": k.path, "stages": k.stages} for k in kernels]})
            return
        table = table_of("kernel", "stages", title=f"Kernels of `{command}`")
        for found in kernels:
            table.add_row(Text(found.path), ", ".join(found.stages))
        console.print(table)
        return
    chosen = find_kernel(kernels, kernel)
    wanted = stage or ("triton" if "triton" in chosen.texts else "cpp")
    text = chosen.text(wanted)
    if json:
        print_json({"kernel": chosen.path, "stage": wanted, "text": text})
        return
    if not console.is_terminal:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    from rich.syntax import Syntax

    lexer = {"cpp": "cpp", "triton": "python"}.get(wanted, "text")
    console.print(Syntax(text, lexer, theme="ansi_dark", word_wrap=True, background_color="default"))
