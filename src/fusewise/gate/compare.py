"""What has become worse, and what better, from one plan to another of the same program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fusewise.gate.state import DeviceState, KernelState, PlanState

CHECK_SCHEMA = "fusewise-check/1"
TOOL_EFFECTS = {
    "fusewise": "the plan may differ for that reason alone",
    "torch": "the graphs may differ for that reason alone",
    "triton": "registers, spills and shared memory may differ for that reason alone",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One figure that is not what it was.

    Attributes:
        kind: `graph breaks`, `fallbacks`, `walls`, `kernels`, `bytes`, `registers` or `spills`.
        device: empty for graph breaks, which come before any device.
        what: the kernel that it is about; empty where it is about all.
        before, after: the figure.
        names: what is new, or gone.
    """

    kind: str
    device: str
    what: str
    before: int
    after: int
    names: tuple[str, ...] = ()

    @property
    def is_worse(self) -> bool:
        """True where the figure has risen: less of each is better."""
        return self.after > self.before


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every change, and what a reader must know about the tools."""

    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Change, ...]:
        """What is worse."""
        return tuple(c for c in self.changes if c.is_worse)

    @property
    def improvements(self) -> tuple[Change, ...]:
        """What is better."""
        return tuple(c for c in self.changes if not c.is_worse)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the name of its schema."""
        return {
            "schema": CHECK_SCHEMA,
            "ok": not self.findings,
            "findings": [asdict(c) for c in self.findings],
            "improvements": [asdict(c) for c in self.improvements],
            "notes": list(self.notes),
        }


def compare(before: PlanState, after: PlanState) -> Comparison:
    """What has changed between two plans for the same devices.

    A line of code may move or change and an op keep its place: walls and graph breaks are counted, by role and op. A
    kernel is known by its role and name; one that is new is held against those that are gone from its role.
    """
    changes = list(_breaks(before, after))
    known = {d.device: d for d in before.devices}
    for device in after.devices:
        old = known.get(device.device, DeviceState(device.device, ()))
        changes += _device(old, device)
    return Comparison(tuple(changes), tuple(_notes(before.toolchain, after.toolchain)))


def _breaks(before: PlanState, after: PlanState) -> Iterator[Change]:
    old, new = ([(b.code, f"{b.line} {b.code}: {b.reason}") for b in state.graph_breaks] for state in (before, after))
    yield from _counted("graph breaks", "", old, new)


def _device(old: DeviceState, new: DeviceState) -> Iterator[Change]:
    name = new.device
    yield from _counted("fallbacks", name, *([(f, f"{f[0]}: {f[1]}") for f in d.fallbacks] for d in (old, new)))
    for key in sorted({(role, w.op) for d in (old, new) for role, w in d.walls}):
        sides = (
            [(w.code, f"{role} {w.op} {w.line} {w.code}: {w.reason}") for role, w in d.walls if (role, w.op) == key]
            for d in (old, new)
        )
        yield from _counted("walls", name, *sides)
    yield from _counted("kernels", name, *([((r, k.name), f"{r} {k.name}") for r, k in d.kernels] for d in (old, new)))
    if old.dram_bytes != new.dram_bytes:
        yield Change("bytes", name, "", old.dram_bytes, new.dram_bytes)
    for role in dict.fromkeys(role for role, _ in new.kernels):
        yield from _resources(name, role, *([k for r, k in d.kernels if r == role] for d in (old, new)))


def _counted(
    kind: str, device: str, old: Sequence[tuple[Any, str]], new: Sequence[tuple[Any, str]]
) -> Iterator[Change]:
    """A change where there are more or fewer; it names those whose key is new, or gone."""
    if len(old) == len(new):
        return
    more, fewer = (new, old) if len(new) > len(old) else (old, new)
    left = Counter(key for key, _ in fewer)
    names = []
    for key, text in more:
        if left[key]:
            left[key] -= 1
        else:
            names.append(text)
    yield Change(kind, device, "", len(old), len(new), tuple(names))


def _resources(device: str, role: str, old: Iterable[KernelState], new: Iterable[KernelState]) -> Iterator[Change]:
    """Registers and spills of each kernel against the same one, or against the most of those that it replaces."""
    for kind, of in (("registers", _regs), ("spills", _spills)):
        before, after = _most(old, of), _most(new, of)
        gone = [amount for name, amount in before.items() if name not in after]
        for name, amount in after.items():
            if name not in before and not gone:
                continue  # one more kernel: that is said already
            was = before.get(name, max(gone, default=0))
            # what replaces another kernel and needs less shows nothing: it may do less
            if amount > was or (amount < was and name in before):
                yield Change(kind, device, f"{role} {name}", was, amount)


def _regs(kernel: KernelState) -> int:
    return kernel.regs_per_thread or 0


def _spills(kernel: KernelState) -> int:
    return kernel.spill_bytes or 0


def _most(kernels: Iterable[KernelState], of: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for kernel in kernels:
        found[kernel.name] = max(found.get(kernel.name, 0), of(kernel))
    return found


def _notes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for tool, effect in TOOL_EFFECTS.items():
        old, new = before.get(tool, "none"), after.get(tool, "none")
        if old != new:
            yield f"planned with {tool} {new}, saved with {tool} {old}: {effect}"
