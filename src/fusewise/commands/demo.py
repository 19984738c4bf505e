"""`fusewise demo`: the whole job, end to end, on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fusewise.commands.common import FINDING, JsonOption, console, print_json, progress_bar, say


def demo(
    device: Annotated[str | None, typer.Option(help="cpu or cuda; none: the GPU where there is one.")] = None,
    json: JsonOption = False,
) -> None:
    """The whole job on a transformer block (forward and backward) and a pointwise chain.

    Prints the plan, the proof that the results are equal to eager's, and the times of eager, torch.compile and Fusewise
    beside the least time that the hardware allows. Takes about two minutes; most of it is torch.compile compiling.
    """
    import json as codec

    from rich.rule import Rule

    from fusewise.commands.bench import print_result
    from fusewise.commands.verify import check_device
    from fusewise.report.terminal import render_plan, render_verification
    from fusewise.stages import keep

    check_device(device or "cpu")
    from fusewise.demo import run_demo
    from fusewise.measure.results import to_json

    with progress_bar(silent=json) as show:
        found = run_demo(device, show)
    keep("fusewise demo", found.stages)
    if json:
        document: dict[str, Any] = {
            "ok": found.ok,
            "explanations": [e.as_dict() for e in found.explanations],
            "verifications": [v.as_dict() for v in found.verifications],
            "bench": codec.loads(to_json(found.bench)),
        }
        print_json(document)
    else:
        console.print(Rule("What runs", align="left"))
        for explanation in found.explanations:
            console.print(render_plan(explanation))
        console.print(Rule("The proof", align="left"))
        for verification in found.verifications:
            console.print(render_verification(verification))
        console.print(Rule("Times", align="left"))
        print_result(found.bench)
        _print_speedups(found.bench)
        say("\nNext: `fusewise show` lists the kernels; `fusewise explain FILE.py:NAME` takes your model.")
    if not found.ok:
        raise typer.Exit(FINDING)


def _print_speedups(bench: Any) -> None:
    for row in bench.rows:
        for other in ("eager", "inductor"):
            gain = row.speedup(other)
            if gain is not None:
                name = "torch.compile" if other == "inductor" else other
                say(f"{row.name}: time({name}) / time(fusewise) = {gain:.2f}")
