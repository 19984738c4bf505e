# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_clone_native_group_norm_0(in0, out1, out2, out3):
    RBLOCK: tl.constexpr = 8192
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    i3 = x // 32
    i4 = x % 32
    i5 = r // 16
    i6 = r % 16
    v0 = tl.load(in0 + (i3 * 262144 + i4 * 16) + (i5 * 512 + i6))
    v2 = lib.widen_bf16(v0)
    v3 = lib.reduce_sum(v2, 0, False)
    i10 = x // 256
    i11 = i3 % 8
    tl.store(out1 + (i4 * 8 + i10 * 256 + i11), v3)
    v6 = v3 / tl.full((), 8192.0, tl.float32)
    tl.store(out2 + (i4 * 8 + i10 * 256 + i11), v6)
    v8 = v2 - v6
    v9 = v8 * v8
    v10 = lib.reduce_sum(v9, 0, False)
    tl.store(out3 + (i4 * 8 + i10 * 256 + i11), v10)


@triton.jit
def fused_native_group_norm_0(in0, in1, in2, out3, out4):
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
    YBLOCK: tl.constexpr = 64
    XBLOCK: tl.constexpr = 64
    pid = tl.program_id(0)
    y0 = (pid // 64) * YBLOCK
    y = y0 + tl.arange(0, YBLOCK)[:, None]
    x0 = (pid % 64) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    v1 = lib.seed_of(in0)
    v2 = lib.keep8(v1, x0 // 8 + tl.arange(0, XBLOCK // 8)[None, :] + (y * 512), 0, 58982)
    i9 = y % 512
    v5 = tl.load(in1 + i9)
    v6 = lib.widen_bf16(v5)
    i12 = y // 16
    v7 = tl.load(in2 + i12)
    v8 = v7 * v6
    v9 = tl.load(in3 + i12)
    v11 = tl.load(in4 + i9)
    v12 = lib.widen_bf16(v11)
    v13 = tl.fma(lib.neg(v9), v8, v12)
    i19 = y // 512
    v14 = tl.load(in5 + (i19 * 2097152 + i9) + x * 512)
    v16 = lib.widen_bf16(v14)
    v18 = tl.fma(v16, v8, v13)
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
def fused_keep_native_dropout_backward_clone_native_group_norm_0(in0, in1, in2, in3, in4, in5, in6, out7, out8):
    XBLOCK: tl.constexpr = 32
    RBLOCK: tl.constexpr = 64
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    i4 = x % 512
    v0 = tl.load(in0 + i4, eviction_policy="evict_last")
    v1 = lib.widen_bf16(v0)
    i7 = x // 16
    v2 = tl.load(in1 + i7, eviction_policy="evict_last")
    v3 = v2 * v1
    v4 = tl.load(in2 + i7, eviction_policy="evict_last")
    v6 = tl.load(in3 + i4, eviction_policy="evict_last")
    v7 = lib.widen_bf16(v6)
    v8 = tl.fma(lib.neg(v4), v3, v7)
    v27 = lib.seed_of(in6)
    v41 = lib.round_bf16(v2)
    v43 = lib.round_bf16(v4)
    a38 = tl.full([RBLOCK, XBLOCK], 0.0, tl.float32)
    a46 = tl.full([RBLOCK, XBLOCK], 0.0, tl.float32)
    for r0 in tl.range(0, 4096, RBLOCK, num_stages=3):
        r = r0 + tl.arange(0, RBLOCK)[:, None]
        i21 = x // 512
        v9 = tl.load(in4 + r * 512 + (i21 * 2097152 + i4), eviction_policy="evict_first")
        v11 = lib.widen_bf16(v9)
        v13 = tl.fma(v11, v3, v8)
        v15 = lib.round_bf16(v13)
        v16 = lib.neg(v15)
        v17 = lib.fast_exp(v16)
        v19 = 1.0 + v17
        v20 = lib.fast_div(tl.full((), 1.0, tl.float32), v19)
        v21 = 1.0 - v20
        v23 = tl.fma(v15, v21, tl.full((), 1.0, tl.float32))
        v25 = tl.load(in5 + r + x * 4096, eviction_policy="evict_first")
        v26 = lib.widen_bf16(v25)
        v28 = lib.keep1(v27, r + x * 4096, 0, 58982)
        v31 = v26 * tl.where(v28, 1.1111111111111112, 0.0)
        v33 = lib.round_bf16(v31)
        v34 = v33 * v20
        v35 = v34 * v23
        v37 = lib.round_bf16(v35)
        v44 = v11 - v43
        v45 = v37 * v44
        a38 = a38 + v37
        a46 = a46 + v45
    v38 = lib.reduce_sum(a38, 0, True)
    v46 = lib.reduce_sum(a46, 0, True)
    tl.store(out7 + x, v38)
    v47 = v46 * v41
    tl.store(out8 + x, v47)


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
    YBLOCK: tl.constexpr = 16
    XBLOCK: tl.constexpr = 128
    pid = tl.program_id(0)
    y0 = (pid // 32) * YBLOCK
    y = y0 + tl.arange(0, YBLOCK)[:, None]
    x0 = (pid % 32) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    i7 = y // 16
    v0 = tl.load(in0 + i7)
    v1 = tl.load(in1 + i7)
    v2 = tl.load(in2 + i7)
    v4 = lib.round_bf16(v2)
    i12 = y // 512
    i13 = y % 512
    v5 = tl.load(in3 + (i12 * 2097152 + i13) + x * 512)
    v7 = lib.widen_bf16(v5)
    v8 = v7 - v4
    v10 = tl.fma(v8, v1, v0)
    v11 = tl.load(in4 + i7)
    v13 = lib.round_bf16(v11)
    v14 = tl.load(in5 + i13)
    v15 = lib.widen_bf16(v14)
    v16 = v15 * v13
    v17 = v11 * v15
    v19 = tl.load(in6 + i13)
    v20 = lib.widen_bf16(v19)
    v21 = tl.fma(lib.neg(v2), v17, v20)
    v23 = tl.fma(v7, v17, v21)
    v25 = lib.round_bf16(v23)
    v26 = lib.neg(v25)
    v27 = lib.fast_exp(v26)
    v29 = 1.0 + v27
    v30 = lib.fast_div(tl.full((), 1.0, tl.float32), v29)
    v31 = 1.0 - v30
    v33 = tl.fma(v25, v31, tl.full((), 1.0, tl.float32))
    v35 = tl.load(in7 + y * 4096 + x)
    v36 = lib.widen_bf16(v35)
    v37 = lib.seed_of(in8)
    v38 = lib.keep8(v37, x0 // 8 + tl.arange(0, XBLOCK // 8)[None, :] + (y * 512), 0, 58982)
    v41 = v36 * tl.where(v38, 1.1111111111111112, 0.0)
    v43 = lib.round_bf16(v41)
    v44 = v43 * v30
    v45 = v44 * v33
    v47 = lib.round_bf16(v45)
    v49 = tl.fma(v47, v16, lib.neg(v10))
    v50 = lib.to_bf16(v49)
    tl.store(out9 + y * 4096 + x, v50)


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
