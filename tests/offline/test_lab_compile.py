"""The lab's kernels compiled for GPUs that are not there: as many registers as live values, and no spill."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("triton")

from fusewise.cli import app
from fusewise.device.model import load_gpu
from fusewise.errors import CompileFailed, CompilerMissing, UsageError
from fusewise.lab import compile as lab_compile
from fusewise.lab.compile import compile_row, parse_usage
from fusewise.lab.cuda_source import source_of
from fusewise.lab.offline import compile_modes, verdict_of
from fusewise.lab.spec import Settings, Spec

DEVICES = ("a100", "h200", "rtx5090")
nvrtc = lab_compile.core


@pytest.fixture(autouse=True)
def _with_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where NVRTC is here: most of these tests are about the PTX text."""
    lab_compile.compiler_name.cache_clear()
    monkeypatch.setattr(lab_compile, "core", lambda: None)


@pytest.mark.parametrize("device", DEVICES)
def test_fat_holds_its_values_in_registers(device: str) -> None:
    for live in (8, 48, 128, 240):
        used = compile_row(Spec("fat", 4, 4096, live=live), 256, load_gpu(device)).resources
        assert live + 6 <= used.regs_per_thread <= live + 16, (device, live)
        assert used.spill_store_bytes == used.spill_load_bytes == used.stack_bytes == 0


@pytest.mark.parametrize("device", DEVICES)
def test_hold_keeps_what_it_does_not_use(device: str) -> None:
    found = [compile_row(Spec("hold", 4, 4096, live=live), 256, load_gpu(device)).resources for live in (8, 48, 128)]
    assert all(used.regs_per_thread >= live for used, live in zip(found, (8, 48, 128), strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_thin_needs_as_many_registers_whatever_it_computes(device: str) -> None:
    model = load_gpu(device)
    found = {compile_row(Spec("thin", 4, 4096, live=live), 256, model).resources.regs_per_thread for live in (8, 240)}
    assert len(found) == 1 and found.pop() < 40


def test_a_register_cap_is_kept_and_spills() -> None:
    used = compile_row(Spec("fat", 4, 4096, live=240, max_regs=64), 256, load_gpu("h200")).resources
    assert used.regs_per_thread <= 64 and used.spill_store_bytes >= 4 * (240 - 64)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("kind", ["naive", "fused"])
def test_accesses_are_as_wide_as_the_row_says(kind: Any, width: int) -> None:
    from fusewise.lab.ptx_source import source_of as ptx_of

    text = ptx_of(Spec(kind, 8, 4096, width=width), 256, 90)
    infix = {1: "f32", 2: "v2.f32", 4: "v4.f32"}[width]
    assert text.count(f"ld.global.{infix} ") == text.count(f"st.global.{infix} ") == 1
    assert compile_row(Spec(kind, 8, 4096, width=width), 256, load_gpu("h200")).resources.spill_store_bytes == 0


def test_what_needs_nvrtc_says_so() -> None:
    with pytest.raises(CompilerMissing, match="needs NVRTC"):
        compile_row(Spec("phases_one", 4, 4096), 256, load_gpu("h200"))
    with pytest.raises(UsageError, match="gfx942"):
        compile_row(Spec("fused", 4, 4096), 256, load_gpu("mi300x"))
    with pytest.raises(CompileFailed, match="no resource usage"):
        parse_usage("nothing", 256)


@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("kind", ["phases_two", "phases_one", "fat_published", "fat"])
def test_nvrtc_says_what_a_kernel_uses(kind: Any, phase: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if nvrtc() is None:
        pytest.skip("cuda-core with NVRTC is not here")
    monkeypatch.setattr(lab_compile, "core", nvrtc)
    spec = Spec(kind, 4, 4096, live=48 if kind.startswith("fat") else 0, max_regs=40 if kind == "fat" else 0)
    found = [compile_row(spec, 256, load_gpu("h200"), phase) for _ in range(2)]
    assert found[0].cubin[:4] == b"\x7fELF" and found[0].resources == found[1].resources
    used = found[0].resources
    assert 8 <= used.regs_per_thread <= 64 and bool(used.spill_store_bytes) == (kind == "fat")


def test_without_any_compiler_one_line_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise CompilerMissing("triton is not installed")

    monkeypatch.setattr(lab_compile, "tool_path", missing)
    with pytest.raises(CompilerMissing, match="neither cuda-core with NVRTC nor Triton's ptxas"):
        compile_row(Spec("fused", 4, 4096), 256, load_gpu("h200"))


def test_modes_of_an_rtx_5090_show_the_published_cliff() -> None:
    found = compile_modes(load_gpu("rtx5090"), Settings(fat_temps=(48, 128)))
    blocks = {row.tag: row.blocks_per_sm for row in found.rows}
    assert blocks["fused"] == 6 and blocks["fat_t128"] == 1  # the published occupancy fell from 6 to 1
    assert found.compiler.startswith("ptxas 1") and "PTX text" in found.compiler
    assert verdict_of(found)[-1].startswith("Next: run `fusewise lab fat`")


def test_the_command_compiles_for_a_gpu_that_is_not_here() -> None:
    done = CliRunner().invoke(app, ["lab", "modes", "--device", "rtx5090", "--fat-temps", "48", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["schema"] == "fusewise-lab-compiled/1" and document["device"] == "rtx5090"
    assert {"naive", "fused", "fused_w4", "fat_t48"} <= {row["tag"] for row in document["rows"]}


@pytest.mark.parametrize("kind", ["naive", "fused", "fat", "thin", "hold", "fat_published", "phases_two", "phases_one"])
def test_cuda_and_ptx_say_the_same_of_a_chain(kind: Any) -> None:
    spec = Spec(kind, 4, 4096, live=48 if kind in ("fat", "thin", "hold", "fat_published") else 0)
    text = source_of(spec, 256)
    assert text.count("{") == text.count("}") and "lab_kernel(" in text and "__launch_bounds__(256)" in text
    assert "__launch_bounds__" not in source_of(Spec("fat", 4, 4096, live=48, max_regs=64), 256)
