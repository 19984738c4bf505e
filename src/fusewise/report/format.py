"""Numbers as people read them."""

from __future__ import annotations

import math
from pathlib import PurePath

_BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def format_bytes(amount: float) -> str:
    """For example `134 MB` (10^6 bytes)."""
    for unit, name in _BYTE_UNITS:
        if abs(amount) >= unit * 0.9995:
            return f"{_three_digits(amount / unit)} {name}"
    return f"{amount:.0f} B"


def format_us(time_us: float) -> str:
    """For example `12.3 us` or `4.56 ms`."""
    if abs(time_us) >= 999_500:
        return f"{_three_digits(time_us / 1e6)} s"
    if abs(time_us) >= 999.5:
        return f"{_three_digits(time_us / 1e3)} ms"
    return f"{_three_digits(time_us)} us"


def format_error(error: float | None) -> str:
    """A relative error, or a dash where there is none."""
    if error is None:
        return "-"
    return "0" if error == 0 else f"{error:.1e}"


def format_count(number: int, noun: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_share(share: float | None) -> str:
    """A share as `12%`, or a dash where there is none."""
    return "-" if share is None else f"{100 * share:.0f}%"


def format_place(file: str, line: int) -> str:
    """`block.py:12`, or nothing where the file is unknown."""
    return f"{PurePath(file).name}:{line}" if file else ""


def format_ops(ops: tuple[str, ...]) -> str:
    """ATen ops by their short names, repeats counted: `mul x3, add, relu`."""
    counted: dict[str, int] = {}
    for op in ops:
        short = short_op(op)
        counted[short] = counted.get(short, 0) + 1
    return ", ".join(name if n == 1 else f"{name} x{n}" for name, n in counted.items())


def short_op(op: str) -> str:
    """`native_layer_norm` for `aten.native_layer_norm.default`."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 and parts[0] in ("aten", "fusewise", "prims") else op


def shorten(text: str, limit: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _three_digits(value: float) -> str:
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    rounded = float(f"{value:.3g}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{min(decimals, 3)}f}"
