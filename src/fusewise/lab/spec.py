"""What the lab measures: the settings, one spec a row, and which specs each verb of the lab runs together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from fusewise.errors import UsageError
from fusewise.lab import published
from fusewise.lab.chain import ELEMENT_BYTES, naive_passes, published_copies, published_passes

Verb = Literal["naive", "fused", "fat", "sweep", "modes", "phases"]
VERBS: tuple[Verb, ...] = ("naive", "fused", "fat", "sweep", "modes", "phases")

Kind = Literal[
    "naive",  # one kernel a stage, ping-pong buffers
    "naive_copies",  # the same with the copies that the published time holds
    "naive_graph",  # the same kernels without their launches: a CUDA Graph, or one parallel region on a CPU
    "fused",  # one kernel, the chain in registers
    "fat",  # fused, and `live` values that feed each other for each element
    "thin",  # the arithmetic of fat with 8 values at a time: what fat costs without its registers
    "hold",  # fused, and `live` values that only stay alive: what registers cost without arithmetic
    "fat_published",  # the published probe as it is described: also same-address atomics and a memset
    "phases_two",  # two kernels, the second of which needs the whole result of the first
    "phases_graph",  # the same two in a CUDA Graph
    "phases_one",  # one kernel with a barrier across the grid
]

MAX_K = 64
MIN_N, MAX_N, N_UNIT = 64, 1 << 31, 64
MIN_RUNS = 30
MIN_LIVE, MAX_LIVE, LIVE_UNIT = 8, 240, 8
MAX_BLOCK, WARP = 1024, 32
LAUNCH_BOUND_N = 4096
DEFAULT_K = 4
DEFAULT_N = published.N
DEFAULT_LIVE = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 240)
REGISTER_CAPS = (40, 64, 96, 128)
BUFFERS = 4  # input, two for ping-pong, output


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asks for; None: what suits the verb and the device.

    Attributes:
        n: elements, a multiple of 64.
        k: numbers of stages.
        block: threads a block, on a GPU.
        grid: blocks, on a GPU.
        runs, warmup: timed and untimed runs of each row.
        fat_temps: numbers of values that stay live, multiples of 8.
        published: the original's own protocol.
    """

    n: int | None = None
    k: tuple[int, ...] | None = None
    block: int | None = None
    grid: int | None = None
    runs: int = 50
    warmup: int = 10
    fat_temps: tuple[int, ...] | None = None
    published: bool = False

    def __post_init__(self) -> None:
        if self.n is not None and (not MIN_N <= self.n <= MAX_N or self.n % N_UNIT):
            raise UsageError(f"n is {self.n}, but must be a multiple of {N_UNIT} from {MIN_N} to {MAX_N}.")
        for k in self.k or ():
            if not 1 <= k <= MAX_K:
                raise UsageError(f"k is {k}, but must be from 1 to {MAX_K}.")
        if self.block is not None and (not WARP <= self.block <= MAX_BLOCK or self.block % WARP):
            raise UsageError(f"block is {self.block}, but must be a multiple of {WARP} from {WARP} to {MAX_BLOCK}.")
        if self.grid is not None and not 1 <= self.grid < 1 << 31:
            raise UsageError(f"grid is {self.grid}, but must be from 1 to {(1 << 31) - 1}.")
        if self.runs < MIN_RUNS:
            raise UsageError(f"runs is {self.runs}, but percentiles need at least {MIN_RUNS}.")
        if self.warmup < 1:
            raise UsageError(f"warmup is {self.warmup}, but must be at least 1: a first run loads code and memory.")
        for live in self.fat_temps or ():
            if not MIN_LIVE <= live <= MAX_LIVE or live % LIVE_UNIT:
                raise UsageError(
                    f"fat-temps is {live}, but must be a multiple of {LIVE_UNIT} from {MIN_LIVE} to {MAX_LIVE}."
                )
        if self.published:
            for name, value in (("n", self.n), ("k", self.k), ("block", self.block), ("fat-temps", self.fat_temps)):
                if value is not None:
                    raise UsageError(f"--published fixes --{name}: leave it out.")


