"""Reductions of a row as Triton text: of one tile that holds it, or accumulated turn by turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fusewise.codegen import triton_ops as ops
from fusewise.codegen.triton_index import INT32_MAX, size_text
from fusewise.codegen.triton_values import Values
from fusewise.ir.dtypes import BOOL, I32, I64, DType
from fusewise.ir.sizes import norm
from fusewise.lower.kernel import Reduce


class Reductions(Values):
    """Prints the reductions of a kernel.

    Attributes:
        centred: operands of the centred sums of the loop at hand, with those sums. Such a sum keeps, lane by lane, the
            plain sum `a` and the squared deviations `q`; a plain sum of the same operand is the first of them.
    """

    centred: Mapping[int, int] = MappingProxyType({})

    def _range(self, start: str) -> None:
        """Names the flat index along r, for the tile that begins at `start`."""
        dim = self.tile.dim("r")
        lead = "" if start == "0" else f"{start} + "
        text = f"{lead}tl.arange(0, RBLOCK){self.tile.spread('r')}"
        if self._is_wide(dim) and start == "0":
            text = f"({text}).to(tl.int64)"
        self._line(f"r = {text}")
        if dim.masked:
            self._line(f"r_ok = r < {size_text(dim.size)}")

    def _axis(self) -> str:
        return f"{self.tile.place('r')}, {len(self.tile.order) > 1}"

    def _reduce_tile(self, value: int) -> None:
        """A reduction over a row that is held in one tile."""
        instr = self._reduction(value)
        arg, position = self._contribution(value)
        given = arg if position is None else f"{arg}, {position}"
        self._finish(value, f"lib.reduce_{self._op(instr)}({given}, {self._axis()})")

    def _sum_of_rows(self, value: int) -> str:
        """The accumulator of a sum over the loop, summed over the rows that were taken at a time."""
        if not self.tile.dim("l").live:
            return f"a{value}"
        reduce = f"lib.reduce_{self._op(self._reduction(value))}"
        if self.shapes[value]:
            return f"{reduce}(a{value}, {self.tile.place('l')}, True)"
        return f"{reduce}({reduce}(a{value}, 1, False), 0, False)"  # the other dim has one element

    def _contribution(self, value: int) -> tuple[str, str | None]:
        """What the tile at hand adds to a reduction: values (and positions), the identity where the tile is masked."""
        instr = self._reduction(value)
        op = self._op(instr)
        dtype = self._arg_type(instr)
        kind = ops.accumulator(op, dtype, instr.dtype)
        shape = self._reduced_shape(instr)
        arg = self._spread(ops.cast(self._operand(instr.arg), dtype, kind), self.shapes[instr.arg], shape)
        masked = self.tile.dim("r").masked and not instr.over_loop
        if masked and value not in self.shifted.reductions:
            arg = f"tl.where(r_ok, {arg}, {ops.identity(op, kind)})"
        if op not in ops.POSITIONAL:
            return arg, None
        assert instr.position is not None
        flat = self.tile.flatten(instr.position)
        is_wide = self._position_type(instr) == I64
        position = self._spread(self._sum(flat, is_wide), self._index_shape(flat), shape)
        if masked:
            position = f"tl.where(r_ok, {position}, {self._last_position(instr)})"
        return arg, position

    def _is_kept(self, instr: Reduce) -> bool:
        """True for a plain sum that a centred one keeps."""
        return instr.is_row_sum and instr.arg in self.centred

    def _start_all(self, reduces: Sequence[int]) -> None:
        """The accumulators of a loop."""
        self.centred = {r.arg: value for value in reduces if (r := self._reduction(value)).centred}
        for value in reduces:
            self._start_accumulator(value)

    def _start_accumulator(self, value: int) -> None:
        instr = self._reduction(value)
        if self._is_kept(instr):
            return
        op = self._op(instr)
        kind = ops.accumulator(op, self._arg_type(instr), instr.dtype)
        shape = self.tile.full_shape(self._reduced_shape(instr))
        start = f"tl.full({shape}, {ops.identity(op, kind)}, {ops.TYPES[kind]})"
        self._line(f"a{value} = {start}")
        if instr.centred:
            self._line(f"q{value} = {start}")
        if op in ops.POSITIONAL:
            where = ops.TYPES[self._position_type(instr)]
            self._line(f"p{value} = tl.full({shape}, {self._last_position(instr)}, {where})")

    def _accumulate(self, value: int) -> None:
        if value in self.forms:
            factors = [self._operand(a) for a in self.forms[value].args]
            self._line(f"a{value} = {self.forms[value].text.format(*factors, f'a{value}')}")
            return
        instr = self._reduction(value)
        if self._is_kept(instr):
            return
        op = self._op(instr)
        arg, position = self._contribution(value)
        if instr.centred:
            self._accumulate_off(value, arg)
        elif position is None:
            self._line(f"a{value} = {ops.combine(op, f'a{value}', arg)}")
        else:
            self._line(f"a{value}, p{value} = lib.{op}_pair(a{value}, p{value}, {arg}, {position})")

    def _accumulate_off(self, value: int, arg: str) -> None:
        """One more turn of a centred sum, lane by lane: n numbers x have the sum a, and q = sum of (x - a / n)^2.

        q grows by (n x - a)^2 / (n (n - 1)), a being the sum with x (Youngs and Cramer, 1971).
        """
        self._line(f"a{value} = a{value} + {arg}")
        self._line(f"n{value} = tl.cast(r0 // RBLOCK + 1, {ops.TYPES[self._reduction(value).dtype]})")
        self._line(f"f{value} = 1.0 / tl.maximum(n{value} * (n{value} - 1.0), 1.0)")
        off = f"n{value} * {arg} - a{value}"
        self._line(f"d{value} = {f'tl.where(r_ok, {off}, 0.0)' if self.tile.dim('r').masked else off}")
        self._line(f"q{value} = tl.fma(d{value} * f{value}, d{value}, q{value})")

    def _finish_off(self, value: int) -> None:
        """A centred sum from its lanes (Chan, Golub and LeVeque, 1979); names `s`, the plain sum."""
        instr = self._reduction(value)
        dim = self.tile.dim("r")
        size = self._size(dim.size, instr.dtype)
        self._line(f"s{value} = lib.reduce_sum(a{value}, {self._axis()})")
        self._range("0")
        turns = f"({size_text(dim.size)} - 1 - r) // RBLOCK + 1"
        if dim.masked:
            turns = f"tl.where(r_ok, {turns}, 0)"
        self._line(f"n{value} = ({turns}).to({ops.TYPES[instr.dtype]})")
        self._line(f"d{value} = a{value} - n{value} * (s{value} / tl.maximum({size}, 1.0))")
        terms = f"tl.fma(d{value} / tl.maximum(n{value}, 1.0), d{value}, q{value})"
        self._assign(value, f"lib.reduce_sum({terms}, {self._axis()})")

    def _finish_all(self, reduces: Sequence[int]) -> None:
        """The reductions of a loop from their accumulators; centred sums first, from which plain ones follow."""
        for value in sorted(reduces, key=lambda v: not self._reduction(v).centred):
            self._finish_accumulator(value)
        self.centred = {}

    def _finish_accumulator(self, value: int) -> None:
        instr = self._reduction(value)
        op = self._op(instr)
        if instr.centred:
            self._finish_off(value)
        elif self._is_kept(instr):
            self._assign(value, f"s{self.centred[instr.arg]}")
        else:
            given = f"a{value}, p{value}" if op in ops.POSITIONAL else f"a{value}"
            self._finish(value, f"lib.reduce_{op}({given}, {self._axis()})")

    def _finish(self, value: int, text: str) -> None:
        instr = self._reduction(value)
        op = self._op(instr)
        kind = ops.accumulator(op, self._arg_type(instr), instr.dtype)
        if op in ops.POSITIONAL:
            kind = self._position_type(instr)
        self._assign(value, ops.cast(text, kind, instr.dtype))

    def _reduction(self, value: int) -> Reduce:
        instr = self.kernel.body[value]
        assert isinstance(instr, Reduce)
        return instr

    def _arg_type(self, instr: Reduce) -> DType:
        return self._type(instr.arg)

    def _op(self, instr: Reduce) -> str:
        """The reduction's op; the extremes of booleans are any and all."""
        if self._arg_type(instr) == BOOL:
            return {"max": "any", "min": "all"}.get(instr.op, instr.op)
        return instr.op

    def _position_type(self, instr: Reduce) -> DType:
        size = norm(self.kernel.reduce_size)
        return I32 if isinstance(size, int) and size <= INT32_MAX or self.tile.bits == 32 else I64

    def _last_position(self, instr: Reduce) -> int:
        return 2**31 - 1 if self._position_type(instr) == I32 else 2**63 - 1
