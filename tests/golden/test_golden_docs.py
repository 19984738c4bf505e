"""The generated pages are what their generators write today."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from tests.golden.programs import ROOT
from tests.golden.test_golden_stages import pytestmark as only_with_the_pinned_torch


def generator(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compare(made: ModuleType, text: str, update: bool) -> None:
    if update:
        made.PAGE.write_text(text, encoding="utf-8")
    command = f"`make golden` or `python docs/{made.__name__}.py`"
    assert text == made.PAGE.read_text(encoding="utf-8"), f"where that is meant, run {command} and read the diff"


def test_the_page_of_operators_is_up_to_date(request: pytest.FixtureRequest) -> None:
    made = generator("make_ops")
    compare(made, made.page(), request.config.getoption("--update-golden"))


@only_with_the_pinned_torch
def test_the_walkthrough_is_up_to_date(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("triton")
    made = generator("make_walkthrough")
    text = made.page()
    assert "\nVerified. " in text
    compare(made, text, request.config.getoption("--update-golden"))


def test_the_page_of_the_lab_is_up_to_date(request: pytest.FixtureRequest) -> None:
    made = generator("make_lab")
    compare(made, made.page(), request.config.getoption("--update-golden"))


@only_with_the_pinned_torch
def test_the_page_of_the_gate_is_up_to_date(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("triton")
    made = generator("make_gate")
    compare(made, made.page(), request.config.getoption("--update-golden"))


def test_the_page_of_guarantees_is_up_to_date(request: pytest.FixtureRequest) -> None:
    made = generator("make_guarantees")
    compare(made, made.page(), request.config.getoption("--update-golden"))


def test_the_page_of_the_cost_model_is_up_to_date(request: pytest.FixtureRequest) -> None:
    made = generator("make_cost_model")
    compare(made, made.page(), request.config.getoption("--update-golden"))
