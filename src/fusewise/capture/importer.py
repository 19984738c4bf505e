"""An FX graph of ATen ops becomes our graph; what has no expansion stays a PyTorch call, with the reason."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sympy
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.fx import GraphModule, Node

from fusewise.capture.calls import flat, main_device, plain, wall_reason
from fusewise.capture.captured import (
    ArgInput,
    ArgSize,
    ArgTensor,
    Captured,
    ConstantOutput,
    InputKind,
    InputOutput,
    OpaqueCall,
    OtherInput,
    OutputKind,
    Reason,
    ResultKind,
    SizeInput,
    SizeOutput,
    TensorInput,
    TensorOutput,
)
from fusewise.capture.decompose import pieces_of
from fusewise.capture.origin import origin_of, target_name
from fusewise.capture.scans import scan_along_rows
from fusewise.capture.schema import (
    Argument,
    arguments_of,
    has_effect,
    has_other_strides,
    is_size_like,
    makes_views,
    viewed_operand,
)
from fusewise.capture.symbols import Symbols, is_ragged
from fusewise.capture.types import TO_IR, TO_TORCH, carried, computable, has_double
from fusewise.errors import IRError, Unsupported
from fusewise.ir import affine
from fusewise.ir.builder import Builder, Value
from fusewise.ir.dtypes import BOOL, F32, F64, I64, DType
from fusewise.ir.expand import TABLE, Context, TensorSpec
from fusewise.ir.sizes import Size, same, same_all


@dataclass(frozen=True, slots=True)
class _Number:
    """A Python number that an opaque op returns at run time; only opaque ops can read it."""

    value: Value


@dataclass(frozen=True, slots=True)
class _Argument:
    """The caller's argument at this position, neither tensor nor size."""

    position: int


def import_graph(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    policy: str,
    device: str | None = None,
    strict: bool = False,
) -> Captured:
    """Our graph for an FX graph of functional ATen ops, as AOTAutograd makes them.

    Args:
        gm: the FX graph; each node has its fake result in `meta["val"]`.
        example_inputs: the arguments, used where a placeholder has no fake value.
        policy: under `conservative` only expansions whose bits equal eager's are taken.
        device: the device to compile for, where it is not the one that the tensors are on.
        strict: let an unexpected error of an expansion escape; otherwise the op becomes opaque.

    Raises:
        Unsupported: the whole graph must run as it is: an op with an effect, or a size that is not known before
            the call.
    """
    make = partial(_Importer, gm, example_inputs, policy, device, strict)
    importer = make(frozenset())
    if policy != "conservative" and torch.device(importer.device).type == "cuda" and scan_along_rows(gm):
        gm.recompile()
    while True:
        try:
            return importer.run()
        except _OneMemory as found:
            importer = make(importer.fresh | {found.root})


class _OneMemory(Exception):
    """Several results are views of one tensor that eager makes anew, and ours lies in another's memory."""

    def __init__(self, root: Node) -> None:
        self.root = root


