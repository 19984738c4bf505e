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
    v7 = tl.load(in1 + i3)
    i5 = x % 2048
    v14 = (i5).to(tl.int64)
    v15 = v14 * 1
    v16 = 0 + v15
    i9 = x // 2048
    i10 = i9 % 16
    v1 = tl.load(in0 + (i5 * 2048 + i3 * 67108864 + i10 * 4194304) + r)
    v4 = lib.mul_bf16(v1, tl.full((), 0.125, tl.float32).to(tl.bfloat16))
    v5 = lib.widen_bf16(v4)
    v9 = (r).to(tl.int64)
    v10 = v9 * 1
    v12 = 0 + v10
    v13 = v12 >= v7
    v17 = v12 > v16
    v18 = v17 | v13
    v19 = tl.where(v18, tl.full((), float("-inf"), tl.float32), v5)
    v21 = lib.round_bf16(v19)
    v22 = lib.reduce_max(v21, 0, False)
    v23 = v21 - v22
    v24 = lib.fast_exp(v23)
    v25 = lib.reduce_sum(v24, 0, False)
    v26 = lib.div_by_row(v24, v25)
    v27 = lib.to_bf16(v26)
    tl.store(out2 + (i5 * 2048 + i3 * 67108864 + i10 * 4194304) + r, v27)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_softmax_backward_data_masked_fill_mul_0(in0, in1, in2, out3):
    RBLOCK: tl.constexpr = 2048
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    i3 = x // 32768
    v12 = tl.load(in2 + i3)
    i5 = x % 2048
    v19 = (i5).to(tl.int64)
    v20 = v19 * 1
    v21 = 0 + v20
    i9 = x // 2048
    i10 = i9 % 16
    v1 = tl.load(in0 + (i5 * 2048 + i3 * 67108864 + i10 * 4194304) + r)
    v2 = lib.widen_bf16(v1)
    v3 = tl.load(in1 + (i5 * 2048 + i3 * 67108864 + i10 * 4194304) + r)
    v4 = lib.widen_bf16(v3)
    v5 = v4 * v2
    v6 = lib.reduce_sum(v5, 0, False)
    v7 = lib.neg(v2)
    v8 = tl.fma(v7, v6, v5)
    v10 = lib.round_bf16(v8)
    v14 = (r).to(tl.int64)
    v15 = v14 * 1
    v17 = 0 + v15
    v18 = v17 >= v12
    v22 = v17 > v21
    v23 = v22 | v18
    v24 = tl.where(v23, tl.full((), 0.0, tl.float32), v10)
    v25 = lib.to_bf16(v24)
    v28 = lib.mul_bf16(v25, tl.full((), 0.125, tl.float32).to(tl.bfloat16))
    tl.store(out3 + (i5 * 2048 + i3 * 67108864 + i10 * 4194304) + r, v28)
