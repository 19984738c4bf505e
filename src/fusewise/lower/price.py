"""Chooses a GPU kernel's schedule by what its finalists use once they are compiled, and predicts its time.

Compiling is somebody else's affair: a `Compile` comes from outside and may work for a GPU that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Lock

from fusewise.device.model import GpuModel
from fusewise.device.roofline import stream_bytes_per_s
from fusewise.ir.graph import Graph
from fusewise.lower.build import assemble, body_of, describe
from fusewise.lower.kernel import Kernel
from fusewise.lower.parallel import side_by_side
from fusewise.lower.registers import predict_resources
from fusewise.lower.work import work_of
from fusewise.plan.cost import value_bytes
from fusewise.plan.gpu_cost import Prediction, predict
from fusewise.plan.gpu_schedule import choose_gpu_schedule
from fusewise.plan.plan import KernelStep, Plan, read_bytes
from fusewise.plan.resources import Resources, Work

Compile = Callable[[Kernel], Resources]
"""Compiles a kernel for the planned GPU and says what it uses."""

FINALISTS = 3
GOOD_ENOUGH = 1.15  # time / floor up to which no other schedule is compiled
_WORTH_IT = 0.95  # of the first's time: the order of the schedules was measured, small predicted gains are noise
TOO_SMALL_US = 5.0  # beside the launch: nothing that a schedule could save
MUST_GAIN = 0.93  # of the time before, for what relieves or splits a kernel: predictions are not better than that


@dataclass(frozen=True, slots=True)
class Priced:
    """A kernel under the schedule that was chosen.

    Attributes:
        work: what one launch of it does.
        moved_us: its least bytes at the memory's rate.
        floor_us: launch, and that time, at least one round trip.
        used, prediction: None where it was not compiled.
    """

    kernel: Kernel
    work: Work
    moved_us: float
    used: Resources | None
    prediction: Prediction | None
    floor_us: float

    @property
    def fits(self) -> bool:
        """False where one multiprocessor has not the registers and shared memory that one program takes."""
        return self.prediction is None or self.prediction.residency.blocks_per_sm > 0

    @property
    def time_us(self) -> float:
        """Predicted time, the floor where nothing better is known."""
        return self.floor_us if self.prediction is None else self.prediction.time_us


class Pricer:
    """Builds and prices the kernels of plans for one GPU; what was compiled once is remembered.

    Args:
        compile_kernel: None: registers and instructions are modelled, and predictions say so.
    """

    def __init__(self, gpu: GpuModel, compile_kernel: Compile | None) -> None:
        self.gpu = gpu
        self._compile = compile_kernel
        self._known: dict[Kernel, Future[Resources]] = {}
        self._lock = Lock()

    @property
    def compiles(self) -> bool:
        """Whether kernels are compiled to be priced."""
        return self._compile is not None

    def price_all(self, plan: Plan, steps: Sequence[KernelStep]) -> list[Priced]:
        """The kernel of each step under the best of its finalists; several are compiled side by side."""
        if not self.compiles:
            return [self.price(plan, step) for step in steps]
        return side_by_side(lambda step: self.price(plan, step), steps)

    def price(self, plan: Plan, step: KernelStep) -> Priced:
        """The kernel of a step under the best of its finalists.

        Raises:
            CompilerMissing, CompileFailed: from the compiler.
        """
        axes, body = body_of(plan.graph, step.region, step.writes, plan.layouts, True, dict(step.over))
        hints = plan.graph.hints()
        best: Priced | None = None
        shape = describe(axes, body, hints)
        finalists = FINALISTS if self._compile else 1  # nothing but a compiler tells close ones apart
        for number, schedule in enumerate(choose_gpu_schedule(shape, self.gpu.sm_count)):
            if number >= finalists and best is not None and best.fits:
                break
            found = self.price_kernel(plan, step, assemble(step.name, axes, body, schedule, hints))
            if found.prediction is None:
                return found
            if best is None or (found.fits, -found.time_us) > (best.fits, -_WORTH_IT * best.time_us):
                best = found
            if best.fits and best.time_us <= GOOD_ENOUGH * found.floor_us:
                break
        assert best is not None, "choose_gpu_schedule gives at least one"
        return best

    def price_kernel(self, plan: Plan, step: KernelStep, kernel: Kernel) -> Priced:
        """One kernel of a step; not compiled where it is too small to matter."""
        work = work_of(kernel, plan.graph.hints())
        read, written = dram_bytes(plan.graph, step, work)
        moved_us, floor_us = self._moved_us(read + written), self.floor_us(read + written)
        if floor_us < self.gpu.launch_us + TOO_SMALL_US:
            return Priced(kernel, work, moved_us, None, None, floor_us)
        used = self._used(kernel)
        source = "compiled" if self._compile else "modelled"
        predicted = predict(self.gpu, work, used, read, written, source)
        return Priced(kernel, work, moved_us, used, predicted, floor_us)

    def floor_us(self, moved_bytes: float) -> float:
        """Launch, and the bytes at the memory's rate, at least one round trip."""
        return self.gpu.launch_us + max(self._moved_us(moved_bytes), self.gpu.dram_latency_s * 1e6)

    def _moved_us(self, moved_bytes: float) -> float:
        return moved_bytes / stream_bytes_per_s(self.gpu).value * 1e6

    def _used(self, kernel: Kernel) -> Resources:
        if self._compile is None:
            return predict_resources(kernel, self.gpu.arch)
        key = _nameless(kernel)
        with self._lock:
            is_first = key not in self._known
            known = self._known.setdefault(key, Future())
        if is_first:
            try:
                known.set_result(self._compile(kernel))
            except BaseException as error:
                known.set_exception(error)
        return known.result()


def _nameless(kernel: Kernel) -> Kernel:
    """The kernel without what its machine code does not depend on: its name, and which values its buffers hold."""
    buffers = tuple(replace(b, node=0, over=None if b.over is None else 0) for b in kernel.buffers)
    return replace(kernel, name="", buffers=buffers)


def dram_bytes(graph: Graph, step: KernelStep, work: Work) -> tuple[float, float]:
    """Least bytes of device memory that one launch reads and writes: what masks do not let through is not read."""
    hints = graph.hints()
    read = sum(read_bytes(graph, step.region, v, hints) * work.read_share.get(v, 1.0) for v in step.reads)
    return read, float(sum(value_bytes(graph, v, hints) for v in step.writes))
