"""`fusewise device`: what is known of each GPU and of this machine, each figure with its source."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from fusewise.commands.common import JsonOption, console, print_json, say
from fusewise.device import CpuModel, DeviceModel, calibrated, list_names, load

app = typer.Typer(no_args_is_help=True, help="Models of GPUs and of this machine: list, show, calibrate.")


@app.command("list")
def list_devices(json: JsonOption = False) -> None:
    """Every device that `--device` takes."""
    from fusewise.report.format import format_bytes
    from fusewise.report.terminal import table_of

    models = [calibrated(load(name)) for name in list_names()]
    if json:
        print_json([_summary(m) for m in models])
        return
    right = "right"
    columns = ("name", "device", "architecture", ("units", right), ("memory rate", right), ("cache", right))
    table = table_of(*columns, "rate from")
    for model in models:
        found = _summary(model)
        rate = found["memory_bytes_per_s"]
        table.add_row(
            found["name"],
            found["title"],
            found["architecture"],
            str(found["units"]),
            "-" if rate is None else f"{rate / 1e9:,.0f} GB/s",
            format_bytes(found["cache_bytes"]),
            found["rate_source"] or "not measured",
        )
    console.print(table)


def _summary(model: DeviceModel) -> dict[str, Any]:
    figures = model.known_figures()
    rate = figures.get("copy_bytes_per_s") or figures.get("dram_bytes_per_s")
    cpu = isinstance(model, CpuModel)
    return {
        "name": model.name,
        "title": model.title,
        "architecture": model.isa if isinstance(model, CpuModel) else model.arch.name,
        "units": int(figures["cores" if cpu else "sm_count"].value),
        "memory_bytes_per_s": rate.value if rate else None,
        "rate_source": rate.source if rate else None,
        "cache_bytes": int(figures["l3_bytes" if cpu else "l2_bytes"].value),
    }


@app.command("show")
def show_device(
    name: Annotated[str, typer.Argument(help="A name of `fusewise device list`.")], json: JsonOption = False
) -> None:
    """Every figure of one device, with its source."""
    model = calibrated(load(name))
    figures = model.known_figures()
    if json:
        document = {key: asdict(figure) for key, figure in figures.items()}
        print_json({"name": model.name, "title": model.title, "figures": document})
        return
    from fusewise.report.terminal import table_of

    table = table_of("figure", ("value", "right"), "source", "from", title=f"{model.name}: {model.title}")
    for key, figure in figures.items():
        source = figure.source if figure.checked else f"{figure.source}, unchecked"
        table.add_row(key, f"{figure.value:,g}" if figure.value < 1e6 else f"{figure.value:.4g}", source, figure.doc)
    console.print(table)


@app.command("calibrate")
def calibrate(
    device: Annotated[str, typer.Option(help="`cpu`, or `cuda` for the GPU that is here.")] = "cpu",
    json: JsonOption = False,
) -> None:
    """Measure the copy and matmul rates, the memory's latency and an empty kernel here, and keep them for this user.

    Of a CPU also the cycles of each class of vector instructions. `explain` and `calc` then use these figures instead
    of the datasheet's, and mark them as calibrated.
    """
    from fusewise.commands.common import progress_bar
    from fusewise.measure.machine import now

    with progress_bar(silent=json) as show:
        show(0.1, "measuring the memory and the matrix rate")
        model, figures = _measure(device)
    from fusewise.device.calibration import Calibration, store

    file = store(Calibration(model.calibration_key, now(), figures))
    if json:
        print_json({"device": model.calibration_key, "figures": figures, "file": str(file)})
        return
    say(f"{model.title}:")
    for key, value in figures.items():
        say(f"  {key}  {value:.4g}")
    say(f"kept in {file}")


_UNDER_LOAD = 2.0  # of the idle latency of a GPU's memory, when it is busy: as in the device files


def _measure(device: str) -> tuple[DeviceModel, dict[str, float]]:
    import torch

    import fusewise
    from fusewise.errors import EnvironmentFailure, UnknownName
    from fusewise.measure.floors import measure_ceilings
    from fusewise.measure.latency import measure_latency_ns

    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise UnknownName("device to measure", device, ("cpu", "cuda"))
    if kind == "cuda" and not torch.cuda.is_available():
        raise EnvironmentFailure("this machine has no CUDA device to measure.", "Measure the CPU: --device cpu.")
    model: DeviceModel
    if kind == "cpu":
        model = load("cpu")
    else:
        from fusewise.pipeline import present_gpu

        model = present_gpu(device)
    matmul = "fp32" if kind == "cpu" else "bf16"
    ceilings = measure_ceilings(device, [matmul])
    latency_ns = measure_latency_ns(device, fusewise.compile)
    figures = {
        "copy_bytes_per_s": ceilings.copy_gbps * 1e9,
        "matmul_flops_per_s": ceilings.matmul_tflops[matmul] * 1e12,
    }
    if isinstance(model, CpuModel):
        from fusewise.measure.cpu_rates import measure_rates

        figures["dram_latency_ns"] = latency_ns
        figures |= measure_rates(model, fusewise.compile)
    else:  # the empty kernel of a CPU is no parallel loop
        figures["launch_us"] = ceilings.empty_kernel_us
        figures["dram_latency_ns"] = _UNDER_LOAD * latency_ns
    return model, figures
