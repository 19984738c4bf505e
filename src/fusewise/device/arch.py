"""Limits and rates of one multiprocessor by architecture, read from `data/compute_capabilities.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fusewise.device.figures import (
    Figure,
    FigureSpec,
    TomlFile,
    number_of,
    read_toml,
    reject_unknown,
    table_of,
    text_of,
)
from fusewise.errors import DeviceDataError, UnknownName

ARCH_FILE = "compute_capabilities.toml"


@dataclass(frozen=True, slots=True)
class Arch:
    """One multiprocessor (SM; compute unit on AMD): what a kernel can hold on it and how fast it issues.

    Registers are 32 bits wide, shared memory is in bytes, rates are lanes a clock and SM.

    Attributes:
        name: the compute capability ("9.0") or the gfx target ("gfx942").
        vendor: "nvidia" or "amd".
        doc: the document that the figures come from.
        warp_size: threads a warp.
        max_threads_per_block: largest block.
        max_threads_per_sm: most resident threads.
        max_blocks_per_sm: most resident blocks.
        registers_per_sm: registers, split evenly over `sub_partitions`.
        register_alloc_unit: a warp's registers are rounded up to this many.
        max_registers_per_thread: most registers that a thread can name.
        sub_partitions: parts of the SM with a scheduler and a register file each; a warp lives in one.
        shared_bytes_per_sm: most shared memory of all resident blocks, reserved bytes included.
        shared_bytes_per_block_max: most that one block can ask for (opt-in).
        shared_alloc_unit: a block's shared memory, reserved bytes included, is rounded up to this many bytes.
        shared_reserved_per_block: bytes that the driver takes in each block.
        block_barriers_per_sm: block barriers of the SM, or 0 where they do not limit residency.
        issue_lanes_per_sm: thread instructions issued a clock.
        int32_lanes_per_sm: int32 additions and comparisons a clock.
        int32_mul_lanes_per_sm: int32 multiplications a clock.
        sfu_lanes_per_sm: special functions (exp2, log2, rcp, rsqrt, sin, cos) a clock.
        shared_splits: sizes of shared memory an SM can be set to; the rest is L1 cache.
        unchecked: names of figures that could not be compared with `doc`.
    """

    name: str
    vendor: str
    doc: str
    warp_size: int
    max_threads_per_block: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    registers_per_sm: int
    register_alloc_unit: int
    max_registers_per_thread: int
    sub_partitions: int
    shared_bytes_per_sm: int
    shared_bytes_per_block_max: int
    shared_alloc_unit: int
    shared_reserved_per_block: int
    block_barriers_per_sm: int
    issue_lanes_per_sm: int
    int32_lanes_per_sm: int
    int32_mul_lanes_per_sm: int
    sfu_lanes_per_sm: int
    shared_splits: tuple[int, ...]
    unchecked: tuple[str, ...] = ()

    @property
    def max_warps_per_sm(self) -> int:
        """Most resident warps."""
        return self.max_threads_per_sm // self.warp_size

    def figure(self, key: str) -> Figure:
        """One number of the table with its source; an unknown key raises `UnknownName`."""
        if key not in ARCH_SPECS:
            raise UnknownName("figure", key, ARCH_SPECS)
        return Figure(getattr(self, key), "datasheet", self.doc, checked=key not in self.unchecked)


def _count(meaning: str, least: int, most: int) -> FigureSpec:
    return FigureSpec(meaning, least, most, whole=True)


ARCH_SPECS: Mapping[str, FigureSpec] = {
    "warp_size": _count("threads a warp", 16, 128),
    "max_threads_per_block": _count("largest block, in threads", 64, 4096),
    "max_threads_per_sm": _count("most resident threads an SM", 256, 8192),
    "max_blocks_per_sm": _count("most resident blocks an SM", 1, 256),
    "registers_per_sm": _count("32-bit registers an SM", 16384, 1 << 20),
    "register_alloc_unit": _count("registers to which a warp's are rounded up", 32, 4096),
    "max_registers_per_thread": _count("most registers a thread", 32, 1024),
    "sub_partitions": _count("sub-partitions an SM", 1, 16),
    "shared_bytes_per_sm": _count("bytes of shared memory an SM", 16384, 1 << 22),
    "shared_bytes_per_block_max": _count("most bytes of shared memory a block", 16384, 1 << 22),
    "shared_alloc_unit": _count("bytes to which a block's shared memory is rounded up", 1, 65536),
    "shared_reserved_per_block": _count("bytes of shared memory that the driver takes a block", 0, 65536),
    "block_barriers_per_sm": _count("block barriers an SM, 0 for no limit", 0, 1024),
    "issue_lanes_per_sm": _count("thread instructions issued a clock and SM", 16, 1024),
    "int32_lanes_per_sm": _count("int32 additions a clock and SM", 1, 1024),
    "int32_mul_lanes_per_sm": _count("int32 multiplications a clock and SM", 1, 1024),
    "sfu_lanes_per_sm": _count("special functions a clock and SM", 1, 1024),
}


def load_arch(name: str) -> Arch:
    """The limits of a compute capability ("9.0") or gfx target ("gfx942").

    Raises:
        UnknownName: no such architecture in the table.
        DeviceDataError: the table is damaged.
    """
    known = _builtin_archs()
    if name not in known:
        raise UnknownName("architecture", name, known)
    return known[name]


def list_archs() -> tuple[str, ...]:
    """Names of every architecture in the table."""
    return tuple(_builtin_archs())


@cache
def _builtin_archs() -> dict[str, Arch]:
    return read_archs(files("fusewise.device") / "data" / ARCH_FILE)


def read_archs(file: TomlFile) -> dict[str, Arch]:
    """Every architecture of a table file; a missing or impossible number raises `DeviceDataError`."""
    content = read_toml(file)
    return {name: _arch_of(name, table_of(content, name, file.name), file.name) for name in content}


def _arch_of(name: str, table: Mapping[str, object], file_name: str) -> Arch:
    where = f"{file_name}: [{name}]"
    reject_unknown(table, (*ARCH_SPECS, "vendor", "doc", "shared_splits", "unchecked"), where)
    numbers = {key: int(number_of(table, key, spec, where)) for key, spec in ARCH_SPECS.items()}
    arch = Arch(
        name=name,
        vendor=text_of(table, "vendor", where),
        doc=text_of(table, "doc", where),
        shared_splits=_splits_of(table, numbers["shared_bytes_per_sm"], where),
        unchecked=_unchecked_of(table, where),
        **numbers,
    )
    _check_consistent(arch, where)
    return arch


def _unchecked_of(table: Mapping[str, object], where: str) -> tuple[str, ...]:
    names = table.get("unchecked", [])
    if not isinstance(names, list) or not all(str(name) in ARCH_SPECS for name in names):
        raise DeviceDataError(f"{where}: unchecked is {names!r}, but must be a list of keys of this table.")
    return tuple(names)


def _splits_of(table: Mapping[str, object], largest: int, where: str) -> tuple[int, ...]:
    splits = table.get("shared_splits")
    wanted = "rising whole numbers that end with shared_bytes_per_sm"
    if not isinstance(splits, list) or not all(type(size) is int and size >= 0 for size in splits):
        raise DeviceDataError(f"{where}: shared_splits is {splits!r}, but must be {wanted}.")
    if splits != sorted(set(splits)) or not splits or splits[-1] != largest:
        raise DeviceDataError(f"{where}: shared_splits is {splits!r}, but must be {wanted}.")
    return tuple(splits)


def _check_consistent(arch: Arch, where: str) -> None:
    block_most = arch.shared_bytes_per_block_max + arch.shared_reserved_per_block
    if block_most > arch.shared_bytes_per_sm:
        raise DeviceDataError(
            f"{where}: shared_bytes_per_block_max is {arch.shared_bytes_per_block_max}, which with"
            f" {arch.shared_reserved_per_block} reserved bytes exceeds shared_bytes_per_sm,"
            f" {arch.shared_bytes_per_sm}."
        )
    if arch.registers_per_sm % (arch.sub_partitions * arch.register_alloc_unit):
        raise DeviceDataError(
            f"{where}: registers_per_sm is {arch.registers_per_sm}, but must be a multiple of"
            f" sub_partitions x register_alloc_unit, {arch.sub_partitions * arch.register_alloc_unit}."
        )
    if arch.register_alloc_unit % arch.warp_size or arch.max_threads_per_sm % arch.warp_size:
        raise DeviceDataError(
            f"{where}: register_alloc_unit and max_threads_per_sm must be multiples of warp_size, {arch.warp_size}."
        )
