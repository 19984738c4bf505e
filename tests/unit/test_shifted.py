"""Shifted exponentials of a row: what is found, and what the generated code saves by it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fusewise.codegen.shifted import shifted_exps, summed_only
from fusewise.codegen.triton import module
from fusewise.ir.dtypes import BF16, F32
from fusewise.lower.kernel import Compute, Kernel, Load, TritonSchedule
from tests.cpu.cpp_kernels import Make
from tests.triton_cases import row_statistics, softmax


def kernel(make: Make, block: int = 512) -> Kernel:
    return replace(make.done(), schedule=TritonSchedule((), ("x0",), 1, 1, block, True, 4))


def test_a_softmax_and_its_statistics_are_found() -> None:
    for made in (softmax(4, 300, BF16, True), row_statistics(4, 300, BF16)):
        one = kernel(made)
        found = shifted_exps(one)
        assert [one.body[e].op for e in found.exps] == ["exp"]  # type: ignore[union-attr]
        assert all(isinstance(one.body[n], Load) for n in found.loads)
        assert len(found.loads) == 1
        assert len(found.reductions) == 2


def test_tails_come_from_the_load_and_reductions_need_no_mask() -> None:
    source = module([kernel(row_statistics(4, 300, BF16))], exact=False)
    assert 'other=float("-inf")' in source
    assert not re.search(r"tl\.where\(r_ok", source)
    whole = module([kernel(row_statistics(4, 512, BF16))], exact=False)
    assert "other=" not in whole


@pytest.mark.parametrize(("columns", "fast"), [(300, True), (100, False)])
def test_only_long_sums_take_the_cheaper_function(columns: int, fast: bool) -> None:
    one = kernel(row_statistics(4, columns, F32))
    assert bool(summed_only(one, shifted_exps(one).exps)) is fast
    assert ("lib.fast_exp" in module([one], exact=False)) is fast
    assert "lib.fast_exp" not in module([one], exact=True)


def test_a_result_that_is_stored_in_f32_keeps_the_accurate_function() -> None:
    assert "lib.fast_exp" not in module([kernel(softmax(4, 300, F32, True))], exact=False)


def test_another_shift_is_none() -> None:
    one = kernel(softmax(4, 300, F32, True))
    body = tuple(replace(i, op="add") if isinstance(i, Compute) and i.op == "sub" else i for i in one.body)
    assert not shifted_exps(replace(one, body=body)).exps
