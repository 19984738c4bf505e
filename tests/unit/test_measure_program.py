from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.catalogue import FAMILIES, PROGRAMS
from benchmarks.grid import grid_cases, points
from fusewise.errors import UnknownName, UsageError
from fusewise.measure.bench import bench_cases
from fusewise.measure.contenders import FUSION_SWITCHES, available_switches, contenders_named, own_entry, peers_of
from fusewise.measure.program import Case, Function, Program, load_catalogue, select

ROOT = Path(__file__).parents[2]


def test_names_are_unique() -> None:
    assert len(PROGRAMS) == sum(len(family.PROGRAMS) for family in FAMILIES)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_every_program_has_its_sizes(program: Program) -> None:
    assert set(program.sizes) == {"tiny", "small", "full"}
    assert len({tuple(size) for size in program.sizes.values()}) == 1


@pytest.mark.parametrize(
    ("size", "dtype", "direction", "message"),
    [
        ("smal", "bf16", "forward", "Did you mean small"),
        ("small", "bf61", "forward", "Did you mean bf16"),
        ("small", "bf16", "forwards", "Did you mean forward"),
    ],
)
def test_a_mistyped_name_gets_the_nearest(size: str, dtype: str, direction: str, message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        PROGRAMS["layer_norm"].case(size, dtype, direction=direction)


def test_the_catalogue_is_found_by_folder() -> None:
    assert list(load_catalogue(ROOT / "benchmarks")) == list(PROGRAMS)


def test_no_catalogue(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no benchmark catalogue"):
        load_catalogue(tmp_path)


def test_programs_are_selected_by_name() -> None:
    assert [p.name for p in select(PROGRAMS, ("softmax", "chain"))] == ["softmax", "chain"]
    assert len(select(PROGRAMS, ())) == len(PROGRAMS)
    with pytest.raises(UnknownName, match="Did you mean softmax"):
        select(PROGRAMS, ("sofmax",))


def test_cases_are_what_the_programs_have_of_what_is_asked_for() -> None:
    programs = [PROGRAMS["chain"], PROGRAMS["adam"]]
    labels = [c.label for c in bench_cases(programs, ["tiny", "small"], "cpu", dtypes=["fp32", "bf16"])]
    assert labels == [
        *(f"chain {d} {s} {t}" for s in ("tiny", "small") for t in ("fp32", "bf16") for d in ("forward", "train")),
        "adam forward tiny fp32",
        "adam forward small fp32",
    ]
    assert [c.label for c in bench_cases(programs, ["tiny"], "cpu", directions=["train"])] == ["chain train tiny fp32"]


@pytest.mark.parametrize("asked", [{"sizes": ["huge"]}, {"dtypes": ["int3"]}, {"directions": ["back"]}])
def test_cases_that_no_program_has_are_refused(asked: dict[str, list[str]]) -> None:
    with pytest.raises(UnknownName):
        bench_cases(PROGRAMS.values(), **{"sizes": ["tiny"], "device": "cpu", **asked})


def test_contenders_by_name() -> None:
    assert [c.name for c in contenders_named(["inductor", "eager", "inductor"])] == ["inductor", "eager"]
    with pytest.raises(UnknownName, match="Did you mean inductor"):
        contenders_named(["inducter"])


def test_fusion_switches_are_those_of_this_torch() -> None:
    # Names that Inductor renames would silently leave the contender weaker than it claims to be.
    assert available_switches() == FUSION_SWITCHES


def test_each_contender_gets_a_code_object_of_its_own() -> None:
    first, second = own_entry(max), own_entry(max)
    assert first.__code__ is not second.__code__
    assert first(1, 3) == second(1, 3) == 3


def test_the_grid_has_about_forty_points() -> None:
    assert 38 <= len(points()) <= 45
    assert {(1, 2**22), (65536, 16), (4096, 4096)} <= set(points())
    cases = grid_cases("cpu", "fp32", most_elements=2**12)
    assert all(c.case.size["rows"] * c.case.size["cols"] <= 2**12 for c in cases)
    assert cases[0].label == "softmax forward 1x16 fp32"


def test_only_installed_peers_take_part() -> None:
    def missing(_case: Case) -> Function:
        raise ImportError("not installed")

    program = replace(PROGRAMS["softmax"], peers={"missing": missing, "there": lambda _case: max})
    (peer,) = peers_of(program, program.case("tiny", "fp32"))
    assert peer.name == "there"
    assert peer.compile(min) is max
