"""Runs rows of the expansion table in the interpreter beside eager's own ops."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_flatten, tree_map

from fusewise.errors import Unsupported
from fusewise.ir import dtypes
from fusewise.ir.builder import Builder
from fusewise.ir.dtypes import DType
from fusewise.ir.expand import TABLE, Context, TensorSpec
from fusewise.ir.graph import Graph
from fusewise.ir.interp import run
from fusewise.ir.verifier import check
from tests.unit.samples import Maker, Sample

TO_IR: dict[torch.dtype, DType] = {
    torch.float64: dtypes.F64,
    torch.float32: dtypes.F32,
    torch.float16: dtypes.F16,
    torch.bfloat16: dtypes.BF16,
    torch.int64: dtypes.I64,
    torch.int32: dtypes.I32,
    torch.int16: dtypes.I16,
    torch.int8: dtypes.I8,
    torch.uint8: dtypes.U8,
    torch.bool: dtypes.BOOL,
}
TO_TORCH = {ir: dtype for dtype, ir in TO_IR.items()}


def overload(name: str) -> Any:
    """The torch op called `aten.add.Tensor`."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The array that the interpreter takes (bf16 as f32)."""
    plain = tensor.detach().cpu()
    return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()


def to_torch(array: np.ndarray[Any, Any], dtype: DType) -> torch.Tensor:
    return torch.from_numpy(np.array(array, copy=True)).to(TO_TORCH[dtype])