class _Importer:
    """`fresh`: calls whose result is copied at once into memory of its own."""

    def __init__(
        self,
        gm: GraphModule,
        example_inputs: Sequence[Any],
        policy: str,
        device: str | None,
        strict: bool,
        fresh: frozenset[Node],
    ) -> None:
        self.gm = gm
        self.policy = policy
        self.strict = strict
        self.fresh = fresh
        self.copied: set[Node] = set()  # of which a result is a copy
        self.placeholders = gm.graph.find_nodes(op="placeholder")
        pairs = zip(self.placeholders, example_inputs, strict=True)
        self.arguments = [node.meta.get("val", example) for node, example in pairs]
        self.home = main_device(gm, self.arguments)
        self.device = device or str(self.home)
        self.b = Builder(self.device)
        self.symbols = Symbols(self.b, self.arguments)
        self.env: dict[Node, Any] = {}
        self.roots: dict[Node, Node] = {}
        self.strides: dict[int, tuple[Size, ...]] = {}
        self.opaques: list[OpaqueCall] = []
        self.constants: list[torch.Tensor] = []
        self.moved: dict[Node, Value] = {}
        self.asserts: list[Value] = []
        self.writes: list[tuple[Value, int]] = []  # a value, and the graph's input that it is written to
        self.copies = 0

    def run(self) -> Captured:
        inputs = tuple(self._input(p, a) for p, a in enumerate(self.arguments))
        attributes: dict[Node, Any] = {}
        for node in self.gm.graph.find_nodes(op="get_attr"):
            attributes[node] = self._attribute(node)
        for node in self.gm.graph.nodes:
            self.roots[node] = node
            if node.op == "call_function":
                self._call(node)
            elif node.op == "get_attr":
                self.env[node] = attributes[node]
            elif node.op not in ("placeholder", "output"):
                raise Unsupported(f"an FX node of kind {node.op}")
        outputs, values = self._outputs()
        # behind the caller's results: what asserts of the program compute, which nobody reads, and what inputs become
        ends = [*values, *self.asserts, *(value for value, _ in self.writes)]
        first = len(ends) - len(self.writes)
        return Captured(
            graph=self.b.finish(ends, {first + n: position for n, (_, position) in enumerate(self.writes)}),
            opaques=tuple(self.opaques),
            inputs=inputs,
            outputs=outputs,
            constants=tuple(self.constants),
            reasons=tuple(Reason(c.name, c.reason, c.origin) for c in self.opaques),
        )

    # ---- what enters

    def _input(self, position: int, argument: Any) -> InputKind:
        node = self.placeholders[position]
        if isinstance(argument, torch.Tensor) and argument.layout == torch.strided:
            value = self._tensor(argument)
            self.env[node] = value
            return TensorInput(value.node.attr("position"))
        if isinstance(argument, (int, torch.SymInt)) and not isinstance(argument, bool) and not is_ragged(argument):
            size = self.symbols.size(argument)
            self.env[node] = size
            return SizeInput(size)
        self.env[node] = _Argument(position)
        return OtherInput()

    def _attribute(self, node: Node) -> Any:
        found: Any = self.gm
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if not isinstance(found, torch.Tensor):
            return found
        if found.layout != torch.strided:
            raise Unsupported(f"a constant of layout {found.layout}")
        self.constants.append(found)
        return self._tensor(found)

    def _tensor(self, tensor: torch.Tensor) -> Value:
        """The graph's next input."""
        strides = self.symbols.sizes(tensor.stride())
        value = self.b.input(self.symbols.sizes(tensor.shape), carried(tensor.dtype), strides)
        self.strides[value.id] = strides
        return value

    # ---- what is computed

    def _call(self, node: Node) -> None:
        value = node.meta.get("val")
        if node.target is operator.getitem and isinstance(node.args[0], Node):
            parent, index = node.args[0], node.args[1]
            self.env[node] = self._in_own_memory(node, self.env[parent][index])
            if self.roots[parent] is not parent:
                self.roots[node] = self.roots[parent]
            return
        if node.target in _ASSERTS:
            self._assert(node)
            return
        if node.target is torch.ops.aten.copy_.default:
            self._write(node)
            return
        if "val" not in node.meta:
            raise Unsupported(f"{target_name(node)} without a description of its result")
        if has_effect(node):
            raise Unsupported(f"{target_name(node)} has an effect")
        if not node.users:
            return
        if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
            try:
                self.env[node] = self.symbols.size(value)
                return
            except Unsupported:
                pass  # a number that only the run can tell: the call stays as it is
        viewed = viewed_operand(node)
        if viewed is not None:
            self.roots[node] = self.roots[viewed]
        self.b.origin = origin_of(node)
        try:
            self.env[node] = self._in_own_memory(node, self._expand(node, value))
        except Unsupported as reason:
            self.env[node] = self._opaque(node, value, reason.problem)
        except Exception as defect:
            # shapes that agree by a guard, not as polynomials, look like a defect
            if self.strict and not (isinstance(defect, IRError) and self.symbols.any()):
                raise
            self.env[node] = self._opaque(node, value, f"its expansion failed: {defect!r}")

    def _assert(self, node: Node) -> None:
        """A check of data that the program itself makes: `F.one_hot` of its classes, `torch._assert_async`."""
        condition, *rest = node.args
        assert isinstance(condition, Node)
        found = self.env[condition]
        if not isinstance(found, Value) or condition.meta["val"].device != self.home:
            raise Unsupported(f"{target_name(node)} of what is no tensor of the graph's device")
        computable(condition.meta["val"].dtype)
        self.b.origin = origin_of(node)
        holds = found if found.dtype == BOOL else found.ne(0)
        message = str(rest[0]) if rest else "Expected Tensor with single nonzero value, but got zero"
        self.asserts.append(self.b.guard(holds, holds, message))

    def _write(self, node: Node) -> None:
        """A program that changes an argument: AOTAutograd leaves one `copy_` an argument at the end of the graph."""
        target, source = node.args[:2]
        assert isinstance(target, Node)
        place, value = self.env[target], self.env[source] if isinstance(source, Node) else source
        if target.op != "placeholder" or not isinstance(value, Value) or place.node.op != "input":
            raise Unsupported("a write to what is no argument of the graph")
        if value.dtype != place.dtype or len(value.shape) != len(place.shape):
            raise Unsupported("a write of another type or shape than the argument's")
        # AOTAutograd writes what has the argument's shape: where the sizes look unlike, a guard makes them agree
        value = self.b.view(value, place.shape, [affine.axis(f"o{d}") for d in range(len(place.shape))])
        # nothing may read the argument as it was once it is written: what is written has memory of its own
        if target.meta["val"].device == self.home and TO_IR.get(target.meta["val"].dtype) is not None:
            self.b.origin = origin_of(source if isinstance(source, Node) and source.op == "call_function" else node)
            value = self._copy(value)
            self.b.set_strides(value, self.strides[place.id])
            self.strides[value.id] = self.strides[place.id]
        self.writes.append((value, place.node.attr("position")))
        self.env[node] = value

    def _expand(self, node: Node, value: Any) -> Any:
        name = target_name(node)
        row = TABLE.get(name)
        special = _SPECIAL.get(name)
        if row is None and special is None:
            return self._expand_pieces(node, value)
        kind = self.device.partition(":")[0]
        if self.policy == "conservative" and row is not None and not row.is_exact_on(kind, has_double(value)):
            why = "are proven for f32 and 16-bit floats only" if row.is_exact_on(kind) else "depend on eager's kernel"
            raise Unsupported(f"its bits {why}, and the policy is conservative")
        self._check_tensors(node, value)
        if has_other_strides(node):
            raise Unsupported("its strides follow those of its index, which the trace does not know")
        positional, keyword = arguments_of(node)
        operands = [self._operand(a, moves=special is None) for a in positional]
        keywords = {a.name: self._operand(a) for a in keyword}
        results = list(value) if isinstance(value, (tuple, list)) else [value]
        specs = tuple(self._spec(r) if isinstance(r, torch.Tensor) else None for r in results)
        if special is not None:
            found: Any = special(self.b, *operands, **keywords)
        else:
            assert row is not None
            context = Context(self.b, specs, self._promoted(positional, specs), kind, self.policy)
            found = row.expand(context, *operands, **keywords)
        given = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(given) != len(specs):
            raise IRError(f"{name} gives {len(specs)} results, its expansion {len(given)}")
        values = [self._settle(v, s) for v, s in zip(given, specs, strict=True)]
        return tuple(values) if isinstance(value, (tuple, list)) else values[0]

    def _expand_pieces(self, node: Node, value: Any) -> Any:
        """The op by torch's decomposition, where every piece has an expansion."""
        pieces = None if self.policy == "conservative" else pieces_of(node)
        if pieces is None:
            raise Unsupported(wall_reason(node))
        for inner, outer in zip(pieces.graph.find_nodes(op="placeholder"), node.all_input_nodes, strict=True):
            operand = self.env[outer]
            wide = operand.dtype.is_half if isinstance(operand, Value) else False
            self.env[inner] = operand.cast(F32) if wide else operand
        for inner in pieces.graph.nodes:
            if inner.target is operator.getitem:
                self.env[inner] = self.env[inner.args[0]][inner.args[1]]
            elif inner.op == "call_function":
                self.env[inner] = self._expand(inner, inner.meta["val"])
        (output,) = pieces.graph.find_nodes(op="output")
        found = [self.env[r] if isinstance(r, Node) else r for r in flat(output.args[0])]
        specs = [self._spec(r) if isinstance(r, torch.Tensor) else None for r in flat(value)]
        narrow = [v.cast(s.dtype) if isinstance(v, Value) and s else v for v, s in zip(found, specs, strict=True)]
        values = [self._settle(v, s) for v, s in zip(narrow, specs, strict=True)]
        return tuple(values) if isinstance(value, (tuple, list)) else values[0]

    def _operand(self, argument: Argument, moves: bool = True) -> Any:
        """An argument as an expansion takes it; `moves`: a scalar of the host on the graph's device."""

        def convert(value: Any) -> Any:
            if isinstance(value, Node):
                on_host = moves and self._is_host_scalar(value.meta.get("val"))
                value = self._moved(value) if on_host else self.env[value]
            if isinstance(value, (_Number, _Argument)):
                raise Unsupported("a Python object that only the run can tell")
            if isinstance(value, (list, tuple)):
                return [convert(v) for v in value]
            if isinstance(value, torch.dtype):
                return computable(value)
            if isinstance(value, torch.SymInt):
                value = self.symbols.size(value)
            if is_size_like(argument.type) and _is_symbolic(value) and self.symbols.may_be_negative(value):
                raise Unsupported("an index that may be negative, known at run time only")
            return value

        return convert(argument.value)

    def _promoted(self, arguments: Sequence[Argument], specs: Sequence[TensorSpec | None]) -> DType:
        """torch's own promotion over the tensor and number operands."""
        operands: list[Any] = []
        for argument in arguments:
            if argument.type not in ("Tensor", "number"):
                continue
            for value in flat(argument.value):
                found = value.meta.get("val") if isinstance(value, Node) else value
                if isinstance(found, torch.SymInt):
                    found = 1  # its type counts, and asking for its value would add a guard
                if isinstance(found, (torch.Tensor, bool, int, float)):
                    operands.append(found)
        if not any(isinstance(o, torch.Tensor) for o in operands):
            first = next((s for s in specs if s is not None), None)
            if first is None:
                raise Unsupported("no tensor operand or result")
            return first.dtype
        kind = ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH
        return computable(elementwise_dtypes(*operands, type_promotion_kind=kind)[1])

    def _check_tensors(self, node: Node, value: Any) -> None:
        """Raises `Unsupported` where a tensor beside the call is of a kind that the IR cannot compute on."""
        around = [n.meta.get("val") for n in node.all_input_nodes] + list(flat(value))
        for tensor in around:
            for leaf in flat(tensor):
                if isinstance(leaf, torch.Tensor):
                    if leaf.layout != torch.strided or leaf.is_quantized:
                        raise Unsupported("a tensor that is sparse or quantised")
                    if leaf.device != self.home and not (self._is_host_scalar(leaf) and node.meta["val"] is not leaf):
                        raise Unsupported(f"a tensor on {leaf.device} in a graph on {self.home}")
                    computable(leaf.dtype)

    def _is_host_scalar(self, value: Any) -> bool:
        """True for a CPU tensor without dims in a graph of another device: PyTorch takes it as a number there."""
        return (
            isinstance(value, torch.Tensor)
            and value.dim() == 0
            and value.device.type == "cpu"
            and self.home.type != "cpu"
        )

    def _moved(self, node: Node) -> Value:
        """The value of a CPU scalar, on the graph's device."""
        found = self.moved.get(node)
        if found is None:
            source, example = node.args[0] if node.args else None, node.meta["val"]
            if node.target is torch.ops.prims.convert_element_type.default and isinstance(source, Node):
                found = self._moved(source).cast(computable(example.dtype))
            else:
                call = self.b.opaque([self.env[node]], len(self.opaques), "a CPU scalar in a graph on a GPU")
                found = self.b.result(call, 0, (), computable(example.dtype), ())
                self.strides[found.id] = ()
                target, name = torch.ops.aten._to_copy.default, "aten._to_copy.default"
                kwargs = {"device": self.home, "non_blocking": True}
                reason = call.node.attr("reason")
                self.opaques.append(
                    OpaqueCall(target, (ArgTensor(0),), kwargs, ("tensor",), name, reason, self.b.origin)
                )
            self.moved[node] = found
        return found

    def _spec(self, tensor: torch.Tensor) -> TensorSpec:
        return TensorSpec(self.symbols.sizes(tensor.shape), TO_IR[tensor.dtype], self.symbols.sizes(tensor.stride()))

    def _settle(self, value: Value | None, spec: TensorSpec | None) -> Value | None:
        """`value`, checked against what PyTorch says, with eager's strides where it is stored."""
        if value is None or spec is None:
            return None
        if value.dtype != spec.dtype or not same_all(value.shape, spec.shape):
            ours, theirs = f"{value.dtype}{list(value.shape)}", f"{spec.dtype}{list(spec.shape)}"
            raise IRError(f"expanded to {ours}, PyTorch gives {theirs}")
        taken = self.strides.get(value.id)
        if taken is not None and not _same_layout(spec.shape, taken, spec.strides):
            value = self._copy(value)
        self.strides[value.id] = spec.strides
        self.b.set_strides(value, spec.strides)
        return value

    def _copy(self, value: Value) -> Value:
        """A copy of `value` that is never merged with another."""
        self.copies += 1
        return self.b.op("copy", value, instance=self.copies)

    def _opaque(self, node: Node, value: Any, reason: str) -> Any:
        operands: list[Value] = []

        def template(arg: Any) -> Any:
            if isinstance(arg, Node):
                arg = self.env[arg]
            if isinstance(arg, _Number):
                arg = arg.value
            if isinstance(arg, Value):
                # one operand a mention: the same tensor may stand in two places
                operands.append(arg)
                return ArgTensor(len(operands) - 1)
            if isinstance(arg, _Argument):
                return ArgInput(arg.position)
            if _is_symbolic(arg):
                return ArgSize(arg)
            if isinstance(arg, torch.SymInt):
                size = self.symbols.size(arg)
                return ArgSize(size) if _is_symbolic(size) else size
            if isinstance(arg, (torch.SymFloat, torch.SymBool)):
                raise Unsupported("a symbolic number that is no size")
            if isinstance(arg, (list, tuple)):
                items = [template(a) for a in arg]
                return items if isinstance(arg, list) else tuple(items)
            if isinstance(arg, dict):
                return {k: template(v) for k, v in arg.items()}
            if isinstance(arg, slice):
                return slice(template(arg.start), template(arg.stop), template(arg.step))
            return arg

        args = tuple(template(plain(a)) for a in node.args)
        kwargs = {k: template(plain(v)) for k, v in node.kwargs.items()}
        key = len(self.opaques)
        call = self.b.opaque(operands, key, reason, makes_views(node))
        kinds: list[ResultKind] = []

        def result(leaf: Any) -> Any:
            if isinstance(leaf, (tuple, list)):
                return tuple(result(part) for part in leaf)
            number = len(kinds)
            kinds.append("none")
            if isinstance(leaf, torch.Tensor):
                if leaf.layout != torch.strided:
                    raise Unsupported(f"a result of layout {leaf.layout}")
                kinds[number] = "tensor"
                shape, strides = self.symbols.sizes(leaf.shape), self.symbols.sizes(leaf.stride())
                made = self.b.result(call, number, shape, carried(leaf.dtype), strides)
                self.strides[made.id] = strides
                return made
            if isinstance(leaf, (int, torch.SymInt)) and not isinstance(leaf, bool):
                try:
                    kinds[number] = "size"
                    return self.symbols.size(leaf)
                except Unsupported:
                    kinds[number] = "scalar"
                    return _Number(self.b.result(call, number, (), I64, ()))
            if isinstance(leaf, (bool, torch.SymBool)):
                kinds[number] = "scalar"
                return _Number(self.b.result(call, number, (), BOOL, ()))
            if isinstance(leaf, (float, torch.SymFloat)):
                kinds[number] = "scalar"
                return _Number(self.b.result(call, number, (), F64, ()))
            if leaf is None:
                return None
            raise Unsupported(f"a result of type {type(leaf).__name__}")

        results = result(value)
        assert callable(node.target)
        self.opaques.append(
            OpaqueCall(node.target, args, kwargs, tuple(kinds), target_name(node), reason, self.b.origin)
        )
        return results

    # ---- what leaves

    def _outputs(self) -> tuple[tuple[OutputKind, ...], list[Value]]:
        (output,) = self.gm.graph.find_nodes(op="output")
        kinds: list[OutputKind] = []
        values: list[Value] = []
        owner: dict[int, Node] = {}  # storage in our graph -> the FX node whose storage it is
        for node, found in list(self.env.items()):
            if node.op in ("placeholder", "get_attr") and isinstance(found, Value):
                owner[found.id] = node
        for item in output.args[0]:
            if isinstance(item, Node) and item.target is torch.ops.aten.copy_.default:
                kinds.append(InputOutput(self.placeholders.index(item.args[0])))  # the argument itself
                continue
            found = self.env[item] if isinstance(item, Node) else item
            if isinstance(found, _Number):
                kinds.append(TensorOutput(len(values), scalar=True))
                values.append(found.value)
            elif isinstance(found, Value):
                kinds.append(TensorOutput(len(values)))
                values.append(self._own(found, self.roots[item], owner))
            elif isinstance(found, _Argument):
                kinds.append(InputOutput(found.position))
            elif isinstance(item, Node) and (isinstance(found, int) or _is_symbolic(found)):
                kinds.append(SizeOutput(found))
            else:
                kinds.append(ConstantOutput(found))
        return tuple(kinds), values

    def _own(self, value: Value, root: Node, owner: dict[int, Node]) -> Value:
        """`value`, or a copy where it would share memory with a tensor that eager keeps apart from it."""
        base = self.b.nodes[value.id]
        # a result of a PyTorch op may lie in the memory of what the op reads, as that of `as_strided` does
        while base.op in ("view", "reshape", "bitcast", "opaque") or (
            base.op == "result" and self.b.nodes[base.args[0]].has("aliases")
        ):
            base = self.b.nodes[base.args[0]]
        if owner.setdefault(base.id, root) is root:
            return value
        if value.dtype.name not in TO_TORCH:
            raise Unsupported(f"a copy of {value.dtype.name}, for a result that eager keeps apart from another")
        if root in self.copied and root not in self.fresh:
            raise _OneMemory(root)  # two copies would share nothing
        self.copied.add(root)
        self.b.origin = origin_of(root)
        return self._apart(value)

    def _in_own_memory(self, node: Node, found: Any) -> Any:
        return self._apart(found) if node in self.fresh and isinstance(found, Value) else found

    def _apart(self, value: Value) -> Value:
        """A copy, with the strides of `value`."""
        copy = self._copy(value)
        if value.id in self.strides:
            self.strides[copy.id] = self.strides[value.id]
            self.b.set_strides(copy, self.strides[value.id])
        return copy


def _keep(b: Builder, seed: Value, _device: Any, slot: int, size: Sequence[Size], keep_prob: float) -> Value:
    return b.keep(seed, size, slot, keep_prob)


def _uniform(b: Builder, seed: Value, _device: Any, slot: int, size: Sequence[Size]) -> Value:
    return b.uniform(seed, size, slot)


_ASSERTS = (torch.ops.aten._assert_async.msg, torch.ops.aten._assert_async.default)

# Our own random ops; their kernels take a seed on the host as it is.
_SPECIAL: dict[str, Callable[..., Value]] = {
    "fusewise.keep.default": _keep,
    "fusewise.uniform.default": _uniform,
}


def _same_layout(shape: Sequence[Size], left: Sequence[Size], right: Sequence[Size]) -> bool:
    """True where two strides place each element alike: the stride of a dim of size 1 does not count."""
    return all(same(n, 1) or same(a, b) for n, a, b in zip(shape, left, right, strict=True))


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, sympy.Basic)
