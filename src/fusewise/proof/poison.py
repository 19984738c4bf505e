"""Poisoned memory: what a kernel forgets to write is seen, and what it writes beyond its end as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch

PROGRAM_FILE = "<fusewise program>"  # as `fusewise.runtime.program` names its code

_GUARD_BYTES = 256  # behind each tensor
_GUARD = 0xA5
# Sharp bits for a type without NaN: 0x5A5A... is no value that a kernel computes by chance.
_INTEGER = 0x5A

Allocate = Callable[[Sequence[int], Sequence[int], torch.dtype], torch.Tensor]


class Poison:
    """Gives out poisoned tensors in the place of uninitialised ones, and checks the guards behind them."""

    def __init__(self) -> None:
        self._guards: list[torch.Tensor] = []
        self._generators: dict[torch.device, torch.Generator] = {}

    def plant(self, call: Callable[..., Any], device: str) -> bool:
        """Lets a generated program take its memory from here; False for any other function.

        The program calls the `empty` of its globals, or `torch.empty_strided`: see `fusewise.runtime.program`.
        """
        if not isinstance(call, FunctionType) or call.__code__.co_filename != PROGRAM_FILE:
            return False
        scope = call.__globals__  # the program's own, shared with no module
        if "empty" in scope:
            scope["empty"] = lambda size, stride, dtype: self.empty(size, stride, dtype, device)
            return True
        if scope.get("torch") is torch:
            scope["torch"] = _Torch(self)
            return True
        return False

    def empty(self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: Any) -> torch.Tensor:
        """As `torch.empty_strided`, filled with NaN or sharp bits, with a guard behind it."""
        span = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0
        raw = torch.empty(span * dtype.itemsize + _GUARD_BYTES, dtype=torch.uint8, device=device)
        raw[span * dtype.itemsize :] = _GUARD
        self._guards.append(raw[span * dtype.itemsize :])
        body = raw[: span * dtype.itemsize]
        if dtype.is_floating_point or dtype.is_complex:
            body.view(dtype).fill_(float("nan"))
        elif dtype != torch.bool:
            body.fill_(_INTEGER)
        else:
            # either truth value may be right by chance: both are given out. Not from torch's own generator, which
            # the program under proof draws from.
            own = self._generators.setdefault(raw.device, torch.Generator(raw.device).manual_seed(0))
            body.random_(0, 2, generator=own)
        return torch.as_strided(body.view(dtype), tuple(size), tuple(stride), 0)

    def damaged(self) -> bool:
        """True where something was written behind a tensor since the last call; forgets the guards."""
        guards, self._guards = self._guards, []
        return any(bool((guard != _GUARD).any()) for guard in guards)


class _Torch:
    """The module `torch` with a poisoned `empty_strided`."""

    def __init__(self, poison: Poison) -> None:
        self._poison = poison

    def empty_strided(
        self, size: Sequence[int], stride: Sequence[int], *, dtype: torch.dtype, device: Any
    ) -> torch.Tensor:
        return self._poison.empty(size, stride, dtype, device)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)
