"""Rows by columns: the shapes between those of the catalogue, where a heuristic chosen for one shape shows."""

from __future__ import annotations

from benchmarks.catalogue import PROGRAMS
from fusewise.measure.bench import BenchCase

ROWS = (1, 16, 256, 4096, 65536)
COLS = (16, 64, 256, 1024, 4096, 2**14, 2**16, 2**18, 2**20, 2**22)
MOST_ELEMENTS = 2**28

# Softmax forward; layer norm forward and backward.
GRID_PROGRAMS = (("softmax", "forward"), ("layer_norm", "forward"), ("layer_norm", "train"))


def points(most_elements: int = MOST_ELEMENTS) -> list[tuple[int, int]]:
    """Rows and columns of each point; those with more elements are left out."""
    return [(rows, cols) for rows in ROWS for cols in COLS if rows * cols <= most_elements]


def grid_cases(device: str, dtype: str = "bf16", most_elements: int = MOST_ELEMENTS) -> list[BenchCase]:
    """A case for each point and program; its size is named "rows x cols"."""
    return [
        BenchCase(
            PROGRAMS[name],
            f"{rows}x{cols}",
            dtype,
            PROGRAMS[name].case({"rows": rows, "cols": cols}, dtype, device, direction),
        )
        for name, direction in GRID_PROGRAMS
        for rows, cols in points(most_elements)
    ]
