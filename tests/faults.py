"""A fault that only a fusion shows: kernels that hold both ops of a pair compute one of them wrongly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fusewise import pipeline
from fusewise.lower.kernel import Compute, Kernel


def plant(monkeypatch: pytest.MonkeyPatch, spoiled: str, beside: str, instead: str) -> None:
    """Lowers `spoiled` as `instead` in every kernel that also holds `beside`."""
    true = pipeline.build_kernel

    def build_kernel(*args: Any, **kwargs: Any) -> Kernel:
        kernel = true(*args, **kwargs)
        if beside not in {i.op for i in kernel.body if isinstance(i, Compute)}:
            return kernel
        body = tuple(replace(i, op=instead) if isinstance(i, Compute) and i.op == spoiled else i for i in kernel.body)
        return replace(kernel, body=body)

    monkeypatch.setattr(pipeline, "build_kernel", build_kernel)
