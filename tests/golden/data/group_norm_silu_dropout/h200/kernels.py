# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_native_group_norm_silu_keep_mul_0(in0, in1, in2, in3, out4, out5, out6):
    RBLOCK: tl.constexpr = 8192
    x = tl.program_id(0)
    v8 = tl.full((), 65536.0, tl.float32) - tl.full((), 0.0, tl.float32)
    v9 = v8 < 0.0
    v10 = tl.where(v9, tl.full((), 0.0, tl.float32), v8)
    v17 = lib.seed_of(in1)
    a11 = tl.full([RBLOCK], 0.0, tl.float32)
    q11 = tl.full([RBLOCK], 0.0, tl.float32)
    for r0 in tl.range(0, 65536, RBLOCK):
        r = r0 + tl.arange(0, RBLOCK)
        v1 = tl.load(in0 + x * 65536 + r, eviction_policy="evict_last")
        v2 = lib.widen_bf16(v1)
        a11 = a11 + v2
        n11 = tl.cast(r0 // RBLOCK + 1, tl.float32)
        f11 = 1.0 / tl.maximum(n11 * (n11 - 1.0), 1.0)
        d11 = n11 * v2 - a11
        q11 = tl.fma(d11 * f11, d11, q11)
    s11 = lib.reduce_sum(a11, 0, False)
    r = tl.arange(0, RBLOCK)
    n11 = ((65536 - 1 - r) // RBLOCK + 1).to(tl.float32)
    d11 = a11 - n11 * (s11 / tl.maximum(tl.full((), 65536.0, tl.float32), 1.0))
    v11 = lib.reduce_sum(tl.fma(d11 / tl.maximum(n11, 1.0), d11, q11), 0, False)
    v4 = s11 / tl.full((), 65536.0, tl.float32)
    tl.store(out4 + x, v4)
    v12 = lib.div_rn(v11, v10)
    v13 = v12 + 1e-05
    v14 = lib.rsqrt_full(v13)
    tl.store(out5 + x, v14)
    for r0 in tl.range(0, 65536, RBLOCK):
        r = r0 + tl.arange(0, RBLOCK)
        v1 = tl.load(in0 + x * 65536 + r, eviction_policy="evict_first")
        v2 = lib.widen_bf16(v1)
        v18 = lib.keep8(v17, r0 // 8 + tl.arange(0, RBLOCK // 8) + (x * 8192), 0, 58982)
        i33 = x % 32
        i34 = r // 4096
        v21 = tl.load(in2 + i33 * 16 + i34, eviction_policy="evict_last")
        v22 = lib.widen_bf16(v21)
        v23 = v14 * v22
        v25 = tl.load(in3 + i33 * 16 + i34, eviction_policy="evict_last")
        v26 = lib.widen_bf16(v25)
        v27 = tl.fma(lib.neg(v4), v23, v26)
        v29 = tl.fma(v2, v23, v27)
        v31 = lib.round_bf16(v29)
        v32 = lib.neg(v31)
        v33 = lib.fast_exp(v32)
        v35 = 1.0 + v33
        v36 = lib.fast_div(v31, v35)
        v38 = lib.round_bf16(v36)
        v42 = v38 * tl.where(v18, 1.1111111111111112, 0.0)
        v43 = lib.to_bf16(v42)
        tl.store(out6 + x * 65536 + r, v43)

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
