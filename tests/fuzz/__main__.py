"""The nightly command: random programs and random IR graphs for a given time.

    python -m tests.fuzz --count 10000 --seed 0 --minutes 20

A third of the time goes to IR graphs run by the interpreter, a third to IR graphs compiled to C++ in batches, the rest
to PyTorch programs through torch.compile. A failure is shrunk and printed as Python (or as IR), with the seed that
gives it again: `--kind program --seed N --count 1`. The exit code is 1 where anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from fusewise.ir.graph import Graph
from fusewise.ir.printer import print_graph
from tests.fuzz import ir_check, runner
from tests.fuzz.generator import random_program
from tests.fuzz.ir_graphs import random_graph

BATCH = 20  # IR graphs in one C++ unit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="graphs and programs in all")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--kind", choices=["all", "program", "graph", "compiled"], default="all")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)  # graph breaks are expected
    kinds: dict[str, Callable[[int, int], Iterator[tuple[int, str]]]] = {
        "graph": graphs,
        "compiled": compiled_graphs,
        "program": programs,
    }
    chosen = list(kinds) if args.kind == "all" else [args.kind]
    failures = tried = 0
    for number, kind in enumerate(chosen):
        end = time.monotonic() + args.minutes * 60 / len(chosen)
        # graphs are cheap: they take what the dear kinds leave of the count only where there is one kind
        count = args.count if len(chosen) == 1 else args.count * (6, 3, 1)[number] // 10
        for done, problem in kinds[kind](args.seed, count):
            tried += done
            if problem:
                failures += 1
                print(f"--- {kind}\n{problem}", flush=True)
            if time.monotonic() > end:
                break
    print(f"{tried - failures} passed, {failures} failed")
    return 1 if failures else 0


def programs(first: int, count: int) -> Iterator[tuple[int, str]]:
    """(programs tried, what failed) of each seed."""
    for seed in range(first, first + count):
        program = random_program(seed)
        problem = runner.problem_of(program)
        if problem:
            small = runner.shrink(program, problem)
            problem = f"seed {seed}: {problem}\n{small.describe(0, {})}\n-> {runner.problem_of(small)}"
        yield 1, problem


def graphs(first: int, count: int) -> Iterator[tuple[int, str]]:
    """The same for IR graphs through the interpreter of kernels, every other one with reductions split early."""
    for seed in range(first, first + count):
        graph, runs = random_graph(seed)
        small = seed % 2 == 1
        for sizes in runs:
            problem = ir_check.problem_of(graph, sizes, small)
            yield 1, _shrunk(seed, graph, problem, partial(ir_check.problem_of, sizes=sizes, small_parts=small))


def compiled_graphs(first: int, count: int) -> Iterator[tuple[int, str]]:
    """The same for IR graphs compiled to C++."""
    for start in range(first, first + count, BATCH):
        seeds = range(start, min(start + BATCH, first + count))
        drawn = [(s, g, runs[-1]) for s in seeds for g, runs in [random_graph(s)] if runs]
        small = start // BATCH % 2 == 1
        problems = _compiled([(g, sizes) for _, g, sizes in drawn], small)
        for (seed, graph, sizes), problem in zip(drawn, problems, strict=True):
            again = partial(_one_compiled, sizes=sizes, small=small)
            yield 1, _shrunk(seed, graph, problem, again)


def _compiled(drawn: list[tuple[Graph, dict[str, int]]], small: bool) -> list[str]:
    with contextlib.suppress(Exception):
        return ir_check.compiled_problems(drawn, small)
    # one of them does not compile: each by itself
    return [_one_compiled(graph, sizes, small) for graph, sizes in drawn]


def _one_compiled(graph: Graph, sizes: dict[str, int], small: bool) -> str:
    try:
        return ir_check.compiled_problems([(graph, sizes)], small)[0]
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"


def _shrunk(seed: int, graph: Graph, problem: str, again: Callable[[Graph], str]) -> str:
    if not problem:
        return ""
    kind = problem.split(":")[0]
    small = ir_check.shrink(graph, lambda g: again(g).split(":")[0] == kind, 60)
    return f"seed {seed}: {problem}\n{print_graph(small, origins=False)}-> {again(small)}"


if __name__ == "__main__":
    sys.exit(main())
