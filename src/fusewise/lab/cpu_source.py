"""The lab's kernels in C++ for this CPU: the same rows as on a GPU, with a vector register where the GPU has a thread.

Every function takes addresses and sizes. `lanes` is the number of floats of one memory access. A stage is a product and
a sum, each rounded (the build contracts nothing), so that every row equals `chain.expected` bit for bit.
"""

from __future__ import annotations

from fusewise.lab.chain import has_relu, scale_of, shift_of
from fusewise.lab.cuda_source import DECAY, STEP, literal
from fusewise.lab.spec import LIVE_UNIT, Spec

ENTRY = "lab_kernel"
SENTINEL_BITS = 0x7FC00000
"""NaN: equal to nothing. It arrives as an argument, so that the compiler must hold the probe's sum against it."""

_HEAD = """#include <cstdint>
#include <cstring>
#include <omp.h>

typedef float vec __attribute__((vector_size({size}), aligned(4), may_alias));
static constexpr int64_t lanes = {lanes};
static inline vec load(const float* p) {{ return *(const vec*)p; }}
static inline void store(float* p, vec v) {{ *(vec*)p = v; }}
static inline vec all(float value) {{ return value - vec{{}}; }}

"""
_PART = "schedule(static)"


def source_of(spec: Spec) -> str:
    """C++ of one row's kernel: `lab_kernel`, whose arguments `cpu` knows. The row's width is the vector's."""
    lanes = spec.width
    head = _HEAD.format(size=4 * lanes, lanes=lanes)
    if spec.kind in ("naive", "naive_copies"):
        return head + _naive(spec)
    if spec.kind == "naive_graph":
        return head + _one_region(spec)
    if spec.kind == "fused":
        return head + _scalar_if(lanes) + _fused(spec)
    if spec.kind == "fat":
        return head + _fat(spec)
    if spec.kind == "thin":
        return head + _thin(spec)
    return head + _phases(spec, one_region=spec.kind == "phases_one")


def _scalar_if(lanes: int) -> str:
    """At one lane, keep the compiler from making vectors of its own."""
    return '#pragma GCC optimize("no-tree-vectorize")\n' if lanes == 1 else ""


def stages(first: int, last: int, indent: str) -> str:
    """Stages `first` to `last` - 1 on the vector `v`."""
    lines = []
    for s in range(first, last):
        lines.append(f"{indent}v = all({literal(scale_of(s))}) * v + all({literal(shift_of(s))});")
        if has_relu(s):
            lines.append(f"{indent}v = v > all(0.0f) ? v : all(0.0f);")
    return "\n".join(lines)


def _loop(source: str, target: str, body: str, pragma: str) -> str:
    """One pass over n elements."""
    return (
        f"  {pragma} {_PART}\n  for (int64_t i = 0; i < n; i += lanes) {{\n"
        f"    vec v = load({source} + i);\n{body}\n    store({target} + i, v);\n  }}\n"
    )


def _entry(arguments: str) -> str:
    return f'extern "C" int64_t {ENTRY}({arguments}) {{\n'


def _copy(source: str, target: str) -> str:
    return _loop(source, target, "", "#pragma omp parallel for")


def places(spec: Spec) -> list[tuple[str, str]]:
    """Source and target buffer of each stage of a naive row; the last target holds the result, or is copied to y."""
    found = []
    source, target = ("a", "b") if spec.kind == "naive_copies" else ("x", "a")
    for _ in range(spec.k):
        found.append((source, target))
        source, target = target, "a" if target == "b" else "b"
    return found


def _naive(spec: Spec) -> str:
    copies = spec.kind == "naive_copies"
    passes = [_copy("x", "a")] if copies else []
    for s, (source, target) in enumerate(places(spec)):
        passes.append(_loop(source, target, stages(s, s + 1, "    "), "#pragma omp parallel for"))
    if copies and places(spec)[-1][1] == "a":
        passes.append(_copy("a", "y"))
    return f"{_entry('const float* x, float* a, float* b, float* y, int64_t n')}{''.join(passes)}  return 0;\n}}\n"


def _one_region(spec: Spec) -> str:
    """The same passes in one parallel region, which threads enter once: the passes without their launches."""
    passes = [
        _loop(source, target, stages(s, s + 1, "    "), "#pragma omp for")
        for s, (source, target) in enumerate(places(spec))
    ]
    return (
        f"{_entry('const float* x, float* a, float* b, float* y, int64_t n')}"
        f"  #pragma omp parallel\n  {{\n{''.join(passes)}  }}\n  return 0;\n}}\n"
    )


def _fused(spec: Spec) -> str:
    loop = _loop("x", "y", stages(0, spec.k, "    "), "#pragma omp parallel for")
    return f"{_entry('const float* x, float* a, float* b, float* y, int64_t n')}{loop}  return 0;\n}}\n"


_PROBED = (
    "const float* x, float* a, float* b, float* y, int64_t n, int64_t rounds, int64_t sentinel_bits, int64_t parts"
)
_SENTINEL = (
    "  const uint32_t bits = (uint32_t)sentinel_bits;\n  float number;\n  memcpy(&number, &bits, 4);\n"
    "  const vec sentinel = all(number);\n"
)
_KEEP = "    v = sum == sentinel ? sum : v;"


def _fat(spec: Spec) -> str:
    body = f"{stages(0, spec.k, '    ')}\n    vec sum = all(0.0f), from = all(0.0f);\n{_probe(spec.live)}{_KEEP}"
    return f"{_entry(_PROBED)}{_SENTINEL}{_loop('x', 'y', body, '#pragma omp parallel for')}  return 0;\n}}\n"


def _thin(spec: Spec) -> str:
    body = (
        f"{stages(0, spec.k, '    ')}\n    vec sum = all(0.0f), from = all(0.0f);\n"
        "    #pragma GCC unroll 1\n    for (int64_t part = 0; part < parts; ++part) {\n"
        f"{_probe(LIVE_UNIT)}    from += all({literal(LIVE_UNIT * STEP)});\n    }}\n{_KEEP}"
    )
    return f"{_entry(_PROBED)}{_SENTINEL}{_loop('x', 'y', body, '#pragma omp parallel for')}  return 0;\n}}\n"


def _probe(live: int) -> str:
    """`live` vectors: made from v, `rounds` rounds in which each is fed by its neighbour, added to `sum`."""
    made = "\n".join(f"    vec r{j} = v + (from + all({literal(j * STEP)}));" for j in range(live))
    turn = "\n".join(f"      r{j} = r{j} * all({literal(DECAY)}) + r{(j + 1) % live};" for j in range(live))
    total = "\n".join(f"    sum += r{j};" for j in range(live))
    return (
        f"{made}\n    #pragma GCC unroll 1\n    for (int64_t round = 0; round < rounds; ++round) {{\n{turn}\n    }}\n"
        f"{total}\n"
    )


def _phases(spec: Spec, one_region: bool) -> str:
    """The second phase reads what another thread wrote: element i needs element i + n / 2 of the first."""
    pragma = "#pragma omp for" if one_region else "#pragma omp parallel for"
    half = spec.k // 2
    first = _loop("x", "a", stages(0, half, "    "), pragma)
    second = _loop("far", "y", stages(half, spec.k, "    "), pragma).replace(
        "load(far + i)", "load(a + (i + n / 2 < n ? i + n / 2 : i - n / 2))"
    )
    passes = f"  #pragma omp parallel\n  {{\n{first}{second}  }}\n" if one_region else first + second
    return f"{_entry('const float* x, float* a, float* b, float* y, int64_t n')}{passes}  return 0;\n}}\n"
