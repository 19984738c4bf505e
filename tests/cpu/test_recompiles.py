"""`fusewise doctor --recompiles`: what a program compiles more than once, and why."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from fusewise.cli import app
from fusewise.errors import UsageError
from fusewise.recompiles import explain_guard, watch


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def doctor(folder: Path, program: str, *arguments: str) -> tuple[int, Any]:
    file = folder / "train.py"
    file.write_text(textwrap.dedent(program))
    found = CliRunner().invoke(app, ["doctor", "--json", "--recompiles", str(file), "--", *arguments])
    return found.exit_code, json.loads(found.stdout)


def test_ten_batch_sizes_compile_twice(tmp_path: Path) -> None:
    code, found = doctor(
        tmp_path,
        """
        import sys
        import torch
        import torch.nn.functional as F
        import fusewise

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(8, int(sys.argv[1]))

            def forward(self, x):
                return F.layer_norm(F.gelu(self.fc(x)), (4,))

        if __name__ == "__main__":
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            step = fusewise.compile(net)
            for batch in (8, 3, 17, 2, 5, 31, 9, 4, 64, 12):
                optimizer.zero_grad()
                step(torch.randn(batch, 8)).sum().backward()
                optimizer.step()
            print("this goes to standard error")
        """,
        "4",
    )
    assert code == 0 and found["ok"] and found["fallbacks"] == 0
    (function,) = found["functions"]
    assert function["name"] == "forward" and function["file"] == str(tmp_path / "train.py")
    first, second = function["compiles"]
    assert (
        first["change"] == ""
        and second["change"] == "size 0 of x is 3, it was 8"
        and "dynamic=True" in second["advice"]
    )
    for one in (first, second):
        assert one["graphs"] == {"forward": 1, "backward": 1} and one["kernels"] >= 2 and not one["failure"]


def test_each_change_is_named(tmp_path: Path) -> None:
    code, found = doctor(
        tmp_path,
        """
        import torch
        import fusewise

        @fusewise.compile
        def scaled(x, factor=2.0, negative=False):
            y = x * factor
            return -y if negative else y.relu()

        x = torch.randn(4, 6)
        scaled(x)
        scaled(x, 3.0)
        scaled(x, 3.0, negative=True)
        scaled(x.double(), 3.0)
        scaled(x.t(), 3.0)
        scaled(x[0], 3.0)
        scaled(torch.randn(1, 6), 3.0)
        """,
    )
    (function,) = found["functions"]
    changes = [one["change"] for one in function["compiles"]]
    assert code == 1 and not found["ok"]
    assert function["name"] == "scaled" and function["line"] > 0
    expected = ["", "factor is no longer 2.0", "negative is no longer False", "x is Double, it was Float"]
    assert changes[:4] == expected and "x has 1 dims, it had 2" in changes, changes
    assert all(one["advice"] and one["guard"] for one in function["compiles"][1:])


@pytest.mark.parametrize(
    ("guard", "change"),
    [
        ("0/0: tensor 'L['x']' size mismatch at index 1. expected 8, actual 3", "size 1 of L['x'] is 3, it was 8"),
        ("3/1: tensor 'x' stride mismatch at index 0. expected 4, actual 1", "stride 0 of x is 1, it was 4"),
        ("0/1: 2 <= x.size()[0]  # return x + 1  # a.py:6 in f (user code ...", "size 0 of x is 0 or 1"),
        ("0/2: GLOBAL_STATE changed: grad_mode ", "the global state changed: grad_mode"),
        ("1/0: s == 1.5        # return x * s  # a.py:6 in f\nUser stack trace:", "s is no longer 1.5"),
        (
            "1/3: ___check_type_id(s, 139678), type=<class 'float'>  # x * s (HINT: type float)",
            "s is no longer of type float",
        ),
        ("0/0: len(xs) == 3  # for x in xs", "xs has no longer 3 items"),
        ("0/0: tensor 'x' requires_grad mismatch. expected requires_grad=1", "requires_grad of x is no longer 1"),
        ("0/0: words that nobody has seen yet", "words that nobody has seen yet"),
    ],
)
def test_guards_in_plain_words(guard: str, change: str) -> None:
    assert explain_guard(guard)[0] == change


@pytest.mark.parametrize(
    ("program", "problem"),
    [("raise ValueError('no data')", "failed: ValueError: no data"), ("import sys; sys.exit(3)", "ended with 3")],
)
def test_a_program_that_fails(tmp_path: Path, program: str, problem: str) -> None:
    file = tmp_path / "train.py"
    file.write_text(program)
    with pytest.raises(UsageError, match=problem):
        watch(file)


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"no file no-such-file\.py"):
        watch(Path("no-such-file.py"))
