"""Which kernels run side by side in one launch: independent ones, of which small ones cost little but their launches.

Each does what it did alone, by the same instructions. Only a floating sum may be taken in another order, where the
compiler lays out tiles of one shape alike: policies that keep the order of sums have none in a kernel.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusewise.device.model import GpuModel
from fusewise.device.occupancy import occupancy
from fusewise.lower.kernel import Kernel, TritonSchedule
from fusewise.lower.launch import memory_of
from fusewise.lower.price import Priced
from fusewise.lower.registers import predict_resources
from fusewise.plan.cost import value_bytes
from fusewise.plan.decisions import Decision
from fusewise.plan.memory import allowed_bytes, peak_bytes
from fusewise.plan.plan import Bundle, KernelStep, OpaqueStep, Plan

MOST_PARAMETERS = 118  # of one launch: torch's launcher takes 120, of which two are Triton's own
MOST_MEMBERS = 32
MOST_INSTRUCTIONS = 2000  # of the kernel IR of all members, which are compiled as one: about 4 ms each


def bundle_kernels(
    plan: Plan, priced: Mapping[str, Priced], gpu: GpuModel, fuel: int | None = None, forced: bool = False
) -> Plan:
    """The plan with small independent kernels in common launches, and a decision for each one that might have been.

    Args:
        priced: the kernels, by name.
        fuel: the greatest number of fusions, those that the plan has included.
        forced: whether all that one launch can hold shares it, also what is predicted to be slower so.
    """
    return _Bundling(plan, priced, gpu, fuel, forced).run()


@dataclass(frozen=True, slots=True)
class _Member:
    """One kernel that may share a launch.

    Attributes:
        at: position of its step.
        programs: of its grid.
        regs, shared_bytes, threads: of a program.
        least_bytes: of an element of any buffer: how many of them are one access. Triton gives tiles of one shape in
            one function the same layout: where the best ones differ, a store goes through shared memory.
        busy_us: its time without the launch.
        moving_us: the part of it in which no other kernel could run beside it.
    """

    at: int
    step: KernelStep
    kernel: Kernel
    programs: int
    regs: int
    shared_bytes: int
    threads: int
    least_bytes: int
    busy_us: float
    moving_us: float


class _Bundling:
    def __init__(self, plan: Plan, priced: Mapping[str, Priced], gpu: GpuModel, fuel: int | None, forced: bool) -> None:
        self.plan = plan
        self.forced = forced
        self.gpu = gpu
        taken = sum(d.taken for d in plan.decisions if d.kind != "fission")
        self.fuel = None if fuel is None else max(0, fuel - taken)
        self.needs = _needs(plan.steps)
        self.before = _before(self.needs)
        self.bundles: list[list[_Member]] = []
        self.decisions: list[Decision] = []
        alone = self._peak_bytes(())
        self.allowed_bytes = max(alone, allowed_bytes(plan.graph))
        self.spare_bytes = self.allowed_bytes - alone
        steps = enumerate(plan.steps)
        known = [self._member(n, s, priced[s.name]) for n, s in steps if isinstance(s, KernelStep)]
        self.members = [m for m in known if m is not None]

    def run(self) -> Plan:
        refused: dict[int, Decision] = {}
        waiting = list(self.members)
        while waiting:
            group = [waiting.pop(0)]
            for member in list(waiting):
                if not self._is_independent(group, member):
                    continue
                code = self._refusal(group, member)
                decision = self._decision(group, member, code)
                if code == "saves-launch":
                    group.append(member)
                    waiting.remove(member)
                    self.decisions.append(decision)
                    self.fuel = None if self.fuel is None else self.fuel - 1
                else:
                    refused[member.at] = decision
            if len(group) > 1:
                self._close(group)
        inside = {m.at for group in self.bundles for m in group}
        self.decisions += [d for at, d in refused.items() if at not in inside]
        return self._planned()

    def _member(self, at: int, step: KernelStep, priced: Priced) -> _Member | None:
        """A kernel as a member; None where it runs nothing, and where what it has is a launch's own.

        That is loops, which are pipelined for a program alone, and options of the assembler.
        """
        kernel = priced.kernel
        schedule = kernel.schedule
        assert isinstance(schedule, TritonSchedule)
        if schedule.maxnreg is not None or schedule.spill_to_shared:
            return None
        if priced.work.loops or kernel.loop or any(isinstance(a.size, int) and a.size == 0 for a in kernel.parallel):
            return None
        used = priced.used or predict_resources(kernel, self.gpu.arch)
        busy_us = priced.time_us - self.gpu.launch_us
        return _Member(
            at=at,
            step=step,
            kernel=kernel,
            programs=priced.work.programs,
            regs=used.regs_per_thread,
            shared_bytes=used.shared_bytes,
            threads=schedule.num_warps * self.gpu.arch.warp_size,
            least_bytes=min(b.dtype.bytes for b in kernel.buffers),
            busy_us=busy_us,
            moving_us=priced.moved_us if priced.prediction is None else busy_us,
        )

    def _is_independent(self, group: Sequence[_Member], member: _Member) -> bool:
        """True where neither needs the other, not by way of other steps either."""
        inside = sum(1 << m.at for m in group)
        needed = 0
        for m in group:
            needed |= self.before[m.at]
        return not self.before[member.at] & inside and not needed >> member.at & 1

    def _refusal(self, group: Sequence[_Member], member: _Member) -> str:
        """Why a kernel cannot join; `saves-launch` where it does."""
        if self.fuel == 0:
            return "fuel"
        if (member.threads, member.least_bytes) != (group[0].threads, group[0].least_bytes):
            return "blocks"
        whole = [*group, member]
        pointers = {memory_of(b) for m in whole for b in m.kernel.buffers}
        parameters = len(pointers) + len({s for m in whole for s in m.kernel.sizes})
        instructions = sum(len(m.kernel.body) for m in whole)
        if len(whole) > MOST_MEMBERS or parameters > MOST_PARAMETERS or instructions > MOST_INSTRUCTIONS:
            return "full"
        if self.forced:
            return "saves-launch"
        regs, shared_bytes = max(m.regs for m in whole), max(m.shared_bytes for m in whole)
        if any(self._is_held_back(m, regs, shared_bytes) for m in whole):
            return "occupancy"
        if self._gain_us(group, member) <= 0:
            return "no-gain"
        return "saves-launch" if self._fits(whole) else "memory"

    def _is_held_back(self, member: _Member, regs: int, shared_bytes: int) -> bool:
        """True where what others take leaves fewer programs resident than the kernel has, and than it had alone."""
        arch = self.gpu.arch
        alone = occupancy(arch, member.regs, member.shared_bytes, member.threads).blocks_per_sm
        together = occupancy(arch, regs, shared_bytes, member.threads).blocks_per_sm
        return together < min(alone, -(-member.programs // self.gpu.sm_count))

    def _time_us(self, group: Sequence[_Member]) -> float:
        """One launch; the longest member, or all of them one after the other where each would fill the GPU."""
        return self.gpu.launch_us + max(max(m.busy_us for m in group), sum(m.moving_us for m in group))

    def _gain_us(self, group: Sequence[_Member], member: _Member) -> float:
        return self._time_us(group) + self._time_us([member]) - self._time_us([*group, member])

    def _decision(self, group: Sequence[_Member], member: _Member, code: str) -> Decision:
        first, joined = max(group[0].step.nodes), max(member.step.nodes)
        gain_us = self._gain_us(group, member)
        detail = f"{_listed(group)} and {member.step.name}"
        return Decision("launch", first, joined, code == "saves-launch", code, detail, 0, gain_us)

    def _fits(self, group: Sequence[_Member]) -> bool:
        """True where what the members make and keep waiting takes no more memory than a fusion may."""
        graph, hints = self.plan.graph, self.plan.graph.hints()
        touched = {v for m in group for values in _touched(m.step) for v in values}
        return (
            sum(value_bytes(graph, v, hints) for v in touched) <= self.spare_bytes
            or self._peak_bytes([*self.bundles, group]) <= self.allowed_bytes
        )

    def _close(self, group: list[_Member]) -> None:
        """Keeps a bundle: what needs one of its members now needs all that they need."""
        self.bundles.append(group)
        self.spare_bytes = self.allowed_bytes - self._peak_bytes(self.bundles)
        inside, needed = 0, 0
        for m in group:
            inside |= 1 << m.at
            needed |= self.before[m.at]
        for at, before in enumerate(self.before):
            if before & inside or inside >> at & 1:
                self.before[at] |= needed | (inside if before & inside else 0)

    def _peak_bytes(self, bundles: Sequence[Sequence[_Member]]) -> int:
        launches: list[tuple[list[int], list[int]]] = []
        for unit in self._order(bundles):
            steps = [self.plan.steps[at] for at in unit]
            over = {v for s in steps if isinstance(s, KernelStep) for v, _ in s.over}
            reads = [v for s in steps for v in _touched(s)[0]]
            launches.append((reads, [v for s in steps for v in _touched(s)[1] if v not in over]))
        return peak_bytes(self.plan.graph, launches, {p.base for p in self.plan.outputs})

    def _order(self, bundles: Sequence[Sequence[_Member]]) -> list[list[int]]:
        """Positions of the steps of each launch, launches in order: as before as far as the bundles allow."""
        units = [[m.at for m in group] for group in bundles]
        inside = {at for unit in units for at in unit}
        units += [[at] for at in range(len(self.plan.steps)) if at not in inside]
        unit_of = {at: n for n, unit in enumerate(units) for at in unit}
        needs = [{unit_of[b] for at in unit for b in self.needs[at]} for unit in units]
        after: list[list[int]] = [[] for _ in units]
        for n, needed in enumerate(needs):
            for other in needed:
                after[other].append(n)
        left = [len(needed) for needed in needs]
        ready = [(units[n][0], n) for n, count in enumerate(left) if not count]
        heapq.heapify(ready)
        order: list[list[int]] = []
        while ready:
            _, n = heapq.heappop(ready)
            order.append(units[n])
            for follower in after[n]:
                left[follower] -= 1
                if not left[follower]:
                    heapq.heappush(ready, (units[follower][0], follower))
        assert len(order) == len(units), "the bundles form a cycle"
        return order

    def _planned(self) -> Plan:
        steps = tuple(self.plan.steps[at] for unit in self._order(self.bundles) for at in unit)
        bundles = tuple(
            Bundle(_name(group), tuple(m.step.name for m in group), self._time_us(group)) for group in self.bundles
        )
        return replace(self.plan, steps=steps, bundles=bundles, decisions=(*self.plan.decisions, *self.decisions))


def _needs(steps: Sequence[KernelStep | OpaqueStep]) -> list[set[int]]:
    """For each step the positions of those that must come before it.

    They make what it reads, or read what it writes over; PyTorch's own ops stay in their order.
    """
    maker: dict[int, int] = {}
    readers: dict[int, set[int]] = {}
    needs: list[set[int]] = []
    wall: int | None = None
    for at, step in enumerate(steps):
        reads, writes = _touched(step)
        found = {maker[v] for v in reads if v in maker}
        if isinstance(step, KernelStep):
            found = found.union(*(readers.get(place, ()) for _, place in step.over))
        else:
            found |= set() if wall is None else {wall}
            wall = at
        for value in reads:
            readers.setdefault(value, set()).add(at)
        maker |= dict.fromkeys(writes, at)
        needs.append(found)
    return needs


def _touched(step: KernelStep | OpaqueStep) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(values that a step reads, values that it makes)."""
    if isinstance(step, KernelStep):
        return step.reads, step.writes
    return tuple(p.base for p in step.operands), step.results


def _before(needs: Sequence[set[int]]) -> list[int]:
    """For each step all that must come before it, as bits by position."""
    before: list[int] = []
    for needed in needs:
        bits = 0
        for at in needed:
            bits |= 1 << at | before[at]
        before.append(bits)
    return before


def _name(group: Sequence[_Member]) -> str:
    return f"{group[0].step.name}_and_{len(group) - 1}_more"


def _listed(group: Sequence[_Member]) -> str:
    return _name(group) if len(group) > 1 else group[0].step.name
