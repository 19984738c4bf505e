# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_softmax_0(in0, out1):
    RBLOCK: tl.constexpr = 32768
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v0 = tl.load(in0 + x * 32768 + r)
    v1 = lib.widen_bf16(v0)
    v2 = lib.reduce_max(v1, 0, False)
    v3 = v1 - v2
    v4 = lib.fast_exp(v3)
    v5 = lib.reduce_sum(v4, 0, False)
    v6 = lib.div_by_row(v4, v5)
    v7 = lib.to_bf16(v6)
    tl.store(out1 + x * 32768 + r, v7)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_softmax_backward_data_0(in0, in1, out2):
    RBLOCK: tl.constexpr = 16384
    x = tl.program_id(0)
    a5 = tl.full([RBLOCK], 0.0, tl.float32)
    for r0 in tl.range(0, 32768, RBLOCK):
        r = r0 + tl.arange(0, RBLOCK)
        v0 = tl.load(in0 + x * 32768 + r, eviction_policy="evict_last")
        v1 = lib.widen_bf16(v0)
        v2 = tl.load(in1 + x * 32768 + r, eviction_policy="evict_last")
        v3 = lib.widen_bf16(v2)
        v4 = v3 * v1
        a5 = a5 + v4
    v5 = lib.reduce_sum(a5, 0, False)
    for r0 in tl.range(0, 32768, RBLOCK):
        r = r0 + tl.arange(0, RBLOCK)
        v0 = tl.load(in0 + x * 32768 + r, eviction_policy="evict_first")
        v1 = lib.widen_bf16(v0)
        v2 = tl.load(in1 + x * 32768 + r, eviction_policy="evict_first")
        v3 = lib.widen_bf16(v2)
        v4 = v3 * v1
        v6 = lib.neg(v1)
        v7 = tl.fma(v6, v5, v4)
        v8 = lib.to_bf16(v7)
        tl.store(out2 + x * 32768 + r, v8)
