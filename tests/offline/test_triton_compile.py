"""Each form of a Triton kernel compiled for GPUs that are not there: no spills, wide accesses, few detours."""

from __future__ import annotations

import ast
import math
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

from fusewise.codegen.triton import module
from fusewise.errors import CompileFailed
from fusewise.ir import sizes
from fusewise.ir.affine import axis
from fusewise.ir.dtypes import BF16, BOOL, F32, F64, I32, I64, DType
from fusewise.lower.kernel import Axis, Kernel, TritonSchedule
from fusewise.lower.launch import BundledKernel
from fusewise.runtime import triton_compile
from fusewise.runtime.gpu_resources import Resources, assemble, disassemble
from fusewise.runtime.sass import count_instructions, instruction_class
from fusewise.runtime.triton import GpuTarget, compile_kernel, load_module, resources
from tests.cpu.cpp_kernels import Make, at, loaded
from tests.triton_cases import softmax

ARCHS = [80, 90, 120]


def pointwise(dtype: DType, count: sizes.Size = 1 << 20, bits: int = 32) -> Kernel:
    """A chain of two inputs, 16 bytes an access."""
    m = Make("chain", [Axis("x0", count)], None)
    a, b = m.load("a", dtype, at(("x0", 1))), m.load("b", dtype, at(("x0", 1)))
    if dtype != F32:
        a, b = m.op("cast", a, dtype=F32), m.op("cast", b, dtype=F32)
    y = m.op("add", m.op("mul", m.op("maximum", a, b), a), m.const(0.3, F32))
    m.store("o", at(("x0", 1)), y if dtype == F32 else m.op("cast", y, dtype=dtype))
    schedule = TritonSchedule((), ("x0",), 1, 128 * (16 // dtype.bytes), 1, True, 4, index_bits=bits)
    return replace(m.done(), schedule=schedule)


def norm(dtype: DType, columns: int, schedule: TritonSchedule, dropout: bool = False) -> Kernel:
    """Residual (with dropout), then layer norm with a weight."""
    m = Make("norm", [Axis("x0", 8192), Axis("r0", columns, True)], None, schedule.persistent)
    place = axis("x0") * columns + axis("r0")

    def read(name: str, index: object) -> int:
        value = m.load(name, dtype, index)  # type: ignore[arg-type]
        return value if dtype == F32 else m.op("cast", value, dtype=F32)

    x = read("a", place)
    if dropout:
        keep = m.random("keep", m.load("s", I64, at()), place, 1, 0.9, BOOL)
        x = m.op("where", keep, m.op("mul", x, m.const(1 / 0.9, F32)), m.const(0.0, F32))
    x = m.op("add", x, read("b", place))
    count = m.const(float(columns), F32)
    centred = m.op("sub", x, m.op("div", m.reduce("sum", x), count))
    var = m.op("div", m.reduce("sum", m.op("mul", centred, centred)), count)
    y = m.op("mul", centred, m.op("rsqrt", m.op("add", var, m.const(1e-5, F32))))
    y = m.op("mul", y, read("w", axis("r0")))
    m.store("o", place, y if dtype == F32 else m.op("cast", y, dtype=dtype))
    return replace(m.done(), schedule=schedule)


def row(block: int, warps: int, x_block: int = 1, persistent: bool = True, stages: int = 1) -> TritonSchedule:
    return TritonSchedule((), ("x0",), 1, x_block, block, persistent, warps, stages)


def column(dtype: DType) -> Kernel:
    m = Make("column", [Axis("x0", 4096), Axis("r0", 4096, True)], None)
    x = m.load("a", dtype, at(("r0", 4096), ("x0", 1)))
    m.store("o", at(("x0", 1)), m.reduce("sum", x if dtype == F32 else m.op("cast", x, dtype=F32)))
    return replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 64, 32, False, 4))


def row_loop() -> Kernel:
    """Layer norm's backward: the gradient of a row, and sums over rows."""
    axes = [Axis("x0", 264), Axis("l0", 64, loop=True), Axis("r0", 4096, True)]
    m = Make("norm_backward", axes, None, True)
    number = axis("x0") * 64 + axis("l0")
    place = number * 4096 + axis("r0")
    g, x = (m.op("cast", m.load(n, BF16, place), dtype=F32) for n in "ga")
    w = m.op("cast", m.load("w", BF16, axis("r0")), dtype=F32)
    xhat = m.op("mul", m.op("sub", x, m.load("mean", F32, number)), m.load("rstd", F32, number))
    gw = m.op("mul", g, w)
    mean = m.op("mul", m.reduce("sum", gw), m.const(1 / 4096, F32))
    slope = m.op("mul", m.reduce("sum", m.op("mul", gw, xhat)), m.const(1 / 4096, F32))
    dx = m.op("sub", m.op("sub", gw, mean), m.op("mul", xhat, slope))
    m.store("dx", place, m.op("cast", dx, dtype=BF16))
    below = axis("x0") * 4096 + axis("r0")
    m.store("dw", below, m.reduce("sum", m.op("mul", g, xhat), over_loop=True))
    m.store("db", below, m.reduce("sum", g, over_loop=True))
    return replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1, 4096, True, 8, 2))


