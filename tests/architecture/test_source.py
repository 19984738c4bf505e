"""Habits that a linter does not know: short modules, options in one place, nothing tied to one machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusewise.config import ENV_VARS

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "fusewise").rglob("*.py"))
LINE_LIMIT = 600

TEXT_SUFFIXES = {
    ".py",
    ".toml",
    ".md",
    ".txt",
    ".j2",
    ".h",
    ".json",
    ".csv",
    ".svg",
    ".html",
    ".yml",
    ".ptx",
    ".cpp",
}
TEXT_NAMES = {"Makefile", "LICENSE", "run", ".importlinter", ".gitignore"}
SKIPPED_FOLDERS = {".git", "build", "dist", "node_modules", "shared"}

# In pieces, so that this file does not find itself.
HOME_FOLDERS = "|".join(["work", "root", "home", "Users"])
MACHINE_PATH = re.compile(rf"(?<![\w.$}}*~-])/(?:{HOME_FOLDERS})/[\w.]")
REGISTRY_HOST = re.compile(r"\b(?:pypi|pythonhosted|npmjs|crates)\." + r"(?:org|io)\b|\bdownload\.pytorch\b")

READERS = {"os.getenv", "getenv", "os.environ.get", "environ.get"}


def _texts() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if any(p in SKIPPED_FOLDERS or p.endswith(("_cache", "__pycache__", ".egg-info", "venv")) for p in parts):
            continue
        if path.is_file() and (path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES):
            yield path


def _environment_reads(tree: ast.AST) -> Iterator[int]:
    """Lines that read one variable: os.environ[...], os.environ.get(...), os.getenv(...), "X" in os.environ.

    Handing the whole environment on to a child process, or setting a variable, is no read.
    """

    def is_environ(node: ast.AST) -> bool:
        return ast.unparse(node) in {"os.environ", "environ"}

    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and is_environ(node.value):
            yield node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in READERS:
            yield node.lineno
        elif isinstance(node, ast.Compare) and any(is_environ(c) for c in node.comparators):
            yield node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src" / "fusewise")))
def test_module_is_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LINE_LIMIT, f"{lines} lines: a module over {LINE_LIMIT} is two modules"


def test_environment_is_read_in_config_only() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        if path.name != "config.py"
        for line in _environment_reads(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "declare these variables in fusewise/config.py: " + ", ".join(found)


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("os.environ['X']", 1),
        ("os.environ.get('X')", 1),
        ("os.getenv('X')", 1),
        ("'X' in os.environ", 1),
        ("os.environ['X'] = '1'", 0),
        ("run(env={**os.environ, 'X': '1'})", 0),
    ],
)
def test_environment_reads_are_recognised(code: str, reads: int) -> None:
    assert len(list(_environment_reads(ast.parse(code)))) == reads


def test_every_environment_variable_is_documented() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [v.name for v in ENV_VARS if f"`{v.name}`" not in page]
    assert not missing, f"docs/index.md does not name {missing}"


def test_nothing_is_tied_to_one_machine_or_index() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in _texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MACHINE_PATH.search(line) or REGISTRY_HOST.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", HOME_FOLDERS.split("|"))
def test_machine_paths_are_recognised(folder: str) -> None:
    path = f"/{folder}" + "/me/file.py"
    assert MACHINE_PATH.search(f'open("{path}")')
    assert not MACHINE_PATH.search(f"docs{path}") and not MACHINE_PATH.search(f"$HOME{path}")
