"""What tests share: caches of their own, checks switched on, golden files, GPU tests skipped without one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

try:
    from hypothesis import settings
except ImportError:  # a GPU machine without the dev extra still runs the tests that need no hypothesis
    settings = None

GOLDEN_DATA = Path(__file__).parent / "golden" / "data"
SCRATCH = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    # Set before any test module is imported: kernels may be compiled at import. Workers of pytest-xdist
    # inherit the folders of the process that started them.
    os.environ["FUSEWISE_CHECK"] = "1"
    os.environ.pop("COLUMNS", None)  # pytest-xdist sets it; what commands print depends on it
    if not hasattr(config, "workerinput"):
        scratch = Path(tempfile.mkdtemp(prefix="fusewise-tests-"))
        config.stash[SCRATCH] = scratch
        os.environ["FUSEWISE_CACHE_DIR"] = str(scratch / "fusewise")
        os.environ["TRITON_CACHE_DIR"] = str(scratch / "triton")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / "inductor")
    if settings is not None:
        # No deadline: the first example of a property may compile a kernel.
        settings.register_profile("local", deadline=None)
        settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
        settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_unconfigure(config: pytest.Config) -> None:
    scratch = config.stash.get(SCRATCH, None)
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and not _cuda_available():
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _cuda_available() -> bool:
    import torch  # here, since most runs of a single unit test do not need the seconds it takes

    return torch.cuda.is_available()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares with tests/golden/data/<name>; --update-golden writes that file."""
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = GOLDEN_DATA / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"no golden file {name}: run `make golden`, then read what it wrote")
        expected = path.read_text(encoding="utf-8")
        assert text == expected, f"{name} changed: where that is meant, run `make golden` and read the diff"

    return check