def transpose() -> Kernel:
    m = Make("transpose", [Axis("x0", 2048), Axis("x1", 2048)], None)
    a = m.load("a", BF16, at(("x1", 2048), ("x0", 1)))
    m.store("o", at(("x0", 2048), ("x1", 1)), a)
    return replace(m.done(), schedule=TritonSchedule(("x0",), ("x1",), 64, 64, 1, True, 8))


def embedding() -> Kernel:
    m = Make("embedding", [Axis("x0", 512), Axis("x1", 1024)], None)
    i = m.load("i", I64, at(("x0", 1)))
    m.check(m.op("and", m.op("ge", i, m.const(0, I64)), m.op("lt", i, m.const(50000, I64))))
    m.store("o", at(("x0", 1024), ("x1", 1)), m.load("w", BF16, loaded(i) * 1024 + axis("x1")))
    return replace(m.done(), schedule=TritonSchedule(("x0",), ("x1",), 1, 1024, 1, True, 4))


def argmax() -> Kernel:
    m = Make("argmax", [Axis("x0", 512), Axis("r0", 1000, True)], None)
    best = m.reduce("argmax", m.load("a", F32, at(("x0", 1000), ("r0", 1))), position=axis("r0"))
    m.store("o", at(("x0", 1)), best)
    return replace(m.done(), schedule=row(1024, 4))


FORMS: dict[str, tuple[Callable[[], Kernel], int]] = {  # and the most registers a thread
    "chain_bf16": (lambda: pointwise(BF16), 40),
    "chain_f32": (lambda: pointwise(F32), 32),
    "chain_64_bits": (lambda: pointwise(BF16, bits=64), 48),
    "softmax_bf16_1024": (lambda: replace(softmax(8192, 1024, BF16, True).done(), schedule=row(1024, 1)), 80),
    "softmax_bf16_4096": (lambda: replace(softmax(8192, 4096, BF16, True).done(), schedule=row(4096, 4)), 80),
    "softmax_f32_8192": (lambda: replace(softmax(8192, 8192, F32, True).done(), schedule=row(8192, 8)), 80),
    "softmax_bf16_32768": (lambda: replace(softmax(8192, 32768, BF16, True).done(), schedule=row(32768, 32)), 64),
    "softmax_short": (lambda: replace(softmax(8192, 100, BF16, True).done(), schedule=row(128, 4, 16)), 64),
    "softmax_long": (lambda: replace(softmax(64, 100003, BF16, False).done(), schedule=row(4096, 8, 1, False)), 96),
    "softmax_pipelined": (
        lambda: replace(softmax(64, 1 << 17, BF16, False).done(), schedule=row(4096, 8, 1, False, 3)),
        96,
    ),
    "norm_bf16_4096": (lambda: norm(BF16, 4096, row(4096, 4)), 96),
    "norm_f32_4096": (lambda: norm(F32, 4096, row(4096, 4)), 112),
    "norm_dropout": (lambda: norm(BF16, 4096, row(4096, 4), dropout=True), 96),
    "norm_odd": (lambda: norm(BF16, 1001, row(1024, 2), dropout=True), 128),
    "norm_backward": (row_loop, 136),
    "column_bf16": (lambda: column(BF16), 80),
    "column_f32": (lambda: column(F32), 80),
    "transpose": (transpose, 64),
    "embedding": (embedding, 64),
    "argmax": (argmax, 48),
}


def read(kernel: Kernel, arch: int, exact: bool = False, sass: bool = False) -> Resources:
    return resources(module([kernel], exact), [kernel], GpuTarget(arch), sass)[kernel.name]


def sass(kernel: Kernel, arch: int = 90, aligned: bool = True) -> str:
    return disassemble(compile_kernel(module([kernel], False), kernel, GpuTarget(arch), aligned).asm["cubin"])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("form", FORMS)
def test_form_compiles_without_spills(form: str, arch: int) -> None:
    make, most = FORMS[form]
    kernel = make()
    found = read(kernel, arch)
    assert found.spill_store_bytes == found.spill_load_bytes == 0
    assert 8 <= found.regs_per_thread <= most
    assert "st.global" in compile_kernel(module([kernel], False), kernel, GpuTarget(arch)).asm["ptx"]


