"""Kernels side by side in one launch on a CUDA GPU: the bits of each alone, and the count of the launches."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_leaves, tree_map_only

from fusewise import trace
from fusewise.backend import Backend
from fusewise.config import Options
from fusewise.measure.program import load_catalogue
from fusewise.plan.plan import Plan

pytestmark = pytest.mark.gpu


def unlike(xs: list[torch.Tensor], rows: torch.Tensor) -> object:
    return [torch.exp(x) * 2 for x in xs], rows - rows.amax(-1, keepdim=True), rows.amin(0)


def run(function: object, args: tuple[object, ...], options: Options, dynamic: bool | None) -> tuple[object, Plan]:
    """Results, arguments as they are afterwards included, and the plan."""
    torch._dynamo.reset()
    given = tree_map_only(torch.Tensor, torch.clone, args)
    result = torch.compile(function, backend=Backend(options), dynamic=dynamic)(*given)  # type: ignore[call-overload]
    return (result, given), trace.compiled()[-1].plan


@pytest.mark.parametrize("name", ["adam", "small_norms", "unlike"])
@pytest.mark.parametrize("shift", [0, 1], ids=["aligned", "general"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_the_bits_are_those_of_each_kernel_alone(name: str, shift: int, dynamic: bool) -> None:
    if name == "unlike":
        function, args = unlike, ([torch.randn(n, device="cuda") for n in (70000, 33, 5)], torch.randn(7, 300).cuda())
    else:
        program = load_catalogue()[name]
        function, args = program.make("tiny", program.dtypes[0], "cuda", "forward")  # type: ignore[assignment]
    if shift:
        args = tree_map_only(torch.Tensor, _moved, args)
    options = Options(strict=True, fission="never")
    together, plan = run(function, args, options, dynamic)
    taken = sum(d.taken for d in plan.decisions if d.kind != "launch")
    apart, plain = run(function, args, Options(strict=True, fuel=taken), dynamic)
    assert not plain.bundles and len(plan.kernels) == len(plain.kernels)
    if dynamic and name == "small_norms":  # rows of one unknown length are one kernel: nothing is left to bundle
        assert not plan.bundles and len(plan.kernels) == 1
    else:
        assert plan.bundles
    pairs = list(zip(tensors(together), tensors(apart), strict=True))
    assert pairs
    for one, other in pairs:
        assert torch.equal(one, other)


def tensors(value: object) -> list[torch.Tensor]:
    """Its tensors: an optimiser's step returns None, and is in what it did to its arguments."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """The same values at an address that is no multiple of 16 bytes."""
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    return room[1:].view(tensor.shape).copy_(tensor)


def test_one_launch_is_one_kernel_on_the_device() -> None:
    program = load_catalogue()["small_norms"]
    function, args = program.make("tiny", program.dtypes[0], "cuda", "forward")
    compiled = torch.compile(function, backend=Backend(Options(strict=True)))
    compiled(*args)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        compiled(*args)
        torch.cuda.synchronize()
    (plan,) = [one.plan for one in trace.compiled()[-1:]]
    names = [event.name for event in seen.events() if event.name.startswith("fused_")]
    assert names == [launch.name for launch in plan.launches] and len(names) == 1
