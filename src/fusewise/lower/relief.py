"""Ways to run a kernel that registers hold back, beside a split: each is compiled, and priced by the same cost model.

* A cap on its registers (`maxnreg`) at the next counts that let one more program reside. What does not fit is spilled.
* Spilling to shared memory: faster than the caches, but a program then takes more of it, which may cost occupancy.
* `setmaxnreg` moves registers between the warps of a program. Ours all do the same, so it is named and not tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fusewise.device.model import GpuModel
from fusewise.device.occupancy import occupancy
from fusewise.errors import FusewiseError
from fusewise.lower.kernel import TritonSchedule
from fusewise.lower.price import MUST_GAIN, Priced, Pricer
from fusewise.plan.decisions import Way
from fusewise.plan.plan import KernelStep, Plan
from fusewise.plan.schedule import schedule_text

CAPS = 3  # compiled at most
_TROUBLE = 1.3  # time / floor from which a kernel that waits for registers is looked at
_LEAST_CAP = 24  # registers below which a kernel of many values does nothing but spill

NO_COMPILER = "no compiler is here that could tell what it spills"
DYNAMIC = "its shared memory is asked for at the launch, beside which the assembler does not spill there"
ALIKE = "every warp of this kernel does the same and needs the same registers: none has any to give"


@dataclass(frozen=True, slots=True)
class Relief:
    """The ways of one kernel, the plain one first, and the one to take unless a split is faster."""

    ways: tuple[Way, ...]
    best: Priced
    best_name: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """What might help a kernel.

    Attributes:
        held_back: it spills, or waits for memory or issue slots while registers keep further programs away: relief.
        too_large: it spills, waits for memory because of registers, or its code is too long for the instruction cache,
            whatever limits its programs: a split. Parts would issue as many instructions, so that those are no reason.
    """

    held_back: bool
    too_large: bool


def trouble_of(priced: Priced) -> Trouble:
    """What might help a priced kernel; nothing where it was not compiled."""
    found = priced.prediction
    if priced.used is None or found is None:
        return Trouble(False, False)
    spills = priced.used.spill_load_bytes > 0
    starved = found.residency.limiter == "registers" and priced.time_us > _TROUBLE * priced.floor_us
    waits, computes = found.bound_by == "latency", found.bound_by == "compute"
    fetches = computes and found.busiest == "fetch"
    issues = computes and found.busiest == "issue"
    return Trouble(spills or (starved and (waits or fetches or issues)), spills or fetches or (starved and waits))


def relieve(plan: Plan, step: KernelStep, plain: Priced, pricer: Pricer) -> Relief:
    """Compiles and prices the ways that the device has.

    Args:
        plain: the kernel of the step as it was priced, `held_back`.
    """
    schedule = plain.kernel.schedule
    assert isinstance(schedule, TritonSchedule)
    search = _Search(plan, step, pricer, plain)
    search.add("plain", "plain", plain)
    if pricer.gpu.vendor != "nvidia":
        search.refuse("cap", "capped", "Triton has no cap on registers for this vendor's GPUs")
    elif not pricer.compiles:
        search.refuse("cap", "capped", NO_COMPILER)
    else:
        search.cap(schedule)
    search.spill_to_shared()
    if pricer.gpu.vendor == "nvidia" and float(pricer.gpu.arch.name) >= 9.0:
        search.refuse("setmaxnreg", "setmaxnreg", ALIKE)
    name = min(search.priced, key=lambda one: search.priced[one].time_us)
    if search.priced[name].time_us >= MUST_GAIN * plain.time_us:
        name = "plain"
    return Relief(tuple(search.ways), search.priced[name], name)


def register_caps(gpu: GpuModel, priced: Priced) -> list[int]:
    """The next counts of registers a thread, downwards, with which an SM holds more programs of a kernel."""
    assert priced.used is not None and priced.prediction is not None
    threads = priced.used.num_warps * gpu.arch.warp_size
    held = priced.prediction.residency
    found: list[int] = []
    while len(found) < CAPS and held.limiter == "registers" and (held.next_regs_down or 0) >= _LEAST_CAP:
        assert held.next_regs_down is not None
        found.append(held.next_regs_down)
        held = occupancy(gpu.arch, found[-1], priced.used.shared_bytes, threads)
    return found


def split_way(parts: Iterable[Priced]) -> Way:
    """The figures of a kernel split in two."""
    known = [way_of("split", "split in two", part) for part in parts]
    return Way(
        "split",
        "split in two",
        time_us=sum(way.time_us or 0.0 for way in known),
        regs_per_thread=max((way.regs_per_thread for way in known if way.regs_per_thread is not None), default=None),
        spill_bytes=sum(way.spill_bytes or 0 for way in known),
        occupancy=min((way.occupancy for way in known if way.occupancy is not None), default=None),
    )


def way_of(kind: str, name: str, priced: Priced) -> Way:
    """The figures of a priced kernel."""
    schedule = priced.kernel.schedule
    assert isinstance(schedule, TritonSchedule)
    way = Way(kind, name, time_us=priced.time_us, schedule=schedule_text(schedule))
    if priced.used is None or priced.prediction is None:
        return way
    return replace(
        way,
        regs_per_thread=priced.used.regs_per_thread,
        spill_bytes=priced.prediction.spill_bytes,
        occupancy=priced.prediction.residency.fraction,
        shared_spill_bytes=priced.used.shared_spill_bytes,
    )


@dataclass(slots=True)
class _Search:
    plan: Plan
    step: KernelStep
    pricer: Pricer
    plain: Priced
    ways: list[Way]
    priced: dict[str, Priced]

    def __init__(self, plan: Plan, step: KernelStep, pricer: Pricer, plain: Priced) -> None:
        self.plan, self.step, self.pricer, self.plain = plan, step, pricer, plain
        self.ways, self.priced = [], {}

    def add(self, kind: str, name: str, priced: Priced) -> None:
        self.ways.append(way_of(kind, name, priced))
        self.priced[name] = priced

    def refuse(self, kind: str, name: str, problem: str) -> None:
        self.ways.append(Way(kind, name, problem=problem))

    def cap(self, schedule: TritonSchedule) -> None:
        """A way for each cap; a tighter one spills more, so the first that loses by its spills is the last compiled."""
        caps = register_caps(self.pricer.gpu, self.plain)
        if not caps:
            self.refuse("cap", "capped", "fewer registers would let no further program reside")
        lost = ""
        for cap in caps:
            name = f"capped at {cap}"
            if lost:
                self.refuse("cap", name, f"not compiled: {lost} it spills and is no faster, and this spills more")
                continue
            fastest = min(priced.time_us for priced in self.priced.values())
            found = self._try("cap", name, replace(schedule, maxnreg=cap))
            if found is not None and _spills(found) > _spills(self.plain) and found.time_us >= fastest:
                lost = name

    def spill_to_shared(self) -> None:
        """The spills of the plain kernel, or where it has none those of the first cap, in shared memory."""
        base = next(((name, priced) for name, priced in self.priced.items() if _spills(priced)), None)
        if base is None:
            self.refuse("shared-spill", "spilled to shared memory", "nothing is spilled")
            return
        name = "spilled to shared memory" + ("" if base[0] == "plain" else f", {base[0]}")
        schedule, used = base[1].kernel.schedule, base[1].used
        assert isinstance(schedule, TritonSchedule) and used is not None
        if not self.pricer.compiles:
            self.refuse("shared-spill", name, NO_COMPILER)
        elif used.shared_bytes:
            self.refuse("shared-spill", name, DYNAMIC)
        else:
            self._try("shared-spill", name, replace(schedule, spill_to_shared=True))

    def _try(self, kind: str, name: str, schedule: TritonSchedule) -> Priced | None:
        kernel = replace(self.plain.kernel, schedule=schedule)
        try:
            found = self.pricer.price_kernel(self.plan, self.step, kernel)
        except FusewiseError as cause:
            self.refuse(kind, name, f"{cause.problem}. {cause.remedy}".strip())
            return None
        self.add(kind, name, found)
        return found


def _spills(priced: Priced) -> int:
    return 0 if priced.used is None else priced.used.spill_load_bytes
