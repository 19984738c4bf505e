"""The grammar of --input."""

from __future__ import annotations

import pytest

from fusewise.commands.inputs import TensorSpec, ValueSpec, make_input, parse_input, parse_inputs
from fusewise.errors import UnknownName, UsageError


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("x:bf16[8192,4096]", TensorSpec("x", "bf16", (8192, 4096))),
        (" x : f32 [ 2 , 3 ] ", TensorSpec("x", "f32", (2, 3))),
        ("x:f32[]", TensorSpec("x", "f32", ())),
        ("x:f32[0,3]", TensorSpec("x", "f32", (0, 3))),
        ("x:float32[4]+grad", TensorSpec("x", "f32", (4,), grad=True)),
        ("x:half[4] + grad", TensorSpec("x", "f16", (4,), grad=True)),
        ("ids:i64[8,128]<32000", TensorSpec("ids", "i64", (8, 128), limit=32000)),
        ("mask:bool[3]", TensorSpec("mask", "bool", (3,))),
        ("p=0.1", ValueSpec("p", 0.1)),
        ("shape=[3, 4]", ValueSpec("shape", [3, 4])),
        ("how='tanh'", ValueSpec("how", "tanh")),
        ("flag=True", ValueSpec("flag", True)),
    ],
)
def test_grammar(text: str, spec: TensorSpec | ValueSpec) -> None:
    assert parse_input(text) == spec


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "is not an input"),
        ("x:f32[2", "is not an input"),
        ("x:f32[2,a]", "'a' is not a size"),
        ("x:f32[-1]", "'-1' is not a size"),
        ("x:i64[2]+grad", "only a floating-point tensor"),
        ("x:f32[2]<5", "limits integers"),
        ("x:i64[2]<0", "limits integers"),
        ("x=tanh", "is not a Python number"),
        ("x=__import__('os')", "is not a Python number"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_input(text)


def test_unknown_dtype_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean bf16"):
        parse_input("x:bf15[2]")


def test_a_name_twice() -> None:
    with pytest.raises(UsageError, match="given twice"):
        parse_inputs(["x:f32[2]", "x:f32[3]"])


def test_tensors_follow_their_specs() -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    x = make_input(parse_input("x:bf16[3,5]+grad"), "cpu", generator)
    assert x.dtype == torch.bfloat16 and x.shape == (3, 5) and x.requires_grad and x.is_leaf
    ids = make_input(parse_input("ids:u8[1000]<7"), "cpu", generator)
    assert ids.dtype == torch.uint8 and set(ids.tolist()) == set(range(7))
    small = make_input(parse_input("ids:i8[4]<1000"), "cpu", generator)  # a limit that the type cannot hold
    assert small.dtype == torch.int8
    assert make_input(parse_input("mask:bool[64]"), "cpu", generator).unique().tolist() == [False, True]
    assert make_input(parse_input("p=0.5")) == 0.5


def test_meta_takes_no_memory() -> None:
    torch = pytest.importorskip("torch")
    x = make_input(parse_input("x:f32[1000000,1000000]+grad"), "meta")
    assert x.device.type == "meta" and x.shape == (10**6, 10**6) and x.requires_grad and torch.is_tensor(x)
