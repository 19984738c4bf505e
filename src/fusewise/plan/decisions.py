"""Why two regions were fused or not: one record for each candidate."""

from __future__ import annotations

from dataclasses import dataclass

REASONS: dict[str, str] = {
    "saves-bytes": "the value between them stays on chip",
    "saves-launch": "small kernels run side by side in one launch",
    "saves-reads": "both read the same data, and now read it once",
    "recompute": "computing the value again costs less than storing and reading it",
    "domain": "they iterate over different axes",
    "index-map": "the consumer reads the value at other points than those where it is computed",
    "broadcast": "the producer would be computed again along an axis that it does not have",
    "reduce-axes": "they reduce over different axes",
    "axes": "their axes have no common refinement",
    "cycle": "a third kernel stands between them",
    "wall": "one of them runs as PyTorch's own kernel",
    "recompute-costs": "computing the value again costs more than storing and reading it",
    "no-gain": "the predicted time does not fall",
    "fuel": "the limit on the number of fusions is reached",
    "output": "the value leaves the graph and is stored anyway",
    "memory": "the values that it reads would wait for other kernels, and peak memory would pass eager's",
    "registers": "the fused kernel needs so many registers that its parts are faster",
    "blocks": "they want other thread blocks: of another size, or with accesses of another width",
    "full": "one launch takes no more parameters or code",
    "occupancy": "beside the others fewer of its thread blocks would be resident than it needs",
    "whole-is-faster": "the parts would move more bytes than the registers that they free save time",
}
"""Every reason code and its meaning."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a kernel that registers hold back.

    Attributes:
        kind: `plain`, `cap` (fewer registers a thread, which lets more programs reside), `shared-spill` (spills go to
            shared memory), `setmaxnreg` (registers move between the warps of a program), or `split` (two kernels).
        name: in words: `capped at 96`.
        taken: whether the kernel runs so.
        problem: why there is no such kernel, or why it was not compiled; empty where there are figures.
        time_us: predicted time; of a split of both kernels together.
        regs_per_thread, spill_bytes, occupancy: most, sum and least of the kernels.
        shared_spill_bytes: shared memory of a program that holds spilled registers.
        schedule: as the option `schedules` names it.
    """

    kind: str
    name: str
    taken: bool = False
    problem: str = ""
    time_us: float | None = None
    regs_per_thread: int | None = None
    spill_bytes: int | None = None
    occupancy: float | None = None
    shared_spill_bytes: int = 0
    schedule: str = ""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A kernel that registers hold back, and every way to run it.

    Attributes:
        kernel: its name in the plan in which it was found.
        nodes: the graph nodes that it computes.
        ways: the plain kernel first.
    """

    kernel: str
    nodes: tuple[int, ...]
    ways: tuple[Way, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One candidate fusion, taken or refused.

    Attributes:
        kind: `vertical` (producer into consumer), `siblings` (shared input), `horizontal` (same shape), `inline`
            (computed again in each reader), `fission` (one kernel split in two, by what its compiled code uses), or
            `launch` (kernels that stay kernels, side by side in one launch).
        producer, consumer: graph nodes that stand for the two sides.
        taken: whether the fusion was made.
        code: key of `REASONS`.
        detail: the particulars.
        bytes_saved: device-memory bytes that the fusion saves (or would save), by the hints.
        gain_us: predicted time saved (modelled).
    """

    kind: str
    producer: int
    consumer: int
    taken: bool
    code: str
    detail: str = ""
    bytes_saved: int = 0
    gain_us: float = 0.0

    def __post_init__(self) -> None:
        if self.code not in REASONS:
            raise ValueError(f"unknown reason code {self.code!r}")
