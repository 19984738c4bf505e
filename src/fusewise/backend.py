"""The torch.compile backend: Dynamo's graph through AOTAutograd into our pipeline, and eager where that fails.

`fusewise` is the object that the entry point `torch_dynamo_backends` names. One backend object serves all compiles with
the same options: Dynamo recompiles for a backend that it has not seen.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException, exceptions_allowed_to_be_fallback
from torch._dynamo.utils import counters
from torch._guards import TracingContext
from torch.fx import GraphModule

from fusewise.capture.dynamo import as_in_eager
from fusewise.capture.partition import partition, torch_partition
from fusewise.capture.random import make_random_explicit
from fusewise.capture.reference import boxed_eager, has_collectives
from fusewise.config import Options, make_options
from fusewise.errors import UnknownName, UsageError
from fusewise.runtime.fallback import HELD_BYTES, guard_calls

Role: TypeAlias = Literal["forward", "backward", "inference"]
Compiled: TypeAlias = Callable[..., Any]


# The caller's own mistakes, and what tells Dynamo to trace again or to break the graph at an op.
_NOT_OURS: tuple[type[Exception], ...] = (UsageError, TorchDynamoException, *exceptions_allowed_to_be_fallback)


class CompileGraph(Protocol):
    """Compiles one FX graph of ATen ops; the result takes a list of arguments, clears it and returns a list."""

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any], options: Options, *, role: Role) -> Compiled: ...


class Backend:
    """A backend for `torch.compile`.

    Args:
        options: of every compile; None: those of `options=` of the call and of the environment.
        compile_graph: what compiles a graph; default: `fusewise.pipeline.compile_graph`.
    """

    def __init__(self, options: Options | None = None, compile_graph: CompileGraph | None = None) -> None:
        self.__name__ = "fusewise"
        self._options = options
        self._compile_graph = compile_graph
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def __call__(
        self,
        gm: GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Compiled:
        """What runs instead of Dynamo's graph `gm`.

        Raises:
            UsageError: an unknown option or mode.
        """
        if mode not in (None, "default"):
            raise UnknownName("mode", str(mode), ["default"])
        chosen = self._options or make_options(**dict(options or {}))

        def compiler(role: Role) -> Callable[[GraphModule, Sequence[Any]], Compiled]:
            return lambda graph, inputs: self._compile(graph, inputs, chosen, role)

        aot = aot_autograd(
            fw_compiler=compiler("forward"),
            bw_compiler=compiler("backward"),
            inference_compiler=compiler("inference"),
            partition_fn=lambda joint, inputs, **kw: self._partition(joint, inputs, chosen, kw),
            decompositions={},
            keep_inference_input_mutations=True,
        )
        as_in_eager(gm)
        try:
            compiled: Compiled = aot(gm, example_inputs)
        except _NOT_OURS:
            raise
        except Exception as cause:
            # torch's own tracing: some derivatives cannot be traced for all that eager runs
            if chosen.strict:
                raise
            self._fall_back("PyTorch cannot trace the graph, which runs as eager PyTorch", cause)
            return gm.forward
        return compiled

    def __deepcopy__(self, memo: dict[int, Any]) -> Backend:
        """Itself: a copy of a compiled module goes on with the same backend, as Dynamo tells them apart by identity."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self is _backends.get(self._options):
            return backend_for, (self._options,)
        return Backend, (self._options, self._compile_graph)

    def reset(self) -> None:
        """Forgets which warnings were given; `torch._dynamo.reset()` calls it."""
        with self._lock:
            self._warned.clear()

    def _compile(self, gm: GraphModule, inputs: Sequence[Any], options: Options, role: Role) -> Compiled:
        try:
            if role == "inference":
                make_random_explicit(gm)
            if role == "forward":
                _allow_backward_twice()
            compile_graph = self._compile_graph
            if compile_graph is None:
                from fusewise.pipeline import compile_graph as default  # it imports the whole compiler

                compile_graph = default
            compiled = compile_graph(gm, inputs, options, role=role)
        except _NOT_OURS:
            raise
        except Exception as cause:
            if options.strict:
                raise
            self._fall_back(f"the {role} graph runs as eager PyTorch", cause)
            return boxed_eager(gm)
        counters["fusewise"][f"{role} graphs"] += 1
        if options.strict or has_collectives(gm):
            # a collective that ran is not run again: the other processes would wait for it
            return compiled
        consequence = f"a call of the {role} graph failed and runs as eager PyTorch"
        return guard_calls(
            compiled,
            boxed_eager(gm),
            lambda cause: self._fall_back(consequence, cause),
            HELD_BYTES if role == "backward" else None,
        )

    def _partition(
        self, joint: GraphModule, inputs: Sequence[Any], options: Options, kw: dict[str, Any]
    ) -> tuple[GraphModule, GraphModule]:
        try:
            return partition(joint, inputs, policy=options.policy, **kw)
        except Exception as cause:
            if options.strict:
                raise
            self._fall_back("PyTorch's own partitioner chooses what backward keeps", cause)
            return torch_partition(joint, inputs, **kw)

    def _fall_back(self, consequence: str, cause: Exception) -> None:
        """Counts a failure, and warns about each cause once."""
        counters["fusewise"]["fallbacks"] += 1
        problem = str(cause).partition("\n")[0] or type(cause).__name__
        with self._lock:
            if problem in self._warned:
                return
            self._warned.add(problem)
        warnings.warn(f"fusewise: {consequence}: {type(cause).__name__}: {problem}", stacklevel=2)


def _allow_backward_twice() -> None:
    """Backward with `retain_graph=True` works as in eager.

    torch forbids it where a compiled backward may write into saved tensors ("donated buffers"); ours never does.
    """
    metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
    if metadata is not None:
        metadata.bw_donated_idxs = []


def backend_for(options: Options | None) -> Backend:
    """The one backend object for these options; None: `fusewise`, which takes those of each call."""
    with _lock:
        return _backends.setdefault(options, Backend(options))


fusewise = Backend()

_backends: dict[Options | None, Backend] = {None: fusewise}
_lock = threading.Lock()
