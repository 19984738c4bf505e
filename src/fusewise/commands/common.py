"""What the verbs share: exit codes, where text goes, JSON, progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, Protocol, TextIO

import typer
from rich.console import Console
from rich.text import Text

from fusewise.config import COLUMNS
from fusewise.errors import CacheFailure, DeviceDataError, EnvironmentFailure, FusewiseError, ResultsInvalid, UsageError

OK, FINDING, USAGE, ENVIRONMENT = 0, 1, 2, 3
"""Exit codes: fine; a finding (a mismatch, an impossible time); bad usage; something missing on this machine."""
INTERRUPTED = 130  # as a shell has it

WIDTH = 120  # where the output is no terminal and COLUMNS names no width


def _width(is_terminal: bool) -> int | None:
    """None: the terminal's, or that of COLUMNS."""
    return None if is_terminal or COLUMNS.get().isdigit() else WIDTH


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # the command line's to end; rich would end it as if there were a finding


console = _Console(highlight=False, width=_width(sys.stdout.isatty()))
errors = _Console(stderr=True, highlight=False, width=_width(sys.stderr.isatty()))

_documents: list[TextIO] = []  # standard output, where sys.stdout is standard error


@contextmanager
def _documents_alone() -> Iterator[None]:
    """Only documents reach standard output; what else is printed, by the user's code too, goes to standard error."""
    _documents.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _documents.pop()


def _json_alone(context: typer.Context, wanted: bool) -> bool:
    if wanted:
        context.with_resource(_documents_alone())
    return wanted


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.", callback=_json_alone)]


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

    print_document(to_json(document) + "\n")


def print_document(text: str) -> None:
    """A finished JSON text on standard output."""
    out = _documents[-1] if _documents else sys.stdout
    out.write(text)
    out.flush()


def check_output(file: Path | None) -> None:
    """Raises where a file cannot be written: before the minutes that its contents may take."""
    if file is None:
        return
    if not file.parent.is_dir():
        raise UsageError(f"no folder {file.parent} to write {file.name} to.")
    if file.is_dir():
        raise UsageError(f"{file} is a folder, not a file to write to.")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageError(f"{file} cannot be written: no permission.")


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
