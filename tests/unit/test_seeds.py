"""Seeds that a GPU's generator gives: its state decides, every step gives another, threads share none."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from fusewise.capture import random

DEVICE = torch.device("cuda", 0)


class Generator:
    """The state of a GPU's generator as PyTorch keeps it."""

    def __init__(self) -> None:
        self.seed, self.offset = 0, 0

    def initial_seed(self) -> int:
        return self.seed

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        assert offset % 4 == 0, "PyTorch takes multiples of 4"
        self.offset = offset


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Generator]:
    found = Generator()
    monkeypatch.setattr(torch.cuda, "default_generators", (found,))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    yield found


def test_the_state_decides_and_moves_on(generator: Generator) -> None:
    generator.seed, generator.offset = 7, 40
    first, second = random._next_number(DEVICE), random._next_number(DEVICE)
    assert first != second and generator.offset == 48
    generator.offset = 40
    assert random._next_number(DEVICE) == first
    generator.seed = 8
    assert random._next_number(DEVICE) != second


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_a_seed_is_an_int64_of_the_host(generator: Generator, seed: int) -> None:
    generator.seed = seed
    for _ in range(64):
        drawn = torch.ops.fusewise.seed(DEVICE)
        assert drawn.dtype == torch.int64 and drawn.device.type == "cpu" and drawn.shape == ()


def test_neighbouring_states_give_unlike_numbers(generator: Generator) -> None:
    """Bits are even, and no two of 4,096 states share a number."""
    found = []
    for seed in range(64):
        generator.seed, generator.offset = seed, 0
        found += [random._next_number(DEVICE) & (2**64 - 1) for _ in range(64)]
    assert len(set(found)) == len(found)
    bits = np.unpackbits(np.array(found, dtype=np.uint64).view(np.uint8)).reshape(len(found), 64)
    assert abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(len(found))
    flips = np.bitwise_count(np.array(found[1:], dtype=np.uint64) ^ np.array(found[:-1], dtype=np.uint64))
    assert flips.mean() == pytest.approx(32, abs=5 * 4 / np.sqrt(len(flips)))


def test_threads_share_no_number(generator: Generator) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: random._next_number(DEVICE), range(2000)))
    assert len(set(found)) == len(found) and generator.offset == 4 * len(found)
