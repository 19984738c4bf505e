"""Models of GPUs, one TOML each, and the lookup of any device by name.

A file `NAME.toml` in `data/`, or in the folder that FUSEWISE_DEVICE_DIR names, describes the device NAME. A
user's file replaces a shipped one of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Self

from fusewise import config
from fusewise.device.arch import ARCH_FILE, ARCH_SPECS, Arch, list_archs, load_arch
from fusewise.device.cpu import CpuModel, probe_cpu
from fusewise.device.figures import (
    Figure,
    FigureSpec,
    TomlFile,
    figures_of,
    read_toml,
    reject_unknown,
    table_of,
    text_of,
)
from fusewise.errors import DeviceDataError, UnknownName, UsageError

CPU_NAME = "cpu"


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """The figures of one GPU; `GPU_SPECS` says what each means. The last two must be measured."""

    sm_count: Figure
    boost_clock_mhz: Figure
    dram_bytes: Figure
    dram_bytes_per_s: Figure
    l2_bytes: Figure
    l2_bytes_per_s: Figure
    fp32_flops_per_s: Figure
    bf16_tensor_flops_per_s: Figure
    dram_latency_ns: Figure
    launch_us: Figure
    copy_bytes_per_s: Figure | None = None
    matmul_flops_per_s: Figure | None = None


GPU_SPECS: Mapping[str, FigureSpec] = {
    "sm_count": FigureSpec("multiprocessors", 1, 4096, whole=True),
    "boost_clock_mhz": FigureSpec("boost clock in MHz", 100, 10_000),
    "dram_bytes": FigureSpec("bytes of device memory", 1e9, 1e14, whole=True),
    "dram_bytes_per_s": FigureSpec("peak bytes a second of device memory", 1e9, 1e15),
    "l2_bytes": FigureSpec("bytes of last-level cache on the chip", 1e4, 1e10, whole=True),
    "l2_bytes_per_s": FigureSpec("peak bytes a second of that cache", 1e9, 1e16),
    "fp32_flops_per_s": FigureSpec("peak fp32 operations a second outside matrix units", 1e10, 1e17),
    "bf16_tensor_flops_per_s": FigureSpec("peak dense bf16 matrix operations a second", 1e10, 1e18),
    "dram_latency_ns": FigureSpec("nanoseconds of a load from device memory under load", 10, 100_000),
    "launch_us": FigureSpec("microseconds of an empty kernel", 0.01, 10_000),
    "copy_bytes_per_s": FigureSpec("measured bytes a second, read and written, of a copy", 1e9, 1e15, required=False),
    "matmul_flops_per_s": FigureSpec("measured bf16 operations a second of a matmul", 1e9, 1e18, required=False),
}


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One GPU: its figures, each with its source, and the limits of its architecture.

    Attributes:
        name: short name, as `load` takes it.
        title: full name of the product.
        arch: limits and rates of one multiprocessor.
        figures: the figures of the whole GPU.
        aliases: other names.
    """

    name: str
    title: str
    arch: Arch
    figures: GpuFigures
    aliases: tuple[str, ...] = ()

    @property
    def vendor(self) -> str:
        """ "nvidia" or "amd"."""
        return self.arch.vendor

    @property
    def calibration_key(self) -> str:
        """Under this name the calibrated figures of this device are stored."""
        return self.name

    def figure(self, key: str) -> Figure:
        """A figure of the GPU or of its architecture; unknown and unmeasured ones raise `UsageError`."""
        if key in ARCH_SPECS:
            return self.arch.figure(key)
        if key not in GPU_SPECS:
            raise UnknownName("figure", key, (*GPU_SPECS, *ARCH_SPECS))
        found: Figure | None = getattr(self.figures, key)
        if found is None:
            raise UsageError(f"{key} of {self.name} has not been measured.", "Run: fusewise device calibrate")
        return found

    def known_figures(self) -> dict[str, Figure]:
        """Every figure that is known, the GPU's first, then the architecture's."""
        own = {key: getattr(self.figures, key) for key in GPU_SPECS}
        known = {key: figure for key, figure in own.items() if figure is not None}
        return known | {key: self.arch.figure(key) for key in ARCH_SPECS}

    def with_figures(self, measured: Mapping[str, Figure]) -> Self:
        """The same device with some figures replaced."""
        return replace(self, figures=replace(self.figures, **measured))

    @property
    def sm_count(self) -> int:
        """Multiprocessors."""
        return int(self.figures.sm_count.value)

    @property
    def clock_hz(self) -> float:
        """Boost clock, in cycles a second."""
        return self.figures.boost_clock_mhz.value * 1e6

    @property
    def dram_bytes(self) -> int:
        """Bytes of device memory."""
        return int(self.figures.dram_bytes.value)

    @property
    def dram_bytes_per_s(self) -> float:
        """Peak rate of device memory, from the datasheet."""
        return self.figures.dram_bytes_per_s.value

    @property
    def l2_bytes(self) -> int:
        """Bytes of last-level cache."""
        return int(self.figures.l2_bytes.value)

    @property
    def l2_bytes_per_s(self) -> float:
        """Peak rate of the last-level cache."""
        return self.figures.l2_bytes_per_s.value

    @property
    def fp32_flops_per_s(self) -> float:
        """Peak fp32 rate outside matrix units; a fused multiply-add is two."""
        return self.figures.fp32_flops_per_s.value

    @property
    def bf16_tensor_flops_per_s(self) -> float:
        """Peak dense bf16 rate of the matrix units with fp32 accumulation."""
        return self.figures.bf16_tensor_flops_per_s.value

    @property
    def dram_latency_s(self) -> float:
        """Latency of a load from device memory under load, in seconds."""
        return self.figures.dram_latency_ns.value * 1e-9

    @property
    def launch_us(self) -> float:
        """Time of an empty kernel."""
        return self.figures.launch_us.value


