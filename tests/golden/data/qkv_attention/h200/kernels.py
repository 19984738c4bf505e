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
    tl.store(out1 + x, v0)


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
    v3 = r > i3
    i5 = r // 8
    v4 = i5 * 8
    v5 = v4 <= i3
    v6 = tl.load(in0 + x * 2048 + r, v5, other=0.0)
    v9 = lib.scale_bf16(v6, 0.08838834764831845)
    v10 = lib.widen_bf16(v9)
    v12 = tl.where(v3, tl.full((), float("-inf"), tl.float32), v10)
    v15 = lib.reduce_max(v12, 0, False)
    v16 = v12 - v15
    v17 = lib.fast_exp(v16)
    v18 = lib.reduce_sum(v17, 0, False)
    v19 = lib.div_by_row(v17, v18)
    v20 = lib.to_bf16(v19)
    tl.store(out1 + x * 2048 + r, v20)


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
    tl.store(out1 + x, v0)


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
    tl.store(out1 + x, v0)
