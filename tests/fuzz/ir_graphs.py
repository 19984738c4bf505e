"""Random IR graphs: every kind of node, mixed dtypes, shapes with 0, 1 and primes, symbolic sizes, walls.

A graph follows from its seed. Float values stay small, so that the interpreter and the kernels can be compared closely.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from fusewise.ir import affine
from fusewise.ir.builder import Builder, Value
from fusewise.ir.dtypes import BF16, BOOL, F16, F32, F64, I32, I64, U8, DType
from fusewise.ir.graph import Graph, SymbolInfo
from fusewise.ir.sizes import Size, contiguous_strides, divide, is_zero_numel, norm, prod, same, symbol

FLOATS = (F32, F32, F32, F64)
HALVES = (BF16, F16)
INTEGERS = (I64, I32, U8)
MOST_ELEMENTS = 4096

Shape = tuple[Size, ...]


def random_graph(seed: int) -> tuple[Graph, list[dict[str, int]]]:
    """A graph, and values of its size symbols to run it with (one empty dict where it has none)."""
    return _Generator(seed).run()


class _Generator:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.b = Builder()
        self.pool: list[Value] = []
        self.seeds: list[Value] = []
        self.walls = 0
        self.slots = 0
        self.symbols: dict[str, list[int]] = {}

    def run(self) -> tuple[Graph, list[dict[str, int]]]:
        rng = self.rng
        dims: list[Size] = [rng.choice((2, 3, 4, 5, 7, 8, 12, 16, 1, 33)) for _ in range(3)]
        if rng.random() < 0.08:
            dims[rng.randrange(3)] = 0
        if rng.random() < 0.3:
            dims[rng.randrange(3)] = self.symbol()
            if rng.random() < 0.3:
                dims[rng.randrange(3)] = self.symbol()
        self.dims = dims
        for _ in range(rng.randint(1, 3)):
            self.pool.append(self.input(rng.choice(FLOATS)))
        for _ in range(rng.randint(2, 22)):
            self.step()
        wanted = rng.randint(1, 4)
        computed = [v for v in self.pool if v.node.op != "input"] or self.pool
        outputs = [computed[-1], *rng.choices(computed, k=wanted - 1)]
        for value in outputs:
            if rng.random() < 0.3 and value.node.op != "input":
                self.b.set_strides(value, self.some_strides(value.shape))
        runs = [{name: options[i] for name, options in self.symbols.items()} for i in range(2 if self.symbols else 1)]
        graph = self.b.finish(outputs)
        return graph, [r for r in runs if all(_value(s, r) >= 0 for node in graph for s in node.shape)]

    # ---- shapes

    def symbol(self) -> Size:
        name = f"s{len(self.symbols)}"
        hint = self.rng.choice((2, 4, 6, 9))
        self.b.symbol(name, SymbolInfo(hint, f"sizes[{name!r}]"))
        self.symbols[name] = [hint, self.rng.choice((2, 3, 5, 8))]
        factor = self.rng.choice((1, 1, 2, 4))
        return norm(symbol(name) * factor)

    def shape(self) -> Shape:
        rng = self.rng
        shape = [rng.choice(self.dims) for _ in range(rng.choice((0, 1, 2, 2, 2, 3, 3, 4)))]
        for d in range(len(shape)):
            if rng.random() < 0.1:
                shape[d] = 1
        return tuple(shape) if self.fits(shape) else tuple(shape[:1])

    def fits(self, shape: Shape | list[Size]) -> bool:
        total = 1
        for size in shape:
            values = [
                size if isinstance(size, int) else int(size.subs({k: v[i] for k, v in self.by_symbol().items()}))
                for i in (0, 1)
            ]
            total *= max(1, *values)
        return total <= MOST_ELEMENTS

    def by_symbol(self) -> dict[Size, list[int]]:
        return {symbol(name): options for name, options in self.symbols.items()}

    def some_strides(self, shape: Shape) -> Shape:
        """Dense strides with the dims in another order."""
        order = list(range(len(shape)))
        self.rng.shuffle(order)
        inner = contiguous_strides([shape[d] for d in order])
        found: list[Size] = [1] * len(shape)
        for d, step in zip(order, inner, strict=True):
            found[d] = step
        return tuple(found)

    def input_strides(self, shape: Shape) -> Shape:
        """Strides that a tensor may have: dense, permuted, broadcast, with gaps."""
        kind = self.rng.choice(("dense", "dense", "permuted", "expanded", "gaps"))
        if kind == "dense":
            return contiguous_strides(shape)
        strides = list(self.some_strides(shape))
        if kind == "gaps":
            return tuple(norm(s * 2) for s in strides)
        if kind == "expanded" and shape:
            strides[self.rng.randrange(len(shape))] = 0
        return tuple(strides)

    # ---- values

    def input(self, dtype: DType, shape: Shape | None = None) -> Value:
        shape = self.shape() if shape is None else shape
        return self.b.input(shape, dtype, self.input_strides(shape))

    def pick(self, test: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value of the pool, the later ones more often."""
        found = [v for v in self.pool if test(v)]
        if not found:
            return None
        return found[-1 - min(len(found) - 1, int(self.rng.expovariate(0.5)))]

    def number(self, dtype: DType | None = None) -> Value:
        """A float value to compute on: f32 or f64."""
        value = self.pick(lambda v: v.dtype.is_float)
        assert value is not None
        return value.cast(F32) if value.dtype.is_half else value

    def beside(self, value: Value) -> Value:
        """Another value of the same dtype that broadcasts with `value`."""
        rng = self.rng

        def fits(v: Value) -> bool:
            return v.dtype == value.dtype and v.id != value.id and _broadcasts(v.shape, value.shape)

        other = self.pick(fits)
        if other is not None and rng.random() < 0.75:
            return other
        shape = list(value.shape[rng.randint(0, len(value.shape)) :])
        for d in range(len(shape)):
            if rng.random() < 0.25:
                shape[d] = 1
        if value.dtype == BOOL:
            return self.input(F32, tuple(shape)) > 0.0
        return self.input(value.dtype, tuple(shape))

    def add(self, value: Value) -> None:
        self.pool.append(value)

    # ---- steps

    def step(self) -> None:
        kinds = (
            *[self.unary] * 3,
            *[self.binary] * 5,
            *[self.reduce] * 4,
            *[self.norm_like] * 2,
            *[self.view] * 5,
            self.reshape,
            self.reshape,
            self.pad,
            self.cat,
            self.gather,
            self.take_along,
            self.iota_mask,
            self.cast_round_trip,
            self.integers,
            self.masked,
            self.dropout,
            self.wall,
            self.argument,
            self.fill,
        )
        made = self.rng.choice(kinds)()
        if made is not None:
            self.add(made)

    def unary(self) -> Value:
        b, x = self.b, self.number()
        op = self.rng.choice(
            ("neg", "abs", "exp", "tanh", "sqrt", "sigmoid", "floor", "sin", "relu", "square", "clamp")
        )
        match op:
            case "exp":
                return b.op("exp", b.op("minimum", x, 2.0))
            case "sqrt":
                return b.op("sqrt", b.op("abs", x) + 0.5)
            case "sigmoid":
                return 1.0 / (1.0 + b.op("exp", b.op("maximum", -x, -4.0)))
            case "relu":
                return b.where(x > 0.0, x, 0.0)
            case "square":
                return b.op("minimum", x * x, 9.0)
            case "clamp":
                return b.op("maximum", b.op("minimum", x, 1.5), -1.5)
            case "floor":
                # of values far from whole numbers alone: a bit of rounding must not change the result
                return b.op("floor", b.op("tanh", x) * 0.25 + 0.5)
            case _:
                return b.op(op, x)

    def binary(self) -> Value:
        x = self.number()
        y = self.beside(x)
        op = self.rng.choice(("add", "sub", "mul", "maximum", "minimum", "div"))
        if op == "div":
            return x / (self.b.op("abs", y) + 1.0)
        if op == "mul":
            return x * self.b.op("tanh", y)
        return self.b.op(op, x, y)

    def dims_of(self, value: Value) -> list[int]:
        rank = len(value.shape)
        if self.rng.random() < 0.5:
            return [rank - 1]
        return sorted(self.rng.sample(range(rank), self.rng.randint(1, rank)))

    def reduce(self) -> Value | None:
        b, rng = self.b, self.rng
        x = self.number()
        if not x.shape:
            return None
        dims = self.dims_of(x)
        op = rng.choice(("sum", "sum", "max", "min", "mean", "any", "all"))
        empty = is_zero_numel([x.shape[d] for d in dims])
        if op in ("any", "all"):
            out = b.reduce(op, x > 0.3, dims, keepdim=rng.random() < 0.5)
            return b.where(out, 1.0, b.const(-1.0, x.dtype)) if rng.random() < 0.7 else out
        if op in ("max", "min") and empty:
            op = "sum"
        count = prod(x.shape[d] for d in dims)
        out = b.reduce("sum" if op == "mean" else op, x, dims, keepdim=rng.random() < 0.6)
        if op == "mean":
            return out / b.size(1 if empty else count, x.dtype)
        return b.op("tanh", out * 0.1) if op == "sum" else out

    def norm_like(self) -> Value | None:
        """A softmax or a normalisation over some dims: statistics spread over the row again."""
        b, rng = self.b, self.rng
        x = self.number()
        if not x.shape or is_zero_numel(x.shape):
            return None
        dims = self.dims_of(x)
        if rng.random() < 0.5:
            e = b.op("exp", x - b.reduce("max", x, dims, keepdim=True))
            total = b.reduce("sum", e, dims, keepdim=True)
            return e / total if rng.random() < 0.7 else x - b.op("log", total)
        count = b.size(prod(x.shape[d] for d in dims), x.dtype)
        mean = b.reduce("sum", x, dims, keepdim=True) / count
        off = x - mean
        var = b.reduce("sum", off * off, dims, keepdim=True) / count
        out = off * b.op("rsqrt", var + 0.1)
        if rng.random() < 0.3:
            self.add(mean)
        return out

    def view(self) -> Value | None:
        b, rng = self.b, self.rng
        x = self.pick()
        assert x is not None
        rank = len(x.shape)
        if rank == 0:
            return b.expand(x, self.shape())
        d = rng.randrange(rank)
        size = x.shape[d]
        match rng.choice(("permute", "slice", "step", "flip", "select", "expand", "squeeze", "diagonal", "unfold")):
            case "permute":
                order = list(range(rank))
                rng.shuffle(order)
                return b.permute(x, order)
            case "slice" if isinstance(size, int) and size > 0:
                start = rng.randrange(size)
                return b.slice(x, d, start, rng.randint(0 if rng.random() < 0.1 else 1, size - start))
            case "slice" if not isinstance(size, int) and not size.is_Add:
                return b.slice(x, d, 1, norm(size - 1))
            case "step" if isinstance(size, int) and size > 1:
                step = rng.randint(2, 3)
                start = rng.randrange(size)
                return b.slice(x, d, start, -(-(size - start) // step), step)
            case "flip":
                return b.flip(x, [d]) if not same(size, 0) else None
            case "select" if not same(size, 0):
                return b.select(x, d, rng.randrange(size) if isinstance(size, int) else 0)
            case "expand":
                lead = rng.choice(self.dims)
                return b.expand(x, (lead, *x.shape)) if self.fits((lead, *x.shape)) else None
            case "squeeze":
                return b.reshape(x, (*x.shape[:d], 1, *x.shape[d:]))
            case "diagonal" if rank > 1 and not is_zero_numel(x.shape):
                e = (d + 1) % rank
                if isinstance(size, int) and isinstance(x.shape[e], int):
                    length = min(size, x.shape[e])
                    rest = [k for k in range(rank) if k not in (d, e)]
                    index = [affine.axis(f"o{rest.index(k) if k in rest else len(rest)}") for k in range(rank)]
                    return b.view(x, (*[x.shape[k] for k in rest], length), index)
                return None
            case "unfold" if isinstance(size, int) and size > 2 and self.fits((*x.shape, 2)):
                # windows that overlap
                index = [affine.axis(f"o{k}") for k in range(rank)]
                index[d] = affine.axis(f"o{d}") + affine.axis(f"o{rank}")
                return b.view(x, (*x.shape[:d], size - 1, *x.shape[d + 1 :], 2), index)
            case _:
                return None

    def reshape(self) -> Value | None:
        b, rng = self.b, self.rng
        x = self.pick(lambda v: len(v.shape) > 0)
        if x is None:
            return None
        shape = list(x.shape)
        for _ in range(rng.randint(1, 3)):
            if len(shape) > 1 and rng.random() < 0.6:
                at = rng.randrange(len(shape) - 1)
                shape[at : at + 2] = [norm(shape[at] * shape[at + 1])]
            else:
                at = rng.randrange(len(shape))
                for factor in rng.sample((2, 3, 4, 5, 7), 5):
                    rest = divide(shape[at], factor)
                    if rest is not None and not same(rest, 0):
                        shape[at : at + 1] = rng.choice(([rest, factor], [factor, rest]))
                        break
        return b.reshape(x, shape)

    def pad(self) -> Value | None:
        x = self.pick(lambda v: len(v.shape) > 0)
        if x is None or not self.fits([norm(s + 3) for s in x.shape]):
            return None
        low = [self.rng.choice((0, 0, 1, 2, -1)) for _ in x.shape]
        high = [self.rng.choice((0, 0, 1, -1)) for _ in x.shape]
        for d, size in enumerate(x.shape):
            if min(low[d], high[d]) < 0 and not (isinstance(size, int) and size > 3):
                low[d] = high[d] = 0
        fill: bool | int | float = True if x.dtype == BOOL else 2
        return self.b.pad(x, low, high, float(fill) if x.dtype.is_float else fill)

    def cat(self) -> Value | None:
        x = self.pick(lambda v: len(v.shape) > 0)
        if x is None:
            return None
        d = self.rng.randrange(len(x.shape))
        others = [
            v
            for v in self.pool
            if v.dtype == x.dtype
            and len(v.shape) == len(x.shape)
            and all(same(a, c) for k, (a, c) in enumerate(zip(v.shape, x.shape, strict=True)) if k != d)
        ]
        parts = [x, *self.rng.choices(others, k=self.rng.randint(1, 2))]
        self.rng.shuffle(parts)
        shape = list(x.shape)
        shape[d] = norm(sum((p.shape[d] for p in parts), start=0))
        return self.b.cat(parts, d) if self.fits(shape) else None

    def indexes(self, shape: Shape, below: Size) -> Value | None:
        """i64 values in [0, below): an input's, or computed."""
        if not isinstance(below, int) or below == 0:
            return None
        made = self.input(self.rng.choice((I64, I32)), shape)
        if self.rng.random() < 0.5 or below < 4:
            made = self.b.op("truncrem", made, below)
        # negative ones count from the end
        return made - below if self.rng.random() < 0.2 else made

    def gather(self) -> Value | None:
        """Rows of a table, as an embedding reads them."""
        b = self.b
        x = self.pick(lambda v: 0 < len(v.shape) < 4)
        if x is None or is_zero_numel(x.shape):
            return None
        d = self.rng.randrange(len(x.shape))
        count = (self.rng.choice((1, 3, 5)),)
        index = self.indexes(count, x.shape[d])
        if index is None:
            return None
        at = [None if k == d else affine.axis(f"o{k}") for k in range(len(x.shape))]
        shape = [count[0] if k == d else s for k, s in enumerate(x.shape)]
        return b.gather(x, index, d, shape, at, [affine.axis(f"o{d}")])

    def take_along(self) -> Value | None:
        """One element a row, at an index of the row's own (`torch.gather`)."""
        b = self.b
        x = self.pick(lambda v: 0 < len(v.shape) < 4)
        if x is None or is_zero_numel(x.shape):
            return None
        d = self.rng.randrange(len(x.shape))
        shape = tuple(self.rng.choice((1, 2)) if k == d else s for k, s in enumerate(x.shape))
        index = self.indexes(shape, x.shape[d])
        if index is None:
            return None
        axes = [affine.axis(f"o{k}") for k in range(len(shape))]
        return b.gather(x, index, d, shape, [None if k == d else a for k, a in enumerate(axes)], axes)

    def iota_mask(self) -> Value | None:
        x = self.number()
        if len(x.shape) < 2:
            return None
        d, e = self.rng.sample(range(len(x.shape)), 2)
        mask = self.b.iota(x.shape, d) <= self.b.iota(x.shape, e)
        return self.b.where(mask, x, self.rng.choice((0.0, -2.0)))

    def cast_round_trip(self) -> Value:
        x = self.number()
        narrow = x.cast(self.rng.choice(HALVES))
        return narrow if self.rng.random() < 0.3 else narrow.cast(x.dtype)

    def integers(self) -> Value | None:
        """Whole numbers: exact whatever the order."""
        b, rng = self.b, self.rng
        x = self.pick(lambda v: v.dtype.is_integer)
        if x is None or rng.random() < 0.3:
            return self.input(rng.choice(INTEGERS))
        match rng.choice(("add", "mul", "sum", "max", "floordiv", "compare", "shift", "float")):
            case "sum" if x.shape:
                return b.reduce("sum", x, self.dims_of(x), keepdim=rng.random() < 0.5)
            case "max" if x.shape and not is_zero_numel(x.shape):
                return b.reduce("max", x, self.dims_of(x), keepdim=rng.random() < 0.5)
            case "floordiv":
                return b.op("floordiv", x, b.op("maximum", b.op("and", self.beside(x), 7), 1))
            case "compare":
                return x < self.beside(x)
            case "shift":
                return b.op("shl", x, 2)
            case "float":
                return b.op("tanh", b.op("and", x, 7).cast(F32))
            case "mul":
                return x * self.beside(x)
            case _:
                return x + self.beside(x)

    def masked(self) -> Value | None:
        x = self.number()
        cond = self.pick(lambda v: v.dtype == BOOL and _broadcasts(v.shape, x.shape))
        return self.b.where(cond, x, -1.0) if cond is not None else x > 0.2

    def dropout(self) -> Value:
        if not self.seeds:
            self.seeds.append(self.b.input((), I64))
        x = self.number()
        self.slots += 1
        keep = self.b.keep(self.seeds[0], x.shape, self.slots, self.rng.choice((0.5, 0.9)))
        return self.b.where(keep, x * 2.0, 0.0)

    def wall(self) -> Value | None:
        """An op that runs as it is, with results in a layout of its own."""
        x, y = self.number(), self.pick()
        assert y is not None
        self.walls += 1
        call = self.b.opaque([x, y], self.walls, "a wall of the fuzzer")
        first = self.b.result(call, 0, x.shape, x.dtype, self.some_strides(x.shape))
        if self.rng.random() < 0.4:
            self.add(self.b.result(call, 1, y.shape, y.dtype, self.some_strides(y.shape)))
        return first

    def argument(self) -> Value | None:
        x = self.pick(lambda v: v.dtype.is_integer and len(v.shape) > 0 and not is_zero_numel(v.shape))
        if x is None:
            return None
        return self.b.reduce(self.rng.choice(("argmax", "argmin")), x, self.dims_of(x), keepdim=self.rng.random() < 0.5)

    def fill(self) -> Value:
        return self.b.full(self.shape(), self.rng.choice((0.5, -1.0)), F32)


def _value(size: Size, sizes: dict[str, int]) -> int:
    return size if isinstance(size, int) else int(size.subs({symbol(k): v for k, v in sizes.items()}))


def _broadcasts(a: Shape, b: Shape) -> bool:
    """True where `a` broadcasts to the shape of `b` or the other way round, dim by dim."""
    return all(same(x, 1) or same(y, 1) or same(x, y) for x, y in zip(reversed(a), reversed(b), strict=False))
