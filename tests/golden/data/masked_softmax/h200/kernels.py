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
    v6 = (i5).to(tl.int64)
    v7 = 0 + v6
    v2 = (r).to(tl.int64)
    v4 = 0 + v2
    v5 = v4 >= v1
    v8 = v4 > v7
    v9 = v8 | v5
    v10 = ~v9
    i14 = x // 2048
    i15 = i14 % 16
    v11 = tl.load(in0 + (i5 * 2048 + i3 * 67108864 + i15 * 4194304) + r, v10, other=0.0)
    v14 = lib.mul_bf16(v11, tl.full((), 0.125, tl.float32).to(tl.bfloat16))
    v15 = lib.widen_bf16(v14)
    v17 = tl.where(v9, tl.full((), float("-inf"), tl.float32), v15)
    v19 = lib.round_bf16(v17)
    v20 = lib.reduce_max(v19, 0, False)
    v21 = v19 - v20
    v22 = lib.fast_exp(v21)
    v23 = lib.reduce_sum(v22, 0, False)
    v24 = lib.div_by_row(v22, v23)
    v25 = lib.to_bf16(v24)
    tl.store(out2 + (i5 * 2048 + i3 * 67108864 + i15 * 4194304) + r, v25)

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
    v17 = (i5).to(tl.int64)
    v18 = 0 + v17
    i8 = x // 2048
    i9 = i8 % 16
    v1 = tl.load(in0 + (i5 * 2048 + i3 * 67108864 + i9 * 4194304) + r)
    v2 = lib.widen_bf16(v1)
    v3 = tl.load(in1 + (i5 * 2048 + i3 * 67108864 + i9 * 4194304) + r)
    v4 = lib.widen_bf16(v3)
    v5 = v4 * v2
    v6 = lib.reduce_sum(v5, 0, False)
    v7 = lib.neg(v2)
    v8 = tl.fma(v7, v6, v5)
    v10 = lib.round_bf16(v8)
    v13 = (r).to(tl.int64)
    v15 = 0 + v13
    v16 = v15 >= v12
    v19 = v15 > v18
    v20 = v19 | v16
    v21 = tl.where(v20, tl.full((), 0.0, tl.float32), v10)
    v22 = lib.to_bf16(v21)
    v25 = lib.mul_bf16(v22, tl.full((), 0.125, tl.float32).to(tl.bfloat16))
    tl.store(out3 + (i5 * 2048 + i3 * 67108864 + i9 * 4194304) + r, v25)
