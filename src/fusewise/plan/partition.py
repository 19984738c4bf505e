"""Which nodes run together: a priority queue over the predicted gain of each merge, then recompute or store."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from fusewise.ir.graph import Graph
from fusewise.ir.indexing import At, operand_at, resolve
from fusewise.ir.sizes import hint
from fusewise.plan.cost import Machine, copied_us, value_bytes
from fusewise.plan.decisions import Decision
from fusewise.plan.gpu_schedule import REGISTERS
from fusewise.plan.region import CannotMerge, Region, columns_are_final, elements, merge, single
from fusewise.plan.region_cost import add_lanes, lanes_of, live_values, region_us

Cut: TypeAlias = tuple[frozenset[int], frozenset[int]]
"""Two sets of nodes that must not be in one kernel."""

FUSED_GROUPS = ("pointwise", "reduce", "random")
INLINE_GROUPS = ("source", "load")  # no arithmetic to speak of: made where they are needed
_SIBLING_LIMIT = 8  # readers of one value, the nearest ones, that each of them is tried with
_SMALL = 1 << 22  # points of the axes up to which a launch is a good part of a kernel's time
_LONGEST_WALK = 1 << 15  # elements that a GPU's program walks in about the time of a launch
_LONGEST_DETOUR = 8  # regions between two that are merged along with them
_NOISE = 0.08  # of a CPU kernel's predicted time
_ROUNDS = 4  # merging and recomputing open ways for each other; both stop by themselves well before


@dataclass(frozen=True, slots=True)
class Partition:
    """Regions by id, the values that they write to memory, and why.

    Attributes:
        regions: a region a kernel. A value that a region needs and that is neither native to it nor in memory is
            computed again in it.
        stored: values that are written to memory by the region that owns them.
        decisions: every candidate, taken or refused.
    """

    regions: dict[int, Region]
    stored: frozenset[int]
    decisions: tuple[Decision, ...]


@dataclass(slots=True)
class _Unit:
    """A region or a wall in the order of execution: bitsets over units of itself and of what runs after it."""

    mask: int
    reach: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a region computes: lanes by class, and the most values alive at once, or a bound that fits the registers."""

    lanes: Mapping[str, float]
    live: float


