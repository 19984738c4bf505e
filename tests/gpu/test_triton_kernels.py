"""Generated Triton kernels on a CUDA GPU: against the interpreter of kernels, and functions against eager's bits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from fusewise.codegen.triton import module
from fusewise.ir.dtypes import BF16, BOOL, F16, F32, I64, DType
from fusewise.lower.kernel import Axis, Kernel, TritonSchedule
from fusewise.plan.gpu_schedule import choose_gpu_schedule
from fusewise.plan.schedule import AxisShape, KernelShape
from fusewise.runtime.triton import Launcher, build_launchers
from fusewise.runtime.triton_compile import cuda_libdevice
from tests.cpu.cpp_kernels import Case, Make, at, compare, expected
from tests.triton_cases import Scheduled, all_cases, results, softmax, tensors

pytestmark = pytest.mark.gpu

GUARD = 64


def launcher(kernel: Kernel, exact: bool) -> Launcher:
    return Launcher(module([kernel], exact), kernel, torch.device("cuda"))


def launch(run: Callable[..., object], kernel: Kernel, held: dict[str, torch.Tensor], case: Case) -> None:
    pointers = [held[b.name].cpu() if b.seed else held[b.name].data_ptr() for b in kernel.buffers]
    run(torch.cuda.current_stream().cuda_stream, *pointers, *(case.sizes[s] for s in kernel.sizes))
    torch.cuda.synchronize()


@pytest.mark.parametrize("one", all_cases(), ids=repr)
def test_kernel_equals_interpreter(one: Scheduled) -> None:
    case, kernel = one.case, one.kernel
    held = tensors(case, "cuda")
    # a case that allows no difference asks for IEEE's bits
    launch(launcher(kernel, exact=case.ulps == 0).launch, kernel, held, case)
    compare(case, results(case, held), expected(case))


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("count", [4096, 4099])
def test_variants_by_alignment(count: int, shift: int) -> None:
    m = Make("shifted", [Axis("x0", count)], None)
    a = m.op("cast", m.load("a", BF16, at(("x0", 1))), dtype=F32)
    m.store("o", at(("x0", 1)), m.op("cast", m.op("mul", a, m.const(3.0, F32)), dtype=BF16))
    kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1024, 1, True, 4))
    source = torch.randn(count + shift, device="cuda", dtype=torch.bfloat16)[shift:]
    room = torch.zeros(count + shift + GUARD, device="cuda", dtype=torch.bfloat16)
    run = build_launchers(module([kernel], False), [kernel], "cuda")["shifted"]
    run(torch.cuda.current_stream().cuda_stream, source.data_ptr(), room[shift:].data_ptr())
    assert torch.equal(room[shift : shift + count], source * 3.0)
    assert not room[shift + count :].any()


def test_a_failed_check_reads_nothing_wild() -> None:
    """In a process of its own: a device assertion ends the CUDA context."""
    code = """
