"""Other projects' kernels for programs of the catalogue, where they are installed.

Each is a case -> function of the program's own arguments. Its import stands inside: an ImportError says that the peer
is not there.
"""

from __future__ import annotations

from typing import Any

import torch

from fusewise.measure.program import Case, Function


def _liger(case: Case) -> Any:
    """Liger-Kernel's functions."""
    if torch.device(case.device).type != "cuda":
        raise ImportError("Liger-Kernel's kernels run on a GPU")
    from liger_kernel.transformers import functional

    return functional


def liger_layer_norm(case: Case) -> Function:
    liger = _liger(case)
    return lambda x, weight, bias: liger.liger_layer_norm(x, weight, bias, 1e-5)


def liger_rms_norm(case: Case) -> Function:
    liger = _liger(case)
    # Not in place: its backward would overwrite the gradient that it is given.
    return lambda x, weight: liger.liger_rms_norm(x, weight, 1e-6, in_place=False)


def liger_add_rms_norm(case: Case) -> Function:
    liger = _liger(case)

    def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[Any, Any]:
        normalised, total = liger.liger_fused_add_rms_norm(x, residual, weight, 1e-6, in_place=False)
        return total, normalised

    return add_rms_norm


def liger_softmax(case: Case) -> Function:
    return _liger(case).liger_softmax


def liger_cross_entropy(case: Case) -> Function:
    """Writes the gradient over the logits."""
    return _liger(case).liger_cross_entropy


def liger_swiglu(case: Case) -> Function:
    return _liger(case).liger_swiglu


def liger_geglu(case: Case) -> Function:
    return _liger(case).liger_geglu
