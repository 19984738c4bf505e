"""Corner cases of a CUDA device: numbers on the CPU among its tensors, offsets past 2^31, data that is wrong."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fusewise.backend import backend_for
from fusewise.config import make_options

pytestmark = pytest.mark.gpu

STRICT = backend_for(make_options(strict=True, check=True))
FAR = 2**31 + 4099  # elements; no multiple of any tile


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def needs(gigabytes: int) -> None:
    if torch.cuda.mem_get_info()[0] < gigabytes << 30:
        pytest.skip(f"needs {gigabytes} GB of free GPU memory")


def same(fn: Callable[..., Any], *args: torch.Tensor, dynamic: bool | None = None) -> None:
    for ours, eager in zip(torch.compile(fn, backend=STRICT, dynamic=dynamic)(*args), fn(*args), strict=True):
        assert ours.device == eager.device and ours.dtype == eager.dtype
        torch.testing.assert_close(ours, eager, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_number_on_the_cpu_among_cuda_tensors(dtype: torch.dtype) -> None:
    x = torch.arange(-40, 40, device="cuda").to(dtype)
    for number in (
        torch.tensor(3),
        torch.tensor(2.5, dtype=torch.float64),
        torch.tensor(True),
        torch.tensor(1.5).half(),
    ):
        same(
            lambda x, s: (x * s, x + s, torch.where(x > s, x, x - x), s + 1, torch.maximum(x, s.to(x.dtype))), x, number
        )
    same(lambda x, s: (x.add(s), (x * 2).sum() * s), x.float(), torch.tensor(0.25))


def test_the_gradient_of_a_number_on_the_cpu() -> None:
    def grads(fn: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        x = torch.linspace(-1, 1, 33, device="cuda").requires_grad_()
        scale = torch.tensor(1.5, requires_grad=True)
        fn(x, scale).sum().backward()
        assert x.grad is not None and scale.grad is not None and scale.grad.device.type == "cpu"
        return [x.grad, scale.grad]

    def fn(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * scale)

    for ours, eager in zip(grads(torch.compile(fn, backend=STRICT)), grads(fn), strict=True):
        torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("dynamic", [False, True])
def test_more_elements_than_32_bits_count(dynamic: bool) -> None:
    needs(16)
    x = torch.empty(FAR, device="cuda", dtype=torch.uint8).random_(0, 256)
    ours = torch.compile(lambda x: x * 3 + 1, backend=STRICT, dynamic=dynamic)(x)
    assert torch.equal(ours, x * 3 + 1)


def test_rows_past_32_bits() -> None:
    needs(24)
    x = torch.empty(2**15 + 3, 2**16, device="cuda", dtype=torch.bfloat16).normal_()
    ours = torch.compile(lambda x: torch.softmax(x * 2, -1), backend=STRICT)(x)
    for rows in (slice(0, 4), slice(-4, None)):
        torch.testing.assert_close(ours[rows], torch.softmax(x[rows] * 2, -1))
    total = torch.compile(lambda x: (x.float().amax(0), x.float().amax()), backend=STRICT)(x)
    assert torch.equal(total[0], x.amax(0).float()) and torch.equal(total[1], x.amax().float())


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_last_rows_of_a_table_past_32_bits(dynamic: bool) -> None:
    needs(12)
    table = torch.empty(2**21 + 5, 1024, device="cuda", dtype=torch.bfloat16).normal_()
    rows = torch.tensor([0, 2**21 + 4, 2**21, 7], device="cuda")

    def fn(table: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.embedding(rows, table) * 2, table[rows] + 1, table[2**21 :] * 3

    same(fn, table, rows, dynamic=dynamic)


def test_views_whose_offset_or_strides_pass_32_bits() -> None:
    needs(12)
    whole = torch.empty(FAR + 64, device="cuda", dtype=torch.uint8).random_(0, 256)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, x.flip(0) * 2, x.amax(0)

    same(fn, whole[2**31 :])
    same(fn, whole.as_strided((3, 40), (2**30, 1)))
    same(fn, whole.as_strided((40, 3), (1, 2**30), 11))


@pytest.mark.parametrize("by", [0, -1])
def test_integer_quotients_that_have_no_value_leave_the_device_alive(by: int) -> None:
    a = torch.tensor([torch.iinfo(torch.int32).min, 5, -5, 0] * 20, device="cuda", dtype=torch.int32)

    def fn(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a // b, a % b, torch.div(a, b, rounding_mode="trunc"), torch.fmod(a, b)

    results = torch.compile(fn, backend=STRICT)(a, torch.full_like(a, by))
    torch.cuda.synchronize()
    if by:
        for ours, eager in zip(results, fn(a, torch.full_like(a, by)), strict=True):
            assert torch.equal(ours[1:4], eager[1:4])


@pytest.mark.parametrize(
    "call", ["x[i] * 2", "F.embedding(i, x) * 2", "x.gather(0, i[:, None]) * 2", "F.one_hot(i, 4)"]
)
def test_an_index_out_of_range_fails_as_in_eager(call: str) -> None:
    """In a process of its own: a device assertion ends the CUDA context."""
    code = f"""
        import sys, torch, torch.nn.functional as F
        from fusewise.backend import backend_for
        from fusewise.config import make_options
        def fn(x, i):
            return {call}
        if sys.argv[1] == "compiled":
            fn = torch.compile(fn, backend=backend_for(make_options(strict=True)))
        x = torch.randn(4, 4, device="cuda")
        fn(x, torch.tensor([3, 0], device="cuda"))
        torch.cuda.synchronize()
        print("ready", flush=True)
        fn(x, torch.tensor([9, 0], device="cuda"))
        torch.cuda.synchronize()
    """
    for how in ("eager", "compiled"):
        run = subprocess.run([sys.executable, "-c", textwrap.dedent(code), how], capture_output=True, text=True)
        assert run.stdout.split() == ["ready"] and run.returncode != 0, run.stderr
        assert "device-side assert" in run.stderr, run.stderr
