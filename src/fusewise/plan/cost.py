"""What a kernel costs before it is generated: the machine as the planner sees it, and the time of a region.

On a CPU `cpu_cost` prices it. On a GPU, where the compiled kernel is priced later (`gpu_cost`), and for a machine of
which only rates are known: t = launch + max(bytes / copy rate, instructions / issue rate).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusewise.device.cpu import CpuModel
from fusewise.device.model import GpuModel
from fusewise.ir.graph import Graph
from fusewise.ir.sizes import hint
from fusewise.plan.cpu_cost import rate_of


@dataclass(frozen=True, slots=True)
class Machine:
    """The device that a plan is made for.

    Attributes:
        name: name of the device.
        kind: `gpu` or `cpu`.
        bytes_per_s: rate at which a copy kernel moves bytes, reads plus writes.
        launch_us: fixed cost of one more kernel.
        instructions_per_s: element instructions issued a second (lanes x units x clock).
        units: streaming multiprocessors or cores.
        cache_bytes: last-level cache.
        source: where the rates come from (`datasheet`, `calibrated`, `modelled`).
        compute_capability: of a GPU, for example 90; 0 for a CPU.
        gpu: every figure of a GPU, for the cost model of compiled kernels (`gpu_cost`).
        cpu: every figure of a CPU, a copy rate among them (`cpu_cost`).
    """

    name: str
    kind: str
    bytes_per_s: float
    launch_us: float
    instructions_per_s: float
    units: int
    cache_bytes: int
    source: str
    compute_capability: int = 0
    gpu: GpuModel | None = None
    cpu: CpuModel | None = None


def value_bytes(graph: Graph, node: int, hints: Mapping[str, int]) -> int:
    """Bytes of one value as stored, by the hints."""
    total = graph[node].dtype.bytes
    for size in graph[node].shape:
        total *= hint(size, hints)
    return total


def time_us(machine: Machine, dram_bytes: float, instructions: float, launches: int = 1) -> float:
    """Predicted time of `launches` kernels that together move and compute this much (modelled)."""
    memory = dram_bytes / machine.bytes_per_s * 1e6
    issue = instructions / machine.instructions_per_s * 1e6
    return launches * machine.launch_us + max(memory, issue)


def copied_us(machine: Machine, moved_bytes: float, touched_bytes: float) -> float:
    """Time to move bytes that stand in the caches among `touched_bytes`."""
    rate = machine.bytes_per_s if machine.cpu is None else rate_of(machine.cpu, touched_bytes)
    return moved_bytes / rate * 1e6
