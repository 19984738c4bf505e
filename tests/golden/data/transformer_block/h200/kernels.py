# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_native_layer_norm_0(in0, in1, in2, out3, out4, out5):
    RBLOCK: tl.constexpr = 2048
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v1 = tl.load(in0 + x * 2048 + r)
    v2 = lib.widen_bf16(v1)
    v3 = lib.reduce_sum(v2, 0, False)
    v4 = v3 / tl.full((), 2048.0, tl.float32)
    tl.store(out3 + x, v4)
    v7 = v2 - v4
    v8 = v7 * v7
    v9 = lib.reduce_sum(v8, 0, False)
    v10 = v9 / tl.full((), 2048.0, tl.float32)
    v11 = v10 + 1e-05
    v12 = lib.rsqrt_full(v11)
    tl.store(out4 + x, v12)
    v14 = tl.load(in1 + r, eviction_policy="evict_last")
    v15 = lib.widen_bf16(v14)
    v16 = tl.load(in2 + r, eviction_policy="evict_last")
    v17 = lib.widen_bf16(v16)
    v18 = v7 * v12
    v20 = tl.fma(v18, v17, v15)
    v21 = lib.to_bf16(v20)
    tl.store(out5 + x * 2048 + r, v21)


@triton.jit
def fused_keep_mul_add_native_layer_norm_0(in0, in1, in2, in3, in4, out5, out6, out7, out8):
    RBLOCK: tl.constexpr = 2048
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v1 = lib.seed_of(in0)
    v2 = lib.keep8(v1, tl.arange(0, RBLOCK // 8) + (x * 256), 0, 58982)
    v5 = tl.load(in1 + x * 2048 + r)
    v6 = lib.widen_bf16(v5)
    v10 = v6 * tl.where(v2, 1.1111111111111112, 0.0)
    v11 = lib.to_bf16(v10)
    v13 = tl.load(in2 + x * 2048 + r)
    v16 = lib.add_bf16(v13, v11)
    tl.store(out5 + x * 2048 + r, v16)
    v19 = lib.widen_bf16(v16)
    v20 = lib.reduce_sum(v19, 0, False)
    v21 = v20 / tl.full((), 2048.0, tl.float32)
    tl.store(out6 + x, v21)
    v24 = v19 - v21
    v25 = v24 * v24
    v26 = lib.reduce_sum(v25, 0, False)
    v27 = v26 / tl.full((), 2048.0, tl.float32)
    v28 = v27 + 1e-05
    v29 = lib.rsqrt_full(v28)
    tl.store(out7 + x, v29)
    v31 = tl.load(in3 + r, eviction_policy="evict_last")
    v32 = lib.widen_bf16(v31)
    v33 = tl.load(in4 + r, eviction_policy="evict_last")
    v34 = lib.widen_bf16(v33)
    v35 = v24 * v29
    v37 = tl.fma(v35, v34, v32)
    v38 = lib.to_bf16(v37)
    tl.store(out8 + x * 2048 + r, v38)


@triton.jit
def fused_gelu_0(in0, out1):
    XBLOCK: tl.constexpr = 2048
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = tl.load(in0 + x)
    v2 = lib.widen_bf16(v1)
    v13 = v2 * lib.fast_gate_tanh_cubic(v2, 0.7978845608028654, 0.044715)
    v14 = lib.to_bf16(v13)
    tl.store(out1 + x, v14)


@triton.jit
def fused_keep_mul_add_0(in0, in1, in2, out3):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = lib.seed_of(in0)
    v2 = lib.keep8(v1, x0 // 8 + tl.arange(0, XBLOCK // 8), 1, 58982)
    v5 = tl.load(in1 + x)
    v6 = lib.widen_bf16(v5)
    v10 = v6 * tl.where(v2, 1.1111111111111112, 0.0)
    v11 = lib.to_bf16(v10)
    v13 = tl.load(in2 + x)
    v16 = lib.add_bf16(v13, v11)
    tl.store(out3 + x, v16)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_keep_native_dropout_backward_sum_0(in0, in1, out2, out3):
    XBLOCK: tl.constexpr = 64
    RBLOCK: tl.constexpr = 32
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    v3 = lib.seed_of(in1)
    a11 = tl.full([RBLOCK, XBLOCK], 0.0, tl.float32)
    for r0 in tl.range(0, 64, RBLOCK, num_stages=3):
        r = r0 + tl.arange(0, RBLOCK)[:, None]
        i8 = x // 2048
        i9 = x % 2048
        v1 = tl.load(in0 + r * 2048 + (i8 * 131072 + i9), eviction_policy="evict_first")
        v2 = lib.widen_bf16(v1)
        v4 = lib.keep1(v3, r * 2048 + i8 * 131072 + i9, 1, 58982)
        v7 = v2 * tl.where(v4, 1.1111111111111112, 0.0)
        v8 = lib.to_bf16(v7)
        tl.store(out2 + r * 2048 + (i8 * 131072 + i9), v8)
        v10 = lib.widen_bf16(v8)
        a11 = a11 + v10
    v11 = lib.reduce_sum(a11, 0, True)
    tl.store(out3 + x, v11)


@triton.jit
def fused_sum_0(in0, out1):
    XBLOCK: tl.constexpr = 8
    RBLOCK: tl.constexpr = 256
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    r = tl.arange(0, RBLOCK)[:, None]
    v0 = tl.load(in0 + r * 2048 + x)
    v1 = lib.reduce_sum(v0, 0, True)
    v2 = lib.to_bf16(v1)
    tl.store(out1 + x, v2)


@triton.jit
def fused_gelu_gelu_backward_sum_0(in0, in1, out2, out3, out4):
    XBLOCK: tl.constexpr = 64
    RBLOCK: tl.constexpr = 32
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    a32 = tl.full([RBLOCK, XBLOCK], 0.0, tl.float32)
    for r0 in tl.range(0, 2048, RBLOCK, num_stages=3):
        r = r0 + tl.arange(0, RBLOCK)[:, None]
        i7 = x // 8192
        i8 = x % 8192
        v1 = tl.load(in0 + r * 8192 + (i7 * 16777216 + i8), eviction_policy="evict_first")
        v2 = lib.widen_bf16(v1)
        v4 = v2 * v2
        v8 = lib.fast_tanh_absolute_cubic(v2, 0.7978845608028654, 0.044715)
        v10 = 1.0 + v8
        v12 = 0.5 * v2
        v13 = v12 * v10
        v14 = lib.to_bf16(v13)
        tl.store(out2 + r * 8192 + (i7 * 16777216 + i8), v14)
        v18 = tl.fma(v4, tl.full((), 0.134145, tl.float32), tl.full((), 1.0, tl.float32))
        v19 = v18 * 0.7978845608028654
        v21 = tl.fma(lib.neg(v8), v8, tl.full((), 1.0, tl.float32))
        v22 = v12 * v21
        v23 = v22 * v19
        v25 = tl.fma(tl.full((), 0.5, tl.float32), v10, v23)
        v26 = tl.load(in1 + r * 8192 + (i7 * 16777216 + i8), eviction_policy="evict_first")
        v27 = lib.widen_bf16(v26)
        v28 = v27 * v25
        v29 = lib.to_bf16(v28)
        tl.store(out3 + r * 8192 + (i7 * 16777216 + i8), v29)
        v31 = lib.widen_bf16(v29)
        a32 = a32 + v31
    v32 = lib.reduce_sum(a32, 0, True)
    tl.store(out4 + x, v32)


@triton.jit
def fused_sum_1(in0, out1):
    XBLOCK: tl.constexpr = 32
    RBLOCK: tl.constexpr = 8
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    r = tl.arange(0, RBLOCK)[:, None]
    v0 = tl.load(in0 + r * 8192 + x)
    v1 = lib.reduce_sum(v0, 0, True)
    v2 = lib.to_bf16(v1)
    tl.store(out1 + x, v2)


@triton.jit
def fused_native_layer_norm_backward_add_keep_native_dropout_backward_0(in0, in1, in2, in3, in4, in5, in6, out7, out8, out9, out10, out11):
    RBLOCK: tl.constexpr = 2048
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v14 = tl.load(in4 + r, eviction_policy="evict_last")
    v15 = lib.widen_bf16(v14)
    v35 = lib.seed_of(in6)
    a9 = tl.full([RBLOCK], 0.0, tl.float32)
    a11 = tl.full([RBLOCK], 0.0, tl.float32)
    a43 = tl.full([RBLOCK], 0.0, tl.float32)
    for l in tl.range(0, 64, num_stages=3):
        v0 = tl.load(in0 + (l + x * 64))
        v1 = tl.load(in1 + (l + x * 64))
        v2 = tl.load(in2 + (l * 2048 + x * 131072) + r)
        v3 = lib.widen_bf16(v2)
        v4 = v3 - v1
        v5 = v4 * v0
        v6 = tl.load(in3 + (l * 2048 + x * 131072) + r)
        v7 = lib.widen_bf16(v6)
        a9 = tl.fma(v7, v5, a9)
        a11 = a11 + v7
        v16 = v7 * v15
        v17 = v16 * v5
        v18 = lib.reduce_sum(v17, 0, False)
        v21 = lib.reduce_sum(v16, 0, False)
        v19 = v18 / tl.full((), 2048.0, tl.float32)
        v22 = v21 / tl.full((), 2048.0, tl.float32)
        v23 = v16 - v22
        v24 = tl.fma(lib.neg(v5), v19, v23)
        v25 = v24 * v0
        v26 = lib.to_bf16(v25)
        v28 = tl.load(in5 + (l * 2048 + x * 131072) + r)
        v31 = lib.add_bf16(v28, v26)
        tl.store(out9 + (l * 2048 + x * 131072) + r, v31)
        v34 = lib.widen_bf16(v31)
        v36 = lib.keep8(v35, tl.arange(0, RBLOCK // 8) + (l * 256 + x * 16384), 0, 58982)
        v39 = v34 * tl.where(v36, 1.1111111111111112, 0.0)
        v40 = lib.to_bf16(v39)
        tl.store(out10 + (l * 2048 + x * 131072) + r, v40)
        v42 = lib.widen_bf16(v40)
        a43 = a43 + v42
    tl.store(out7 + x * 2048 + r, a9)
    tl.store(out8 + x * 2048 + r, a11)
    tl.store(out11 + x * 2048 + r, a43)


@triton.jit
def fused_native_layer_norm_backward_sum_0(in0, in1, in2, out3, out4, out5):
    XBLOCK: tl.constexpr = 8
    RBLOCK: tl.constexpr = 256
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    r = tl.arange(0, RBLOCK)[:, None]
    v0 = tl.load(in0 + r * 2048 + x)
    v4 = tl.load(in1 + r * 2048 + x)
    v8 = tl.load(in2 + r * 2048 + x)
    v1 = lib.reduce_sum(v0, 0, True)
    v5 = lib.reduce_sum(v4, 0, True)
    v9 = lib.reduce_sum(v8, 0, True)
    v2 = lib.to_bf16(v1)
    tl.store(out3 + x, v2)
    v6 = lib.to_bf16(v5)
    tl.store(out4 + x, v6)
    v10 = lib.to_bf16(v9)
    tl.store(out5 + x, v10)


@triton.jit
def fused_cat_sum_0(in0, in1, in2, out3, out4):
    XBLOCK: tl.constexpr = 64
    RBLOCK: tl.constexpr = 32
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    i4 = x % 6144
    v2 = i4 < 2048
    v4 = i4 >= 2048
    v6 = i4 < 4096
    v7 = v4 & v6
    v9 = i4 >= 4096
    a15 = tl.full([RBLOCK, XBLOCK], 0.0, tl.float32)
    for r0 in tl.range(0, 2048, RBLOCK, num_stages=3):
        r = r0 + tl.arange(0, RBLOCK)[:, None]
        i13 = x // 6144
        v3 = tl.load(in0 + r * 2048 + (i13 * 4194304 + i4), v2, other=0.0, eviction_policy="evict_first")
        v8 = tl.load(in1 + (-2048) + r * 2048 + (i13 * 4194304 + i4), v7, other=0.0, eviction_policy="evict_first")
        v10 = tl.load(in2 + (-4096) + r * 2048 + (i13 * 4194304 + i4), v9, other=0.0, eviction_policy="evict_first")
        v11 = tl.where(v7, v8, v10)
        v12 = tl.where(v2, v3, v11)
        tl.store(out3 + r * 6144 + (i13 * 12582912 + i4), v12)
        v14 = lib.widen_bf16(v12)
        a15 = a15 + v14
    v15 = lib.reduce_sum(a15, 0, True)
    tl.store(out4 + x, v15)


@triton.jit
def fused_sum_2(in0, out1):
    XBLOCK: tl.constexpr = 32
    RBLOCK: tl.constexpr = 8
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    r = tl.arange(0, RBLOCK)[:, None]
    v0 = tl.load(in0 + r * 6144 + x)
    v1 = lib.reduce_sum(v0, 0, True)
    v2 = lib.to_bf16(v1)
    tl.store(out1 + x, v2)


@triton.jit
def fused_native_layer_norm_backward_add_0(in0, in1, in2, in3, in4, in5, out6, out7, out8):
    RBLOCK: tl.constexpr = 2048
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v14 = tl.load(in4 + r, eviction_policy="evict_last")
    v15 = lib.widen_bf16(v14)
    a9 = tl.full([RBLOCK], 0.0, tl.float32)
    a11 = tl.full([RBLOCK], 0.0, tl.float32)
    for l in tl.range(0, 64, num_stages=3):
        v0 = tl.load(in0 + (l + x * 64))
        v1 = tl.load(in1 + (l + x * 64))
        v2 = tl.load(in2 + (l * 2048 + x * 131072) + r)
        v3 = lib.widen_bf16(v2)
        v4 = v3 - v1
        v5 = v4 * v0
        v6 = tl.load(in3 + (l * 2048 + x * 131072) + r)
        v7 = lib.widen_bf16(v6)
        a9 = tl.fma(v7, v5, a9)
        a11 = a11 + v7
        v16 = v7 * v15
        v17 = v16 * v5
        v18 = lib.reduce_sum(v17, 0, False)
        v21 = lib.reduce_sum(v16, 0, False)
        v19 = v18 / tl.full((), 2048.0, tl.float32)
        v22 = v21 / tl.full((), 2048.0, tl.float32)
        v23 = v16 - v22
        v24 = tl.fma(lib.neg(v5), v19, v23)
        v25 = v24 * v0
        v26 = lib.to_bf16(v25)
        v28 = tl.load(in5 + (l * 2048 + x * 131072) + r)
        v31 = lib.add_bf16(v28, v26)
        tl.store(out8 + (l * 2048 + x * 131072) + r, v31)
    tl.store(out6 + x * 2048 + r, a9)
    tl.store(out7 + x * 2048 + r, a11)


@triton.jit
def fused_native_layer_norm_backward_0(in0, in1, out2, out3):
    XBLOCK: tl.constexpr = 8
    RBLOCK: tl.constexpr = 256
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    r = tl.arange(0, RBLOCK)[:, None]
    v0 = tl.load(in0 + r * 2048 + x)
    v4 = tl.load(in1 + r * 2048 + x)
    v1 = lib.reduce_sum(v0, 0, True)
    v5 = lib.reduce_sum(v4, 0, True)
    v2 = lib.to_bf16(v1)
    tl.store(out2 + x, v2)
    v6 = lib.to_bf16(v5)
    tl.store(out3 + x, v6)
