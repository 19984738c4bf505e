"""Programs that change their arguments: what the arguments become, and which kernels write there themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

import fusewise
from fusewise import trace
from fusewise.backend import Backend
from fusewise.config import Options
from fusewise.pipeline import compile_graph
from fusewise.plan.plan import Plan
from fusewise.plan.writes import is_injective

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield


def compiled(function: Function, dynamic: bool | None = None) -> Function:
    return torch.compile(function, backend="fusewise", options={"strict": True}, dynamic=dynamic)  # type: ignore[no-any-return]


def twins(args: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """The arguments twice, each with memory and strides of its own."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype)
        return made.copy_(leaf.detach()).requires_grad_(leaf.requires_grad)

    return [copy(a) for a in args], [copy(a) for a in args]


def equal(ours: Any, theirs: Any) -> None:
    for a, b in zip(tree_leaves(ours), tree_leaves(theirs), strict=True):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b)
            torch.testing.assert_close(a.grad, b.grad)


def check(function: Function, *args: Any, calls: int = 2, dynamic: bool | None = None, grad: bool = False) -> Plan:
    """Eager's results and arguments, call after call; the plan of the first graph."""
    ours, theirs = twins(args)
    fused = compiled(function, dynamic)
    trace.clear()
    for _ in range(calls):
        results = fused(*ours), function(*theirs)
        if grad:
            for result in results:
                result.sum().backward()
        equal(results[0], results[1])
        equal(ours, theirs)
    return trace.compiled()[0].plan


def in_place(plan: Plan) -> set[int]:
    """Positions of the inputs that kernels write themselves."""
    return {plan.graph.inputs.index(target) for step in plan.kernels for _, target in step.over}