def with_defaults(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword-only arguments in schema order, defaults filled in."""
    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    for number, argument in enumerate(op._schema.arguments):
        if number < len(args):
            value = args[number]
        else:
            value = kwargs.get(argument.name, argument.default_value)
        if argument.kwarg_only:
            keyword[argument.name] = value
        else:
            positional.append(value)
    return positional, keyword


def promoted(op: Any, args: Sequence[Any], outs: Sequence[Any]) -> DType:
    """What type promotion makes of the tensor and number operands."""
    kinds = [str(a.real_type) for a in op._schema.arguments]
    operands: list[Any] = []
    for value, kind in zip(args, kinds, strict=False):
        if "Tensor" in kind or "number" in kind:
            leaves = tree_flatten(value)[0]
            operands += [v for v in leaves if isinstance(v, (torch.Tensor, bool, int, float))]
    if not any(isinstance(o, torch.Tensor) for o in operands):
        return TO_IR[outs[0].dtype]
    return TO_IR[elementwise_dtypes(*operands, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH)[1]]


def graph_of(
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    device: str = "cpu",
    policy: str = "balanced",
) -> tuple[Graph, list[torch.Tensor]]:
    """The graph of one call and the tensors that enter it."""
    op = overload(name)
    positional, keyword = with_defaults(op, args, kwargs or {})
    with FakeTensorMode(allow_non_fake_inputs=True):

        def faked(x: Any) -> Any:
            if not isinstance(x, torch.Tensor):
                return x
            return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)

        fake = tree_map(faked, (positional, keyword))
        result = op(*fake[0], **fake[1])
    outs = list(result) if isinstance(result, (tuple, list)) else [result]
    specs = tuple(
        TensorSpec(tuple(map(int, o.shape)), TO_IR[o.dtype], tuple(map(int, o.stride())))
        if isinstance(o, torch.Tensor)
        else None
        for o in outs
    )
    b = Builder(device)
    tensors: list[torch.Tensor] = []

    def lift(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            tensors.append(x)
            return b.input(tuple(x.shape), TO_IR[x.dtype], tuple(x.stride()))
        return TO_IR.get(x) if isinstance(x, torch.dtype) else x

    values, named = tree_map(lift, (positional, keyword))
    context = Context(b, specs, promoted(op, positional, outs), device, policy)
    found = TABLE[name].expand(context, *values, **named)
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    assert len(results) == len(specs), f"{name}: {len(results)} results, PyTorch gives {len(specs)}"
    for value, spec in zip(results, specs, strict=True):
        assert (value is None) == (spec is None)
        if value is not None and spec is not None:
            assert (value.dtype, value.shape) == (spec.dtype, spec.shape), name
    graph = b.finish([v for v in results if v is not None])
    check(graph)
    return graph, tensors


def ours_and_eager(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, device: str = "cpu"
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each result: from the interpreter, and from eager on the device that the arguments are on."""
    graph, tensors = graph_of(name, args, kwargs, device)
    arrays = run(graph, [to_numpy(t) for t in tensors])
    result = overload(name)(*args, **(kwargs or {}))
    eager = [o.cpu() for o in (result if isinstance(result, (tuple, list)) else [result]) if o is not None]
    ours = [to_torch(a, graph[n].dtype) for a, n in zip(arrays, graph.outputs, strict=True)]
    return list(zip(ours, eager, strict=True))


def bits_differ(ours: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """Where two tensors differ: any bit, NaNs alike."""
    if not ours.dtype.is_floating_point:
        return ours != eager
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[ours.element_size()]
    both_nan = ours.isnan() & eager.isnan()
    return (ours.contiguous().view(kind) != eager.contiguous().view(kind)) & ~both_nan


def ulps(ours: torch.Tensor, eager: torch.Tensor) -> int:
    """The greatest distance in units in the last place; infinities and NaNs must agree."""
    if not ours.dtype.is_floating_point:
        return 0 if torch.equal(ours, eager) else 2**63 - 1
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[ours.element_size()]

    def ordered(x: torch.Tensor) -> torch.Tensor:
        bits = x.contiguous().view(kind).to(torch.int64)
        low = torch.iinfo(kind).min
        return torch.where(bits < 0, low - bits, bits)

    odd = ~(ours.isfinite() & eager.isfinite())
    if bool((bits_differ(ours, eager) & odd).any()):
        return 2**63 - 1
    gap = (ordered(ours) - ordered(eager)).abs()
    return int(torch.where(odd, 0, gap).max()) if gap.numel() else 0


def is_exact(sample: Sample, args: Sequence[Any], device: str) -> bool:
    """True where the conservative policy would take this row for this call."""
    if device == "cuda" and (TABLE[sample.name].exactness == "cuda" or "rsqrt" in sample.name):
        return False  # by functions of CUDA's library, which the interpreter does not have
    if not TABLE[sample.name].is_exact_on(device):
        return False
    try:
        graph_of(sample.name, args, sample.kwargs, device, "conservative")
    except Unsupported:
        return False
    return True


def check_row(sample: Sample, dtype: torch.dtype, device: str, results: int | None = None) -> None:
    """Fails where the interpreter and eager on `device` differ: by a bit for an exact row, else by some roundings.

    `results`: how many are compared, from the first on; None: all.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = list(sample.make(Maker(dtype, seed=1)))
        args = tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, made)
        pairs = ours_and_eager(sample.name, args, sample.kwargs, device)
        exact = is_exact(sample, args, device)
    for which, (ours, eager) in enumerate(pairs[:results]):
        assert ours.shape == eager.shape
        if which == 0:
            assert ours.dtype == eager.dtype
        else:
            eager = eager.to(ours.dtype)  # fake and real CPU kernels differ in the dtype of some statistics
        if exact:
            differ = bits_differ(ours, eager)
            assert not differ.any(), f"result {which}: {ours[differ][:4]} is not {eager[differ][:4]}"
        else:
            _check_near(sample, args, which, ours, eager)


def _check_near(sample: Sample, args: Sequence[Any], which: int, ours: torch.Tensor, eager: torch.Tensor) -> None:
    """Within a few roundings of the result computed in f64, or nearer to it than 1.5 times eager.

    `args`: on the device, since some results beside the first have another shape elsewhere.
    """
    if not ours.dtype.is_floating_point:
        assert torch.equal(ours, eager)
        return
    reference = eager.double()
    if ours.dtype != torch.float64:

        def wider(x: Any) -> Any:
            if isinstance(x, torch.Tensor) and x.dtype.is_floating_point:
                return x.double()
            return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x

        try:
            result = overload(sample.name)(*tree_map(wider, args), **tree_map(wider, dict(sample.kwargs)))
            outs = [o for o in (result if isinstance(result, (tuple, list)) else [result]) if o is not None]
            reference = outs[which].cpu().double()
        except RuntimeError:
            pass  # an op without an f64 kernel: eager is its own reference
    odd = ~(eager.isfinite() & ours.isfinite())
    wrong = bits_differ(ours, eager) & odd
    # eager may overflow too early (sinh), and at the edge of the range one rounding decides
    limit = torch.finfo(ours.dtype).max
    early = ours.isfinite() & ((ours.double() - reference).abs() < 1e-2 * reference.abs())
    edge = (reference.abs() > 0.99 * limit) | early
    assert not (wrong & ~edge).any(), f"result {which}: {ours[wrong][:4]} beside {eager[wrong][:4]}"
    eps = torch.finfo(ours.dtype).eps
    error = (ours.double() - reference).abs()
    allowed = 1.5 * (eager.double() - reference).abs() + 2 * sample.slack * eps * reference.abs().clamp(min=1)
    far = (error > allowed) & ~odd
    assert not far.any(), f"result {which}: {ours[far][:4]} beside {eager[far][:4]}, in f64 {reference[far][:4]}"