DeviceModel = GpuModel | CpuModel


def load(name: str) -> DeviceModel:
    """The device of that name or alias; case, spaces, dashes and the vendor's name do not matter.

    "cpu" is this machine's processor, probed now. Figures are the datasheet's: see `calibration.calibrated`.

    Raises:
        UnknownName: no such device; the message offers the nearest.
        DeviceDataError: a device file is damaged.
    """
    wanted = _simplified(name)
    if wanted == CPU_NAME:
        return probe_cpu()
    models = _all_models()
    for model in models.values():
        if wanted in _keys_of(model):
            return model
    raise UnknownName("device", name, (*models, CPU_NAME))


def load_gpu(name: str) -> GpuModel:
    """As `load`, where only a GPU will do; "cpu" raises `UsageError`."""
    model = load(name)
    if isinstance(model, CpuModel):
        raise UsageError("cpu is not a GPU.", f"Name one of: {', '.join(_all_models())}")
    return model


def list_names() -> tuple[str, ...]:
    """Names that `load` knows, sorted, the CPU last."""
    return (*sorted(_all_models()), CPU_NAME)


def read_gpu(file: TomlFile) -> GpuModel:
    """The GPU that one TOML file describes; a missing or impossible figure raises `DeviceDataError`."""
    content = read_toml(file)
    where = file.name
    name = where.removesuffix(".toml")
    if name != _simplified(name) or name == CPU_NAME:
        raise DeviceDataError(
            f"{where}: the file's name must be the device's: lower-case letters and digits, not {CPU_NAME},"
            " without the vendor's name."
        )
    reject_unknown(content, ("title", "vendor", "arch", "aliases", "docs", "figures"), where)
    arch_name = text_of(content, "arch", where)
    if arch_name not in list_archs():
        known = ", ".join(list_archs())
        raise DeviceDataError(f"{where}: arch is {arch_name!r}, but must be one of {known}.")
    arch = load_arch(arch_name)
    vendor = text_of(content, "vendor", where)
    if vendor != arch.vendor:
        raise DeviceDataError(f"{where}: vendor is {vendor!r}, but {arch_name} is made by {arch.vendor!r}.")
    docs = table_of(content, "docs", where)
    found = figures_of(table_of(content, "figures", where), docs, GPU_SPECS, f"{where}: figures")
    model = GpuModel(
        name=name,
        title=text_of(content, "title", where),
        arch=arch,
        figures=GpuFigures(**found),
        aliases=_aliases_of(content, where),
    )
    _check_consistent(model, where)
    return model


def _aliases_of(content: Mapping[str, object], where: str) -> tuple[str, ...]:
    aliases = content.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise DeviceDataError(f"{where}: aliases is {aliases!r}, but must be a list of texts.")
    return tuple(aliases)


def _check_consistent(model: GpuModel, where: str) -> None:
    """Raise for figures that contradict each other: mostly a slip of a thousand."""
    at = f"{where}: figures"
    cycles = model.sm_count * model.clock_hz
    for key, least, most in (("fp32_flops_per_s", 16, 1024), ("bf16_tensor_flops_per_s", 16, 65536)):
        rate = model.figure(key).value / cycles
        if not least <= rate <= most:
            raise DeviceDataError(
                f"{at}.{key}: {model.figure(key).value:g} is {rate:.4g} operations a clock and SM,"
                f" but must be from {least} to {most}."
            )
    if model.l2_bytes_per_s < model.dram_bytes_per_s:
        raise DeviceDataError(
            f"{at}.l2_bytes_per_s: {model.l2_bytes_per_s:g} is below dram_bytes_per_s, {model.dram_bytes_per_s:g}."
        )


def _simplified(name: str) -> str:
    """A name without case, punctuation and the vendor's words: so the driver's name of a device is found."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "".join(word for word in words if word not in ("nvidia", "geforce", "amd", "instinct"))


def _keys_of(model: GpuModel) -> set[str]:
    return {_simplified(text) for text in (model.name, *model.aliases)}


def _all_models() -> dict[str, GpuModel]:
    """Every model by name: the user's first, so that their names and aliases win."""
    user = _user_models()
    return user | {name: model for name, model in _builtin_models().items() if name not in user}


@cache
def _builtin_models() -> dict[str, GpuModel]:
    return _read_all((files("fusewise.device") / "data").iterdir())


def _user_models() -> dict[str, GpuModel]:
    chosen = config.DEVICE_DIR.get()
    if not chosen:
        return {}
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise DeviceDataError(f"{config.DEVICE_DIR.name} names {chosen!r}, which is not a folder.")
    return _read_all(folder.iterdir())


def _read_all(entries: Iterable[TomlFile]) -> dict[str, GpuModel]:
    chosen = [entry for entry in entries if entry.name.endswith(".toml") and entry.name != ARCH_FILE]
    models: dict[str, GpuModel] = {}
    owner: dict[str, str] = {}
    for entry in sorted(chosen, key=lambda entry: entry.name):
        model = read_gpu(entry)
        for key in sorted(_keys_of(model)):
            if key in owner:
                raise DeviceDataError(f"{entry.name}: the name {key!r} already belongs to {owner[key]}.")
            owner[key] = entry.name
        models[model.name] = model
    return models
