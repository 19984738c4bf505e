"""Index expressions as Triton text: axes become tile dims, and each part stays at its smallest tile shape.

The tile dims of a kernel are y, x and r (see `TritonSchedule`), beside l, the row or rows at hand of a loop over rows.
The flat index along a dim is the variable of that name; its axes are quotients and remainders of it, which fold away
where a dim has one axis or an index is contiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Literal

import sympy

from fusewise.errors import IRError
from fusewise.ir import affine
from fusewise.ir.affine import Atom, Div, Index, Loaded, Mod
from fusewise.ir.sizes import Size, norm, prod, same
from fusewise.lower.kernel import Kernel, Load, Store, TritonSchedule

DimName = Literal["y", "x", "l", "r"]
Shape = frozenset[str]

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Dim:
    """One tile dim.

    Attributes:
        name: y, x, l or r: the variable that holds the flat index.
        axes: the kernel's axes in it, outermost first.
        size: elements along it.
        block: elements of one tile along it.
        live: False where the tile has no such dim, since a program computes one point of it: a scalar.
        masked: True where the block reaches past the size.
    """

    name: DimName
    axes: tuple[str, ...]
    size: Size
    block: int
    live: bool
    masked: bool

    @property
    def flat(self) -> str:
        """Name of the flat index in `Index` expressions (never the name of an axis)."""
        return f"${self.name}"


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a kernel.

    Attributes:
        dims: every dim, in the order y, x, l, r.
        order: names of the live dims as the tile has them; the last one is contiguous in memory.
        axes: for each axis of the kernel its dim and its value in terms of the dim's flat index.
        bits: width of index arithmetic.
    """

    dims: tuple[Dim, ...]
    order: tuple[str, ...]
    axes: Mapping[str, tuple[Dim, Index]]
    bits: int

    @property
    def flat_sizes(self) -> dict[str, Size]:
        return {d.flat: d.size for d in self.dims}

    def dim(self, name: str) -> Dim:
        """The dim of that name."""
        for dim in self.dims:
            if dim.name == name:
                return dim
        raise IRError(f"no tile dim {name!r}")

    def shape_of(self, axes: Iterable[str]) -> Shape:
        """Live dims of a value that varies along `axes`."""
        return frozenset(dim.name for dim in (self.axes[a][0] for a in axes) if dim.live)

    def flatten(self, index: Index) -> Index:
        """`index` in terms of the flat indexes of the dims."""
        table = {name: value for name, (_, value) in self.axes.items()}
        return affine.substitute(index, table, self.flat_sizes)

    def full_shape(self, shape: Shape) -> str:
        """Text of the tile shape of a value with the live dims `shape`, such as `[XBLOCK, 1]`; `()` for a scalar."""
        if not shape:
            return "()"
        return "[" + ", ".join(f"{d.upper()}BLOCK" if d in shape else "1" for d in self.order) + "]"

    def spread(self, name: str) -> str:
        """Subscript that puts a one-dim range along dim `name`, such as `[:, None]`."""
        if len(self.order) == 1:
            return ""
        return "[" + ", ".join(":" if d == name else "None" for d in self.order) + "]"

    def place(self, name: str) -> int:
        """Position of dim `name` in the tile."""
        return self.order.index(name)


def make_tile(kernel: Kernel) -> Tile:
    """The tile of a kernel under its `TritonSchedule`."""
    schedule = kernel.schedule
    if not isinstance(schedule, TritonSchedule):
        raise IRError(f"kernel {kernel.name} has no Triton schedule")
    sizes = kernel.axis_sizes()
    reduce_axes = tuple(a.name for a in kernel.reduce)
    grouped = set(schedule.y_axes) | set(schedule.x_axes)
    missing = [a.name for a in kernel.parallel if a.name not in grouped]
    if missing:
        raise IRError(f"kernel {kernel.name}: axes {missing} are in no tile dim")

    def make(name: DimName, axes: tuple[str, ...], block: int, live: bool) -> Dim:
        size = prod(sizes[a] for a in axes)
        # a whole row in one tile runs where it has no elements too, and must read nothing then
        masked = block > 1 and (not _divides(block, size) or same(size, 0))
        return Dim(name, axes, size, block, live, masked)

    dims: list[Dim] = []
    if schedule.y_axes:
        dims.append(make("y", schedule.y_axes, schedule.y_block, schedule.y_block > 1))
    dims.append(make("x", schedule.x_axes, schedule.x_block, schedule.x_block > 1))
    if kernel.loop:
        dims.append(make("l", tuple(a.name for a in kernel.loop), schedule.l_block, schedule.l_block > 1))
    if reduce_axes:
        dims.append(make("r", reduce_axes, schedule.r_block, True))
    axes: dict[str, tuple[Dim, Index]] = {}
    for dim in dims:
        step: Size = 1
        flat = {dim.flat: dim.size}
        for name in reversed(dim.axes):
            index = affine.floordiv(affine.axis(dim.flat), step, flat)
            extent: Size = sizes[name] if sizes[name] != 0 else 1  # an empty tensor has no points
            if name != dim.axes[0]:
                index = affine.modulo(index, extent, flat)
            axes[name] = (dim, index)
            step = norm(step * extent)
    tile = Tile(tuple(dims), tuple(d.name for d in dims if d.live), axes, schedule.index_bits)
    return Tile(tile.dims, _order(kernel, tile), axes, tile.bits)


