"""The same kernels in PTX, for machines without NVRTC: ptxas ships with Triton.

The text is what `cuda_source` says, instruction by instruction; ptxas allots the registers in both cases. Barrier
across the grid and atomics are CUDA C++ only.
"""

from __future__ import annotations

import struct

import numpy as np

from fusewise.errors import CompilerMissing
from fusewise.lab.chain import has_relu, scale_of, shift_of
from fusewise.lab.cuda_source import DECAY, ENTRY, STEP
from fusewise.lab.spec import LIVE_UNIT, Spec

_TYPES = {"x": "u64", "y": "u64", "count": "u64", "probe": "u64", "relu": "u32", "rounds": "u32", "parts": "u32"}
_FLOAT = "f32"  # scale, shift, sentinel
_INFIX = {1: "f32", 2: "v2.f32", 4: "v4.f32"}


def source_of(spec: Spec, block: int, arch: int) -> str:
    """PTX of the kernel of a row.

    Args:
        arch: compute capability as a number, such as 90.

    Raises:
        CompilerMissing: the kernel is written in CUDA C++ alone.
    """
    if spec.kind.startswith("naive"):
        return _stage(spec.width, _head(spec, block, arch, ("x", "y", "count", "scale", "shift", "relu")))
    if spec.kind == "fused":
        return _fused(spec.k, spec.width, _head(spec, block, arch, ("x", "y", "count")))
    if spec.kind == "fat":
        return _fat(spec, _head(spec, block, arch, ("x", "y", "count", "rounds", "sentinel")))
    if spec.kind == "thin":
        return _thin(spec, _head(spec, block, arch, ("x", "y", "count", "rounds", "sentinel", "parts")))
    if spec.kind == "hold":
        return _hold(spec, _head(spec, block, arch, ("x", "y", "count", "probe", "sentinel")))
    raise CompilerMissing(
        f"{spec.kind} needs NVRTC, and cuda-core does not import here.", "Install it: pip install 'fusewise[lab]'"
    )


def _head(spec: Spec, block: int, arch: int, names: tuple[str, ...]) -> str:
    """Version, entry, registers, and the parameters loaded; `%p0` is false where this thread has no element."""
    # The oldest version that knows the target: 8.7 brought sm_120, 8.6 sm_100, 7.8 sm_90.
    version = "8.7" if arch >= 100 else "7.8"
    parameters = ", ".join(f".param .{_TYPES.get(name, _FLOAT)} {name}" for name in names)
    bound = f".maxnreg {spec.max_regs}" if spec.max_regs else f".maxntid {block}, 1, 1"
    loads = [f"ld.param.{_TYPES.get(name, _FLOAT)} %{name}, [{name}];" for name in names]
    loads += [f"cvta.to.global.u64 %{name}, %{name};" for name in names if name in ("x", "y", "probe")]
    declared = [f".reg .{_TYPES.get(name, _FLOAT).replace('u', 'b')} %{name};" for name in names]
    lines = [
        ".reg .pred %p<4>;",
        ".reg .b32 %a<6>;",
        ".reg .b64 %d<6>;",
        f".reg .f32 %v<4>, %r<{spec.live + 1}>, %sum, %from, %last;",
        *declared,
        *loads,
        "mov.u32 %a0, %ctaid.x;",
        "mov.u32 %a1, %ntid.x;",
        "mov.u32 %a2, %tid.x;",
        "mov.u32 %a3, %nctaid.x;",
        "mul.wide.u32 %d1, %a3, %a1;",  # step
        "mul.wide.u32 %d0, %a0, %a1;",
        "cvt.u64.u32 %d2, %a2;",
        "add.u64 %d0, %d0, %d2;",  # i
    ]
    return (
        f".version {version}\n.target sm_{arch}\n.address_size 64\n"
        f".visible .entry {ENTRY}({parameters}) {bound}\n{{\n{_text(lines)}"
    )


def _text(lines: list[str]) -> str:
    return "".join(f"  {line}\n" for line in lines)


def _float(value: float | np.float32) -> str:
    return f"0f{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"


def _lanes(width: int) -> str:
    names = [f"%v{lane}" for lane in range(width)]
    return names[0] if width == 1 else "{" + ", ".join(names) + "}"


def _stages(register: str, k: int) -> list[str]:
    lines = []
    for s in range(k):
        lines.append(f"fma.rn.f32 {register}, {register}, {_float(scale_of(s))}, {_float(shift_of(s))};")
        if has_relu(s):
            lines.append(f"max.f32 {register}, {register}, {_float(0)};")
    return lines


