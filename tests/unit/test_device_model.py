"""Device models: every shipped file, lookup by any name, a user's folder, and files with mistakes in them."""

from __future__ import annotations

import os
import tomllib
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

import pytest

from fusewise import config
from fusewise.device import CpuModel, GpuModel, list_names, load, load_gpu
from fusewise.device.arch import ARCH_FILE, ARCH_SPECS, Arch, list_archs, load_arch, read_archs
from fusewise.device.model import GPU_SPECS, GpuFigures, read_gpu
from fusewise.errors import DeviceDataError, UnknownName, UsageError

DATA = files("fusewise.device") / "data"
SHIPPED = ["a100", "b200", "h100", "h200", "l4", "l40s", "mi300x", "rtx4090", "rtx5090"]


@pytest.fixture(autouse=True)
def no_user_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(config.DEVICE_DIR.name, raising=False)


def write_gpu(folder: Path, name: str = "mine", *, old: str = "", new: str = "") -> Path:
    """A copy of h200.toml under another name and without its aliases, with one piece of text replaced."""
    text = (DATA / "h200.toml").read_text(encoding="utf-8")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("aliases")) + "\n"
    assert old in text
    path = folder / f"{name}.toml"
    path.write_text(text.replace(old, new, 1) if old else text, encoding="utf-8")
    return path


def test_all_devices_are_listed() -> None:
    assert list_names() == (*SHIPPED, "cpu")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_figure_has_its_source(name: str) -> None:
    model = load_gpu(name)
    known = model.known_figures()
    required = {key for key, spec in GPU_SPECS.items() if spec.required}
    assert set(known) == required | set(ARCH_SPECS)
    for key, figure in known.items():
        assert figure.doc, key
        # A document that nobody measured from cannot be a calibration.
        assert figure.source in ("datasheet", "probed", "modelled"), key


@pytest.mark.parametrize("name", SHIPPED)
def test_published_peaks_follow_from_the_figures(name: str) -> None:
    """fp32 peak = SMs x clock x lanes x 2: a wrong SM count, clock or peak shows here."""
    model = load_gpu(name)
    lanes = {"8.0": 64, "gfx942": 128}.get(model.arch.name, 128)
    assert model.fp32_flops_per_s == pytest.approx(model.sm_count * model.clock_hz * lanes * 2, rel=0.01)
    # Dense bf16 operations a clock and SM: tensor cores x multiply-adds x 2, at the clock they run at.
    per_clock = {"a100": 2048, "h100": 4096, "h200": 4096, "b200": 8192, "l4": 1024, "l40s": 1024}
    per_clock |= {"rtx4090": 512, "rtx5090": 512, "mi300x": 2048}
    clock = {"h100": 1830e6, "h200": 1830e6}.get(name, model.clock_hz)
    peak = model.sm_count * clock * per_clock[name]
    assert model.bf16_tensor_flops_per_s == pytest.approx(peak, rel=0.06)


