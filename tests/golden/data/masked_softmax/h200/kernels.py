# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_mul_masked_fill__softmax_0(in0, in1, out2):
    RBLOCK: tl.constexpr = 2048
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    i3 = x // 32768
    v1 = tl.load(in1 + i3)
    i5 = x % 2048
    v3 = r >= lib.clamp_i32(v1)
    v5 = r > i5
    v6 = v5 | v3
    i9 = r // 8
    v7 = i9 * 8
    v8 = v7 <= i5
    v9 = i9 * 8
    v10 = v9 < lib.clamp_i32(v1)
    v11 = v8 & v10
    v12 = tl.load(in0 + x * 2048 + r, v11, other=0.0)
    v15 = lib.mul_bf16(v12, tl.full((), 0.125, tl.float32).to(tl.bfloat16))
    v16 = lib.widen_bf16(v15)
    v18 = tl.where(v6, tl.full((), float("-inf"), tl.float32), v16)
    v21 = lib.reduce_max(v18, 0, False)
    v22 = v18 - v21
    v23 = lib.fast_exp(v22)
    v24 = lib.reduce_sum(v23, 0, False)
    v25 = lib.div_by_row(v23, v24)
    v26 = lib.to_bf16(v25)
    tl.store(out2 + x * 2048 + r, v26)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_masked_fill__softmax_backward_data_mul_0(in0, in1, in2, out3):
    RBLOCK: tl.constexpr = 2048
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    i3 = x // 32768
    v1 = tl.load(in1 + i3)
    i5 = x % 2048
    v3 = r >= lib.clamp_i32(v1)
    v5 = r > i5
    v6 = v5 | v3
    i9 = r // 8
    v7 = i9 * 8
    v8 = v7 <= i5
    v9 = i9 * 8
    v10 = v9 < lib.clamp_i32(v1)
    v11 = v8 & v10
    v12 = tl.load(in0 + x * 2048 + r, v11, other=0.0)
    v13 = lib.widen_bf16(v12)
    v15 = tl.where(v6, tl.full((), 0.0, tl.float32), v13)
    v18 = tl.load(in2 + x * 2048 + r)
    v19 = lib.widen_bf16(v18)
    v20 = v19 * v15
    v21 = lib.reduce_sum(v20, 0, False)
    v22 = lib.neg(v15)
    v23 = tl.fma(v22, v21, v20)
    v25 = lib.round_bf16(v23)
    v26 = tl.where(v6, tl.full((), 0.0, tl.float32), v25)
    v27 = lib.to_bf16(v26)
    v30 = lib.mul_bf16(v27, tl.full((), 0.125, tl.float32).to(tl.bfloat16))
    tl.store(out3 + x * 2048 + r, v30)
