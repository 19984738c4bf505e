"""Values of a kernel as Triton text: names, tile shapes, indexes, and which values are printed at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fusewise.codegen import triton_ops as ops
from fusewise.codegen.ranges import narrow_values, one_hot_sums
from fusewise.codegen.rounding import (
    Form,
    contractions,
    half_only,
    identities,
    joint_forms,
    packed_forms,
    scaled_masks,
    users_of,
)
from fusewise.codegen.shifted import shifted_exps, summed_only
from fusewise.codegen.triton_index import (
    INT32_MAX,
    Dim,
    Shape,
    Tile,
    atom_axes,
    atom_sign,
    make_tile,
    size_text,
    wide,
)
from fusewise.ir.affine import Atom, Index, Loaded
from fusewise.ir.dtypes import F32, I32, I64, DType
from fusewise.ir.sizes import Size
from fusewise.lower.kernel import (
    Check,
    Compute,
    Const,
    IndexOf,
    Instr,
    Kernel,
    Load,
    Random,
    Reduce,
    Store,
    TritonSchedule,
    operands,
    result_dtype,
)


class Values:
    """What is named in the current scope of a kernel that is being printed, and the lines so far."""

    def __init__(self, kernel: Kernel, exact: bool, vendor: ops.Vendor) -> None:
        assert isinstance(kernel.schedule, TritonSchedule)
        self.kernel = kernel
        self.schedule = kernel.schedule
        self.tile: Tile = make_tile(kernel)
        self.exact = exact
        self.vendor: ops.Vendor = vendor
        cheaper = not exact and vendor == "nvidia"
        half = half_only(kernel) if cheaper else frozenset()
        self.shifted = shifted_exps(kernel)
        self.half: frozenset[int] = half | summed_only(kernel, self.shifted.exps) if cheaper else half
        self.forms: dict[int, Form] = {**scaled_masks(kernel), **joint_forms(kernel, half)}
        if vendor == "nvidia":
            self.forms = {**packed_forms(kernel, exact, self.forms), **self.forms}
        self.forms = {**identities(kernel, self.forms), **self.forms}
        if not exact:
            self.forms |= contractions(kernel, self.forms)
        self.forms |= one_hot_sums(kernel)
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[int, str] = {}
        self.atoms: dict[tuple[Atom, bool], str] = {}
        self.guards: list[Check] = []
        self.users = users_of(kernel)
        self.narrow = narrow_values(kernel)
        self.roots = self._load_roots()
        self.shapes: list[Shape] = []
        for instr in kernel.body:
            self.shapes.append(self._shape(instr))
        self.live = self._live()

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def _assign(self, value: int, text: str) -> None:
        if text.isidentifier():  # a copy, or a cast to the same type
            self.names[value] = text
            return
        name = f"v{value}"
        self.names[value] = name
        self._line(f"{name} = {text}")

    @contextmanager
    def _scope(self) -> Iterator[None]:
        names, atoms = dict(self.names), dict(self.atoms)
        guards = list(self.guards)
        self.indent += 1
        yield
        self.indent -= 1
        self.names, self.atoms, self.guards = names, atoms, guards

    # ---- shapes

    def _shape(self, instr: Instr) -> Shape:
        """Live dims that the instruction's value varies over."""
        shape: Shape = frozenset()
        for operand in operands(instr):
            shape |= self.shapes[operand]
        match instr:
            case IndexOf(index=index) | Load(index=index) | Random(element=index):
                shape |= self._index_shape(self.tile.flatten(index))
                if isinstance(instr, Load):
                    for guard in self._guards_of(len(self.shapes)):
                        shape |= self.shapes[guard.cond]
            case Reduce(over_loop=over_loop):
                shape = self._reduced_shape(instr) - {"l" if over_loop else "r"}
            case _:
                pass
        return shape

    def _reduced_shape(self, instr: Reduce) -> Shape:
        """Shape of the reduced tile: r and another dim, or every dim (a result of one element must be a scalar)."""
        if instr.over_loop:
            return self.shapes[instr.arg] | (frozenset(self.tile.order) & {"l"})
        shape = self.shapes[instr.arg] | {"r"}
        return shape if len(shape) > 1 else frozenset(self.tile.order)

    def _index_shape(self, flat: Index) -> Shape:
        live = {d.flat: d.name for d in self.tile.dims if d.live}
        return frozenset(live[a] for a in flat.axes() if a in live)

    def _spread(self, text: str, shape: Shape, wanted: Shape) -> str:
        """`text` broadcast to the dims `wanted`, where it lacks one."""
        return text if wanted <= shape else f"tl.broadcast_to({text}, {self.tile.full_shape(wanted)})"

    def _mask(self, shape: Shape) -> list[str]:
        return [f"{d.name}_ok" for d in self.tile.dims if d.masked and d.name in shape]

    # ---- what is printed

    def _live(self) -> frozenset[int]:
        """Values that a printed line reads, and what is printed for its effect."""
        live: set[int] = set()
        stack = [n for n, i in enumerate(self.kernel.body) if isinstance(i, (Store, Check))]
        while stack:
            value = stack.pop()
            if value not in live:
                live.add(value)
                stack.extend(self._reads_of(value))
        return frozenset(live)

    def _reads_of(self, value: int) -> tuple[int, ...]:
        """Values that the printed line of an instruction names."""
        instr = self.kernel.body[value]
        if value in self.forms:
            return self.forms[value].args
        if isinstance(instr, Compute) and self._rounds(instr):
            source = self.kernel.body[instr.args[0]]
            assert isinstance(source, Compute)
            return source.args
        if isinstance(instr, Load):
            return (*operands(instr), *(g.cond for g in self._guards_of(value)))
        return operands(instr)

    def _rounds(self, instr: Compute) -> bool:
        """True for the second of two casts, f32 -> 16 bits -> f32, where nobody else wants the 16 bits."""
        source = self.kernel.body[instr.args[0]]
        if instr.args[0] in self.forms or self.vendor != "nvidia":
            return False
        if any(getattr(self.kernel.body[u], "dtype", None) != F32 for u in self.users[instr.args[0]]):
            return False
        if not (instr.op == "cast" and instr.dtype == F32 and isinstance(source, Compute) and source.op == "cast"):
            return False
        return source.dtype.is_half and result_dtype(self.kernel.body[source.args[0]]) == F32

    def _load_roots(self) -> list[frozenset[int]]:
        """For each value the loads that it is computed from through arithmetic alone."""
        roots: list[frozenset[int]] = []
        for number, instr in enumerate(self.kernel.body):
            own = frozenset({number}) if isinstance(instr, Load) else frozenset()
            roots.append(own.union(*(roots[o] for o in operands(instr) if not isinstance(instr, Load))))
        return roots

    def _guards_of(self, value: int) -> list[Check]:
        """Checks before a load on the numbers that its index is made of: nothing is read where one fails."""
        load = self.kernel.body[value]
        assert isinstance(load, Load)
        data = frozenset().union(*(self.roots[a.node] for a in load.index.loaded()))
        if not data:
            return []
        checks = (c for c in self.kernel.body[:value] if isinstance(c, Check))
        return [c for c in checks if self.roots[c.cond] & data]

    # ---- operands

    def _operand(self, value: int, typed: bool = True) -> str:
        """Text of a value of its own type."""
        instr = self.kernel.body[value]
        if isinstance(instr, Const):
            return self._number(instr, instr.dtype, typed)
        return f"{self.names[value]}.to({ops.TYPES[I64]})" if value in self.narrow else self.names[value]

    def _raw(self, value: int, typed: bool = True) -> tuple[str, DType]:
        """Text and type of a value as it is held: a 64-bit integer that fits 32 bits is held in them."""
        dtype = I32 if value in self.narrow else self._type(value)
        instr = self.kernel.body[value]
        return self._number(instr, dtype, typed) if isinstance(instr, Const) else self.names[value], dtype

    def _number(self, instr: Const, dtype: DType, typed: bool) -> str:
        plain = None if typed else ops.literal(instr.value, dtype)
        return ops.typed(instr.value, dtype) if plain is None else plain

    def _type(self, value: int) -> DType:
        dtype = result_dtype(self.kernel.body[value])
        assert dtype is not None
        return dtype

    def _form_text(self, form: Form) -> str:
        return form.text.format(*(self._form_operand(a, form) for a in form.args))

    def _form_operand(self, value: int, form: Form) -> str:
        instr = self.kernel.body[value]
        if isinstance(instr, Const) and form.constant is not None:
            return ops.typed(instr.value, form.constant)
        return self._operand(value)

    # ---- indexes

    def _is_wide(self, dim: Dim) -> bool:
        """True where the flat index along `dim` is 64 bits wide."""
        if dim.name != "r":
            return self.tile.bits == 64
        if isinstance(dim.size, int):
            return dim.size > INT32_MAX
        return self.tile.bits == 64

    def _address(self, buffer: int, index: Index, shape: Shape) -> str:
        parts = self._parts(self.tile.flatten(index), narrow_ok=True)
        have: Shape = frozenset().union(*(s for s, _ in parts))
        text = " + ".join([self.kernel.buffers[buffer].name, *(t if " + " not in t else f"({t})" for _, t in parts)])
        return self._spread(text, have, shape)

    def _parts(self, flat: Index, narrow_ok: bool) -> list[tuple[Shape, str]]:
        """The sum as one text for each tile shape, smallest shapes first; each text is a sum of products."""
        groups: dict[Shape, Index] = {}
        for atom, coef in flat.terms:
            shape = self._atom_shape(atom)
            groups[shape] = groups.get(shape, Index()) + Index(((atom, coef),))
        groups[frozenset()] = groups.get(frozenset(), Index()) + flat.const
        order = {name: place for place, name in enumerate(self.tile.order)}
        parts: list[tuple[Shape, str]] = []
        for shape in sorted(groups, key=lambda s: (len(s), [order[d] for d in s])):
            index = groups[shape]
            if index.terms or index.const != 0:
                parts.append((shape, self._sum(index, wide(index, self.tile, narrow_ok))))
        return parts

    def _sum(self, index: Index, is_wide: bool) -> str:
        terms = [self._product(atom, coef, is_wide) for atom, coef in index.terms]
        if index.const != 0 or not terms:
            terms.append(size_text(index.const))
        return " + ".join(terms)

    def _product(self, atom: Atom, coef: Size, is_wide: bool) -> str:
        text = self._atom(atom, is_wide)
        return text if coef == 1 else f"{text} * {size_text(coef)}"

    def _atom_shape(self, atom: Atom) -> Shape:
        shape = self._index_shape(Index(((atom, 1),))) if atom_axes(atom) else frozenset()
        loaded = Index(((atom, 1),)).loaded()
        for value in loaded:
            shape |= self.shapes[value.node]
        return shape

    def _atom(self, atom: Atom, is_wide: bool) -> str:
        """Text of one atom, of 64 bits where `is_wide`; quotients and remainders are named once."""
        if isinstance(atom, Loaded):
            return ops.cast(*self._raw(atom.node), I64 if is_wide else I32)
        if isinstance(atom, str):
            dim = self.tile.dim(atom.removeprefix("$"))
            return f"{dim.name}.to(tl.int64)" if is_wide and not self._is_wide(dim) else dim.name
        key = (atom, is_wide)
        if key not in self.atoms:
            arg_wide = is_wide or wide(atom.arg, self.tile, narrow_ok=True)
            arg = self._sum(atom.arg, arg_wide)
            arg = f"({arg})" if " " in arg else arg
            name = f"i{len(self.lines)}"
            text = f"{arg} {atom_sign(atom)} {size_text(atom.by)}"
            self._line(f"{name} = {text}" if is_wide == arg_wide or is_wide else f"{name} = ({text}).to(tl.int32)")
            self.atoms[key] = name
        return self.atoms[key]

    def _index_value(self, index: Index, dtype: DType) -> str:
        flat = self.tile.flatten(index)
        is_wide = wide(flat, self.tile, narrow_ok=dtype != I64)
        text = self._tensor(flat, I64 if is_wide else I32)
        if not flat.terms or (dtype == I64) == is_wide:
            return text
        return f"({text}).to({ops.TYPES[dtype]})"

    def _tensor(self, flat: Index, dtype: DType) -> str:
        """An index as a tensor (not a Python number) of `dtype`, computed in it."""
        if flat.terms:
            return self._sum(flat, dtype == I64)
        return self._size(flat.const, dtype)

    def _size(self, size: Size, dtype: DType) -> str:
        return ops.typed(size, dtype) if isinstance(size, int) else f"{size_text(size)}.to({ops.TYPES[dtype]})"
