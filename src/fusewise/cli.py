"""The command line: `fusewise VERB`.

Exit codes: 0 fine, 1 a finding, 2 bad usage, 3 something is missing on this machine. Verbs import what they need when
they run: `fusewise calc` starts neither torch nor a compiler.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fusewise import __version__
from fusewise.commands import device
from fusewise.commands.bench import bench
from fusewise.commands.bisect import bisect
from fusewise.commands.calc import calc
from fusewise.commands.common import INTERRUPTED, errors, exit_code, print_error
from fusewise.commands.demo import demo
from fusewise.commands.doctor import doctor
from fusewise.commands.explain import explain
from fusewise.commands.gate import check, plan
from fusewise.commands.lab import lab
from fusewise.commands.show import show
from fusewise.commands.verify import verify
from fusewise.errors import EnvironmentFailure, FusewiseError


def _drop_output() -> None:
    """What cannot be written goes nowhere: Python flushes it once more at its end, and would end in an error there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Verbs(TyperGroup):
    """The verbs; what ends one early becomes an exit code of ours before typer makes it one of its own."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb that was asked for."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            errors.print("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader, such as `head`, has left, which is no finding
            _drop_output()
            raise typer.Exit from None
        except OSError as cause:
            try:
                sys.stdout.flush()
            except OSError:
                _drop_output()
            where = f"{cause.filename}: " if cause.filename else ""
            raise EnvironmentFailure(f"{where}{cause.strerror or cause}.") from cause
        return result


app = typer.Typer(
    name="fusewise",
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A kernel-fusion compiler for PyTorch that knows when not to fuse.",
    epilog="Exit codes: 0 fine, 1 a finding, 2 bad usage, 3 something is missing on this machine.",
)
for verb in (demo, explain, verify, bisect, plan, check, bench, show, calc, lab, doctor):
    app.command()(verb)
app.add_typer(device.app, name="device")


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"fusewise {__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """A kernel-fusion compiler for PyTorch that knows when not to fuse."""


def main() -> None:
    """Runs the command line; an expected failure ends in one line and an exit code."""
    try:
        app(prog_name="fusewise")
    except FusewiseError as error:
        print_error(error)
        sys.exit(exit_code(error))
