# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_native_group_norm_0(in0, out1, out2, out3):
    RBLOCK: tl.constexpr = 8192
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v0 = tl.load(in0 + x * 8192 + r)
    v1 = lib.widen_bf16(v0)
    v2 = lib.reduce_sum(v1, 0, False)
    tl.store(out1 + x, v2)
    v5 = v2 / tl.full((), 8192.0, tl.float32)
    tl.store(out2 + x, v5)
    v7 = v1 - v5
    v8 = v7 * v7
    v9 = lib.reduce_sum(v8, 0, False)
    tl.store(out3 + x, v9)


@triton.jit
def fused_native_group_norm_1(in0, in1, in2, out3, out4):
    XBLOCK: tl.constexpr = 2
    RBLOCK: tl.constexpr = 8
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, RBLOCK)[None, :]
    v7 = tl.full((), 65536.0, tl.float32) - tl.full((), 0.0, tl.float32)
    v8 = v7 < 0.0
    v9 = tl.where(v8, tl.full((), 0.0, tl.float32), v7)
    v1 = tl.load(in0 + x * 8 + r)
    v2 = lib.reduce_sum(v1, 1, True)
    v3 = lib.div_by_row(v2, tl.full((), 65536.0, tl.float32))
    tl.store(out3 + x, v3)
    v10 = tl.load(in1 + x * 8 + r)
    v11 = v10 - v3
    v12 = v11 * v11
    v15 = tl.load(in2 + x * 8 + r)
    v16 = tl.fma(tl.full((), 8192.0, tl.float32), v12, v15)
    v17 = lib.reduce_sum(v16, 1, True)
    v18 = lib.div_rn(v17, v9)
    v19 = v18 + 1e-05
    v20 = lib.rsqrt_full(v19)
    tl.store(out4 + x, v20)


