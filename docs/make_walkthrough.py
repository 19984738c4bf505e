"""Writes docs/walkthrough.md: one small program through every stage, each shown as the compiler has it.

    python docs/make_walkthrough.py

Needs triton and g++. What is shown is the same on every machine with the pinned torch and triton: figures that depend
on the machine are left out.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from fusewise.report.documents import ResultCheck

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "walkthrough.md"
PROGRAM = ROOT / "docs" / "walkthrough_program.py"
GPU = "h200"
SHAPE = (8192, 4096)
SMALL = (64, 1024)


def page() -> str:
    """The text of the page."""
    from fusewise import compile as fuse
    from fusewise import explain, trace, verify
    from fusewise.capture.importer import import_graph
    from fusewise.capture.trace import trace_fn
    from fusewise.codegen.triton import module
    from fusewise.config import Options
    from fusewise.device import load_gpu
    from fusewise.ir.printer import print_graph
    from fusewise.lower.printer import print_kernel
    from fusewise.pipeline import machine_of, plan_captured
    from fusewise.plan.printer import print_decision, print_plan

    program = _program()
    (traced,) = trace_fn(program, _inputs(SHAPE, torch.bfloat16, "meta"), device="cuda")
    captured = import_graph(traced.gm, traced.example_inputs, "balanced", "cuda")
    plan, kernels = plan_captured(captured, Options(), machine_of(GPU))
    (kernel,) = kernels.values()
    gpu = load_gpu(GPU)
    eager_ops = len([n for n in traced.gm.graph.nodes if n.op == "call_function"])

    explanation = explain(program, *_inputs(SHAPE, torch.bfloat16, "meta"), device=GPU)

    cpu_inputs = _inputs(SMALL, torch.float32, "cpu")
    trace.clear()
    fuse(program)(*cpu_inputs)
    (compiled,) = trace.compiled()
    proof = verify(program, *cpu_inputs)

    shape = " x ".join(f"{n:,}" for n in SHAPE)
    parts = [
        """# One program through every stage

<!-- Written by `python docs/make_walkthrough.py`; a test compares it. Do not edit. -->

The program adds a residual and normalises the sum, as language models do between two layers. Nobody calls a special
function: this is plain PyTorch.
""",
        _block("python", PROGRAM.read_text(encoding="utf-8")),
        f"""
Below it is compiled for an {gpu.title}, which need not be here, with `x` and `residual` of
{shape} in bf16. Eager PyTorch runs {eager_ops} operators, each a kernel of its own. Steps 1 to 7 are that compile;
in 8 and 9 the same program is compiled for the CPU, and run.

## 1. What torch.compile hands over

Dynamo follows the Python code and AOTAutograd writes it in ATen operators. In training there would be a second graph,
the backward.
""",
        _block("text", str(traced.gm.graph).strip()),
        """
## 2. Our graph

Capture writes each ATen operator in primitive ones. A half-precision operator computes in f32 and rounds once, as
eager's kernel does: hence the casts. A view (here the broadcasts) is an index map, `[o0, 0]` in terms of the result's
dims, and moves no data. Behind `#` stand the operator and the user's line that a node comes from.
""",
        _block("text", print_graph(plan.graph)),
        """
## 3. Decisions

Each node starts as a region of its own. The pair of regions whose merge saves most time by the model merges first,
until nothing gains. Every candidate leaves a decision, taken or refused, with the bytes that it saves (or would save)
and a reason code.
""",
        _block("text", "\n".join(print_decision(d) for d in plan.decisions)),
        "\n",
        _reasons([d.code for d in plan.decisions]),
        """
## 4. The plan

One kernel is left. It reads each input once and writes each output once. `row` marks the axis that is reduced over.
""",
        _block("text", print_plan(plan, decisions=False)),
        """
## 5. Kernel IR

Lowering turns the region into loads, arithmetic, reductions and stores in order of execution: for each point of the
parallel axes a pass over the row that feeds the sum, then a second one that uses it. The schedule holds the whole row
in registers, so the second pass reads nothing again: the value marked `held` stays on chip.
""",
        _block("text", print_kernel(kernel)),
        f"""
