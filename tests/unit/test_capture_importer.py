"""FX graphs of ATen ops become our graph: values, strides, aliases, opaque calls, reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from fusewise.capture.captured import (
    ArgInput,
    ArgSize,
    ArgTensor,
    Captured,
    ConstantOutput,
    OpaqueCall,
    OtherInput,
    SizeInput,
    SizeOutput,
    TensorInput,
    flatten_results,
    size_text,
    size_value,
)
from fusewise.capture.importer import import_graph
from fusewise.errors import Unsupported
from fusewise.ir.graph import Origin
from fusewise.ir.sizes import symbol
from fusewise.ir.verifier import check
from tests.capture_oracle import run_captured

aten = torch.ops.aten


def graph_of(fn: Callable[..., Any], *inputs: Any) -> GraphModule:
    """An FX graph as AOTAutograd would make it; a tuple of results becomes a list of outputs."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = [mode.from_tensor(i) if isinstance(i, torch.Tensor) else i for i in inputs]
        return make_fx(fn)(*fake)


def capture(fn: Callable[..., Any], *inputs: Any, policy: str = "balanced") -> Captured:
    captured = import_graph(graph_of(fn, *inputs), inputs, policy, strict=True)
    check(captured.graph)
    return captured


def ops_of(captured: Captured) -> list[str]:
    return [n.op for n in captured.graph]


def agree(fn: Callable[..., Any], *inputs: torch.Tensor, policy: str = "balanced") -> Captured:
    """Captured, and checked to compute what eager computes, with eager's strides."""
    captured = capture(fn, *inputs, policy=policy)
    wanted = fn(*inputs)
    found = run_captured(captured, inputs)
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, check_stride=0 not in want.stride())
    return captured


def test_operands_by_schema_with_defaults_and_keywords() -> None:
    x, y = torch.randn(3, 4), torch.randn(4)
    captured = agree(
        lambda x, y: (
            torch.add(x, y, alpha=2),
            aten.sum.dim_IntList(x, [1], True),
            aten.gelu.default(x, approximate="tanh"),
            aten.clamp.default(x, None, 0.5),
            aten.slice.Tensor(x, 1, 1),
        ),
        x,
        y,
    )
    assert captured.reasons == ()
    assert captured.inputs == (TensorInput(0), TensorInput(1))


@pytest.mark.parametrize("other", [2, 2.5, True])
@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.bfloat16, torch.float64])
def test_promotion_is_pytorchs(dtype: torch.dtype, other: float) -> None:
    agree(lambda x: (x * other, x + torch.ones((), dtype=torch.float64), x == other), torch.ones(3).to(dtype))


def test_strides_of_eager_are_kept() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    captured = agree(lambda x: (x + 1, x.permute(3, 1, 0, 2) * 2, x.contiguous()), x)
    strides = [captured.graph.strides[o] for o in captured.graph.outputs]
    assert strides == [(60, 1, 15, 3), tuple((x.permute(3, 1, 0, 2) * 2).stride()), (60, 20, 5, 1)]


def test_equal_values_of_other_strides_are_copies() -> None:
    captured = agree(lambda x: (torch.zeros(4, 5), torch.zeros_like(x)), torch.randn(5, 4).t())
    first, second = captured.graph.outputs
    assert first != second
    assert captured.graph.strides[first] == (5, 1) and captured.graph.strides[second] == (1, 4)


def test_outputs_alias_only_where_eager_aliases() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second = x + 1, x + 1
        return first, second, first.view(-1), aten.clone.default(x), x.t()

    captured = agree(fn, torch.randn(3, 4))
    first, second, flat, clone, transposed = (captured.graph[o] for o in captured.graph.outputs)
    assert first.id != second.id, "two tensors in eager: writing to one must not change the other"
    assert flat.op in ("view", "reshape") and flat.args == (first.id,)
    assert clone.op == "copy"
    assert transposed.op == "view" and captured.graph[transposed.args[0]].op == "input"


def test_one_result_twice_is_one_tensor() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, y

    first, second = agree(fn, torch.randn(3)).graph.outputs
    assert first == second


def test_unchanged_cast_does_not_return_the_input() -> None:
    captured = agree(lambda x: (aten._to_copy.default(x, dtype=torch.float32),), torch.randn(3))
    assert captured.graph[captured.graph.outputs[0]].op == "copy"


