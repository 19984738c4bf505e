"""Imports run one way, and the compiler's core runs where neither torch nor triton is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ImportError(f"{name} is blocked in this test")

sys.meta_path.insert(0, Blocked())
"""

IMPORT_ALL = """
import importlib, pkgutil
package = importlib.import_module({package!r})
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
"""


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'src')\n{code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_import_contract() -> None:
    pytest.importorskip("importlinter")
    run = _python("from importlinter.cli import lint_imports; sys.exit(lint_imports())")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("room", ["ir", "device", "plan", "lower", "codegen"])
def test_core_imports_without_torch_and_triton(room: str) -> None:
    run = _python(BLOCKED + IMPORT_ALL.format(package=f"fusewise.{room}"))
    assert run.returncode == 0, run.stderr


def test_blocker_blocks() -> None:
    run = _python(BLOCKED + "import torch")
    assert run.returncode != 0 and "torch is blocked in this test" in run.stderr