## 6. Triton

The printer for GPUs turns it into a Triton module. Two passes over a held row need no loop. The row is {SHAPE[1]:,}
elements and the block as long, so nothing is masked. An operation whose operands and result are 16 bits wide stays
packed, two elements an instruction (`lib.add_bf16`), since the bits are the same.
""",
        _block("python", module([kernel], False)),
        f"""
## 7. The explanation

`fusewise.explain(add_rms_norm, x, residual, weight, device="{GPU}")` does all of this and compiles the kernel for that
GPU. Registers, spills and shared memory are read off the machine code, and occupancy is worked out from them.
""",
        _block("text", str(explanation)),
        f"""
## 8. C++, and the program around it

For the CPU, kernel IR goes to another printer. `x` and `residual` are {" x ".join(map(str, SMALL))} in fp32 here, so
the casts are gone. `fw::` is a header of vectors and functions; threads share the rows. The second pass reads the row
again: a core has it in its first-level cache, and to add once more is cheaper than to keep the sum in memory.
""",
        _block("cpp", compiled.source),
        """
The kernels of a graph are called by a small Python function, written for the graph. It allocates the results, launches
the kernels in order, and frees each tensor after its last use.
""",
        _block("python", compiled.program),
        """
## 9. Verification

`fusewise.verify(add_rms_norm, x, residual, weight)` runs the fused function on the inputs given, on random ones and on
hard ones (NaN, infinities, subnormals, large and tiny numbers), with the results' memory poisoned beforehand, and
compares with eager PyTorch and with the same computation in fp64. It also prints how many results were equal bit for
bit and the errors; those depend on the machine and are left out here.

""",
        _checks(proof.checks),
        f"""
{"Verified." if proof.ok else "Not verified."} [Policies](policies.md) says what is promised, and how the promise is
kept.
""",
    ]
    return "".join(parts)


def _program() -> Callable[..., Any]:
    """The function, loaded anew, so that what torch.compile knows of an earlier one plays no part."""
    spec = importlib.util.spec_from_file_location(PROGRAM.stem, PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PROGRAM.stem] = module  # where Dynamo looks for the function's globals
    spec.loader.exec_module(module)
    function: Callable[..., Any] = module.add_rms_norm
    return function


def _inputs(shape: tuple[int, int], dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    """x, residual and weight; on the meta device they have no data."""
    generator = None if device == "meta" else torch.Generator(device).manual_seed(0)
    shapes = (shape, shape, shape[1:])
    return tuple(torch.randn(s, dtype=dtype, device=device, generator=generator) for s in shapes)


def _block(language: str, text: str) -> str:
    return f"\n```{language}\n{text.strip()}\n```\n"


def _reasons(codes: Sequence[str]) -> str:
    from fusewise.plan.decisions import REASONS

    return _table(("reason code", "meaning"), [(f"`{code}`", REASONS[code]) for code in dict.fromkeys(codes)])


def _checks(checks: Sequence[ResultCheck]) -> str:
    rows: dict[str, list[ResultCheck]] = {}
    for check in checks:
        rows.setdefault(check.name, []).append(check)
    return _table(
        ("result", "type", "sets of inputs", "what is asked", "holds"),
        [
            (name, _type(found[0]), str(len(found)), found[0].rule, "yes" if all(c.ok for c in found) else "no")
            for name, found in rows.items()
        ],
    )


def _type(check: ResultCheck) -> str:
    return f"{check.dtype.removeprefix('torch.')}{list(check.shape)}" if check.dtype else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Writes the page."""
    with tempfile.TemporaryDirectory() as scratch:
        # folders of its own: kernels that were built before prove nothing, and no calibration changes the figures
        os.environ["FUSEWISE_CACHE_DIR"] = str(Path(scratch) / "fusewise")
        os.environ["TRITON_CACHE_DIR"] = str(Path(scratch) / "triton")
        PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
