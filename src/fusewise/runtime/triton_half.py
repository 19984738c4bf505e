"""16-bit floats, two in one instruction where the compiler by itself would take one at a time."""

# No `from __future__ import annotations`: Triton reads the annotations of constexpr parameters.

import numpy as np
import triton.language as tl

from fusewise.runtime.triton_interpret import INTERPRETED, from_libdevice, jit, round_to_bf16


@from_libdevice(round_to_bf16)
def round_bf16(x: tl.tensor) -> tl.tensor:
    """f32 rounded to the nearest bf16, ties to even, as f32. A single conversion runs at a quarter of the rate."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 t; cvt.rn.bf16x2.f32 t, $3, $2; shl.b32 $0, t, 16; and.b32 $1, t, 0xffff0000; }",
        "=r,=r,r,r",
        [x],
        dtype=tl.float32,
        is_pure=True,
        pack=2,
    )


@from_libdevice(lambda x: x.astype(np.float16))
def round_f16(x: tl.tensor) -> tl.tensor:
    """f32 rounded to the nearest f16, ties to even, as f32."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 t; .reg .b16 l, h; cvt.rn.f16x2.f32 t, $3, $2; mov.b32 {l, h}, t;"
        " cvt.f32.f16 $0, l; cvt.f32.f16 $1, h; }",
        "=r,=r,r,r",
        [x],
        dtype=tl.float32,
        is_pure=True,
        pack=2,
    )


@from_libdevice(lambda x: x, tl.float32)
def widen_bf16(x: tl.tensor) -> tl.tensor:
    """bf16 to f32."""
    return tl.inline_asm_elementwise(
        "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000;", "=r,=r,r", [x], dtype=tl.float32, is_pure=True, pack=2
    )


@from_libdevice(np.add)
def add_bf16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x + y, rounded once. Not every GPU adds bf16, but all from cc 8.0 have its fma."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 one; mov.b32 one, 0x3f803f80; fma.rn.bf16x2 $0, $1, one, $2; }",
        "=r,r,r",
        [x, y],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=2,
    )


@from_libdevice(np.subtract)
def sub_bf16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x - y, rounded once."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 m; mov.b32 m, 0xbf80bf80; fma.rn.bf16x2 $0, $2, m, $1; }",
        "=r,r,r",
        [x, y],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=2,
    )


@from_libdevice(np.multiply)
def mul_bf16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x * y, rounded once; -0 is what changes no product."""
    return tl.inline_asm_elementwise(
        "{ .reg .b32 z; mov.b32 z, 0x80008000; fma.rn.bf16x2 $0, $1, $2, z; }",
        "=r,r,r",
        [x, y],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=2,
    )


@from_libdevice(np.minimum)
def minimum_bf16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The smaller one; NaN where one is NaN."""
    return tl.inline_asm_elementwise(
        "min.NaN.bf16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.bfloat16, is_pure=True, pack=2
    )


@from_libdevice(np.maximum)
def maximum_bf16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The larger one; NaN where one is NaN."""
    return tl.inline_asm_elementwise(
        "max.NaN.bf16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.bfloat16, is_pure=True, pack=2
    )


@jit
def scale_bf16(x: tl.tensor, scale: tl.constexpr) -> tl.tensor:
    """bf16 x * scale, where bf16 does not hold the scale: off by 2^-16 of the result before it is rounded.

    scale = high + low, cut off toward 0, so that both products of an infinity have one sign.
    """
    high = tl.full((), scale, tl.float32).to(tl.int32, bitcast=True) & -65536
    low = tl.full((), scale, tl.float32) - high.to(tl.float32, bitcast=True)
    return _fma_bf16(x, to_bf16(high.to(tl.float32, bitcast=True)), mul_bf16(x, to_bf16(low)))


@from_libdevice(lambda x, y, z: x * y + z)
def _fma_bf16(x: tl.tensor, y: tl.tensor, z: tl.tensor) -> tl.tensor:
    return tl.inline_asm_elementwise(
        "fma.rn.bf16x2 $0, $1, $2, $3;", "=r,r,r,r", [x, y, z], dtype=tl.bfloat16, is_pure=True, pack=2
    )


@from_libdevice(np.minimum)
def minimum_f16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The smaller one; NaN where one is NaN."""
    return tl.inline_asm_elementwise(
        "min.NaN.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2
    )


@from_libdevice(np.maximum)
def maximum_f16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """The larger one; NaN where one is NaN."""
    return tl.inline_asm_elementwise(
        "max.NaN.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2
    )


@from_libdevice(np.add)
def add_f16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x + y, rounded once."""
    return tl.inline_asm_elementwise(
        "add.rn.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2
    )


@from_libdevice(np.subtract)
def sub_f16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x - y, rounded once."""
    return tl.inline_asm_elementwise(
        "sub.rn.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2
    )


@from_libdevice(np.multiply)
def mul_f16(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x * y, rounded once."""
    return tl.inline_asm_elementwise(
        "mul.rn.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2
    )


@jit
def to_bf16(x: tl.tensor) -> tl.tensor:
    """f32 to bf16, to nearest even."""
    if INTERPRETED:  # whose conversion cuts off
        x = round_bf16(x)
    return x.to(tl.bfloat16)


@jit
def to_f16(x: tl.tensor) -> tl.tensor:
    """f32 to f16, to nearest even."""
    return x.to(tl.float16)
