"""`fusewise calc`: the hand calculation of a fusion, with neither torch nor a compiler."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from fusewise.commands.common import JsonOption, print_json, say
from fusewise.device import (
    EndToEnd,
    FusionCalc,
    RateBound,
    calc_end_to_end,
    calc_fusion,
    calibrated,
    load,
    parse_bytes,
)
from fusewise.errors import UsageError


def calc(
    tensor: Annotated[str | None, typer.Option(help="Bytes of each tensor: 1GB (10^9), 1.5GiB, 4096.")] = None,
    kernels: Annotated[int, typer.Option(help="Kernels of the unfused chain.")] = 3,
    inputs: Annotated[int, typer.Option(help="Tensors that the whole chain reads.")] = 1,
    device: Annotated[str, typer.Option(help="A device of `fusewise device list`.")] = "h100",
    share: Annotated[
        float | None, typer.Option(help="Share of the program's time that the kernel takes, 0 to 1.")
    ] = None,
    speedup: Annotated[float | None, typer.Option(help="Time of that kernel before / after.")] = None,
    json: JsonOption = False,
) -> None:
    """The hand calculation: bytes and bounds of a fusion, or what a faster kernel does for the whole program.

    \b
    fusewise calc --tensor 1GB --kernels 3 --device a100
    fusewise calc --share 0.334 --speedup 3.6

    A chain of pointwise kernels over one tensor reads and writes it once a kernel; the fused kernel reads and writes
    it once. The cap is the ratio of the two: no fusion gains more while memory is the limit. The second form is
    Amdahl's law.
    """
    if (share is None) != (speedup is None):
        raise UsageError("--share and --speedup belong together.", "fusewise calc --share 0.334 --speedup 3.6")
    if tensor is None and share is None:
        raise UsageError(
            "nothing to calculate: give --tensor, or --share and --speedup.",
            "fusewise calc --tensor 1GB --kernels 3 --device a100\nfusewise calc --share 0.334 --speedup 3.6",
        )
    fusion = None
    if tensor is not None:
        fusion = calc_fusion(parse_bytes(tensor), kernels, calibrated(load(device)), inputs)
    end_to_end = calc_end_to_end(share, speedup) if share is not None and speedup is not None else None
    if json:
        documents = {"fusion": fusion, "end_to_end": end_to_end}
        print_json({name: asdict(found) for name, found in documents.items() if found is not None})
        return
    if fusion is not None:
        _print_fusion(fusion)
    if end_to_end is not None:
        _print_end_to_end(end_to_end)


def _print_fusion(found: FusionCalc) -> None:
    from fusewise.report.format import format_bytes

    say(f"{found.kernels} kernels over tensors of {format_bytes(found.tensor_bytes)} on {found.device}")
    say(f"  unfused  {format_bytes(found.naive_bytes)} read and written")
    say(f"  fused    {format_bytes(found.fused_bytes)}")
    for name, bound in (("peak rate", found.at_peak), ("copy rate", found.at_copy_rate)):
        if bound is not None:
            say(_bound_line(name, bound))
    say(f"  cap      {found.cap:.2f}x: time unfused / fused can be no more while memory is the limit")


def _bound_line(name: str, bound: RateBound) -> str:
    rate = f"{bound.rate.value / 1e9:,.0f} GB/s, {bound.rate.source}"
    return f"  at {name} ({rate})  unfused at least {bound.naive_ms:.3f} ms, fused at least {bound.fused_ms:.3f} ms"


def _print_end_to_end(found: EndToEnd) -> None:
    limit = "no limit" if found.limit is None else f"{found.limit:.3f}x"
    say(f"A kernel with {100 * found.share:.1f}% of the time that becomes {found.kernel_speedup:g}x faster:")
    say(f"  the whole program becomes {found.speedup:.3f}x faster (with an infinitely fast kernel: {limit})")
