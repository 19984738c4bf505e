"""Random ops made explicit: a seed drawn from PyTorch's generator, and masks that are a pure function of it.

`fusewise.seed` draws one 64-bit number for a graph and device from the device's default generator, so that
`torch.manual_seed` holds. It stays on the host, and kernels take it as a number: no launch, and nothing to load. While
a CUDA graph is captured it is a tensor on the GPU instead, made by an ordinary PyTorch random kernel that each replay
runs anew. `fusewise.keep` and `fusewise.uniform` are pure in (seed, slot, element number) with the bits of
`ir.philox`, so that backward draws the forward's mask again, whether a kernel of ours or the op below runs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from fusewise.ir.philox import KEY_STEP, MULTIPLIER, ROUNDS, threshold
from fusewise.ir.sizes import Size, contiguous_strides, norm, same

_MASK = 0xFFFFFFFF
aten = torch.ops.aten

_library: Any = torch.library.Library("fusewise", "DEF")  # type: ignore[no-untyped-call]
_library.define("seed(Device device) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
_library.define("keep(Tensor seed, Device device, int slot, SymInt[] size, float keep_prob) -> Tensor")
_library.define("uniform(Tensor seed, Device device, int slot, SymInt[] size) -> Tensor")


def _seed(device: torch.device) -> torch.Tensor:
    if device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
        return torch.tensor(_next_number(device))
    # the whole range of int64: None as the upper end
    return torch.empty((), dtype=torch.int64, device=device).random_(-(2**63), None)


def _next_number(device: torch.device) -> int:
    """int64 from the state of a GPU's generator, which moves on as after a kernel that draws one number a thread."""
    index = torch.cuda.current_device() if device.index is None else device.index
    generator = torch.cuda.default_generators[index]
    with _drawing:  # two threads must not get one number
        offset = generator.get_offset()
        generator.set_offset(offset + _OFFSET_STEP)
    number = _mix(_mix(generator.initial_seed() & _MASK64) + offset // _OFFSET_STEP & _MASK64)
    return number - (number >> 63 << 64)


_drawing = threading.Lock()
_OFFSET_STEP = 4  # offsets of PyTorch's generators are multiples of it
_MASK64 = (1 << 64) - 1


def _mix(z: int) -> int:
    """A bijection of 64-bit numbers that sends neighbours far apart: the step of SplitMix64.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, figure 17.
    """
    z = z + 0x9E3779B97F4A7C15 & _MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK64
    return z ^ z >> 31


def _seed_fake(device: torch.device) -> torch.Tensor:
    return torch.empty((), dtype=torch.int64, device="cpu")


def _keep(seed: torch.Tensor, device: torch.device, slot: int, size: Sequence[int], keep_prob: float) -> torch.Tensor:
    words = _philox(seed, device, slot, -(-prod(size) // 8), stream=0)
    halves = torch.stack((words & 0xFFFF, words >> 16), dim=-1).flatten()[: prod(size)]
    return (halves < threshold(keep_prob)).view(size)


def _keep_fake(
    seed: torch.Tensor, device: torch.device, slot: int, size: Sequence[int], keep_prob: float
) -> torch.Tensor:
    return seed.new_empty(size, dtype=torch.bool, device=device)


def _uniform(seed: torch.Tensor, device: torch.device, slot: int, size: Sequence[int]) -> torch.Tensor:
    words = _philox(seed, device, slot, -(-prod(size) // 4), stream=1)
    return ((words.flatten()[: prod(size)] >> 8).to(torch.float32) * 2.0**-24).view(size)


def _uniform_fake(seed: torch.Tensor, device: torch.device, slot: int, size: Sequence[int]) -> torch.Tensor:
    return seed.new_empty(size, dtype=torch.float32, device=device)


def _philox(seed: torch.Tensor, device: torch.device, slot: int, blocks: int, stream: int) -> torch.Tensor:
    """The four 32-bit words of each block, int64 of shape (blocks, 4).

    int64 products wrap, which keeps the low 64 bits; the arithmetic shift's sign bits are masked off.
    """
    number = torch.arange(blocks, dtype=torch.int64, device=device)
    c0, c1 = number & _MASK, number >> 32
    c2, c3 = torch.full_like(c0, slot & _MASK), torch.full_like(c0, stream)
    k0, k1 = seed & _MASK, (seed >> 32) & _MASK
    for _ in range(ROUNDS[stream]):
        p0, p1 = c0 * MULTIPLIER[0], c2 * MULTIPLIER[1]
        c0, c2 = ((p1 >> 32) & _MASK) ^ c1 ^ k0, ((p0 >> 32) & _MASK) ^ c3 ^ k1
        c1, c3 = p1 & _MASK, p0 & _MASK
        k0, k1 = (k0 + KEY_STEP[0]) & _MASK, (k1 + KEY_STEP[1]) & _MASK
    return torch.stack((c0, c1, c2, c3), dim=-1)


for _name, _kernel, _fake in (
    ("seed", _seed, _seed_fake),
    ("keep", _keep, _keep_fake),
    ("uniform", _uniform, _uniform_fake),
):
    _library.impl(_name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"fusewise::{_name}", _fake, lib=_library)


def make_random_explicit(gm: GraphModule) -> int:
    """Rewrites the graph's dropout, bernoulli and rand ops in place; returns how many.

    Random ops with a generator of their own, of another distribution, of a result that is not row-major, or in the
    backward part of a joint graph stay PyTorch's.
    """
    rewriter = _Rewriter(gm)
    for node in list(gm.graph.nodes):
        rule = _RULES.get(node.target)
        if rule is not None and node.users and node.meta.get("partitioner_tag") != "is_backward":
            rule(rewriter, node)
    if rewriter.slots:
        gm.graph.lint()
        gm.recompile()
    return rewriter.slots


class _Rewriter:
    """Adds nodes before a random op, with its metadata."""

    def __init__(self, gm: GraphModule) -> None:
        self.graph = gm.graph
        self.slots = 0
        self.mode = detect_fake_mode([n.meta.get("val") for n in gm.graph.nodes])
        self.seeds: dict[torch.device, Node] = {}
        self.sizes = {
            n.meta["val"].node.expr: n
            for n in gm.graph.find_nodes(op="placeholder")
            if isinstance(n.meta.get("val"), torch.SymInt)
        }

    def draw(self, node: Node, op: Any, like: torch.Tensor, source: Node | None, *extra: Any) -> Node:
        """A call of `keep` or `uniform` for the shape of `like`, which `source` has at run time.

        Elements are numbered as they lie in memory: neighbours there share a Philox block, in whatever layout.
        """
        seed = self.seeds.get(like.device)
        if seed is None:
            made = self.fake(lambda: _seed_fake(like.device))
            seed = self.add(node, torch.ops.fusewise.seed.default, (like.device,), made)
            # also inside a checkpointed block: one drawn again would be another
            seed.meta["recompute"] = CheckpointPolicy.MUST_SAVE
            seed.meta.pop("ac_graph_id", None)
            self.seeds[like.device] = seed
        dtype = torch.bool if op is torch.ops.fusewise.keep.default else torch.float32
        order = _memory_order(like)
        size = [self.size(node, d, like.shape[d], source) for d in order]
        value = self.fake(lambda: torch.empty([like.shape[d] for d in order], dtype=dtype, device=like.device))
        slot = self.slots
        self.slots += 1
        drawn = self.add(node, op, (seed, like.device, slot, size, *extra), value)
        if order == list(range(like.dim())):
            return drawn
        back = [order.index(d) for d in range(like.dim())]
        return self.add(node, aten.permute.default, (drawn, back), self.fake(lambda: value.permute(back)))

    def add(self, node: Node, op: Any, args: tuple[Any, ...], value: Any, **kwargs: Any) -> Node:
        with self.graph.inserting_before(node):
            made = self.graph.call_function(op, args, kwargs)
        made.meta = {k: v for k, v in node.meta.items() if k in KEPT_META}
        made.meta["val"] = value
        return made

    def fake(self, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        if self.mode is None:
            return make()
        with self.mode:
            return make()

    def size(self, node: Node, dim: int, size: int | torch.SymInt, source: Node | None) -> int | Node:
        """A size as an argument: the number, the caller's own size, or one read from `source`."""
        if isinstance(size, int):
            return size
        known = self.sizes.get(size.node.expr)
        if known is None:
            assert source is not None
            known = self.add(node, aten.sym_size.int, (source, dim), size)
        return known

    def replace(self, node: Node, by: Node) -> None:
        node.replace_all_uses_with(by)
        self.graph.erase_node(node)


# Beside the fake value: what says where a node came from and on which side of a joint graph it stands.
KEPT_META = frozenset(
    ("stack_trace", "nn_module_stack", "source_fn_stack", "original_aten", "from_node", "seq_nr")
    + ("partitioner_tag", "recompute", "ac_graph_id", "custom")
)


def _dropout(r: _Rewriter, node: Node) -> None:
    """native_dropout(x, p, train): x * mask * (1 / (1 - p)), as eager's kernels round it."""
    call: tuple[Any, ...] = node.args
    x, p, train = (*call, True)[:3]
    if train is False or not isinstance(x, Node):
        return
    parts = {user.args[1]: user for user in node.users}
    result: torch.Tensor = node.meta["val"][0]
    mask = r.draw(node, torch.ops.fusewise.keep.default, result, x, 1.0 - p)
    if 0 in parts:
        # p = 1: eager's CPU kernel multiplies by 0 as well, its CUDA kernel writes zeros
        if p == 1 and result.device.type != "cpu":
            dropped = r.add(node, aten.zeros_like.default, (x,), result)
        else:
            kept = r.add(node, aten.mul.Tensor, (x, mask), result)
            dropped = r.add(node, aten.mul.Tensor, (kept, 0.0 if p == 1 else 1.0 / (1.0 - p)), result)
        r.replace(parts[0], dropped)
    if 1 in parts:
        r.replace(parts[1], mask)
    r.graph.erase_node(node)


def _bernoulli_p(r: _Rewriter, node: Node) -> None:
    """bernoulli(x, p): 1 with probability p; x gives shape and type."""
    call: tuple[Any, ...] = node.args
    x, p = (*call, 0.5)[:2]
    result: torch.Tensor = node.meta["val"]
    if node.kwargs.get("generator") is not None or not _is_row_major(result) or not isinstance(x, Node):
        return
    mask = r.draw(node, torch.ops.fusewise.keep.default, result, x, float(p))
    r.replace(node, r.add(node, aten._to_copy.default, (mask,), result, dtype=result.dtype))


def _bernoulli(r: _Rewriter, node: Node) -> None:
    """bernoulli(x): 1 with probability x, as u < x."""
    x = node.args[0]
    result: torch.Tensor = node.meta["val"]
    if node.kwargs.get("generator") is not None or result.dtype != torch.float32 or not _is_row_major(result):
        return
    assert isinstance(x, Node)
    drawn = r.draw(node, torch.ops.fusewise.uniform.default, result, x)
    less = r.fake(lambda: torch.empty(result.shape, dtype=torch.bool, device=result.device))
    mask = r.add(node, aten.lt.Tensor, (drawn, x), less)
    r.replace(node, r.add(node, aten._to_copy.default, (mask,), result, dtype=result.dtype))


def _rand(r: _Rewriter, node: Node) -> None:
    """rand and rand_like in float32: 24 random bits, as in eager."""
    result: torch.Tensor = node.meta["val"]
    if result.dtype != torch.float32 or not _is_row_major(result):
        return
    first: Any = node.args[0]
    source = first if isinstance(first, Node) else None
    if source is None:
        # the sizes are the call's own arguments: numbers or nodes
        sizes: Iterable[Any] = first
        for size, value in zip(sizes, result.shape, strict=True):
            if isinstance(size, Node) and isinstance(value, torch.SymInt):
                r.sizes.setdefault(value.node.expr, size)
        if any(isinstance(s, torch.SymInt) and s.node.expr not in r.sizes for s in result.shape):
            return
    r.replace(node, r.draw(node, torch.ops.fusewise.uniform.default, result, source))


def _is_row_major(tensor: torch.Tensor) -> bool:
    """True where the strides are surely those of a contiguous tensor; asks torch nothing, so adds no guard."""
    shape, strides = map(expressions, (tensor.shape, tensor.stride()))
    row_major = contiguous_strides(shape)
    return all(same(n, 1) or same(a, b) for n, a, b in zip(shape, strides, row_major, strict=True))


def _memory_order(tensor: torch.Tensor) -> list[int]:
    """Dims from the outermost in memory to the innermost, where a permutation makes the tensor row-major."""
    plain = list(range(tensor.dim()))
    shape, strides = map(expressions, (tensor.shape, tensor.stride()))
    if not all(isinstance(s, int) for s in strides):
        return plain
    order = sorted(plain, key=lambda d: -int(strides[d]))
    row_major = contiguous_strides([shape[d] for d in order])
    lies_so = all(same(shape[d], 1) or same(strides[d], s) for d, s in zip(order, row_major, strict=True))
    return order if lies_so else plain


def expressions(values: Sequence[int | torch.SymInt]) -> tuple[Size, ...]:
    """Sizes in torch's own symbols, to compare without a guard."""
    return tuple(norm(v.node.expr) if isinstance(v, torch.SymInt) else v for v in values)


_RULES: dict[Any, Callable[[_Rewriter, Node], None]] = {
    aten.native_dropout.default: _dropout,
    aten.bernoulli.p: _bernoulli_p,
    aten.bernoulli.default: _bernoulli,
    aten.rand.default: _rand,
    aten.rand_like.default: _rand,
}
