"""The functions behind `fusewise.compile`, `fusewise.explain` and `fusewise.verify`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, cast, get_args, overload

import torch

from fusewise.backend import backend_for
from fusewise.config import Policy, make_options
from fusewise.errors import UnknownName
from fusewise.explanation import default_device, stages_of
from fusewise.explanation import explain as explain_function
from fusewise.proof.run import verify as verify_function
from fusewise.proof.unfused import verify_unfused
from fusewise.report.documents import Explanation, Verification
from fusewise.report.proofs import UnfusedProof
from fusewise.stages import keep

Function = TypeVar("Function", bound=Callable[..., Any])
Against = Literal["eager", "unfused"]


def compile(function: Function, policy: Policy = "balanced", dynamic: bool | None = None, **options: Any) -> Function:
    """The function or module, run through Fusewise: forward, and backward where gradients are asked for.

    The same as `torch.compile(function, backend="fusewise", options={"policy": policy, ...})`.

    Args:
        function: a function or an `nn.Module`; a module keeps its parameters, buffers and state.
        policy: how far a fusion may go from eager's bits: `conservative`, `balanced` or `aggressive`.
        dynamic: as in `torch.compile`: True compiles once for all sizes, False once for each; None: symbolic after a
            size has changed.
        options: further fields of `fusewise.config.Options`.

    Raises:
        UnknownName: an option or policy that does not exist.
    """
    backend = backend_for(make_options(policy=policy, **options))
    return cast(Function, torch.compile(function, backend=backend, dynamic=dynamic))


def explain(
    function: Callable[..., Any],
    *args: Any,
    device: str | Sequence[str] | None = None,
    policy: Policy = "balanced",
    why: tuple[str, str] | None = None,
    **kwargs: Any,
) -> Explanation:
    """What Fusewise makes of one call of a function, and of its backward: kernels, bytes, floors, refused fusions.

    Nothing is run. `print` shows it; `to_json` and `to_html` give it to others; `fusewise show` prints the kernels.

    Args:
        args, kwargs: inputs of the function.
        device: one or several of `cpu`, `cuda` and names of GPUs, which need not be here (`h200`); None: the device
            that the inputs are on.
        why: two kernels, ATen ops (`gelu`) or lines (`12`); the answers are in the result's `why`.

    Raises:
        UnknownName: no such device or policy, or nothing of the name that `why` asks about.
        UsageError: the function cannot be traced on these inputs.
    """
    chosen = [device] if isinstance(device, str) else list(device or [default_device((args, kwargs))])
    found = explain_function(function, args, kwargs, chosen, make_options(policy=policy), why=why)
    keep(f"fusewise.explain({found.explanation.target})", found.stages)
    return found.explanation


@overload
def verify(
    function: Callable[..., Any],
    *args: Any,
    policy: Policy = "balanced",
    seed: int = 0,
    hard: bool = True,
    against: Literal["eager"] = "eager",
    **kwargs: Any,
) -> Verification: ...


@overload
def verify(
    function: Callable[..., Any],
    *args: Any,
    against: Literal["unfused"],
    policy: Policy = "balanced",
    seed: int = 0,
    hard: bool = True,
    **kwargs: Any,
) -> UnfusedProof: ...


def verify(
    function: Callable[..., Any],
    *args: Any,
    policy: Policy = "balanced",
    seed: int = 0,
    hard: bool = True,
    against: Against = "eager",
    **kwargs: Any,
) -> Verification | UnfusedProof:
    """Compares what Fusewise makes of a function with eager PyTorch and with fp64, and gives the proof.

    Outputs, changed arguments, and gradients where they are on; with the inputs given, with random ones and with hard
    ones (NaN, infinities, -0, large, tiny and subnormal numbers); fused results lie in poisoned memory.
    `fusewise.proof.compare` states the rule. The result is true where everything is within it.

    Args:
        args, kwargs: inputs of the function.
        policy: whose promise is checked.
        seed: of the inputs and of random ops.
        hard: also use the hard inputs.
        against: `eager`; or `unfused`: each kernel against its ops run one by one, bit for bit, which proves the
            fusions themselves (`fusewise.proof.unfused`).

    Raises:
        UnknownName: no such reference or policy.
        UsageError: eager PyTorch itself fails on these inputs.
    """
    options = make_options(policy=policy)
    if against not in get_args(Against):
        raise UnknownName("reference", against, get_args(Against))
    if against == "unfused":
        proof, compiled = verify_unfused(function, args, kwargs, options, seed=seed, hard=hard)
        keep(f"fusewise.verify({proof.target})", stages_of(compiled, options))
        return proof
    found, fused = verify_function(function, args, kwargs, options, seed=seed, hard=hard)
    keep(f"fusewise.verify({found.target})", stages_of(fused.compiled, options))
    return found