@dataclass(frozen=True, slots=True)
class Spec:
    """One row to measure.

    Attributes:
        kind: see `Kind`.
        k: stages.
        n: elements.
        width: elements a memory access.
        live: values that stay live beside the chain's own; 0: none.
        blocks_per_sm: throttle residency to so many blocks by dynamic shared memory; 0: no throttle.
        max_regs: register cap of the compiler; 0: none.
        regime: "launch", "cache" or "memory" where the size was chosen to be bound so; empty where it was given.
    """

    kind: Kind
    k: int
    n: int
    width: int = 1
    live: int = 0
    blocks_per_sm: int = 0
    max_regs: int = 0
    regime: str = ""

    @property
    def tag(self) -> str:
        """The row's name in the CSV: the kind, then whatever is not usual about it."""
        parts: list[str] = [self.kind]
        if self.width > 1:
            parts.append(f"w{self.width}")
        if self.live:
            parts.append(f"t{self.live}")
        if self.blocks_per_sm:
            parts.append(f"occ{self.blocks_per_sm}")
        if self.max_regs:
            parts.append(f"r{self.max_regs}")
        return "_".join(parts)

    @property
    def passes(self) -> int:
        """Reads and writes of n elements, counted as pairs."""
        if self.kind == "naive_copies":
            return published_passes(self.k)
        if self.kind in ("naive", "naive_graph"):
            return naive_passes(self.k)
        return 2 if self.kind.startswith("phases") else 1

    @property
    def launches(self) -> int:
        """Kernels and copies that the host starts, a replayed graph counted once."""
        if self.kind == "naive":
            return self.k
        if self.kind == "naive_copies":
            return self.k + published_copies(self.k)
        return 2 if self.kind in ("phases_two", "fat_published") else 1

    @property
    def dram_bytes(self) -> int:
        """Bytes that the row must move where nothing stays in a cache."""
        return 2 * self.passes * self.n * ELEMENT_BYTES


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the plans need to know of a machine.

    Attributes:
        is_gpu: a GPU, or this CPU.
        cache_bytes: its last-level cache.
        widths: elements a memory access that are worth a row, narrowest first.
        max_blocks_per_sm: resident blocks of the fused kernel at the chosen block size; 1 on a CPU.
    """

    is_gpu: bool
    cache_bytes: int
    widths: tuple[int, ...]
    max_blocks_per_sm: int = 1

    @property
    def plain_width(self) -> int:
        """Elements an access of the rows that are not about it: one on a GPU, as published; a whole vector on a CPU."""
        return self.widths[0] if self.is_gpu else self.widths[-1]

    @property
    def naive_widths(self) -> tuple[int, ...]:
        """Elements an access of the naive rows, so that fused is not compared with narrower accesses only."""
        return tuple(dict.fromkeys((self.plain_width, self.widths[-1])))


Group = tuple[Spec, ...]
"""Rows that are timed in turns, so that a drift of the machine meets all of them alike."""


def sizes_of(bounds: Bounds) -> dict[str, int]:
    """The three sizes of a sweep.

    Launches bind at 4096 elements; the buffers of the second size fill at most half of the cache; one buffer of the
    third is at least four times as large as the cache.
    """
    cached = N_UNIT
    while 2 * BUFFERS * ELEMENT_BYTES * cached * 2 <= bounds.cache_bytes:
        cached *= 2
    large = N_UNIT
    while ELEMENT_BYTES * large < 4 * bounds.cache_bytes:
        large *= 2
    return {"launch": LAUNCH_BOUND_N, "cache": max(cached, 2 * LAUNCH_BOUND_N), "memory": min(large, MAX_N)}


def plan_of(verb: Verb, settings: Settings, bounds: Bounds) -> tuple[Group, ...]:
    """The groups of rows of one verb, in the order in which they run."""
    return _PLANS[verb](settings, bounds)


def _unfused(k: int, n: int, bounds: Bounds, regime: str = "") -> list[Spec]:
    """Naive and its replay at each width, and the form that was published."""
    kinds: tuple[Kind, ...] = ("naive", "naive_graph")
    rows = [Spec(kind, k, n, width, regime=regime) for kind in kinds for width in bounds.naive_widths]
    return [*rows, Spec("naive_copies", k, n, bounds.plain_width, regime=regime)]


def _naive(settings: Settings, bounds: Bounds) -> tuple[Group, ...]:
    n = settings.n or DEFAULT_N
    if settings.published:
        return ((Spec("naive_copies", DEFAULT_K, n, bounds.plain_width),),)
    return tuple(tuple(_unfused(k, n, bounds)) for k in settings.k or (DEFAULT_K,))


def _fused(settings: Settings, bounds: Bounds) -> tuple[Group, ...]:
    n = settings.n or DEFAULT_N
    widths = (bounds.plain_width,) if settings.published else bounds.widths
    return tuple(tuple(Spec("fused", k, n, width) for width in widths) for k in settings.k or (DEFAULT_K,))


def _sweep(settings: Settings, bounds: Bounds) -> tuple[Group, ...]:
    ks = settings.k or published.KS
    width = bounds.plain_width
    if settings.published:
        return tuple((Spec("naive_copies", k, published.N, width), Spec("fused", k, published.N, width)) for k in ks)
    sizes = {"": settings.n} if settings.n else sizes_of(bounds)
    return tuple(
        (*_unfused(k, n, bounds, regime), *(Spec("fused", k, n, w, regime=regime) for w in bounds.widths))
        for regime, n in sizes.items()
        for k in ks
    )


def _probes(k: int, n: int, live: int, bounds: Bounds) -> list[Spec]:
    """Fat, and what tells its registers from its arithmetic."""
    kinds: tuple[Kind, ...] = ("fat", "thin", "hold") if bounds.is_gpu else ("fat", "thin")
    return [Spec(kind, k, n, bounds.plain_width, live) for kind in kinds]


def _published_probe(kinds: tuple[Kind, ...], bounds: Bounds) -> Group:
    if not bounds.is_gpu:
        raise UsageError("the published probe uses a GPU's atomics.", "Leave --published out on a CPU.")
    rows = [Spec(kind, published.MODES_K, published.N) for kind in kinds]
    return (*rows, Spec("fat_published", published.MODES_K, published.N, live=published.FAT_TEMPS))


def _modes(settings: Settings, bounds: Bounds) -> tuple[Group, ...]:
    if settings.published:
        return (_published_probe(("naive_copies", "fused"), bounds),)
    n = settings.n or DEFAULT_N
    groups = []
    for k in settings.k or (published.MODES_K,):
        rows = _unfused(k, n, bounds) + [Spec("fused", k, n, width) for width in bounds.widths]
        for live in settings.fat_temps or (published.FAT_TEMPS,):
            rows += _probes(k, n, live, bounds)
        groups.append(tuple(rows))
    return tuple(groups)


def _fat(settings: Settings, bounds: Bounds) -> tuple[Group, ...]:
    if settings.published:
        return (_published_probe(("fused",), bounds),)
    n = settings.n or DEFAULT_N
    lives = settings.fat_temps or DEFAULT_LIVE
    groups: list[Group] = []
    for k in settings.k or (published.MODES_K,):
        base = Spec("fused", k, n, bounds.plain_width)
        groups += [(base, *_probes(k, n, live, bounds)) for live in lives]
        if bounds.is_gpu:
            blocks = range(1, bounds.max_blocks_per_sm + 1)
            groups += [tuple(Spec("fused", k, n, w, blocks_per_sm=b) for b in blocks) for w in bounds.naive_widths]
            capped = (Spec("fat", k, n, live=max(lives), max_regs=cap) for cap in REGISTER_CAPS if cap < max(lives))
            groups.append((Spec("fat", k, n, live=max(lives)), *capped))
    return tuple(groups)


def _phases(settings: Settings, bounds: Bounds) -> tuple[Group, ...]:
    if any(k < 2 for k in settings.k or ()):
        raise UsageError("k is 1, but two phases need at least 2 stages.")
    if settings.published:
        raise UsageError("the published protocol has no phases.", "Leave --published out, or run: fusewise lab sweep")
    sizes = {"": settings.n} if settings.n else sizes_of(bounds)
    kinds: tuple[Kind, ...] = ("phases_two", "phases_graph", "phases_one")
    if not bounds.is_gpu:
        kinds = ("phases_two", "phases_one")
    return tuple(
        tuple(Spec(kind, k, n, bounds.plain_width, regime=regime) for kind in kinds)
        for regime, n in sizes.items()
        for k in settings.k or (DEFAULT_K,)
    )


_PLANS: Mapping[Verb, Callable[[Settings, Bounds], tuple[Group, ...]]] = {
    "naive": _naive,
    "fused": _fused,
    "fat": _fat,
    "sweep": _sweep,
    "modes": _modes,
    "phases": _phases,
}
