"""Failure is safe: each step fails by injection, and the call still returns eager's result, with one warning."""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import DynamicOutputShapeException

from fusewise import backend, trace
from fusewise.backend import Backend
from fusewise.codegen.triton import module as triton_module
from fusewise.config import make_options
from fusewise.errors import LaunchFailed, OutOfMemory
from fusewise.lower.kernel import Check, TritonSchedule
from fusewise.runtime import cache, cpp
from fusewise.runtime.fallback import guard_calls

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of the test's own, and no memory of warnings given before."""
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    counters.clear()
    cache._warn_once.cache_clear()
    monkeypatch.setattr(cache, "_private_folder", cache._PrivateFolder())
    torch.manual_seed(0)
    yield


def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(F.gelu(x @ w) + 1, (8,)) * 2


def train(fn: Callable[..., torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    out = fn(x, w)
    out.square().sum().backward()
    assert x.grad is not None and w.grad is not None
    return [out.detach(), x.grad, w.grad]


def check(backend: Backend, cause: str, calls: int = 3) -> None:
    """A model trains as in eager; forward and backward warn once each at most, and of the cause."""
    compiled = torch.compile(model, backend=backend)
    x, w = torch.randn(5, 8), torch.randn(8, 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(calls):
            for ours, eager in zip(train(compiled, x, w), train(model, x, w), strict=True):
                torch.testing.assert_close(ours, eager)
    ours = [str(w.message) for w in caught if "fusewise" in str(w.message)]
    assert 1 <= len(ours) <= 2 and all(cause in w for w in ours), ours
    assert counters["fusewise"]["fallbacks"] >= 1


def raising(problem: Exception) -> Callable[..., Any]:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise problem

    return broken


STEPS = {
    "capture": "fusewise.pipeline.import_graph",
    "plan": "fusewise.pipeline.make_plan",
    "lower": "fusewise.pipeline.build_kernel",
    "codegen": "fusewise.codegen.cpp.unit",
    "compile": "fusewise.runtime.cpp.compile_unit",
    "load": "fusewise.runtime.cpp.LoadedLibrary.function",
    "program": "fusewise.pipeline.build_program",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_is_eager_with_one_warning(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEPS[step], raising(RuntimeError(f"no {step} today")))
    check(Backend(make_options()), f"RuntimeError: no {step} today")
    assert counters["fusewise"]["fallbacks"] == 2, "forward and backward"


@pytest.mark.parametrize("step", STEPS)
def test_strict_raises(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEPS[step], raising(RuntimeError(f"no {step} today")))
    with pytest.raises(Exception, match=f"no {step} today"):
        torch.compile(model, backend=Backend(make_options(strict=True)))(torch.randn(5, 8), torch.randn(8, 8))


@pytest.mark.parametrize(
    "problem", [LaunchFailed("no launch today"), MemoryError("no launch today")], ids=["launch", "memory"]
)
def test_a_launch_that_fails_is_eager(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp.LoadedLibrary, "function", lambda self, name: raising(problem))
    check(Backend(make_options()), "graph failed and runs as eager PyTorch")


def test_a_kernel_that_finds_no_memory_is_eager_and_never_a_wrong_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp.LoadedLibrary, "function", lambda self, name: lambda *arguments: -1)
    check(Backend(make_options()), "found no memory")
    torch._dynamo.reset()
    with pytest.raises(LaunchFailed, match="found no memory"):
        torch.compile(model, backend=Backend(make_options(strict=True)))(torch.randn(5, 8), torch.randn(8, 8))


def test_a_gradient_that_torch_cannot_trace_is_eager() -> None:
    def loss(a: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(a * 2, torch.ones(0, 3))  # torch's decomposition divides by the number of elements

    compiled = torch.compile(loss, backend=Backend(make_options()))
    ours, eager = (torch.zeros(0, 3, requires_grad=True) for _ in range(2))
    with pytest.warns(UserWarning, match="cannot trace the graph.*ZeroDivisionError"):
        compiled(ours).backward()
    loss(eager).backward()
    assert ours.grad is not None and eager.grad is not None and ours.grad.shape == eager.grad.shape
    assert counters["fusewise"]["fallbacks"] == 1
    torch._dynamo.reset()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        torch.compile(loss, backend=Backend(make_options(strict=True)))(ours)


def test_an_op_that_breaks_the_graph_while_torch_traces_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an error is Dynamo's to handle: it breaks the graph there, and the rest is compiled."""
    aot = backend.aot_autograd

    def refusing(**kw: Any) -> Callable[..., Any]:
        def compiler(gm: torch.fx.GraphModule, inputs: Any) -> Any:
            if any("sort" in str(node.target) for node in gm.graph.nodes):
                raise DynamicOutputShapeException(torch.ops.aten.nonzero.default)
            return aot(**kw)(gm, inputs)

        return compiler

    monkeypatch.setattr(backend, "aot_autograd", refusing)
    x = torch.randn(6)
    compiled = torch.compile(lambda a: (a.tanh() * 2).sort()[0] + 1, backend=Backend(make_options()))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.testing.assert_close(compiled(x), (x.tanh() * 2).sort()[0] + 1)
    assert counters["fusewise"]["fallbacks"] == 0


def test_an_error_of_the_users_own_is_eagers_error() -> None:
    compiled = torch.compile(lambda a, i: a[i] * 2, backend=Backend(make_options()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 0 with size 4"):
            compiled(torch.randn(4), torch.tensor([1, 9]))
        torch.testing.assert_close(compiled(torch.ones(4), torch.tensor([1, 3])), torch.full((2,), 2.0))
    assert counters["fusewise"]["fallbacks"] == 0


class Flaky:
    """Doubles its arguments, but for the calls that fail."""

    def __init__(self, *problems: Exception | None) -> None:
        self.problems = list(problems)
        self.calls = 0

    def __call__(self, arguments: list[Any]) -> list[Any]:
        taken = list(arguments)
        arguments.clear()
        self.calls += 1
        problem = self.problems.pop(0) if self.problems else None
        if problem is not None:
            raise problem
        return [a * 2 for a in taken]


def test_the_guard_of_calls() -> None:
    told: list[Exception] = []
    ours, eager = Flaky(None, RuntimeError("broken")), Flaky()
    run = guard_calls(ours, eager, told.append)
    assert [run([1, 2]), run([3]), run([4])] == [[2, 4], [6], [8]]
    assert (ours.calls, eager.calls, len(told)) == (2, 2, 1), "broken once, eager from then on"


@pytest.mark.parametrize("problem", [MemoryError("full"), torch.OutOfMemoryError("full"), OutOfMemory("full")])
def test_memory_that_is_out_may_be_there_the_next_time(problem: Exception) -> None:
    told: list[Exception] = []
    ours, eager = Flaky(None, problem), Flaky()
    run = guard_calls(ours, eager, told.append)
    assert [run([1]), run([2]), run([3])] == [[2], [4], [6]]
    assert (ours.calls, eager.calls, len(told)) == (3, 1, 1)


def test_where_eager_fails_too_its_error_is_the_answer() -> None:
    told: list[Exception] = []
    run = guard_calls(Flaky(RuntimeError("ours")), Flaky(IndexError("eager's")), told.append)
    with pytest.raises(IndexError, match="eager's"):
        run([1])
    assert run([1]) == [2] and told == []


def test_arguments_too_large_to_keep_are_not_kept() -> None:
    run = guard_calls(Flaky(RuntimeError("ours")), Flaky(), lambda _: None, held_bytes=4)
    with pytest.raises(RuntimeError, match="ours"):
        run([torch.zeros(2)])


def test_a_larger_call_that_finds_no_memory_is_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    function = cpp.LoadedLibrary.function

    def small_only(self: cpp.LoadedLibrary, name: str) -> Callable[..., int]:
        kernel = function(self, name)
        return lambda *arguments: -1 if 64 in arguments else kernel(*arguments)

    monkeypatch.setattr(cpp.LoadedLibrary, "function", small_only)
    compiled = torch.compile(model, backend=Backend(make_options()), dynamic=True)
    w = torch.randn(8, 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows in (5, 64, 7, 64):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x, w), model(x, w))
    assert len([c for c in caught if "found no memory" in str(c.message)]) == 1
    assert counters["fusewise"]["fallbacks"] == 2


# ---- the machine


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    check(Backend(make_options()), "CompilerMissing: no C++ compiler")


def test_a_compiler_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "g++"
    script.write_text('#!/bin/sh\ncase "$*" in *--version*) echo fake 1.0;; *) kill -9 $$;; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    check(Backend(make_options()), "was killed by signal 9")


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("FUSEWISE_CACHE_DIR", str(blocked / "cache"))
    still_compiles("cannot be used")


@pytest.mark.parametrize("home", ["/proc/1", None], ids=["read-only", "none"])
def test_a_home_that_cannot_be_written(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FUSEWISE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    else:
        monkeypatch.setattr(Path, "home", raising(RuntimeError("Could not determine home directory.")))
    still_compiles("cannot be used")


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.environ["FUSEWISE_CACHE_DIR"]
    replace = os.replace

    def full(source: Any, target: Any) -> None:
        if str(target).startswith(folder):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    still_compiles("No space left")


def still_compiles(cause: str) -> None:
    """Kernels go elsewhere: one warning, no fallback."""
    compiled = torch.compile(model, backend=Backend(make_options(strict=True)))
    x, w = torch.randn(5, 8), torch.randn(8, 8)
    with pytest.warns(RuntimeWarning, match=cause) as caught:
        torch.testing.assert_close(compiled(x, w), model(x, w))
    assert len([c for c in caught if "fusewise" in str(c.message) or cause in str(c.message)]) == 1
    assert counters["fusewise"]["fallbacks"] == 0


@pytest.mark.parametrize("damage", ["truncated", "empty", "overwritten"])
def test_a_damaged_entry_is_made_again(damage: str) -> None:
    x, w = torch.randn(5, 8), torch.randn(8, 8)
    backend = Backend(make_options(strict=True))
    expected = torch.compile(model, backend=backend)(x, w)
    (entry,) = Path(os.environ["FUSEWISE_CACHE_DIR"]).glob("cpp/*/*.so")
    whole = entry.read_bytes()
    changed = {
        "truncated": whole[: len(whole) // 2],
        "empty": b"",
        "overwritten": whole[:4000] + b"\0" * 64 + whole[4064:],
    }
    # another file under that name: the one that this process has loaded stays as it is
    entry.unlink()
    entry.write_bytes(changed[damage])
    torch._dynamo.reset()
    assert torch.equal(torch.compile(model, backend=backend)(x, w), expected)
    assert entry.read_bytes() == whole


PROGRAM = """
import sys, torch
sys.path[:0] = [{src!r}]
from fusewise.backend import Backend
from fusewise.config import make_options
x = torch.linspace(-1, 1, 64).reshape(8, 8)
fn = torch.compile(lambda a: torch.softmax(a.tanh() * {factor}, -1) + 1, backend=Backend(make_options(strict=True)))
"""


def python(body: str, factor: float, **env: str) -> subprocess.Popen[str]:
    code = PROGRAM.format(src=str(ROOT / "src"), factor=factor) + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "2", **env},
    )


def test_two_processes_compile_the_same_kernel() -> None:
    running = [python("print(repr(fn(x).double().sum().item()))", 1.25) for _ in range(2)]
    outs = [p.communicate(timeout=300) for p in running]
    assert all(p.returncode == 0 for p in running), outs
    assert outs[0][0] == outs[1][0] != ""
    assert len(list(Path(os.environ["FUSEWISE_CACHE_DIR"]).glob("cpp/*/*.so"))) == 1


def test_an_interrupt_leaves_the_cache_whole() -> None:
    body = """
        import os, signal, threading
        from fusewise.runtime import cpp
        compile_unit = cpp.compile_unit
        def slow(*args):
            os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C while the compiler runs
            return compile_unit(*args)
        cpp.compile_unit = slow
        try:
            fn(x)
        except KeyboardInterrupt:
            print("interrupted")
        cpp.compile_unit = compile_unit
        print(torch.equal(fn(x), fn(x)))
    """
    process = python(body, 1.5)
    out, err = process.communicate(timeout=300)
    assert out.split() == ["interrupted", "True"], err
    left = [
        p
        for p in Path(os.environ["FUSEWISE_CACHE_DIR"]).rglob("*")
        if p.is_file() and p.suffix not in (".so", ".gch", ".lock")
    ]
    assert left == []


def test_a_process_that_is_killed_in_the_middle_blocks_nobody() -> None:
    body = """
        from fusewise.runtime import cpp
        compile_unit = cpp.compile_unit
        def wait(*args):
            print("compiling", flush=True)
            return compile_unit(*args)[:-1] + sys.stdin.read(1).encode()
        cpp.compile_unit = wait
        fn(x)
    """
    killed = python(body, 1.9)
    assert killed.stdout is not None and killed.stdout.readline() == "compiling\n", killed.communicate()[1]
    killed.kill()  # it holds the entry's lock
    killed.communicate()
    after = python("print(torch.equal(fn(x), fn(x)))", 1.9)
    out, err = after.communicate(timeout=300)
    assert out.split() == ["True"], err


def test_a_fork_after_the_compile() -> None:
    body = """
        import os
        big = torch.randn(300, 400)
        want = fn(big)
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.allclose(fn(big), want) else 1)
        _, status = os.waitpid(child, 0)
        print(status, torch.equal(fn(big), want))
    """
    process = python(body, 1.75)
    out, err = process.communicate(timeout=300)
    assert out.split() == ["0", "True"], err


def test_many_threads_call_one_compiled_function() -> None:
    compiled = torch.compile(model, backend=Backend(make_options(strict=True)))
    w = torch.randn(8, 8)
    wrong: list[str] = []

    def work(number: int) -> None:
        try:
            x = torch.full((64, 8), float(number)) + torch.arange(8)
            for _ in range(4):
                torch.testing.assert_close(compiled(x, w), model(x, w))
        except BaseException as problem:
            wrong.append(repr(problem))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- what is not lowered


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fn, torch.uint16], ids=str)
def test_a_dtype_that_is_not_lowered_runs_and_is_named(dtype: torch.dtype) -> None:
    def fn(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a.to(torch.complex64).abs().float() * 2 if dtype.is_complex else a.float() * 2, a.clone()

    value = torch.arange(6).to(dtype)
    trace.clear()
    ours = torch.compile(fn, backend=Backend(make_options(strict=True)))(value)
    for o, e in zip(ours, fn(value), strict=True):
        assert o.dtype == e.dtype and torch.equal(o.view(torch.uint8), e.view(torch.uint8))
    reasons = [r.reason for c in trace.compiled() for r in c.captured.reasons]
    assert any(str(dtype).removeprefix("torch.") in reason for reason in reasons), reasons


HOSTILE = """"); import os; os._exit(3) #*/ } system("false"); {\\"""


def test_names_and_contents_never_run(tmp_path: Path) -> None:
    """Generated sources hold nothing of the user's: hostile names of files, modules and parameters stay names."""
    text = """
        import torch

        class Hostile(torch.nn.Module):
            def __init__(self, name):
                super().__init__()
                self.register_buffer("plain", torch.ones(4))
                self._buffers[name] = torch.full((4,), 2.0)
                self._parameters[name + "2"] = torch.nn.Parameter(torch.full((4,), 3.0))
                self._modules[name + "3"] = torch.nn.Linear(4, 4)
                self.name = name

            def forward(self, x, text):
                torch._assert_async((x > -100).all(), self.name)
                x = torch.softmax(x * self._buffers[self.name] + self.plain + len(text), -1)  # "); os._exit(3) #*/
                return self._modules[self.name + "3"](x * self._parameters[self.name + "2"]).relu()
    """
    file = str(tmp_path / HOSTILE.replace("/", "|"))
    scope: dict[str, Any] = {}
    exec(compile(textwrap.dedent(text), file, "exec"), scope)
    scope["Hostile"].__name__ = scope["Hostile"].__qualname__ = HOSTILE
    torch.manual_seed(0)
    module = scope["Hostile"](HOSTILE)
    x = torch.randn(3, 4)
    trace.clear()
    compiled = torch.compile(module, backend=Backend(make_options(strict=True)))
    torch.testing.assert_close(compiled(x, HOSTILE), module(x, HOSTILE))
    compiled(x, HOSTILE).sum().backward()
    made = trace.compiled()
    assert {c.role for c in made} == {"forward", "backward"}
    for sources in ((c.source, c.program) for c in made):
        assert not any("_exit" in source or "system" in source for source in sources)
    # the one text of a program that a kernel holds, for a GPU's assertion: a literal
    kernels = [k for c in made for k in c.kernels.values() if any(isinstance(i, Check) for i in k.body)]
    assert kernels
    for kernel in kernels:
        schedule = TritonSchedule((), tuple(a.name for a in kernel.parallel), 1, 64, 64, True, 4)
        tree = ast.parse(triton_module([replace(kernel, schedule=schedule)], False))
        texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        assert HOSTILE in texts and not any(isinstance(n, ast.Name) and n.id == "os" for n in ast.walk(tree))
