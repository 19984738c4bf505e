"""What the lab asks of a machine, be it a GPU or this CPU: make a row ready, run it, time it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fusewise.lab.chain import Floats
from fusewise.lab.spec import Bounds, Settings, Spec
from fusewise.runtime.gpu_resources import Resources

Call = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """One row, ready to run.

    Attributes:
        call: starts the work.
        clear: fills with NaN all that the work has to write.
        result: waits for the work, then gives its `n` results.
        block: threads a block; 1 on a CPU.
        grid: blocks of each kernel; threads on a CPU.
        occ_blocks_per_sm: resident blocks by the driver's own call; None on a CPU.
        resources: what the compiled kernel uses; of two kernels the larger in registers; None on a CPU.
        shared_bytes: dynamic shared memory a block.
    """

    call: Call
    clear: Call
    result: Callable[[], Floats]
    block: int
    grid: int
    occ_blocks_per_sm: int | None = None
    resources: Resources | None = None
    shared_bytes: int = 0


class Backend(Protocol):
    """One machine.

    Attributes:
        name: short name for files, such as "h200" or "cpu".
        title: full name.
        bounds: what the plans need to know.
        fma: a stage rounds once, not twice.
    """

    name: str
    title: str
    bounds: Bounds
    fma: bool

    def prepare(self, spec: Spec, settings: Settings) -> Prepared:
        """A row ready to run; raises `UsageError` where it does not fit the machine."""
        ...

    def time_ms(self, call: Call) -> float:
        """Time of one run of the call, with everything that it starts."""
        ...

    def state(self) -> dict[str, str]:
        """Clocks, power limit, driver, load: as they are now."""
        ...

    def describe(self) -> dict[str, str]:
        """What does not change during a run: compilers and their versions."""
        ...
