# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_silu_mul_0(in0, in1, out2):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + x)
    v2 = tl.load(in1 + x)
    v3 = lib.widen_bf16(v2)
    v4 = lib.neg(v3)
    v5 = lib.fast_exp(v4)
    v7 = 1.0 + v5
    v8 = lib.fast_div(v3, v7)
    v9 = lib.to_bf16(v8)
    v12 = lib.mul_bf16(v9, v0)
    tl.store(out2 + x, v12)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_silu_mul_silu_backward_0(in0, in1, in2, out3, out4):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + x)
    v1 = lib.widen_bf16(v0)
    v2 = lib.neg(v1)
    v3 = lib.fast_exp(v2)
    v5 = 1.0 + v3
    v6 = lib.fast_div(v1, v5)
    v7 = lib.to_bf16(v6)
    v9 = tl.load(in1 + x)
    v12 = lib.mul_bf16(v9, v7)
    tl.store(out3 + x, v12)
    v14 = lib.fast_div(tl.full((), 1.0, tl.float32), v5)
    v15 = 1.0 - v14
    v17 = tl.fma(v1, v15, tl.full((), 1.0, tl.float32))
    v18 = tl.load(in2 + x)
    v21 = lib.mul_bf16(v9, v18)
    v22 = lib.widen_bf16(v21)
    v23 = v22 * v14
    v24 = v23 * v17
    v25 = lib.to_bf16(v24)
    tl.store(out4 + x, v25)