@pytest.mark.parametrize("arch", ARCHS)
def test_instructions_are_counted_inside_and_outside_of_loops(arch: int) -> None:
    found = read(FORMS["softmax_long"][0](), arch, sass=True)
    assert found.loops and all(loop.instructions["global"] > 0 for loop in found.loops)
    assert found.instructions["global"] == sum(s.instructions.get("global", 0) for s in (found.straight, *found.loops))


@pytest.mark.parametrize("form", ["chain_bf16", "softmax_bf16_4096", "norm_f32_4096", "norm_dropout", "argmax"])
def test_exact_form_compiles(form: str) -> None:
    assert read(FORMS[form][0](), 90, exact=True).spill_store_bytes == 0


def test_compiles_for_blackwell_and_amd() -> None:
    kernel = FORMS["norm_dropout"][0]()
    assert read(kernel, 100).spill_store_bytes == 0
    amd = resources(module([kernel], False, "amd"), [kernel], GpuTarget("gfx942"), sass=False)[kernel.name]
    assert amd.spill_store_bytes == 0 and amd.regs_per_thread > 8


@pytest.mark.parametrize("dtype", [BF16, F32])
def test_accesses_are_16_bytes_wide(dtype: DType) -> None:
    n = sizes.symbol("s0")
    for kernel in [pointwise(dtype), pointwise(dtype, n), pointwise(dtype, n * 4096, bits=64)]:
        text = sass(kernel)
        accesses = re.findall(r"(?:LDG|STG)\.\S+", text)
        assert accesses and all("128" in a for a in accesses), accesses


def test_general_variant_takes_any_pointer() -> None:
    accesses = re.findall(r"(?:LDG|STG)\.\S+", sass(pointwise(BF16), aligned=False))
    assert accesses and not any("128" in a for a in accesses)


def test_one_call_of_philox_serves_eight_elements() -> None:
    plain, dropped = (count_instructions(sass(norm(BF16, 4096, row(4096, 4), dropout=d))) for d in (False, True))
    more = sum(dropped.values()) - sum(plain.values())
    assert more / 32 < 16  # 32 elements a thread; a call is about 80 instructions
    # the bits reach their elements in registers: no more shared memory than the reductions use
    assert dropped["shared"] == plain["shared"]


def test_rounding_and_16_bit_sums_are_packed() -> None:
    text = sass(norm(BF16, 4096, row(4096, 4)))
    assert "F2FP.BF16" in text and "F2F.BF16" not in text


@pytest.mark.parametrize("source", [I32, I64], ids=str)
def test_whole_numbers_become_bf16_by_way_of_f32_as_in_eager(source: DType) -> None:
    m = Make("whole", [Axis("x0", 4096)], None)
    m.store("o", at(("x0", 1)), m.op("cast", m.load("a", source, at(("x0", 1))), dtype=BF16))
    kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 512, 1, True, 4))
    ptx = compile_kernel(module([kernel], True), kernel, GpuTarget(90)).asm["ptx"]
    assert "cvt.rn.f32.s" in ptx and "cvt.rn.bf16.s" not in ptx


@pytest.mark.parametrize("target", [I32, I64], ids=str)
@pytest.mark.parametrize("source", [F32, F64, BF16], ids=str)
@pytest.mark.parametrize("value", [math.nan, math.inf, -1e30])
def test_the_gpu_converts_what_is_no_integer(value: float, source: DType, target: DType) -> None:
    """LLVM would store any number for the integer of a NaN that it knows."""
    m = Make("numbers", [Axis("x0", 4096)], None)
    m.store("o", at(("x0", 1)), m.op("cast", m.const(value, source), dtype=target))
    kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 512, 1, True, 4))
    for exact in (False, True):
        ptx = compile_kernel(module([kernel], exact), kernel, GpuTarget(90)).asm["ptx"]
        assert f"cvt.rzi.s{target.bits}.f{64 if source == F64 else 32}" in ptx


def test_instructions_per_element_are_known_without_a_loop() -> None:
    found = read(FORMS["softmax_bf16_4096"][0](), 90, sass=True)
    assert found.instructions_per_element is not None and 8 < found.instructions_per_element < 24
    assert read(FORMS["softmax_long"][0](), 90, sass=True).instructions_per_element is None


def test_spills_are_read() -> None:
    # one warp holds 256 elements of two rows a thread: they cannot stay in registers
    found = read(norm(F32, 8192, row(8192, 1)), 90)
    assert found.spill_store_bytes > 0 and found.stack_bytes > 0


