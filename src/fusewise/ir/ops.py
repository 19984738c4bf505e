"""The primitive ops: arity, result type, cost, and whether a result's bits follow from IEEE arithmetic alone.

Composite PyTorch ops (gelu, softmax, norms, ...) are not here: `ir.expand` writes them in these.
Half-precision floats are stored and cast, never computed on: a caster stands at each boundary of a PyTorch op.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Result = Literal["same", "bool", "attr"]
Group = Literal["pointwise", "reduce", "view", "load", "random", "source", "opaque"]


@dataclass(frozen=True, slots=True)
class OpInfo:
    """One primitive op.

    Attributes:
        name: name in the text form.
        arity: number of operands (-1: any number).
        result: `same` as the last operand's dtype, `bool`, or `attr` (the node names it).
        group: how the op is lowered.
        cost: arithmetic cost of one element, in plain instructions on a GPU (a table to start from; the finalist's own
            machine code is counted later).
        exact: True where IEEE 754 or integer arithmetic fixes every bit, so that a fused kernel equals eager's.
        domain: `float`, `int`, `any` or `bool`: the operand types that the op takes.
    """

    name: str
    arity: int
    result: Result = "same"
    group: Group = "pointwise"
    cost: float = 1.0
    exact: bool = True
    domain: str = "any"


def _table(*infos: OpInfo) -> dict[str, OpInfo]:
    return {info.name: info for info in infos}


def _unary(names: str, cost: float, exact: bool, domain: str = "float") -> list[OpInfo]:
    return [OpInfo(n, 1, cost=cost, exact=exact, domain=domain) for n in names.split()]


OPS: dict[str, OpInfo] = _table(
    # sources
    OpInfo("input", 0, "attr", "source"),  # attrs: position
    OpInfo("const", 0, "attr", "source", 0.0),  # rank 0; attrs: value
    OpInfo("size", 0, "attr", "source", 0.0),  # rank 0, i64; attrs: expr
    OpInfo("iota", 0, "attr", "source", 0.5),  # i64; attrs: dim
    # a PyTorch op run as it is; attrs: key (into the capture's table), reason, aliases (True where a result may lie in
    # an operand's memory). `result` picks one of its outputs
    OpInfo("opaque", -1, "attr", "opaque"),
    OpInfo("result", 1, "attr", "opaque", 0.0),  # attrs: index
    # pointwise, one operand
    *_unary("neg abs", 1, True, "any"),
    *_unary("floor ceil trunc round", 2, True),  # round: half to even
    OpInfo("sqrt", 1, cost=8, exact=True, domain="float"),
    *_unary("exp exp2", 4, False),
    *_unary("expm1 log1p", 20, False),
    *_unary("log log2 log10", 8, False),
    *_unary("rsqrt", 4, False),
    *_unary("sin cos", 20, False),
    *_unary("tan asin acos atan sinh cosh asinh acosh atanh", 30, False),
    *_unary("tanh erf", 20, False),
    *_unary("erfc", 30, False),
    OpInfo("not", 1, domain="any"),  # bitwise; logical on bool
    OpInfo("copy", 1, cost=0.0),  # the identity; keeps its own layout when stored
    OpInfo("cast", 1, "attr", cost=1),  # attrs: saturating float -> int is undefined, as in eager
    OpInfo("bitcast", 1, "attr", cost=0.0),  # same width
    # pointwise, two operands
    OpInfo("add", 2),
    OpInfo("sub", 2),
    OpInfo("mul", 2),
    OpInfo("div", 2, cost=8, domain="float"),  # correctly rounded
    OpInfo("pow", 2, cost=60, exact=False, domain="float"),
    OpInfo("atan2", 2, cost=40, exact=False, domain="float"),
    OpInfo("fmod", 2, cost=30, exact=True, domain="float"),
    OpInfo("copysign", 2, domain="float"),
    OpInfo("minimum", 2),  # a NaN operand gives NaN
    OpInfo("maximum", 2),
    OpInfo("truncdiv", 2, cost=20, domain="int"),  # rounds toward 0; x / 0 never traps
    OpInfo("floordiv", 2, cost=24, domain="int"),  # rounds down; x / 0 never traps
    OpInfo("truncrem", 2, cost=20, domain="int"),
    OpInfo("and", 2, domain="int"),
    OpInfo("or", 2, domain="int"),
    OpInfo("xor", 2, domain="int"),
    OpInfo("shl", 2, domain="int"),  # a shift outside [0, bits) gives 0
    OpInfo("shr", 2, domain="int"),  # arithmetic; outside [0, bits): the sign
    *[OpInfo(n, 2, "bool") for n in ("eq", "ne", "lt", "le", "gt", "ge")],
    # cond (bool), value: the value; the call fails as eager's would where cond is false. attrs: error, message
    OpInfo("guard", 2),
    # pointwise, three operands
    OpInfo("where", 3),  # cond (bool), then, else
    OpInfo("fma", 3, domain="float"),  # a * b + c, rounded once
    # reductions; attrs: dims (of the operand, ascending). The result drops those dims
    OpInfo("sum", 1, group="reduce", exact=False),
    OpInfo("prod", 1, group="reduce", exact=False),
    OpInfo("max", 1, group="reduce"),  # a NaN gives NaN
    OpInfo("min", 1, group="reduce"),
    OpInfo("any", 1, group="reduce", domain="bool"),
    OpInfo("all", 1, group="reduce", domain="bool"),
    OpInfo("argmax", 1, "attr", "reduce", 2),  # i64, row-major over the reduced dims; first of equals; NaN wins
    OpInfo("argmin", 1, "attr", "reduce", 2),
    # index maps (no data moves)
    OpInfo("view", 1, group="view", cost=0.0),  # attrs: map, one Index an operand dim in the axes "o0", "o1", ...
    OpInfo("reshape", 1, group="view", cost=0.0),  # row-major regrouping of the dims
    # loads with a condition or an index that is data
    OpInfo("pad", 1, group="load", cost=2),  # attrs: map as in view, low and high bounds, value
    OpInfo("cat", -1, group="load", cost=2),  # attrs: dim
    OpInfo("gather", 2, group="load", cost=4),  # operand, index; attrs: dim, map (see Builder.gather)
    # random bits: a function of (seed, slot, row-major element number), nothing else
    OpInfo("keep", 1, "bool", "random", 6),  # operand: seed; attrs: slot, keep_prob
    OpInfo("uniform", 1, "attr", "random", 20),  # f32 in [0, 1); attrs: slot
)

ERRORS: dict[str, type[Exception]] = {"IndexError": IndexError, "RuntimeError": RuntimeError}
"""What a check of data can raise, by the name that a node or a kernel gives."""

POINTWISE: frozenset[str] = frozenset(n for n, i in OPS.items() if i.group == "pointwise")
REDUCE: frozenset[str] = frozenset(n for n, i in OPS.items() if i.group == "reduce")
