"""Reports: hostile names stay text, numbers read well, nothing is lost on the way to JSON."""

from __future__ import annotations

import json
import math

import pytest

from fusewise.report.choices import candidate_table, distinct, staircase_table
from fusewise.report.documents import (
    CandidateRow,
    CandidateSide,
    DevicePlan,
    Difference,
    Explanation,
    Figures,
    GraphBreak,
    GraphPlan,
    KernelResources,
    KernelRow,
    NotFused,
    OccupancyStep,
    ResultCheck,
    SourceLine,
    Verification,
    Wall,
)
from fusewise.report.format import format_bytes, format_ops, format_us
from fusewise.report.terminal import plain_text

HOSTILE = "<script>alert('x')</script>[bold red]{{ 7 * 7 }}"


def explanation(name: str = "f", code: str = "y = x * 2", resources: KernelResources | None = None) -> Explanation:
    line = SourceLine(f"models/{name}.py", 3, code)
    kernel = KernelRow("fused_mul_0", ("aten.mul.Tensor", "aten.mul.Tensor"), (line,), 4096, 1024, 4.0, 5.0, resources)
    wall = Wall("mm", "aten.mm.default", f"reason {name}", line, 2048)
    pair = NotFused("fused_mul_0", "mm", "wall", "one of them runs as PyTorch's own kernel", code, 512)
    graph = GraphPlan("forward", (kernel,), (wall,), (pair,), 1)
    device = DevicePlan("h200", "NVIDIA H200", 4.8e12, 4.0, "datasheet", (graph,), (f"note {name}",))
    return Explanation(name, "balanced", (device,), (GraphBreak(f"print {name}", line),))


def test_html_escapes_what_comes_from_the_user() -> None:
    page = explanation(HOSTILE, HOSTILE).to_html()
    assert "<script" not in page and "alert(&#39;x&#39;)" in page
    assert "49" not in page.split("<style>")[0] and "{{ 7 * 7 }}" in page
    assert "http://" not in page and "https://" not in page and "src=" not in page


def test_text_shows_markup_as_it_is() -> None:
    text = str(explanation("f", HOSTILE))
    assert "[bold red]" in text and "\x1b" not in text


def test_an_explanation_as_text() -> None:
    text = str(explanation())
    for part in ("fused_mul_0", "mul x2", "f.py:3", "y = x * 2", "4.10 kB", "1.02 kB", "wall", "Graph breaks: 1"):
        assert part in text


@pytest.mark.parametrize(
    ("resources", "parts"),
    [
        (
            KernelResources("compiled", 40, 8, 8, 1024, 128, 12, 0.75, "registers"),
            ("40 registers", "16 B spilled", "75% full (registers)"),
        ),
        (KernelResources("unknown", note="no triton"), ("unknown",)),
    ],
)
def test_resources(resources: KernelResources, parts: tuple[str, ...]) -> None:
    found = explanation(resources=resources)
    for part in parts:
        assert part in str(found)
        assert part.partition(" ")[0] in found.to_html()


def test_json_holds_everything() -> None:
    found = json.loads(explanation(HOSTILE, HOSTILE).to_json())
    assert found["schema"] == "fusewise-explanation/1" and found["target"] == HOSTILE
    (device,) = found["devices"]
    assert device["graphs"][0]["kernels"][0]["dram_bytes"] == 1024
    assert device["graphs"][0]["not_fused"][0]["code"] == "wall"


def check(ok: bool, error: float | None = 1e-7) -> ResultCheck:
    difference = None if ok else Difference((3, 5), "1.5", "2.5", "2.5", "forward/fused_mul_0")
    return ResultCheck("caller's", "output", "float32", (4, 8), ok, 0, error, 1e-7, ok, "the rule", difference)


def test_a_mismatch_names_index_values_and_kernel() -> None:
    found = Verification("f", "balanced", "cpu", (check(False), check(True)), kernels=2)
    assert not found and not found.ok and len(found.failures) == 1
    text = str(found)
    for part in ("[3, 5]", "fused 1.5, eager 2.5", "fusewise show forward/fused_mul_0", "NOT equal: 1 of 2"):
        assert part in text
    assert json.loads(found.to_json())["checks"][0]["difference"]["index"] == [3, 5]


def test_a_proof_is_true() -> None:
    found = Verification("f", "balanced", "cpu", (check(True), check(True, None)))
    assert found and "Verified: 2 comparisons, 2 of them equal bit for bit." in str(found)


def test_json_has_no_bare_infinity() -> None:
    found = Verification("f", "balanced", "cpu", (check(True, math.inf), check(True, math.nan)))
    assert [c["error"] for c in json.loads(found.to_json())["checks"]] == ["inf", "nan"]


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (999, "999 B"), (1024, "1.02 kB"), (999_900, "1.00 MB"), (2.684e9, "2.68 GB"), (1.2e13, "12.0 TB")],
)
def test_bytes(amount: float, text: str) -> None:
    assert format_bytes(amount) == text


@pytest.mark.parametrize(("us", "text"), [(4.0, "4.00 us"), (999.9, "1.00 ms"), (12345, "12.3 ms"), (2.5e6, "2.50 s")])
def test_times(us: float, text: str) -> None:
    assert format_us(us) == text


def test_ops() -> None:
    assert format_ops(("aten.mul.Tensor", "aten.add.Tensor", "aten.mul.Scalar", "mine.op")) == "mul x2, add, mine.op"


def candidate(taken: bool, code: str, nodes: int = 1) -> CandidateRow:
    side = CandidateSide("aten.mul.Tensor", SourceLine("f.py", 3, HOSTILE), nodes, "fused_mul_0")
    return CandidateRow("vertical", side, side, taken, code, "meaning", HOSTILE, 64, 1.0, Figures(3.0), Figures(2.0))


def test_refusals_that_repeat_are_one_row() -> None:
    rows = [candidate(False, "cycle"), candidate(True, "saves-bytes"), candidate(True, "saves-bytes")]
    rows += [candidate(False, "cycle", 5), candidate(False, "domain")]
    found = distinct(rows)
    assert [(row.code, row.first.nodes, times) for row, times in found] == [
        ("saves-bytes", 1, 1),
        ("saves-bytes", 1, 1),
        ("cycle", 5, 2),
        ("domain", 1, 1),
    ]
    graph = GraphPlan("forward", (), (), (), 2, candidates=tuple(rows))
    text = plain_text(candidate_table(graph), width=200)
    assert "2 x" in text and "[bold red]" in text and "--json has each" in text
    page = Explanation("f", "balanced", (DevicePlan("l4", "L4", 1e9, 4.0, "datasheet", (graph,)),)).to_html()
    assert "<script" not in page and "refused 2 times, at last:" in page


def test_modelled_registers_are_marked() -> None:
    steps = (OccupancyStep(16, 64, 8, 0.5, "registers"),)
    found = explanation(
        resources=KernelResources("modelled", 40, 0, 0, 0, 128, 8, 0.5, "registers", 32, 65, steps, "x")
    )
    assert "~40 registers" in str(found) and "~40" in found.to_html()
    assert "◀ 40 registers" in plain_text(staircase_table("k", found.devices[0].kernels[0].resources))