def test_constants_of_the_graph_are_its_last_inputs() -> None:
    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.arange(4.0)

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [aten.add.Tensor(x, self.table)]

    x = torch.randn(3, 4)
    gm = torch.fx.symbolic_trace(Table())
    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.meta["val"] = torch.empty(3, 4)
    captured = import_graph(gm, [x], "balanced", strict=True)
    assert len(captured.graph.inputs) == 2 and torch.equal(captured.constants[0], torch.arange(4.0))
    torch.testing.assert_close(run_captured(captured, [x])[0], x + torch.arange(4.0))


def test_what_has_no_expansion_stays_a_call_with_its_reason() -> None:
    x = torch.randn(4, 6)
    captured = agree(lambda x: (torch.sort(x, 1)[0] + 1, x @ x.t(), torch.cumsum(x, 0)), x)
    reasons = {r.name: r.reason for r in captured.reasons}
    assert reasons["aten.mm.default"] == "a product that the vendor's kernel computes"
    assert reasons["aten.sort.default"] == "no expansion"
    assert [c.results for c in captured.opaques if c.name == "aten.sort.default"] == [("tensor", "tensor")]


def test_conservative_expands_only_what_is_exact() -> None:
    x = torch.randn(4, 6)
    captured = agree(lambda x: (torch.exp(x) + 1, x.sum(1)), x, policy="conservative")
    assert {r.name for r in captured.reasons} == {"aten.exp.default", "aten.sum.dim_IntList"}
    assert "add" in ops_of(captured)


def test_pieces_of_torchs_decomposition() -> None:
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    captured = agree(lambda x, y: (torch.nn.functional.mse_loss(x, y), torch.nn.functional.softshrink(x)), x, y)
    assert captured.reasons == ()
    conservative = capture(lambda x, y: (torch.nn.functional.mse_loss(x, y),), x, y, policy="conservative")
    assert {r.name for r in conservative.reasons} == {"aten.mse_loss.default"}


def test_ops_on_lists_become_one_op_a_tensor() -> None:
    tensors = [torch.rand(3), torch.rand(2, 2)]
    captured = agree(
        lambda a, b: (
            *torch._foreach_addcdiv([a, b], [b.sum(), a.sum()], [a, b], 0.5),
            *torch._foreach_maximum([a, b], 0.5),
            *torch._foreach_norm([a, b]),
        ),
        *tensors,
    )
    assert captured.reasons == ()


def test_types_that_the_ir_lacks_pass_through_opaque_calls() -> None:
    x = torch.randn(3, dtype=torch.complex64)
    captured = capture(lambda x: (torch.view_as_real(x * 2) + 1,), x)
    assert captured.graph[captured.graph.inputs[0]].dtype.name == "complex64"
    assert [r.name for r in captured.reasons] == ["aten.mul.Tensor", "aten.view_as_real.default"]
    assert captured.reasons[0].reason == "dtype complex64"
    assert ops_of(captured).count("add") == 1


def test_numbers_known_at_run_time_only() -> None:
    gm = torch.fx.symbolic_trace(lambda x: [aten.mul.Tensor(x, aten._local_scalar_dense.default(aten.sum.default(x)))])
    values = {aten.sum.default: torch.empty(()), aten._local_scalar_dense.default: 1.5, aten.mul.Tensor: torch.empty(3)}
    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.meta["val"] = values[node.target]
    captured = import_graph(gm, [torch.randn(3)], "balanced", strict=True)
    assert [c.results for c in captured.opaques] == [("scalar",), ("tensor",)]
    x = torch.randn(3)
    torch.testing.assert_close(run_captured(captured, [x])[0], x * x.sum())


def test_an_op_with_an_effect_is_refused() -> None:
    with pytest.raises(Unsupported, match="has an effect"):
        capture(lambda x: (aten.add_.Tensor(x, 1),), torch.randn(3))


