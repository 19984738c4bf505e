"""The verifier finds each kind of broken graph, and the printer shows what it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fusewise.errors import IRError
from fusewise.ir import affine
from fusewise.ir.builder import Builder
from fusewise.ir.dtypes import BF16, BOOL, F32, I32, I64
from fusewise.ir.graph import Graph, Node, Origin, SymbolInfo, freeze_attrs
from fusewise.ir.printer import print_graph, print_node
from fusewise.ir.sizes import symbol
from fusewise.ir.verifier import check


def _program() -> Graph:
    """A graph with a node of most kinds."""
    b = Builder("cuda")
    s = symbol("s0")
    b.symbol("s0", SymbolInfo(128, "inputs[0].size(0)", 2, 4096))
    x = b.input((s, 8), BF16, (1, s))
    seed, rows = b.input((), I64), b.input((5,), I64)
    b.origin = Origin("aten.gelu.default", "somewhere/model.py", 12, "y = gelu(x)")
    wide = x.cast(F32)
    kept = b.where(b.keep(seed, (s, 8), 0, 0.5), wide * 2.0, 0.0)
    b.origin = Origin("aten.sum.dim_IntList")
    total = b.reduce("sum", kept, (1,), keepdim=True)
    b.origin = Origin()
    shifted = kept - b.expand(total, (s, 8))
    padded = b.pad(b.permute(shifted, (1, 0)), (1, 0), (0, 0), 0.0)
    joined = b.cat([padded, padded], 0)
    picked = b.gather(joined, rows, 0, (5, s), [None, affine.axis("o1")], [affine.axis("o0")])
    call = b.opaque([picked], 0, "no expansion")
    return b.finish([b.result(call, 0, (5, s), F32, (s, 1)), b.size(s), b.iota((s,), 0)])


def _change(graph: Graph, which: str, **changes: Any) -> Graph:
    """The graph with the first node of op `which` changed; `attrs` are merged."""
    nodes = list(graph.nodes)
    number = next(n.id for n in nodes if n.op == which)
    node = nodes[number]
    if "attrs" in changes:
        merged = {k: v for k, v in {**dict(node.attrs), **changes["attrs"]}.items() if v is not ...}
        changes["attrs"] = freeze_attrs(merged)
    nodes[number] = replace(node, **changes)
    return replace(graph, nodes=tuple(nodes))


def test_a_sound_graph_passes() -> None:
    check(_program())


BROKEN: dict[str, Callable[[Graph], Graph]] = {
    "its id is 99": lambda g: _change(g, "sum", id=99),
    "unknown op": lambda g: _change(g, "sum", op="summ"),
    "does not come before": lambda g: _change(g, "sum", args=(len(g.nodes) - 1,)),
    "takes 3 operands": lambda g: _change(g, "where", args=(0,)),
    "operands of": lambda g: _change(g, "mul", args=(g.inputs[1], 3)),
    "condition is": lambda g: _change(g, "where", args=(3, 3, 3)),
    "its dtype is i32": lambda g: _change(g, "sum", dtype=I32),
    "its shape is": lambda g: _change(g, "sum", shape=(3,)),
    "dims": lambda g: _change(g, "sum", attrs={"dims": (2,)}),
    "dims \\(\\)": lambda g: _change(g, "sum", attrs={"dims": ()}),
    "lacks the attribute 'dims'": lambda g: _change(g, "sum", attrs={"dims": ...}),
    "has not one index a dim": lambda g: _change(g, "view", attrs={"map": ()}),
    "has an axis": lambda g: _change(g, "gather", attrs={"map": (None, affine.axis("o9"))}),
    "a pad by": lambda g: _change(g, "pad", attrs={"low": (-1, 0)}),
    "along dim 0": lambda g: _change(g, "cat", shape=(3, symbol("s0"))),
    "an index of": lambda g: _change(g, "gather", args=(15, 9)),
    "keep_prob": lambda g: _change(g, "keep", attrs={"keep_prob": 1.5}),
    "seed of": lambda g: _change(g, "keep", args=(0,)),
    "no opaque call": lambda g: _change(g, "result", args=(0,)),
    "lacks the attribute 'reason'": lambda g: _change(g, "opaque", attrs={"reason": ...}),
    "no dim of rank": lambda g: _change(g, "iota", attrs={"dim": 1}),
    "output %77": lambda g: replace(g, outputs=(77,)),
    "an opaque call": lambda g: replace(g, outputs=(next(n.id for n in g if n.op == "opaque"),)),
    "strides": lambda g: replace(g, strides={0: (1,)}),
    "input 0": lambda g: replace(g, inputs=g.inputs[::-1]),
    "unknown size symbols": lambda g: replace(g, symbols={"s1": g.symbols["s0"]}),
    "negative size": lambda g: _change(g, "sum", shape=(-1,)),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_graph_is_found(rule: str) -> None:
    with pytest.raises(IRError, match=rule):
        check(BROKEN[rule](_program()))


def test_index_out_of_bounds_is_found() -> None:
    b = Builder()
    x = b.input((4,), F32)
    for index in (affine.axis("o0") + 1, affine.axis("o0") * -1 + 2):
        value = b.view(x, (4,), [index])
        with pytest.raises(IRError, match="reaches"):
            check(b.finish([value]))
    check(b.finish([b.view(x, (4,), [affine.axis("o0") * -1 + 3])]))


def test_half_floats_are_not_computed_on() -> None:
    b = Builder()
    x = b.input((4,), BF16)
    with pytest.raises(IRError, match="cast to f32 first"):
        check(b.finish([x + x]))


def test_constants_fit_their_dtype() -> None:
    graph = Graph((Node(0, "const", (), (), BOOL, (("value", 3),)),), (), (0,))
    with pytest.raises(IRError, match="no bool"):
        check(graph)


def test_text_form() -> None:
    text = print_graph(_program())
    assert (
        text
        == """\
