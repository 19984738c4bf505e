# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_softmax_0(in0, out1, out2):
    RBLOCK: tl.constexpr = 8192
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v0 = tl.load(in0 + x * 8192 + r)
    v1 = lib.widen_bf16(v0)
    v2 = lib.reduce_max(v1, 0, False)
    tl.store(out1 + x, v2)
    v6 = v2 == float("-inf")
    v7 = tl.where(v6, tl.full((), 0.0, tl.float32), v2)
    v8 = v1 - v7
    v9 = lib.fast_exp(v8)
    v10 = lib.reduce_sum(v9, 0, False)
    tl.store(out2 + x, v10)


@triton.jit
def fused_softmax_1(in0, in1, out2, out3):
    RBLOCK: tl.constexpr = 256
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v0 = tl.load(in0 + x * 256 + r)
    v1 = lib.reduce_max(v0, 0, False)
    tl.store(out2 + x, v1)
    v3 = v0 - v1
    v4 = lib.exp(v3)
    v5 = tl.load(in1 + x * 256 + r)
    v6 = v5 * v4
    v7 = lib.reduce_sum(v6, 0, False)
    tl.store(out3 + x, v7)


@triton.jit
def fused_softmax_2(in0, in1, in2, out3):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 1024)
    x0 = (pid % 1024) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y)
    v1 = tl.load(in1 + y)
    v2 = tl.load(in2 + y * 2097152 + x)
    v3 = lib.widen_bf16(v2)
    v4 = v3 - v1
    v5 = lib.fast_exp(v4)
    v6 = lib.div_by_row(v5, v0)
    v7 = lib.to_bf16(v6)
    tl.store(out3 + y * 2097152 + x, v7)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_softmax_backward_data_0(in0, in1, out2):
    RBLOCK: tl.constexpr = 16384
    x = tl.program_id(0)
    a5 = tl.full([RBLOCK], 0.0, tl.float32)
    for r0 in tl.range(0, 131072, RBLOCK):
        r = r0 + tl.arange(0, RBLOCK)
        v0 = tl.load(in0 + x * 131072 + r, eviction_policy="evict_first")
        v1 = lib.widen_bf16(v0)
        v2 = tl.load(in1 + x * 131072 + r, eviction_policy="evict_first")
        v3 = lib.widen_bf16(v2)
        v4 = v3 * v1
        a5 = a5 + v4
    v5 = lib.reduce_sum(a5, 0, False)
    tl.store(out2 + x, v5)


@triton.jit
def fused_softmax_backward_data_1(in0, out1):
    RBLOCK: tl.constexpr = 16
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v0 = tl.load(in0 + x * 16 + r)
    v1 = lib.reduce_sum(v0, 0, False)
    tl.store(out1 + x, v1)


@triton.jit
def fused_softmax_backward_data_2(in0, in1, in2, out3):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 1024)
    x0 = (pid % 1024) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y * 2097152 + x)
    v1 = lib.widen_bf16(v0)
    v2 = tl.load(in1 + y * 2097152 + x)
    v3 = lib.widen_bf16(v2)
    v4 = v3 * v1
    v5 = tl.load(in2 + y)
    v6 = lib.neg(v1)
    v7 = tl.fma(v6, v5, v4)
    v8 = lib.to_bf16(v7)
    tl.store(out3 + y * 2097152 + x, v8)
