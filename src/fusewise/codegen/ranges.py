"""Integers that fit 32 bits, and indexes behind integer arithmetic: 64-bit compares cost a GPU twice and more."""

from __future__ import annotations

from collections.abc import Mapping

from fusewise.codegen.rounding import Form
from fusewise.ir.affine import Div, Index, Mod, axis, constant
from fusewise.ir.dtypes import BOOL, I64, DType
from fusewise.ir.sizes import Size
from fusewise.lower.kernel import Compute, Const, IndexOf, Kernel, Reduce, result_dtype

Range = tuple[int, int]

_LOW, _HIGH = -(2**31), 2**31 - 1


def narrow_values(kernel: Kernel) -> frozenset[int]:
    """Ids of the 64-bit integers that are known to fit 32 bits, as does all that they are computed from."""
    sizes = {a.name: a.size for a in kernel.axes}
    known: dict[int, Range] = {}
    for number, instr in enumerate(kernel.body):
        found: Range | None = None
        if isinstance(instr, Const) and instr.dtype == I64:
            found = (int(instr.value), int(instr.value))
        elif isinstance(instr, IndexOf):
            found = _index_range(instr.index, sizes)
        elif isinstance(instr, Compute) and instr.dtype == I64:
            found = _compute_range(kernel, instr, known)
        if found is not None and found[0] >= _LOW and found[1] < _HIGH:
            known[number] = found
    return frozenset(n for n in known if result_dtype(kernel.body[n]) == I64)


def index_of(kernel: Kernel, value: int) -> Index | None:
    """The index that an integer value is, through sums with other indexes; None for any other value."""
    instr = kernel.body[value]
    if isinstance(instr, IndexOf):
        return instr.index
    if isinstance(instr, Const) and instr.dtype.is_integer:
        return constant(int(instr.value))
    if isinstance(instr, Compute) and instr.dtype.is_integer and instr.op in ("add", "sub"):
        left, right = (index_of(kernel, a) for a in instr.args)
        if left is not None and right is not None:
            return left + right if instr.op == "add" else left - right
    return None


def one_hot_sums(kernel: Kernel) -> dict[int, Form]:
    """Sums over a row of `where(r == t, v, 0)`, where t and v do not vary along it: v where t is in the row, else 0."""
    if len(kernel.reduce) != 1:
        return {}
    row = kernel.reduce[0]
    forms: dict[int, Form] = {}
    for number, instr in enumerate(kernel.body):
        if not (isinstance(instr, Reduce) and instr.is_row_sum):
            continue
        chosen = kernel.body[instr.arg]
        if not (isinstance(chosen, Compute) and chosen.op == "where" and chosen.dtype == instr.dtype):
            continue
        test, value, other = (kernel.body[a] for a in chosen.args)
        if not (isinstance(other, Const) and other.value == 0 and isinstance(test, Compute) and test.op == "eq"):
            continue
        for place, target in (test.args, test.args[::-1]):
            alike = not any(row.name in kernel.varies[v] for v in (target, chosen.args[1]))
            if alike and index_of(kernel, place) == axis(row.name) and isinstance(row.size, int):
                text = f"tl.where(({{0}} >= 0) & ({{0}} < {row.size}), {{1}}, 0)"
                if not isinstance(value, Const):
                    forms[number] = Form(text, (target, chosen.args[1]))
    return forms


def _index_range(index: Index, sizes: Mapping[str, Size]) -> Range | None:
    if not isinstance(index.const, int):
        return None
    low = high = index.const
    for atom, coef in index.terms:
        top: Size | None
        if isinstance(atom, str):
            size = sizes[atom]
            top = max(0, size - 1) if isinstance(size, int) else None
        elif isinstance(atom, Mod):
            top = atom.by - 1 if isinstance(atom.by, int) else None
        elif isinstance(atom, Div):
            inner = _index_range(atom.arg, sizes)
            top = inner[1] // atom.by if inner is not None and isinstance(atom.by, int) else None
        else:
            top = None
        if not (isinstance(top, int) and isinstance(coef, int)):
            return None
        low, high = low + min(0, coef * top), high + max(0, coef * top)
    return low, high


def _compute_range(kernel: Kernel, instr: Compute, known: Mapping[int, Range]) -> Range | None:
    if instr.op == "cast":
        return known.get(instr.args[0]) or _type_range(result_dtype(kernel.body[instr.args[0]]))
    parts = [known.get(a) for a in (instr.args[1:] if instr.op == "where" else instr.args)]
    ranges = [p for p in parts if p is not None]
    if len(ranges) < len(parts):
        return None
    match instr.op:
        case "copy":
            return ranges[0]
        case "neg":
            return -ranges[0][1], -ranges[0][0]
        case "add":
            return ranges[0][0] + ranges[1][0], ranges[0][1] + ranges[1][1]
        case "sub":
            return ranges[0][0] - ranges[1][1], ranges[0][1] - ranges[1][0]
        case "mul":
            ends = [a * b for a in ranges[0] for b in ranges[1]]
            return min(ends), max(ends)
        case "minimum":
            return min(ranges[0][0], ranges[1][0]), min(ranges[0][1], ranges[1][1])
        case "maximum":
            return max(ranges[0][0], ranges[1][0]), max(ranges[0][1], ranges[1][1])
        case "where":
            return min(ranges[0][0], ranges[1][0]), max(ranges[0][1], ranges[1][1])
        case _:
            return None


def _type_range(dtype: DType | None) -> Range | None:
    if dtype == BOOL:
        return 0, 1
    if dtype is None or not dtype.is_integer or dtype.bits > 16:
        return None
    return (0, 2**dtype.bits - 1) if dtype.kind == "uint" else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
