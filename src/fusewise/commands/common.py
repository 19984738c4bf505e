"""What the verbs share: exit codes, where text goes, JSON, progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console
from rich.text import Text

from fusewise.errors import CacheFailure, DeviceDataError, EnvironmentFailure, FusewiseError, ResultsInvalid, UsageError

OK, FINDING, USAGE, ENVIRONMENT = 0, 1, 2, 3
"""Exit codes: fine; a finding (a mismatch, an impossible time); bad usage; something missing on this machine."""

WIDTH = 120  # where the output is no terminal and has no width of its own

console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
errors = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDTH)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def exit_code(error: FusewiseError) -> int:
    """The exit code that an error ends the command with."""
    if isinstance(error, (UsageError, DeviceDataError, ResultsInvalid)):
        return USAGE
    if isinstance(error, (EnvironmentFailure, CacheFailure)):
        return ENVIRONMENT
    return FINDING


def say(text: str, style: str = "") -> None:
    """One line on standard output, as it is."""
    console.print(Text(text, style=style), soft_wrap=True)


def print_error(error: FusewiseError) -> None:
    """The problem in one line, then the remedy."""
    errors.print(Text.assemble(("error: ", "bold red"), error.problem), soft_wrap=True)
    if error.remedy:
        errors.print(Text(error.remedy), soft_wrap=True)


def print_json(document: Any) -> None:
    """A document as JSON on standard output."""
    from fusewise.report.documents import to_json

    sys.stdout.write(to_json(document) + "\n")


class Progress(Protocol):
    """Told how far a command is: a share from 0 to 1 and what it does now."""

    def __call__(self, share: float, text: str) -> None:
        """Show it."""
        ...


@contextmanager
def gradients(wanted: bool) -> Iterator[None]:
    """Gradients on or off inside the block."""
    import torch

    with torch.set_grad_enabled(wanted):
        yield


@contextmanager
def progress_bar(silent: bool = False) -> Iterator[Progress]:
    """A bar on standard error while the block runs; nothing where `silent`, or where nobody watches a terminal."""
    if silent or not errors.is_terminal:
        yield lambda share, text: None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(bar_width=32), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
    with Bar(*columns, TextColumn("{task.description}", markup=False), console=errors, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share, text: bar.update(task, completed=share, description=text)
