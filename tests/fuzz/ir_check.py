"""Runs a random IR graph through plan and lowering, against the interpreter of graphs; shrinks what fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fusewise.codegen.cpp import unit
from fusewise.ir.builder import Builder, Value
from fusewise.ir.dtypes import BOOL, DType
from fusewise.ir.graph import Graph, Node
from fusewise.ir.interp import run
from fusewise.ir.rounding import NUMPY, Array, round_bf16
from fusewise.ir.sizes import Size, contiguous_strides
from fusewise.ir.verifier import check
from fusewise.lower.build import build_kernel
from fusewise.lower.interp import run_kernel
from fusewise.lower.kernel import Check, Kernel, Reduce, Store, operands
from fusewise.plan import prepare, statistics
from fusewise.plan.cost import Machine
from fusewise.plan.gpu_schedule import choose_gpu_schedule
from fusewise.plan.plan import KernelStep, Plan, make_plan
from fusewise.plan.prepare import Placement
from fusewise.plan.schedule import KernelShape, Schedule, choose_cpp_schedule
from fusewise.runtime.cpp import build
from tests.cpu.cpp_kernels import from_stored, to_stored

CPU = Machine("fuzz cpu", "cpu", 2e10, 2.0, 5e10, 2, 1 << 25, "modelled")
GPU = Machine("fuzz gpu", "gpu", 4e12, 3.0, 3e13, 132, 50 << 20, "modelled", 90)


def problem_of(graph: Graph, sizes: Mapping[str, int], small_parts: bool = False) -> str:
    """What is wrong with the kernels of `graph`; empty where they agree with the interpreter.

    A comparison that differs counts where it does so for three draws of the inputs: a float beside a threshold may
    fall to either side.

    Args:
        sizes: value of each size symbol.
        small_parts: split reductions and statistics at sizes far below those where it pays.
    """
    found = ""
    for draw in range(3):
        try:
            with _small_parts() if small_parts else contextlib.nullcontext():
                found = _differences(graph, sizes, draw)
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"
        if not found:
            return ""
    return found


@contextlib.contextmanager
def _small_parts() -> Iterator[None]:
    """Thresholds of the passes that split, as low as they go."""
    low = {
        "_LEAST_PART": 1,
        "_LEAST_TOTAL": 4,
        "_SHORT_ROW": 1,
        "_LONGEST_ROW": 8,
        "_PART": 4,
    }
    saved: list[tuple[dict[str, int], dict[str, int]]] = []
    try:
        for module in (prepare, statistics):
            for name, value in low.items():
                table = getattr(module, name, None)
                if table is not None and not (module is prepare and name == "_LONGEST_ROW"):
                    saved.append((table, dict(table)))
                    table.update(dict.fromkeys(table, value))
        yield
    finally:
        for table, before in saved:
            table.update(before)


def _differences(graph: Graph, sizes: Mapping[str, int], draw: int) -> str:
    check(graph)
    values = dict(sizes)
    inputs = _inputs(graph, values, draw)
    want = run(graph, inputs, opaque=_wall, sizes=values)
    for machine, schedule in ((CPU, choose_cpp_schedule), (GPU, _gpu_schedule)):
        plan = make_plan(graph, machine)
        check(plan.graph)
        got = _execute(plan, _kernels(plan, schedule), inputs, values, run_kernel)
        text = _first_difference(graph, got, want)
        if text:
            return f"{text} on the {machine.kind}"
    return ""


def compiled_problems(graphs: Sequence[tuple[Graph, Mapping[str, int]]], small_parts: bool = False) -> list[str]:
    """As `problem_of` for many graphs, but by C++ kernels, all compiled in one unit; a problem that the interpreter of
    kernels shows as well is not reported again."""
    planned: list[tuple[Plan, dict[str, Kernel]]] = []
    for number, (graph, _) in enumerate(graphs):
        with _small_parts() if small_parts else contextlib.nullcontext():
            plan = make_plan(graph, CPU)
            kernels = _kernels(plan, choose_cpp_schedule)
        planned.append((plan, {n: replace(k, name=f"g{number}_{k.name}") for n, k in kernels.items()}))
    library = build(unit([k for _, kernels in planned for k in kernels.values()]))

    def launch(kernel: Kernel, buffers: Sequence[Array], values: Mapping[str, int]) -> None:
        stored = [to_stored(v, b.dtype) if b.role == "in" else v for v, b in zip(buffers, kernel.buffers, strict=True)]
        for place, buffer in enumerate(kernel.buffers):
            if buffer.role == "out" and buffer.dtype.name == "bf16":
                stored[place] = np.full(buffers[place].shape, 0x5A5A, np.uint16)
        code = library.function(kernel.name)(*(a.ctypes.data for a in stored), *(values[s] for s in kernel.sizes))
        if code:
            raise AssertionError(f"{kernel.name} returned {code}")
        for place, buffer in enumerate(kernel.buffers):
            if buffer.role == "out" and buffer.dtype.name == "bf16":
                buffers[place][...] = from_stored(stored[place], buffer.dtype)

    problems = []
    for (graph, values), (plan, kernels) in zip(graphs, planned, strict=True):
        found = ""
        for draw in range(3):
            inputs = _inputs(graph, values, draw)
            want = _execute(plan, kernels, inputs, dict(values), run_kernel)
            got = _execute(plan, kernels, inputs, dict(values), launch)
            found = _first_difference(graph, got, want)
            if not found:
                break
        problems.append(found)
    return problems


def _inputs(graph: Graph, values: Mapping[str, int], draw: int) -> list[Array]:
    rng = np.random.default_rng(draw)
    inputs = []
    for number in graph.inputs:
        shape = tuple(_size(s, values) for s in graph[number].shape)
        strides = tuple(_size(s, values) for s in graph.strides[number])
        inputs.append(_data(graph[number].dtype, shape, strides, rng))
    return inputs


def _first_difference(graph: Graph, got: Sequence[Array], want: Sequence[Array]) -> str:
    for position, (g, w) in enumerate(zip(got, want, strict=True)):
        text = _difference(g, w, graph[graph.outputs[position]].dtype, _has_half(graph))
        if text:
            return f"output {position}: {text}"
    return ""


def _kernels(plan: Plan, schedule: Callable[[KernelShape], Schedule]) -> dict[str, Kernel]:
    kernels = {
        s.name: build_kernel(plan.graph, s.region, s.writes, plan.layouts, s.name, schedule) for s in plan.kernels
    }
    for name, kernel in kernels.items():
        problem = order_problem(kernel)
        if problem:
            raise AssertionError(f"{name}: {problem}")
    return kernels


def _has_half(graph: Graph) -> bool:
    return any(n.dtype.is_half for n in graph)


def _difference(got: Array, want: Array, dtype: DType, half: bool) -> str:
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if not dtype.is_float:
        wrong = int((got != want).sum())
        return f"{wrong} of {got.size} elements differ" if wrong else ""
    a, b = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN at other places"
    scale = float(np.nanmax(np.abs(b[np.isfinite(b)]), initial=0.1))
    with np.errstate(invalid="ignore"):
        gap = np.where(a == b, 0.0, np.abs(a - b))
    worst = float(np.nanmax(gap, initial=0.0)) / scale
    return f"relative difference {worst:.1e}" if worst > (2e-2 if half else 1e-4) else ""


def _gpu_schedule(shape: KernelShape) -> Schedule:
    return choose_gpu_schedule(shape, GPU.units)[0]


def _size(size: Size, values: Mapping[str, int]) -> int:
    return size if isinstance(size, int) else int(size.subs({s: values[str(s)] for s in size.free_symbols}))


def _data(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Values of an input; equal along dims of stride 0."""
    own = tuple(1 if step == 0 and n > 1 else n for n, step in zip(shape, strides, strict=True))
    data: Array
    if dtype == BOOL:
        data = rng.random(own) < 0.5
    elif dtype.is_integer:
        data = rng.integers(0, 3, own).astype(NUMPY[dtype.name])
    else:
        data = rng.standard_normal(own).astype(NUMPY[dtype.name])
        data = round_bf16(data) if dtype.name == "bf16" else data
    return np.broadcast_to(data, shape)


