"""`fusewise bisect`: the fusion at fault."""

from __future__ import annotations

from typing import Annotated

import typer

from fusewise.commands.common import FINDING, JsonOption, console, gradients, print_json, progress_bar
from fusewise.commands.options import InferenceOption, InputOption, PolicyOption, TargetArgument


def bisect(
    target: TargetArgument,
    input: InputOption = None,
    slower: Annotated[bool, typer.Option("--slower", help="Find the first fusion that makes it slower.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    policy: PolicyOption = "balanced",
    inference: InferenceOption = False,
    hard: Annotated[bool, typer.Option(help="Also use NaN, infinities, -0, large, tiny and subnormal numbers.")] = True,
    seed: Annotated[int, typer.Option(help="Of inputs and of random ops.")] = 0,
    json: JsonOption = False,
) -> None:
    """Find the first fusion that makes a result wrong, or the function slower; exit code 1 where there is one.

    \b
    fusewise bisect model.py:block
    fusewise bisect model.py:block --slower --input "x:f32[4096,4096]"

    Wrong is what `fusewise verify` calls so. Fusions are turned off from the last to the first; what remains is the
    one with which the result is wrong and without which it is right: its ops and lines, and how to forbid it.
    """
    from fusewise.commands.targets import load_target
    from fusewise.commands.verify import check_device
    from fusewise.config import make_options

    options = make_options(policy=policy)
    check_device(device)
    loaded = load_target(target, input or (), device, inference)
    from fusewise.proof.bisect import bisect_slower, bisect_wrong

    given = (loaded.function, loaded.args, loaded.kwargs, options)
    with progress_bar(silent=json) as show, gradients(not inference):
        if slower:
            found = bisect_slower(*given, name=target, progress=show)
        else:
            found = bisect_wrong(*given, name=target, seed=seed, hard=hard, progress=show)
    if json:
        print_json(found.as_dict())
    else:
        console.print(found)
    if not found.ok:
        raise typer.Exit(FINDING)
