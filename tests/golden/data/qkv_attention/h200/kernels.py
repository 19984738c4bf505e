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
    v8 = (i3).to(tl.int64)
    v9 = v8 * 1
    v11 = 0 + v9
    v1 = tl.load(in0 + x * 2048 + r)
    v2 = lib.widen_bf16(v1)
    v3 = v2 * 0.08838834764831845
    v5 = lib.round_bf16(v3)
    v12 = (r).to(tl.int64)
    v13 = v12 * 1
    v14 = 0 + v13
    v15 = v14 > v11
    v16 = tl.where(v15, tl.full((), float("-inf"), tl.float32), v5)
    v18 = lib.round_bf16(v16)
    v19 = lib.reduce_max(v18, 0, False)
    v20 = v18 - v19
    v21 = lib.fast_exp(v20)
    v22 = lib.reduce_sum(v21, 0, False)
    v23 = lib.div_by_row(v21, v22)
    v24 = lib.to_bf16(v23)
    tl.store(out1 + x * 2048 + r, v24)


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
