"""The random bits of masks: known answers, and the statistics that a mask must have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from fusewise.ir import philox
from fusewise.ir.philox import ROUNDS

COUNT = 1 << 20
SIGMAS = 5.0  # what is drawn here is fixed: a test passes always or never
ELEMENTS = np.arange(COUNT, dtype=np.int64)

Halves = npt.NDArray[np.float64]


def draws(seed: int, slot: int, first: int = 0) -> Halves:
    """The 16 bits of each element, as numbers in [0, 1): the least keep_prob at which it is kept."""
    words = np.stack(philox.philox(seed, slot, first // 8 + np.arange(COUNT // 8, dtype=np.int64), stream=0), axis=-1)
    halves = np.stack((words & np.uint64(0xFFFF), words >> np.uint64(16)), axis=-1).ravel()
    return halves.astype(np.float64) / 65536


@pytest.mark.parametrize(
    ("stream", "answer"),
    [
        # Random123's table of known answers has counter 0 and key 0 for both numbers of rounds
        (0, (0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48)),
        (1, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ],
)
def test_known_answers(stream: int, answer: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = ROUNDS[stream]
    monkeypatch.setattr(philox, "ROUNDS", (rounds,))  # the counter's last word is the stream: 0
    words = philox.philox(0, 0, np.zeros(1, np.int64), stream=0)
    assert tuple(int(w[0]) for w in words) == answer


def test_every_bit_of_counter_and_key_changes_half_of_the_words() -> None:
    block = np.arange(2048, dtype=np.int64) * 77_777
    seed, slot = 0x0123456789ABCDEF, 5
    plain = np.stack(philox.philox(seed, slot, block, stream=0))

    def flipped(seed: int, slot: int, block: npt.NDArray[np.int64]) -> float:
        changed = np.stack(philox.philox(seed, slot, block, stream=0)) ^ plain
        return float(np.bitwise_count(changed).sum()) / (32 * changed.size)

    allowed = SIGMAS * 0.5 / np.sqrt(32 * plain.size)
    for bit in range(64):
        assert flipped(seed ^ 1 << bit, slot, block) == pytest.approx(0.5, abs=allowed)
        if bit < 62:
            assert flipped(seed, slot, block ^ 1 << bit) == pytest.approx(0.5, abs=allowed)
        if bit < 32:
            assert flipped(seed, slot ^ 1 << bit, block) == pytest.approx(0.5, abs=allowed)


def test_draws_are_uniform() -> None:
    found = draws(3, 0)
    assert found.mean() == pytest.approx(0.5, abs=SIGMAS / np.sqrt(12 * COUNT))
    assert found.var() == pytest.approx(1 / 12, abs=SIGMAS / np.sqrt(180 * COUNT))
    bins = np.bincount((found * 4096).astype(np.int64), minlength=4096)
    chi2 = float(((bins - COUNT / 4096) ** 2 / (COUNT / 4096)).sum())
    assert abs(chi2 - 4095) < SIGMAS * np.sqrt(2 * 4095)


NEIGHBOURS: dict[str, Callable[[], Halves]] = {
    "the next element": lambda: np.roll(draws(3, 0), -1),
    "the same place of the next block": lambda: np.roll(draws(3, 0), -8),
    "the element below in a row of 4096": lambda: np.roll(draws(3, 0), -4096),
    "the next slot": lambda: draws(3, 1),
    "the next seed": lambda: draws(4, 0),
    "a seed that differs in its high word": lambda: draws(3 + 2**32, 0),
    "elements beyond 2^32 blocks": lambda: draws(3, 0, first=2**35),
}


@pytest.mark.parametrize("other", NEIGHBOURS)
def test_draws_are_independent(other: str) -> None:
    one, two = draws(3, 0), NEIGHBOURS[other]()
    correlation = float(np.corrcoef(one, two)[0, 1])
    assert abs(correlation) < SIGMAS / np.sqrt(COUNT)
    pairs = np.bincount((one * 64).astype(np.int64) * 64 + (two * 64).astype(np.int64), minlength=4096)
    chi2 = float(((pairs - COUNT / 4096) ** 2 / (COUNT / 4096)).sum())
    assert abs(chi2 - 4095) < SIGMAS * np.sqrt(2 * 4095)


@pytest.mark.parametrize("keep_prob", [0.1, 0.5, 0.9, 1 / 65536, 0.0, 1.0])
def test_masks_keep_their_share_and_have_the_variance_of_coins(keep_prob: float) -> None:
    kept = philox.keep(7, 2, ELEMENTS, keep_prob)
    p = philox.threshold(keep_prob) / 65536
    assert kept.mean() == pytest.approx(p, abs=SIGMAS * np.sqrt(p * (1 - p) / COUNT))
    # of sums of 256 neighbours: the variance that independent ones have, to the error of 4096 such sums
    sums = kept.reshape(-1, 256).sum(axis=1)
    expected = 256 * p * (1 - p)
    kurtosis = (1 - 6 * p * (1 - p)) / expected if expected else 0.0
    assert sums.var() == pytest.approx(expected, abs=SIGMAS * expected * np.sqrt((2 + kurtosis) / len(sums)))