def _wall(node: Node, args: Sequence[Array]) -> list[Array]:
    first, second = args
    return [np.asarray(-first, dtype=first.dtype), np.array(second)]


# ---- running a plan


def _place(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Array:
    where = np.full(shape, offset)
    for d, (n, step) in enumerate(zip(shape, strides, strict=True)):
        where = where + (np.arange(n) * step).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return where


def _flat(array: Array, strides: tuple[int, ...]) -> Array:
    """A flat buffer that holds `array` with these strides."""
    last = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True) if n > 0)
    flat = np.zeros(max(last, 1), array.dtype)
    if array.size:
        flat[_place(array.shape, strides)] = array
    return flat


def _execute(
    plan: Plan,
    kernels: Mapping[str, Kernel],
    inputs: Sequence[Array],
    values: dict[str, int],
    launch: Callable[[Kernel, Sequence[Array], dict[str, int]], None],
) -> list[Array]:
    graph = plan.graph

    def layout(value: int) -> tuple[int, ...]:
        return tuple(_size(s, values) for s in plan.layouts[value])

    def shape_of(value: int) -> tuple[int, ...]:
        return tuple(_size(s, values) for s in graph[value].shape)

    memory: dict[int, Array] = {}

    def real(place: Placement, value: int) -> Array:
        strides = tuple(_size(s, values) for s in place.strides)
        return np.asarray(memory[place.base][_place(shape_of(value), strides, _size(place.offset, values))])

    for number, array in zip(graph.inputs, inputs, strict=True):
        memory[number] = _flat(array, layout(number))
    for step in plan.steps:
        if not isinstance(step, KernelStep):
            node = graph[step.node]
            results = _wall(node, [real(p, a) for p, a in zip(step.operands, node.args, strict=True)])
            for value in step.results:
                memory[value] = _flat(results[graph[value].attr("index")], layout(value))
            continue
        kernel = kernels[step.name]
        for value in step.writes:
            shape = shape_of(value)
            last = 1 + sum((n - 1) * s for n, s in zip(shape, layout(value), strict=True) if n > 0)
            memory[value] = np.full(max(1, last), 77, NUMPY[graph[value].dtype.name])
        if {b.node for b in kernel.buffers} - {*step.reads, *step.writes}:
            raise AssertionError(f"{kernel.name} reads {[b.node for b in kernel.buffers]}, the plan says {step.reads}")
        launch(kernel, [memory[b.node] for b in kernel.buffers], values)
    return [real(place, output) for output, place in zip(graph.outputs, plan.outputs, strict=True)]