def test_spills_are_read_of_the_code_that_runs() -> None:
    kernel = FORMS["norm_f32_4096"][0]()  # the assembler for cc 12.0 takes other registers for it by other options
    asm = compile_kernel(module([kernel], False), kernel, GpuTarget(120)).asm
    cubin, _ = assemble(asm["ptx"], 120)
    assert disassemble(cubin) == disassemble(asm["cubin"])


def test_a_kernel_that_triton_refuses_is_named() -> None:
    kernel = pointwise(F32)
    source = module([kernel], False).replace("tl.load(a + x)", "tl.load(a + nowhere)")
    with pytest.raises(CompileFailed, match="kernel chain: .*nowhere is not defined") as found:
        compile_kernel(source, kernel, GpuTarget(90))
    assert "tl.load(a + nowhere)" in str(found.value)  # and where


def test_sources_are_read_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython before 3.11.8 and 3.12.2 may fail in `ast.parse` where two threads are in it."""
    parse, inside, most = ast.parse, 0, 0

    def watched(*args: Any, **kwargs: Any) -> ast.AST:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.001)  # another thread's turn
        inside -= 1
        return parse(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", watched)
    # sizes of no other test: what is compiled already is not read again
    kernels = [pointwise(F32, count) for count in (4112, 8208, 16400, 32784)]
    with ThreadPoolExecutor(len(kernels)) as pool:
        list(pool.map(lambda kernel: compile_kernel(module([kernel], False), kernel, GpuTarget(90)), kernels))
    assert most == 1


@pytest.mark.parametrize(
    ("mnemonic", "name"),
    [
        ("LDG.E.128", "global"), ("STS.64", "shared"), ("LDL", "local"), ("IMAD.WIDE.U32", "integer"),
        ("FFMA.FTZ", "float"), ("HFMA2.MMA.BF16_V2", "float"), ("MUFU.EX2", "special"), ("UIADD3", "uniform"),
        ("F2FP.BF16.F32.PACK_AB", "convert"), ("FMNMX.NAN", "float"), ("SHFL.BFLY", "shuffle"), ("DFMA", "double"),
        ("BAR.SYNC.DEFER_BLOCKING", "control"), ("ISETP.GE.U32.AND", "integer"), ("HGMMA.64x64", "matrix"),
        ("LDC.64", "move"), ("PRMT", "integer"), ("LDGSTS.E.BYPASS.128", "global"),
    ],
)  # fmt: skip
def test_instruction_classes(mnemonic: str, name: str) -> None:
    assert instruction_class(mnemonic) == name


def test_a_cache_folder_that_cannot_be_written_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(blocked))
    kernel = replace(pointwise(F32, 1 << 18), name="elsewhere")
    assert compile_kernel(module([kernel], False), kernel, GpuTarget(90)).metadata.name == "elsewhere"


def test_a_damaged_file_of_the_cache_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path))
    kernel = replace(pointwise(F32, 1 << 18), name="damaged")
    source = module([kernel], False)
    load_module(source)
    (path,) = (tmp_path / "triton").glob("*.py")
    path.write_bytes(b"\xff\xfe broken")
    monkeypatch.setattr(triton_compile, "_modules", {})  # as in another process
    assert load_module(source).__file__ == str(path)
    assert path.read_text() == source


def test_kernels_side_by_side_take_what_the_largest_takes() -> None:
    """One launch of four kernels: no spills, no more registers than a step above the greediest, wide accesses kept."""
    schedule = TritonSchedule((), ("x0",), 1, 1, 1024, True, 4)
    kernels = [pointwise(F32), pointwise(F32, 4096), norm(F32, 1024, schedule), norm(F32, 1000, schedule)]
    members = []
    for number, kernel in enumerate(kernels):
        buffers = tuple(replace(b, node=100 * number + place) for place, b in enumerate(kernel.buffers))
        members.append(replace(kernel, name=f"member{number}", buffers=buffers))
    unit = BundledKernel("together", tuple(members))
    for arch in ARCHS:
        whole = resources(module([unit], False), [unit], GpuTarget(arch), sass=False)["together"]
        alone = resources(module(members, False), members, GpuTarget(arch), sass=False)
        assert whole.spill_store_bytes == whole.spill_load_bytes == whole.stack_bytes == 0
        assert whole.regs_per_thread <= max(used.regs_per_thread for used in alone.values()) + 8
        assert whole.shared_bytes <= max(used.shared_bytes for used in alone.values())
        ptx = compile_kernel(module([unit], False), unit, GpuTarget(arch)).asm["ptx"]
        assert "ld.global.v4.b32" in ptx and "st.global.v4.b32" in ptx
