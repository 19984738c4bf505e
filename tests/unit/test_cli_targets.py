"""Targets and their inputs: what is loaded, and one clear line where something does not fit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fusewise.commands.options import split_names
from fusewise.commands.targets import load_target
from fusewise.errors import UnknownName, UsageError

torch = pytest.importorskip("torch")

SOURCE = """
import torch

def scale(x, factor=2.0):
    return x * factor

def join(*parts):
    return torch.cat(parts)

def options(x, **kw):
    return x

def nothing():
    return torch.zeros(2)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.linear(x)

class Sized(torch.nn.Module):
    def __init__(self, width):
        super().__init__()

class Failing(torch.nn.Module):
    def __init__(self):
        raise ValueError("no weights")

class NoCall:
    pass

async def later(x):
    return x

def parts(x):
    yield x

class Stream(torch.nn.Module):
    def forward(self, x):
        yield x

net = Net()
number = 3
"""
END = SOURCE.count("\n") + 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return path


def with_examples(file: Path, code: str) -> Path:
    file.write_text(SOURCE + code)
    return file


def test_inputs_by_name(file: Path) -> None:
    found = load_target(f"{file}:scale", ["x:f32[2,3]", "factor=0.5"])
    assert found.kwargs["x"].shape == (2, 3) and found.kwargs["factor"] == 0.5
    assert torch.equal(found.function(*found.args, **found.kwargs), found.kwargs["x"] * 0.5)


def test_the_same_inputs_each_time(file: Path) -> None:
    first, second = (load_target(f"{file}:scale", ["x:f32[64]"]).kwargs["x"] for _ in range(2))
    assert torch.equal(first, second)


def test_spread_and_named_arguments(file: Path) -> None:
    assert [a.shape[0] for a in load_target(f"{file}:join", ["a:f32[2]", "b:f32[3]"]).args] == [2, 3]
    assert set(load_target(f"{file}:options", ["x:f32[2]", "y:f32[3]"]).kwargs) == {"x", "y"}


@pytest.mark.parametrize("name", ["net", "Net"])
def test_modules_and_classes_of_modules(file: Path, name: str) -> None:
    found = load_target(f"{file}:{name}", ["x:f32[2,4]"], inference=True)
    assert isinstance(found.function, torch.nn.Module) and not found.function.training


@pytest.mark.parametrize(
    ("code", "args", "kwargs"),
    [
        ("example_inputs = [torch.ones(2), 3.0]", 2, 0),
        ("example_inputs = torch.ones(2)", 1, 0),
        ("def example_inputs(): return torch.ones(2), 3.0", 2, 0),
        ("example_inputs = {'x': torch.ones(2)}", 0, 1),
    ],
)
def test_example_inputs(file: Path, code: str, args: int, kwargs: int) -> None:
    found = load_target(f"{with_examples(file, code)}:scale")
    assert len(found.args) == args and len(found.kwargs) == kwargs


def test_given_inputs_come_before_example_inputs(file: Path) -> None:
    path = with_examples(file, "example_inputs = [torch.ones(2)]")
    assert load_target(f"{path}:scale", ["x:f32[7]"]).kwargs["x"].shape == (7,)


def test_a_function_that_needs_none(file: Path) -> None:
    assert load_target(f"{file}:nothing").args == ()


def test_meta_inputs_for_a_plan(file: Path) -> None:
    assert load_target(f"{file}:scale", ["x:f32[1000000,1000000]"], "meta").kwargs["x"].device.type == "meta"


@pytest.mark.parametrize(
    ("name", "inputs", "says"),
    [
        ("scal", [], "Did you mean scale"),
        ("number", [], "is of type int, not a function"),
        ("Sized", ["x:f32[2]"], "is a class that needs arguments"),
        ("later", ["x:f32[2]"], "is a coroutine"),
        ("parts", ["x:f32[2]"], "is a generator"),
        ("Stream", ["x:f32[2]"], "is a generator"),
        ("Failing", ["x:f32[2]"], "Failing cannot be made: ValueError: no weights"),
        ("NoCall", ["x:f32[2]"], "NoCall makes cannot be called"),
        ("scale", ["x:f32[99999999999999999999]"], r"x\[99999999999999999999\] cannot be made"),
        ("scale", [], "needs inputs"),
        ("scale", ["y:f32[2]"], "Known: factor, x"),
        ("scale", ["factor=1.0"], "missing a required argument: 'x'"),
    ],
)
def test_what_does_not_fit(file: Path, name: str, inputs: list[str], says: str) -> None:
    with pytest.raises((UsageError, UnknownName), match=says):
        load_target(f"{file}:{name}", inputs)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise ValueError('no weights')", f"ValueError: no weights at line {END}"),
        ("def broken(:", f"SyntaxError: [a-z ]+ at line {END}"),
        ("raise SystemExit(4)", f"SystemExit: 4 at line {END}"),
        ("import no_such_package", f"No module named 'no_such_package' at line {END}"),
    ],
)
def test_a_file_that_cannot_be_imported(file: Path, code: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_target(f"{with_examples(file, code)}:scale")


def test_a_mistyped_file(file: Path) -> None:
    with pytest.raises(UsageError, match="no file") as caught:
        load_target(f"{file.with_name('modle.py')}:scale")
    assert "model.py" in caught.value.remedy


def test_a_module_that_is_a_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert load_target("model:nothing").function() is not None
    with pytest.raises(UsageError, match="no module 'modl'"):
        load_target("modl:nothing")


def test_a_place_that_is_neither_file_nor_module() -> None:
    for place in (".", "..model", "my-model"):
        with pytest.raises(UsageError, match="neither a Python file nor a module"):
            load_target(f"{place}:nothing")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package in it and a folder that is none; no module of theirs is left behind."""
    files = {
        "packed/__init__.py": "",
        "packed/common.py": "def twice(x): return x * 2",
        "packed/absolute.py": "from packed.common import twice\ndef f(x): return twice(x)",
        "packed/relative.py": "from .common import twice\ndef f(x): return twice(x)",
        "packed/late.py": "def f(x):\n    from packed.common import twice\n    return twice(x)",
        "plain/common_of_plain.py": "def twice(x): return x * 2",
        "plain/absolute.py": "from plain.common_of_plain import twice\ndef f(x): return twice(x)",
        "plain/sibling.py": "from common_of_plain import twice\ndef f(x): return twice(x)",
        "plain/late.py": "def f(x):\n    from common_of_plain import twice\n    return twice(x)",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "target"),
    [
        (".", "packed/absolute.py:f"),
        (".", "packed/relative.py:f"),
        (".", "packed/late.py:f"),
        ("packed", "absolute.py:f"),
        ("packed", "relative.py:f"),
        (".", "packed.absolute:f"),
        (".", "packed.late:f"),
        (".", "plain/absolute.py:f"),
        (".", "plain/sibling.py:f"),
        (".", "plain/late.py:f"),
    ],
)
def test_a_file_imports_its_project(project: Path, folder: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / folder)
    found = load_target(target, ["x:f32[3]"])
    assert torch.equal(found.function(**found.kwargs), found.kwargs["x"] * 2)


def test_a_folder_of_the_user_hides_no_module_of_others(project: Path) -> None:
    (project / "plain" / "wave.py").write_text("raise RuntimeError")  # a module of Python that nobody imports first
    sys.modules.pop("wave", None)
    load_target(f"{project}/plain/late.py:f", ["x:f32[3]"])
    import wave

    assert "plain" not in str(wave.__file__)


def test_example_inputs_that_fail(file: Path) -> None:
    path = with_examples(file, "def example_inputs(): raise RuntimeError('no data')")
    with pytest.raises(UsageError, match=r"example_inputs\(\) .* failed: RuntimeError: no data"):
        load_target(f"{path}:scale")


def test_a_file_with_the_name_of_a_library_harms_nobody(file: Path) -> None:
    import json

    path = file.rename(file.with_name("json.py"))
    assert load_target(f"{path}:nothing").function() is not None
    import json as again

    assert again is json and json.loads("1") == 1


def test_an_option_that_names_nothing_is_refused() -> None:
    assert split_names(None) == [] and split_names(["a, b", "c"]) == ["a", "b", "c"]
    with pytest.raises(UsageError, match="',' names nothing"):
        split_names([","])
