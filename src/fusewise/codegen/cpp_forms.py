"""Pairs of instructions that have a joint form in the C++ runtime, of the same bits and fewer machine instructions."""

from __future__ import annotations

from collections.abc import Mapping

from fusewise.codegen.rounding import Form, one_plus_exp_of, through_rounding, users_of
from fusewise.ir.dtypes import BF16, F32
from fusewise.lower.kernel import Compute, Kernel, result_dtype


def joint_forms(kernel: Kernel) -> dict[int, Form]:
    """The second instruction of each pair, as a function of what the first one reads.

    Rounding to bf16 and back stays in a vector of f32. 1 + exp(x), the denominator of a sigmoid, needs no exp below the
    normal range: the sum is 1 there.
    """
    forms: dict[int, Form] = {}
    for number, instr in enumerate(kernel.body):
        if not (isinstance(instr, Compute) and instr.dtype == F32):
            continue
        source, rounded = through_rounding(kernel, number)
        exponent = one_plus_exp_of(kernel, number)
        if rounded == BF16 and result_dtype(kernel.body[source]) == F32:
            forms[number] = Form("fw::rounded_bf16({0})", (source,))
        elif exponent is not None:
            forms[number] = Form("fw::one_plus_exp({0})", (exponent,))
    return forms


def replaced(kernel: Kernel, forms: Mapping[int, Form]) -> frozenset[int]:
    """Instructions whose value nobody reads once the forms are used."""
    return frozenset(
        number
        for number, users in enumerate(users_of(kernel))
        if users and all(user in forms and number not in forms[user].args for user in users)
    )
