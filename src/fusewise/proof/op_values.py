"""Values to call ops with: every bit pattern of a type, a spread of them, hard ones, and pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

BITS: dict[torch.dtype, torch.dtype] = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}

_NUMBERS = (
    *(0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 6.0, 7.0, 10.0, 20.0, 20.5, 88.0, 88.72, 89.0),
    *(103.97, 127.0, 127.5, 128.0, 255.0, 256.0, 1e3, 32767.0, 32768.0, 65504.0, 65520.0, 8388607.5, 8388608.0),
    *(16777216.0, 2147483520.0, 2147483648.0, 4294967296.0, 9.2e18, 9.3e18, 1e-3, 1e-5, 1e-7, 1e-20, 1e-38, 1e30, 3e38),
    *(math.pi, math.pi / 2, math.pi / 4, math.e, math.log(2), math.sqrt(2), 1 / 3, 2 / 3, 1 / 6),
)


def hard_values(dtype: torch.dtype, device: str) -> torch.Tensor:
    """Where kernels go wrong: 0 and its neighbours, subnormals, limits, infinities, NaN, whole numbers."""
    if dtype == torch.bool:
        return torch.tensor([False, True], device=device)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        near = list(range(-18, 19)) + [n for b in (7, 8, 15, 16, 31, 32, 62) for n in (2**b - 1, 2**b, -(2**b))]
        near += [info.min, info.min + 1, info.max, info.max - 1, 63, 64, 65, 70, 100, -70]
        return torch.tensor(sorted({n for n in near if info.min <= n <= info.max}), device=device).to(dtype)
    limits = torch.finfo(dtype)
    small = limits.smallest_normal
    special = [limits.max, small, small * (1 - limits.eps), small / 2, small * limits.eps, limits.eps, 1 + limits.eps]
    special += [1 - limits.eps / 2, math.sqrt(limits.max), math.sqrt(small), math.inf]
    positive = torch.tensor([*_NUMBERS, *special], dtype=torch.float64).to(dtype)
    both = torch.cat([positive, -positive, torch.tensor([math.nan], dtype=dtype)])
    return both.to(device)


def all_values(dtype: torch.dtype, device: str, chunk: int) -> Iterator[torch.Tensor]:
    """Every bit pattern of a 16- or 32-bit type."""
    width = 8 * dtype.itemsize
    for start in range(0, 1 << width, chunk):
        count = min(chunk, (1 << width) - start)
        yield _from_bits(torch.arange(start, start + count, device=device), dtype)


def spread_values(dtype: torch.dtype, device: str, count: int, chunk: int, seed: int = 0) -> Iterator[torch.Tensor]:
    """About `count` bit patterns, no two the same: one at random from each of as many equal parts of all of them."""
    generator = torch.Generator(device).manual_seed(seed)
    width = 8 * dtype.itemsize
    step = max(1, (1 << width) // count)
    parts = (1 << width) // step
    for start in range(0, parts, chunk):
        size = min(chunk, parts - start)
        place = torch.arange(start, start + size, device=device, dtype=torch.int64) * step
        if step > 1:
            place += torch.randint(0, min(step, 1 << 62), (size,), generator=generator, device=device)
        yield _from_bits(place, dtype)


def _from_bits(bits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return bits % 2 == 1
    narrow = bits.to(BITS.get(dtype, dtype))
    return narrow.view(dtype) if dtype.is_floating_point else narrow


def random_values(dtype: torch.dtype, device: str, count: int, generator: torch.Generator) -> torch.Tensor:
    """A mixture: any bit pattern, ordinary numbers, and hard values."""
    bits = _any_bits(dtype, device, count, generator)
    ordinary = torch.randn(count, generator=generator, device=device, dtype=torch.float32) * 8
    hard = hard_values(dtype, device)
    chosen = hard[torch.randint(0, len(hard), (count,), generator=generator, device=device)]
    kind = torch.randint(0, 4, (count,), generator=generator, device=device)
    if dtype == torch.bool:
        return bits
    if not dtype.is_floating_point:
        ordinary = ordinary.abs() if dtype == torch.uint8 else ordinary
    return torch.where(kind == 0, bits, torch.where(kind == 1, chosen, ordinary.to(dtype)))


def _any_bits(dtype: torch.dtype, device: str, count: int, generator: torch.Generator) -> torch.Tensor:
    low = torch.randint(0, 1 << 32, (count,), generator=generator, device=device, dtype=torch.int64)
    high = torch.randint(0, 1 << 32, (count,), generator=generator, device=device, dtype=torch.int64)
    return _from_bits(low ^ (high << 32), dtype)


def partner(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A second operand beside each value: half of any kind, half near the first, so that sums cancel and ties arise."""
    other = random_values(x.dtype, str(x.device), x.numel(), generator)
    if not x.dtype.is_floating_point:
        return other
    count = x.numel()
    factor = torch.rand(count, generator=generator, device=x.device, dtype=torch.float32) * 4 - 2
    near = (x.double() * factor.double()).to(x.dtype)
    flipped = torch.randint(0, 2, (count,), generator=generator, device=x.device) == 0
    return torch.where(flipped, near, other)


def pairs(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of the values."""
    grid = torch.meshgrid(values, values, indexing="ij")
    return grid[0].reshape(-1), grid[1].reshape(-1)
