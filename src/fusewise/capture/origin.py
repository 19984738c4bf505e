"""The user's source line that an FX node came from."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import torch
from torch.fx import Graph, Node

from fusewise.capture.barrier import is_barrier
from fusewise.ir.graph import Origin

BARRIER = "fusewise.barrier.default"  # what a barrier is called, whichever op carries it

PART_OF = "fusewise_part_of"  # in a node's meta: name and call of the op that it is a piece of

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)', re.MULTILINE)
_ROOT = re.compile(r"^[LG]\['\w+'\]")  # Dynamo's name of the variable that holds the model
_NOT_THE_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
_DEMO = str(Path(__file__).parents[1] / "demo.py")  # its programs stand for a user's


def target_name(node: Node) -> str:
    """The call's name as in `aten.gelu.default`; a Python function's own name otherwise."""
    if is_barrier(node):
        return BARRIER
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return str(getattr(target, "__name__", target))


def whole_of(node: Node) -> tuple[str, str]:
    """Name and call of the op that a node is a piece of, or its own."""
    found: tuple[str, str] = node.meta.get(PART_OF, (target_name(node), node.name))
    return found


def origin_of(node: Node) -> Origin:
    """Op name and source line; a backward node gets the line of its forward op, which torch records on it.

    The pieces of an op that was taken apart have one origin, that of the op.
    """
    file, line, text = _locate(node.meta.get("stack_trace") or "")
    repeated = _is_backward(node.graph) and node.meta.get("partitioner_tag") not in _BACKWARD_TAGS
    aten, call = whole_of(node)
    return Origin(aten, file, line, text or _module_name(node), call, repeated)


_BACKWARD_TAGS = ("is_backward", "must_be_in_backward")


@lru_cache(maxsize=8)
def _is_backward(graph: Graph) -> bool:
    """True for the backward half of a joint graph: AOTAutograd tags the nodes that autograd made.

    It tags the writes to arguments in any graph."""
    tagged = (n for n in graph.nodes if n.meta.get("partitioner_tag") in _BACKWARD_TAGS)
    return any(n.target is not torch.ops.aten.copy_.default for n in tagged)


def _module_name(node: Node) -> str:
    """The innermost module, for code that lies in torch alone (`Linear encoder.0`); empty where there is none."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    path, kind = list(stack.values())[-1]
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    return f"{name.rpartition('.')[2]} {_ROOT.sub('', str(path)).lstrip('.')}".strip()


@lru_cache(maxsize=1024)
def _locate(trace: str) -> tuple[str, int, str]:
    """File, line and code of the innermost frame outside torch and this package."""
    lines = trace.splitlines()
    for number in range(len(lines) - 1, -1, -1):
        frame = _FRAME.match(lines[number])
        if frame and (frame["file"] == _DEMO or not frame["file"].startswith(_NOT_THE_USERS)):
            code = lines[number + 1].strip() if number + 1 < len(lines) else ""
            return frame["file"], int(frame["line"]), "" if _FRAME.match(code) else code
    return "", 0, ""
