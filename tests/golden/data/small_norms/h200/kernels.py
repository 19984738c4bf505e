# inference

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_gelu_add_native_layer_norm_0(in0, in1, in2, in3, out4):
    RBLOCK: tl.constexpr = 1024
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v7 = tl.load(in2 + x * 1024 + r)
    v8 = lib.widen_bf16(v7)
    v15 = v8 * lib.fast_gate_erf(v8, 0.7071067811865476)
    v16 = lib.to_bf16(v15)
    v18 = tl.load(in3 + x * 1024 + r)
    v21 = lib.add_bf16(v18, v16)
    v22 = lib.widen_bf16(v21)
    v23 = lib.reduce_sum(v22, 0, False)
    v24 = v23 / tl.full((), 1024.0, tl.float32)
    v25 = v22 - v24
    v26 = v25 * v25
    v27 = lib.reduce_sum(v26, 0, False)
    v28 = v27 / tl.full((), 1024.0, tl.float32)
    v29 = v28 + 1e-05
    v30 = lib.rsqrt_full(v29)
    v0 = tl.load(in0 + r, eviction_policy="evict_last")
    v1 = lib.widen_bf16(v0)
    v2 = tl.load(in1 + r, eviction_policy="evict_last")
    v3 = lib.widen_bf16(v2)
    v31 = v25 * v30
    v33 = tl.fma(v31, v3, v1)
    v34 = lib.to_bf16(v33)
    tl.store(out4 + x * 1024 + r, v34)


@triton.jit
def fused_gelu_add_native_layer_norm_1(in0, in1, in2, in3, out4):
    RBLOCK: tl.constexpr = 1024
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v7 = tl.load(in2 + x * 1024 + r)
    v8 = lib.widen_bf16(v7)
    v15 = v8 * lib.fast_gate_erf(v8, 0.7071067811865476)
    v16 = lib.to_bf16(v15)
    v18 = tl.load(in3 + x * 1024 + r)
    v21 = lib.add_bf16(v18, v16)
    v22 = lib.widen_bf16(v21)
    v23 = lib.reduce_sum(v22, 0, False)
    v24 = v23 / tl.full((), 1024.0, tl.float32)
    v25 = v22 - v24
    v26 = v25 * v25
    v27 = lib.reduce_sum(v26, 0, False)
    v28 = v27 / tl.full((), 1024.0, tl.float32)
    v29 = v28 + 1e-05
    v30 = lib.rsqrt_full(v29)
    v0 = tl.load(in0 + r, eviction_policy="evict_last")
    v1 = lib.widen_bf16(v0)
    v2 = tl.load(in1 + r, eviction_policy="evict_last")
    v3 = lib.widen_bf16(v2)
    v31 = v25 * v30
    v33 = tl.fma(v31, v3, v1)
    v34 = lib.to_bf16(v33)
    tl.store(out4 + x * 1024 + r, v34)
