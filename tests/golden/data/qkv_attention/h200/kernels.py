# inference

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_clone_0(in0, out1):
    XBLOCK: tl.constexpr = 2048
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    i3 = x % 128
    i4 = x // 4194304
    i5 = x // 128
    i6 = i5 % 2048
    i7 = x // 262144
    i8 = i7 % 16
    v0 = tl.load(in0 + (i3 + i4 * 12582912 + i6 * 6144 + i8 * 128))
    tl.store(out1 + (i3 + i4 * 4194304 + i6 * 128 + i8 * 262144), v0)


@triton.jit
def fused_clone_1(in0, out1):
    YBLOCK: tl.constexpr = 64
    XBLOCK: tl.constexpr = 64
    pid = tl.program_id(0)
    y0 = (pid // 32) * YBLOCK
    y = y0 + tl.arange(0, YBLOCK)[:, None]
    x0 = (pid % 32) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    i7 = y // 2048
    i8 = y % 2048
    v0 = tl.load(in0 + 2048 + (i7 * 12582912 + i8) + x * 6144)
    tl.store(out1 + y * 2048 + x, v0)


@triton.jit
def fused_mul_masked_fill__softmax_0(in0, out1):
    RBLOCK: tl.constexpr = 2048
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    i3 = x % 2048
    v1 = (i3).to(tl.int32)
    v3 = 0 + v1
    v4 = (r).to(tl.int32)
    v5 = 0 + v4
    v6 = v5 > v3
    v7 = ~v6
    v8 = tl.load(in0 + x * 2048 + r, v7, other=0.0)
    v9 = lib.widen_bf16(v8)
    v10 = v9 * 0.08838834764831845
    v12 = lib.round_bf16(v10)
    v14 = tl.where(v6, tl.full((), float("-inf"), tl.float32), v12)
    v16 = lib.round_bf16(v14)
    v17 = lib.reduce_max(v16, 0, False)
    v18 = v16 - v17
    v19 = lib.fast_exp(v18)
    v20 = lib.reduce_sum(v19, 0, False)
    v21 = lib.div_by_row(v19, v20)
    v22 = lib.to_bf16(v21)
    tl.store(out1 + x * 2048 + r, v22)


@triton.jit
def fused_clone_2(in0, out1):
    XBLOCK: tl.constexpr = 2048
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    i3 = x % 128
    i4 = x // 4194304
    i5 = x // 128
    i6 = i5 % 2048
    i7 = x // 262144
    i8 = i7 % 16
    v0 = tl.load(in0 + 4096 + (i3 + i4 * 12582912 + i6 * 6144 + i8 * 128))
    tl.store(out1 + (i3 + i4 * 4194304 + i6 * 128 + i8 * 262144), v0)


@triton.jit
def fused_clone_3(in0, out1):
    XBLOCK: tl.constexpr = 2048
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    i3 = x % 128
    i4 = x // 4194304
    i5 = x // 128
    i6 = i5 % 16
    i7 = x // 2048
    i8 = i7 % 2048
    v0 = tl.load(in0 + (i3 + i4 * 4194304 + i6 * 262144 + i8 * 128))
    tl.store(out1 + (i3 + i4 * 4194304 + i6 * 128 + i8 * 2048), v0)
