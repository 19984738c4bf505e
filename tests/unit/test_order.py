"""The order of a kernel's instructions: few values alive at once, the same results."""

from __future__ import annotations

import random

import pytest

from fusewise.ir.affine import axis
from fusewise.ir.dtypes import F32
from fusewise.lower.body import Body
from fusewise.lower.kernel import Buffer, Compute, Instr, Load, Store, operands
from fusewise.lower.order import most_alive, order_values


def shared_dag(seed: int, inputs: int, steps: int, reach: int) -> Body:
    """Sums of recent values, so that outputs share much of what they need."""
    draw = random.Random(seed)
    instrs: list[Instr] = [Load(n, axis("x0"), F32) for n in range(inputs)]
    for _ in range(steps):
        recent = range(max(0, len(instrs) - reach), len(instrs))
        instrs.append(Compute("add", (draw.choice(recent), draw.choice(recent)), F32))
    read = {o for i in instrs for o in operands(i)}
    ends = [n for n in range(len(instrs)) if n not in read]
    instrs += [Store(inputs + k, axis("x0"), end) for k, end in enumerate(ends)]
    names = [Buffer(f"b{n}", F32, "in" if n < inputs else "out", n) for n in range(inputs + len(ends))]
    varies = tuple(frozenset({"x0"}) for _ in instrs)
    return Body({"x0": 64}, frozenset(), frozenset(), tuple(names), tuple(instrs), varies)


def stored(body: Body) -> dict[int, int]:
    """What each output buffer gets, in integers, with buffer n holding n + 1 at the start."""
    values: list[int] = []
    found: dict[int, int] = {}
    for number, instr in enumerate(body.instrs):
        assert all(o < number for o in operands(instr)), "an operand comes after its use"
        match instr:
            case Load(buffer=buffer):
                values.append(buffer + 1)
            case Compute(args=(a, b)):
                values.append(values[a] + values[b])
            case Store(buffer=buffer, value=value):
                values.append(0)
                found[buffer] = values[value]
            case _:
                raise AssertionError(instr)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_results_stay_and_no_more_is_alive(seed: int) -> None:
    before = shared_dag(seed, inputs=20, steps=150, reach=15 if seed % 2 else 60)
    after = order_values(before)
    assert stored(after) == stored(before)
    assert most_alive(after.instrs) < most_alive(before.instrs)


def test_small_kernels_stay_as_they_are() -> None:
    body = shared_dag(0, inputs=3, steps=6, reach=4)
    assert order_values(body) is body
