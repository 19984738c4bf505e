"""Corner cases on the CPU, each against eager: aliasing, layouts, integer arithmetic, NaN, empty tensors, indexes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._C import DispatchKey

import fusewise
from fusewise import trace
from fusewise.backend import backend_for
from fusewise.capture.importer import import_graph
from fusewise.capture.trace import trace_fn
from fusewise.codegen.cpp import unit
from fusewise.config import make_options
from fusewise.pipeline import compiler_for, machine_of, plan_captured

STRICT = backend_for(make_options(strict=True, check=True))
INF, NAN = float("inf"), float("nan")
Out = Any


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    trace.clear()


def copies(args: Sequence[Any]) -> list[Any]:
    """Arguments with the same layouts, stride 0 included, and the same sharing of memory."""
    made: dict[int, torch.Tensor] = {}
    found: list[Any] = []
    for a in args:
        if not isinstance(a, torch.Tensor):
            found.append(a)
            continue
        storage = a.untyped_storage()
        if storage.data_ptr() not in made:
            # one base for all views of a memory, as in a program that made them by views
            made[storage.data_ptr()] = torch.empty(0, dtype=a.dtype).set_(storage.clone())
        view = made[storage.data_ptr()].as_strided(a.shape, a.stride(), a.storage_offset())
        if any(a is b for b in args[: len(found)]):
            view = found[next(i for i, b in enumerate(args) if b is a)]
        found.append(view.requires_grad_(a.requires_grad))
    return found


def flat(value: Out) -> list[torch.Tensor]:
    parts = value if isinstance(value, (tuple, list)) else [value]
    return [p for p in parts if isinstance(p, torch.Tensor)]


def same(fn: Callable[..., Out], *args: Any, dynamic: bool | None = None, close: bool = False) -> None:
    """Results, the arguments afterwards, and gradients are eager's: to the bit, or nearly where `close`."""
    ours, theirs = copies(args), copies(args)
    got, want = flat(torch.compile(fn, backend=STRICT, dynamic=dynamic)(*ours)), flat(fn(*theirs))
    assert len(got) == len(want)
    for o, e in [*zip(got, want, strict=True), *zip(flat(ours), flat(theirs), strict=True)]:
        equal(o, e, close)
    leaves = [(a, b) for a, b in zip(ours, theirs, strict=True) if isinstance(a, torch.Tensor) and a.requires_grad]
    if leaves:
        for outs in (got, want):
            roots = [o for o in outs if o.requires_grad]
            torch.autograd.backward(
                roots, [torch.linspace(-1, 1, o.numel()).reshape(o.shape).to(o.dtype) for o in roots]
            )
        for a, b in leaves:
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None and b.grad is not None:
                equal(a.grad, b.grad, close)


def equal(ours: torch.Tensor, eager: torch.Tensor, close: bool = False) -> None:
    assert ours.dtype == eager.dtype and ours.shape == eager.shape and ours.requires_grad == eager.requires_grad
    if ours.numel():
        # a step along a dim of size 1 is never taken, and torch's tracing gives other ones there than eager
        assert [t for n, t in zip(ours.shape, ours.stride(), strict=True) if n > 1] == [
            t for n, t in zip(eager.shape, eager.stride(), strict=True) if n > 1
        ]
    ours, eager = ours.detach(), eager.detach()
    if close:
        torch.testing.assert_close(ours, eager, equal_nan=True)
        return
    if not ours.is_floating_point():
        assert torch.equal(ours, eager)
        return
    nan = ours.isnan() & eager.isnan()
    assert bool((nan | ((ours == eager) & (ours.signbit() == eager.signbit()))).all()), (ours, eager)


# ---- aliases and in-place code


def test_in_place_on_a_view_that_is_read_later() -> None:
    def fn(a: torch.Tensor) -> Out:
        b = a + 1
        part = b[1:3]
        whole = b.view(-1)
        part.mul_(2)
        whole[::2].add_(1)
        return b * 3, part.sum(), whole

    same(fn, torch.randn(5, 4).round())


def test_rows_written_through_an_index_and_then_the_flip_added() -> None:
    def fn(a: torch.Tensor, rows: torch.Tensor) -> Out:
        x = a.clone()
        x[rows] = 5.0
        x += x.flip(0)
        return x

    same(fn, torch.randn(6, 3), torch.tensor([0, 4]))


def test_in_place_on_the_output_of_a_dropout_that_does_nothing() -> None:
    def fn(a: torch.Tensor) -> Out:
        b = F.dropout(a, 0.5, training=False)  # a itself
        b.add_(1)
        return a * 2, b

    same(fn, torch.randn(4, 4))


def test_an_output_that_aliases_an_input_and_another_output() -> None:
    def fn(a: torch.Tensor) -> Out:
        b = a * 2
        return a, a.t(), b, b.view(-1), a[1:]

    a, b = torch.randn(3, 4), torch.randn(3, 4)
    same(fn, a)
    out, eager = torch.compile(fn, backend=STRICT)(a), fn(b)
    for outs, source in ((out, a), (eager, b)):
        assert outs[0] is source
        outs[1].zero_()
        outs[3].fill_(7)
        assert not source.any() and not outs[4].any() and bool((outs[2] == 7).all())


