# inference

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_clone_0(out0):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    i3 = x // 2
    tl.store(out0 + x, i3.to(tl.int64))


@triton.jit
def fused_index_0(in0, in1, out2):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 256)
    x0 = (pid % 256) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y)
    v3 = v0 < 0
    v4 = v0 + 8
    v5 = tl.where(v3, v4, v0)
    v6 = v5 >= 0
    v7 = v5 < 8
    v8 = v6 & v7
    tl.device_assert(v8, 'index out of range')
    v10 = tl.load(in1 + v5.to(tl.int32) * 524288 + x, v8, other=0.0)
    tl.store(out2 + y * 524288 + x, v10)


@triton.jit
def fused_index_1(in0, in1, out2):
    XBLOCK: tl.constexpr = 1024
    pid = tl.program_id(0)
    y = (pid // 4)
    x0 = (pid % 4) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y)
    v3 = v0 < 0
    v4 = v0 + 64
    v5 = tl.where(v3, v4, v0)
    v6 = v5 >= 0
    v7 = v5 < 64
    v8 = v6 & v7
    tl.device_assert(v8, 'index out of range')
    v10 = tl.load(in1 + v5.to(tl.int32) * 4096 + x, v8, other=0.0)
    tl.store(out2 + y * 4096 + x, v10)


@triton.jit
def fused_index_2(in0, in1, out2):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 256)
    x0 = (pid % 256) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y)
    v3 = v0 < 0
    v4 = v0 + 8
    v5 = tl.where(v3, v4, v0)
    v6 = v5 >= 0
    v7 = v5 < 8
    v8 = v6 & v7
    tl.device_assert(v8, 'index out of range')
    v10 = tl.load(in1 + v5.to(tl.int32) * 524288 + x, v8, other=0.0)
    tl.store(out2 + y * 524288 + x, v10)


@triton.jit
def fused_zeros_like_0(out0):
    XBLOCK: tl.constexpr = 512
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = tl.full((), 0.0, tl.float32).to(tl.bfloat16)
    tl.store(out0 + x, tl.broadcast_to(v1, [XBLOCK]))


@triton.jit
def fused_softmax_mul_0(in0, out1):
    RBLOCK: tl.constexpr = 2
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v0 = tl.load(in0 + x * 2 + r)
    v1 = lib.widen_bf16(v0)
    v2 = lib.reduce_max(v1, 0, False)
    v3 = v1 - v2
    v4 = lib.fast_exp(v3)
    v5 = lib.reduce_sum(v4, 0, False)
    v6 = lib.div_by_row(v4, v5)
    v7 = lib.to_bf16(v6)
    tl.store(out1 + x * 2 + r, v7)


@triton.jit
def fused_mul_0(in0, in1, out2):
    XBLOCK: tl.constexpr = 1024
    pid = tl.program_id(0)
    y = (pid // 4)
    x0 = (pid % 4) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y * 4096 + x)
    v2 = tl.load(in1 + y)
    v5 = lib.mul_bf16(v2, v0)
    tl.store(out2 + y * 4096 + x, v5)
