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
    v2 = (i3).to(tl.int32)
    v4 = v2 < 64
    i9 = x // 4194304
    i10 = x // 128
    i11 = i10 % 16
    v5 = tl.load(in1 + 64 + (i3 + i9 * 4194304 + i11 * 128 + i5 * 2048), v4, other=0.0)
    v6 = lib.widen_bf16(v5)
    v7 = lib.neg(v6)
    v8 = lib.to_bf16(v7)
    v9 = v2 >= 64
    v10 = tl.load(in1 + (-64) + (i3 + i9 * 4194304 + i11 * 128 + i5 * 2048), v9, other=0.0)
    v11 = tl.where(v4, v8, v10)
    v14 = lib.mul_bf16(v11, v0)
    v16 = tl.load(in2 + (i3 + i5 * 128))
    v18 = tl.load(in1 + (i3 + i9 * 4194304 + i11 * 128 + i5 * 2048))
    v21 = lib.mul_bf16(v18, v16)
    v24 = lib.add_bf16(v21, v14)
    tl.store(out3 + (i3 + i9 * 4194304 + i11 * 128 + i5 * 2048), v24)

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
    v0 = (i3).to(tl.int32)
    v2 = v0 < 64
    i6 = x // 2048
    i7 = i6 % 2048
    v3 = tl.load(in0 + 64 + (i3 + i7 * 128), v2, other=0.0)
    i9 = x // 4194304
    i10 = x // 128
    i11 = i10 % 16
    v5 = tl.load(in1 + 64 + (i3 + i9 * 4194304 + i11 * 128 + i7 * 2048), v2, other=0.0)
    v8 = lib.mul_bf16(v5, v3)
    v9 = v0 >= 64
    v10 = tl.load(in0 + (-64) + (i3 + i7 * 128), v9, other=0.0)
    v12 = tl.load(in1 + (-64) + (i3 + i9 * 4194304 + i11 * 128 + i7 * 2048), v9, other=0.0)
    v15 = lib.mul_bf16(v12, v10)
    v16 = lib.widen_bf16(v15)
    v17 = lib.neg(v16)
    v18 = lib.to_bf16(v17)
    v19 = tl.where(v2, v8, v18)
    v21 = tl.load(in2 + (i3 + i7 * 128))
    v23 = tl.load(in1 + (i3 + i9 * 4194304 + i11 * 128 + i7 * 2048))
    v26 = lib.mul_bf16(v23, v21)
    v29 = lib.add_bf16(v26, v19)
    tl.store(out3 + (i3 + i9 * 4194304 + i11 * 128 + i7 * 2048), v29)
