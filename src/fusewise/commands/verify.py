"""`fusewise verify`: the proof of equality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fusewise.commands.common import (
    FINDING,
    JsonOption,
    check_output,
    console,
    gradients,
    print_json,
    progress_bar,
    say,
)
from fusewise.commands.options import InferenceOption, InputOption, PolicyOption, split_names
from fusewise.errors import EnvironmentFailure, UnknownName, UsageError

if TYPE_CHECKING:
    from fusewise.report.proofs import ExhaustiveReport, UnfusedProof

AGAINST = ("eager", "unfused")
_LIST = "comma separated"


def verify(
    target: Annotated[
        str | None, typer.Argument(metavar="FILE.py:NAME", help="A function or module; none with --exhaustive.")
    ] = None,
    input: InputOption = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    policy: PolicyOption = "balanced",
    inference: InferenceOption = False,
    hard: Annotated[bool, typer.Option(help="Also use NaN, infinities, -0, large, tiny and subnormal numbers.")] = True,
    seed: Annotated[int, typer.Option(help="Of inputs and of random ops.")] = 0,
    against: Annotated[str, typer.Option(help="eager; or unfused: every op a kernel of its own.")] = "eager",
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Prove the ops of conservative instead.")] = False,
    ops: Annotated[str, typer.Option(help=f"With --exhaustive: ops, {_LIST}, as in relu,add.Tensor. All.")] = "",
    dtypes: Annotated[str, typer.Option(help=f"With --exhaustive: dtypes, {_LIST}.")] = "f32,bf16,f16",
    inputs: Annotated[
        int | None, typer.Option(min=1, help="With --exhaustive: least inputs an op, where not all.")
    ] = None,
    unclaimed: Annotated[
        bool, typer.Option("--unclaimed", help="With --exhaustive: the ops that conservative leaves eager.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="With --exhaustive: write the results to this file.")] = None,
    json: JsonOption = False,
) -> None:
    """Compare what Fusewise makes of a function with eager PyTorch and with fp64; exit code 1 on a mismatch.

    \b
    fusewise verify model.py:block
    fusewise verify model.py:block --input "x:f32[128,512]+grad" --policy conservative
    fusewise verify model.py:block --against unfused
    fusewise verify --exhaustive --device cuda --out results.json

    Outputs, changed arguments and gradients, on the inputs given, on random and on hard ones; results lie in memory
    that was poisoned first. Under conservative each bit must be eager's. Otherwise the error against fp64 may be 1.5
    times eager's own, and 2 units in the last place. A mismatch names the first index and the kernel.

    --against unfused compares each kernel with the same graph run one op a kernel, bit for bit: the fusion alone.

    --exhaustive compares each pointwise op that conservative fuses with eager's kernel, bit for bit: on a GPU every
    f32, bf16 and f16 input of an op of one operand, on a CPU 10^7 inputs at every tail, layout and number of threads.

    Inputs are written as for `fusewise explain`.
    """
    check_device(device)
    if against not in AGAINST:
        raise UnknownName("reference", against, AGAINST)
    if exhaustive:
        if target is not None:
            raise UsageError(f"--exhaustive proves PyTorch's ops, not {target}.", "Leave one of the two out.")
        report = prove_ops(device, ops, dtypes, inputs, unclaimed, out, json)
        _show(report, json)
        return
    for option, value in (("--ops", ops), ("--inputs", inputs), ("--unclaimed", unclaimed), ("--out", out)):
        if value:
            raise UsageError(f"{option} goes with --exhaustive.")
    if target is None:
        raise UsageError("nothing to verify.", "Write FILE.py:NAME, or --exhaustive for PyTorch's ops.")
    from fusewise.commands.targets import load_target
    from fusewise.config import make_options
    from fusewise.stages import keep

    options = make_options(policy=policy)
    loaded = load_target(target, input or (), device, inference)
    from fusewise.explanation import stages_of
    from fusewise.proof.run import verify as verify_function
    from fusewise.proof.unfused import verify_unfused

    with progress_bar(silent=json) as show, gradients(not inference):
        given = (loaded.function, loaded.args, loaded.kwargs, options)
        if against == "unfused":
            proof, compiled = verify_unfused(*given, name=target, seed=seed, hard=hard, progress=show)
            keep(f"fusewise verify {target}", stages_of(compiled, options))
            _show(proof, json)
            return
        found, fused = verify_function(*given, name=target, seed=seed, hard=hard, progress=show)
    keep(f"fusewise verify {target}", stages_of(fused.compiled, options))
    if json:
        print_json(found.as_dict())
    else:
        console.print(found)
    if not found.ok:
        raise typer.Exit(FINDING)


def prove_ops(
    device: str, ops: str, dtypes: str, inputs: int | None, unclaimed: bool, out: Path | None, silent: bool
) -> ExhaustiveReport:
    """The exhaustive proof, written to a file where one is named."""
    from fusewise.proof.exhaustive import prove

    check_output(out)
    with progress_bar(silent=silent) as show:
        report = prove(device, split_names([ops] if ops else None), split_names([dtypes]), inputs, unclaimed, show)
    if out is not None:
        out.write_text(report.to_json() + "\n", encoding="utf-8")
        if not silent:
            say(f"wrote {out}")
    return report


def _show(proof: ExhaustiveReport | UnfusedProof, json: bool) -> None:
    if json:
        print_json(proof.as_dict())
    else:
        console.print(proof)
    if not proof.ok:
        raise typer.Exit(FINDING)


def check_device(device: str) -> None:
    """Raises where kernels cannot run on a device."""
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise UnknownName("device to run on", device, ("cpu", "cuda"))
    if device.startswith("cuda"):
        import torch

        if not torch.cuda.is_available():
            raise EnvironmentFailure("this machine has no CUDA device.", "Run with --device cpu.")
