"""What a report shows, as plain data: explanations and verifications, their JSON and their plain text.

Every class here becomes JSON by `as_dict` and nothing else is needed to read it back by eye.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fusewise.report.ways import HeldBackRow

EXPLANATION_SCHEMA = "fusewise-explanation/1"
VERIFICATION_SCHEMA = "fusewise-verification/1"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of the user's code; `line` is 0 where it is unknown."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class OccupancyStep:
    """A stretch of register counts, both ends included, over which as many blocks fit on one SM."""

    regs_from: int
    regs_to: int
    blocks_per_sm: int
    occupancy: float
    limiter: str


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What a compiled kernel takes.

    Attributes:
        source: `compiled` (read off the compiled kernel; occupancy follows from it), `modelled` where nothing could be
            compiled, or `unknown`; `note` then says why.
        regs_per_thread: registers a thread.
        spill_store_bytes, spill_load_bytes: bytes a thread that the compiler moved out of registers.
        shared_bytes: shared memory a block.
        threads_per_block: threads a block.
        blocks_per_sm: resident blocks on one SM.
        occupancy: resident warps / the most an SM can hold.
        limiter: what stops one more block.
        next_regs_down: registers a thread at or below which one more block fits; None: no count does that.
        next_regs_up: registers a thread from which one block fewer fits.
        staircase: occupancy against registers a thread, for this kernel's threads and shared memory.
        note: why nothing was compiled.
        maxnreg: most registers that the assembler was allowed; None: as many as it likes.
        shared_spill_bytes: the part of the shared memory that holds spilled registers.
    """

    source: str
    regs_per_thread: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    shared_bytes: int | None = None
    threads_per_block: int | None = None
    blocks_per_sm: int | None = None
    occupancy: float | None = None
    limiter: str | None = None
    next_regs_down: int | None = None
    next_regs_up: int | None = None
    staircase: tuple[OccupancyStep, ...] = ()
    note: str = ""
    maxnreg: int | None = None
    shared_spill_bytes: int = 0

    @property
    def is_known(self) -> bool:
        """True where there are figures, compiled or modelled."""
        return self.regs_per_thread is not None

    @property
    def spill_bytes(self) -> int | None:
        """Bytes a thread that are stored or loaded again; None where nothing was compiled."""
        if self.spill_store_bytes is None or self.spill_load_bytes is None:
            return None
        return self.spill_store_bytes + self.spill_load_bytes