import torch
from dataclasses import replace
from pathlib import Path
from fusewise.codegen.triton import module
from fusewise.ir.dtypes import F32, I64
from fusewise.lower.kernel import Axis, TritonSchedule
from fusewise.plan.schedule import AxisShape, KernelShape
from fusewise.runtime.triton import Launcher
from tests.cpu.cpp_kernels import Make, at, loaded
m = Make("bounds", [Axis("x0", 40)], None)
i = m.load("i", I64, at(("x0", 1)))
m.check(m.op("and", m.op("ge", i, m.const(0, I64)), m.op("lt", i, m.const(9, I64))))
m.store("o", at(("x0", 1)), m.load("w", F32, loaded(i)))
kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 64, 1, True, 1))
run = Launcher(module([kernel], False), kernel, torch.device("cuda")).launch
i, w, o = torch.arange(40, device="cuda") % 9, torch.rand(9, device="cuda"), torch.empty(40, device="cuda")
run(torch.cuda.current_stream().cuda_stream, i.data_ptr(), w.data_ptr(), o.data_ptr())
assert torch.equal(o, w[i])
i[33] = 1 << 40
run(torch.cuda.current_stream().cuda_stream, i.data_ptr(), w.data_ptr(), o.data_ptr())
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    print("caught", "assert" in str(error))
"""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), str(root)])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "caught True" in run.stdout, run.stdout + run.stderr
    assert "index out of range" in run.stderr


def chain(op: Callable[[Make, int], int]) -> Kernel:
    m = Make("function", [Axis("x0", 1 << 24)], None)
    m.store("o", at(("x0", 1)), op(m, m.load("a", F32, at(("x0", 1)))))
    return replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1024, 1, True, 4))


def one(m: Make) -> int:
    return m.const(1.0, F32)


def gelu_tanh(m: Make, x: int) -> int:
    cube = m.op("mul", m.op("mul", x, x), x)
    inner = m.op("mul", m.op("fma", cube, m.const(0.044715, F32), x), m.const(0.7978845608028654, F32))
    return m.op("mul", m.op("mul", m.const(0.5, F32), x), m.op("add", one(m), m.op("tanh", inner)))


def gelu_erf(m: Make, x: int) -> int:
    erf = m.op("erf", m.op("mul", x, m.const(0.7071067811865476, F32)))
    return m.op("mul", m.op("mul", x, m.const(0.5, F32)), m.op("add", one(m), erf))


def plain(name: str) -> Callable[[Make, int], int]:
    return lambda m, x: m.op(name, x)


FUNCTIONS: dict[str, tuple[Callable[[Make, int], int], Callable[[torch.Tensor], torch.Tensor]]] = {
    "exp": (plain("exp"), torch.exp),
    "exp2": (plain("exp2"), torch.exp2),
    "expm1": (plain("expm1"), torch.expm1),
    "log": (plain("log"), torch.log),
    "log1p": (plain("log1p"), torch.log1p),
    "sqrt": (plain("sqrt"), torch.sqrt),
    "rsqrt": (plain("rsqrt"), torch.rsqrt),
    "sin": (plain("sin"), torch.sin),
    "cos": (plain("cos"), torch.cos),
    "tanh": (plain("tanh"), torch.tanh),
    "erf": (plain("erf"), torch.erf),
    "floor": (plain("floor"), torch.floor),
    "ceil": (plain("ceil"), torch.ceil),
    "trunc": (plain("trunc"), torch.trunc),
    "round": (plain("round"), torch.round),
    "reciprocal": (lambda m, x: m.op("div", one(m), x), torch.reciprocal),
    "sigmoid": (
        lambda m, x: m.op("div", one(m), m.op("add", one(m), m.op("exp", m.op("neg", x)))),
        torch.sigmoid,
    ),
    "silu": (
        lambda m, x: m.op("div", x, m.op("add", one(m), m.op("exp", m.op("neg", x)))),
        torch.nn.functional.silu,
    ),
    "gelu_tanh": (gelu_tanh, lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    "gelu_erf": (gelu_erf, torch.nn.functional.gelu),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_exact_function_equals_eager_on_every_input(name: str) -> None:
    """All 2^32 bit patterns of f32."""
    if name in ("erf", "gelu_erf") and not cuda_libdevice():
        pytest.skip("CUDA's own libdevice is not installed, and the erf of Triton's is of another version")
    build, eager = FUNCTIONS[name]
    run = launcher(chain(build), exact=True).launch
    ours = torch.empty(1 << 24, device="cuda")
    different = 0
    first: list[float] = []
    for start in range(0, 1 << 32, 1 << 24):
        bits = torch.arange(start, start + (1 << 24), device="cuda").to(torch.int32)
        x = bits.view(torch.float32)
        run(torch.cuda.current_stream().cuda_stream, x.data_ptr(), ours.data_ptr())
        theirs = eager(x)
        wrong = (ours.view(torch.int32) != theirs.view(torch.int32)) & ~(ours.isnan() & theirs.isnan())
        count = int(wrong.sum())
        if count and len(first) < 8:
            first += x[wrong][:4].tolist()
        different += count
    assert different == 0, f"{name} differs on {different} inputs, for example {first}"


HALF_FUNCTIONS = ["tanh", "gelu_tanh", "gelu_erf", "silu", "sigmoid", "exp"]


@pytest.mark.parametrize("dtype", [BF16, F16], ids=repr)
@pytest.mark.parametrize("name", HALF_FUNCTIONS)
def test_cheaper_function_is_as_good_as_eager_after_rounding(name: str, dtype: DType) -> None:
    """Every 16-bit input: the error against fp64 is at most 1.05 x eager's in sum, and 1 ulp + eager's at worst."""
    build, eager = FUNCTIONS[name]
    m = Make("function", [Axis("x0", 1 << 16)], None)
    a = m.load("a", dtype, at(("x0", 1)))
    y = m.op("cast", build(m, m.op("cast", a, dtype=F32)), dtype=dtype)
    m.store("o", at(("x0", 1)), y)
    kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1024, 1, True, 4))
    kind = torch.bfloat16 if dtype == BF16 else torch.float16
    x = torch.arange(1 << 16, device="cuda").to(torch.int16).view(kind)
    ours = torch.empty_like(x)
    launcher(kernel, exact=False).launch(torch.cuda.current_stream().cuda_stream, x.data_ptr(), ours.data_ptr())
    theirs, truth = eager(x), eager(x.double())
    ordinary = truth.isfinite() & theirs.isfinite() & (truth.abs() > 1e-30)
    assert torch.equal(ours.isnan(), theirs.isnan())
    scale = truth[ordinary].abs()
    errors = [((y.double()[ordinary] - truth[ordinary]).abs() / scale) for y in (ours, theirs)]
    assert float(errors[0].mean()) <= 1.05 * float(errors[1].mean())
    assert float(errors[0].max()) <= float(errors[1].max()) + 2.0 ** (-8 if dtype == BF16 else -11)


def test_keep_is_the_same_for_every_tile() -> None:
    drawn: list[np.ndarray] = []
    for x_block in [64, 256, 2048]:
        m = Make("draw", [Axis("x0", 10_007)], None)
        m.store("o", at(("x0", 1)), m.random("keep", m.load("s", I64, at()), at(("x0", 1)), 2, 0.7, BOOL))
        kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, x_block, 1, True, 4))
        case = Case(kernel, {"s": np.array([77], np.int64)}, {"o": 10_007})
        held = tensors(case, "cuda")
        launch(launcher(kernel, exact=False).launch, kernel, held, case)
        drawn.append(results(case, held)["o"])
    assert all(np.array_equal(drawn[0], d) for d in drawn[1:])
    assert abs(float(drawn[0].mean()) - 0.7) < 0.02


def test_schedules_run() -> None:
    """Every schedule that is offered for a row kernel gives the same softmax."""
    x = torch.randn(512, 1000, device="cuda")
    shape = KernelShape(
        axes=(AxisShape("x0", 512, True, False), AxisShape("r0", 1000, True, True)),
        unit_bytes={"r0": 2 * 4 * 512 * 1000},
        access_bytes=(4, 4),
        reads=4 * 512 * 1000,
        writes=4 * 512 * 1000,
        passes=3,
        live_elements=2,
        instructions=20.0,
        max_offset=512_000,
    )
    for schedule in choose_gpu_schedule(shape, 132):
        kernel = replace(softmax(512, 1000, F32, schedule.persistent).done(), schedule=schedule)
        out = torch.empty_like(x)
        launcher(kernel, exact=False).launch(torch.cuda.current_stream().cuda_stream, x.data_ptr(), out.data_ptr())
        torch.testing.assert_close(out, torch.softmax(x, 1), rtol=2e-6, atol=1e-8)
