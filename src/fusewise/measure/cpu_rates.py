"""Measures the classes of instructions of a CPU (`device.cpu_rates`) with kernels that hold more or less of each.

One thread, data in the caches, the best of many runs: what a kernel takes beyond one with less of a class is the class.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from fusewise.device.cpu import CpuModel
from fusewise.device.cpu_rates import MEASURED_RATES
from fusewise.errors import EnvironmentFailure

_ELEMENTS = 1 << 17  # 512 KB of fp32: level 2 holds what goes in and comes out
_FEW, _MANY = 2, 6
_RUNS = 150
_DROP = 0.1

Step = Callable[..., torch.Tensor]
"""Called with tensors and the number of the step."""

Compile = Callable[[Callable[..., torch.Tensor]], Callable[..., torch.Tensor]]


def _scaled(x: torch.Tensor, number: int) -> torch.Tensor:
    return x * (0.5 + 0.05 * number)


# class -> what one step computes beside a multiplication and an addition, and how many of those it adds to them
_STEPS: dict[str, tuple[Step, float]] = {
    "plain_cycles": (lambda x, n: _scaled(x, n) * x, 1.0),
    "division_cycles": (lambda x, n: 1.25 / _scaled(x, n), 0.0),
    "transcendental_cycles": (lambda x, n: torch.exp(_scaled(x, n)), 0.0),
    "conversion_cycles": (lambda x, n: _scaled(x, n).to(torch.bfloat16).to(torch.float32), 0.0),
    "random_cycles": (lambda x, n: torch.nn.functional.dropout(_scaled(x, n), _DROP), 2.0),
}
_CONVERSIONS = 2.0  # there and back


def measure_rates(cpu: CpuModel, compile_function: Compile) -> dict[str, float]:
    """The figures of `device.cpu_rates.MEASURED_RATES` of one core, in cycles of the model's clock.

    Args:
        compile_function: `fusewise.compile`.

    Raises:
        EnvironmentFailure: the clock ran too unevenly: a class came out at no time.
    """
    lanes = cpu.vector_bits // 32
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            x = torch.rand(_ELEMENTS) + 0.5
            steps = {name: _step_us(step, compile_function, x) for name, (step, _) in _STEPS.items()}
            # a table that level 1 holds
            table, places = torch.rand(4096), torch.randint(0, 4096, (_ELEMENTS,))
            gather_us = _step_us(_gathered, compile_function, table, places)
    finally:
        torch.set_num_threads(threads)
    to_cycles = cpu.clock_hz / 1e6 * lanes / _ELEMENTS
    plain = steps["plain_cycles"] * to_cycles / 3  # a multiplication, a second one and an addition
    found = {"plain_cycles": plain, "gather_cycles": gather_us * to_cycles / lanes}
    for name, (_, more) in _STEPS.items():
        if name != "plain_cycles":
            found[name] = steps[name] * to_cycles - (2 + more) * plain
    found["conversion_cycles"] /= _CONVERSIONS
    if any(value <= 0 for value in found.values()):
        raise EnvironmentFailure(
            "the rates of this CPU cannot be told: other work disturbs the measurement.",
            "Run it again when the machine does nothing else.",
        )
    return {name: found[name] for name in MEASURED_RATES}


def _gathered(table: torch.Tensor, places: torch.Tensor, number: int) -> torch.Tensor:
    return table[places ^ number]


def _step_us(step: Step, compile_function: Compile, *args: torch.Tensor) -> float:
    """Time of one more step in a sum of independent ones."""

    def chain(count: int) -> Callable[..., torch.Tensor]:
        def run(*args: torch.Tensor) -> torch.Tensor:
            total = step(*args, 0)
            for number in range(1, count):
                total = total + step(*args, number)
            return total

        return run

    few, many = (_best_us(compile_function, chain(count), *args) for count in (_FEW, _MANY))
    return (many - few) / (_MANY - _FEW)


def _best_us(compile_function: Compile, function: Callable[..., torch.Tensor], *args: torch.Tensor) -> float:
    torch._dynamo.reset()  # all the chains are one piece of code to it
    compiled = compile_function(function)
    for _ in range(5):
        compiled(*args)
    best = float("inf")
    for _ in range(_RUNS):
        begin = time.perf_counter_ns()
        compiled(*args)
        best = min(best, (time.perf_counter_ns() - begin) / 1e3)
    return best
