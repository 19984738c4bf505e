# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_mul_add_0(in0, in1, in2, out3):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    i3 = x % 128
    i4 = x // 2048
    i5 = i4 % 2048
    v0 = tl.load(in0 + (i3 + i5 * 128))
    v4 = i3 < 64
    v5 = tl.load(in1 + 64 + x, v4, other=0.0)
    v6 = lib.widen_bf16(v5)
    v7 = lib.neg(v6)
    v8 = lib.to_bf16(v7)
    v9 = i3 >= 64
    v10 = tl.load(in1 + (-64) + x, v9, other=0.0)
    v11 = tl.where(v4, v8, v10)
    v14 = lib.mul_bf16(v11, v0)
    v16 = tl.load(in2 + (i3 + i5 * 128))
    v18 = tl.load(in1 + x)
    v21 = lib.mul_bf16(v18, v16)
    v24 = lib.add_bf16(v21, v14)
    tl.store(out3 + x, v24)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_add_0(in0, in1, in2, out3):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    i3 = x % 128
    v2 = i3 < 64
    i5 = x // 2048
    i6 = i5 % 2048
    v3 = tl.load(in0 + 64 + (i3 + i6 * 128), v2, other=0.0)
    v5 = tl.load(in1 + 64 + x, v2, other=0.0)
    v8 = lib.mul_bf16(v5, v3)
    v9 = i3 >= 64
    v10 = tl.load(in0 + (-64) + (i3 + i6 * 128), v9, other=0.0)
    v12 = tl.load(in1 + (-64) + x, v9, other=0.0)
    v15 = lib.mul_bf16(v12, v10)
    v16 = lib.widen_bf16(v15)
    v17 = lib.neg(v16)
    v18 = lib.to_bf16(v17)
    v19 = tl.where(v2, v8, v18)
    v21 = tl.load(in2 + (i3 + i6 * 128))
    v23 = tl.load(in1 + x)
    v26 = lib.mul_bf16(v23, v21)
    v29 = lib.add_bf16(v26, v19)
    tl.store(out3 + x, v29)
