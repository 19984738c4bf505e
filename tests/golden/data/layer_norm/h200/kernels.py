# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_native_layer_norm_0(in0, in1, in2, out3, out4, out5):
    XBLOCK: tl.constexpr = 2
    RBLOCK: tl.constexpr = 4096
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, RBLOCK)[None, :]
    v1 = tl.load(in0 + x * 4096 + r)
    v2 = lib.widen_bf16(v1)
    v3 = lib.reduce_sum(v2, 1, True)
    v4 = lib.div_by_row(v3, tl.full((), 4096.0, tl.float32))
    tl.store(out3 + x, v4)
    v7 = v2 - v4
    v8 = v7 * v7
    v9 = lib.reduce_sum(v8, 1, True)
    v10 = lib.div_by_row(v9, tl.full((), 4096.0, tl.float32))
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
    tl.store(out5 + x * 4096 + r, v21)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_native_layer_norm_backward_0(in0, in1, in2, in3, in4, out5, out6, out7):
    RBLOCK: tl.constexpr = 4096
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v14 = tl.load(in4 + r, eviction_policy="evict_last")
    v15 = lib.widen_bf16(v14)
    a9 = tl.full([RBLOCK], 0.0, tl.float32)
    a11 = tl.full([RBLOCK], 0.0, tl.float32)
    for l in tl.range(0, 64, num_stages=3):
        v0 = tl.load(in0 + (l + x * 64))
        v1 = tl.load(in1 + (l + x * 64))
        v2 = tl.load(in2 + (l * 4096 + x * 262144) + r)
        v3 = lib.widen_bf16(v2)
        v4 = v3 - v1
        v5 = v4 * v0
        v6 = tl.load(in3 + (l * 4096 + x * 262144) + r)
        v7 = lib.widen_bf16(v6)
        a9 = tl.fma(v7, v5, a9)
        a11 = a11 + v7
        v16 = v7 * v15
        v17 = v16 * v5
        v18 = lib.reduce_sum(v17, 0, False)
        v21 = lib.reduce_sum(v16, 0, False)
        v19 = v18 / tl.full((), 4096.0, tl.float32)
        v22 = v21 / tl.full((), 4096.0, tl.float32)
        v23 = v16 - v22
        v24 = tl.fma(lib.neg(v5), v19, v23)
        v25 = v24 * v0
        v26 = lib.to_bf16(v25)
        tl.store(out7 + (l * 4096 + x * 262144) + r, v26)
    tl.store(out5 + x * 4096 + r, a9)
    tl.store(out6 + x * 4096 + r, a11)


@triton.jit
def fused_native_layer_norm_backward_1(in0, in1, out2, out3):
    XBLOCK: tl.constexpr = 16
    RBLOCK: tl.constexpr = 256
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[None, :]
    r = tl.arange(0, RBLOCK)[:, None]
    v0 = tl.load(in0 + r * 4096 + x)
    v4 = tl.load(in1 + r * 4096 + x)
    v1 = lib.reduce_sum(v0, 0, True)
    v5 = lib.reduce_sum(v4, 0, True)
    v2 = lib.to_bf16(v1)
    tl.store(out2 + x, v2)
    v6 = lib.to_bf16(v5)
    tl.store(out3 + x, v6)
