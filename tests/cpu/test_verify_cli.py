"""The command line on real targets: explain, verify, show, bench; exit codes and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fusewise.cli import app
from fusewise.commands.bench import count_kernels
from fusewise.commands.common import exit_code
from fusewise.errors import (
    CacheFailure,
    CompileFailed,
    CompilerMissing,
    DeviceDataError,
    ProfilerActive,
    UnknownName,
    UsageError,
    VerifyMismatch,
)
from fusewise.measure.results import TABLE_BEGIN, TABLE_END, load_results

SOURCE = """
import torch

def good(x):
    return torch.relu(x) * 2

def shapes(x, y):
    return x @ y

def leaves(x):
    raise SystemExit(5)

def example_inputs():
    return [torch.linspace(-1, 1, 64, requires_grad=True)]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_explain_then_show(file: Path) -> None:
    code, out, _ = run("explain", f"{file}:good")
    assert code == 0 and "model.py:5" in out and "return torch.relu(x) * 2" in out and "backward" in out
    code, out, _ = run("show", "--json")
    paths = [k["path"] for k in json.loads(out)["kernels"]]
    assert any(p.startswith("cpu/forward/") for p in paths) and any(p.startswith("cpu/backward/") for p in paths)
    assert 'extern "C"' in run("show", paths[0])[1]
    assert run("show", paths[0], "--as", "plan")[1].startswith("plan for ")


def test_explain_as_json_and_html(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    code, out, _ = run("explain", f"{file}:good", "--json", "--html", page, "--inference")
    assert code == 0 and json.loads(out)["devices"][0]["graphs"][0]["role"] == "inference"
    assert page.read_text().startswith("<!doctype html>")


def test_verify(file: Path) -> None:
    code, out, _ = run("verify", f"{file}:good", "--json")
    document = json.loads(out)
    assert code == 0 and document["ok"] and {c["name"] for c in document["checks"]} >= {"output", "gradient of x"}
    assert "fusewise verify" in run("show")[1]


def test_a_mismatch_ends_in_exit_code_1(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fusewise import pipeline
    from fusewise.proof import fused

    true = pipeline.compile_graph

    def wrong(*args: object, **kwargs: object) -> object:
        call = true(*args, **kwargs)  # type: ignore[arg-type]

        def spoiled(arguments: list[object]) -> list[object]:
            results = call(arguments)
            results[0][7] += 1
            return results

        spoiled._boxed_call = True  # type: ignore[attr-defined]
        return spoiled

    monkeypatch.setattr(fused, "compile_graph", wrong)
    code, out, _ = run("verify", f"{file}:good", "--inference", "--no-hard")
    assert code == 1 and "NOT equal" in out and "first at [7]" in out and "written by inference/fused_" in out


def test_json_stands_alone_where_the_users_code_prints(file: Path) -> None:
    talking = "print('imported')\n" + SOURCE.replace("return torch.relu", "print('called'); return torch.relu")
    file.write_text(talking)
    for verb in ("explain", "verify", "plan"):
        code, out, err = run(verb, f"{file}:good", "--json", *(["--device", "cpu"] if verb == "plan" else []))
        assert code == 0 and json.loads(out)
        assert "imported" in err and "called" in err


def test_a_file_that_cannot_be_written_is_told_first(file: Path, tmp_path: Path) -> None:
    for command in (
        ["explain", f"{file}:no_such_function", "--html"],
        ["plan", f"{file}:no_such_function", "--save"],
        ["verify", "--exhaustive", "--out"],
        ["bench", "no_such_program", "--predict", "--from", "x.json", "--out"],
    ):
        with pytest.raises(UsageError, match="is a folder, not a file"):
            run(*command, tmp_path)
        with pytest.raises(UsageError, match="no folder"):
            run(*command, tmp_path / "missing" / "file")


def test_an_option_that_would_do_nothing_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--out goes with --exhaustive"):
        run("verify", f"{file}:good", "--out", tmp_path / "results.json")
    with pytest.raises(UsageError, match="--as cpp of which kernel"):
        run("explain", f"{file}:good")
        run("show", "--as", "cpp")


def test_inputs_that_do_not_fit(file: Path) -> None:
    for verb in ("verify", "explain"):
        with pytest.raises(Exception, match="RuntimeError") as caught:
            run(verb, f"{file}:shapes", "--input", "x:f32[2,3]", "--input", "y:f32[2,3]")
        assert exit_code(caught.value) == 2  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="SystemExit: 5"):
            run(verb, f"{file}:leaves")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownName("verb", "x", ["y"]), 2),
        (DeviceDataError("x"), 2),
        (CompilerMissing("x"), 3),
        (ProfilerActive("x"), 3),
        (CacheFailure("x"), 3),
        (VerifyMismatch("x"), 1),
        (CompileFailed("x"), 1),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    assert exit_code(error) == code  # type: ignore[arg-type]


def test_bench_writes_rows_and_a_table(file: Path, tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "README.md"
    page.write_text(f"before\n{TABLE_BEGIN}\nold\n{TABLE_END}\nafter\n")
    arguments = ["bench", "chain", "--size", "tiny", "--baseline", "eager", "--rounds", "3", "--direction", "forward"]
    code, out, err = run(*arguments, "--out", results)
    (row,) = load_results(results).rows
    assert row.verified and set(row.times_us) == {"eager", "fusewise"} and row.kernels == {"eager": 20, "fusewise": 1}
    assert code == (1 if row.impossible else 0), err
    assert "chain forward" in out and "% of floor" in out
    assert run("bench", "--table", page, "--from", results)[0] == 0
    text = page.read_text()
    assert "old" not in text and "| chain | forward |" in text and text.startswith("before") and "after" in text
    assert run("bench", "--table", page, "--from", results, "--from", results)[0] == 0
    twice = page.read_text()
    assert twice.count("| chain | forward |") == 2 and twice.count("commit") == text.count("commit")


def test_an_interrupted_bench_keeps_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fusewise.measure import bench

    measure, seen = bench._measure, list[Any]()

    def interrupted(*args: Any) -> Any:
        seen.append(args)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return measure(*args)

    monkeypatch.setattr(bench, "_measure", interrupted)
    results = tmp_path / "results.json"
    arguments = ["bench", "chain", "layer_norm", "--size", "tiny", "--baseline", "eager", "--rounds", "3"]
    code, _, err = run(*arguments, "--direction", "forward", "--dtype", "fp32", "--out", results)
    assert code == 130 and "interrupted: 1 of 2 cases" in err
    assert [row.name for row in load_results(results).rows] == ["chain"]


def test_bench_lists_programs(file: Path) -> None:
    names = [p["name"] for p in json.loads(run("bench", "--list", "--json")[1])]
    assert {"chain", "softmax", "transformer_block"} <= set(names)
    with pytest.raises(UnknownName, match="Did you mean chain"):
        run("bench", "chian")
    with pytest.raises(UnknownName, match="device to run on 'h200'"):
        run("bench", "chain", "--device", "h200")


def test_kernels_of_a_call_are_counted() -> None:
    import torch

    import fusewise

    def f(x: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(x, -1) @ x) * 2

    fast = fusewise.compile(f)
    x = torch.randn(16, 16)
    fast(x)
    assert count_kernels(lambda: fast(x)) == 3
    assert count_kernels(lambda: torch.relu(x)) == 0