def test_equal_results_are_kept_apart() -> None:
    def fn(a: torch.Tensor) -> Out:
        return a + 1, a + 1, (a + 1).view(-1)

    outs = torch.compile(fn, backend=STRICT)(torch.zeros(4))
    outs[0].fill_(9)
    assert bool((outs[1] == 1).all()) and bool((outs[2] == 1).all())

    # PyTorch's pooling gives a channels-last tensor by `as_strided`, which runs as PyTorch's own op
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    pooled, mean = torch.compile(lambda x: (F.adaptive_avg_pool2d(x, 1), x.mean((2, 3), True)), backend=STRICT)(x)
    wanted = mean.clone()
    pooled.zero_()
    assert torch.equal(mean, wanted)

    # a kernel cannot copy complex numbers
    a = torch.randn(4, 2)
    with pytest.warns(UserWarning, match="a copy of complex64"):
        doubled, z = torch.compile(lambda a: (a * 2, torch.view_as_complex(a * 2)), backend="fusewise")(a)
    z.zero_()
    assert torch.equal(doubled, a * 2)


def test_a_nested_tensor() -> None:
    rows = [torch.randn(2, 4), torch.randn(3, 4)]
    found = torch.compile(lambda n: n * 2 + 1, backend=STRICT)(torch.nested.nested_tensor(rows, layout=torch.jagged))
    assert found.is_nested
    for one, row in zip(found.unbind(), rows, strict=True):
        torch.testing.assert_close(one, row * 2 + 1)


def test_the_same_tensor_twice_and_two_views_of_one() -> None:
    def add(a: torch.Tensor, b: torch.Tensor) -> Out:
        return a + b * 2

    x = torch.randn(4, 6)
    same(add, x, x)
    same(add, x[:, :3], x[:, 3:])
    same(add, x, x.view(6, 4).t().reshape(4, 6))


def test_writing_into_one_of_two_arguments_that_overlap() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> Out:
        a.mul_(2)
        return b + 1

    x = torch.randn(6)
    same(fn, x[:4], x[2:])
    same(fn, x, x)


def test_a_scatter_with_repeated_indexes_and_what_follows_it() -> None:
    def fn(a: torch.Tensor, index: torch.Tensor) -> Out:
        sums = torch.zeros(4).index_add(0, index, a)
        more = torch.zeros(4).scatter_add(0, index, a)
        return sums.relu() * 2, more + sums

    same(fn, torch.randn(7).round(), torch.tensor([0, 1, 1, 3, 0, 0, 3]))


def test_views_of_a_constant_share_its_memory() -> None:
    def fn(x: torch.Tensor) -> Out:
        twos, steps = torch.full_like(x, 2), torch.arange(5)
        return twos.select(0, 0), twos, steps[1:], steps[:3], x + twos[0, 0]

    x = torch.randn(2, 3)
    same(fn, x)
    for outs in (torch.compile(fn, backend=STRICT)(x), fn(x)):
        outs[1].zero_()
        outs[2].fill_(7)
        assert not outs[0].any() and outs[3].tolist() == [0, 7, 7]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_index_gives_the_result_the_order_of_its_dims(order: tuple[int, int]) -> None:
    def fn(x: torch.Tensor, index: torch.Tensor) -> Out:
        return x[index], x[index] + 1 if order == (0, 1) else x

    same(fn, torch.randn(5, 3), torch.randint(5, (2, 4)).permute(order))


def test_a_buffer_and_a_parameter_that_is_shared() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(7, 4)
            self.out = torch.nn.Linear(4, 7, bias=False)
            self.out.weight = self.table.weight
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return torch.log_softmax(self.out(F.gelu(self.table(rows))), -1)

    torch.manual_seed(0)
    ours = Tied()
    theirs = Tied()
    theirs.load_state_dict(ours.state_dict())
    compiled = torch.compile(ours, backend=STRICT)
    rows = torch.tensor([1, 6, 1])
    for _ in range(2):
        compiled(rows).sum().backward()
        theirs(rows).sum().backward()
    torch.testing.assert_close(ours.table.weight.grad, theirs.table.weight.grad)
    assert ours.calls == theirs.calls == 2


# ---- layouts


@pytest.mark.parametrize("dynamic", [False, True])
def test_expanded_overlapping_and_offset_inputs(dynamic: bool) -> None:
    def fn(a: torch.Tensor) -> Out:
        return a * 2 + 1, a.amax(0), a.t() - 1

    row = torch.randn(6)
    for value in (
        row.expand(5, 6),
        row[:5, None].expand(5, 6),
        torch.randn(40).as_strided((5, 6), (3, 2), 4),
        torch.randn(11, 13)[1::2, 1::2],
        torch.randn(6, 5).t(),
    ):
        same(fn, value, dynamic=dynamic)


def test_results_keep_eagers_strides() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> Out:
        return (
            a + 1,
            a.relu() * b,
            torch.ones_like(a),
            a.permute(0, 2, 3, 1).contiguous(),
            a.mean(1),
            a.to(torch.float64),
        )

    a = torch.randn(2, 3, 4, 5)
    last = a.contiguous(memory_format=torch.channels_last)
    same(fn, last, torch.randn(3, 1, 1), close=True)
    same(fn, a.transpose(1, 3), torch.randn(5, 1, 1), close=True)
    same(lambda a: (torch.ones_like(a), torch.zeros_like(a), a * 2), torch.randn(1, 5).t())
    same(lambda a: (torch.ones_like(a), a.clone(), a + a), torch.randn(1, 5))


