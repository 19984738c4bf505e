"""The compiled graph as a Python function: allocate, launch, call PyTorch's own ops, free after the last use.

The function is generated as text, one line a step, so that a call costs little more than its kernels. Only positions,
sizes and names made here become text; everything of the user's is reached through a table of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from fusewise.errors import OutOfMemory
from fusewise.ir.dtypes import DType
from fusewise.ir.ops import ERRORS
from fusewise.ir.sizes import Size, same, same_all
from fusewise.lower.kernel import Check, Kernel
from fusewise.lower.launch import LaunchUnit, members_of
from fusewise.plan.plan import KernelStep, OpaqueStep, Plan
from fusewise.plan.plan import Launch as PlannedLaunch
from fusewise.plan.prepare import Placement

TORCH_DTYPES: dict[str, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}

Launch = Callable[..., int | None]
"""A kernel, called with the data pointers of its buffers and the values of its sizes (a GPU's with the tensors of its
seeds); nonzero: a check failed."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A PyTorch call of the program.

    Attributes:
        call: `(operands, symbols, inputs) -> result`.
        results: kind of each flattened result.
    """

    call: Callable[[Sequence[Any], Mapping[str, int], Sequence[Any]], Any]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """How one result of the program is made: a tensor or Python number of the plan's outputs, a size, or an object."""

    kind: Literal["tensor", "scalar", "size", "object", "input"]
    value: Any


@dataclass(frozen=True, slots=True)
class Signature:
    """How the caller's arguments and results map to the plan's.

    Attributes:
        tensors: positions of the caller's arguments that are the graph's inputs, in order (constants excluded).
        constants: the graph's last inputs, bound at compile time.
        outputs: the caller's results.
        arguments: number of the caller's arguments.
        uses_inputs: whether an opaque call reads the caller's arguments.
        check_strides: whether the strides of the arguments are checked at each call.
    """

    tensors: tuple[int, ...]
    constants: tuple[torch.Tensor, ...]
    outputs: tuple[Output, ...]
    arguments: int
    uses_inputs: bool
    check_strides: bool