def _loop(width: int, body: list[str], before_store: list[str] | None = None) -> str:
    """The grid-stride loop: load, body, store."""
    scale = 4 * width
    lines = [
        "setp.ge.u64 %p0, %d0, %count;",
        "@%p0 bra DONE;",
        "LOOP:",
        f"mul.lo.u64 %d3, %d0, {scale};",
        "add.u64 %d4, %x, %d3;",
        f"ld.global.{_INFIX[width]} {_lanes(width)}, [%d4];",
        *body,
        *(before_store or []),
        "add.u64 %d5, %y, %d3;",
        f"st.global.{_INFIX[width]} [%d5], {_lanes(width)};",
        "add.u64 %d0, %d0, %d1;",
        "setp.lt.u64 %p0, %d0, %count;",
        '.pragma "nounroll";',
        "@%p0 bra LOOP;",
        "DONE:",
    ]
    return _text(lines)


def _stage(width: int, head: str) -> str:
    body = []
    for lane in range(width):
        body += [f"fma.rn.f32 %v{lane}, %v{lane}, %scale, %shift;", f"@%p1 max.f32 %v{lane}, %v{lane}, {_float(0)};"]
    return f"{head}{_text(['setp.ne.u32 %p1, %relu, 0;'])}{_loop(width, body)}  ret;\n}}\n"


def _fused(k: int, width: int, head: str) -> str:
    body = [line for lane in range(width) for line in _stages(f"%v{lane}", k)]
    return f"{head}{_loop(width, body)}  ret;\n}}\n"


def _probe(live: int, label: str) -> list[str]:
    made = []
    for j in range(live):
        made += [f"add.f32 %r{j}, %from, {_float(j * STEP)};", f"add.f32 %r{j}, %r{j}, %v0;"]
    turn = [f"fma.rn.f32 %r{j}, %r{j}, {_float(DECAY)}, %r{(j + 1) % live};" for j in range(live)]
    return [
        *made,
        "mov.u32 %a4, 0;",
        "setp.ge.s32 %p2, %a4, %rounds;",
        f"@%p2 bra {label}_END;",
        f"{label}:",
        *turn,
        "add.s32 %a4, %a4, 1;",
        "setp.lt.s32 %p2, %a4, %rounds;",
        '.pragma "nounroll";',
        f"@%p2 bra {label};",
        f"{label}_END:",
        *(f"add.f32 %sum, %sum, %r{j};" for j in range(live)),
    ]


_KEEP = ["setp.eq.f32 %p2, %sum, %sentinel;", "selp.f32 %v0, %sum, %v0, %p2;"]


def _fat(spec: Spec, head: str) -> str:
    start = [f"mov.f32 %sum, {_float(0)};", f"mov.f32 %from, {_float(0)};"]
    return f"{head}{_loop(1, [*_stages('%v0', spec.k), *start, *_probe(spec.live, 'ROUND')], _KEEP)}  ret;\n}}\n"


def _thin(spec: Spec, head: str) -> str:
    body = [
        *_stages("%v0", spec.k),
        f"mov.f32 %sum, {_float(0)};",
        f"mov.f32 %from, {_float(0)};",
        "mov.u32 %a5, 0;",
        "PART:",  # parts is at least 1
        *_probe(LIVE_UNIT, "ROUND"),
        f"add.f32 %from, %from, {_float(LIVE_UNIT * STEP)};",
        "add.s32 %a5, %a5, 1;",
        "setp.lt.s32 %p3, %a5, %parts;",
        '.pragma "nounroll";',
        "@%p3 bra PART;",
    ]
    return f"{head}{_loop(1, body, _KEEP)}  ret;\n}}\n"


def _hold(spec: Spec, head: str) -> str:
    loads = ["mul.wide.u32 %d2, %a2, 4;", "add.u64 %d2, %d2, %probe;", "mul.wide.u32 %d4, %a1, 4;"]
    for j in range(spec.live):
        loads += [f"ld.volatile.global.f32 %r{j}, [%d2];", "add.u64 %d2, %d2, %d4;"]
    loads.append(f"mov.f32 %last, {_float(0)};")
    total = [f"fma.rn.f32 %last, %last, {_float(DECAY)}, %r{j};" for j in range(spec.live)]
    end = [*total, "setp.eq.f32 %p2, %last, %sentinel;", "@%p2 st.global.f32 [%y], %last;", "ret;"]
    loop = _loop(1, _stages("%v0", spec.k), ["mov.f32 %last, %v0;"])
    return f"{head}{_text(loads)}{loop}{_text(end)}}}\n"
