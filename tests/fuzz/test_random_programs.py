"""Random PyTorch programs, compiled and in eager: a few dozen here, thousands by `python -m tests.fuzz`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fusewise.backend import Backend
from fusewise.capture.reference import boxed_eager
from fusewise.config import make_options
from tests.fuzz import runner
from tests.fuzz.generator import random_program
from tests.fuzz.programs import Input, Op, Program, smaller
from tests.fuzz.runner import problem_of, shrink

PROGRAMS = 24


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Graph breaks are expected, and not worth a page each."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_program_does_what_eager_does(seed: int) -> None:
    program = random_program(seed)
    problem = problem_of(program)
    assert not problem, f"{problem}\n{program.describe(0, {})}"


def test_a_seed_gives_one_program() -> None:
    assert random_program(7) == random_program(7)
    sources = {random_program(seed).source() for seed in range(20)}
    assert len(sources) == 20


def test_a_failure_is_made_small() -> None:
    """What is wrong with a program stays while everything else goes."""
    kinds = (Input(torch.float32, (4, 6), grad=True), Input(torch.float32, (4, 6), "transposed"))
    ops = (Op("{0} + {1}", (0, 1)), Op("{0}.sin()", (2,)), Op("{0} * 2", (3,)), Op("{0}.exp()", (0,)))
    program = Program(kinds, ops, (4, 5), (False, False), (1e-7, 1e-7))

    def fails(candidate: Program) -> bool:
        return any("sin" in op.text for op in candidate.ops)

    while (less := next((p for p in smaller(program) if fails(p)), None)) is not None:
        program = less
    assert program.source() == "def fn(x0):\n    v1 = x0.sin()\n    return v1,\n"
    assert program.inputs[0].shape == (1, 1) and not program.inputs[0].grad


def test_a_wrong_result_is_reported_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_graph(gm: torch.fx.GraphModule, inputs: object, options: object, *, role: str) -> Any:
        eager = boxed_eager(gm)
        broken = any("sin" in str(n.target) for n in gm.graph.nodes)

        def call(arguments: list[Any]) -> list[Any]:
            outs = eager(arguments)
            return [o + 1 if broken and isinstance(o, torch.Tensor) else o for o in outs]

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    monkeypatch.setattr(runner, "STRICT", Backend(make_options(strict=True), compile_graph))
    kinds = (Input(torch.float32, (4, 6)), Input(torch.float32, (4, 6), "transposed"))
    ops = (Op("{0} + {1}", (0, 1)), Op("{0}.sin()", (2,)), Op("{0} * 2", (3,)), Op("{0}.exp()", (0,)))
    program = Program(kinds, ops, (4, 5), (False, False), (1e-7, 1e-7))
    problem = problem_of(program)
    assert problem.startswith("output 0: error")
    assert shrink(program, problem).source() == "def fn(x0):\n    v1 = x0.sin()\n    return v1,\n"