def restride(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A copy of `tensor` with these element strides."""
    out = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return out.copy_(tensor)


def has_written(problem: BaseException) -> None:
    """Marks an error of a call that may have changed tensors of the caller's."""
    problem.add_note("fusewise: the call had begun to write to its arguments; they may be half written.")
    problem.fusewise_has_written = True  # type: ignore[attr-defined]


def fail(kernel: Kernel, code: int) -> None:
    """Raises what eager would raise for a failed check, `OutOfMemory` where a kernel found no memory."""
    instr = kernel.body[code - 1] if 0 < code <= len(kernel.body) else None
    if isinstance(instr, Check):
        raise ERRORS[instr.error](instr.message)
    raise OutOfMemory(f"kernel {kernel.name} found no memory for its intermediate values (code {code})")


def build_program(
    plan: Plan,
    units: Mapping[str, LaunchUnit],
    launches: Mapping[str, Launch],
    opaques: Mapping[int, Opaque],
    signature: Signature,
    stream: str = "",
) -> tuple[Callable[[list[Any]], list[Any]], str]:
    """(function, its source): the function takes the caller's arguments in a list, which it empties.

    Args:
        units, launches: what each launch runs, and how, by the names of the plan's launches.
        opaques: by graph node.
        stream: Python text of one more first argument of every launch (the CUDA stream), empty for none.
    """
    writer = _Writer(plan, units, launches, opaques, signature, stream)
    source = writer.write()
    scope: dict[str, Any] = dict(writer.objects)
    exec(compile(source, "<fusewise program>", "exec"), scope)
    return scope["call"], source


class _Writer:
    def __init__(
        self,
        plan: Plan,
        units: Mapping[str, LaunchUnit],
        launches: Mapping[str, Launch],
        opaques: Mapping[int, Opaque],
        signature: Signature,
        stream: str,
    ) -> None:
        self.plan = plan
        self.graph = plan.graph
        self.units = units
        self.launches = launches
        self.opaques = opaques
        self.signature = signature
        self.stream = stream
        self.lines: list[str] = []
        self.indent = "    "
        self.writing = False  # whether a caller's tensor may have been written
        self.over = {value: target for step in plan.kernels for value, target in step.over}
        self.restrided: list[int] = []  # inputs written in place that may come with other strides
        self.objects: dict[str, Any] = {
            "torch": torch,
            "as_strided": torch.as_strided,
            "restride": restride,
            "fail": fail,
            "device": torch.device(plan.graph.device),
        }
        self.names: dict[int, str] = {}
        self.laid_out = self._laid_out()
        cuda = plan.graph.device.startswith("cuda")
        fast = getattr(torch._C._dynamo.guards, "_empty_strided_cuda" if cuda else "_empty_strided_cpu", None)
        # torch's own short way to an uninitialised tensor costs a third of empty_strided; it may go away
        on_first = not cuda or plan.graph.device in ("cuda", "cuda:0")
        self.fast_empty = fast is not None and on_first
        if self.fast_empty:
            self.objects["empty"] = fast

    def object(self, name: str, value: Any) -> str:
        self.objects[name] = value
        return name

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def write(self) -> str:
        last = self._last_uses()
        launches = {launch.steps[0].name: launch for launch in self.plan.launches}
        self._inputs()
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, OpaqueStep):
                self._opaque(step)
            elif step.name in launches:
                self._launch(launches[step.name])
            dead = [self.names[v] for v in last.get(number, ()) if v in self.names]
            if dead:
                self.line(f"del {', '.join(dead)}")
        self._write_late()
        self._outputs()
        return "def call(args):\n" + "\n".join(self.lines) + "\n"

    def _begin_writes(self) -> None:
        """From here on the caller's tensors are not what they were: an error says so."""
        if not self.writing:
            self.line("try:")
            self.indent, self.writing = self.indent + "    ", True

    def _write_late(self) -> None:
        """Copies to the caller's tensors what no kernel wrote there; first what would change under other copies."""
        graph, plan = self.graph, self.plan
        copies: list[tuple[int, str]] = []
        for position in plan.late:
            place = plan.outputs[position]
            text = self._real(place, graph[graph.outputs[position]].shape)
            if graph[place.base].op in ("input", "result"):
                self.line(f"u{position} = {text}.clone()")
                text = f"u{position}"
            copies.append((graph.inputs[graph.writes[position]], text))
        if copies:
            self._begin_writes()
        for target, text in copies:
            self.line(f"w{target}.copy_({text})")
        for target in self.restrided:
            # where a tensor came with other strides, a copy of it was written
            self.line(f"if w{target} is not t{target}: t{target}.copy_(w{target})")

    def _last_uses(self) -> dict[int, list[int]]:
        """For each step the values that nothing needs after it."""
        kept = {p.base for p in self.plan.outputs}
        last: dict[int, int] = {}
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, KernelStep):
                touched = {*step.reads, *step.writes}
            else:
                touched = {p.base for p in step.operands} | set(step.results)
            for value in touched:
                last[value] = number
        found: dict[int, list[int]] = {}
        for value, number in last.items():
            if value not in kept:
                found.setdefault(number, []).append(value)
        return found

    def _inputs(self) -> None:
        signature = self.signature
        self.line("inputs = list(args)")
        self.line("args.clear()")
        for name, info in self.graph.symbols.items():
            # definitions are made by capture from positions, numbers and operators alone
            self.line(f"{name} = {info.definition}")
        self.line("s = {" + ", ".join(f"{n!r}: {n}" for n in self.graph.symbols) + "}")
        used = self._used_values()
        written = {self.graph.inputs[position] for position in self.graph.writes.values()}
        for number, position in zip(self.graph.inputs, signature.tensors, strict=False):
            if number not in used:
                continue
            name = self.names[number] = f"a{number}"
            self.line(f"{name} = inputs[{position}]")
            if number in written:
                self.line(f"w{number} = {name}")  # `name` may go before it is written
            if signature.check_strides and self.graph[number].shape:
                strides = _tuple(self.plan.layouts[number])
                self.line(f"if {name}.stride() != {strides}: {name} = restride({name}, {strides})")
                if number in self.over.values():
                    self.restrided.append(number)
                    self.line(f"t{number}, w{number} = w{number}, {name}")
        for number, constant in zip(self.graph.inputs[len(signature.tensors) :], signature.constants, strict=True):
            self.names[number] = self.object(f"c{number}", constant)
        if not signature.uses_inputs and not any(o.kind == "input" for o in signature.outputs):
            self.line("inputs = None")
        # constants are shared by all calls: never deleted
        constant_names = {f"c{n}" for n in self.graph.inputs[len(signature.tensors) :]}
        for number in [n for n, name in self.names.items() if name in constant_names]:
            self.line(f"a{number} = {self.names[number]}")
            self.names[number] = f"a{number}"

    def _used_values(self) -> set[int]:
        used = {p.base for p in self.plan.outputs}
        used |= {self.graph.inputs[position] for position in self.graph.writes.values()}
        for step in self.plan.steps:
            used |= set(step.reads) if isinstance(step, KernelStep) else {p.base for p in step.operands}
        return used

    def _allocate(self, value: int) -> None:
        node = self.graph[value]
        name = self.names[value] = f"v{value}"
        if value in self.over:
            self.line(f"{name} = w{self.over[value]}")
            return
        shape, strides = _tuple(node.shape), _tuple(self.plan.layouts[value])
        dtype = self.object(f"dtype_{node.dtype.name}", TORCH_DTYPES[node.dtype.name])
        if self.fast_empty:
            self.line(f"{name} = empty({shape}, {strides}, {dtype})")
        else:
            self.line(f"{name} = torch.empty_strided({shape}, {strides}, dtype={dtype}, device=device)")

    def _launch(self, launched: PlannedLaunch) -> None:
        unit = self.units[launched.name]
        for value in (v for step in launched.steps for v in step.writes):
            self._allocate(value)
        if all(any(isinstance(a.size, int) and a.size == 0 for a in k.parallel) for k in members_of(unit)):
            return
        if any(step.over for step in launched.steps):
            self._begin_writes()
        # a GPU's launch takes a seed as a tensor, wherever it is
        named = [(self.names[b.node], b.seed and bool(self.stream)) for b in unit.buffers]
        pointers = [name if whole else f"{name}.data_ptr()" for name, whole in named]
        arguments = ", ".join(([self.stream] if self.stream else []) + pointers + list(unit.sizes))
        launch = self.object(f"launch_{launched.name}", self.launches[launched.name])
        if self.stream:
            self.line(f"{launch}({arguments})")
        else:
            described = self.object(f"kernel_{launched.name}", unit)
            self.line(f"code = {launch}({arguments})")
            self.line(f"if code: fail({described}, code)")

    def _is_whole(self, place: Placement, shape: tuple[Size, ...]) -> bool:
        """True where a placement is its base itself."""
        alike = same_all(shape, self.graph[place.base].shape)
        return alike and same_all(place.strides, self.plan.layouts[place.base]) and same(place.offset, 0)

    def _laid_out(self) -> frozenset[int]:
        """Values whose strides must be the planned ones: those that a kernel reads, or that something views."""
        found: set[int] = set()
        placed = [(p, self.graph[o].shape) for p, o in zip(self.plan.outputs, self.graph.outputs, strict=True)]
        for step in self.plan.steps:
            if isinstance(step, KernelStep):
                found.update(step.reads)
            else:
                args = self.graph[step.node].args
                placed += [(p, self.graph[a].shape) for p, a in zip(step.operands, args, strict=True)]
        return frozenset(found.union(p.base for p, shape in placed if not self._is_whole(p, shape)))

    def _real(self, place: Placement, shape: tuple[Size, ...]) -> str:
        """Text of the tensor that a placement describes."""
        name = self.names[place.base]
        base = self.graph[place.base]
        if self._is_whole(place, shape):
            return name
        offset = str(place.offset)
        if base.op in ("input", "result"):
            offset = f"{name}.storage_offset() + {offset}"
        return f"as_strided({name}, {_tuple(shape)}, {_tuple(place.strides)}, {offset})"

    def _opaque(self, step: OpaqueStep) -> None:
        node = self.graph[step.node]
        opaque = self.opaques[step.node]
        operands = [self._real(p, self.graph[a].shape) for p, a in zip(step.operands, node.args, strict=True)]
        call = self.object(f"op{step.node}", opaque.call)
        listed = f"({', '.join(operands)}{',' if operands else ''})"
        self.line(f"r = {call}({listed}, s, inputs)")
        wanted = {self.graph[v].attr("index"): v for v in step.results}
        single = len(opaque.results) == 1
        if not single:
            self.objects["flatten"] = _flatten
            self.line("r = flatten(r)")
        for index, value in sorted(wanted.items()):
            name = self.names[value] = f"v{value}"
            source = "r" if single else f"r[{index}]"
            if single:
                self.line(f"{name} = {source}[0] if isinstance({source}, (tuple, list)) else {source}")
            else:
                self.line(f"{name} = {source}")
            node_result = self.graph[value]
            # a Python number ("scalar") stays one: only other opaque calls and the caller take it
            if opaque.results[index] == "tensor" and node_result.shape and value in self.laid_out:
                strides = _tuple(self.plan.layouts[value])
                self.line(f"if {name}.stride() != {strides}: {name} = restride({name}, {strides})")
        self.line("r = None")

    def _outputs(self) -> None:
        parts: list[str] = []
        for position, output in enumerate(self.signature.outputs):
            if output.kind in ("tensor", "scalar"):
                place = self.plan.outputs[output.value]
                parts.append(self._real(place, self.graph[self.graph.outputs[output.value]].shape))
            elif output.kind == "size":
                parts.append(str(output.value))
            elif output.kind == "input":
                parts.append(f"inputs[{output.value}]")
            else:
                parts.append(self.object(f"object{position}", output.value))
        self.line(f"return [{', '.join(parts)}]")
        if self.writing:
            self.indent = "    "
            self.objects["has_written"] = has_written
            self.line("except BaseException as problem:")
            self.line("    has_written(problem)")
            self.line("    raise")


def _tuple(sizes: Sequence[Size]) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def _flatten(result: Any) -> list[Any]:
    if not isinstance(result, (tuple, list)):
        return [result]
    return [leaf for part in result for leaf in _flatten(part)]


def dtype_of(dtype: DType) -> torch.dtype:
    """PyTorch's dtype for ours."""
    return TORCH_DTYPES[dtype.name]