def adam(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> None:
    m.lerp_(g, 0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    p.addcdiv_(m, (v.sqrt() / 0.1).add_(1e-8), value=-1e-3)


@pytest.mark.parametrize(("dynamic", "permuted"), [(None, True), (True, False)])
def test_an_optimiser_step_is_one_kernel_that_writes_its_arguments(dynamic: bool | None, permuted: bool) -> None:
    args = [torch.randn(24, 40), torch.randn(24, 40), torch.randn(24, 40), torch.rand(24, 40)]
    plan = check(adam, *(a.t() if permuted else a for a in args), dynamic=dynamic)
    (step,) = plan.kernels
    assert len(step.over) == 3 and not plan.late
    if dynamic is None:
        assert step.dram_bytes == 7 * args[0].nbytes  # four reads, three writes


def swap(a: torch.Tensor, b: torch.Tensor) -> None:
    old = a.clone()
    a.copy_(b)
    b.copy_(old)


def test_a_write_runs_after_every_read_of_what_was_there() -> None:
    plan = check(swap, torch.randn(8, 8), torch.randn(8, 8))
    assert len(plan.late) == 1  # each waits for the other: one is a copy at the end


def read_by_a_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = a @ b
    a.mul_(2)
    return y + a.sum()


def residual(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    old = x * 3
    x.add_(y)
    return old + F.layer_norm(x, x.shape[-1:])


def softmax(x: torch.Tensor) -> torch.Tensor:
    x.copy_(torch.softmax(x, -1))
    return x.amax(-1)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (read_by_a_product, [(16, 16), (16, 16)]),
        (residual, [(4, 20_000), (4, 20_000)]),  # rows that are read again in a second pass
        (softmax, [(9, 5)]),
    ],
)
def test_a_kernel_reads_before_it_writes(function: Function, shapes: list[tuple[int, ...]]) -> None:
    plan = check(function, *(torch.randn(s) for s in shapes))
    assert in_place(plan) == {0} and not plan.late


def rolled(a: torch.Tensor) -> None:
    a.copy_(torch.roll(a, 1, 0))


def transposed(a: torch.Tensor) -> None:
    a.copy_(a.t().clone())


def parts(a: torch.Tensor) -> torch.Tensor:
    a[1:3].mul_(3)
    a[0] += a[5]
    a[:, ::2].add_(1)
    return a.sum(0)


@pytest.mark.parametrize("function", [rolled, transposed, parts])
def test_what_is_read_at_another_place_is_written_at_the_end(function: Function) -> None:
    assert check(function, torch.randn(12, 12)).late


def both(a: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    c.mul_(2)
    return a + c


def test_arguments_that_share_memory() -> None:
    fused = compiled(both)
    views: list[Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]] = [
        lambda x: (x, x),
        lambda x: (x[:5], x[5:]),
        lambda x: (x[:6], x[3:9]),
    ]
    for view in views:
        ours, theirs = torch.randn(10), torch.empty(10)
        theirs.copy_(ours)
        equal(fused(*view(ours)), both(*view(theirs)))
        equal(ours, theirs)


def test_no_two_elements_of_what_is_written_share_memory() -> None:
    assert is_injective((4, 8), (8, 1), {}) and is_injective((4, 8), (1, 4), {}) and is_injective((4, 1), (1, 0), {})
    assert not is_injective((4, 8), (0, 1), {}) and not is_injective((4, 8), (4, 1), {})
    expanded = torch.randn(1, 8).expand(4, 8)
    with pytest.raises(RuntimeError, match="single memory location"):
        compiled(lambda c: c.add_(1))(expanded)


def step(p: torch.Tensor, g: torch.Tensor) -> None:
    with torch.no_grad():
        p.sub_(g * 0.1)


def average(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        c.mul_(0.5).add_(x.mean(0))
    return x * c


def hidden(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    c.data.mul_(0.5)
    return x * c


def test_writes_beside_gradients() -> None:
    x = torch.randn(6, 8, requires_grad=True)
    assert in_place(check(step, x, torch.randn(6, 8))) == {0}
    assert len(in_place(check(average, x, torch.randn(8), grad=True, calls=1))) == 1
    assert len(in_place(check(hidden, x, torch.randn(8), calls=1))) == 1


def norm(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    count.add_(1)
    return F.batch_norm(x, mean, var, training=True)


@pytest.mark.parametrize("grad", [False, True])
def test_running_statistics(grad: bool) -> None:
    x = torch.randn(4, 6, 5, 5, requires_grad=grad)
    plan = check(norm, x, torch.randn(6), torch.rand(6), torch.tensor(3), grad=grad)
    assert len(in_place(plan)) == 3 and not plan.late


def test_a_saved_argument_that_changes_is_autograds_error() -> None:
    def late(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        y = x * c
        with torch.no_grad():
            c.mul_(2)
        return y

    x, c = torch.randn(4, requires_grad=True), torch.randn(4)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        late(x, c.clone()).sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        compiled(late)(x, c.clone()).sum().backward()


def cache(k: torch.Tensor, held: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    held.index_copy_(1, at, k)
    return held.sum(-1)


def master(p: torch.Tensor, m: torch.Tensor, g: torch.Tensor) -> None:
    m.lerp_(g.float(), 0.1)
    p.copy_((p.float() - m).to(p.dtype))


def exchanged(a: torch.Tensor, b: torch.Tensor) -> None:
    swap(a, b)


def test_other_types_and_ops_of_pytorchs_own() -> None:
    check(cache, torch.randn(2, 1, 8), torch.randn(2, 16, 8), torch.tensor([3]))
    check(master, torch.randn(8, 8).bfloat16(), torch.randn(8, 8), torch.randn(8, 8).bfloat16())
    check(exchanged, torch.randn(4, dtype=torch.cfloat), torch.randn(4, dtype=torch.cfloat))
    check(lambda s, x: (s.add_(1), x * s), torch.tensor(1), torch.randn(8))
    check(adam, *(torch.randn(0, 3) for _ in range(4)))


def test_sizes_that_a_guard_makes_equal() -> None:
    """What is written has the size `(n // 2) * 2`, and the argument `n`: a guard of the view says that n is even."""

    def split(x: torch.Tensor) -> torch.Tensor:
        x.unflatten(-1, (-1, 2)).clamp_(-1, 1)
        return x

    check(split, torch.randn(3, 8, 2) * 4, dynamic=True)
    check(split, torch.randn(3, 8, 6) * 4, dynamic=True)


def test_a_failed_check_of_data_leaves_the_arguments() -> None:
    def look_up(table: torch.Tensor, index: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return table[index] + count

    args = torch.randn(8, 4), torch.tensor([1, 2]), torch.zeros(4)
    assert check(look_up, *args).late
    fused, count = compiled(look_up), torch.zeros(4)
    with pytest.raises(IndexError):
        fused(args[0], torch.tensor([1, 99]), count)
    equal(count, torch.zeros(4))


class _Fails:
    """A compiler whose programs fail behind their one launch."""

    def __call__(self, gm: Any, inputs: Any, options: Options, *, role: str) -> Any:
        call = compile_graph(gm, inputs, options, role=role)
        scope = call.__globals__  # type: ignore[attr-defined]
        (name,) = [n for n in scope if n.startswith("launch_")]
        launch = scope[name]

        def fail(*args: Any) -> None:
            launch(*args)
            raise RuntimeError("injected")

        scope[name] = fail
        return call


def test_a_call_that_fails_in_its_writes_is_an_error_and_says_so() -> None:
    args = [torch.randn(4, 4) for _ in range(3)] + [torch.rand(4, 4)]
    with pytest.raises(RuntimeError, match="injected") as caught:
        torch.compile(adam, backend=Backend(compile_graph=_Fails()))(*args)
    assert "half written" in "".join(caught.value.__notes__)


def test_a_call_that_fails_before_its_writes_runs_as_eager() -> None:
    ours, theirs = twins((torch.randn(4), torch.zeros(4)))
    broken = torch.compile(both, backend=Backend(compile_graph=_NoMemory()))
    with pytest.warns(UserWarning, match="no room"):
        result = broken(*ours)
    equal(result, both(*theirs))
    equal(ours, theirs)


class _NoMemory:
    """A compiler whose programs find no memory for their results."""

    def __call__(self, gm: Any, inputs: Any, options: Options, *, role: str) -> Any:
        call = compile_graph(gm, inputs, options, role=role)

        def empty(*args: Any) -> None:
            raise MemoryError("no room")

        call.__globals__["empty"] = empty  # type: ignore[attr-defined]
        return call


def test_a_graph_that_cannot_be_compiled_writes_as_eager() -> None:
    def never(gm: Any, inputs: Any, options: Options, *, role: str) -> Any:
        raise RuntimeError("not today")

    args = (torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4), torch.rand(4, 4))
    ours, theirs = twins(args)
    with pytest.warns(UserWarning, match="not today"):
        torch.compile(adam, backend=Backend(compile_graph=never))(*ours)
    adam(*theirs)
    equal(ours, theirs)


@pytest.mark.parametrize("against", ["eager", "unfused"])
@pytest.mark.parametrize("function", [swap, norm])
def test_a_proof_leaves_the_arguments_as_they_were(function: Function, against: Any) -> None:
    args = [torch.randn(8, 8), torch.randn(8, 8)]
    if function is norm:
        args = [torch.randn(4, 6, 5, 5, requires_grad=True), torch.randn(6), torch.rand(6), torch.tensor(3)]
    before = [a.detach().clone() for a in args]
    assert fusewise.verify(function, *args, hard=False, against=against)
    equal([a.detach() for a in args], before)
