"""Runs a plan step by step on real tensors, so that each value in memory can be looked at."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch

from fusewise.capture.captured import Captured, flatten_results, size_value
from fusewise.ir.sizes import Size
from fusewise.lower.kernel import Kernel
from fusewise.pipeline import build_kernels, lower_step, opaques_of
from fusewise.plan.plan import KernelStep, OpaqueStep, Plan
from fusewise.plan.prepare import Placement
from fusewise.runtime.program import TORCH_DTYPES, fail, restride

Values = MutableMapping[int, Any]


class Steps:
    """The steps of a plan, built.

    Args:
        captured: the graph's inputs and PyTorch calls.
        exact: on a GPU, functions with eager's bits.
        fill: what results hold before they are written.
        like: kernels whose schedules those of the same name take.
    """

    def __init__(
        self, captured: Captured, plan: Plan, exact: bool, fill: float, like: Mapping[str, Kernel] | None = None
    ) -> None:
        self.captured = captured
        self.plan = plan
        self.graph = plan.graph
        self.fill = fill
        schedules = {name: kernel.schedule for name, kernel in (like or {}).items()}
        self.kernels: dict[str, Kernel] = {
            s.name: lower_step(plan.graph, s, plan.layouts, plan.machine, schedules.get(s.name)) for s in plan.kernels
        }
        _, self.launches, stream = build_kernels(self.kernels, self.graph.device, exact)
        self.takes_stream = bool(stream)
        self.opaques = opaques_of(captured, plan)

    def inputs(self, arguments: Sequence[Any], symbols: Mapping[str, int]) -> dict[int, Any]:
        """The graph's inputs by node, in the strides that the plan relies on."""
        found: dict[int, Any] = {}
        for number, tensor in zip(self.graph.inputs, self.captured.tensors(arguments), strict=True):
            strides = self._sizes(self.plan.layouts[number], symbols)
            pairs = zip(tensor.shape, tensor.stride(), strides, strict=True)
            lies_so = all(n == 1 or a == b for n, a, b in pairs) or not tensor.numel()
            found[number] = tensor.detach() if lies_so else restride(tensor.detach(), strides)
        return found

    def run_kernel(self, step: KernelStep, values: Values, symbols: Mapping[str, int]) -> None:
        """Launches one kernel: reads `values`, adds what it writes."""
        kernel = self.kernels[step.name]
        for value in step.writes:
            values[value] = self._allocate(value, symbols)
        if any(size_value(a.size, symbols) == 0 for a in kernel.parallel):
            return
        arguments = [values[b.node].data_ptr() for b in kernel.buffers]
        arguments += [symbols[name] for name in kernel.sizes]
        if self.takes_stream:
            arguments.insert(0, torch.cuda.current_stream(self.graph.device).cuda_stream)
        code = self.launches[step.name](*arguments)
        if code:
            fail(kernel, code)

    def run_opaque(
        self, step: OpaqueStep, values: Values, symbols: Mapping[str, int], arguments: Sequence[Any]
    ) -> None:
        """Makes one PyTorch call."""
        operands = [
            self.tensor(place, self.graph[a].shape, values, symbols)
            for place, a in zip(step.operands, self.graph[step.node].args, strict=True)
        ]
        opaque = self.opaques[step.node]
        results = flatten_results(opaque.call(operands, symbols, arguments))
        for value in step.results:
            index = self.graph[value].attr("index")
            found = results[index]
            if opaque.results[index] == "tensor" and self.graph[value].shape:
                strides = self._sizes(self.plan.layouts[value], symbols)
                found = found if found.stride() == strides else restride(found, strides)
            values[value] = found

    def tensor(
        self, place: Placement, shape: Sequence[Size], values: Mapping[int, Any], symbols: Mapping[str, int]
    ) -> Any:
        """The real tensor of a value that lies somewhere in memory."""
        base = values[place.base]
        if not isinstance(base, torch.Tensor):
            return base
        known = self.graph[place.base].op in ("input", "result")
        offset = size_value(place.offset, symbols) + (base.storage_offset() if known else 0)
        return torch.as_strided(base, self._sizes(shape, symbols), self._sizes(place.strides, symbols), offset)

    def _allocate(self, value: int, symbols: Mapping[str, int]) -> torch.Tensor:
        node = self.graph[value]
        shape, strides = self._sizes(node.shape, symbols), self._sizes(self.plan.layouts[value], symbols)
        dtype = TORCH_DTYPES[node.dtype.name]
        made = torch.empty_strided(shape, strides, dtype=dtype, device=self.graph.device)
        return made.fill_(self.fill if dtype.is_floating_point else bool(self.fill == self.fill))

    def _sizes(self, sizes: Sequence[Size], symbols: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(size_value(s, symbols) for s in sizes)
