"""The first call of a compiled graph, made so that it can fail: the arguments are kept, and eager runs instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

HELD_BYTES = 256 << 20
"""Saved tensors that a first backward keeps to its end at most: more might take memory that the step needs."""

Boxed = Callable[[list[Any]], list[Any]]
"""Takes the arguments in a list, which it empties."""


def guard_first_call(
    call: Boxed, eager: Boxed, failed: Callable[[Exception], None], held_bytes: int | None = None
) -> Boxed:
    """`call`, but where its first call fails and `eager` does not, that one's result, then and from then on.

    Where `eager` fails too the program itself is at fault, and its own error is what the caller sees.

    Args:
        call: the compiled graph.
        eager: the same graph as PyTorch runs it.
        failed: told what went wrong, once.
        held_bytes: the most that the arguments may take; above that they are not kept, and a failure is an error.
    """
    ready: Boxed | None = None

    def run(arguments: list[Any]) -> list[Any]:
        if ready is not None:
            return ready(arguments)
        return first(arguments)

    def first(arguments: list[Any]) -> list[Any]:
        nonlocal ready
        if held_bytes is not None and _bytes(arguments) > held_bytes:
            result = call(arguments)
            ready = call
            return result
        kept = list(arguments)
        try:
            result = call(arguments)
        except Exception as problem:
            # without its traceback, which holds the values of the call that failed
            cause = problem.with_traceback(None)
        else:
            ready = call
            return result
        result = eager(kept)
        ready = eager
        failed(cause)
        return result

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _bytes(arguments: list[Any]) -> int:
    return sum(a.nbytes for a in arguments if isinstance(a, torch.Tensor))
