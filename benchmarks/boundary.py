"""Where fusing everything may backfire: more values alive at once than a thread has registers, or unlike neighbours."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.common import Inputs, tensor_bytes
from fusewise.measure.program import Built, Case, Cost, Program

FORWARD = ("forward",)


def _build_wide_dag(case: Case) -> Built:
    outputs, live = case.size["outputs"], case.size["live"]

    def wide_dag(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        values = [torch.sin(x * w[i]) for i in range(live)]
        found = []
        for o in range(outputs):
            total = values[o % live]
            # each output takes the values in another order, so that all of them stay alive
            for i in range(1, live):
                total = total * 0.5 + values[(o + i * (2 * o + 1)) % live]
            found.append(total)
        return found

    inputs = Inputs(case)
    return wide_dag, (inputs.normal(case.size["n"], grad=False), inputs.normal(live, grad=False))


def _wide_dag_cost(case: Case) -> Cost:
    tensor = tensor_bytes(case, case.size["n"])
    outputs, live = case.size["outputs"], case.size["live"]
    # Least: read x, write the outputs. Unfused: a product and a sine each value; a product and a sum each step.
    return Cost((1 + outputs) * tensor, (4 * live + outputs * (live - 1) * 5) * tensor)


def _build_wide_row(case: Case) -> Built:
    count = case.size["inputs"]

    def wide_row(weights: torch.Tensor, *rows: torch.Tensor) -> list[torch.Tensor]:
        total = torch.stack([w * F.silu(r) for w, r in zip(weights.unbind(), rows, strict=True)]).sum(0)
        probability = torch.softmax(total, dim=-1)
        return [r * probability for r in rows]

    inputs = Inputs(case)
    shape = (case.size["rows"], case.size["columns"])
    rows = [inputs.normal(*shape, grad=False) for _ in range(count)]
    return wide_row, (inputs.normal(count, grad=False), *rows)


def _wide_row_cost(case: Case) -> Cost:
    tensor = tensor_bytes(case, case.size["rows"], case.size["columns"])
    count = case.size["inputs"]
    # Least: read the inputs, write the outputs. Unfused: SiLU and product an input, stack, sum, softmax, products.
    return Cost(2 * count * tensor, (4 * count + 2 * count + count + 1 + 2 + 3 * count) * tensor)


def _build_unlike(case: Case) -> Built:
    def unlike(rows: torch.Tensor, table: torch.Tensor, small: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.softmax(rows, -1), F.gelu(table) + 1, torch.cumsum(small, 0).neg(), (small * small).sum(0)

    inputs = Inputs(case)
    return unlike, (
        inputs.normal(case.size["rows"], case.size["columns"], grad=False),
        inputs.normal(case.size["n"], grad=False),
        inputs.normal(case.size["small"], 64, grad=False),
    )


def _unlike_cost(case: Case) -> Cost:
    rows = tensor_bytes(case, case.size["rows"], case.size["columns"])
    table = tensor_bytes(case, case.size["n"])
    small = tensor_bytes(case, case.size["small"], 64)
    return Cost(2 * rows + 2 * table + 3 * small, 2 * rows + 4 * table + 7 * small)


def _build_wide_epilogue(case: Case) -> Built:
    count = case.size["outputs"]

    def wide_epilogue(x: torch.Tensor, scales: torch.Tensor, shifts: torch.Tensor) -> list[torch.Tensor]:
        normed = F.layer_norm(x, x.shape[-1:])
        found = []
        for i in range(count):
            found.append(F.gelu(normed * scales[i] + shifts[i]))
        return found

    inputs = Inputs(case)
    columns = case.size["columns"]
    return wide_epilogue, (
        inputs.normal(case.size["rows"], columns, grad=False),
        inputs.normal(count, columns, grad=False),
        inputs.normal(count, columns, grad=False),
    )


def _wide_epilogue_cost(case: Case) -> Cost:
    tensor = tensor_bytes(case, case.size["rows"], case.size["columns"])
    count = case.size["outputs"]
    # Unfused: the norm, then a product, a sum and a GELU an output. Both: a scale and a shift an output.
    vectors = 2 * count * tensor_bytes(case, case.size["columns"])
    return Cost((1 + count) * tensor + vectors, (2 + 6 * count) * tensor + vectors)


PROGRAMS = (
    Program(
        name="wide_dag",
        build=_build_wide_dag,
        cost=_wide_dag_cost,
        sizes={
            "tiny": {"n": 4099, "outputs": 4, "live": 12},
            "small": {"n": 2**20, "outputs": 6, "live": 24},
            "full": {"n": 2**24, "outputs": 6, "live": 60},
        },
        dtypes=("fp32", "bf16"),
        directions=FORWARD,
        note="60 values that every output needs, in another order each",
        tags=frozenset({"boundary"}),
    ),
    Program(
        name="wide_row",
        build=_build_wide_row,
        cost=_wide_row_cost,
        sizes={
            "tiny": {"rows": 8, "columns": 1000, "inputs": 3},
            "small": {"rows": 256, "columns": 4096, "inputs": 6},
            "full": {"rows": 2048, "columns": 16384, "inputs": 8},
        },
        dtypes=("bf16", "fp32"),
        directions=FORWARD,
        note="a softmax over a mix of 8 rows of 16384, times each of them",
        tags=frozenset({"boundary"}),
    ),
    Program(
        name="unlike_neighbours",
        build=_build_unlike,
        cost=_unlike_cost,
        sizes={
            "tiny": {"rows": 8, "columns": 1000, "n": 4099, "small": 100},
            "small": {"rows": 512, "columns": 2048, "n": 2**20, "small": 4096},
            "full": {"rows": 8192, "columns": 4096, "n": 2**26, "small": 16384},
        },
        dtypes=("fp32", "bf16"),
        directions=FORWARD,
        note="a softmax, a long GELU, a running sum and column sums side by side",
        tags=frozenset({"boundary"}),
    ),
    Program(
        name="wide_epilogue",
        build=_build_wide_epilogue,
        cost=_wide_epilogue_cost,
        sizes={
            "tiny": {"rows": 8, "columns": 1000, "outputs": 3},
            "small": {"rows": 256, "columns": 2048, "outputs": 8},
            "full": {"rows": 8192, "columns": 4096, "outputs": 16},
        },
        dtypes=("bf16", "fp32"),
        directions=FORWARD,
        note="a layer norm whose result is scaled, shifted and passed through GELU 16 times",
        tags=frozenset({"boundary"}),
    ),
)
