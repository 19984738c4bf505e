"""What one compiled GPU kernel uses, and what one launch of it does: the inputs of the cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

INSTRUCTION_BYTES = 16  # since cc 7.0


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of machine code: one loop, or everything outside of loops.

    Attributes:
        instructions: by class, counted as they stand, no-ops left out.
        load_bytes, store_bytes: of global memory that a thread asks for when it runs the section once.
        barriers: block barriers in it.
    """

    instructions: Mapping[str, int] = field(default_factory=dict)
    load_bytes: int = 0
    store_bytes: int = 0
    barriers: int = 0

    @property
    def total(self) -> int:
        """Instructions of every class."""
        return sum(self.instructions.values())


@dataclass(frozen=True, slots=True)
class Resources:
    """What one compiled kernel uses.

    Attributes:
        regs_per_thread: 32-bit registers (vector registers on AMD).
        spill_store_bytes, spill_load_bytes: bytes a thread spills and reloads (each place in the code counted once).
        stack_bytes: stack frame of a thread; a frame alone is no spill.
        shared_bytes: shared memory of a program.
        shared_spill_bytes: the part of it that holds spilled registers.
        num_warps: warps of a program.
        instructions: machine instructions by class, counted once each as they stand in the code; empty where unknown.
        instructions_per_element: executed instructions for each point of the tile; None where the code has loops.
        straight, loops: the code outside of loops, and each loop in the order of the code; empty where unknown.
    """

    regs_per_thread: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    num_warps: int
    instructions: Mapping[str, int] = field(default_factory=dict)
    instructions_per_element: float | None = None
    straight: Section = Section()
    loops: tuple[Section, ...] = ()
    shared_spill_bytes: int = 0

    @property
    def code_bytes(self) -> int:
        """Size of the machine code; 0 where unknown."""
        return INSTRUCTION_BYTES * sum(self.instructions.values())


@dataclass(frozen=True, slots=True)
class Turn:
    """Global memory that one program touches in one turn of a loop, or outside of loops.

    Attributes:
        turns: how often it runs.
        load_bytes, store_bytes: each time it runs, over all threads of the program.
    """

    turns: float
    load_bytes: float
    store_bytes: float


@dataclass(frozen=True, slots=True)
class Work:
    """What one launch of a kernel does, by the hints.

    Attributes:
        programs: thread blocks of the grid.
        straight: accesses outside of loops.
        loops: the loops of the kernel in the order of the code.
        pipelined: turns whose loads are in flight together (`num_stages`).
        read_share: for each graph node that is read the share of it that masks let through.
        near_bytes: of small tensors that all programs read alike, such as a norm's weight; no turn counts them.
        near_asked_bytes: what one program asks of them.
    """

    programs: int
    straight: Turn
    loops: tuple[Turn, ...]
    pipelined: int
    read_share: Mapping[int, float]
    near_bytes: float = 0.0
    near_asked_bytes: float = 0.0

    @property
    def access_bytes(self) -> float:
        """Bytes that all programs ask the last-level cache for, those of small tensors left out."""
        each = sum(t.turns * (t.load_bytes + t.store_bytes) for t in (self.straight, *self.loops))
        return self.programs * each
