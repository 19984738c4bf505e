"""Random bits as a pure function of (seed, slot, element number): Philox 4x32.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11. Key = the low and high word of the seed; counter =
(low word, high word of the block number, slot, 0). One call gives four 32-bit words.

Numbers are drawn with 10 rounds, as PyTorch draws them. Decisions to keep an element take 7, the fewest that pass every
test of BigCrush (table 2 there): what a mask needs, and where kernels with dropout are bound by arithmetic, the
rounds count.

`keep`: a block serves eight elements, 16 bits each: element e is in block e // 8, word (e mod 8) // 2, the low half
where e is even. It is kept where its 16 bits are below round(keep_prob x 2^16).
`uniform`: a block serves four elements, 32 bits each: element e is word e mod 4 of block e // 4; its value is the top
24 bits x 2^-24. The two never share bits: `uniform` sets the counter's last word to 1.

Every code generator implements these lines; this one is the reference.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

KEY_STEP = (0x9E3779B9, 0xBB67AE85)
MULTIPLIER = (0xD2511F53, 0xCD9E8D57)
ROUNDS = (7, 10)  # by stream

_Words = npt.NDArray[np.uint64]


def philox(seed: int, slot: int, block: npt.NDArray[np.integer], stream: int) -> tuple[_Words, _Words, _Words, _Words]:
    """The four 32-bit words of each block number (as uint64 arrays)."""
    mask = np.uint64(0xFFFFFFFF)
    number = block.astype(np.uint64)
    c0, c1 = number & mask, number >> np.uint64(32)
    c2 = np.full_like(c0, slot & 0xFFFFFFFF)
    c3 = np.full_like(c0, stream)
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(ROUNDS[stream]):
        p0, p1 = c0 * np.uint64(MULTIPLIER[0]), c2 * np.uint64(MULTIPLIER[1])
        c0, c2 = (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & mask, p0 & mask
        k0, k1 = (k0 + KEY_STEP[0]) & 0xFFFFFFFF, (k1 + KEY_STEP[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def threshold(keep_prob: float) -> int:
    """16-bit draws below this are kept: 0 keeps none, 65536 keeps all."""
    return min(65536, max(0, round(keep_prob * 65536)))


def keep(seed: int, slot: int, element: npt.NDArray[np.integer], keep_prob: float) -> npt.NDArray[np.bool_]:
    """bool array: True where the element is kept."""
    words = np.stack(philox(seed, slot, element // 8, stream=0))
    chosen = np.take_along_axis(words, ((element % 8) // 2)[None].astype(np.int64), axis=0)[0]
    half = np.where(element % 2 == 0, chosen & np.uint64(0xFFFF), chosen >> np.uint64(16))
    kept: npt.NDArray[np.bool_] = half < np.uint64(threshold(keep_prob))
    return kept


def uniform(seed: int, slot: int, element: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
    """f32 array in [0, 1)."""
    words = np.stack(philox(seed, slot, element // 4, stream=1))
    chosen = np.take_along_axis(words, (element % 4)[None].astype(np.int64), axis=0)[0]
    scaled: npt.NDArray[np.float32] = (chosen >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    return scaled