@triton.jit
def fused_native_group_norm_silu_keep_mul_0(in0, in1, in2, in3, in4, in5, out6):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 2)
    x0 = (pid % 2) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = lib.seed_of(in0)
    v2 = lib.keep8(v1, x0 // 8 + tl.arange(0, XBLOCK // 8) + (y * 512), 0, 58982)
    i7 = y % 512
    v5 = tl.load(in1 + i7)
    v6 = v5.to(tl.float32)
    i10 = y // 16
    v7 = tl.load(in2 + i10)
    v8 = v7 * v6
    v9 = tl.load(in3 + i10)
    v11 = tl.load(in4 + i7)
    v12 = v11.to(tl.float32)
    v13 = tl.fma(lib.neg(v9), v8, v12)
    v14 = tl.load(in5 + y * 4096 + x)
    v15 = lib.widen_bf16(v14)
    v17 = tl.fma(v15, v8, v13)
    v19 = lib.round_bf16(v17)
    v20 = lib.neg(v19)
    v21 = lib.fast_exp(v20)
    v23 = 1.0 + v21
    v24 = lib.fast_div(v19, v23)
    v26 = lib.round_bf16(v24)
    v30 = v26 * tl.where(v2, 1.1111111111111112, 0.0)
    v31 = lib.to_bf16(v30)
    tl.store(out6 + y * 4096 + x, v31)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_keep_native_dropout_backward_native_group_norm_silu_backward_0(in0, in1, in2, in3, in4, in5, in6, out7, out8):
    RBLOCK: tl.constexpr = 4096
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    i3 = x % 512
    v0 = tl.load(in0 + i3)
    v1 = v0.to(tl.float32)
    i6 = x // 16
    v2 = tl.load(in1 + i6)
    v3 = v2 * v1
    v4 = tl.load(in2 + i6)
    v6 = tl.load(in3 + i3)
    v7 = v6.to(tl.float32)
    v8 = tl.fma(lib.neg(v4), v3, v7)
    v26 = lib.seed_of(in6)
    v40 = lib.round_bf16(v2)
    v42 = lib.round_bf16(v4)
    v9 = tl.load(in4 + x * 4096 + r)
    v10 = lib.widen_bf16(v9)
    v12 = tl.fma(v10, v3, v8)
    v14 = lib.round_bf16(v12)
    v15 = lib.neg(v14)
    v16 = lib.fast_exp(v15)
    v18 = 1.0 + v16
    v19 = lib.fast_div(tl.full((), 1.0, tl.float32), v18)
    v20 = 1.0 - v19
    v22 = tl.fma(v14, v20, tl.full((), 1.0, tl.float32))
    v24 = tl.load(in5 + x * 4096 + r)
    v25 = lib.widen_bf16(v24)
    v27 = lib.keep8(v26, tl.arange(0, RBLOCK // 8) + (x * 512), 0, 58982)
    v30 = v25 * tl.where(v27, 1.1111111111111112, 0.0)
    v32 = lib.round_bf16(v30)
    v33 = v32 * v19
    v34 = v33 * v22
    v36 = lib.round_bf16(v34)
    v43 = v10 - v42
    v44 = v36 * v43
    v37 = lib.reduce_sum(v36, 0, False)
    v45 = lib.reduce_sum(v44, 0, False)
    tl.store(out7 + x, v37)
    v46 = v45 * v40
    tl.store(out8 + x, v46)


@triton.jit
def fused_native_group_norm_backward_0(in0, in1, in2, in3, out4, out5, out6, out7):
    LBLOCK: tl.constexpr = 16
    RBLOCK: tl.constexpr = 16
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)[None, :]
    v4 = tl.load(in1 + x * 16 + r)
    v5 = lib.widen_bf16(v4)
    a19 = tl.full([LBLOCK, RBLOCK], 0.0, tl.float32)
    a21 = tl.full([LBLOCK, RBLOCK], 0.0, tl.float32)
    for l0 in tl.range(0, 16, LBLOCK, num_stages=3):
        l = l0 + tl.arange(0, LBLOCK)[:, None]
        v0 = tl.load(in0 + x + l * 32)
        v2 = lib.round_bf16(v0)
        v6 = tl.load(in2 + x * 16 + l * 512 + r)
        v7 = v6 * v5
        v13 = tl.load(in3 + x * 16 + l * 512 + r)
        v14 = v13 * v5
        a19 = a19 + v6
        a21 = a21 + v13
        v8 = lib.reduce_sum(v7, 1, True)
        v15 = lib.reduce_sum(v14, 1, True)
        v9 = lib.div_by_row(v8, tl.full((), 65536.0, tl.float32))
        v10 = v9 * v2
        v11 = v10 * v2
        tl.store(out4 + x + l * 32, v11)
        v16 = lib.div_by_row(v15, tl.full((), 65536.0, tl.float32))
        v17 = v16 * v2
        tl.store(out5 + x + l * 32, v17)
    v19 = lib.reduce_sum(a19, 0, True)
    v21 = lib.reduce_sum(a21, 0, True)
    tl.store(out6 + x * 16 + r, v19)
    tl.store(out7 + x * 16 + r, v21)


@triton.jit
def fused_native_group_norm_backward_1(in0, in1, in2, in3, in4, in5, in6, in7, in8, out9):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 2)
    x0 = (pid % 2) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    i5 = y // 16
    v0 = tl.load(in0 + i5)
    v1 = tl.load(in1 + i5)
    v2 = tl.load(in2 + i5)
    v4 = lib.round_bf16(v2)
    v5 = tl.load(in3 + y * 4096 + x)
    v6 = lib.widen_bf16(v5)
    v7 = v6 - v4
    v9 = tl.fma(v7, v1, v0)
    v10 = tl.load(in4 + i5)
    v12 = lib.round_bf16(v10)
    i16 = y % 512
    v13 = tl.load(in5 + i16)
    v14 = v13.to(tl.float32)
    v15 = v14 * v12
    v16 = v10 * v14
    v18 = tl.load(in6 + i16)
    v19 = v18.to(tl.float32)
    v20 = tl.fma(lib.neg(v2), v16, v19)
    v22 = tl.fma(v6, v16, v20)
    v24 = lib.round_bf16(v22)
    v25 = lib.neg(v24)
    v26 = lib.fast_exp(v25)
    v28 = 1.0 + v26
    v29 = lib.fast_div(tl.full((), 1.0, tl.float32), v28)
    v30 = 1.0 - v29
    v32 = tl.fma(v24, v30, tl.full((), 1.0, tl.float32))
    v34 = tl.load(in7 + y * 4096 + x)
    v35 = lib.widen_bf16(v34)
    v36 = lib.seed_of(in8)
    v37 = lib.keep8(v36, x0 // 8 + tl.arange(0, XBLOCK // 8) + (y * 512), 0, 58982)
    v40 = v35 * tl.where(v37, 1.1111111111111112, 0.0)
    v42 = lib.round_bf16(v40)
    v43 = v42 * v29
    v44 = v43 * v32
    v46 = lib.round_bf16(v44)
    v48 = tl.fma(v46, v15, lib.neg(v9))
    v49 = lib.to_bf16(v48)
    tl.store(out9 + y * 4096 + x, v49)


@triton.jit
def fused_native_group_norm_backward_2(in0, out1):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + x)
    v1 = lib.to_bf16(v0)
    tl.store(out1 + x, v1)


@triton.jit
def fused_native_group_norm_backward_3(in0, out1):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + x)
    v1 = lib.to_bf16(v0)
    tl.store(out1 + x, v1)