def _divides(block: int, size: Size) -> bool:
    return content(size) % block == 0 and size != 0


def content(size: Size) -> int:
    """Greatest integer known to divide `size` (0 for 0)."""
    if isinstance(size, int):
        return abs(size)
    return gcd(*(int(c) for c in size.as_coefficients_dict().values()))


def _order(kernel: Kernel, tile: Tile) -> tuple[str, ...]:
    """The live dims, the one with the most contiguous accesses last."""
    votes = dict.fromkeys(tile.order, 0)
    for instr in kernel.body:
        if isinstance(instr, (Load, Store)):
            flat = tile.flatten(instr.index)
            for dim in tile.dims:
                if dim.live and flat.coefficient(dim.flat) == 1:
                    votes[dim.name] += 1
    if not votes:
        return ()
    # on a tie the later dim stays inner
    inner = max(tile.order, key=lambda d: (votes[d], tile.order.index(d)))
    return (*(d for d in tile.order if d != inner), inner)


def aligned_sizes(kernel: Kernel) -> frozenset[str]:
    """Sizes that must be multiples of 16 for accesses as wide as the aligned variant makes them."""
    found: set[str] = set()

    def look(size: Size) -> None:
        if not isinstance(size, int) and content(size) % 16:
            found.update(map(str, size.free_symbols))

    def look_index(index: Index) -> None:
        look(index.const)
        for atom, coef in index.terms:
            look(coef)
            if isinstance(atom, (Div, Mod)):
                look(atom.by)
                look_index(atom.arg)

    tile = make_tile(kernel)
    for instr in kernel.body:
        if isinstance(instr, (Load, Store)):
            look_index(tile.flatten(instr.index))
    for dim in tile.dims:
        if dim.masked and dim.name == tile.order[-1]:
            look(dim.size)
    return frozenset(found)


# ---- text of sizes and indexes


def size_text(size: Size) -> str:
    """A size as text over the kernel's size parameters: a sum of products, in brackets where it is not one factor."""
    if isinstance(size, int):
        return str(size) if size >= 0 else f"({size})"
    terms = []
    # sorted, since sympy's order is another in every process; the number comes last
    for term, coef in sorted(size.as_coefficients_dict().items(), key=lambda item: (item[0] == 1, str(item[0]))):
        factors = [] if int(coef) == 1 and term != 1 else [str(int(coef))]
        if term != 1:
            factors += _factors(term)
        terms.append(" * ".join(factors))
    text = " + ".join(terms).replace("+ -", "- ")
    return f"({text})" if len(terms) > 1 or "*" in text else text


def _factors(term: sympy.Expr) -> list[str]:
    names: list[str] = []
    for base, power in term.as_powers_dict().items():
        if not (base.is_Symbol and power.is_Integer and power > 0):
            raise IRError(f"size {term} is no polynomial")
        names += [str(base)] * int(power)
    return sorted(names)


def wide(index: Index, tile: Tile, narrow_ok: bool) -> bool:
    """True where `index` must be computed in 64 bits.

    Args:
        narrow_ok: the schedule's word that 32 bits are enough is taken where no bound is known.
    """
    if index.loaded():
        return tile.bits == 64 or not narrow_ok
    top = affine.upper_bound(index, tile.flat_sizes)
    if isinstance(top, int):
        return top > INT32_MAX
    return tile.bits == 64 or not narrow_ok


def atom_axes(atom: Atom) -> frozenset[str]:
    """Flat dims in an atom, those of loaded values excluded."""
    if isinstance(atom, str):
        return frozenset({atom})
    if isinstance(atom, Loaded):
        return frozenset()
    return atom.arg.axes()


def atom_sign(atom: Atom) -> str:
    """The operator of a quotient or a remainder. Indexes are never negative, so rounding toward 0 is rounding down."""
    return "//" if isinstance(atom, Div) else "%"


def programs_of(kernel: Kernel) -> int | str:
    """Number of programs of a kernel, or where sizes change its text, good in Python and in Triton."""
    fixed = 1
    factors: list[str] = []
    for dim in make_tile(kernel).dims:
        if dim.name not in ("y", "x"):
            continue
        if isinstance(dim.size, int):
            fixed *= -(-dim.size // dim.block)
        else:
            factors.append(f"(({size_text(dim.size)} + {dim.block - 1}) // {dim.block})")
    if not factors or not fixed:
        return fixed
    return " * ".join([*([] if fixed == 1 else [str(fixed)]), *factors])
