"""What a call costs the host beside its kernels: tiny tensors, a warm cache, calls in a row.

The yardstick is a backend that goes through Dynamo and AOTAutograd like any other and then allocates the outputs
without computing them: what a contender takes beyond it is its own dispatch, its launches and its kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from fusewise.measure.contenders import Contender, own_entry
from fusewise.measure.program import Case, Cost, Direction, Function, Program
from fusewise.measure.results import CallOverhead
from fusewise.measure.stats import summarize
from fusewise.measure.timers import make_timer
from fusewise.measure.workload import prepare

CALLS = 200
SIZE = {"rows": 8, "cols": 16}


def _allocate_only(module: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., list[Any]]:
    """A graph's outputs by shape: inputs that it hands on as they are, fresh memory for the rest."""
    places = {node.name: i for i, node in enumerate(module.graph.find_nodes(op="placeholder"))}
    makers: list[Callable[[Sequence[Any]], Any]] = []
    for output in module.graph.output_node().args[0]:  # type: ignore[union-attr]
        if not isinstance(output, torch.fx.Node):
            makers.append(lambda _args, constant=output: constant)  # type: ignore[misc]
        elif output.name in places:
            makers.append(lambda args, i=places[output.name]: args[i])  # type: ignore[misc]
        else:
            makers.append(_allocator(output.meta["val"]))

    def run(args: list[Any]) -> list[Any]:
        outputs = [make(args) for make in makers]
        args.clear()
        return outputs

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _allocator(value: torch.Tensor) -> Callable[[Sequence[Any]], torch.Tensor]:
    shape, stride, dtype, device = value.shape, value.stride(), value.dtype, value.device
    return lambda _args: torch.empty_strided(shape, stride, dtype=dtype, device=device)


_empty_backend = aot_autograd(fw_compiler=_allocate_only, bw_compiler=_allocate_only)


def _compile_empty(function: Function) -> Function:
    return torch.compile(function, backend=_empty_backend)


EMPTY = Contender("empty", _compile_empty)


def _softmax_of_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x), dim=-1)


def _build(case: Case) -> tuple[Function, tuple[Any, ...]]:
    x = torch.ones(case.size["rows"], case.size["cols"], device=case.device, requires_grad=case.train)
    return _softmax_of_relu, (x,)


PROGRAM = Program(
    name="softmax_of_relu",
    build=_build,
    cost=lambda case: Cost(1, 1),
    sizes={"tiny": SIZE},
    dtypes=("fp32",),
    directions=("forward", "train"),
    note="one fused kernel each way",
)


def measure_overheads(
    contenders: Sequence[Contender], device: str, rounds: int = 30, calls: int = CALLS
) -> tuple[CallOverhead, ...]:
    """Host time of a call for eager, for the empty backend and for these contenders, in turns.

    A contender that does not compile is left out: the rows of the same run hold the reason.

    Args:
        rounds: samples of each, every one the mean of `calls` calls.
    """
    timer = make_timer(device)
    found = []
    directions: tuple[Direction, ...] = ("forward", "train")
    for direction in directions:
        torch._dynamo.reset()
        workload = prepare(PROGRAM, PROGRAM.case("tiny", "fp32", device, direction))
        steps = {}
        for contender in (EMPTY, *contenders):
            try:
                function = workload.function
                entry = contender.compile(own_entry(function) if contender.compiles else function)
                step = workload.step(entry)
                step()
            except Exception:  # left out, as the docstring says
                continue
            steps[contender.name] = step
        samples: dict[str, list[float]] = {name: [] for name in steps}
        for done in range(rounds + 1):
            for name, step in steps.items():
                begin = time.perf_counter_ns()
                for _ in range(calls):
                    step()
                elapsed_us = (time.perf_counter_ns() - begin) / 1e3 / calls
                timer.wait()
                if done:  # the first round warms up
                    samples[name].append(elapsed_us)
        found += [CallOverhead(name, direction, summarize(values)) for name, values in samples.items()]
    return tuple(found)
