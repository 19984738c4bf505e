"""The lab's GPU kernels in CUDA C++, for NVRTC: no header is needed.

Every kernel covers `count` vectors of `width` floats in a grid-stride loop that is not unrolled: a thread has one load
in flight, so that bytes in flight are residency x width and nothing else. Each multiply-add is written as one fused
multiply-add, so that naive and fused round alike and both equal `chain.expected` bit for bit.
"""

from __future__ import annotations

import numpy as np

from fusewise.lab.chain import has_relu, scale_of, shift_of
from fusewise.lab.spec import LIVE_UNIT, Spec

DECAY, STEP = 0.5, 1.0
"""The probe: value j starts at v + j x STEP, and a round sets each to DECAY x itself + its neighbour."""

_VECTORS = {1: "float", 2: "float2", 4: "float4"}
_LANES = {1: ("",), 2: (".x", ".y"), 4: (".x", ".y", ".z", ".w")}
_LOOP = (
    "  const long long step = (long long)gridDim.x * blockDim.x;\n"
    "  #pragma unroll 1\n"
    "  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {\n"
)


def literal(value: float | np.float32) -> str:
    """A C++ literal with exactly these bits."""
    return f"{float(value).hex()}f"


def stages(name: str, first: int, last: int) -> str:
    """Stages `first` to `last` - 1 on the variable `name`."""
    lines = []
    for s in range(first, last):
        lines.append(f"    {name} = __fmaf_rn({literal(scale_of(s))}, {name}, {literal(shift_of(s))});")
        if has_relu(s):
            lines.append(f"    {name} = fmaxf({name}, 0.0f);")
    return "\n".join(lines)


def stage(width: int, block: int) -> str:
    """One stage: x, y, count, scale, shift, relu."""
    body = "\n".join(
        f"    v{lane} = __fmaf_rn(scale, v{lane}, shift);\n    if (relu) v{lane} = fmaxf(v{lane}, 0.0f);"
        for lane in _LANES[width]
    )
    vector = _VECTORS[width]
    return (
        f"{_head(block, f'const {vector}* x, {vector}* y, long long count, float scale, float shift, int relu')}"
        f"{_LOOP}    {vector} v = x[i];\n{body}\n    y[i] = v;\n  }}\n}}\n"
    )


def fused(k: int, width: int, block: int) -> str:
    """The whole chain: x, y, count."""
    vector = _VECTORS[width]
    body = "\n".join(stages(f"v{lane}", 0, k) for lane in _LANES[width])
    return (
        f"{_head(block, f'const {vector}* x, {vector}* y, long long count')}"
        f"{_LOOP}    {vector} v = x[i];\n{body}\n    y[i] = v;\n  }}\n}}\n"
    )


def fat(k: int, live: int, block: int) -> str:
    """The chain and `live` values that feed each other for each element: x, y, count, rounds, sentinel.

    The rounds are a loop whose length only the caller knows: it is not unrolled, and every value lives across it.
    """
    return (
        f"{_head(block, 'const float* x, float* y, long long count, int rounds, float sentinel')}{_LOOP}"
        f"    float v = x[i];\n{stages('v', 0, k)}\n    float sum = 0.0f;\n{_probe(live, '0.0f')}"
        "    y[i] = sum == sentinel ? sum : v;\n  }\n}\n"
    )


def thin(k: int, live: int, block: int) -> str:
    """The arithmetic of `fat`, with 8 values at a time: x, y, count, rounds, sentinel, parts (live / 8)."""
    return (
        f"{_head(block, 'const float* x, float* y, long long count, int rounds, float sentinel, int parts')}{_LOOP}"
        f"    float v = x[i];\n{stages('v', 0, k)}\n    float sum = 0.0f, from = 0.0f;\n"
        "    #pragma unroll 1\n    for (int part = 0; part < parts; ++part) {\n"
        f"{_probe(LIVE_UNIT, 'from')}    from += {literal(LIVE_UNIT * STEP)};\n    }}\n"
        "    y[i] = sum == sentinel ? sum : v;\n  }\n}\n"
    )


def hold(k: int, live: int, block: int) -> str:
    """The chain, and `live` values alive over the loop that it does not use: x, y, count, probe, sentinel.

    They are loaded before the loop (`live` x threads a block floats). Their sum starts from the loop's last value, so
    that none of it can be made before; loads from volatile memory cannot be put off.
    """
    values = "\n".join(f"  const float r{j} = held[{j} * blockDim.x];" for j in range(live))
    total = "\n".join(f"  last = __fmaf_rn(last, {literal(DECAY)}, r{j});" for j in range(live))
    return (
        f"{_head(block, 'const float* x, float* y, long long count, const volatile float* probe, float sentinel')}"
        f"  const volatile float* held = probe + threadIdx.x;\n{values}\n  float last = 0.0f;\n{_LOOP}"
        f"    float v = x[i];\n{stages('v', 0, k)}\n    y[i] = v;\n    last = v;\n  }}\n"
        f"{total}\n  if (last == sentinel) y[0] = last;\n}}\n"
    )


