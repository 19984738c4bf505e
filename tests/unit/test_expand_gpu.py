"""The rows as they are written for a GPU, in the interpreter, beside eager's CUDA kernels."""

from __future__ import annotations

import pytest
import torch

from tests.unit import samples_shapes  # noqa: F401  (fills SAMPLES)
from tests.unit.rows import check_row
from tests.unit.samples import SAMPLES, Maker, Sample


def _reads_a_tensor(sample: Sample) -> bool:
    """False for a factory: it makes a CPU tensor unless it is told otherwise."""
    arguments = sample.make(Maker(sample.dtypes[0], seed=1))
    return any(isinstance(a, (torch.Tensor, list)) for a in arguments)


# The CPU's statistics stand in for the saved ones, in a dtype that the CUDA kernels do not take.
OTHER_STATISTICS = ("native_layer_norm_backward", "native_group_norm_backward", "batch_norm")


def _results(sample: Sample) -> int | None:
    """How many results of eager's CUDA kernel say anything; None: all."""
    if sample.name == "aten.nll_loss2d_forward.default" and sample.make(Maker(sample.dtypes[0], seed=1))[3] == 0:
        return 1  # without a reduction it never writes the total weight: what is there is what the memory held before
    return None


ROWS = sorted({s.name for s in SAMPLES if _reads_a_tensor(s)})


@pytest.mark.gpu
@pytest.mark.parametrize("name", ROWS)
def test_row_equals_eager_on_a_gpu(name: str) -> None:
    failures: list[str] = []
    for sample in (s for s in SAMPLES if s.name == name and _reads_a_tensor(s)):
        for dtype in sample.dtypes:
            if dtype.itemsize == 2 and any(part in name for part in OTHER_STATISTICS):
                continue
            try:
                check_row(sample, dtype, "cuda", _results(sample))
            except AssertionError as problem:
                failures.append(f"{dtype}: {str(problem).splitlines()[0]}")
            except (RuntimeError, NotImplementedError) as problem:
                if "not implemented for" not in str(problem):
                    failures.append(f"{dtype}: {problem!r}")
    assert not failures, "\n".join(failures)
