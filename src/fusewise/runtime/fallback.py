"""Calls of a compiled graph, made so that they can fail: the arguments are kept, and eager runs instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

HELD_BYTES = 256 << 20
"""Saved tensors that a backward keeps to its end at most: more might take memory that the step needs."""

Boxed = Callable[[list[Any]], list[Any]]
"""Takes the arguments in a list, which it empties."""

_OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)


def guard_calls(call: Boxed, eager: Boxed, failed: Callable[[Exception], None], held_bytes: int | None = None) -> Boxed:
    """`call`, but where a call fails and `eager` does not, that one's result.

    A call that has begun to write to its arguments is not made again, since eager would start from what it left.
    Where `eager` fails too the program or its data are at fault, and eager's own error is what the caller sees. After a
    failure every call is eager's, but memory that is out once may be there the next time.

    Args:
        call: the compiled graph.
        eager: the same graph as PyTorch runs it.
        failed: told what went wrong.
        held_bytes: the most that the arguments may take; above that they are not kept, and a failure is an error.
    """
    broken = False

    def run(arguments: list[Any]) -> list[Any]:
        nonlocal broken
        if broken:
            return eager(arguments)
        if held_bytes is not None and _bytes(arguments) > held_bytes:
            return call(arguments)
        kept = list(arguments)
        try:
            return call(arguments)
        except Exception as problem:
            if getattr(problem, "fusewise_has_written", False):
                raise
            # without its traceback, which holds the values of the call that failed
            cause = problem.with_traceback(None)
        result = eager(kept)
        broken = not isinstance(cause, _OUT_OF_MEMORY)
        failed(cause)
        return result

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _bytes(arguments: list[Any]) -> int:
    return sum(a.nbytes for a in arguments if isinstance(a, torch.Tensor))