def order_problem(kernel: Kernel) -> str:
    """What is wrong with a kernel's order of execution: every value known before it is read, every store made once."""
    element = [kernel.is_element(n) for n in range(len(kernel.body))]

    def column(number: int) -> bool:
        instr = kernel.body[number]
        return isinstance(instr, Reduce) and instr.over_loop

    known: set[int] = set()  # row values so far
    kept: set[int] = set()  # element values on chip
    stored: list[int] = []

    def run_all(numbers: Sequence[int], local: set[int], late: bool) -> str:
        for number in numbers:
            for operand in operands(kernel.body[number]):
                if column(operand) and not late:
                    return f"%{number} reads the column sum %{operand} before the loop ends"
                if operand not in (local if element[operand] and not column(operand) else known):
                    return f"%{number} reads %{operand} before it is known"
            if isinstance(kernel.body[number], (Store, Check)):
                stored.append(number)
            if element[number]:
                local.add(number)
            else:
                known.add(number)
        return ""

    problem = run_all(kernel.before, set(), False)
    for one in kernel.passes:
        local = set(kept)
        problem = problem or run_all(one.elem, local, False)
        if any(kernel.body[n].arg not in local | known for n in one.reduces):  # type: ignore[union-attr]
            problem = problem or "a reduction is fed with a value that its pass does not compute"
        known.update(one.reduces)
        kept |= local & kernel.carried
        problem = problem or run_all(one.after, set(), False)
    sums = {n for one in kernel.passes for n in one.elem if column(n)}
    known |= sums
    problem = problem or run_all(kernel.final, set(sums), True)
    wanted = sorted(n for n, i in enumerate(kernel.body) if isinstance(i, Store))
    made = sorted(n for n in stored if isinstance(kernel.body[n], Store))
    if made != wanted:
        problem = problem or f"stores {wanted} are made as {made}"
    missing = {n for n, i in enumerate(kernel.body) if isinstance(i, Check)} - set(stored)
    return problem or (f"checks {sorted(missing)} are never made" if missing else "")


# ---- shrinking


def shrink(graph: Graph, fails: Callable[[Graph], bool], steps: int = 400) -> Graph:
    """A smaller graph that still fails: outputs dropped, nodes replaced by inputs or by their own operands."""
    for _ in range(steps):
        smaller = next((g for g in _smaller(graph) if fails(g)), None)
        if smaller is None:
            return graph
        graph = smaller
    return graph


def _smaller(graph: Graph) -> Iterator[Graph]:
    if len(graph.outputs) > 1:
        for position in range(len(graph.outputs)):
            kept = [o for i, o in enumerate(graph.outputs) if i != position]
            yield _rebuild(graph, kept, {})
    for node in reversed(graph.nodes):
        if node.op in ("input", "const", "opaque", "size"):
            continue
        for arg in node.args:
            same_kind = graph[arg].shape == node.shape and graph[arg].dtype == node.dtype
            if same_kind and graph[arg].op != "opaque":
                yield _rebuild(graph, graph.outputs, {node.id: arg})
        if node.id not in graph.outputs:
            yield _rebuild(graph, graph.outputs, {node.id: None})


def _rebuild(graph: Graph, outputs: Sequence[int], replaced: Mapping[int, int | None]) -> Graph:
    """The graph with nodes replaced by another (or None: by a fresh input) and without inputs that nothing reads."""
    live: set[int] = set()
    stack = list(outputs)
    while stack:
        number = stack.pop()
        if number in live:
            continue
        live.add(number)
        if number in replaced:
            other = replaced[number]
            stack.extend([] if other is None else [other])
        else:
            stack.extend(graph[number].args)
    b = Builder(graph.device)
    for name, info in graph.symbols.items():
        b.symbol(name, info)
    values: dict[int, Value] = {}
    for node in graph:
        if node.id not in live:
            continue
        if node.op == "input" or (node.id in replaced and replaced[node.id] is None):
            strides = graph.strides.get(node.id, contiguous_strides(node.shape))
            values[node.id] = b.input(node.shape, node.dtype, strides)
            continue
        if node.id in replaced:
            values[node.id] = values[replaced[node.id]]  # type: ignore[index]
            continue
        values[node.id] = b.copy(node, [values[a] for a in node.args])
        if node.id in graph.strides:
            b.set_strides(values[node.id], graph.strides[node.id])
    return b.finish([values[o] for o in outputs])
