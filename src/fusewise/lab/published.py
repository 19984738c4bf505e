"""The figures that were published for this experiment, and what a careful reading of them shows."""

from __future__ import annotations

from fusewise.lab.chain import published_passes

DEVICE = "RTX 5090"
N = 1 << 24
BLOCK = 256
KS = (2, 3, 4, 6, 8)
MODES_K = 4
FAT_TEMPS = 48

NAIVE_OVER_FUSED = {2: 3.87, 3: 3.99, 4: 5.87, 6: 7.94, 8: 9.81}
"""time(naive, with its copies) / time(fused) by k."""

FAT_OVER_FUSED = 8.01
"""time(fat) / time(fused) at k = 4; the blocks an SM fell from the first to the second of `FAT_OCCUPANCY`."""

FAT_OCCUPANCY = (6, 1)


def without_copies(k: int) -> float:
    """The published ratio at k with the copies' passes taken out: k passes of the published time of one."""
    return NAIVE_OVER_FUSED[k] * k / published_passes(k)
