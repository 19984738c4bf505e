"""What one launch runs: a kernel, or several side by side of which each has a range of the grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from fusewise.lower.kernel import Buffer, Kernel
from fusewise.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class BundledKernel:
    """Kernels that are compiled as one and run side by side; they have `num_warps` in common.

    Attributes:
        name: a C identifier.
        members: in the order of their ranges of the grid.
    """

    name: str
    members: tuple[Kernel, ...]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every stretch of memory that the members read or write, once, under a name of its own."""
        found: dict[int, Buffer] = {}
        for member in self.members:
            for buffer in member.buffers:
                if memory_of(buffer) not in found:
                    found[memory_of(buffer)] = replace(buffer, name=f"{buffer.role}{len(found)}")
        return tuple(found.values())

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the sizes that any member takes."""
        return tuple(dict.fromkeys(name for member in self.members for name in member.sizes))


LaunchUnit: TypeAlias = Kernel | BundledKernel
"""What one launch runs."""


def memory_of(buffer: Buffer) -> int:
    """The graph node in whose memory a buffer lies."""
    return buffer.node if buffer.over is None else buffer.over


def members_of(unit: LaunchUnit) -> tuple[Kernel, ...]:
    """The kernels of a launch."""
    return unit.members if isinstance(unit, BundledKernel) else (unit,)


def launch_units(plan: Plan, kernels: Mapping[str, Kernel]) -> dict[str, LaunchUnit]:
    """What each launch of a plan runs, by the launch's name.

    Args:
        kernels: by the names of the plan's kernel steps.
    """
    found: dict[str, LaunchUnit] = {}
    for launch in plan.launches:
        members = tuple(kernels[step.name] for step in launch.steps)
        found[launch.name] = members[0] if len(members) == 1 else BundledKernel(launch.name, members)
    return found
