from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.catalogue import FAMILIES, PROGRAMS
from fusewise.errors import UnknownName, UsageError
from fusewise.measure.bench import bench_cases
from fusewise.measure.contenders import FUSION_SWITCHES, available_switches, contenders_named, own_entry
from fusewise.measure.program import load_catalogue, select

ROOT = Path(__file__).parents[2]


def test_names_are_unique() -> None:
    assert len(PROGRAMS) == sum(len(family.PROGRAMS) for family in FAMILIES)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_every_program_has_its_sizes(program: object) -> None:
    sizes = PROGRAMS[program.name].sizes  # type: ignore[attr-defined]
    assert set(sizes) == {"tiny", "small", "full"}
    assert len({tuple(size) for size in sizes.values()}) == 1


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
