"""`fusewise verify`: the proof of equality."""

from __future__ import annotations

from typing import Annotated

import typer

from fusewise.commands.common import FINDING, JsonOption, console, gradients, print_json, progress_bar
from fusewise.commands.options import InferenceOption, InputOption, PolicyOption, TargetArgument
from fusewise.errors import EnvironmentFailure, UnknownName


def verify(
    target: TargetArgument,
    input: InputOption = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    policy: PolicyOption = "balanced",
    inference: InferenceOption = False,
    hard: Annotated[bool, typer.Option(help="Also use NaN, infinities, -0, large, tiny and subnormal numbers.")] = True,
    seed: Annotated[int, typer.Option(help="Of inputs and of random ops.")] = 0,
    json: JsonOption = False,
) -> None:
    """Compare what Fusewise makes of a function with eager PyTorch and with fp64; exit code 1 on a mismatch.

    \b
    fusewise verify model.py:block
    fusewise verify model.py:block --input "x:f32[128,512]+grad" --policy conservative

    Outputs, changed arguments and gradients, on the inputs given, on random and on hard ones; results lie in memory
    that was poisoned first. Under conservative each bit must be eager's. Otherwise the error against fp64 may be 1.5
    times eager's own, and 2 units in the last place. A mismatch names the first index and the kernel.

    Inputs are written as for `fusewise explain`.
    """
    from fusewise.commands.targets import load_target
    from fusewise.config import make_options
    from fusewise.stages import keep

    options = make_options(policy=policy)
    check_device(device)
    loaded = load_target(target, input or (), device, inference)
    from fusewise.explanation import stages_of
    from fusewise.proof.run import verify as verify_function

    with progress_bar(silent=json) as show, gradients(not inference):
        found, fused = verify_function(
            loaded.function,
            loaded.args,
            loaded.kwargs,
            options,
            name=target,
            seed=seed,
            hard=hard,
            progress=show,
        )
    keep(f"fusewise verify {target}", stages_of(fused.compiled, options))
    if json:
        print_json(found.as_dict())
    else:
        console.print(found)
    if not found.ok:
        raise typer.Exit(FINDING)


def check_device(device: str) -> None:
    """Raises where kernels cannot run on a device."""
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise UnknownName("device to run on", device, ("cpu", "cuda"))
    if device.startswith("cuda"):
        import torch

        if not torch.cuda.is_available():
            raise EnvironmentFailure("this machine has no CUDA device.", "Run with --device cpu.")
