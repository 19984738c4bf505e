"""Kernel IR -> Triton: a module of Python source with one function a kernel.

Parameters of a kernel are its buffers (pointers), then its sizes (64-bit integers). A tile has up to three dims: y, x
and r. Each value is kept at the smallest tile shape that it varies over, so what does not vary along a row is loaded
and computed once a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fusewise.codegen import triton_ops as ops
from fusewise.codegen.triton_index import Dim, Shape, programs_of, size_text, wide
from fusewise.codegen.triton_reductions import Reductions
from fusewise.errors import IRError
from fusewise.ir import affine
from fusewise.ir.affine import Index
from fusewise.ir.dtypes import BF16, F32, I32, I64, DType
from fusewise.ir.philox import threshold
from fusewise.lower.kernel import (
    Check,
    Compute,
    Const,
    IndexOf,
    Kernel,
    Load,
    Random,
    Reduce,
    SizeOf,
    Store,
    operands,
    result_dtype,
)
from fusewise.lower.launch import BundledKernel, LaunchUnit, members_of, memory_of

_HEADER = """\
import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib
"""

_EXACT = "# eager's bits: functions keep subnormals"

# Types that each op keeps as they are; on any other op 16-bit floats are widened first.
_MOVES = frozenset({"copy", "cast", "bitcast", "where"})


def module(kernels: Sequence[LaunchUnit], exact: bool, vendor: ops.Vendor = "nvidia") -> str:
    """Source of a module that defines what each launch runs as a `@triton.jit` function of its name.

    Members of a bundle are functions of their own names, which take the number of the program; those that differ in
    their data alone share one.

    Args:
        exact: True where results must have eager's bits; else functions may be cheaper where the error vanishes in the
            rounding that follows, and stay within about 2 ulp where f32 is stored.
        vendor: `amd` leaves out the forms in PTX.
    """
    header = _HEADER + (f"\n{_EXACT}\n" if exact else "")
    bodies: dict[str, str] = {}
    launched: list[str] = []
    for unit in kernels:
        if isinstance(unit, Kernel):
            launched.append(_Printer(unit, exact, vendor).text())
            continue
        called: list[str] = []
        for member in unit.members:
            body = _Printer(member, exact, vendor).text(member=True)
            called.append(bodies.setdefault(body.removeprefix(_defines(member.name)), member.name))
        launched.append(_bundle_text(unit, called))
    functions = [_defines(name) + body for body, name in bodies.items()]
    return "\n\n".join([header, *functions, *launched])


def is_exact(source: str) -> bool:
    """True where `source` was made with `exact`, and so must be compiled with subnormals kept."""
    return _EXACT in source.partition("@triton.jit")[0]


def needs_debug(unit: LaunchUnit) -> bool:
    """True where a kernel holds a `Check` and must be compiled with device assertions on."""
    return any(isinstance(instr, Check) for kernel in members_of(unit) for instr in kernel.body)


def _defines(name: str) -> str:
    return f"@triton.jit\ndef {name}("


def _bundle_text(bundle: BundledKernel, functions: Sequence[str]) -> str:
    """The function that hands each program to its member; `functions` are those of the members."""
    lines = ["    pid = tl.program_id(0)"]
    starts: list[str | int] = [0]
    for number, member in enumerate(bundle.members[:-1], 1):
        count, start = programs_of(member), starts[-1]
        if isinstance(count, int) and isinstance(start, int):
            starts.append(start + count)
        else:
            starts.append(f"start{number}")
            lines.append(f"    start{number} = {start} + {count}")
    names = {memory_of(buffer): buffer.name for buffer in bundle.buffers}

    def dispatch(first: int, end: int, indent: str) -> None:
        if end - first == 1:
            member, start = bundle.members[first], starts[first]
            pid = f"pid - {start}" if isinstance(start, int) else f"(pid - {start}).to(tl.int32)"
            arguments = ", ".join([pid, *(names[memory_of(b)] for b in member.buffers), *member.sizes])
            lines.append(f"{indent}{functions[first]}({arguments})")
            return
        middle = (first + end) // 2
        lines.append(f"{indent}if pid < {starts[middle]}:")
        dispatch(first, middle, indent + "    ")
        lines.append(f"{indent}else:")
        dispatch(middle, end, indent + "    ")

    dispatch(0, len(bundle.members), "    ")
    parameters = ", ".join([*names.values(), *bundle.sizes])
    return f"{_defines(bundle.name)}{parameters}):\n" + "\n".join(lines) + "\n"


class _Printer(Reductions):
    """Prints one kernel: the order of execution, instructions, reductions."""

    def text(self, member: bool = False) -> str:
        """The function of the kernel; that of a member of a bundle takes the number of its program as `pid`."""
        kernel = self.kernel
        parameters = ", ".join([*(["pid"] if member else []), *(b.name for b in kernel.buffers), *kernel.sizes])
        self._prologue("pid" if member else "tl.program_id(0)")
        persistent = self.schedule.persistent or not kernel.reduce
        if kernel.loop and not persistent:
            raise IRError(f"kernel {kernel.name}: a loop over rows needs a persistent schedule")
        if persistent and kernel.reduce:
            self._range("0")
        if kernel.loop:
            self._rows()
        else:
            self._passes(persistent)
        if not self.lines:
            self._line("pass")
        return f"{_defines(kernel.name)}{parameters}):\n" + "\n".join(self.lines) + "\n"

    def _prologue(self, program: str) -> None:
        for dim in self.tile.dims:
            if dim.live:
                self._line(f"{dim.name.upper()}BLOCK: tl.constexpr = {dim.block}")
        if self.tile.bits == 32:
            for name in self.kernel.sizes:
                self._line(f"{name} = {name}.to(tl.int32)")
        pid = program + (".to(tl.int64)" if self.tile.bits == 64 else "")
        parallel = [d for d in self.tile.dims if d.name in ("y", "x")]
        if len(parallel) == 2:
            y, x = parallel
            tiles = f"tl.cdiv({size_text(x.size)}, {x.block})"
            if isinstance(x.size, int):
                tiles = str(-(-x.size // x.block))
            if pid != "pid":
                self._line(f"pid = {pid}")
            self._position(y, f"(pid // {tiles})")
            self._position(x, f"(pid % {tiles})")
        else:
            self._position(parallel[0], pid)

    def _position(self, dim: Dim, pid: str) -> None:
        name, block = dim.name, f"{dim.name.upper()}BLOCK"
        if dim.live:
            self._line(f"{name}0 = {pid} * {block}")
            self._line(f"{name} = {name}0 + tl.arange(0, {block}){self.tile.spread(name)}")
        else:
            self._line(f"{name} = {pid}")
        if dim.masked:
            self._line(f"{name}_ok = {name} < {size_text(dim.size)}")

    def _passes(self, persistent: bool) -> None:
        kernel = self.kernel
        self._emit_all(kernel.before)
        for number, step in enumerate(kernel.passes):
            for value in step.reduces:
                if value in self.forms:
                    self._assign(value, self._form_text(self.forms[value]))
            reduces = [v for v in step.reduces if v not in self.forms and v in self.live]
            if persistent:
                self._emit_all(step.elem)
                for value in reduces:
                    self._reduce_tile(value)
            elif elem := self._needed(step.elem, reduces):
                last = number == len(kernel.passes) - 1
                self._loop(elem, reduces, last)
            self._emit_all(step.after)

    def _loop(self, elem: Sequence[int], reduces: Sequence[int], last: bool) -> None:
        self._start_all(reduces)
        dim = self.tile.dim("r")
        stages = self.schedule.num_stages
        pipelined = f", num_stages={stages}" if stages > 1 else ""
        self._line(f"for r0 in tl.range(0, {size_text(dim.size)}, RBLOCK{pipelined}):")
        with self._scope():
            self._range("r0")
            self._emit_all(elem, last)
            for value in reduces:
                self._accumulate(value)
        self._finish_all(reduces)

    def _needed(self, elem: Sequence[int], reduces: Sequence[int]) -> list[int]:
        """Instructions of a pass that its stores, checks and reductions need."""
        inside = set(elem)
        needed: set[int] = set()
        stack = [v for v in elem if isinstance(self.kernel.body[v], (Store, Check))]
        stack += [o for v in reduces for o in self._reads_of(v)]
        while stack:
            value = stack.pop()
            if value in inside and value not in needed:
                needed.add(value)
                stack.extend(self._reads_of(value))
        return sorted(needed)

    def _rows(self) -> None:
        """The loop over rows, with an accumulator for each sum over them; then what depends on the sums."""
        kernel = self.kernel
        walked = frozenset(a.name for a in kernel.loop)
        inside = (*kernel.before, *(v for step in kernel.passes for v in (*step.elem, *step.after)))
        moving: set[int] = set()
        for value, instr in enumerate(kernel.body):
            # a check or a store runs where it stands
            fixed = not isinstance(instr, (Reduce, Check, Store)) and not kernel.varies[value] & walked
            if not fixed or any(o in moving for o in operands(instr)):
                moving.add(value)
        self._emit_all([v for v in sorted(set(inside)) if v not in moving])
        sums = [v for v in inside if isinstance(kernel.body[v], Reduce)]
        for value in sums:
            self._start_accumulator(value)
        dim = self.tile.dim("l")
        if dim.masked:
            raise IRError(f"kernel {kernel.name}: {dim.block} rows at a time do not divide {dim.size}")
        stages = self.schedule.num_stages
        pipelined = f", num_stages={stages}" if stages > 1 else ""
        name = "l0" if self._is_wide(dim) or dim.live else "l"
        step = ", LBLOCK" if dim.live else ""
        self._line(f"for {name} in tl.range(0, {size_text(dim.size)}{step}{pipelined}):")
        with self._scope():
            if name == "l0":
                rows = f"l0 + tl.arange(0, LBLOCK){self.tile.spread('l')}" if dim.live else "l0"
                self._line(f"l = tl.cast({rows}, tl.int64)" if self._is_wide(dim) else f"l = {rows}")
            self._passes(persistent=True)
        for value in sums:
            self._finish(value, self._sum_of_rows(value))
        self._emit_all(kernel.final)

    # ---- instructions

    def _emit_all(self, values: Sequence[int], last: bool = True) -> None:
        for value in values:
            if value not in self.names and value in self.live:
                self._emit(value, last)

    def _emit(self, value: int, last: bool) -> None:
        instr = self.kernel.body[value]
        match instr:
            case Const():
                pass  # written where it is used
            case SizeOf(expr=expr, dtype=dtype):
                self._assign(value, self._size(expr, dtype))
            case IndexOf(index=index, dtype=dtype):
                self._assign(value, self._index_value(index, I32 if value in self.narrow else dtype))
            case Load():
                self._load(value, instr, last)
            case Compute():
                self._compute(value, instr)
            case Random():
                self._random(value, instr)
            case Store():
                self._store(instr)
            case Check():
                self._check(instr)
            case Reduce(over_loop=True):
                self._accumulate(value)
            case Reduce():
                raise IRError(f"kernel {self.kernel.name}: reduction %{value} stands among the instructions of a pass")

    def _compute(self, value: int, instr: Compute) -> None:
        if value in self.forms:
            self._assign(value, self._form_text(self.forms[value]))
            return
        rounded = self._rounded(instr)
        if rounded is not None:
            self._assign(value, rounded)
            return
        texts, types = self._arguments(value, instr)
        dtype = I32 if value in self.narrow else instr.dtype
        precision: ops.Precision = "exact" if self.exact else "half" if value in self.half else "full"
        if instr.op == "div" and precision == "full" and self._is_shared(value, instr.args):
            precision = "exact"
        if instr.op == "div" and precision != "exact" and types == [F32, F32] and self._is_row(instr.args):
            text = f"lib.div_by_row({texts[0]}, {self._operand(instr.args[1])})"
        else:
            text = ops.compute(instr.op, tuple(texts), tuple(types), dtype, precision, self.vendor)
        if instr.dtype.is_half and instr.op not in _MOVES:
            text = f"({text}).to({ops.TYPES[instr.dtype]})"
        self._assign(value, text)

    def _arguments(self, value: int, instr: Compute) -> tuple[list[str], list[DType]]:
        """Operands and their types as the op is computed on them."""
        constants = [isinstance(self.kernel.body[a], Const) for a in instr.args]
        typed = not ops.takes_literals(instr.op) or all(constants)
        compares = ops.compares(instr.op) and self._type(instr.args[0]) == I64
        narrow = value in self.narrow or instr.op == "cast" or (compares and self._compares_narrow(instr))
        texts: list[str] = []
        types: list[DType] = []
        for arg in instr.args:
            text, dtype = self._raw(arg, typed) if narrow else (self._operand(arg, typed), self._type(arg))
            if compares and narrow and dtype == I64:
                clamp = "clamp_i32" if self.vendor == "nvidia" else "clamp_i32_portable"
                text, dtype = f"lib.{clamp}({text})", I32
            if dtype.is_half and instr.op not in _MOVES:
                text, dtype = f"{text}.to(tl.float32)", F32
            texts.append(text)
            types.append(dtype)
        return texts, types

    def _compares_narrow(self, instr: Compute) -> bool:
        """True where a comparison of 64-bit integers needs 32 bits: both fit, or one does and the other is a row value.

        What does not fit is clamped, once a row, to a number that no value that fits is equal to.
        """
        fits = [a in self.narrow for a in instr.args]
        if not any(fits):
            return False
        one, other = instr.args if fits[0] else instr.args[::-1]
        return all(fits) or self.shapes[other] < self.shapes[one]

    def _rounded(self, instr: Compute) -> str | None:
        """The packed form of f32 -> 16 bits -> f32 and of bf16 -> f32; None for any other op."""
        if self._rounds(instr):
            source = self.kernel.body[instr.args[0]]
            assert isinstance(source, Compute)
            return f"lib.round_{source.dtype.name}({self._operand(source.args[0])})"
        widens = instr.op == "cast" and instr.dtype == F32 and result_dtype(self.kernel.body[instr.args[0]]) == BF16
        if widens and self.vendor == "nvidia" and self.shapes[instr.args[0]]:
            return f"lib.widen_bf16({self._operand(instr.args[0])})"
        return None

    def _is_row(self, args: tuple[int, ...]) -> bool:
        """True where the divisor is shared by many elements of the dividend."""
        return self.shapes[args[1]] < self.shapes[args[0]]

    def _is_shared(self, value: int, args: tuple[int, ...]) -> bool:
        """True for a quotient that many elements share: its error would be the same in all of them, where sums do not
        average it out, and a correctly rounded one costs little. A constant divisor is a product with its inverse."""
        return self.shapes[value] < frozenset(self.tile.order) and not isinstance(self.kernel.body[args[1]], Const)

    def _load(self, value: int, instr: Load, last: bool) -> None:
        buffer = self.kernel.buffers[instr.buffer]
        if buffer.seed:
            self._assign(value, f"lib.seed_of({buffer.name})")
            return
        shape = self.shapes[value]
        masks = self._mask(shape)
        if instr.mask is not None:
            masks.append(self._operand(instr.mask))
        for guard in self._guards_of(value):
            if guard in self.guards:
                masks.append(self._operand(guard.cond))
        address = self._address(instr.buffer, instr.index, shape if masks else frozenset())
        arguments = [address]
        if masks:
            arguments.append(" & ".join(dict.fromkeys(masks)))
            if instr.mask is not None:
                number = ops.literal(instr.other, instr.dtype)
                arguments.append(f"other={number if number is not None else bool(instr.other)}")
            elif value in self.shifted.loads and self.tile.dim("r").masked:
                arguments.append('other=float("-inf")')
        policy = self._eviction(instr, shape, last)
        if policy:
            arguments.append(f'eviction_policy="{policy}"')
        self._assign(value, ops.cast(f"tl.load({', '.join(arguments)})", buffer.dtype, instr.dtype))

    def _eviction(self, instr: Load, shape: Shape, last: bool) -> str:
        """`evict_last` for what other programs or a later pass read again, `evict_first` for the last read of a row."""
        if not self.kernel.reduce or not shape:
            return ""
        if self._is_shared_read(instr.index):
            return "evict_last"
        if self.schedule.persistent:
            return ""
        return "evict_first" if last else "evict_last" if self._reads(instr) > 1 else "evict_first"

    def _is_shared_read(self, index: Index) -> bool:
        """True where other programs read the same address: it lacks an axis of theirs, or varies along rows alone."""
        if index.loaded():
            return False
        row = {a.name for a in self.kernel.reduce}
        lacks = any(a.size != 1 and a.name not in index.axes() for a in self.kernel.parallel)
        return lacks or index.axes() <= row

    def _reads(self, load: Load) -> int:
        """Number of passes that read a load."""
        return sum(any(self.kernel.body[v] == load for v in step.elem) for step in self.kernel.passes)

    def _store(self, instr: Store) -> None:
        flat = self.tile.flatten(instr.index)
        shape = self._index_shape(flat)
        for loaded in flat.loaded():
            shape |= self.shapes[loaded.node]
        value, have = self._operand(instr.value), self.shapes[instr.value]
        wanted = shape | have
        address = self._address(instr.buffer, instr.index, wanted)
        arguments = [address, self._spread(value, have, wanted)]
        masks = self._mask(wanted)
        if masks:
            arguments.append(" & ".join(masks))
        if self.kernel.buffers[instr.buffer].over is not None and self._is_repeated(wanted):
            self._line("tl.debug_barrier()")  # another thread may still have to load what this one overwrites
        self._line(f"tl.store({', '.join(arguments)})")

    def _is_repeated(self, shape: Shape) -> bool:
        """True where several threads hold the same element of a tile of this shape."""
        elements = prod(d.block for d in self.tile.dims if d.name in shape and d.live)
        return elements < (64 if self.vendor == "amd" else 32) * self.schedule.num_warps

    def _random(self, value: int, instr: Random) -> None:
        group = 8 if instr.kind == "keep" else 4
        seed = self._seed(instr.seed)
        extra = f", {threshold(instr.keep_prob)}" if instr.kind == "keep" else ""
        flat = self.tile.flatten(instr.element)
        slot = instr.slot & 0xFFFFFFFF
        block = self._aligned_block(flat, group)
        if block is not None:
            self._assign(value, f"lib.{instr.kind}{group}({seed}, {block}, {slot}{extra})")
            return
        element = self._tensor(flat, I64 if wide(flat, self.tile, narrow_ok=True) else I32)
        self._assign(value, f"lib.{instr.kind}1({seed}, {element}, {slot}{extra})")

    def _seed(self, value: int) -> str:
        return ops.cast(*self._raw(value), I64)

    def _aligned_block(self, flat: Index, group: int) -> str | None:
        """Block numbers of the tile's elements, one for each `group` side by side along the inner dim; None where the
        groups do not fall on whole blocks."""
        if not self.tile.order:
            return None
        dim = self.tile.dim(self.tile.order[-1])
        rest = flat - affine.axis(dim.flat)
        if flat.coefficient(dim.flat) != 1 or dim.flat in rest.axes() or dim.block % group or flat.loaded():
            return None
        blocks = affine.floordiv(rest, group, self.tile.flat_sizes)
        if affine.modulo(rest, group, self.tile.flat_sizes) != Index():
            return None
        is_wide = wide(flat, self.tile, narrow_ok=True)
        text = f"tl.arange(0, {dim.name.upper()}BLOCK // {group}){self.tile.spread(dim.name)}"
        if dim.name != "r" or not self.schedule.persistent:
            text = f"{dim.name}0 // {group} + {text}"
        if is_wide and not self._is_wide(dim):
            text = f"({text}).to(tl.int64)"
        return text if blocks == Index() else f"{text} + ({self._sum(blocks, is_wide)})"

    def _check(self, instr: Check) -> None:
        shape = self.shapes[instr.cond] | (frozenset() if instr.mask is None else self.shapes[instr.mask])
        masks = self._mask(shape)
        if instr.mask is not None:
            masks.append(self._operand(instr.mask))
        condition = self._operand(instr.cond)
        if masks:
            condition = f"{condition} | ~({' & '.join(masks)})"
        self._line(f"tl.device_assert({condition}, {instr.message!r})")
        self.guards.append(instr)
