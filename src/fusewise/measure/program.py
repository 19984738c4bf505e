"""What the bench times: a plain PyTorch program, its inputs by size, the bytes and flops it cannot avoid."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from fusewise.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from fusewise.measure.bench import BenchCase

Direction = Literal["forward", "train"]
DIRECTIONS: tuple[str, ...] = get_args(Direction)

DTYPES: dict[str, torch.dtype] = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}

Function = Callable[..., Any]
Built = tuple[Function, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Case:
    """One program at one size.

    Attributes:
        size: the program's own size names, for example rows and cols.
        dtype: type of the floating inputs.
        device: "cpu" or "cuda", with an index if need be.
        direction: "forward" (without gradients) or "train" (forward, then backward with fixed gradients).
        dropout: probability that a program with dropout drops an element; 0 gives its deterministic part.
    """

    size: Mapping[str, int]
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    direction: Direction = "forward"
    dropout: float = 0.1

    @property
    def itemsize(self) -> int:
        """Bytes of one element of `dtype`."""
        return self.dtype.itemsize

    @property
    def train(self) -> bool:
        """True where the backward is timed too."""
        return self.direction == "train"


@dataclass(frozen=True, slots=True)
class Cost:
    """Memory traffic and matrix arithmetic of one case.

    Attributes:
        least_bytes: what a program that keeps every intermediate value on chip reads and writes.
        unfused_bytes: the sum over ATen operators of what each reads and writes once. A lower bound on
            eager's own traffic: an operator may run as several kernels.
        flops: multiply-adds of contractions, counted as two each; pointwise arithmetic is not counted.
        two_read_bytes: traffic where a row or group does not fit on chip and is read twice; None: it fits.
        hard_bytes: what no program can go below, where `least_bytes` allows for passes that a large enough
            chip could save; None: `least_bytes`.
    """

    least_bytes: int
    unfused_bytes: int
    flops: int = 0
    two_read_bytes: int | None = None
    hard_bytes: int | None = None

    @property
    def traffic_gain(self) -> float:
        """Unfused bytes / least bytes: what fusion can gain over a baseline that runs at copy rate itself."""
        return self.unfused_bytes / self.least_bytes


@dataclass(frozen=True, slots=True)
class DropoutProbe:
    """Shows which elements a program with one dropout kept.

    A mask depends on the seed and the position, not on the values: under one seed, `inputs` reveals the mask
    that the program also draws for its own arguments.

    Attributes:
        inputs: the program's arguments -> arguments of the same shapes for which `kept` can tell.
        kept: the program's output on them -> bool tensor, True where an element was kept.
    """

    inputs: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    kept: Callable[[Any], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Program:
    """A plain PyTorch program, as a user writes it, with its sizes and its bounds.

    Attributes:
        name: how the command line calls it.
        build: case -> function or module, and its arguments (those that need gradients ask for them).
        cost: case -> bytes and flops.
        sizes: "tiny" (tests), "small" (a CPU), "full" (a data-centre GPU).
        dtypes: names in `DTYPES`; the first is the default.
        directions: "forward", "train" or both.
        tags: "random" (has dropout), "inplace" (changes its arguments), "channels_last".
        peers: other implementations by name, case -> function of the same arguments; one that raises
            ImportError is not installed, or not for this device, and is left out.
        probe: for a program with one dropout.
        note: what a reader of the table should know.
    """

    name: str
    build: Callable[[Case], Built]
    cost: Callable[[Case], Cost]
    sizes: Mapping[str, Mapping[str, int]]
    dtypes: tuple[str, ...] = ("bf16", "fp32", "fp16")
    directions: tuple[Direction, ...] = ("forward",)
    tags: frozenset[str] = frozenset()
    peers: Mapping[str, Callable[[Case], Function]] = field(default_factory=dict)
    probe: DropoutProbe | None = None
    note: str = ""

    def case(self, size: str | Mapping[str, int], dtype: str, device: str = "cpu", direction: str = "forward") -> Case:
        """A case by names; raises `UnknownName` for a size, dtype or direction that the program lacks."""
        if isinstance(size, str):
            if size not in self.sizes:
                raise UnknownName(f"size of {self.name}", size, self.sizes)
            size = self.sizes[size]
        if dtype not in self.dtypes:
            raise UnknownName(f"dtype of {self.name}", dtype, self.dtypes)
        for known in self.directions:
            if known == direction:
                return Case(size, DTYPES[dtype], device, known)
        raise UnknownName(f"direction of {self.name}", direction, self.directions)

    def make(self, size: str | Mapping[str, int], dtype: str, device: str = "cpu", direction: str = "forward") -> Built:
        """The function or module and its arguments, with the same values at each call."""
        return self.build(self.case(size, dtype, device, direction))

    def least_bytes(self, size: str | Mapping[str, int], dtype: str, direction: str = "forward") -> int:
        """Bytes that a perfectly fused program reads and writes."""
        return self.cost(self.case(size, dtype, direction=direction)).least_bytes

    def unfused_bytes(self, size: str | Mapping[str, int], dtype: str, direction: str = "forward") -> int:
        """Bytes that the program's ATen operators read and write one by one."""
        return self.cost(self.case(size, dtype, direction=direction)).unfused_bytes

    def flops(self, size: str | Mapping[str, int], dtype: str, direction: str = "forward") -> int:
        """Floating-point operations of the contractions."""
        return self.cost(self.case(size, dtype, direction=direction)).flops


def load_catalogue(folder: Path | None = None) -> dict[str, Program]:
    """The programs of a `benchmarks` folder by name, in the catalogue's order.

    Args:
        folder: a folder that holds catalogue.py; None: in the working directory, then beside the sources.

    Raises:
        UsageError: there is no such folder.
    """
    programs: dict[str, Program] = _load("catalogue", folder).PROGRAMS
    return programs


def load_grid(folder: Path | None = None) -> Callable[..., list[BenchCase]]:
    """`grid_cases` of the grid.py of a `benchmarks` folder, which is found as `load_catalogue` finds it."""
    cases: Callable[..., list[BenchCase]] = _load("grid", folder).grid_cases
    return cases


def _load(name: str, folder: Path | None) -> ModuleType:
    beside_sources = Path(__file__).parents[3] / "benchmarks"
    candidates = [folder] if folder else [Path.cwd() / "benchmarks", beside_sources]
    for candidate in candidates:
        if (candidate / f"{name}.py").is_file():
            root = str(candidate.resolve().parent)
            if root not in sys.path:
                sys.path.insert(0, root)
            return importlib.import_module(f"{candidate.resolve().name}.{name}")
    raise UsageError(
        f"no benchmark {name} in {' or '.join(str(c) for c in candidates)}.",
        "Run this command in a checkout of Fusewise, which holds the folder benchmarks.",
    )


def select(programs: Mapping[str, Program], names: tuple[str, ...]) -> list[Program]:
    """The programs of these names, all of them for no names; raises `UnknownName` with the nearest ones."""
    for name in names:
        if name not in programs:
            raise UnknownName("program", name, programs)
    return [programs[name] for name in names] if names else list(programs.values())
