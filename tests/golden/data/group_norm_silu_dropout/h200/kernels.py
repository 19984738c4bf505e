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
    XBLOCK: tl.constexpr = 1024
    pid = tl.program_id(0)
    y = (pid // 4)
    x0 = (pid % 4) * XBLOCK
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
def fused_native_group_norm_backward_0(in0, in1, out2, out3):
    RBLOCK: tl.constexpr = 16
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v1 = tl.load(in0 + x * 16 + r)
    v2 = lib.widen_bf16(v1)
    a8 = tl.full([RBLOCK], 0.0, tl.float32)
    for l in tl.range(0, 16, num_stages=3):
        v3 = tl.load(in1 + (l * 512 + x * 16) + r)
        v4 = v3 * v2
        a8 = a8 + v3
        v5 = lib.reduce_sum(v4, 0, False)
        v6 = v5 / tl.full((), 65536.0, tl.float32)
        tl.store(out2 + (l * 32 + x), v6)
    tl.store(out3 + x * 16 + r, a8)


@triton.jit
def fused_native_group_norm_backward_1(in0, in1, out2, out3):
    RBLOCK: tl.constexpr = 16
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v1 = tl.load(in0 + x * 16 + r)
    v2 = lib.widen_bf16(v1)
    a8 = tl.full([RBLOCK], 0.0, tl.float32)
    for l in tl.range(0, 16, num_stages=3):
        v3 = tl.load(in1 + (l * 512 + x * 16) + r)
        v4 = v3 * v2
        a8 = a8 + v3
        v5 = lib.reduce_sum(v4, 0, False)
        v6 = v5 / tl.full((), 65536.0, tl.float32)
        tl.store(out2 + (l * 32 + x), v6)
    tl.store(out3 + x * 16 + r, a8)


@triton.jit
def fused_native_group_norm_backward_2(in0, in1, in2, in3, in4, in5, in6, in7, in8, in9, in10, out11):
    XBLOCK: tl.constexpr = 1024
    pid = tl.program_id(0)
    y = (pid // 4)
    x0 = (pid % 4) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    i5 = y // 16
    v0 = tl.load(in0 + i5)
    v1 = v0.to(tl.float32)
    v2 = tl.load(in1 + i5)
    v3 = tl.load(in2 + i5)
    v4 = v3.to(tl.float32)
    v5 = tl.load(in3 + y * 4096 + x)
    v6 = lib.widen_bf16(v5)
    v7 = v6 - v4
    v8 = v7 * v1
    v10 = tl.load(in4 + i5)
    i16 = y % 512
    v11 = tl.load(in5 + i16)
    v12 = v11.to(tl.float32)
    v13 = tl.load(in6 + i16)
    v14 = v13.to(tl.float32)
    v15 = tl.load(in7 + i5)
    v17 = tl.load(in8 + i5)
    v19 = v6 - v17
    v20 = v19 * v15
    v21 = v20 * v12
    v22 = v21 + v14
    v24 = lib.round_bf16(v22)
    v25 = lib.neg(v24)
    v26 = lib.fast_exp(v25)
    v28 = 1.0 + v26
    v29 = lib.fast_div(tl.full((), 1.0, tl.float32), v28)
    v30 = 1.0 - v29
    v32 = tl.fma(v24, v30, tl.full((), 1.0, tl.float32))
    v34 = tl.load(in9 + y * 4096 + x)
    v35 = lib.widen_bf16(v34)
    v36 = tl.load(in10)
    v37 = lib.keep8(v36, x0 // 8 + tl.arange(0, XBLOCK // 8) + (y * 512), 0, 58982)
    v40 = v35 * tl.where(v37, 1.1111111111111112, 0.0)
    v42 = lib.round_bf16(v40)
    v43 = v42 * v29
    v44 = v43 * v32
    v46 = lib.round_bf16(v44)
    v48 = tl.fma(v46, v12, lib.neg(v10))
    v49 = tl.fma(lib.neg(v8), v2, v48)
    v50 = v49 * v1
    v51 = lib.to_bf16(v50)
    tl.store(out11 + y * 4096 + x, v51)


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