def test_figures_and_numbers_agree() -> None:
    model = load_gpu("h200")
    assert (model.sm_count, model.vendor, model.arch.name) == (132, "nvidia", "9.0")
    assert model.dram_bytes_per_s == model.figure("dram_bytes_per_s").value == 4.8e12
    assert model.clock_hz == 1.98e9
    assert model.dram_bytes == 141_000_000_000
    assert model.launch_us == model.figure("launch_us").value
    assert model.dram_latency_s == pytest.approx(model.figure("dram_latency_ns").value * 1e-9)
    assert model.figure("registers_per_sm").value == 65536
    assert model.figure("l2_bytes").source == "probed"
    assert not model.figure("dram_latency_ns").checked
    with pytest.raises(UsageError, match="has not been measured"):
        model.figure("copy_bytes_per_s")
    with pytest.raises(UnknownName, match="dram_bytes"):
        model.figure("dram_byte")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("rtx 5090", "rtx5090"),
        ("RTX5090", "rtx5090"),
        ("NVIDIA GeForce RTX 5090", "rtx5090"),
        ("h200-sxm", "h200"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA L4", "l4"),
        ("nvidia l40s", "l40s"),
        ("4090", "rtx4090"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_other_spellings_are_found(written: str, name: str) -> None:
    assert load(written).name == name


def test_cpu_is_probed() -> None:
    assert isinstance(load("CPU"), CpuModel)
    with pytest.raises(UsageError, match="cpu is not a GPU"):
        load_gpu("cpu")


@pytest.mark.parametrize(("written", "near"), [("h20", "h200"), ("rtx 5091", "rtx5090"), ("l40", "l40s")])
def test_unknown_names_get_the_nearest(written: str, near: str) -> None:
    with pytest.raises(UnknownName) as caught:
        load(written)
    assert near in caught.value.near
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("written", ["", "NVIDIA A100-SXM4-40GB", "h100 nvl", "MI300A"])
def test_another_product_is_not_taken_for_a_known_one(written: str) -> None:
    with pytest.raises(UnknownName):
        load(written)


def test_models_can_be_keys() -> None:
    assert len({load_gpu("h200"), load_gpu("h200-sxm"), load_gpu("h100")}) == 2


def test_specs_cover_the_fields() -> None:
    assert {field.name for field in fields(GpuFigures)} == set(GPU_SPECS)
    assert {field.name for field in fields(Arch)} == {
        *ARCH_SPECS,
        "name",
        "vendor",
        "doc",
        "shared_splits",
        "unchecked",
    }


def test_user_folder_adds_and_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gpu(tmp_path, "mine", old='title = "NVIDIA H200 141GB SXM"', new='title = "Mine"')
    write_gpu(tmp_path, "h100", old='title = "NVIDIA H200 141GB SXM"', new='title = "Another H100"')
    (tmp_path / "notes.txt").write_text("not a device")
    monkeypatch.setenv(config.DEVICE_DIR.name, str(tmp_path))
    assert load_gpu("mine").title == "Mine"
    assert load_gpu("h100").title == "Another H100"
    assert load_gpu("h200").title == "NVIDIA H200 141GB SXM"
    assert list_names() == (*sorted([*SHIPPED, "mine"]), "cpu")


def test_user_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.DEVICE_DIR.name, str(tmp_path / "none"))
    with pytest.raises(DeviceDataError, match="FUSEWISE_DEVICE_DIR.*not a folder"):
        load("h200")


def test_one_name_for_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gpu(tmp_path, "mine", old='arch = "9.0"', new='arch = "9.0"\naliases = ["Yours"]')
    write_gpu(tmp_path, "yours")
    monkeypatch.setenv(config.DEVICE_DIR.name, str(tmp_path))
    with pytest.raises(DeviceDataError, match="yours.toml: the name 'yours' already belongs to mine.toml"):
        load("h200")


SM = 'sm_count = { value = 132, source = "datasheet", doc = "whitepaper" }'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SM, "", "figures: sm_count is missing; it must hold multiprocessors"),
        (SM, "sm_count = 132", "figures.sm_count: is 132, but must be a table"),
        ("value = 132,", "value = 0,", "figures.sm_count: value is 0, but must be a whole number from 1"),
        ("value = 132,", "value = 132.5,", "figures.sm_count: value is 132.5, but must be a whole number"),
        ("value = 132,", 'value = "132",', "figures.sm_count: value is '132', but must be a whole number"),
        ("value = 132,", "value = true,", "figures.sm_count: value is True, but must be a whole number"),
        ("value = 132,", "", "figures.sm_count: value is missing"),
        ("value = 4.8e12", "value = -4.8e12", "figures.dram_bytes_per_s: value is -4800000000000.0, but must"),
        ("value = 4.8e12", "value = nan", "figures.dram_bytes_per_s: value is nan, but must be a number"),
        ("value = 4.8e12", "value = inf", "figures.dram_bytes_per_s: value is inf, but must be a number"),
        ("value = 4.8e12", "value = 4.8", "figures.dram_bytes_per_s: value is 4.8, but must be a number"),
        ("value = 6.69e13", "value = 6.69e16", "figures.fp32_flops_per_s: 6.69e+16 is 2.56e+05 operations"),
        ("value = 9.894e14", "value = 9.894e17", "figures.bf16_tensor_flops_per_s: 9.894e+17 is"),
        ("value = 141000000000", "value = 141000000", "figures.dram_bytes: value is 141000000, but must"),
        ("value = 62914560", "value = 62914560000", "figures.l2_bytes: value is 62914560000, but must"),
        ("value = 1.01e13", "value = 1.01e12", "figures.l2_bytes_per_s: 1.01e+12 is below dram_bytes_per_s"),
        ('source = "datasheet"', 'source = "rumour"', "figures.sm_count: source is 'rumour', but must be one"),
        ('doc = "whitepaper"', 'doc = "paper"', "figures.sm_count: doc names 'paper', which is not a key"),
        (', doc = "whitepaper"', "", "figures.sm_count: doc is missing"),
        ("checked = false", 'checked = "no"', "checked is 'no', but must be true or false"),
        ("checked = false", "chekced = false", "chekced is not a key of this table; did you mean checked?"),
        ("sm_count =", "sm_counts =", "figures: sm_counts is not a key of this table; did you mean sm_count"),
        ('arch = "9.0"', 'arch = "9.1"', "arch is '9.1', but must be one of 8.0"),
        ('arch = "9.0"', "", "arch is missing"),
        ('vendor = "nvidia"', 'vendor = "amd"', "vendor is 'amd', but 9.0 is made by 'nvidia'"),
        ("title =", "tite =", "tite is not a key of this table; did you mean title?"),
        ('title = "NVIDIA H200 141GB SXM"', "title = 5", "title is 5, but must be a text"),
        ("[docs]", "[dogs]", "dogs is not a key of this table; did you mean docs?"),
        ('vendor = "nvidia"', 'vendor = "nvidia"\naliases = "x"', "aliases is 'x', but must be a list of"),
        ("[figures]", "[figures", "is not valid TOML"),
    ],
)
def test_one_clear_line_for_a_mistake(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = write_gpu(tmp_path, old=old, new=new)
    with pytest.raises(DeviceDataError) as caught:
        read_gpu(path)
    message = str(caught.value)
    assert message.startswith("mine.toml: ")
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["cpu", "Mine", "nvidia-x1", "my-gpu"])
def test_names_that_a_file_cannot_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(DeviceDataError, match="the file's name must be the device's"):
        read_gpu(write_gpu(tmp_path, name))


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DeviceDataError, match="mine.toml: cannot be read"):
        read_gpu(tmp_path / "mine.toml")
    with pytest.raises(DeviceDataError, match="gone.toml: cannot be read"):
        read_gpu(tmp_path / "gone.toml")