class Partitioner:
    """Merges the nodes of one graph into regions.

    Args:
        graph: what to partition.
        needed: values that must be in memory: outputs, and operands of opaque ops (ids of non-view nodes).
        machine: the device that the plan is for.
        fuel: the greatest number of fusions (None: no limit).
        frugal: refuse fusions by which more bytes wait for a PyTorch op than without them.
        apart: pairs of sets of nodes that no kernel may mix: its parts are faster than the whole.
    """

    def __init__(
        self,
        graph: Graph,
        needed: frozenset[int],
        machine: Machine,
        fuel: int | None = None,
        frugal: bool = False,
        apart: Sequence[Cut] = (),
    ) -> None:
        self.graph = graph
        self.needed = needed
        self.machine = machine
        self.fuel = fuel
        self.frugal = frugal
        self.apart = apart
        self.hints = graph.hints()
        self.decisions: list[Decision] = []
        self.regions: dict[int, Region] = {}
        self.owner: dict[int, int] = {}  # value -> region, or opaque node, that makes it
        self.units: dict[int, _Unit] = {}
        self.readers: dict[int, set[int]] = {}  # value -> regions and opaque nodes that read it
        self.version: dict[int, int] = {}
        self.counted: dict[int, _Counted] = {}

    def run(self) -> Partition:
        """Merges until nothing gains."""
        self._start()
        for _ in range(_ROUNDS):
            self._merge_all()
            if not self._inline_all():
                break
        stored = {v for v in self.needed if v in self.owner and self.owner[v] in self.regions}
        for region in self.regions.values():
            stored |= {v for v in region.reads if self.owner.get(v) in self.regions}
        return Partition(self.regions, frozenset(stored), tuple(self.decisions))

    # ---- one region a node

    def _start(self) -> None:
        for node in self.graph:
            group = node.info.group
            if group == "opaque":
                self.owner[node.id] = node.id if node.op == "opaque" else node.args[0]
            elif group in FUSED_GROUPS or (group in INLINE_GROUPS and node.op != "input" and node.id in self.needed):
                self.owner[node.id] = node.id
                self.regions[node.id] = single(self.graph, node)
        walls = [n.id for n in self.graph if n.op == "opaque"]
        for bit, unit in enumerate(sorted([*self.regions, *walls])):
            self.units[unit] = _Unit(1 << bit, 1 << bit)
        for number, region in self.regions.items():
            region.reads = self._free(region, region.reads)
            self._note_reads(number, region.reads)
        for wall in walls:
            self._note_reads(wall, {self.graph.root(a) for a in self.graph[wall].args})
        for unit in sorted(self.units, reverse=True):
            for after in self._next(unit):
                self.units[unit].reach |= self.units[after].reach
        self.version = dict.fromkeys(self.regions, 0)

    def _is_free(self, value: int) -> bool:
        return self.graph[value].op != "input" and value not in self.owner

    def _free(self, region: Region, reads: dict[int, list[At]]) -> dict[int, list[At]]:
        """`reads` with values that are made where they are needed replaced by what making them reads."""
        return self._leaves(region, ((v, at) for v, places in reads.items() for at in places), self._is_free)

    def _leaves(self, region: Region, items: Iterable[tuple[int, At]], opened: object) -> dict[int, list[At]]:
        """What is read to compute `items` where the values for which `opened` holds are computed again."""
        assert callable(opened)
        reads: dict[int, list[At]] = {}
        stack = list(items)
        seen = set(stack)
        while stack:
            value, at = stack.pop()
            if not opened(value):
                reads.setdefault(value, []).append(at)
                continue
            node = self.graph[value]
            for position, arg in enumerate(node.args):
                where = operand_at(self.graph, node, position, at, region.axes)
                item = resolve(self.graph, arg, where, region.axes)
                if item not in seen:
                    seen.add(item)
                    stack.append(item)
        return reads

    def _note_reads(self, unit: int, reads: Iterable[int]) -> None:
        for value in reads:
            self.readers.setdefault(value, set()).add(unit)

    def _next(self, unit: int) -> set[int]:
        """Units that read what `unit` makes."""
        if unit in self.regions:
            made: Iterable[int] = self.regions[unit].nodes
        else:
            made = [unit, *(n.id for n in self.graph.nodes[unit + 1 :] if n.op == "result" and n.args[0] == unit)]
        found: set[int] = set()
        for value in made:
            found |= self.readers.get(value, set())
        found.discard(unit)
        return found

    # ---- merging

    def _merge_all(self) -> None:
        queue: list[tuple[float, int, int, int, int, str]] = []
        seen: set[tuple[int, int, int, int]] = set()

        def push(number: int) -> None:
            for producer, consumer, kind in self._candidates(number):
                versions = self.version[producer], self.version[consumer]
                if (producer, consumer, *versions) not in seen:
                    seen.add((producer, consumer, *versions))
                    gain, _ = self._gain(producer, consumer)
                    heapq.heappush(queue, (-gain, producer, consumer, *versions, kind))

        for number in self.regions:
            push(number)
        while queue:
            _, producer, consumer, *versions, kind = heapq.heappop(queue)
            if [self.version.get(producer), self.version.get(consumer)] != versions:
                continue
            if self._try_merge(producer, consumer, kind):
                push(consumer)
                for reader in self._next(consumer):
                    # they now read what one kernel makes, and may run side by side
                    if reader in self.regions:
                        push(reader)

    def _try_merge(self, producer: int, consumer: int, kind: str) -> bool:
        gain, saved = self._gain(producer, consumer)

        def note(code: str, detail: str = "", taken: bool = False) -> bool:
            self.decisions.append(Decision(kind, producer, consumer, taken, code, detail, saved, gain))
            return taken

        if self.fuel is not None and sum(d.taken for d in self.decisions) >= self.fuel:
            return note("fuel")
        if self.frugal and self._keeps_more(producer, consumer, kind):
            return note("memory")
        between = self._between(producer, consumer, kind)
        if between is None or len(between) > _LONGEST_DETOUR:
            return note("cycle")
        try:
            shared = self._shared(producer, consumer) if kind == "siblings" else ()
            steps = self._merge_through(producer, [*between, consumer], shared)
        except CannotMerge as problem:
            return note("cycle" if between else problem.code, problem.detail)
        if self.machine.cpu is not None:
            gain, counted = self._gain_of_kernels([producer, *between, consumer], steps[-1][1])
            if gain <= 0:
                return note("no-gain")
        current = producer
        for number, merged in steps:
            self._replace(current, number, merged)
            current = number
        if self.machine.cpu is not None:
            self.counted[consumer] = counted
        return note({"vertical": "saves-bytes", "siblings": "saves-reads"}.get(kind, "saves-launch"), taken=True)

    def _keeps_more(self, producer: int, consumer: int, kind: str) -> bool:
        """True where the merged kernel keeps more bytes alive while a PyTorch op runs than the two apart."""
        if kind != "vertical":
            # side by side: what one of them makes waits until its own readers run
            return all(self._read_by_walls(number) for number in (producer, consumer))
        if not self._waits(producer, consumer):
            return False
        left, right = self.regions[producer], self.regions[consumer]
        early = self.units[producer]
        ends = [
            v
            for v in left.reads
            if v not in self.needed and all(u == producer or self.units[u].reach & early.mask for u in self.readers[v])
        ]
        between = [v for v in right.reads if v in left.at and v not in self.needed and self.readers[v] <= {consumer}]
        return sum(map(self._bytes, ends)) > sum(map(self._bytes, between))

    def _waits(self, early: int, late: int) -> bool:
        """True where a PyTorch op must run before `late` and need not before `early`.

        One that reads nothing, such as the draw of a seed, can run before both.
        """
        a, b = self.units[early].mask, self.units[late].mask
        return any(
            u not in self.regions and self.graph[u].args and w.reach & b and not w.reach & a
            for u, w in self.units.items()
        )

    def _read_by_walls(self, number: int) -> bool:
        return any(u not in self.regions for n in self.regions[number].nodes for u in self.readers.get(n, ()))

    def _between(self, producer: int, consumer: int, kind: str) -> list[int] | None:
        """Units that run after the one and before the other, in that order; None where a wall is among them."""
        a, b = self.units[producer], self.units[consumer]
        if kind != "vertical":
            return None if a.reach & b.mask or b.reach & a.mask else []
        if not any(self.units[u].reach & b.mask for u in self._next(producer) if u != consumer):
            return []
        found = [
            u
            for u, unit in self.units.items()
            if u not in (producer, consumer) and a.reach & unit.mask and unit.reach & b.mask
        ]
        return sorted(found, key=lambda u: max(self.regions[u].nodes)) if set(found) <= set(self.regions) else None

    def _merge_through(self, producer: int, chain: list[int], shared: Iterable[int]) -> list[tuple[int, Region]]:
        """The producer merged with each region of the chain in turn; all or nothing."""
        steps: list[tuple[int, Region]] = []
        region = self.regions[producer]
        for number in chain:
            region = merge(self.graph, region, self.regions[number], shared)
            if self._mixes(region.nodes):
                raise CannotMerge("registers", "the parts are predicted to be faster than the whole")
            self._refuse_long_walks(region)
            steps.append((number, region))
        return steps

    def _refuse_long_walks(self, region: Region) -> None:
        """`CannotMerge` for programs that would walk rows with more sums than registers, or too few for the device."""
        if self.machine.kind != "gpu" or not region.loop:
            return
        sizes = {name: max(1, hint(size, self.hints)) for name, size in region.axes.items()}
        row = prod(sizes[a] for a in region.reduce)
        if 2 * row * (1 + sum(map(region.is_column, region.operand))) > REGISTERS:
            raise CannotMerge("registers", "no multiprocessor holds two programs with a row of each sum over the rows")
        rows = prod(sizes[a] for a in region.loop)
        programs = prod(sizes.values()) // (rows * row)
        if programs * 2 < self.machine.units and rows * row > _LONGEST_WALK:
            raise CannotMerge("reduce-axes", f"{programs} programs would walk {rows} rows each")

    def _mixes(self, nodes: Iterable[int]) -> bool:
        """True where `nodes` has some of both sides of a cut."""
        return any(not a.isdisjoint(nodes) and not b.isdisjoint(nodes) for a, b in self.apart)

    def _candidates(self, number: int) -> list[tuple[int, int, str]]:
        """Pairs of regions with `number` in them that might be one."""
        region = self.regions[number]
        vertical: dict[tuple[int, int], None] = {}
        siblings: dict[tuple[int, int], None] = {}
        for value in region.reads:
            owner = self.owner.get(value)
            if owner in self.regions and owner is not None and owner != number:
                vertical[owner, number] = None
            if not self.graph[value].shape:
                continue
            others = [u for u in self.readers.get(value, ()) if u in self.regions and u != number]
            for other in sorted(others, key=lambda u: (abs(u - number), u))[:_SIBLING_LIMIT]:
                siblings[min(other, number), max(other, number)] = None
        for node in region.nodes:
            for reader in self.readers.get(node, ()):
                if reader in self.regions and reader != number:
                    vertical[number, reader] = None
        found = [(a, b, "vertical") for a, b in vertical]
        found += [(a, b, "siblings") for a, b in siblings if (a, b) not in vertical and (b, a) not in vertical]
        known = set(vertical) | set(siblings)
        found += [(a, b, "horizontal") for a, b in self._alongside(number) if not {(a, b), (b, a)} & known]
        return found

    def _alongside(self, number: int) -> list[tuple[int, int]]:
        """Small reductions that read what the same regions make, such as the last steps of a norm's two column sums."""

        def small(unit: int) -> bool:
            region = self.regions[unit]
            return bool(region.reduce) and elements(region, self.hints) <= _SMALL

        if not small(number):
            return []
        makers = {self.owner.get(v) for v in self.regions[number].reads}
        others = {u for m in makers if m in self.regions and m is not None for u in self._next(m)}
        return [
            (min(u, number), max(u, number)) for u in sorted(others) if u != number and u in self.regions and small(u)
        ]

    def _shared(self, a: int, b: int) -> list[int]:
        """Values that both read, largest first."""
        common = [v for v in self.regions[a].reads if v in self.regions[b].reads and self.graph[v].shape]
        return sorted(common, key=lambda v: -value_bytes(self.graph, v, self.hints))

    def _gain(self, producer: int, consumer: int) -> tuple[float, int]:
        """(predicted time saved in us, bytes saved) of merging two regions."""
        left, right = self.regions[producer], self.regions[consumer]
        saved = 0
        touched = sum(self._bytes(v) for r in (left, right) for v in r.reads) if self.machine.cpu else 0
        for value in right.reads:
            if value in left.at:
                saved += self._bytes(value)
                if value not in self.needed and self.readers[value] <= {consumer, producer}:
                    saved += self._bytes(value)
            elif value in left.reads:
                saved += self._bytes(value)
        return copied_us(self.machine, saved, touched) + self.machine.launch_us, saved

    def _gain_of_kernels(self, members: Sequence[int], merged: Region) -> tuple[float, _Counted]:
        """Predicted time saved in us where regions become one, and what the one is counted to compute.

        What one of them touches, the others find in the same cache.
        """
        assert self.machine.cpu is not None
        touched = sum(map(self._bytes, {v for m in members for v in (*self.regions[m].reads, *self._written(m))}))
        parts = {m: self._counted(m) for m in members}
        lanes: Counter[str] = Counter()
        for part in parts.values():
            lanes.update(part.lanes)
        live = sum(part.live for part in parts.values())
        if live > self.machine.cpu.figures.vector_registers.value:  # a bound: below, nothing is spilled
            live = live_values(self.graph, merged)
        counted = _Counted(lanes, live)
        before = sum(
            self._time(self.regions[m], self.regions[m].reads, touched=touched, counted=part)
            for m, part in parts.items()
        )
        after = self._time(merged, merged.reads, inside=frozenset(members), touched=touched, counted=counted)
        return before - after, counted

    def _counted(self, number: int) -> _Counted:
        if number not in self.counted:
            self.counted[number] = self._count(self.regions[number])
        return self.counted[number]

    def _count(self, region: Region) -> _Counted:
        live = live_values(self.graph, region) if self.machine.cpu is not None else 0.0
        return _Counted(lanes_of(self.machine, self.graph, region, self.hints), live)

    def _written(self, number: int) -> list[int]:
        return [n for n in self.regions[number].at if n in self.needed or self.readers.get(n)]

    def _bytes(self, value: int) -> int:
        return value_bytes(self.graph, value, self.hints)

    def _replace(self, producer: int, consumer: int, merged: Region) -> None:
        for number in (producer, consumer):
            for value in self.regions[number].reads:
                self.readers[value].discard(number)
        for node in self.regions[producer].nodes:
            self.owner[node] = consumer
        del self.regions[producer], self.version[producer]
        self.regions[consumer] = merged
        self.version[consumer] += 1
        self._note_reads(consumer, merged.reads)
        gone, unit = self.units.pop(producer), self.units[consumer]
        unit.mask |= gone.mask
        unit.reach |= gone.reach
        for other in self.units.values():
            if other.reach & unit.mask:
                other.reach |= unit.reach

    # ---- recompute or store

    def _inline_all(self) -> bool:
        """Computes values again in their readers where that saves time; True where anything changed."""
        changed = False
        for value in sorted(self.readers, reverse=True):
            owner = self.owner.get(value)
            readers = self.readers[value]
            if owner not in self.regions or owner is None or not readers or value in self.needed:
                continue
            if not all(r in self.regions for r in readers):
                continue
            region = self.regions[owner]
            for opened in self._closures(value, region):
                if self._try_inline(value, owner, sorted(readers), opened):
                    changed = True
                    break
        return changed

    def _closures(self, value: int, region: Region) -> list[set[int]]:
        """Ways to compute a value again: from what the region reads, or from its own operand where that is narrower."""
        found = [self._closure(value, region)]
        node = self.graph[value]
        if node.op == "cast" and self.graph[node.args[0]].dtype.bits < node.dtype.bits and found[0] != {value}:
            found.append({value})
        return found

    def _try_inline(self, value: int, owner: int, readers: list[int], opened: set[int]) -> bool:
        region = self.regions[owner]
        if any(self.graph[n].info.group == "reduce" for n in opened):
            return False
        if any(self._mixes([value, *self.regions[r].nodes]) for r in readers):
            return False
        changes: dict[int, dict[int, list[At]]] = {}
        for reader in readers:
            target = self.regions[reader]
            new = self._leaves(target, ((value, at) for at in target.reads[value]), opened.__contains__)
            new = self._free(target, new)
            own = [v for v in new if v in target.at]
            if any(place != target.at[v] for v in own for place in new[v]):
                return False  # the reader would need its own value at another point
            changes[reader] = {v: places for v, places in new.items() if v not in own}
            if own and target.loop:
                without = {v: places for v, places in target.reads.items() if v != value}
                if not columns_are_final(self.graph, replace(target, reads=without)):
                    return False
        # row values of the region that the readers then need in memory
        kept = {v for new in changes.values() for v in new if v in region.at}
        dissolved = not kept and not self._still_read(region, value)
        new_rows = {v for v in kept if v not in self.needed and not self.readers.get(v)}
        before = gain = self._time(region, region.reads)
        gain -= 0.0 if dissolved else self._time(region, region.reads, {value}, new_rows)
        saved = self._bytes(value) * (1 + len(readers))
        for reader, new in changes.items():
            target = self.regions[reader]
            points = elements(target, self.hints)
            times = sum(self._points(target, at) for at in target.reads[value])
            reads = {v: places for v, places in target.reads.items() if v != value} | new
            again = dict.fromkeys(opened, times)
            alone = self._time(target, target.reads)
            before += alone
            gain += alone - self._time(target, reads, again=again)
            saved -= sum(self._read_bytes(v, points) for v in new if v not in target.reads)
        saved -= sum(map(self._bytes, new_rows))

        def note(code: str, taken: bool) -> bool:
            self.decisions.append(Decision("inline", value, readers[0], taken, code, "", saved, gain))
            return taken

        # fewer bytes and kernels are certain: on a CPU storing must be predicted to gain more than the model's noise
        if gain <= (-_NOISE * before if self.machine.cpu else 0):
            return note("recompute-costs", False)
        if self.frugal and any(
            self._waits(owner, reader) and sum(map(self._bytes, new)) > self._bytes(value)
            for reader, new in changes.items()
        ):
            return note("memory", False)
        if self.fuel is not None and sum(d.taken for d in self.decisions) >= self.fuel:
            return note("fuel", False)
        for reader, new in changes.items():
            target = self.regions[reader]
            del target.reads[value]
            self.readers[value].discard(reader)
            for leaf, places in new.items():
                known = target.reads.setdefault(leaf, [])
                known.extend(p for p in places if p not in known)
            self._note_reads(reader, new)
            self.version[reader] += 1
        if dissolved:
            self._dissolve(owner)
        return note("recompute", True)

    def _points(self, region: Region, at: At) -> int:
        """How often a value that is read there is computed: once for the axes inside the last that it varies along."""
        varying = frozenset().union(*(index.axes() for index in at))
        points = passed = 1
        for name, size in region.axes.items():
            passed *= max(1, hint(size, self.hints))
            if name in varying:
                points = passed
        return points

    def _time(
        self,
        region: Region,
        reads: Iterable[int],
        without: Collection[int] = (),
        also: Collection[int] = (),
        again: Mapping[int, int] = MappingProxyType({}),
        inside: Set[int] = frozenset(),
        touched: int | None = None,
        counted: _Counted | None = None,
    ) -> float:
        """Predicted time of a region in us.

        Args:
            reads: values that it reads.
            without, also: values that it does not write, or writes as well, beside what it writes now.
            again: nodes that are computed beside its own, and at how many points.
            inside: regions that it stands for: a value that only they read is not written.
            touched: bytes that stand in the caches; None: its own.
            counted: what it computes, where that is known.
        """
        points = elements(region, self.hints)
        read_bytes = sum(self._read_bytes(v, points) for v in reads)
        writes = [self._bytes(v) for v in also]
        counted = counted or self._count(region)
        lanes = dict(counted.lanes)
        for node, number in again.items():
            add_lanes(lanes, self.machine, self.graph, node, number)
        for node in region.at:
            if node not in without and (node in self.needed or self.readers.get(node, set()) - inside):
                writes.append(self._bytes(node))
        return region_us(self.machine, self.graph, region, read_bytes, writes, lanes, counted.live, touched)

    def _read_bytes(self, value: int, points: int) -> int:
        return min(self._bytes(value), points * self.graph[value].dtype.bytes)

    def _closure(self, value: int, region: Region) -> set[int]:
        """Native nodes of the region that are computed again for `value`: back to row values and to what it reads."""
        full = self._axes_of(region, value)
        opened: set[int] = set()
        stack = [value]
        while stack:
            node = stack.pop()
            if node in opened or node not in region.at:
                continue
            if node != value and (node in self.needed or self._axes_of(region, node) < full):
                continue
            opened.add(node)
            stack.extend(self.graph.root(a) for a in self.graph[node].args)
        return opened

    def _axes_of(self, region: Region, node: int) -> frozenset[str]:
        return frozenset().union(*(i.axes() for i in region.at[node])) if region.at[node] else frozenset()

    def _still_read(self, region: Region, value: int) -> bool:
        """True where the region makes anything that is needed beside `value`."""
        return any(n in self.needed or (n != value and self.readers.get(n)) for n in region.nodes)

    def _dissolve(self, number: int) -> None:
        region = self.regions.pop(number)
        del self.version[number], self.units[number]
        for value in region.reads:
            self.readers[value].discard(number)
        for node in region.nodes:
            del self.owner[node]