@dataclass(frozen=True, slots=True)
class CpuUse:
    """What one call of a CPU kernel spends its time on; all of it is modelled.

    Attributes:
        memory_us, vector_us, registers_us, launch_us: bytes; vector instructions; values that no register holds, stored
            to level 1 and loaded again; starting the loop and its threads. The first two hide each other in part.
        level: what delivers its bytes: `L2`, `L3` or `DRAM`.
        busiest: class of instructions that takes most of vector_us.
        cores: cores that share it.
        live_registers, vector_registers: vector registers wanted at once, and those that there are.
        spill_bytes: stored and loaded again by all cores.
    """

    memory_us: float
    vector_us: float
    registers_us: float
    launch_us: float
    level: str
    busiest: str
    cores: int
    live_registers: int
    vector_registers: int
    spill_bytes: float


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One generated kernel.

    Attributes:
        name: its name in `fusewise show`.
        ops: the ATen ops that are fused in it, in program order.
        lines: the user's lines that they come from.
        unfused_bytes: bytes that one eager kernel an op moves.
        dram_bytes: bytes that this kernel moves.
        floor_us: the least time for those bytes, or of an empty kernel.
        predicted_us: modelled time.
        resources: of a GPU kernel; None for a CPU kernel.
        predicted_from: what the model went by: `compiled` (instructions and registers of the compiled kernel) or
            `modelled` (on a CPU its lowered instructions, else bytes and launches alone).
        bound_by: what the time goes to by a model of the compiled kernel, on a CPU of the lowered one; empty where
            there is none.
        members: names of the kernels that run side by side in this one launch; empty where there is but one.
        cpu: of a CPU kernel; None for a GPU kernel.
    """

    name: str
    ops: tuple[str, ...]
    lines: tuple[SourceLine, ...]
    unfused_bytes: int
    dram_bytes: int
    floor_us: float
    predicted_us: float
    resources: KernelResources | None = None
    predicted_from: str = "modelled"
    bound_by: str = ""
    members: tuple[str, ...] = ()
    cpu: CpuUse | None = None


@dataclass(frozen=True, slots=True)
class Wall:
    """One op that runs as PyTorch's own kernel.

    Attributes:
        name: the op, numbered where it stands several times.
        op: the ATen op.
        reason: why it is not generated.
        line: the user's line.
        dram_bytes: bytes of its operands and results.
    """

    name: str
    op: str
    reason: str
    line: SourceLine
    dram_bytes: int


@dataclass(frozen=True, slots=True)
class NotFused:
    """Two neighbours (one reads what the other writes, or both read the same) that are not one kernel.

    Attributes:
        first, second: names of kernels or walls.
        code: reason code.
        meaning: what the code means.
        detail: the particulars.
        bytes_between: bytes that pass between them through memory.
    """

    first: str
    second: str
    code: str
    meaning: str
    detail: str
    bytes_between: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What one or two kernels cost, as far as it is known.

    Attributes:
        predicted_us: time of all of them; None where it cannot be told.
        time_source: what the model of the time went by, as `KernelRow.predicted_from`.
        regs_per_thread: the most of any of them; None where they were not compiled.
        spill_bytes: bytes a thread that all of them spill and reload.
        occupancy: the least of any of them.
        resources_source: where registers, spills and occupancy come from: `compiled`, `modelled` or `unknown`.
    """

    predicted_us: float | None = None
    time_source: str = "modelled"
    regs_per_thread: int | None = None
    spill_bytes: int | None = None
    occupancy: float | None = None
    resources_source: str = "unknown"


