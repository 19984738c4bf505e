"""Registers, spills and shared memory of the golden programs' GPU kernels, compiled for GPUs that are not there.

A rise fails until somebody accepts it: `make golden`, then read the diff of registers-triton-<version>.json.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import pytest

pytest.importorskip("triton")

import triton

from fusewise.codegen.triton import module
from fusewise.device.arch import load_arch
from fusewise.lower.kernel import Kernel
from fusewise.lower.launch import launch_units
from fusewise.lower.registers import predict_registers
from fusewise.runtime.triton_compile import GpuTarget, resources
from tests.conftest import GOLDEN_DATA
from tests.golden.programs import CASES, GoldenCase, planned

ARCHS = (80, 90, 120)
# share of the kernels, at least, whose registers are predicted: the weights were fitted on cc 9.0
PREDICTED = {"80": 0.9, "90": 0.9, "120": 0.85}
MOST_MORE_REGISTERS = 8  # one step of the allocator: ptxas moves by as much on a change that means nothing

TRITON = ".".join(triton.__version__.split(".")[:2])
FILE = GOLDEN_DATA / f"registers-triton-{TRITON}.json"
ACCEPT = "`make golden` accepts it: read the diff as you would read code"

Usage: TypeAlias = dict[str, int]
"""regs, spill_bytes (stored and loaded again) and shared_bytes of one kernel."""


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_registers(case: GoldenCase, request: pytest.FixtureRequest) -> None:
    update = request.config.getoption("--update-golden")
    if not update and not FILE.exists():
        pytest.skip(f"{FILE.name} does not exist: with this Triton, `make golden` writes it")
    accepted = _accepted()
    used = _usage(case)
    own = {name: found for name, found in accepted.items() if name.split("/")[0] == case.name}
    if update:
        _write({name: found for name, found in accepted.items() if name not in own} | used)
        return
    assert own.keys() == used.keys(), f"other kernels than those in {FILE.name}; {ACCEPT}"
    risen = [
        f"{name} for cc {arch}: {_text(now)}, was {_text(own[name][arch])}"
        for name, by_arch in used.items()
        for arch, now in by_arch.items()
        if _is_worse(now, own[name][arch])
    ]
    assert not risen, "\n".join([f"registers or spills rose; {ACCEPT}", *risen])


def test_registers_are_predicted_before_compiling() -> None:
    """Within 15% or 8 registers, of the kernels that have a launch of their own."""
    accepted = _accepted()
    missed: dict[str, list[str]] = {arch: [] for arch in PREDICTED}
    known = 0
    for case in CASES:
        for graph in planned(case, "h200"):
            for name, kernel in launch_units(graph.plan, graph.kernels).items():
                by_arch = accepted.get(f"{case.name}/{graph.role}/{name}")
                if by_arch is None or not isinstance(kernel, Kernel):
                    continue  # what is not in the file fails above
                known += 1
                for arch, found in missed.items():
                    predicted = predict_registers(kernel, load_arch(f"{arch[:-1]}.{arch[-1]}"))
                    compiled = by_arch[arch]["regs"]
                    if abs(predicted - compiled) > max(0.15 * compiled, 8):
                        found.append(f"{case.name}/{graph.role}/{name}: {predicted} predicted, {compiled} compiled")
    if not known:
        pytest.skip(f"{FILE.name} does not exist: with this Triton, `make golden` writes it")
    for arch, found in missed.items():
        problem = f"for cc {arch} {len(found)} of {known} kernels are not within"
        assert len(found) <= (1 - PREDICTED[arch]) * known, "\n".join([problem, *found])


@pytest.mark.parametrize(
    ("now", "worse"),
    [
        ((40, 0, 128), False),
        ((48, 0, 4096), False),
        ((49, 0, 128), True),
        ((32, 4, 128), True),
    ],
)
def test_what_counts_as_a_rise(now: tuple[int, int, int], worse: bool) -> None:
    assert _is_worse(_pack(*now), _pack(40, 0, 128)) is worse


def _is_worse(now: Usage, before: Usage) -> bool:
    return now["regs"] > before["regs"] + MOST_MORE_REGISTERS or now["spill_bytes"] > before["spill_bytes"]


def _usage(case: GoldenCase) -> dict[str, dict[str, Usage]]:
    """By `case/role/kernel` and compute capability."""
    found: dict[str, dict[str, Usage]] = {}
    for graph in planned(case, "h200"):
        kernels = list(launch_units(graph.plan, graph.kernels).values())
        source = module(kernels, case.policy == "conservative")
        for arch in ARCHS:
            for name, used in resources(source, kernels, GpuTarget(arch), sass=False).items():
                spill_bytes = used.spill_store_bytes + used.spill_load_bytes
                by_arch = found.setdefault(f"{case.name}/{graph.role}/{name}", {})
                by_arch[str(arch)] = _pack(used.regs_per_thread, spill_bytes, used.shared_bytes)
    return found


def _pack(regs: int, spill_bytes: int, shared_bytes: int) -> Usage:
    return {"regs": regs, "spill_bytes": spill_bytes, "shared_bytes": shared_bytes}


def _text(used: Usage) -> str:
    return f"{used['regs']} registers, {used['spill_bytes']} bytes spilled"


def _accepted() -> dict[str, dict[str, Usage]]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def _write(table: dict[str, dict[str, Usage]]) -> None:
    # a line a kernel: a diff shows what changed
    lines = [f"  {json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