def fat_published(k: int, live: int, block: int) -> str:
    """The published probe as it is described: `live` values an element, added to one place: x, y, count, sink."""
    values = "\n".join(
        f"    const float t{j} = __fmaf_rn(v, {literal(1 + j / 64)}, {literal(j / 64)});" for j in range(live)
    )
    total = " + ".join(f"t{j} * t{(j + 1) % live}" for j in range(live))
    return (
        f"{_head(block, 'const float* x, float* y, long long count, float* sink')}  float sum = 0.0f;\n{_LOOP}"
        f"    float v = x[i];\n{stages('v', 0, k)}\n{values}\n    sum += {total};\n    y[i] = v;\n  }}\n"
        "  atomicAdd(sink, sum);\n}\n"
    )


def first_phase(k: int, block: int) -> str:
    """The first half of the stages: x, t, count."""
    return (
        f"{_head(block, 'const float* x, float* t, long long count')}{_LOOP}"
        f"    float v = x[i];\n{stages('v', 0, k // 2)}\n    t[i] = v;\n  }}\n}}\n"
    )


def second_phase(k: int, block: int) -> str:
    """The other half, of elements that other blocks have written: t, y, count, half."""
    return f"{_head(block, 'const float* t, float* y, long long count, long long half')}{_second(k, 't[{}]')}}}\n"


def both_phases(k: int, block: int) -> str:
    """Both phases and a barrier across the grid between them: x, t, y, count, half, arrived.

    The barrier adds 1 for each block and, for the first, what flips bit 31 once all have arrived: it needs no reset.
    Every block must be resident, which a cooperative launch guarantees. The second phase reads past the L1 cache, which
    does not see other SMs' writes.
    """
    arguments = "const float* x, float* t, float* y, long long count, long long half, unsigned* arrived"
    barrier = (
        "  __threadfence();\n  __syncthreads();\n  if (threadIdx.x == 0) {\n"
        "    const unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;\n"
        "    const unsigned before = atomicAdd(arrived, add);\n"
        "    while (((before ^ *(volatile unsigned*)arrived) & 0x80000000u) == 0) {}\n"
        "    __threadfence();\n  }\n  __syncthreads();\n"
    )
    return (
        f"{_head(block, arguments)}{_LOOP}    float v = x[i];\n{stages('v', 0, k // 2)}\n    t[i] = v;\n  }}\n"
        f"{barrier}  {{\n{_second(k, '__ldcg(t + {})')}  }}\n}}\n"
    )


def _second(k: int, load: str) -> str:
    place = "i + half < count ? i + half : i + half - count"
    return f"{_LOOP}    float v = {load.format(f'({place})')};\n{stages('v', k // 2, k)}\n    y[i] = v;\n  }}\n"


def _probe(live: int, start: str) -> str:
    """`live` values: made from v, `rounds` rounds, added to `sum`."""
    made = "\n".join(f"    float r{j} = v + ({start} + {literal(j * STEP)});" for j in range(live))
    turn = "\n".join(f"      r{j} = __fmaf_rn(r{j}, {literal(DECAY)}, r{(j + 1) % live});" for j in range(live))
    total = "\n".join(f"    sum += r{j};" for j in range(live))
    return (
        f"{made}\n    #pragma unroll 1\n    for (int round = 0; round < rounds; ++round) {{\n{turn}\n    }}\n{total}\n"
    )


def _head(block: int, arguments: str) -> str:
    bounds = f"__launch_bounds__({block}) " if block else ""
    return f'extern "C" __global__ void {bounds}lab_kernel({arguments}) {{\n'


ENTRY = "lab_kernel"


def source_of(spec: Spec, block: int, phase: int = 0) -> str:
    """CUDA C++ of one kernel of a row.

    Args:
        block: threads a block, the most that the kernel is compiled for; not told where registers are capped, since
            launch bounds override a cap.
        phase: of a row with two kernels: 0 or 1.
    """
    block = 0 if spec.max_regs else block
    if spec.kind.startswith("naive"):
        return stage(spec.width, block)
    if spec.kind in ("phases_two", "phases_graph"):
        return (first_phase, second_phase)[phase](spec.k, block)
    if spec.kind == "phases_one":
        return both_phases(spec.k, block)
    if spec.kind == "fused":
        return fused(spec.k, spec.width, block)
    makers = {"fat": fat, "thin": thin, "hold": hold, "fat_published": fat_published}
    return makers[spec.kind](spec.k, spec.live, block)