@dataclass(frozen=True, slots=True)
class CandidateSide:
    """One side of a candidate fusion.

    Attributes:
        op: an ATen op that stands for it.
        line: the user's line of that op.
        nodes: graph nodes on this side when the candidate was tried.
        kernel: the kernel that holds that op in the finished plan; empty where its readers compute it.
    """

    op: str
    line: SourceLine
    nodes: int
    kernel: str


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One fusion that the planner thought of, taken or refused, in the order in which they were tried.

    Attributes:
        kind: `vertical`, `siblings`, `horizontal`, `inline`, `fission` (the split of a compiled kernel), or `launch`
            (kernels side by side in one launch).
        first, second: the two sides.
        taken: whether the fusion was made.
        code, meaning, detail: the reason.
        bytes_saved: bytes of device memory that it saves or would save; counted from shapes.
        gain_us: predicted time that it saves or would save; modelled.
        before, after: figures of the two kernels as they were, and of the one.
    """

    kind: str
    first: CandidateSide
    second: CandidateSide
    taken: bool
    code: str
    meaning: str
    detail: str
    bytes_saved: int
    gain_us: float
    before: Figures
    after: Figures


@dataclass(frozen=True, slots=True)
class AlternativeKernel:
    """A kernel of one of the two ways to run a pair: as two kernels or as one.

    Attributes:
        name: in the plan, or that it would have.
        ops: the ATen ops in it.
        dram_bytes: bytes that it moves; counted from shapes.
        predicted_us: modelled time.
        resources: of a GPU kernel, compiled for this answer; None for a CPU kernel.
        predicted_from: as `KernelRow.predicted_from`.
    """

    name: str
    ops: tuple[str, ...]
    dram_bytes: int
    predicted_us: float
    resources: KernelResources | None = None
    predicted_from: str = "modelled"


@dataclass(frozen=True, slots=True)
class Why:
    """Why two things of a program run as one kernel, or do not.

    Attributes:
        device, role: where.
        first, second: the kernels or walls that hold them.
        fused: whether they run as one.
        code, meaning, detail: the reason.
        bytes_saved, gain_us: of the fusion that was taken or refused; counted from shapes, and modelled.
        apart, together: both ways to run the pair, where they exist.
        whole: the kernel of the plan that `together` has grown to, where it is another.
        rate_source: where the memory rate of the modelled times comes from.
        held_back: those of these kernels that registers hold back.
    """

    device: str
    role: str
    first: str
    second: str
    fused: bool
    code: str
    meaning: str
    detail: str = ""
    bytes_saved: int = 0
    gain_us: float = 0.0
    apart: tuple[AlternativeKernel, ...] = ()
    together: AlternativeKernel | None = None
    whole: AlternativeKernel | None = None
    rate_source: str = ""
    held_back: tuple[HeldBackRow, ...] = ()


@dataclass(frozen=True, slots=True)
class FusionDifference:
    """Two calls that are one kernel on some devices and not on others.

    Attributes:
        role: of their graph.
        ops, lines: of the call that makes the value and of the one that reads it.
        fused_on: devices.
        apart_on: devices, and the reason code on each.
    """

    role: str
    ops: tuple[str, str]
    lines: tuple[SourceLine, SourceLine]
    fused_on: tuple[str, ...]
    apart_on: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """One graph: a forward, a backward, or an inference graph.

    Attributes:
        role: `forward`, `backward` or `inference`.
        kernels, walls: what runs.
        not_fused: every pair of neighbours that stayed apart.
        fusions: number of fusions that were taken.
        eager_reason: why the whole graph runs as eager PyTorch; empty where it does not.
        candidates: every fusion that was tried, taken or refused.
        held_back: kernels that registers hold back, with the ways that were weighed.
    """

    role: str
    kernels: tuple[KernelRow, ...]
    walls: tuple[Wall, ...]
    not_fused: tuple[NotFused, ...]
    fusions: int
    eager_reason: str = ""
    candidates: tuple[CandidateRow, ...] = ()
    held_back: tuple[HeldBackRow, ...] = ()


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """The plan for one device.

    Attributes:
        device: short name.
        title: full name.
        bytes_per_s: the memory rate that floors and predictions use.
        launch_us: cost of one more kernel.
        rate_source: where the rate comes from: `datasheet`, `calibrated` or `modelled`.
        graphs: in the order in which they run.
        notes: what a reader must know, such as a missing compiler.
    """

    device: str
    title: str
    bytes_per_s: float
    launch_us: float
    rate_source: str
    graphs: tuple[GraphPlan, ...]
    notes: tuple[str, ...] = ()

    @property
    def kernels(self) -> tuple[KernelRow, ...]:
        """The kernels of every graph."""
        return tuple(k for g in self.graphs for k in g.kernels)

    @property
    def walls(self) -> tuple[Wall, ...]:
        """The walls of every graph."""
        return tuple(w for g in self.graphs for w in g.walls)

    @property
    def fused_ops(self) -> int:
        """Ops inside generated kernels."""
        return sum(len(k.ops) for k in self.kernels)

    @property
    def unfused_bytes(self) -> int:
        """Bytes that eager moves for what is in generated kernels."""
        return sum(k.unfused_bytes for k in self.kernels)

    @property
    def dram_bytes(self) -> int:
        """Bytes that the generated kernels move."""
        return sum(k.dram_bytes for k in self.kernels)

    @property
    def floor_us(self) -> float:
        """Sum of the kernels' floors."""
        return sum(k.floor_us for k in self.kernels)

    @property
    def predicted_us(self) -> float:
        """Sum of the kernels' predicted times."""
        return sum(k.predicted_us for k in self.kernels)

    @property
    def most_regs(self) -> int | None:
        """Registers a thread of the kernel with most; None where none was compiled."""
        return max((k.resources.regs_per_thread or 0 for k in self._compiled if k.resources), default=None)

    @property
    def spill_bytes(self) -> int | None:
        """Bytes a thread that the kernels spill and load again; None where none was compiled."""
        spilled = [k.resources.spill_bytes or 0 for k in self._compiled if k.resources]
        return sum(spilled) if spilled else None

    @property
    def _compiled(self) -> tuple[KernelRow, ...]:
        return tuple(k for k in self.kernels if k.resources is not None and k.resources.source == "compiled")


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """A place where one graph ends and the next begins: what torch.compile says about it, and where."""

    reason: str
    line: SourceLine


