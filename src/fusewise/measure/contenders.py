"""The ways to run a program that the bench compares: eager, torch.compile in several modes, Fusewise, peers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor import select_algorithm
from torch._inductor.utils import fresh_cache

from fusewise import config
from fusewise.errors import UnknownName
from fusewise.measure.choices import ALTERNATIVES
from fusewise.measure.program import Case, Function, Program
from fusewise.measure.traffic import KernelCounter, eager_kernels

# Inductor's fusion switches, turned on for `inductor-all`; those that the installed torch lacks are left out.
FUSION_SWITCHES: dict[str, Any] = {
    "triton.mix_order_reduction": True,
    "combo_kernels": True,
    "benchmark_combo_kernel": True,
    "benchmark_fusion": True,
    "coordinate_descent_tuning": True,
}


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run a program.

    Attributes:
        name: its column in the results.
        compile: function or module -> what is called instead; may raise anything, which is recorded.
        compiles: False for one that has nothing to compile, and so no compile time.
        owns_args: True for one that gets arguments of its own, since it may overwrite them.
        inductor: True where the kernels of a CPU call are counted in Inductor's generated wrappers.
        count_cpu_kernels: counts the kernels of a call on a CPU where `inductor` does not; None: not counted.
    """

    name: str
    compile: Callable[[Function], Function]
    compiles: bool = True
    owns_args: bool = False
    inductor: bool = False
    count_cpu_kernels: KernelCounter | None = None


def _as_it_is(function: Function) -> Function:
    return function


# Sizes are static for every contender: all entries share a line of source, by which Dynamo would otherwise take the
# sizes of different programs for changing sizes of one.


def _compile_inductor(function: Function) -> Function:
    return torch.compile(function, dynamic=False)


def _compile_inductor_max(function: Function) -> Function:
    return torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)


def _compile_inductor_all(function: Function) -> Function:
    return torch.compile(function, options=available_switches(), dynamic=False)


def _compile_fusewise(function: Function) -> Function:
    from fusewise.backend import fusewise  # it imports the whole compiler, which other contenders do not need

    return torch.compile(function, backend=fusewise, dynamic=False)


def _compile_with(options: Mapping[str, Any]) -> Callable[[Function], Function]:
    def compile_function(function: Function) -> Function:
        from fusewise.backend import backend_for
        from fusewise.config import make_options

        return torch.compile(function, backend=backend_for(make_options(**options)), dynamic=False)

    return compile_function


def available_switches() -> dict[str, Any]:
    """The switches of `inductor-all` that this torch has."""
    known = inductor_config.get_config_copy()
    return {name: value for name, value in FUSION_SWITCHES.items() if name in known}


CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender("eager", _as_it_is, compiles=False, count_cpu_kernels=eager_kernels),
        Contender("inductor", _compile_inductor, inductor=True),
        Contender("inductor-max", _compile_inductor_max, inductor=True),
        Contender("inductor-all", _compile_inductor_all, inductor=True),
        Contender("fusewise", _compile_fusewise),
        *(Contender(name, _compile_with(options)) for name, options in ALTERNATIVES.items()),
    )
}


def contenders_named(
    names: Iterable[str], count_fusewise_kernels: KernelCounter | None = None
) -> tuple[Contender, ...]:
    """The contenders of these names, each once; raises `UnknownName` with the nearest ones.

    Args:
        count_fusewise_kernels: counts the kernels that Fusewise launches in a call on a CPU.
    """
    chosen = []
    for name in dict.fromkeys(names):
        if name not in CONTENDERS:
            raise UnknownName("contender", name, CONTENDERS)
        contender = CONTENDERS[name]
        if name.startswith("fusewise"):
            contender = replace(contender, count_cpu_kernels=count_fusewise_kernels)
        chosen.append(contender)
    return tuple(chosen)


def peers_of(program: Program, case: Case) -> tuple[Contender, ...]:
    """The program's named peers that are installed: other implementations, which take the function's place."""
    found = []
    for name, build in program.peers.items():
        try:
            function = build(case)
        except ImportError:
            continue
        found.append(Contender(name, partial(_instead, function), compiles=False, owns_args=True))
    return tuple(found)


def _instead(peer: Function, _function: Function) -> Function:
    return peer


def own_entry(function: Function) -> Function:
    """A function that calls `function` and has a code object of its own.

    Dynamo keeps what it compiled with the code object: contenders that shared one would look through each other's
    entries at every call, and count towards one limit of recompilations.
    """

    def entry(*args: Any) -> Any:
        return function(*args)

    code = entry.__code__.replace()
    return FunctionType(code, entry.__globals__, entry.__name__, entry.__defaults__, entry.__closure__)


@contextmanager
def cold_caches(contender: Contender, device: str) -> Iterator[None]:
    """Empty kernel caches inside the block, so that a compile there is a cold one.

    Inductor hashes its C++ headers once a process, and clearing its caches makes it do so again; the parsed headers of
    Fusewise's CPU kernels are in the cache too. A trivial compile pays for that first.
    """
    select_algorithm.PRINT_AUTOTUNE = False  # pages of timings, in between a progress bar
    before = config.CACHE_DIR.get()
    with tempfile.TemporaryDirectory(prefix="fusewise-bench-", ignore_cleanup_errors=True) as folder:
        os.environ[config.CACHE_DIR.name] = folder
        try:
            with fresh_cache(dir=folder):
                if contender.inductor or device == "cpu":
                    warm_up(contender, device)
                yield
        finally:
            if before:
                os.environ[config.CACHE_DIR.name] = before
            else:
                del os.environ[config.CACHE_DIR.name]


def warm_up(contender: Contender, device: str) -> None:
    """Compile and run x + 1: what a process pays once (imports, worker processes, headers) is paid then.

    A contender that cannot do this is not stopped here: it fails in each row as well, and is recorded there.
    """

    def add_one(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with torch.no_grad(), suppress(Exception):
        contender.compile(own_entry(add_one))(torch.zeros(64, device=device))
