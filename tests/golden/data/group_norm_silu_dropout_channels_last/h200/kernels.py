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
    YBLOCK: tl.constexpr = 16
    XBLOCK: tl.constexpr = 64
    pid = tl.program_id(0)
    y0 = (pid // 64) * YBLOCK
    y = y0 + tl.arange(0, YBLOCK)[:, None]
    x0 = (pid % 64) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    v1 = tl.load(in0)
    v2 = lib.keep8(v1, x0 // 8 + tl.arange(0, XBLOCK // 8)[None, :] + (y * 512), 0, 58982)
    i9 = y % 512
    v5 = tl.load(in1 + i9)
    v6 = lib.widen_bf16(v5)
    v7 = tl.load(in2 + i9)
    v8 = lib.widen_bf16(v7)
    i14 = y // 16
    v9 = tl.load(in3 + i14)
    v11 = tl.load(in4 + i14)
    i17 = y // 512
    v13 = tl.load(in5 + (i17 * 2097152 + i9) + x * 512)
    v15 = lib.widen_bf16(v13)
    v16 = v15 - v11
    v17 = v16 * v9
    v18 = v17 * v8
    v19 = v18 + v6
    v21 = lib.round_bf16(v19)
    v22 = lib.neg(v21)
    v23 = lib.fast_exp(v22)
    v25 = 1.0 + v23
    v26 = lib.fast_div(v21, v25)
    v28 = lib.round_bf16(v26)
    v32 = v28 * tl.where(v2, 1.1111111111111112, 0.0)
    v33 = lib.to_bf16(v32)
    tl.store(out6 + y * 4096 + x, v33)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_keep_native_dropout_backward_clone__to_copy_0(in0, in1, in2, in3, in4, in5, in6, in7, in8, out9, out10):
    XBLOCK: tl.constexpr = 32
    RBLOCK: tl.constexpr = 64
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    i4 = x % 512
    v0 = tl.load(in0 + i4, eviction_policy="evict_first")
    v1 = lib.widen_bf16(v0)
    v2 = tl.load(in1 + i4, eviction_policy="evict_first")
    v3 = lib.widen_bf16(v2)
    i9 = x // 16
    v4 = tl.load(in2 + i9, eviction_policy="evict_first")
    v6 = tl.load(in3 + i9, eviction_policy="evict_first")
    v28 = tl.load(in6)
    v41 = tl.load(in7 + i9, eviction_policy="evict_first")
    v42 = lib.widen_bf16(v41)
    v43 = tl.load(in8 + i9, eviction_policy="evict_first")
    v44 = lib.widen_bf16(v43)
    a39 = tl.full([RBLOCK, XBLOCK], 0.0, tl.float32)
    a48 = tl.full([RBLOCK, XBLOCK], 0.0, tl.float32)
    for r0 in tl.range(0, 4096, RBLOCK, num_stages=3):
        r = r0 + tl.arange(0, RBLOCK)[:, None]
        i21 = x // 512
        v8 = tl.load(in4 + r * 512 + (i21 * 2097152 + i4), eviction_policy="evict_first")
        v10 = lib.widen_bf16(v8)
        v11 = v10 - v6
        v12 = v11 * v4
        v13 = v12 * v3
        v14 = v13 + v1
        v16 = lib.round_bf16(v14)
        v17 = lib.neg(v16)
        v18 = lib.fast_exp(v17)
        v20 = 1.0 + v18
        v21 = lib.fast_div(tl.full((), 1.0, tl.float32), v20)
        v22 = 1.0 - v21
        v24 = tl.fma(v16, v22, tl.full((), 1.0, tl.float32))
        v26 = tl.load(in5 + r + x * 4096, eviction_policy="evict_first")
        v27 = lib.widen_bf16(v26)
        v29 = lib.keep1(v28, r + x * 4096, 0, 58982)
        v32 = v27 * tl.where(v29, 1.1111111111111112, 0.0)
        v34 = lib.round_bf16(v32)
        v35 = v34 * v21
        v36 = v35 * v24
        v38 = lib.round_bf16(v36)
        v45 = v10 - v44
        v46 = v45 * v42
        v47 = v38 * v46
        a39 = a39 + v38
        a48 = a48 + v47
    v39 = lib.reduce_sum(a39, 0, True)
    v48 = lib.reduce_sum(a48, 0, True)
    tl.store(out9 + x, v39)
    tl.store(out10 + x, v48)


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
    YBLOCK: tl.constexpr = 16
    XBLOCK: tl.constexpr = 64
    pid = tl.program_id(0)
    y0 = (pid // 64) * YBLOCK
    y = y0 + tl.arange(0, YBLOCK)[:, None]
    x0 = (pid % 64) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    i7 = y // 16
    v0 = tl.load(in0 + i7)
    v1 = tl.load(in1 + i7)
    v2 = tl.load(in2 + i7)
    v3 = lib.widen_bf16(v2)
    i12 = y // 512
    i13 = y % 512
    v4 = tl.load(in3 + (i12 * 2097152 + i13) + x * 512)
    v6 = lib.widen_bf16(v4)
    v7 = v6 - v3
    v9 = tl.fma(v7, v1, v0)
    v10 = tl.load(in4 + i7)
    v11 = lib.widen_bf16(v10)
    v12 = tl.load(in5 + i13)
    v13 = lib.widen_bf16(v12)
    v14 = v13 * v11
    v15 = tl.load(in6 + i13)
    v16 = lib.widen_bf16(v15)
    v17 = tl.load(in7 + i7)
    v19 = tl.load(in8 + i7)
    v21 = v6 - v19
    v22 = v21 * v17
    v23 = v22 * v13
    v24 = v23 + v16
    v26 = lib.round_bf16(v24)
    v27 = lib.neg(v26)
    v28 = lib.fast_exp(v27)
    v30 = 1.0 + v28
    v31 = lib.fast_div(tl.full((), 1.0, tl.float32), v30)
    v32 = 1.0 - v31
    v34 = tl.fma(v26, v32, tl.full((), 1.0, tl.float32))
    v36 = tl.load(in9 + y * 4096 + x)
    v37 = lib.widen_bf16(v36)
    v38 = tl.load(in10)
    v39 = lib.keep8(v38, x0 // 8 + tl.arange(0, XBLOCK // 8)[None, :] + (y * 512), 0, 58982)
    v42 = v37 * tl.where(v39, 1.1111111111111112, 0.0)
    v44 = lib.round_bf16(v42)
    v45 = v44 * v31
    v46 = v45 * v34
    v48 = lib.round_bf16(v46)
    v50 = tl.fma(v48, v14, lib.neg(v9))
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
