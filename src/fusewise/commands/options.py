"""Arguments and options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

from fusewise.errors import UsageError

TargetArgument = Annotated[str, typer.Argument(help="FILE.py:NAME or module:NAME.", show_default=False)]
InputOption = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", help='An input, as in "x:bf16[8192,4096]"; once for each.', show_default=False),
]
PolicyOption = Annotated[str, typer.Option(help="conservative, balanced or aggressive.")]
InferenceOption = Annotated[
    bool, typer.Option("--inference", help="Without gradients, and a module in evaluation mode.")
]


def split_names(texts: list[str] | None) -> list[str]:
    """Names given by repeating an option, or in one text with commas between them; a text without one is refused."""
    names = [name.strip() for text in texts or () for name in text.split(",") if name.strip()]
    if texts and not names:
        raise UsageError(
            f"{texts[0]!r} names nothing.", "Write names with commas between them, or leave the option out."
        )
    return names