@dataclass(frozen=True, slots=True)
class Explanation:
    """What Fusewise makes of a function, for one or several devices.

    Attributes:
        target: what was explained.
        policy: the policy of the plans.
        devices: one plan a device.
        graph_breaks: where the function falls apart into several graphs.
        differences: calls that are one kernel on some of the devices only.
        why: answers about pairs that were asked for.
    """

    target: str
    policy: str
    devices: tuple[DevicePlan, ...]
    graph_breaks: tuple[GraphBreak, ...] = ()
    differences: tuple[FusionDifference, ...] = ()
    why: tuple[Why, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the name of its schema."""
        return {"schema": EXPLANATION_SCHEMA, **asdict(self)}

    def to_json(self) -> str:
        """The same as JSON text."""
        return to_json(self.as_dict())

    def to_html(self) -> str:
        """A page that stands alone."""
        from fusewise.report.html import explanation_page

        return explanation_page(self)

    def __rich__(self) -> Any:
        from fusewise.report.terminal import render_explanation

        return render_explanation(self)

    def __str__(self) -> str:
        from fusewise.report.terminal import plain_text

        return plain_text(self.__rich__())


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element at which a result differs by more than it may.

    Attributes:
        index: its index.
        fused, eager, fp64: the three values as text.
        kernel: the kernel that wrote it; empty where it cannot be told.
    """

    index: tuple[int, ...]
    fused: str
    eager: str
    fp64: str
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class ResultCheck:
    """One result on one set of inputs.

    Attributes:
        inputs: name of the set of inputs.
        name: of the result: `output 0`, `gradient of x`, `x after the call`.
        dtype, shape: of the result.
        bit_equal: every bit is eager's (NaN equals NaN whatever its payload).
        max_ulp: largest distance to eager in units in the last place; None for a type that has none.
        error: relative error against fp64 (root mean square); None where there is no fp64 result.
        eager_error: eager's own.
        ok: within what the policy allows.
        rule: what was asked.
        difference: where it first fails.
    """

    inputs: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    bit_equal: bool
    max_ulp: int | None
    error: float | None
    eager_error: float | None
    ok: bool
    rule: str
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of a function as Fusewise runs it with eager PyTorch and with fp64.

    Attributes:
        target: what was verified.
        policy: the policy whose promise was checked.
        device: where it ran.
        checks: one a result and set of inputs.
        notes: how it was compared, and what was not.
        kernels: generated kernels that ran.
        eager_graphs: reasons of graphs that ran as eager.
        seed: of the inputs and of random ops.
    """

    target: str
    policy: str
    device: str
    checks: tuple[ResultCheck, ...]
    notes: tuple[str, ...] = ()
    kernels: int = 0
    eager_graphs: tuple[str, ...] = ()
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True where every result is within what the policy allows."""
        return all(c.ok for c in self.checks)

    @property
    def failures(self) -> tuple[ResultCheck, ...]:
        """The results that are not."""
        return tuple(c for c in self.checks if not c.ok)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the name of its schema."""
        return {"schema": VERIFICATION_SCHEMA, "ok": self.ok, **asdict(self)}

    def to_json(self) -> str:
        """The same as JSON text."""
        return to_json(self.as_dict())

    def __bool__(self) -> bool:
        return self.ok

    def __rich__(self) -> Any:
        from fusewise.report.terminal import render_verification

        return render_verification(self)

    def __str__(self) -> str:
        from fusewise.report.terminal import plain_text

        return plain_text(self.__rich__())


def to_json(document: Any) -> str:
    """JSON text of plain data; infinities and NaN, which JSON lacks, become text."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
