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
        shifts: operands of the centred sums of the loop at hand, with those sums: such a sum of x keeps `a`, the sum of
            x - k, and `q`, that of its squares; a plain sum of x follows from the first.
    """

    shifts: Mapping[int, int] = MappingProxyType({})

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

    def _shift(self, arg: int) -> None:
        """Names `k`, the mean of the first turn; 0 where that is not finite, so that infinities count as they do."""
        instr = self._reduction(self.shifts[arg])
        first, _ = self._contribution(self.shifts[arg])
        dim = self.tile.dim("r")
        if isinstance(dim.size, int):
            count = ops.typed(min(dim.block, dim.size), instr.dtype)
        else:
            count = f"tl.minimum(RBLOCK, {size_text(dim.size)}).to({ops.TYPES[instr.dtype]})"
        self._line(f"k{arg} = lib.reduce_sum({first}, {self._axis()}) / {count}")
        self._line(f'k{arg} = tl.where(tl.abs(k{arg}) < float("inf"), k{arg}, 0.0)')

    def _is_shifted(self, instr: Reduce) -> bool:
        """True for a plain sum that follows from what a centred one keeps."""
        return instr.arg in self.shifts and instr.op == "sum" and not instr.centred

    def _start_accumulator(self, value: int) -> None:
        instr = self._reduction(value)
        if self._is_shifted(instr):
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
        if self._is_shifted(instr):
            return
        op = self._op(instr)
        arg, position = self._contribution(value)
        if instr.centred:
            self._line(f"d{value} = {self._off(instr, arg)}")
            self._line(f"a{value} = a{value} + d{value}")
            self._line(f"q{value} = tl.fma(d{value}, d{value}, q{value})")
        elif position is None:
            self._line(f"a{value} = {ops.combine(op, f'a{value}', arg)}")
        else:
            self._line(f"a{value}, p{value} = lib.{op}_pair(a{value}, p{value}, {arg}, {position})")

    def _off(self, instr: Reduce, arg: str) -> str:
        """What an operand is off the shift; 0 past the end of the row."""
        off = f"{arg} - k{instr.arg}"
        return f"tl.where(r_ok, {off}, 0.0)" if self.tile.dim("r").masked else off

    def _finish_all(self, reduces: Sequence[int]) -> None:
        """The reductions of a loop from their accumulators; centred sums first, from which plain ones follow."""
        for value in sorted(reduces, key=lambda v: not self._reduction(v).centred):
            self._finish_accumulator(value)
        self.shifts = {}

    def _finish_accumulator(self, value: int) -> None:
        instr = self._reduction(value)
        op = self._op(instr)
        if instr.centred or self._is_shifted(instr):
            count = self._size(self.tile.dim("r").size, instr.dtype)
            if instr.centred:
                self._line(f"s{instr.arg} = lib.reduce_sum(a{value}, {self._axis()})")
                total = f"lib.reduce_sum(q{value}, {self._axis()})"
                self._assign(value, f"lib.about_mean({total}, s{instr.arg}, {count})")
            else:
                self._assign(value, f"s{instr.arg} + k{instr.arg} * {count}")
            return
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