graph cuda
s0: hint 128, 2 .. 4096, inputs[0].size(0)
%0: bf16[s0, 8] = input 0, strides (1, s0)
%1: i64[] = input 1
%2: i64[5] = input 2
%3: f32[s0, 8] = cast %0  # aten.gelu.default model.py:12
%4: bool[s0, 8] = keep %1, keep_prob 0.5, slot 0  # aten.gelu.default model.py:12
%5: f32[] = const 2.0  # aten.gelu.default model.py:12
%6: f32[s0, 8] = mul %3, %5  # aten.gelu.default model.py:12
%7: f32[] = const 0.0  # aten.gelu.default model.py:12
%8: f32[s0, 8] = where %4, %6, %7  # aten.gelu.default model.py:12
%9: f32[s0] = sum %8, dims [1]  # aten.sum.dim_IntList
%10: f32[s0, 1] = view %9, [o0]  # aten.sum.dim_IntList
%11: f32[s0, 8] = view %10, [o0, 0]
%12: f32[s0, 8] = sub %8, %11
%13: f32[8, s0] = view %12, [o1, o0]
%14: f32[9, s0] = pad %13, low [1, 0], value 0.0
%15: f32[18, s0] = cat %14, %14, dim 0
%16: f32[5, s0] = gather %15, %2, dim 0, index_map [o0], map [*, o1]
%17: bool[] = opaque %16, key 0, reason no expansion
%18: f32[5, s0] = result %17, 0
%19: i64[] = size s0
%20: i64[s0] = iota dim 0
return %18, %19, %20
"""
    )


def test_text_without_origins() -> None:
    assert "#" not in print_graph(_program(), origins=False)


def test_one_node() -> None:
    b = Builder()
    x = b.input((4, symbol("s0")), F32)
    assert print_node((x + x).node) == "%1: f32[4, s0] = add %0, %0"
