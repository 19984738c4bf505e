"""The lab's files and its words: the published header, a round trip, and verdicts that follow from the rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusewise.errors import ResultsInvalid, UsageError
from fusewise.lab.plot import check_plot, draw
from fusewise.lab.results import load, to_csv, to_document, write_csv
from fusewise.lab.run import Result, Row
from fusewise.lab.verdict import fat_costs_of, gains_of, verdict_of

BASE = Row(
    tag="fused",
    kind="fused",
    k=4,
    n=1 << 24,
    width=1,
    live=0,
    regime="",
    block=256,
    grid=65536,
    median_ms=1.0,
    p10_ms=0.99,
    p90_ms=1.02,
    runs=30,
    occ_blocks_per_sm=8,
    passes=1,
    launches=1,
    dram_bytes=1 << 27,
    regs_per_thread=20,
    spill_bytes=0,
    stack_bytes=0,
    shared_bytes=0,
    max_regs=0,
    verified=True,
)


def row(kind: str, time: float, **given: Any) -> Row:
    return replace(BASE, kind=kind, tag=given.pop("tag", kind), median_ms=time, p10_ms=time, p90_ms=time, **given)


def result(*rows: Row, verb: str = "sweep", **given: Any) -> Result:
    return Result(verb, "h200", given.pop("published", False), rows, {"GPU": "NVIDIA H200"}, 1 << 25, **given)


def sweep(naive: float, graph: float, ks: tuple[int, ...] = (2, 8), regime: str = "memory") -> tuple[Row, ...]:
    """Fused takes 1 ms; naive takes `naive` ms a stage, of which `graph` ms are left without launches."""
    return tuple(
        made
        for k in ks
        for made in (
            row("naive", naive * k, k=k, regime=regime),
            row("naive_copies", naive * (k + 2), k=k, regime=regime),
            row("naive_graph", graph * k, k=k, regime=regime),
            row("fused", 1.3, k=k, regime=regime),
            row("fused", 1.0, k=k, regime=regime, width=4, tag="fused_w4"),
        )
    )


def text_of(found: Result) -> str:
    return "\n".join(verdict_of(found))


def test_the_csv_has_the_published_header_and_nothing_else() -> None:
    lines = to_csv(result(BASE, replace(BASE, tag="fused_w4", occ_blocks_per_sm=None))).splitlines()
    assert lines[0] == "tag,k,n,block,grid,median_ms,p10_ms,p90_ms,occ_blocks_per_sm"
    assert lines[1] == "fused,4,16777216,256,65536,1.000000,0.990000,1.020000,8"
    assert lines[2].endswith(",") and len(lines) == 3


def test_a_results_file_is_read_back_as_it_was(tmp_path: Path) -> None:
    written = result(BASE, row("naive", 3.5))
    beside = write_csv(tmp_path / "run.csv", written)
    assert beside.name == "run.json" and load(beside) == written
    assert (tmp_path / "run.csv").read_text(encoding="utf-8") == to_csv(written)


@pytest.mark.parametrize("harm", ["no json", "schema", "field", "verb"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, harm: str) -> None:
    document = to_document(result(BASE))
    if harm == "schema":
        document["schema"] = "other/1"
    elif harm == "field":
        del document["rows"][0]["median_ms"]
    elif harm == "verb":
        del document["verb"]
    file = tmp_path / "run.json"
    file.write_text("{" if harm == "no json" else json.dumps(document), encoding="utf-8")
    with pytest.raises(ResultsInvalid) as found:
        load(file)
    assert found.value.problem.startswith("run.json")


def test_gains_take_the_fastest_width_of_each_side() -> None:
    rows = (*sweep(0.9, 0.8, ks=(4,)), row("naive", 3.0, regime="memory", width=4, tag="naive_w4"))
    (gain,) = gains_of(rows)
    assert (gain.naive, gain.width, gain.fused_ms, gain.narrow) == (3.0, 4, 1.0, 1.3)
    assert gain.launch_share == pytest.approx(0.0)  # the replay was timed at the narrow width only


def test_a_gain_from_traffic_is_called_so() -> None:
    said = text_of(result(*sweep(0.95, 0.94)))
    assert "time(naive) / time(fused) rises with k: 1.90 at 2, 7.60 at 8" in said
    assert "it is traffic" in said and "4 elements an access are 1.30x faster" in said
    assert "It also times the copies" in said
    assert said.splitlines()[-1].startswith("Next: fuse: the gain is near its bound")


def test_a_gain_from_launches_is_called_so_and_asks_for_a_graph() -> None:
    said = text_of(result(*sweep(3.0, 0.5, regime="launch")))
    assert "it is launches" in said
    assert said.splitlines()[-1].startswith("Next: replay the launches")


def test_a_gain_far_below_its_bound_asks_to_look_at_the_kernel() -> None:
    said = text_of(result(*sweep(0.5, 0.5)))
    assert said.splitlines()[-1].startswith("Next: look at the fused kernel: at k = 8 it gains 4.00")


def test_a_gain_that_does_not_rise_is_called_so() -> None:
    rows = [replace(r, median_ms=2.0 if r.kind == "naive" else r.median_ms) for r in sweep(1.0, 1.0)]
    assert "time(naive) / time(fused) does not change with k" in text_of(result(*rows))


def fat(own: float) -> tuple[Row, ...]:
    """Arithmetic alone takes twice as long as fused; the live values `own` times that."""
    return tuple(
        made
        for live in (8, 240)
        for made in (
            row("fused", 1.0),
            row("fat", 2 * own, live=live, regs_per_thread=12 + live, occ_blocks_per_sm=1, tag=f"fat_t{live}"),
            row("thin", 2.0, live=live, tag=f"thin_t{live}"),
            row("hold", own, live=live, tag=f"hold_t{live}"),
        )
    )


def test_registers_are_told_from_arithmetic() -> None:
    costs = fat_costs_of(fat(1.5))
    assert [(c.live, c.fat, c.thin, c.hold, c.regs) for c in costs] == [
        (8, 3.0, 2.0, 1.5, 20),
        (240, 3.0, 2.0, 1.5, 252),
    ]
    said = text_of(result(*fat(1.5), verb="fat"))
    assert "live values themselves cost 1.50x, arithmetic the rest" in said
    assert said.splitlines()[-1].startswith("Next: split a fusion that keeps 240 values alive")
    assert text_of(result(*fat(1.0), verb="fat")).splitlines()[-1].startswith("Next: fuse on")


def test_residency_caps_and_phases_have_their_sentence() -> None:
    rows = [
        row(
            "fused",
            4.0 / blocks if blocks < 3 else 1.0,
            occ_blocks_per_sm=blocks,
            shared_bytes=1024,
            tag=f"occ{blocks}",
        )
        for blocks in range(1, 7)
    ]
    said = text_of(result(*rows, verb="fat"))
    assert "3 of 6 blocks an SM are within 5% of the best; with one block it takes 4.00x" in said
    capped = [
        row("fat", 3.0, live=240, tag="fat_t240"),
        row("fat", 6.0, live=240, max_regs=64, spill_bytes=900, tag="fat_t240_r64"),
    ]
    assert "is slower than holding 240 values: at best 2.00x" in text_of(result(*capped, verb="fat"))
    phases = [row("phases_two", 2.0), row("phases_graph", 1.5), row("phases_one", 1.0)]
    said = text_of(result(*phases, verb="phases"))
    assert "one launch with a barrier is faster than two: time(two) / time(one) = 2.00" in said and "1.50x" in said


def test_wrong_and_noisy_rows_come_first_to_mind() -> None:
    said = verdict_of(result(replace(BASE, verified=False), row("naive", 4.0)))
    assert said[0].startswith("NOT exact: fused") and said[-1].startswith("Next: find the row")
    assert "something else used the machine" in text_of(result(replace(BASE, p90_ms=9.0), row("naive", 4.0)))


@pytest.mark.parametrize(
    "rows", [sweep(0.95, 0.9), fat(1.2), (row("phases_two", 2.0), row("phases_one", 1.0)), (BASE,)]
)
def test_every_result_can_be_drawn(tmp_path: Path, rows: tuple[Row, ...]) -> None:
    pytest.importorskip("matplotlib")
    from fusewise.device.model import load_gpu

    check_plot(tmp_path / "run.svg")
    draw(result(*rows), tmp_path / "run.svg", load_gpu("h200"))
    assert "<svg" in (tmp_path / "run.svg").read_text(encoding="utf-8")


def test_a_figure_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a figure"):
        check_plot(tmp_path / "run.gif")
    with pytest.raises(UsageError, match="no folder"):
        check_plot(tmp_path / "missing" / "run.png")
