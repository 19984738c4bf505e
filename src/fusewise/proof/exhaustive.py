"""The proof of `policy="conservative"`: each pointwise op that it fuses, on every input or on as many as time allows.

Ops are compiled as any graph is, several to a graph, with symbolic sizes; each result is compared with eager's bit for
bit. On a GPU a unary op gets every bit pattern of its type. A CPU's eager kernels treat the last elements of a row, a
row with gaps and the pieces of several threads by other code than the rest: there each op is also run at every length
of tail, in several layouts and with several numbers of threads.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from fusewise import trace
from fusewise.capture.captured import TensorOutput
from fusewise.config import make_options
from fusewise.errors import FusewiseError, UnknownName
from fusewise.ir.expand import TABLE
from fusewise.measure import machine
from fusewise.pipeline import Compiled, compile_graph
from fusewise.plan.plan import KernelStep
from fusewise.proof.compare import same_bits
from fusewise.proof.op_cases import CASES, FIXED_SIZES, OpCase, claimed_ops, pointwise_ops
from fusewise.proof.op_values import all_values, hard_values, pairs, partner, random_values, spread_values
from fusewise.proof.run import Progress
from fusewise.report.proofs import ExhaustiveReport, ExhaustiveRow, OpMismatch

DTYPES: dict[str, torch.dtype] = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
}
DEFAULT_DTYPES = ("f32", "bf16", "f16")

CPU_INPUTS = 10_000_000
CUDA_PAIRS = 100_000_000
SEED = 0

_BATCH = 16  # ops that are compiled together
_CHUNK = {"cpu": 1 << 20, "cuda": 1 << 24}
# Every tail of every vector width (64 bytes of u8), and the blocks of eager's loops.
_LENGTHS = (*range(2, 200), 255, 256, 257, 511, 1023, 1025, 4095, 4097)
_FEW_LENGTHS = (16, 37, 131, 1025)  # where each length is a compile of its own
_LARGE = 3 * 32768 + 17  # eager shares out from 32,768 elements on
_THREADS = (1, 2, 3)

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """How operands lie in memory.

    Attributes:
        make: called with a source of values and n; gives an operand of n elements a row.
        hold: gives an operand that holds each of some values (of a number that 4 divides).
    """

    name: str
    make: Callable[[Callable[[int], torch.Tensor], int], torch.Tensor]
    hold: Callable[[torch.Tensor], torch.Tensor]


def _rows(draw: Callable[[int], torch.Tensor], n: int) -> torch.Tensor:
    return draw(3 * (n + 5)).view(3, n + 5)[:, 2 : n + 2]


def _short_rows(values: torch.Tensor) -> torch.Tensor:
    """Rows of 7: every element is one of the last that no vector holds."""
    rows = -(-values.numel() // 7)
    out = values.new_zeros(rows, 12)[:, 2:9]
    return out.copy_(torch.cat([values, values[: 7 * rows - values.numel()]]).view(rows, 7))


CONTIGUOUS = _Layout("contiguous", lambda draw, n: draw(n), lambda values: values)
LAYOUTS = (
    CONTIGUOUS,
    _Layout("every second element", lambda draw, n: draw(2 * n)[::2], lambda v: v.repeat_interleave(2)[::2]),
    _Layout("rows with gaps", _rows, _short_rows),
    _Layout("transposed", lambda draw, n: draw(3 * n).view(n, 3).t(), lambda v: v.view(-1, 4).t()),
    _Layout("one row repeated", lambda draw, n: draw(n).expand(3, n), lambda v: v.expand(3, -1)),
)


@dataclass(slots=True)
class _Tally:
    """What was compared of one call in one dtype."""

    case: OpCase
    dtype: str
    fused: bool = True
    reason: str = ""
    inputs: int = 0
    compared: int = 0
    mismatches: int = 0
    first: OpMismatch | None = None
    where: set[str] = field(default_factory=set)

    def row(self, claimed: bool) -> ExhaustiveRow:
        return ExhaustiveRow(
            op=self.case.name,
            call=self.case.label,
            dtype=self.dtype,
            claimed=claimed,
            fused=self.fused,
            reason=self.reason,
            inputs=self.inputs,
            compared=self.compared,
            mismatches=self.mismatches,
            layouts_that_differ=tuple(sorted(self.where)),
            first=self.first,
        )


def prove(
    device: str = "cpu",
    ops: Sequence[str] = (),
    dtypes: Sequence[str] = DEFAULT_DTYPES,
    inputs: int | None = None,
    unclaimed: bool = False,
    progress: Progress | None = None,
) -> ExhaustiveReport:
    """Compares the pointwise ops that `conservative` claims with eager's, bit for bit.

    Args:
        device: `cpu` or `cuda`.
        ops: names as in `add.Tensor` or `aten.relu.default` (none: all).
        dtypes: of `DTYPES`.
        inputs: the least number of inputs an op and dtype, where not every input is taken.
        unclaimed: instead the ops that stay eager under `conservative`, fused all the same: how many inputs differ.

    Raises:
        UnknownName: no such op or dtype.
    """
    for name in dtypes:
        if name not in DTYPES:
            raise UnknownName("dtype", name, DTYPES)
    started = time.perf_counter()
    kind = device.partition(":")[0]
    chosen = _chosen(ops, kind, unclaimed)
    tallies: list[_Tally] = []
    threads = torch.get_num_threads()
    try:
        with _claims(unclaimed), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflow of a cast in eager's own kernels
            for number, dtype in enumerate(dtypes):
                run = _Run(device, dtype, inputs)
                for done, batch in enumerate(batches := _batches(run.accepted(chosen))):
                    if progress is not None:
                        share = (number + done / len(batches)) / len(dtypes)
                        progress(share, f"{dtype}: {batch[0].label} and {len(batch) - 1} more")
                    tallies += run.batch(batch)
    finally:
        torch.set_num_threads(threads)
    return ExhaustiveReport(
        device=device,
        device_name=machine.device_name(device),
        versions=machine.versions(),
        commit=machine.commit() or "unknown",
        date=machine.now(),
        seconds=round(time.perf_counter() - started, 1),
        threads=_THREADS if kind == "cpu" else (),
        layouts=tuple(layout.name for layout in LAYOUTS),
        lengths=len(_LENGTHS),
        unclaimed=unclaimed,
        rows=tuple(t.row(not unclaimed) for t in tallies),
    )


def _chosen(ops: Sequence[str], kind: str, unclaimed: bool) -> list[OpCase]:
    known = pointwise_ops()
    claimed = claimed_ops(kind)
    wanted = known.keys() - claimed if unclaimed else claimed
    if ops:
        wanted = {_full_name(op, known) for op in ops}
    return [c for c in CASES if c.name in wanted]


def _full_name(op: str, known: dict[str, str]) -> str:
    for name in (op, f"aten.{op}", f"aten.{op}.default", f"aten.{op}.Tensor"):
        if name in known:
            return name
    raise UnknownName("pointwise op", op, [n.removeprefix("aten.").removesuffix(".default") for n in known])


@contextmanager
def _claims(all_rows: bool) -> Iterator[None]:
    """Inside, every row of the table counts as exact where `all_rows`."""
    before = dict(TABLE)
    if all_rows:
        TABLE.update({name: replace(row, exactness="exact") for name, row in TABLE.items()})
    try:
        yield
    finally:
        TABLE.update(before)


def _batches(cases: Sequence[OpCase]) -> list[list[OpCase]]:
    """What is compiled together: calls of one tensor, of two, and those with fixed sizes."""
    found: list[list[OpCase]] = []
    for arity, fixed in ((1, False), (2, False), (1, True), (2, True)):
        same = [c for c in cases if c.arity == arity and (c.name in FIXED_SIZES) == fixed]
        found += [same[i : i + _BATCH] for i in range(0, len(same), _BATCH)]
    return found


class _Run:
    """The comparison in one dtype on one device."""

    def __init__(self, device: str, dtype: str, inputs: int | None) -> None:
        self.device = device
        self.kind = device.partition(":")[0]
        self.name = dtype
        self.dtype = DTYPES[dtype]
        self.inputs = inputs
        self.options = make_options(policy="conservative", strict=True)
        self.generator = torch.Generator(device).manual_seed(SEED)

    def accepted(self, cases: Sequence[OpCase]) -> list[OpCase]:
        """The calls that eager takes in this dtype."""
        x = torch.ones(4, device=self.device).to(self.dtype)
        found = []
        for case in cases:
            if not case.takes(self.dtype):
                continue
            try:
                case.function(self.dtype)(*[x] * case.arity)
            except (RuntimeError, IndexError, TypeError):
                continue
            found.append(case)
        return found

    def batch(self, cases: Sequence[OpCase]) -> list[_Tally]:
        """Compiles the calls together in each layout and compares them."""
        tallies = [_Tally(c, self.name) for c in cases]
        for layout in LAYOUTS:
            try:
                built = _Built(cases, self.dtype, self._operands(layout, 37, cases[0].arity), self.options)
            except FusewiseError as cause:
                raise FusewiseError(f"{cases[0].label} and what is beside it: {cause.problem}", cause.remedy) from cause
            if layout is CONTIGUOUS:
                for tally, (fused, reason) in zip(tallies, built.fates, strict=True):
                    tally.fused, tally.reason = fused, reason
            for n in _FEW_LENGTHS if built.fixed else _LENGTHS:
                self._compare(built, tallies, self._operands(layout, n, cases[0].arity), layout.name)
            for threads in _THREADS if self.kind == "cpu" else (1,):
                if self.kind == "cpu":
                    torch.set_num_threads(threads)
                self._compare(built, tallies, self._operands(layout, _LARGE, cases[0].arity), layout.name)
            if layout is CONTIGUOUS:
                for turn, operands in enumerate(self._sweep(cases[0].arity)):
                    if self.kind == "cpu":
                        torch.set_num_threads(_THREADS[turn % len(_THREADS)])
                    self._compare(built, tallies, operands, layout.name, count=True)
            elif self.every_value and cases[0].arity == 1 and not built.fixed:
                for values in all_values(self.dtype, self.device, 1 << 16):
                    self._compare(built, tallies, (layout.hold(values),), layout.name)
        return tallies

    @property
    def every_value(self) -> bool:
        """True for a type with few enough values to take them all, everywhere."""
        return self.dtype.itemsize <= 2

    def _operands(self, layout: _Layout, n: int, arity: int) -> Tensors:
        x = layout.make(self._draw, n)
        if arity == 1:
            return (x,)
        # the second operand is contiguous: eager then takes its general loop
        return x, self._draw(x.numel()).view(x.shape)

    def _draw(self, count: int) -> torch.Tensor:
        return random_values(self.dtype, self.device, count, self.generator)

    def _sweep(self, arity: int) -> Iterator[Tensors]:
        """The inputs that count: every one, or a spread of them; pairs of hard values and random ones."""
        chunk = _CHUNK[self.kind]
        if arity == 1:
            every = self.every_value or (self.kind == "cuda" and self.dtype.itemsize == 4 and self.inputs is None)
            if every:
                values = all_values(self.dtype, self.device, chunk)
            else:
                values = spread_values(self.dtype, self.device, self.inputs or CPU_INPUTS, chunk)
            yield (hard_values(self.dtype, self.device),)
            for x in values:
                yield (x,)
            return
        yield pairs(hard_values(self.dtype, self.device))
        if self.dtype == torch.uint8:
            yield pairs(torch.arange(256, device=self.device).to(self.dtype))
        wanted = self.inputs or (CPU_INPUTS if self.kind == "cpu" else CUDA_PAIRS)
        for start in range(0, wanted, chunk):
            x = random_values(self.dtype, self.device, min(chunk, wanted - start), self.generator)
            yield x, partner(x, self.generator)

    def _compare(
        self, built: _Built, tallies: Sequence[_Tally], operands: Tensors, layout: str, count: bool = False
    ) -> None:
        ours = built.call(operands)
        for tally, got in zip(tallies, ours, strict=True):
            if count:
                tally.inputs += operands[0].numel()
            if not tally.fused:
                continue
            eager = _tensors(tally.case.function(self.dtype)(*operands))
            for a, b in zip(got, eager, strict=True):
                wrong = ~_equal(a, b)
                tally.compared += a.numel()
                if bool(wrong.any()):
                    tally.mismatches += int(wrong.sum())
                    tally.where.add(layout)
                    if tally.first is None:
                        tally.first = _first(wrong, a, b, operands, layout)


def _equal(ours: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    if ours.dtype != eager.dtype or ours.shape != eager.shape:
        return torch.zeros((), dtype=torch.bool, device=ours.device).expand(ours.shape)
    return same_bits(ours, eager) if ours.is_floating_point() else ours == eager


def _first(wrong: torch.Tensor, ours: torch.Tensor, eager: torch.Tensor, operands: Tensors, layout: str) -> OpMismatch:
    flat = int(wrong.flatten().to(torch.uint8).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), wrong.shape))
    given = tuple(_hex(t[index]) for t in operands)
    return OpMismatch(given, _hex(ours[index]), _hex(eager[index]), layout, tuple(wrong.shape), index)


def _hex(value: torch.Tensor) -> str:
    """A float to the last bit."""
    number = value.item()
    return number.hex() if isinstance(number, float) else str(number)


def _tensors(value: Any) -> list[torch.Tensor]:
    # an empty tensor is a buffer that the device does not use
    return [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]


class _Built:
    """Several calls compiled as one graph with symbolic sizes.

    Attributes:
        fates: for each call whether a generated kernel computes it, and if not, why.
    """

    def __init__(self, cases: Sequence[OpCase], dtype: torch.dtype, example: Tensors, options: Any) -> None:
        functions = [c.function(dtype) for c in cases]
        self.counts: list[int] = [len(_tensors(f(*example))) for f in functions]
        self.fixed = any(c.name in FIXED_SIZES for c in cases)
        self._options = options
        self._calls: dict[Any, Any] = {}

        def together(*tensors: torch.Tensor) -> list[torch.Tensor]:
            return [t for f in functions for t in _tensors(f(*tensors))]

        self._together = together
        self._compile(example)
        compiled = trace.last()
        assert compiled is not None
        fates = [_fate(compiled, position) for position in range(sum(self.counts))]
        self.fates: list[tuple[bool, str]] = []
        for part in self._parts(fates):
            eager = [reason for fused, reason in part if not fused]
            self.fates.append((not eager, eager[0] if eager else ""))

    def call(self, operands: Tensors) -> list[list[torch.Tensor]]:
        """The results of each call."""
        key = self._key(operands)
        if key not in self._calls:
            self._compile(operands)
        return self._parts(self._calls[key](list(operands)))

    def _compile(self, example: Tensors) -> None:
        graph = make_fx(self._together, tracing_mode="fake" if self.fixed else "symbolic")(*example)
        self._calls[self._key(example)] = compile_graph(graph, list(example), self._options, role="inference")

    def _key(self, operands: Tensors) -> Any:
        return tuple((t.shape, t.stride()) for t in operands) if self.fixed else None

    def _parts(self, values: Sequence[Any]) -> list[list[Any]]:
        found, at = [], 0
        for count in self.counts:
            found.append(list(values[at : at + count]))
            at += count
        return found


def _fate(compiled: Compiled, position: int) -> tuple[bool, str]:
    kind = compiled.captured.outputs[position]
    if not isinstance(kind, TensorOutput):
        return False, "no tensor"
    base = compiled.plan.outputs[kind.index].base
    for step in compiled.plan.steps:
        if isinstance(step, KernelStep):
            if base in step.writes:
                # a kernel that copies what an op of PyTorch's made computes nothing
                return True, ""
        elif base in step.results:
            return False, compiled.captured.opaques[compiled.plan.graph[step.node].attr("key")].reason
    return False, "it is its operand"