def test_architectures() -> None:
    assert list_archs() == ("8.0", "8.6", "8.9", "9.0", "10.0", "12.0", "gfx942")
    for name in list_archs():
        arch = load_arch(name)
        assert arch.max_warps_per_sm * arch.warp_size == arch.max_threads_per_sm
    assert load_arch("9.0").figure("warp_size").value == 32
    assert load_arch("gfx942").figure("warp_size").checked
    assert not load_arch("gfx942").figure("sfu_lanes_per_sm").checked
    with pytest.raises(UnknownName, match="9.0"):
        load_arch("9.1")
    with pytest.raises(UnknownName, match="warp_size"):
        load_arch("9.0").figure("warp_sizes")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("warp_size", None, "warp_size is missing"),
        ("warp_size", 33, "must be multiples of warp_size, 33"),
        ("max_blocks_per_sm", 0, "max_blocks_per_sm is 0, but must be a whole number from 1"),
        ("shared_bytes_per_block_max", 233472, "shared_bytes_per_block_max is 233472, which with 1024 reserved"),
        ("registers_per_sm", 65537, "registers_per_sm is 65537, but must be a multiple of"),
        ("shared_splits", [0, 8192], "shared_splits is [0, 8192], but must be rising"),
        ("shared_splits", [8192, 0, 233472], "but must be rising"),
        ("shared_splits", "all", "shared_splits is 'all', but must be rising"),
        ("unchecked", ["warps"], "unchecked is ['warps'], but must be a list of keys"),
        ("sfu", 16, "sfu is not a key of this table"),
    ],
)
def test_mistakes_in_an_architecture(key: str, value: object, said: str, tmp_path: Path) -> None:
    table = tomllib.loads((DATA / ARCH_FILE).read_text(encoding="utf-8"))["9.0"]
    table.pop(key, None)
    if value is not None:
        table[key] = value
    # A text and a list of numbers are written in TOML as in Python.
    lines = [f"{name} = {number!r}" for name, number in table.items()]
    (tmp_path / "archs.toml").write_text('["9.0"]\n' + "\n".join(lines))
    with pytest.raises(DeviceDataError) as caught:
        read_archs(tmp_path / "archs.toml")
    assert str(caught.value).startswith("archs.toml: [9.0]: ")
    assert said in str(caught.value)


def test_a_file_that_is_a_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir(tmp_path / "mine.toml")
    monkeypatch.setenv(config.DEVICE_DIR.name, str(tmp_path))
    with pytest.raises(DeviceDataError, match="mine.toml: cannot be read"):
        load("h200")


def test_shipped_files_are_read_as_they_are() -> None:
    names = {entry.name for entry in DATA.iterdir() if entry.name.endswith(".toml")}
    assert names == {f"{name}.toml" for name in SHIPPED} | {ARCH_FILE}
    for name in SHIPPED:
        assert isinstance(read_gpu(DATA / f"{name}.toml"), GpuModel)
