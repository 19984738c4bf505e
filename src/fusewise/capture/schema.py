"""An FX call's arguments by its ATen schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fusewise.errors import Unsupported

_WRAPPED = re.compile(r"^(?:Optional|List)\[(.*)\]$")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call.

    Attributes:
        name: its name in the schema.
        type: `Tensor`, `number` (a Scalar), `int` (sizes too), `float`, `bool`, `str`, `ScalarType`, ...; lists
            and optional ones by what they hold.
        value: as the FX graph has it, or the schema's default.
    """

    name: str
    type: str
    value: Any


def arguments_of(node: Node) -> tuple[list[Argument], list[Argument]]:
    """Positional and keyword-only arguments in schema order, defaults filled in."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        raise Unsupported("not an ATen op")
    positional: list[Argument] = []
    keyword: list[Argument] = []
    for number, schema in enumerate(target._schema.arguments):
        if number < len(node.args):
            value: Any = node.args[number]
        elif schema.name in node.kwargs:
            value = node.kwargs[schema.name]
        elif schema.has_default_value():
            value = schema.default_value
        else:
            raise Unsupported(f"argument {schema.name} is missing")
        argument = Argument(schema.name, _element(schema.real_type), value)
        (keyword if schema.kwarg_only else positional).append(argument)
    return positional, keyword


def is_size_like(kind: str) -> bool:
    """True for the types that hold sizes and indexes."""
    return kind in ("int", "SymInt")


def viewed_operand(node: Node) -> Node | None:
    """The operand whose memory the result shares by the schema, None for an op that makes a new tensor."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    for number, schema in enumerate(target._schema.arguments):
        if schema.alias_info is not None and not schema.alias_info.is_write:
            value = node.args[number] if number < len(node.args) else node.kwargs.get(schema.name)
            return value if isinstance(value, Node) else None
    return None


def makes_views(node: Node) -> bool:
    """True where a result may share memory with an operand, by the schema, or for want of one."""
    return viewed_operand(node) is not None or not isinstance(node.target, torch._ops.OpOverload)


def _element(kind: object) -> str:
    text = str(kind)
    while (found := _WRAPPED.match(text)) is not None:
        text = found[1]
    return text


def has_other_strides(node: Node) -> bool:
    """True where eager's result may have other strides than the fake one.

    Indexing by one tensor gives the indexed dims the order of that tensor's dims in memory; torch's meta function asks
    the indexed tensor alone.
    """
    if node.target not in (torch.ops.aten.index.Tensor, torch.ops.aten._unsafe_index.Tensor):
        return False
    given = [n.meta["val"] for n in node.args[1] if isinstance(n, Node)]  # type: ignore[union-attr]
    return any(t.dim() > 1 and not all(map(_falls, t.stride(), t.stride()[1:])) for t in given)


def _falls(outer: int | torch.SymInt, inner: int | torch.SymInt) -> bool:
    """True where strides are surely in order; sizes that change are taken to be."""
    return not (isinstance(outer, int) and isinstance(inner, int)) or outer >= inner


def has_effect(node: Node) -> bool:
    """True for a call that must run even where nobody reads its result.

    torch also counts collectives, whose results carry their order, and draws of random numbers.
    """
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return node.is_impure()
    ordered = target.namespace == "_c10d_functional" or torch.Tag.nondeterministic_seeded in target.tags
    return not ordered and node.is_impure()
