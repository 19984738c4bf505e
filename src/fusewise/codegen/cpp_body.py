"""Prints instructions as C++ statements, in a scope that knows which values are scalars and which vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fusewise.codegen.cpp_ops import (
    Value,
    as_vector,
    compute,
    literal,
    scalar_type,
    stored_type,
)
from fusewise.codegen.expr import identifier, print_index, print_size
from fusewise.codegen.rounding import Form
from fusewise.errors import IRError
from fusewise.ir.affine import Index, Loaded
from fusewise.ir.dtypes import BOOL, I64
from fusewise.ir.philox import threshold
from fusewise.lower.kernel import (
    Check,
    Compute,
    Const,
    IndexOf,
    Kernel,
    Load,
    Random,
    SizeOf,
    Store,
    operands,
)


@dataclass(slots=True)
class Writer:
    """Lines of C++ with their indentation."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def line(self, text: str = "") -> None:
        self.lines.append("  " * self.depth + text if text else "")

    def open(self, text: str) -> None:
        self.line(text)
        self.depth += 1

    def close(self, text: str = "}") -> None:
        self.depth -= 1
        self.line(text)


@dataclass(slots=True)
class Scope:
    """What is known at one place of the source.

    Attributes:
        out: where statements go.
        kernel: the kernel being printed.
        values: the values that this place can name.
        vector_axis: the axis that runs in vectors here, None where the place is scalar. Its C++ variable is the index
            of the first lane, and `lanes` says how many take part.
        leave: statement that gives the rest of this place up, after a failed check.
        direct: stores that may go past the cache, with the C++ flag that says so.
        forms, replaced: joint forms of instructions, and those whose values only such forms stand for: they are
            computed where something needs them after all.
    """

    out: Writer
    kernel: Kernel
    values: dict[int, Value]
    vector_axis: str | None
    leave: str
    direct: dict[int, str] = field(default_factory=dict)
    forms: Mapping[int, Form] = field(default_factory=dict)
    replaced: frozenset[int] = frozenset()

    def inner(self, vector_axis: str | None, leave: str) -> Scope:
        """A scope inside this one."""
        return replace(self, values=dict(self.values), vector_axis=vector_axis, leave=leave)

    def value(self, number: int) -> Value:
        if number not in self.values and number in self.replaced:
            self._compute(number)
        try:
            return self.values[number]
        except KeyError:
            raise IRError(f"kernel {self.kernel.name}: %{number} is used before it is computed") from None

    def is_vector(self, number: int) -> bool:
        """True where the instruction's value differs from lane to lane here."""
        return self.vector_axis is not None and self.vector_axis in self.kernel.varies[number]

    def emit_all(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.emit(number)

    def emit_with_operands(self, numbers: Iterable[int]) -> None:
        """Prints instructions and, before each, whatever it reads that this place does not know yet."""
        for number in numbers:
            missing = [o for o in operands(self.kernel.body[number]) if o not in self.values]
            self.emit_with_operands(missing)
            self.emit(number)

    def emit(self, number: int) -> None:
        """Prints instruction `number` and remembers its value."""
        if number in self.values:
            return
        match self.kernel.body[number]:
            case Const(value=value, dtype=dtype):
                self.values[number] = Value(literal(value, dtype), dtype)
            case SizeOf(expr=expr, dtype=dtype):
                text = f"static_cast<{scalar_type(dtype)}>({print_size(expr)})"
                self._define(number, text, vector=False)
            case IndexOf():
                self._index_of(number)
            case Load():
                self._load(number)
            case Compute():
                if number not in self.replaced:
                    self._compute(number)
            case Random():
                self._random(number)
            case Store():
                self._store(number)
            case Check():
                self._check(number)
            case instr:
                raise IRError(f"kernel {self.kernel.name}: %{number} ({type(instr).__name__}) is no plain statement")

    def _compute(self, number: int) -> None:
        instr = self.kernel.body[number]
        assert isinstance(instr, Compute)
        form = self.forms.get(number)
        if form is not None and all(a in self.values for a in form.args):
            values = [self.value(a) for a in form.args]
            vector = any(v.vector for v in values)
            text = form.text.format(*(as_vector(v) if vector else v.text for v in values))
        else:
            values = [self.value(a) for a in instr.args]
            vector = any(v.vector for v in values)
            text = compute(instr.op, values, instr.dtype, vector)
        self._define(number, text, vector)

    def _define(self, number: int, text: str, vector: bool) -> None:
        dtype = self.kernel.body[number].dtype  # type: ignore[union-attr]
        kind = "const auto" if vector else f"const {scalar_type(dtype)}"
        self.out.line(f"{kind} v{number} = {text};")
        self.values[number] = Value(f"v{number}", dtype, vector)

    # -------------------------------------------------------------------------------------------------- indexes

    def _index(self, index: Index, lane: str | None = None) -> str:
        """Text of an index; `lane` is the lane's number where it is printed for one lane."""

        def loaded(atom: Loaded) -> str:
            value = self.value(atom.node)
            text = value.text
            if value.vector:
                if lane is None:
                    raise IRError(f"kernel {self.kernel.name}: %{atom.node} differs from lane to lane")
                text = f"{text}[{lane}]"
            return text if value.dtype == I64 else f"static_cast<int64_t>({text})"

        return print_index(index, loaded)

    def index_text(self, index: Index) -> str:
        """Text of an index that is the same for every lane."""
        return self._index(index)

    def _differs(self, index: Index) -> bool:
        """True where the index differs from lane to lane."""
        if self.vector_axis is None:
            return False
        return self.vector_axis in index.axes() or any(self.value(a.node).vector for a in index.loaded())

    def _step(self, index: Index) -> int | None:
        """By how much the index grows from lane to lane, where that is one whole number."""
        axis = self.vector_axis
        if axis is None or any(self.value(a.node).vector for a in index.loaded()):
            return None
        step = index.coefficient(axis)
        rest = Index(tuple((a, c) for a, c in index.terms if a != axis), index.const)
        return step if isinstance(step, int) and axis not in rest.axes() else None

    def _each_lane(self, of: str, index: Index, text: str) -> str:
        """`text` evaluated for each lane, where it names the `lane` and the vector axis."""
        axis = identifier(self.vector_axis or "")
        return f"fw::{of}(lanes, {axis}, [&](int64_t {axis}, int lane) {{ (void){axis}, (void)lane; return {text}; }})"

    def position(self, index: Index, vector: bool) -> str:
        """An index as an i64 value: a vector of its lanes, or a scalar."""
        if not vector:
            return self._index(index)
        if not self._differs(index):
            return f"fw::splat<int64_t>({self._index(index)})"
        if (step := self._step(index)) is not None:
            return f"fw::ramp<int64_t>({self._index(index)}, {step})"
        return self._each_lane("gather<int64_t>", index, self._index(index, "lane"))

    # ------------------------------------------------------------------------------------------------- statements

    def _index_of(self, number: int) -> None:
        instr = self.kernel.body[number]
        assert isinstance(instr, IndexOf)
        kind = stored_type(instr.dtype)
        if not self._differs(instr.index):
            self._define(number, f"static_cast<{kind}>({self._index(instr.index)})", vector=False)
        elif (step := self._step(instr.index)) is not None:
            self._define(number, f"fw::ramp<{kind}>({self._index(instr.index)}, {step})", vector=True)
        else:
            text = f"static_cast<{kind}>({self._index(instr.index, 'lane')})"
            self._define(number, self._each_lane(f"gather<{kind}>", instr.index, text), vector=True)

    def _load(self, number: int) -> None:
        instr = self.kernel.body[number]
        assert isinstance(instr, Load)
        buffer = self.kernel.buffers[instr.buffer]
        name, kind = identifier(buffer.name), stored_type(buffer.dtype)
        mask = None if instr.mask is None else self.value(instr.mask)
        other = literal(instr.other, instr.dtype)
        is_bool = instr.dtype == BOOL
        if not self._differs(instr.index):
            text = f"{name}[{self._index(instr.index)}]" + (" != 0" if is_bool else "")
            if mask is None:
                self._define(number, text, vector=False)
            elif not mask.vector:
                self._define(number, f"{mask.text} ? {text} : {other}", vector=False)
            else:
                text = f"fw::any({mask.text}, lanes) ? {text} : {other}"
                spread = as_vector(Value(f"({text})", instr.dtype))
                rest = as_vector(Value(other, instr.dtype))
                self._define(number, f"fw::select({mask.text}, {spread}, {rest})", vector=True)
            return
        stored_other = ("1" if instr.other else "0") if is_bool else other
        if self._step(instr.index) == 1:
            place = f"{name} + ({self._index(instr.index)})"
            if mask is None:
                text = f"fw::load({place}, lanes)"
            else:
                text = f"fw::load_where<{kind}>({place}, {as_vector(mask)}, {stored_other}, lanes)"
        else:
            text = f"{name}[{self._index(instr.index, 'lane')}]"
            if mask is not None:
                held = f"{mask.text}[lane]" if mask.vector else mask.text
                text = f"{held} ? {text} : static_cast<{kind}>({stored_other})"
            text = self._each_lane(f"gather<{kind}>", instr.index, text)
        self._define(number, f"fw::bool_lanes({text})" if is_bool else text, vector=True)

    def _store(self, number: int) -> None:
        instr = self.kernel.body[number]
        assert isinstance(instr, Store)
        buffer = self.kernel.buffers[instr.buffer]
        name, kind, is_bool = identifier(buffer.name), stored_type(buffer.dtype), buffer.dtype == BOOL
        value = self.value(instr.value)
        if not self._differs(instr.index):
            if value.vector:
                raise IRError(f"kernel {self.kernel.name}: %{number} stores many lanes to one place")
            self.out.line(f"{name}[{self._index(instr.index)}] = {value.text};")
        elif self._step(instr.index) == 1:
            call = "store_mask" if is_bool else f"store<{kind}>"
            last = ", lanes"
            if number in self.direct:
                call, last = f"store_direct<{kind}>", f", lanes, {self.direct[number]}"
            self.out.line(f"fw::{call}({name} + ({self._index(instr.index)}), {as_vector(value)}{last});")
        else:
            axis = identifier(self.vector_axis or "")
            text = as_vector(value)
            if is_bool:
                text = f"fw::from_bool<uint8_t>({text})"
            place = f"{name} + ({self._index(instr.index, 'lane')})"
            self.out.line(
                f"fw::scatter<{kind}>({text}, lanes, {axis}, "
                f"[&](int64_t {axis}, int lane) {{ (void){axis}, (void)lane; return {place}; }});"
            )

    def _check(self, number: int) -> None:
        instr = self.kernel.body[number]
        assert isinstance(instr, Check)
        cond = self.value(instr.cond)
        mask = None if instr.mask is None else self.value(instr.mask)
        if cond.vector or (mask is not None and mask.vector):
            wrong = f"~{as_vector(cond)}" + ("" if mask is None else f" & {as_vector(mask)}")
            text = f"fw::any({wrong}, lanes)"
        else:
            text = f"!{cond.text}" + ("" if mask is None else f" && {mask.text}")
        self.out.open(f"if (__builtin_expect({text}, 0)) {{")
        self.out.line(f"fw::fail(status, {number});")
        self.out.line(self.leave)
        self.out.close()

    # ----------------------------------------------------------------------------------------------------- random

    def _random(self, number: int) -> None:
        instr = self.kernel.body[number]
        assert isinstance(instr, Random)
        limit = threshold(instr.keep_prob)
        if instr.kind == "keep" and limit in (0, 65536):
            self.values[number] = Value("true" if limit else "false", BOOL)
            return
        seed = self.value(instr.seed)
        where = f"{{seed}}, {instr.slot & 0xFFFFFFFF}u, {{element}}"
        one = f"fw::keep_one({where}, {limit}u)" if instr.kind == "keep" else f"fw::uniform_one({where})"
        if not self._differs(instr.element) and not seed.vector:
            text = one.format(seed=seed.text, element=self._index(instr.element))
            self._define(number, text, vector=False)
        elif self._step(instr.element) == 1 and streamed(self.kernel, number):
            element = self._index(instr.element)
            call = f"keep({element}, {limit}u)" if instr.kind == "keep" else f"uniform({element})"
            self._define(number, f"stream{number}.{call}", vector=True)
        else:
            lane_seed = f"{seed.text}[lane]" if seed.vector else seed.text
            text = one.format(seed=lane_seed, element=self._index(instr.element, "lane"))
            kind = "uint8_t" if instr.kind == "keep" else "float"
            text = self._each_lane(f"gather<{kind}>", instr.element, f"static_cast<{kind}>({text})")
            self._define(number, f"fw::bool_lanes({text})" if instr.kind == "keep" else text, vector=True)


def streamed(kernel: Kernel, number: int) -> bool:
    """True where a random instruction's seed is one for the whole kernel, so that draws can be made in blocks."""
    instr = kernel.body[number]
    return isinstance(instr, Random) and not kernel.varies[instr.seed]
