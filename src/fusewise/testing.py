"""For the tests of other people's programs: a limit on what a function's plan may cost, checked with no GPU.

    from fusewise.testing import assert_plan

    def test_block_stays_fused():
        assert_plan(block, x, device="h200", max_kernels=3, max_walls=4, max_spill_bytes=0)

Nothing is run: the function is traced on fake tensors, and kernels are compiled for the GPU that is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusewise.config import Policy, make_options
from fusewise.gate.make import planned, state_of
from fusewise.gate.state import DeviceState, PlanState, Request
from fusewise.report.documents import Explanation
from fusewise.report.format import format_bytes, format_count, format_ops

__all__ = ["assert_plan"]


@dataclass(frozen=True, slots=True)
class _Limits:
    kernels: int | None
    walls: int | None
    dram_bytes: int | None
    regs_per_thread: int | None
    spill_bytes: int | None
    graph_breaks: int | None
    fallbacks: int | None


def assert_plan(
    function: Callable[..., Any],
    *args: Any,
    device: str | Sequence[str] = "h200",
    policy: Policy = "balanced",
    max_kernels: int | None = None,
    max_walls: int | None = None,
    max_dram_bytes: int | None = None,
    max_regs_per_thread: int | None = None,
    max_spill_bytes: int | None = 0,
    max_graph_breaks: int | None = 0,
    max_fallbacks: int | None = 0,
    **kwargs: Any,
) -> Explanation:
    """Raises `AssertionError` where a function's plan costs more than it may, and names what does.

    The plan is that of the data sheets: the same on every machine with the same torch and triton. None is no limit.

    Args:
        function: a function or an `nn.Module`.
        args, kwargs: its inputs; only shapes, types and devices matter, so tensors of the `meta` device do.
        device: names of GPUs, or `cpu`; each must keep the limits.
        policy: of the compile.
        max_kernels: generated kernels of forward and backward together.
        max_walls: ops that run as PyTorch's own kernels.
        max_dram_bytes: bytes that generated kernels and those ops move.
        max_regs_per_thread: registers of any GPU kernel.
        max_spill_bytes: bytes a thread that any GPU kernel spills and loads again.
        max_graph_breaks: places where torch.compile splits the function.
        max_fallbacks: graphs and kernels that run as eager PyTorch since a step fails on them.

    Returns:
        The plan.

    Raises:
        CompilerMissing: no triton, and `device` is a GPU.
        UnknownName: no such device or policy.
        UsageError: the function cannot be traced on these inputs.
    """
    __tracebackhide__ = True  # pytest then shows the caller's line
    devices = [device] if isinstance(device, str) else list(device)
    found = planned(function, args, kwargs, devices, make_options(policy=policy)).explanation
    state = state_of(found, Request(found.target, (), tuple(devices), policy))
    limits = _Limits(
        max_kernels, max_walls, max_dram_bytes, max_regs_per_thread, max_spill_bytes, max_graph_breaks, max_fallbacks
    )
    problems = [*_breaks(state, limits), *(problem for one in state.devices for problem in _problems(one, limits))]
    if problems:
        names = devices[0] if len(devices) == 1 else devices
        hint = f"The whole plan: print(fusewise.explain({found.target}, ..., device={names!r}, policy={policy!r}))"
        raise AssertionError("\n".join([f"the plan of {found.target} costs more than it may:", *problems, hint]))
    return found


def _breaks(state: PlanState, limits: _Limits) -> Iterator[str]:
    names = [f"{b.line} {b.code}: {b.reason}" for b in state.graph_breaks]
    yield from _problem("", "graph break", len(names), limits.graph_breaks, names)


def _problems(state: DeviceState, limits: _Limits) -> Iterator[str]:
    kernels = [
        f"{role} {k.name}: {format_ops(k.ops)}" + (f" ({', '.join(k.lines)})" if k.lines else "")
        for role, k in state.kernels
    ]
    walls = [f"{role} {w.op}: {w.reason} ({w.line} {w.code})" for role, w in state.walls]
    fallbacks = [f"{role} {reason}" for role, reason in state.fallbacks]
    yield from _problem(state.device, "fallback", len(fallbacks), limits.fallbacks, fallbacks)
    yield from _problem(state.device, "kernel", len(kernels), limits.kernels, kernels)
    yield from _problem(state.device, "wall", len(walls), limits.walls, walls)
    if limits.dram_bytes is not None and state.dram_bytes > limits.dram_bytes:
        amounts = f"{format_bytes(state.dram_bytes)}, at most {format_bytes(limits.dram_bytes)}"
        yield f"  {state.device}: moves {amounts} ({state.dram_bytes} bytes, {limits.dram_bytes})"
    for role, k in state.kernels:
        for what, amount, most in (
            ("registers a thread", k.regs_per_thread, limits.regs_per_thread),
            ("bytes a thread spilled", k.spill_bytes, limits.spill_bytes),
        ):
            if most is not None and amount is not None and amount > most:
                yield f"  {state.device}: {amount} {what}, at most {most}: {role} {k.name} ({', '.join(k.lines)})"


def _problem(device: str, what: str, count: int, most: int | None, names: Sequence[str]) -> Iterator[str]:
    if most is not None and count > most:
        where = f"{device}: " if device else ""
        yield "\n    ".join([f"  {where}{format_count(count, what)}, at most {most}:", *names])
