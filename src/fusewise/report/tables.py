"""The look that every table of the terminal shares."""

from __future__ import annotations

from rich import box
from rich.table import Table


def table_of(*columns: str | tuple[str, str], title: str | None = None) -> Table:
    """An empty table; a column is its heading, or (heading, `left` or `right`)."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        heading, side = column if isinstance(column, tuple) else (column, "left")
        table.add_column(heading, justify="right" if side == "right" else "left", overflow="fold")
    return table
