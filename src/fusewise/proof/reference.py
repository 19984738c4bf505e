"""What a fused result is compared with: the captured graphs run op by op as eager PyTorch, and beside it in fp64.

The reference goes through Dynamo and AOTAutograd as Fusewise does, with the same rewriting of random ops: both draw the
same masks. Each tensor that a graph returns has a shadow in fp64; a later graph that takes the tensor computes on its
shadow. So the fp64 result of a backward graph rests on the fp64 forward, not on a rounded one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch.fx import GraphModule, Node

from fusewise.capture.reference import run_eagerly, run_in_float64, with_own, written_inputs
from fusewise.config import Options
from fusewise.proof.compare import same_bits

Role = Literal["forward", "backward", "inference"]
_OURS = ("fusewise::seed", "fusewise::keep", "fusewise::uniform")


class Shadows:
    """The fp64 values of tensors, found by the memory that they lie in; `clear` before other inputs."""

    def __init__(self) -> None:
        # the tensors themselves too: their memory must not be given to another one
        self._wide: dict[tuple[Any, ...], tuple[torch.Tensor, torch.Tensor]] = {}

    def put(self, tensor: torch.Tensor, wide: torch.Tensor) -> None:
        """Notes the fp64 value of a tensor."""
        self._wide[_key(tensor)] = tensor.detach(), wide.detach()

    def get(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The fp64 value of a tensor that a graph returned, None for another."""
        found = self._wide.get(_key(tensor)) if tensor.numel() else None
        return None if found is None else found[1]

    def get_copied(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """As `get`, also for a copy of what a graph returned, such as an argument that is updated at the end."""
        found = self.get(tensor)
        if found is not None or not tensor.is_floating_point() or not tensor.numel():
            return found
        tensor = tensor.detach().contiguous()
        for known, wide in self._wide.values():
            same_kind = known.shape == tensor.shape and known.dtype == tensor.dtype and known.device == tensor.device
            if same_kind and bool(same_bits(known.contiguous(), tensor).all()):
                return wide
        return None

    def clear(self) -> None:
        """Forgets everything."""
        self._wide.clear()


def _key(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device


class Reference:
    """Compiles a graph to its own ops; made for `Backend(compile_graph=...)`.

    Attributes:
        shadows: fp64 values of what the graphs returned.
        random: whether a graph draws random numbers.
    """

    def __init__(self) -> None:
        self.shadows = Shadows()
        self.random = False
        self.foreign_random = False

    def __call__(
        self, gm: GraphModule, example_inputs: Sequence[Any], options: Options, *, role: Role
    ) -> Callable[[list[Any]], list[Any]]:
        """The graph as a function that takes a list, empties it, and returns a list."""
        drawn = random_ops(gm)
        self.random |= bool(drawn)
        # fp64 kernels of PyTorch's own random ops draw other numbers than those of the type asked for
        wide = not any(name not in _OURS for name in drawn)
        self.foreign_random |= not wide

        def run(arguments: list[Any]) -> list[Any]:
            inputs = list(arguments)
            arguments.clear()
            return self._run(gm, inputs, wide)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _run(self, gm: GraphModule, inputs: list[Any], wide: bool) -> list[Any]:
        shadows = with_own(gm, [self._shadow(x) for x in inputs]) if wide else []
        with same_draws() as draw_again:
            results = run_eagerly(gm, inputs)
            if wide:
                draw_again()
                exact = run_in_float64(gm, shadows)
                ends = [*results, *(inputs[i] for i in written_inputs(gm))]
                for result, value in zip(ends, exact, strict=True):
                    if isinstance(result, torch.Tensor) and result.is_floating_point():
                        self.shadows.put(result, value)
        return results

    def _shadow(self, value: Any) -> Any:
        found = self.shadows.get(value) if isinstance(value, torch.Tensor) else None
        return value if found is None else found


def random_ops(gm: GraphModule) -> set[str]:
    """Names of the graph's ops that draw from PyTorch's generator."""
    return {node.target._schema.name for node in gm.graph.nodes if _draws(node)}


def _draws(node: Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    for number, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":  # attention draws only where it drops
            given = (
                node.args[number] if number < len(node.args) else node.kwargs.get("dropout_p", argument.default_value)
            )
            return bool(given != 0)
    return True


@contextmanager
def same_draws() -> Iterator[Callable[[], None]]:
    """Gives out a function that sets PyTorch's generators back, so that a second run draws the first one's numbers.

    After the block they stand where the first run left them.
    """
    before = _generator_states()
    after: list[Any] = []

    def again() -> None:
        if not after:
            after.extend(_generator_states())
        _set_generators(before)

    yield again
    if after:
        _set_generators(after)


def _generator_states() -> list[Any]:
    cuda = torch.cuda.is_available()
    return [torch.get_rng_state(), torch.cuda.get_rng_state_all() if cuda else []]


def _set_generators(states: list[Any]) -> None:
    torch.set_rng_state(states[0])
    if states[1]:
        torch.cuda.set_rng_state_all(states[1])
