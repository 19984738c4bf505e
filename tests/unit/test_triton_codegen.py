"""What the Triton generator writes: masks, widths, rounding, the price of functions; no triton needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusewise.codegen.rounding import half_only
from fusewise.codegen.triton import is_exact, module, needs_debug
from fusewise.codegen.triton_index import aligned_sizes, content, make_tile, size_text
from fusewise.errors import IRError
from fusewise.ir import sizes
from fusewise.ir.affine import axis
from fusewise.ir.dtypes import BF16, BOOL, F16, F32, I64, DType
from fusewise.ir.graph import Origin
from fusewise.lower.kernel import Axis, Compute, Kernel, TritonSchedule
from tests.cpu.cpp_kernels import Make, at, loaded
from tests.triton_cases import chain, dropout, integers


def flat(block: int, bits: int = 32) -> TritonSchedule:
    return TritonSchedule((), ("x0",), 1, block, 1, True, 4, index_bits=bits)


def copy(count: sizes.Size, schedule: TritonSchedule) -> Kernel:
    m = Make("copy", [Axis("x0", count)], None)
    m.store("o", at(("x0", 1)), m.load("a", F32, at(("x0", 1))))
    return replace(m.done(), schedule=schedule)


def unary(op: str, dtype: DType, stored: DType) -> Kernel:
    m = Make("f", [Axis("x0", 1024)], None)
    v = m.load("a", dtype, at(("x0", 1)))
    v = v if dtype == F32 else m.op("cast", v, dtype=F32)
    y = m.op(op, v)
    m.store("o", at(("x0", 1)), y if stored == F32 else m.op("cast", y, dtype=stored))
    return replace(m.done(), schedule=flat(1024))


def test_a_block_that_divides_needs_no_mask() -> None:
    assert "_ok" not in module([copy(4096, flat(1024))], False)
    assert "x_ok = x < 4100" in module([copy(4100, flat(1024))], False)


def test_an_empty_tensor_is_masked() -> None:
    assert "x_ok = x < 0" in module([copy(0, flat(1024))], False)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_row_of_an_empty_tensor_is_masked(persistent: bool) -> None:
    m = Make("sum", [Axis("x0", 5), Axis("r0", 0, True)], None, persistent)
    m.store("o", at(("x0", 1)), m.reduce("sum", m.load("a", F32, at(("x0", 0), ("r0", 1)))))
    text = module([replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1, 2, persistent, 1))], False)
    assert "r_ok = r < 0" in text and "tl.load(a + r, r_ok" in text


def test_symbols_are_narrowed_only_where_32_bits_do() -> None:
    n = sizes.symbol("s0")
    narrow, wide = (module([copy(n * 8, flat(1024, bits))], False) for bits in (32, 64))
    assert "s0 = s0.to(tl.int32)" in narrow and "int64" not in narrow
    assert "tl.program_id(0).to(tl.int64)" in wide and "s0.to" not in wide


def test_row_values_are_scalars_where_a_program_has_one_row() -> None:
    m = Make("scale", [Axis("x0", 512), Axis("x1", 4096)], None)
    a = m.load("a", F32, at(("x0", 4096), ("x1", 1)))
    m.store("o", at(("x0", 4096), ("x1", 1)), m.op("mul", a, m.load("w", F32, at(("x0", 1)))))
    kernel = replace(m.done(), schedule=TritonSchedule(("x0",), ("x1",), 1, 1024, 1, True, 4))
    text = module([kernel], False)
    assert "tl.load(w + y)" in text and "y = (pid // 4)" in text
    assert "[:, None]" not in text


def test_the_contiguous_dim_is_innermost() -> None:
    m = Make("column", [Axis("x0", 256), Axis("r0", 64, True)], None)
    m.store("o", at(("x0", 1)), m.reduce("sum", m.load("a", F32, at(("r0", 256), ("x0", 1)))))
    kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 64, 16, False, 4))
    assert make_tile(kernel).order == ("r", "x")
    assert "lib.reduce_sum(a1, 0, True)" in module([kernel], False)


def test_flattened_axes_fold_back_to_one_index() -> None:
    m = Make("two", [Axis("x0", 7), Axis("x1", 11)], None)
    m.store("o", at(("x0", 11), ("x1", 1)), m.load("a", F32, at(("x0", 11), ("x1", 1))))
    m.store("t", at(("x1", 7), ("x0", 1)), m.load("a", F32, at(("x0", 11), ("x1", 1))))
    text = module([replace(m.done(), schedule=TritonSchedule((), ("x0", "x1"), 1, 64, 1, True, 4))], False)
    assert "tl.load(a + x, x_ok)" in text
    assert "x // 11" in text and "x % 11" in text


def test_a_function_is_cheap_only_before_rounding() -> None:
    assert "lib.fast_exp(" in module([unary("exp", BF16, BF16)], False)
    assert "lib.exp(" in module([unary("exp", BF16, F32)], False)
    assert "lib.exp(" in module([unary("exp", BF16, BF16)], True)
    assert "lib.fast" not in module([unary("tanh", BF16, BF16)], False, "amd")


def test_half_only_follows_every_use() -> None:
    m = Make("both", [Axis("x0", 64), Axis("r0", 128, True)], None)
    place = at(("x0", 128), ("r0", 1))
    v = m.op("cast", m.load("a", BF16, place), dtype=F32)
    e = m.op("exp", v)
    total = m.reduce("sum", e)
    m.store("o", place, m.op("cast", m.op("div", e, total), dtype=BF16))
    kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1, 128, True, 4))
    assert {e, total} <= half_only(kernel)
    m.store("t", at(("x0", 1)), total)  # the sum is also kept in f32
    kernel = replace(m.done(), schedule=kernel.schedule)
    assert not {e, total} & half_only(kernel)


def test_gelu_is_one_gate() -> None:
    m = Make("gelu", [Axis("x0", 1024)], None)
    v = m.op("cast", m.load("a", BF16, at(("x0", 1))), dtype=F32)
    erf = m.op("erf", m.op("mul", v, m.const(0.7071067811865476, F32)))
    y = m.op("mul", m.op("mul", v, m.const(0.5, F32)), m.op("add", m.const(1.0, F32), erf))
    m.store("o", at(("x0", 1)), m.op("cast", y, dtype=BF16))
    kernel = replace(m.done(), schedule=flat(1024))
    assert f"v{v} * lib.fast_gate_erf(v{v}, 0.7071067811865476)" in module([kernel], False)
    assert "lib.erf(" in module([kernel], True) and "gate" not in module([kernel], True)


def sum_of(dtype: DType, op: str = "add") -> Kernel:
    m = Make("sum_of", [Axis("x0", 1024)], None)
    a, b = (m.op("cast", m.load(n, dtype, at(("x0", 1))), dtype=F32) for n in "ab")
    m.store("o", at(("x0", 1)), m.op("cast", m.op(op, a, b), dtype=dtype))
    return replace(m.done(), schedule=flat(1024))


def test_16_bit_sums_are_packed_where_the_bits_are_the_same() -> None:
    assert "lib.add_bf16(v0, v2)" in module([sum_of(BF16)], True)
    assert "lib.mul_bf16(v0, v2)" in module([sum_of(BF16, "mul")], False)
    assert "lib.mul_bf16" not in module([sum_of(BF16, "mul")], True)  # below 2^-126 eager rounds twice
    assert "_bf16(v0, v2)" not in module([sum_of(BF16)], False, "amd")


def test_division_by_a_row_value_is_a_product_unless_exact() -> None:
    m = Make("share", [Axis("x0", 64), Axis("r0", 128, True)], None)
    place = at(("x0", 128), ("r0", 1))
    a = m.load("a", F32, place)
    m.store("o", place, m.op("div", a, m.reduce("sum", a)))
    kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1, 128, True, 4))
    assert "lib.div_by_row(" in module([kernel], False)
    assert "lib.div_rn(" in module([kernel], True)


def test_a_quotient_that_many_elements_share_is_rounded_correctly() -> None:
    def text(stored: DType) -> str:
        m = Make("share", [Axis("x0", 64), Axis("r0", 128, True)], None)
        place = at(("x0", 128), ("r0", 1))
        a = m.load("a", F32, place)
        y = m.op("mul", a, m.op("div", m.reduce("sum", a), m.load("n", F32, at(("x0", 1)))))
        m.store("o", place, y if stored == F32 else m.op("cast", y, dtype=stored))
        schedule = TritonSchedule((), ("x0",), 1, 1, 128, True, 4)
        return module([replace(m.done(), schedule=schedule)], False)

    assert "lib.div_rn(" in text(F32)
    assert "lib.div_rn(" not in text(BF16), "its error vanishes in the rounding"
    m = Make("each", [Axis("x0", 1024)], None)
    m.store("o", at(("x0", 1)), m.op("div", m.load("a", F32, at(("x0", 1))), m.load("b", F32, at(("x0", 1)))))
    assert "v0 / v1" in module([replace(m.done(), schedule=flat(1024))], False)


def test_masked_lanes_contribute_the_identity() -> None:
    m = Make("top", [Axis("x0", 64), Axis("r0", 100, True)], None)
    m.store("o", at(("x0", 1)), m.reduce("max", m.load("a", F32, at(("x0", 100), ("r0", 1)))))
    kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1, 128, True, 4))
    assert 'tl.where(r_ok, v0, float("-inf"))' in module([kernel], False)


def test_a_checked_index_masks_its_load() -> None:
    m = Make("gather", [Axis("x0", 64)], None)
    i = m.load("i", I64, at(("x0", 1)))
    inside = m.op("lt", i, m.const(10, I64))
    m.check(inside)
    m.store("o", at(("x0", 1)), m.load("w", F32, loaded(i)))
    kernel = replace(m.done(), schedule=flat(64))
    text = module([kernel], False)
    assert f"tl.device_assert(v{inside}, 'index out of range')" in text
    assert f"tl.load(w + v{i}.to(tl.int32), v{inside})" in text
    assert needs_debug(kernel) and not needs_debug(copy(64, flat(64)))


def test_a_load_waits_for_no_check_that_comes_later() -> None:
    m = Make("twice", [Axis("x0", 64)], None)
    i = m.load("i", I64, at(("x0", 1)))
    checks: list[int] = []
    for place, limit in enumerate((10, 20)):  # both indexes come of the same numbers
        checks.append(m.op("lt", i, m.const(limit, I64)))
        m.check(checks[-1])
        m.store(f"o{place}", at(("x0", 1)), m.load("w", F32, loaded(i)))
    text = module([replace(m.done(), schedule=flat(64))], False)
    address = f"w + v{i}.to(tl.int32)"
    assert f"tl.load({address}, v{checks[0]})" in text and f"tl.load({address}, v{checks[0]} & v{checks[1]})" in text


def test_random_bits_by_blocks_of_eight() -> None:
    def draw(columns: int) -> str:
        m = Make("draw", [Axis("x0", 4), Axis("r0", columns, True)], None)
        keep = m.random("keep", m.load("s", I64, at()), at(("x0", columns), ("r0", 1)), 5, 0.5, BOOL)
        m.store("o", at(("x0", columns), ("r0", 1)), keep)
        return module([replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1, 128, True, 4))], False)

    assert "lib.keep8(v0, tl.arange(0, RBLOCK // 8) + (x * 12), 5, 32768)" in draw(96)
    assert "lib.keep1(v0, r + x * 97, 5, 32768)" in draw(97)


def test_exact_modules_say_so() -> None:
    kernel = copy(64, flat(64))
    assert is_exact(module([kernel], True)) and not is_exact(module([kernel], False))


def test_a_loop_over_rows_needs_the_row_on_chip() -> None:
    m = Make("walk", [Axis("l0", 4, loop=True), Axis("r0", 64, True)], None)
    m.store("o", at(("r0", 1)), m.reduce("sum", m.load("a", F32, at(("l0", 64), ("r0", 1))), over_loop=True))
    kernel = replace(m.done(), schedule=TritonSchedule((), (), 1, 1, 32, False, 4))
    with pytest.raises(IRError, match="persistent"):
        module([kernel], False)
    kernel = replace(m.done(), schedule=TritonSchedule((), (), 1, 1, 64, True, 4, l_block=8))
    with pytest.raises(IRError, match="8 rows at a time do not divide 4"):
        module([kernel], False)


def test_every_parallel_axis_needs_a_dim() -> None:
    with pytest.raises(IRError, match="in no tile dim"):
        module([copy(64, TritonSchedule((), (), 1, 64, 1, True, 4))], False)


def test_sizes_as_text() -> None:
    n, k = sizes.symbol("s0"), sizes.symbol("s1")
    assert size_text(-3) == "(-3)"
    assert size_text(n) == "s0"
    assert size_text(n * n * 4) == "(4 * s0 * s0)"
    assert size_text(n * k - 2) == "(s0 * s1 - 2)"
    assert content(n * 32 + 16) == 16 and content(24) == 24


def test_sizes_that_decide_the_width_of_an_access() -> None:
    n, k = sizes.symbol("s0"), sizes.symbol("s1")
    assert aligned_sizes(copy(n, flat(1024))) == {"s0"}
    assert aligned_sizes(copy(n * 64, flat(1024))) == frozenset()
    m = Make("rows", [Axis("x0", n), Axis("r0", k, True)], None)
    m.store("o", at(("x0", 1)), m.reduce("sum", m.load("a", F32, axis("x0") * k + axis("r0"))))
    kernel = replace(m.done(), schedule=TritonSchedule((), ("x0",), 1, 1, 1024, False, 4))
    assert aligned_sizes(kernel) == {"s1"}


def test_dropout_is_one_product() -> None:
    for dtype in (F32, BF16):
        text = module([replace(dropout(dtype, 1024).done(), schedule=flat(1024))], True)
        assert " * tl.where(v1, 1.25, 0.0)" in text
        assert "tl.float32)" not in text and "mul_bf16" not in text


def test_rounding_what_is_16_bits_wide_already_is_left_out() -> None:
    text = module([chain(BF16).kernel], True)
    assert text.count("lib.maximum_bf16(") == text.count("lib.minimum_bf16(") == 3
    assert text.count("lib.to_bf16(") == 3  # the sums; what follows is 16 bits wide
    assert "lib.scale_bf16(" not in text
    assert module([chain(BF16).kernel], False).count("lib.scale_bf16(") == 2
    assert "lib.scale_f16(" not in module([chain(F16).kernel], False)


def test_positions_are_compared_in_32_bits() -> None:
    row, loop = (module([one.kernel], True) for one in integers())
    assert " == lib.clamp_i32(v" in row
    assert "lib.clamp_i32(v" in loop and "tl.sum" not in loop
    # the position itself is never widened
    assert "r.to(tl.int64)" not in row


def test_a_sum_that_picks_one_element_needs_no_loop() -> None:
    row, loop = (module([one.kernel], True) for one in integers())
    assert "tl.where((v2 >= 0) & (v2 < 100), v3, 0)" in row
    assert loop.count("for r0 in") == 1


def square_sum(op: str) -> Kernel:
    m = Make("contract", [Axis("x0", 1024)], None)
    a, b = m.load("a", F32, at(("x0", 1))), m.load("b", F32, at(("x0", 1)))
    m.store("o", at(("x0", 1)), m.op(op, m.op("mul", a, a), b))
    return replace(m.done(), schedule=flat(1024))


def test_a_product_and_a_sum_of_one_op_are_one_fma() -> None:
    assert "tl.fma(v0, v0, v1)" in module([square_sum("add")], False)
    assert "tl.fma(v0, v0, lib.neg(v1))" in module([square_sum("sub")], False)
    assert "tl.fma" not in module([square_sum("add")], True)


def test_a_product_of_another_op_is_rounded() -> None:
    kernel = square_sum("add")
    body = tuple(replace(i, origin=Origin(f"aten.{i.op}")) if isinstance(i, Compute) else i for i in kernel.body)
    assert "tl.fma" not in module([replace(kernel, body=body)], False)
