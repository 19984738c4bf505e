"""Many processes: DistributedDataParallel and FSDP2 with compiled modules under torchrun, over gloo, against eager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch is built without gloo")

Found = list[dict[str, Any]]


@pytest.fixture(scope="module", params=[2, 3], ids=["2 ranks", "3 ranks"])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each process found; they share one cache, empty before. From three on the order of sums matters."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "FUSEWISE_CACHE_DIR": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={request.param}"]
    command = [*launcher, str(ROOT / "tests" / "distributed_training.py"), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    assert [f["rank"] for f in found] == list(range(request.param))
    entries = list((folder / "cache").glob("cpp/*/*.so"))
    found[0]["entries"] = len(entries)
    return found


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_training_is_eagers(ranks: Found, how: str) -> None:
    for found in ranks:
        for policy in ("conservative", "balanced"):
            trained = found[f"{how} {policy}"]
            assert trained["kernels"] > 0 and trained["roles"] == ["backward", "forward"]
            assert trained["distance"] <= 1e-6 < trained["moved"], f"rank {found['rank']}, {policy}"
        assert found[f"{how} conservative"]["distance_traced"] == 0.0, f"rank {found['rank']}"
        if how == "fsdp" or len(ranks) == 2:  # sums of two do not depend on their order
            assert found[f"{how} conservative"]["distance"] == 0.0, f"rank {found['rank']}"


def test_collectives_are_walls_with_a_name(ranks: Found) -> None:
    for found in ranks:
        got = found["collectives"]
        assert got["close"] and got["kernels"] == 2
        assert got["walls"] and set(got["walls"]) == {"a collective: other processes take part"}


def test_the_cache_is_shared(ranks: Found) -> None:
    assert sum(found["built"] for found in ranks) == ranks[0]["entries"] > 0


def test_ranks_draw_different_masks(ranks: Found) -> None:
    masks = [tuple(found["mask"]) for found in ranks]
    assert len(set(masks)) == len(ranks)
    assert all(found["mask"] == found["mask again"] for found in ranks)