def test_a_cpu_scalar_in_a_graph_on_a_gpu() -> None:
    with FakeTensorMode():
        x, s = torch.empty(4, 8, device="cuda"), torch.empty((), dtype=torch.float64)
        gm = make_fx(lambda x, s: (x * s + s, s * 2, x.cpu() + 1))(x, s)
        captured = import_graph(gm, [x, s], "balanced", strict=True)
    assert captured.graph.device == "cuda:0"
    assert [(r.name, r.reason) for r in captured.reasons] == [
        ("aten._to_copy.default", "a CPU scalar in a graph on a GPU"),
        ("aten.mul.Tensor", "a tensor on cpu in a graph on cuda:0"),
        ("aten._to_copy.default", "a tensor on cpu in a graph on cuda:0"),
        ("aten.add.Tensor", "a tensor on cpu in a graph on cuda:0"),
    ]
    assert [n.op for n in captured.graph if n.op in ("mul", "add")] == ["mul", "add"]


def test_origin_is_the_users_line() -> None:
    gm = graph_of(lambda x: (x + 1,), torch.randn(3))
    frames = ('  File "model.py", line 7, in forward', f'  File "{torch.__file__}", line 1, in add')
    trace = f"{frames[0]}\n    return x + 1\n{frames[1]}\n    pass\n"
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = trace
    captured = import_graph(gm, [torch.randn(3)], "balanced")
    (added,) = (n for n in captured.graph if n.op == "add")
    assert added.origin == Origin("aten.add.Tensor", "model.py", 7, "return x + 1", call=added.origin.call)
    assert added.origin.call == next(n.name for n in gm.graph.nodes if n.op == "call_function")


def test_other_outputs_and_inputs() -> None:
    gm = torch.fx.symbolic_trace(lambda x, n, flag: [x, None, n, flag])
    captured = import_graph(gm, [torch.randn(3), 5, "text"], "balanced")
    assert captured.inputs == (TensorInput(0), SizeInput(5), OtherInput())
    assert captured.outputs[1:3] == (ConstantOutput(None), SizeOutput(5))
    assert run_captured(captured, [torch.zeros(3), 5, "text"])[1:] == [None, 5, "text"]


def _call(target: Callable[..., Any], *args: Any, **kwargs: Any) -> OpaqueCall:
    return OpaqueCall(target, args, kwargs, ("tensor",), "f", "", Origin())


def test_opaque_call_puts_arguments_in_their_places() -> None:
    s0 = symbol("s0")

    def target(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    call = _call(
        target,
        ArgTensor(1),
        [ArgTensor(0), None, (ArgSize(s0 * s0 + 2), "x")],
        slice(None, ArgSize(3 * s0), None),
        **{"dim": 1, "odd name'": {"k": ArgInput(0)}},
    )
    args, kwargs = call.bind()(["a", "b"], {"s0": 4}, ["third"])
    assert args == ("b", ["a", None, (18, "x")], slice(None, 12, None))
    assert kwargs == {"dim": 1, "odd name'": {"k": "third"}}
    assert _call(target, ArgTensor(0), ArgTensor(1)).bind()(["a", "b"], {}, []) == (("a", "b"), {})


@pytest.mark.parametrize("size", [3, symbol("s0"), symbol("s0") ** 2 * 3 - symbol("s1") + 1, -symbol("s1")])
def test_size_text_and_value_agree(size: Any) -> None:
    values = {"s0": 5, "s1": 7}
    assert eval(size_text(size), {"s": values}) == size_value(size, values)


def test_results_are_numbered_flat() -> None:
    assert flatten_results((1, [2, (3, None)], 4)) == [1, 2, 3, None, 4]
    nested: Sequence[Any] = flatten_results(7)
    assert nested == [7]


@pytest.mark.parametrize("fn", [torch.linalg.cross, torch.nn.functional.huber_loss, torch.nn.functional.mse_loss])
def test_pieces_of_a_16_bit_op_round_no_more_than_eager(fn: Callable[..., torch.Tensor]) -> None:
    x, y = (torch.randn(64, 3, generator=torch.Generator().manual_seed(s)).bfloat16() for s in (0, 1))
    captured = capture(lambda x, y: (fn(x, y),), x, y)
    assert captured.reasons == ()
    (found,) = run_captured(captured, [x, y])
    exact = fn(x.double(), y.double())
    assert found.dtype == torch.bfloat16
    assert (found - exact).abs().max() <= (fn(x, y) - exact).abs().max()
