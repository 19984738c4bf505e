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
def fused_native_group_norm_detach_0(in0, in1, in2, out3, out4, out5, out6):
    XBLOCK: tl.constexpr = 2
    RBLOCK: tl.constexpr = 8
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    r = tl.arange(0, RBLOCK)[:, None]
    v1 = tl.load(in0 + r + x * 8)
    v2 = lib.reduce_sum(v1, 0, True)
    v3 = lib.div_by_row(v2, tl.full((), 65536.0, tl.float32))
    tl.store(out3 + x, v3)
    v18 = lib.to_bf16(v3)
    tl.store(out5 + x, v18)
    v6 = tl.load(in1 + r + x * 8)
    v7 = v6 - v3
    v8 = v7 * v7
    v11 = tl.load(in2 + r + x * 8)
    v12 = tl.fma(tl.full((), 8192.0, tl.float32), v8, v11)
    v13 = lib.reduce_sum(v12, 0, True)
    v14 = lib.div_by_row(v13, tl.full((), 65536.0, tl.float32))
    v15 = v14 + 1e-05
    v16 = lib.rsqrt_full(v15)
    tl.store(out4 + x, v16)
    v20 = lib.to_bf16(v16)
    tl.store(out6 + x, v20)


@triton.jit
def fused_sub_mul_add__to_copy_0(in0, in1, in2, in3, in4, in5, out6):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 2)
    x0 = (pid % 2) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = tl.load(in0)
    v2 = lib.keep8(v1, x0 // 8 + tl.arange(0, XBLOCK // 8) + (y * 512), 0, 58982)
    i7 = y % 512
    v5 = tl.load(in1 + i7)
    v6 = v5.to(tl.float32)
    v7 = tl.load(in2 + i7)
    v8 = v7.to(tl.float32)
    i12 = y // 16
    v9 = tl.load(in3 + i12)
    v11 = tl.load(in4 + i12)
    v13 = tl.load(in5 + y * 4096 + x)
    v14 = lib.widen_bf16(v13)
    v15 = v14 - v11
    v16 = v15 * v9
    v17 = v16 * v8
    v18 = v17 + v6
    v20 = lib.round_bf16(v18)
    v21 = lib.neg(v20)
    v22 = lib.fast_exp(v21)
    v24 = 1.0 + v22
    v25 = lib.fast_div(v20, v24)
    v27 = lib.round_bf16(v25)
    v31 = v27 * tl.where(v2, 1.1111111111111112, 0.0)
    v32 = lib.to_bf16(v31)
    tl.store(out6 + y * 4096 + x, v32)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_keep_native_dropout_backward__to_copy_clone_0(in0, in1, in2, in3, in4, in5, in6, in7, in8, out9, out10):
    RBLOCK: tl.constexpr = 4096
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    i3 = x % 512
    v0 = tl.load(in0 + i3)
    v1 = v0.to(tl.float32)
    v2 = tl.load(in1 + i3)
    v3 = v2.to(tl.float32)
    i8 = x // 16
    v4 = tl.load(in2 + i8)
    v6 = tl.load(in3 + i8)
    v27 = tl.load(in6)
    v40 = tl.load(in7 + i8)
    v41 = v40.to(tl.float32)
    v42 = tl.load(in8 + i8)
    v43 = v42.to(tl.float32)
    v8 = tl.load(in4 + x * 4096 + r)
    v9 = lib.widen_bf16(v8)
    v10 = v9 - v6
    v11 = v10 * v4
    v12 = v11 * v3
    v13 = v12 + v1
    v15 = lib.round_bf16(v13)
    v16 = lib.neg(v15)
    v17 = lib.fast_exp(v16)
    v19 = 1.0 + v17
    v20 = lib.fast_div(tl.full((), 1.0, tl.float32), v19)
    v21 = 1.0 - v20
    v23 = tl.fma(v15, v21, tl.full((), 1.0, tl.float32))
    v25 = tl.load(in5 + x * 4096 + r)
    v26 = lib.widen_bf16(v25)
    v28 = lib.keep8(v27, tl.arange(0, RBLOCK // 8) + (x * 512), 0, 58982)
    v31 = v26 * tl.where(v28, 1.1111111111111112, 0.0)
    v33 = lib.round_bf16(v31)
    v34 = v33 * v20
    v35 = v34 * v23
    v37 = lib.round_bf16(v35)
    v44 = v9 - v43
    v45 = v44 * v41
    v46 = v37 * v45
    v38 = lib.reduce_sum(v37, 0, False)
    v47 = lib.reduce_sum(v46, 0, False)
    tl.store(out9 + x, v38)
    tl.store(out10 + x, v47)


@triton.jit
def fused_native_group_norm_backward_0(in0, in1, in2, out3, out4):
    RBLOCK: tl.constexpr = 16
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v3 = tl.load(in1 + x * 16 + r)
    v4 = lib.widen_bf16(v3)
    a12 = tl.full([RBLOCK], 0.0, tl.float32)
    for l in tl.range(0, 16, num_stages=3):
        v0 = tl.load(in0 + (l * 32 + x))
        v1 = v0.to(tl.float32)
        v5 = tl.load(in2 + (l * 512 + x * 16) + r)
        v6 = v5 * v4
        a12 = a12 + v5
        v7 = lib.reduce_sum(v6, 0, False)
        v8 = v7 / tl.full((), 65536.0, tl.float32)
        v9 = v8 * v1
        v10 = v9 * v1
        tl.store(out3 + (l * 32 + x), v10)
    tl.store(out4 + x * 16 + r, a12)


@triton.jit
def fused_native_group_norm_backward_1(in0, in1, in2, out3, out4):
    RBLOCK: tl.constexpr = 16
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v3 = tl.load(in1 + x * 16 + r)
    v4 = lib.widen_bf16(v3)
    a11 = tl.full([RBLOCK], 0.0, tl.float32)
    for l in tl.range(0, 16, num_stages=3):
        v0 = tl.load(in0 + (l * 32 + x))
        v1 = v0.to(tl.float32)
        v5 = tl.load(in2 + (l * 512 + x * 16) + r)
        v6 = v5 * v4
        a11 = a11 + v5
        v7 = lib.reduce_sum(v6, 0, False)
        v8 = v7 / tl.full((), 65536.0, tl.float32)
        v9 = v8 * v1
        tl.store(out3 + (l * 32 + x), v9)
    tl.store(out4 + x * 16 + r, a11)


@triton.jit
def fused_native_group_norm_backward_2(in0, in1, in2, in3, in4, in5, in6, in7, in8, in9, in10, out11):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 2)
    x0 = (pid % 2) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    i5 = y // 16
    v0 = tl.load(in0 + i5)
    v1 = tl.load(in1 + i5)
    v2 = tl.load(in2 + i5)
    v3 = v2.to(tl.float32)
    v4 = tl.load(in3 + y * 4096 + x)
    v5 = lib.widen_bf16(v4)
    v6 = v5 - v3
    v8 = tl.fma(v6, v1, v0)
    v9 = tl.load(in4 + i5)
    v10 = v9.to(tl.float32)
    i16 = y % 512
    v11 = tl.load(in5 + i16)
    v12 = v11.to(tl.float32)
    v13 = v12 * v10
    v14 = tl.load(in6 + i16)
    v15 = v14.to(tl.float32)
    v16 = tl.load(in7 + i5)
    v18 = tl.load(in8 + i5)
    v20 = v5 - v18
    v21 = v20 * v16
    v22 = v21 * v12
    v23 = v22 + v15
    v25 = lib.round_bf16(v23)
    v26 = lib.neg(v25)
    v27 = lib.fast_exp(v26)
    v29 = 1.0 + v27
    v30 = lib.fast_div(tl.full((), 1.0, tl.float32), v29)
    v31 = 1.0 - v30
    v33 = tl.fma(v25, v31, tl.full((), 1.0, tl.float32))
    v35 = tl.load(in9 + y * 4096 + x)
    v36 = lib.widen_bf16(v35)
    v37 = tl.load(in10)
    v38 = lib.keep8(v37, x0 // 8 + tl.arange(0, XBLOCK // 8) + (y * 512), 0, 58982)
    v41 = v36 * tl.where(v38, 1.1111111111111112, 0.0)
    v43 = lib.round_bf16(v41)
    v44 = v43 * v30
    v45 = v44 * v33
    v47 = lib.round_bf16(v45)
    v49 = tl.fma(v47, v13, lib.neg(v8))
    v50 = lib.to_bf16(v49)
    tl.store(out11 + y * 4096 + x, v50)


@triton.jit
def fused_native_group_norm_backward_3(in0, out1):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + x)
    v1 = lib.to_bf16(v0)
    tl.store(out1 + x, v1)


@triton.jit
def fused_native_group_norm_backward_4(in0, out1):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + x)
    v1 = lib.to_bf16(v0)
    tl.store(out1 + x, v1)
