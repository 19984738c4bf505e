"""`fusewise explain`: what would run, for this machine or for a GPU that is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fusewise.commands.common import JsonOption, check_output, console, gradients, print_json, progress_bar, say
from fusewise.commands.options import InferenceOption, InputOption, PolicyOption, TargetArgument, split_names


def explain(
    target: TargetArgument,
    input: InputOption = None,
    device: Annotated[
        list[str] | None,
        typer.Option(help="cpu, cuda, or a name of `fusewise device list`; several side by side with commas."),
    ] = None,
    policy: PolicyOption = "balanced",
    inference: InferenceOption = False,
    why: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Only why two of them are one kernel or not: kernels, operators or lines."),
    ] = None,
    candidates: Annotated[bool, typer.Option("--candidates", help="Also every fusion that was tried.")] = False,
    staircase: Annotated[
        bool, typer.Option("--staircase", help="Also occupancy against registers, for each GPU kernel.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page that stands alone.")] = None,
    json: JsonOption = False,
) -> None:
    """What Fusewise makes of a function: kernels, bytes, floors, registers, and why the rest is not fused.

    \b
    fusewise explain model.py:block
    fusewise explain model.py:block --input "x:bf16[8192,4096]+grad" --device h200,l4
    fusewise explain model.py:block --device h200 --why gelu layer_norm
    fusewise explain model.py:block --device h200 --why 12 14
    fusewise explain model.py:block --html block.html

    Nothing is run, and inputs are fake: any size fits. For a GPU that is not here, kernels are compiled all the same,
    and registers, spills and shared memory are read off the result.

    --why takes two of: a kernel's name, an operator, a line of your file. Both ways to run the pair are compiled, as
    two kernels and as one. --json and --html hold every candidate and every staircase.

    Inputs are written NAME:DTYPE[SIZES], as in x:bf16[8192,4096] (f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool). +grad asks
    for a gradient, <N limits integers, and NAME=VALUE gives a Python value. Without --input: the `example_inputs` of
    the file, a function or a list beside NAME.
    """
    from fusewise.commands.targets import load_target
    from fusewise.config import make_options
    from fusewise.stages import keep

    options = make_options(policy=policy)
    check_output(html)
    loaded = load_target(target, input or (), "meta", inference)
    from fusewise.explanation import default_device
    from fusewise.explanation import explain as explain_function

    with progress_bar(silent=json) as show, gradients(not inference):
        found = explain_function(
            loaded.function,
            loaded.args,
            loaded.kwargs,
            split_names(device) or [default_device((loaded.args, loaded.kwargs))],
            options,
            target,
            show,
            why,
        )
    keep(f"fusewise explain {target}", found.stages)
    if html is not None:
        html.write_text(found.explanation.to_html(), encoding="utf-8")
    if json:
        print_json(found.explanation.as_dict())
        return
    from fusewise.report.choices import render_why
    from fusewise.report.terminal import render_explanation

    console.print(
        render_why(found.explanation.why) if why else render_explanation(found.explanation, candidates, staircase)
    )
    if html is not None:
        say(f"written to {html}")