def test_an_op_whose_strides_are_not_those_that_torch_describes() -> None:
    same(lambda a: (F.logsigmoid(a), F.pad(a, (1, 1))), torch.randn(2, 3, 4).permute(2, 0, 1), close=True)


def test_a_matmul_on_a_transposed_fused_value() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> Out:
        return F.gelu(a).t() @ b, (a * 2).t().contiguous() @ (b + 1)

    same(fn, torch.randn(6, 5), torch.randn(6, 3), close=True)


def test_a_bitcast_and_a_view_of_another_type() -> None:
    same(lambda a: (a.view(torch.int32) ^ 1, (a * 2).view(torch.int32) >> 3), torch.randn(4, 4))
    same(lambda a: (a + 1).view(torch.uint8).sum(), torch.randn(4, 4))


# ---- promotion and integers


def test_python_scalars_and_promotion() -> None:
    def fn(i: torch.Tensor, b: torch.Tensor, h: torch.Tensor, f: torch.Tensor) -> Out:
        return (
            (i + 1, i + 1.5, i * True, i / 2, b + 1, b * 0.5, b + b, h * 2.5, h + f, i + h)
            + (f * 3, 1 - f, 2 ** i.clamp(0, 5), i.float() ** 2, h + b, f // 2, -i, i + b)
            + (torch.add(i, 3, alpha=2), f + torch.tensor(2, dtype=torch.float64), h * torch.tensor(3.3))
        )

    i, b = torch.tensor([1, -2, 7]), torch.tensor([True, False, True])
    for whole in (i, i.int(), i.short(), i.to(torch.int8)):
        same(fn, whole, b, torch.tensor([1.5, -2, 3], dtype=torch.bfloat16), torch.randn(3))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers_wrap_divide_and_shift_as_in_eager(dtype: torch.dtype) -> None:
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    a = torch.tensor([low, low + 1, -7 % (high + 1), 0, 1, 7, high - 1, high] * 5).to(dtype)
    b = torch.tensor([3, 2, 5, 7, 1] * 8).to(dtype)
    shifts = torch.tensor([0, 1, 3, 5, 7] * 8).to(dtype)

    def fn(a: torch.Tensor, b: torch.Tensor, s: torch.Tensor) -> Out:
        c = -b - 1  # never -1: eager dies of the least integer truncated by it
        signed = () if dtype == torch.uint8 else (a // c, a % c, torch.div(a, c, rounding_mode="trunc"), a.abs())
        return (
            (a + b, a * b, a - b, a * a, -a, a // b, a % b, torch.remainder(a, b), torch.fmod(a, b), ~a, a & b, a ^ b)
            + (torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc"), a / b, a << s, a >> s)
            + (a.sum(), a.prod(), a.amax(), a.amin(), a > b, a.clamp(2, 50), a.sign(), a.float(), a.to(torch.int32))
            + signed
        )

    same(fn, a, b, shifts, close=False)


def test_int32_minimum_by_minus_one_and_by_zero_do_not_kill_the_process() -> None:
    low = torch.iinfo(torch.int32).min
    a = torch.tensor([low, 5, -5, 0] * 10, dtype=torch.int32)

    def fn(a: torch.Tensor, b: torch.Tensor) -> Out:
        return a // b, a % b, torch.div(a, b, rounding_mode="trunc"), torch.fmod(a, b)

    compiled = torch.compile(fn, backend=STRICT)
    for zero_at in (0, 17, 39):
        b = torch.ones_like(a)
        b[zero_at] = 0
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compiled(a, b)
    # eager's own kernel of a truncated quotient ends the process here
    negated = torch.tensor([low, -5, 5, 0] * 10, dtype=torch.int32)
    zeros = torch.zeros_like(a)
    for ours, expected in zip(compiled(a, torch.full_like(a, -1)), (negated, zeros, negated, zeros), strict=True):
        assert torch.equal(ours, expected)
    torch._dynamo.reset()
    # a kernel whose vector tail reads nothing must not divide what it did not read
    same(
        lambda a, b: a // b, torch.arange(-9, 10, dtype=torch.int32), torch.tensor([3, -2] * 9 + [7], dtype=torch.int32)
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_shifts_by_more_than_the_width(dtype: torch.dtype) -> None:
    a = torch.tensor([1, 5, 100, 77] * 9).to(dtype)
    by = torch.tensor([70, 64, 33, 8] * 9).to(dtype)
    same(lambda a, b: (a << b, a >> b, a << 70, a >> 70), a, by)
    if dtype != torch.uint8:
        same(lambda a, b: (a << b, a >> b), -a, by)


def test_whole_number_ranges_need_64_bits() -> None:
    same(
        lambda a: (torch.arange(5) * 10**9, torch.arange(5) * 10**9 + a, torch.arange(0, 5 * 10**9, 10**9)),
        torch.ones(5),
    )


def test_floor_division_and_remainder_of_floats() -> None:
    a = torch.tensor([1.0, 0.5, 6.0, -1.0, -0.5, 0.0, -0.0, 5.0, INF, NAN, 3.0, 7.5])
    b = torch.tensor([0.1, 0.1, 0.2, 0.1, 0.1, 1.0, 2.0, 0.0, 2.0, 1.0, INF, -2.5])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        same(lambda a, b: (a // b, a % b, torch.fmod(a, b), a // 0.1, 6 // b), a.to(dtype), b.to(dtype))


def test_uint8_extremes_and_bool_sums() -> None:
    values = torch.randint(5, 256, (103,), dtype=torch.uint8)
    flags = torch.rand(7, 103) < 0.5
    same(
        lambda v, f: (v.amin(), v.amax(), v.sum(), v.argmin(), v.float().mean(), f.sum(), f.sum(1), f.any(0)),
        values,
        flags,
    )
    same(lambda f: (f.all(1), f.long().cumsum(0), f.amax(0), f.prod(0), f.float().mean(), f.int().argmax(1)), flags)


# ---- NaN, infinities, zeros


HARD = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 1e-42, 3e38, -3e38, 0.5, -2.5] * 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_nan_and_signed_zero_in_pointwise_ops(dtype: torch.dtype) -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> Out:
        return (
            (torch.maximum(a, b), torch.minimum(a, b), torch.fmax(a, b), torch.fmin(a, b), a.clamp(-1, 1), a.relu())
            + (a.clamp(min=b), torch.clamp(a, b, b + 1), a < b, a <= b, a == b, a != b, a > b, a >= b, -a, a.abs())
            + (a.sign(), a - a, a * 0, a + 0.0, a == 0, a.isnan(), torch.copysign(b, a), torch.where(a > 0, a, b))
            + (torch.heaviside(a, b), torch.nan_to_num(a), a.logical_not(), a.bool(), a.round(), a.ceil(), a.signbit())
        )

    same(fn, HARD.to(dtype), HARD.flip(0).roll(5).to(dtype))


def test_nan_and_infinity_times_zero() -> None:
    same(lambda a: a * 0, torch.tensor([NAN, INF, 1.0]))


@pytest.mark.parametrize("length", [1, 5, 16, 19, 36])
def test_nan_in_reductions(length: int) -> None:
    a = torch.stack([HARD[:length], HARD.roll(7)[:length], torch.linspace(-1, 1, length), torch.full((length,), -INF)])

    def fn(a: torch.Tensor) -> Out:
        return a.amax(1), a.amin(1), a.max(1)[0], a.argmax(1), a.argmin(1), a.any(1), a.all(1), a.amax(0), a.argmin(0)

    same(fn, a)
    same(lambda a: (torch.softmax(a, 1), torch.logsumexp(a, 1), torch.softmax(a, 0)), a, close=True)


def test_argmax_takes_the_first_of_equals() -> None:
    a = torch.tensor([[1.0, 3, 3, 2], [0, 0, 0, 0], [-1, -1, 5, 5]]).repeat(1, 9)
    same(lambda a: (a.argmax(1), a.argmin(1), a.argmax(), a.argmin(0), a.max(1)[1], a.bfloat16().argmax(1)), a)


def test_where_with_a_nan_branch_and_its_gradient() -> None:
    def fn(a: torch.Tensor) -> Out:
        return torch.where(a > 0, a.sqrt(), torch.zeros_like(a)), torch.where(a > 0, a.log(), a)

    same(fn, torch.tensor([4.0, -1.0, 0.0, 2.0], requires_grad=True), close=True)
    safe = torch.tensor([4.0, -1.0, 0.0, 2.0] * 6, requires_grad=True)
    same(lambda a: torch.where(a > 0, torch.where(a > 0, a, 1.0).sqrt(), 0.0), safe)


def test_padding_that_is_never_read_is_not_nan() -> None:
    def fn(a: torch.Tensor) -> Out:
        p = F.pad(a, (3, 2), value=0.0)
        return (1.0 / F.pad(a, (1, 1), value=2.0)).sum(1), torch.softmax(p, -1), p.log1p().amax(1), p.sum()

    same(fn, torch.rand(3, 21) + 1, close=True)
    same(lambda a: F.pad(a.sum(0) / 3, (1, 2), value=-INF), torch.randn(700, 5), close=True)


def test_a_pad_in_front_of_the_result_of_a_split_reduction() -> None:
    same(lambda a: (F.pad(a.sum(1), (2, 1)), F.pad(a.sum().reshape(1), (1, 1))), torch.randn(3, 1 << 18), close=True)


def test_low_precision_keeps_each_rounding() -> None:
    def fn(a: torch.Tensor, h: torch.Tensor, g: torch.Tensor) -> Out:
        return a.bfloat16().float() * 3, (h + g) == h, (h * g + h) > g, h + g - g, (h * 1.1).float(), h.mul(g).half()

    a = torch.randn(50)
    same(fn, a, a.bfloat16() * 100, torch.rand(50).bfloat16())
    same(fn, a, a.half() * 100, torch.rand(50).half())


# ---- empty and unit sizes


def test_reductions_of_nothing() -> None:
    def fn(a: torch.Tensor) -> Out:
        return a.sum(0), a.sum(), a.prod(0), a.any(), a.all(0), a.mean(0), a.sum(1), a.amax(1), a.argmin(1), a + 1

    same(fn, torch.zeros(0, 3))
    same(lambda a: (a.argmin(1), a.argmax(1), a.max(1)[0], torch.softmax(a, 1), a.var(1)), torch.zeros(0, 3))
    leaf = torch.zeros(0, 3, requires_grad=True)
    same(lambda a: (torch.softmax(a, 0, dtype=torch.float64), torch.log_softmax(a, 0), F.layer_norm(a, (3,))), leaf)
    for bad in (lambda a: a.amax(0), lambda a: a.argmin(0), lambda a: a.max()):
        with pytest.raises(Exception, match=r"(?i)zero-size|non-zero|input.numel\(\) == 0"):
            torch.compile(bad, backend=STRICT)(torch.zeros(0, 3))


def test_views_of_nothing() -> None:
    def fn(a: torch.Tensor) -> Out:
        return a.reshape(0), a.flatten(), a.t() * 2, torch.cat([a, a + 1]), a[:, 1:].relu(), F.pad(a, (1, 1), value=2.0)

    same(fn, torch.zeros(0, 4))
    same(
        lambda a: (F.pad(a, (1, 1), value=2.0), torch.cat([a, a + 1], 1), a.unsqueeze(0).expand(3, 4, 0)),
        torch.zeros(4, 0),
    )
    same(lambda a, i: (a[i], F.embedding(i, a)), torch.randn(3, 4), torch.zeros(0, dtype=torch.int64))


def test_reduction_over_an_axis_of_one() -> None:
    def fn(a: torch.Tensor) -> Out:
        return (
            a.sum(1),
            a.amax(1, keepdim=True),
            torch.softmax(a, 1),
            a.argmax(1),
            a.var(1, correction=0),
            a.logsumexp(1),
        )

    same(fn, torch.randn(6, 1, 4), close=True)


def test_unit_sizes_under_dynamic_shapes_still_broadcast() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> Out:
        return a + b, a * b.sum(0, keepdim=True)

    compiled = torch.compile(fn, backend=STRICT, dynamic=True)
    for m, n in ((5, 5), (5, 1), (1, 5), (7, 7), (1, 1)):
        a, b = torch.randn(m, 3), torch.randn(n, 3)
        for o, e in zip(compiled(a, b), fn(a, b), strict=True):
            torch.testing.assert_close(o, e)


def test_scalars() -> None:
    same(
        lambda a: (a * 2, a.sum(), a.amax(), a.reshape(1, 1), torch.softmax(a, 0), a.expand(3, 2) + 1),
        torch.tensor(1.5),
    )
    same(lambda a, n: (a + n, a[n], a.sum() * n), torch.randn(5), 3, close=True)


# ---- indexes


@pytest.mark.parametrize("bad", [9, -10])
def test_an_index_out_of_range_raises_as_in_eager(bad: int) -> None:
    def fn(a: torch.Tensor, i: torch.Tensor) -> Out:
        return a[i] * 2

    a, i = torch.randn(9, 4), torch.tensor([0, bad])
    with pytest.raises(IndexError):
        fn(a, i)
    with pytest.raises(IndexError, match="out of range"):
        torch.compile(fn, backend=STRICT)(a, i)
    same(fn, a, torch.tensor([0, -9, 8]))


OUT_OF_RANGE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index_select": lambda a, i: a.index_select(0, i) * 2,
    "embedding": lambda a, i: F.embedding(i, a) * 2,
    "take": lambda a, i: a.take(i * 4) * 2,
    "gather": lambda a, i: a.gather(0, i[:, None]) * 2,
    "scatter": lambda a, i: a.scatter(0, i[None, :1].expand(1, 4), 1.0) * 2,
    "index_put": lambda a, i: a.index_put((i,), torch.zeros(4)) * 2,
    "index_add": lambda a, i: a.index_add(0, i, torch.zeros(2, 4)) * 2,
    "cross_entropy": lambda a, i: F.cross_entropy(a[:2], i) * 2,
    "one_hot": lambda a, i: F.one_hot(i, 4) * 2,
    "assert": lambda a, i: (torch._assert_async((i < 5).all() & (i >= -5).all(), 'no "such"\nrow'), a * 2)[1],
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_data_that_an_op_refuses_gives_eagers_kind_of_error(name: str) -> None:
    fn = OUT_OF_RANGE[name]
    a = torch.randn(5, 4)
    compiled = torch.compile(fn, backend=STRICT)
    assert torch.equal(compiled(a, torch.tensor([3, 0])), fn(a, torch.tensor([3, 0])))
    for wrong in (7, -7):
        with pytest.raises((IndexError, RuntimeError)) as eager:
            fn(a, torch.tensor([wrong, 0]))
        with pytest.raises(eager.type) as ours:
            compiled(a, torch.tensor([wrong, 0]))
        assert ours.type is eager.type


@pytest.fixture
def torch_traces_no_classes() -> Iterator[None]:
    """One-hot is traced as by torch 2.11, without a check of its classes."""
    op = torch.ops.aten.one_hot.default
    kernels = dict(op.py_kernels)
    op.py_kernels.pop(DispatchKey.CompositeImplicitAutograd, None)
    op._dispatch_cache.clear()
    yield
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()


@pytest.mark.usefixtures("torch_traces_no_classes")
@pytest.mark.parametrize("dynamic", [False, True])
def test_classes_are_checked_where_torch_traces_no_check(dynamic: bool) -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return F.one_hot(i, num_classes=x.shape[0]) * 2 + F.one_hot(i, 4)

    x = torch.randn(4)
    compiled = torch.compile(fn, backend=STRICT, dynamic=dynamic)
    assert torch.equal(compiled(x, torch.tensor([3, 0])), fn(x, torch.tensor([3, 0])))
    for wrong, message in ((4, "smaller than num_classes"), (-1, "non-negative")):
        for way in (fn, compiled):
            with pytest.raises(RuntimeError, match=message):
                way(x, torch.tensor([0, wrong]))


def test_indexes_of_every_kind() -> None:
    def fn(a: torch.Tensor, i: torch.Tensor, rows: torch.Tensor) -> Out:
        return (
            a[i],
            a[:, i],
            a[i, i],
            a[..., -1],
            a[rows],
            a.index_select(1, i) + 1,
            torch.take_along_dim(a, rows, 1),
        ) + (a[i.int()], a.gather(0, rows), torch.take(a, i), a[None, i], a[i[:, None], i], a[1:, i] * 2)

    same(fn, torch.randn(5, 5), torch.tensor([0, -1, 3]).abs(), torch.randint(0, 5, (5, 5)))
    same(lambda a, i: a[i], torch.randn(5, 5), torch.tensor([-1, -5, 2]))


# ---- gradients


def test_gradients_of_some_inputs_only() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Out:
        return F.layer_norm(a * b, (4,), c), (a * b).detach() + 1, b * 2

    for wants in ((True, False, False), (False, False, True), (True, True, True)):
        same(
            fn,
            *(torch.randn(*s).requires_grad_(w) for s, w in zip(((3, 4), (3, 4), (4,)), wants, strict=True)),
            close=True,
        )


def test_a_gradient_is_not_asked_for() -> None:
    a = torch.randn(4, requires_grad=True)
    with torch.no_grad():
        out = torch.compile(lambda a: F.gelu(a) + a, backend=STRICT)(a)
    assert not out.requires_grad


def test_double_backward_works_or_says_why_not() -> None:
    a = torch.randn(4, dtype=torch.float64, requires_grad=True)
    out = torch.compile(lambda a: (a**3).sum(), backend=STRICT)(a)
    (first,) = torch.autograd.grad(out, a, create_graph=True)
    torch.testing.assert_close(first.detach(), 3 * a.detach() ** 2)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_a_select_along_a_dim_of_one(dynamic: bool) -> None:
    a = torch.randn(3, 1, 5, dtype=torch.float64, requires_grad=True)
    same(lambda a: (a.tanh().select(1, 0), a[:, 0] * 2, a.select(-2, -1).t()), a, dynamic=dynamic, close=True)


def test_gradients_of_expanded_and_overlapping_reads() -> None:
    def fn(a: torch.Tensor) -> Out:
        return a.unfold(0, 3, 1).square().sum(1), a.expand(3, 8) * 2, a.flip(0) * a, a[::2] + 1

    same(fn, torch.randn(8, dtype=torch.float64, requires_grad=True), close=True)


# ---- random numbers


def test_two_dropouts_keep_their_order_and_any_number_of_elements_is_drawn() -> None:
    def fn(a: torch.Tensor) -> Out:
        first = F.dropout(a, 0.5)
        second = F.dropout(a * 2, 0.5)
        return first, second

    compiled = torch.compile(fn, backend=STRICT)
    for size in (1, 3, 6, 13, 1021):
        a = torch.ones(size)
        torch.manual_seed(2**40 + 6)
        first, second = compiled(a)
        torch.manual_seed(2**40 + 6)
        again, other = compiled(a)
        assert torch.equal(first, again) and torch.equal(second, other)
        assert set(first.unique().tolist()) <= {0.0, 2.0} and set(second.unique().tolist()) <= {0.0, 4.0}
    assert not torch.equal(first * 2, second), "each dropout draws its own mask"
    torch.manual_seed(5)
    assert not torch.equal(compiled(a)[0], first)


def test_masks_are_the_same_whatever_is_fused() -> None:
    def fn(a: torch.Tensor, w: torch.Tensor) -> Out:
        first = F.dropout(a, 0.3)
        return F.dropout(first @ w, 0.5) + 1, F.dropout(a.t().relu(), 0.5), first * 2

    a, w = torch.rand(13, 13) + 1, torch.rand(13, 13)
    masks = []
    for fuel in (0, 1, None):
        torch._dynamo.reset()
        torch.manual_seed(3)
        out = torch.compile(fn, backend=backend_for(make_options(strict=True, fuel=fuel)))(a, w)
        masks.append([out[0] != 1, out[1] != 0, out[2] != 0])
    for found in masks[1:]:
        assert all(torch.equal(x, y) for x, y in zip(found, masks[0], strict=True))


def test_every_bit_of_a_seed_counts() -> None:
    def fn(seed: torch.Tensor) -> torch.Tensor:
        return torch.ops.fusewise.keep(seed, torch.device("cpu"), 3, [1021], 0.5)

    compiled = torch.compile(fn, backend=STRICT)
    found = []
    for seed in (5, 5 + 2**32, 5 + 2**40, 5 - 2**63):
        mask = compiled(torch.tensor(seed))
        assert torch.equal(mask, fn(torch.tensor(seed)))
        found.append(mask)
    assert not any(torch.equal(a, b) for i, a in enumerate(found) for b in found[:i])


# ---- offsets past 32 bits


@pytest.mark.parametrize("dynamic", [False, True])
def test_offsets_and_strides_past_32_bits(dynamic: bool) -> None:
    whole = torch.empty(2**31 + 4096, dtype=torch.uint8)  # pages that nobody touches take no memory

    def fn(x: torch.Tensor, rows: torch.Tensor) -> Out:
        return x + 1, x.flip(0) * 2, x.amax(0), x[rows], x.t().contiguous()

    rows = torch.tensor([2, 0])
    compiled = torch.compile(fn, backend=STRICT, dynamic=dynamic)
    for view in (
        whole[2**31 :].view(64, 64),
        whole.as_strided((3, 40), (2**30, 1)),
        whole.as_strided((40, 3), (1, 2**30), 11),
    ):
        view.copy_(torch.arange(view.numel()).reshape(view.shape) % 251)
        for ours, eager in zip(compiled(view, rows), fn(view, rows), strict=True):
            equal(ours, eager)


# ---- other kinds of input


def test_complex_and_float8_run_as_in_eager() -> None:
    z = torch.randn(4, dtype=torch.complex64)
    same(lambda z: (z * 2, z.abs() + 1, z.real * 3), z, close=True)
    same(lambda a: (a.to(torch.float8_e4m3fn).float() * 2, a + 1), torch.randn(8))


def test_graphs_without_tensors_and_with_other_results() -> None:
    compiled = torch.compile(lambda a, n, s: (a + n, n + 1, s, None, [a * 2, {"x": a - 1}]), backend=STRICT)
    out = compiled(torch.ones(3), 4, "text")
    assert out[1:4] == (5, "text", None) and bool((out[4][1]["x"] == 0).all()) and bool((out[0] == 5).all())


def test_a_size_that_data_decides() -> None:
    def fn(a: torch.Tensor) -> Out:
        picked = a[a > 0] * 2
        return picked.sum(), picked + 1

    same(fn, torch.randn(20), close=True)
    same(lambda a: a.nonzero() * 2, torch.randn(6).round())


def test_control_flow_and_graph_breaks() -> None:
    def fn(a: torch.Tensor) -> Out:
        b = a * 2
        if float(b.sum()) > 0:
            b = b.relu()
        torch._dynamo.graph_break()
        return b + 1

    same(fn, torch.randn(6), close=True)
    same(fn, torch.full((6,), -1.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    def fn(a: torch.Tensor, w: torch.Tensor) -> Out:
        with torch.autocast("cpu", dtype=dtype):
            return F.gelu(F.linear(a, w)), F.layer_norm(a, (8,)), torch.softmax(a @ w, -1)

    same(fn, torch.randn(4, 8), torch.randn(8, 8), close=True)


# ---- recompiles


def compiles(run: Callable[[Callable[..., Any]], None], fn: Callable[..., Any]) -> int:
    """Forward and inference graphs that `run` made `fn` compile."""
    trace.clear()
    run(torch.compile(fn, backend=STRICT))
    return sum(c.role != "backward" for c in trace.compiled())


def test_ten_batch_sizes_compile_twice_at_most() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
    optim = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(compiled: Callable[..., Any]) -> None:
        for batch in (8, 3, 17, 2, 5, 31, 9, 4, 64, 12):
            optim.zero_grad()
            data = torch.randn(batch, 8)
            loss = F.cross_entropy(compiled(data), torch.zeros(batch, dtype=torch.int64))
            loss.backward()
            optim.step()
            torch.testing.assert_close(compiled(data), model(data))

    assert compiles(train, model) <= 2


def test_a_growing_sequence_compiles_twice_at_most() -> None:
    def step(q: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.softmax((q @ keys.mT) * 0.5, -1) @ keys

    def grow(compiled: Callable[..., Any]) -> None:
        keys = torch.randn(2, 4, 8)
        for _ in range(12):
            q = torch.randn(2, 1, 8)
            torch.testing.assert_close(compiled(q, keys), step(q, keys))
            keys = torch.cat([keys, torch.randn(2, 1, 8)], 1)

    assert compiles(grow, step) <= 2


# ---- sizes of programs


def scaled_chain(count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Twice as many operators as `count`, in a chain."""

    def fn(a: torch.Tensor) -> torch.Tensor:
        for i in range(count):
            a = (a * 1.001 + 0.5 * i).clamp(-3, 3)
        return a

    return fn


def calls_of_compile(count: int) -> int:
    """Calls of functions of ours that planning a chain takes: its time, on a machine that nothing else disturbs."""
    (traced,) = trace_fn(scaled_chain(count), [torch.randn(64)])
    machine = machine_of("cpu", use_measured=False)
    made = 0

    def watch(frame: FrameType, event: str, arg: object) -> None:
        nonlocal made
        made += event == "call" and "/fusewise/" in frame.f_code.co_filename

    sys.setprofile(watch)
    try:
        captured = import_graph(traced.gm, traced.example_inputs, "balanced", "cpu")
        _, kernels = plan_captured(captured, make_options(), machine, compiler_for(machine, "balanced"))
        source = unit(list(kernels.values()))
    finally:
        sys.setprofile(None)
    assert len(kernels) == 1 and len(source) < 800 * count, (len(kernels), len(source) / count)
    return made


def test_a_thousand_ops_run() -> None:
    a = torch.randn(64)
    assert torch.equal(torch.compile(scaled_chain(500), backend=STRICT)(a), scaled_chain(500)(a))


def test_the_work_of_a_compile_grows_less_than_with_the_square_of_a_program() -> None:
    assert calls_of_compile(240) < 9 * calls_of_compile(60)


def peak_bytes(run: Callable[[], object]) -> int:
    """Greatest bytes that PyTorch has allocated at once while `run` runs, beside what it had before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    changes = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    alive = peak = 0
    for change in sorted(changes, key=lambda e: e.start_ns()):
        alive += change.nbytes()
        peak = max(peak, alive)
    return peak


def test_ten_relus_that_feed_ten_matmuls_take_no_more_memory_than_eager() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x)
        for i in range(10):
            total = total + torch.relu(x * (i + 1)) @ w
        return total

    x, w = torch.randn(512, 512), torch.randn(512, 512)
    compiled = torch.compile(fn, backend=STRICT)
    torch.testing.assert_close(compiled(x, w), fn(x, w))
    assert peak_bytes(lambda: compiled(x, w)) <= peak_bytes(lambda: fn(x, w))


def test_the_norm_of_one_element_is_its_absolute_value() -> None:
    a = torch.randn(50, 1, requires_grad=True)
    same(lambda a: (F.normalize(a, dim=1), torch.linalg.vector_norm(a, dim=1), a.norm(p=3, dim=1)), a)
    same(lambda a: torch.linalg.vector_norm(a, dim=1), torch.tensor([[3e38], [1e-30], [-INF], [NAN]]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [3, 7, 100, 3001])
def test_the_deviation_of_equal_values_and_its_gradient_are_zero(dtype: torch.dtype, rows: int) -> None:
    """A rounded mean of equal values is not one of them, and beside 0 the gradient of a square root is of size 1."""
    column = torch.tanh(torch.linspace(-3, 3, 9, dtype=torch.float64)).to(dtype)
    a = column.expand(rows, 9).contiguous().requires_grad_()
    for dim in (0, 1):
        x = a if dim == 0 else a.detach().t().contiguous().requires_grad_()
        same(lambda x, d=dim: (x.std(d), *torch.std_mean(x * 2, d)), x, close=True)
        deviations = torch.compile(lambda x, d=dim: (x.std(d), x.std(d, correction=0)), backend=STRICT)(x)
        assert not any(d.any() for d in deviations)
    same(lambda x: x.std(0), torch.tensor([[INF, -INF, 3e38, NAN, 1.0]] * 5), close=True)


@pytest.mark.parametrize("shape", [(5, 16, 0), (2, 5, 16, 0), (7, 0, 3), (0, 16, 5), (5, 0, 0)])
def test_rows_of_nothing_reduced_along_and_across(shape: tuple[int, ...]) -> None:
    """One kernel walks the rows and keeps sums of each column: of rows without an element there are no columns."""
    x = torch.rand(shape)
    last = x.dim() - 1
    same(lambda a: ((a > 0.3).any(0), torch.where((a > 0.3).any(last), 1.0, -1.0)), x)
    same(lambda a: (a.sum(0), a.sum(last), (a * 2).amax(1) if a.shape[1] else a), x)


@pytest.mark.parametrize("ints", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_integers_of_what_is_none_are_the_processors(dtype: torch.dtype, ints: torch.dtype) -> None:
    """A NaN or an infinity that the compiler can see must not be folded to another integer than eager gives."""
    nan, inf = math.nan, math.inf
    for values in ([nan] * 8, [inf] * 8, [-inf] * 8, [1e4, nan, -1e4, inf] * 2):
        x = torch.tensor([values] * 6, dtype=dtype)
        same(lambda a: (a.max(0)[0].to(ints), a.max().to(ints), a.amin(1).to(ints), a.sum(1).to(ints)), x)
        same(lambda a: (a.t().max(0)[0].to(ints), a.t().max(1)[0].to(ints)), x)
        for value in (nan, inf):
            same(lambda a, v=value: (torch.full_like(a, v).to(ints), torch.where(a > 2, v, a).to(ints)), x)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_views_of_what_eager_makes_anew_share_memory(shape: tuple[int, ...]) -> None:
    """A roll, flip or repeat that moves nothing is a tensor of its own all the same, and its views lie in it."""

    def rolled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        moved = x.roll(1, -1)
        return moved.view(-1, 1), moved, moved[0]

    def flipped(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        moved = x.flip(0)
        return moved.reshape(-1), moved.t(), x.repeat(1, 1), x

    for fn in (rolled, flipped):
        torch._dynamo.reset()
        x = torch.rand(shape)
        got, want = torch.compile(fn, backend=STRICT)(x), fn(x)
        for ours, eager in zip(got, want, strict=True):
            assert torch.equal(ours, eager) and ours.stride() == eager.stride()
        for results in (got, want):
            results[0].fill_(7)
        assert [r.tolist() for r in got] == [r.tolist() for r in want], "a write shows where it does in eager"


@pytest.mark.parametrize("columns", [300, 300_000])  # in one piece, and long enough to be taken in parts
def test_deviations_from_what_is_no_mean(columns: int) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return ((x - x.sum(-1, keepdim=True) / 1000) ** 2).sum(-1)

    x = torch.randn(4, columns)
    torch.testing.assert_close(fusewise.compile(f)(x), f(x))
