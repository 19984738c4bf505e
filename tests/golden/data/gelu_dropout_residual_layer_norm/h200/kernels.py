# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_gelu_keep_mul_add_0(in0, in1, in2, in3, in4, out5, out6, out7):
    RBLOCK: tl.constexpr = 4096
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v2 = lib.seed_of(in0)
    v3 = lib.keep8(v2, tl.arange(0, RBLOCK // 8) + (x * 512), 0, 58982)
    v7 = tl.load(in1 + x * 4096 + r)
    v8 = lib.widen_bf16(v7)
    v19 = v8 * lib.fast_gate_tanh_cubic(v8, 0.7978845608028654, 0.044715)
    v21 = lib.round_bf16(v19)
    v25 = v21 * tl.where(v3, 1.1111111111111112, 0.0)
    v26 = lib.to_bf16(v25)
    v28 = tl.load(in2 + x * 4096 + r)
    v31 = lib.add_bf16(v28, v26)
    v32 = lib.widen_bf16(v31)
    v33 = lib.reduce_sum(v32, 0, False)
    v34 = v33 / tl.full((), 4096.0, tl.float32)
    tl.store(out5 + x, v34)
    v37 = v32 - v34
    v38 = v37 * v37
    v39 = lib.reduce_sum(v38, 0, False)
    v40 = v39 / tl.full((), 4096.0, tl.float32)
    v41 = v40 + 1e-05
    v42 = lib.rsqrt_full(v41)
    tl.store(out6 + x, v42)
    v44 = tl.load(in3 + r, eviction_policy="evict_last")
    v45 = lib.widen_bf16(v44)
    v46 = tl.load(in4 + r, eviction_policy="evict_last")
    v47 = lib.widen_bf16(v46)
    v48 = v37 * v42
    v50 = tl.fma(v48, v47, v45)
    v51 = lib.to_bf16(v50)
    tl.store(out7 + x * 4096 + r, v51)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_gelu_keep_mul_add_0(in0, in1, in2, in3, in4, in5, in6, out7, out8, out9, out10):
    RBLOCK: tl.constexpr = 4096
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v3 = lib.seed_of(in2)
    v44 = tl.load(in6 + r, eviction_policy="evict_last")
    v45 = lib.widen_bf16(v44)
    a39 = tl.full([RBLOCK], 0.0, tl.float32)
    a41 = tl.full([RBLOCK], 0.0, tl.float32)
    for l in tl.range(0, 64, num_stages=3):
        v0 = tl.load(in0 + (l + x * 64))
        v1 = tl.load(in1 + (l + x * 64))
        v4 = lib.keep8(v3, tl.arange(0, RBLOCK // 8) + (l * 512 + x * 32768), 0, 58982)
        v8 = tl.load(in3 + (l * 4096 + x * 262144) + r)
        v9 = lib.widen_bf16(v8)
        v11 = v9 * v9
        v15 = lib.fast_tanh_absolute_cubic(v9, 0.7978845608028654, 0.044715)
        v17 = 1.0 + v15
        v19 = 0.5 * v9
        v20 = v19 * v17
        v22 = lib.round_bf16(v20)
        v26 = v22 * tl.where(v4, 1.1111111111111112, 0.0)
        v27 = lib.to_bf16(v26)
        v29 = tl.load(in4 + (l * 4096 + x * 262144) + r)
        v32 = lib.add_bf16(v29, v27)
        v33 = lib.widen_bf16(v32)
        v34 = v33 - v1
        v35 = v34 * v0
        v36 = tl.load(in5 + (l * 4096 + x * 262144) + r)
        v37 = lib.widen_bf16(v36)
        a39 = tl.fma(v37, v35, a39)
        a41 = a41 + v37
        v46 = v37 * v45
        v47 = v46 * v35
        v48 = lib.reduce_sum(v47, 0, False)
        v51 = lib.reduce_sum(v46, 0, False)
        v49 = v48 / tl.full((), 4096.0, tl.float32)
        v52 = v51 / tl.full((), 4096.0, tl.float32)
        v53 = v46 - v52
        v54 = tl.fma(lib.neg(v35), v49, v53)
        v55 = v54 * v0
        v56 = lib.to_bf16(v55)
        tl.store(out9 + (l * 4096 + x * 262144) + r, v56)
        v60 = tl.fma(v11, tl.full((), 0.134145, tl.float32), tl.full((), 1.0, tl.float32))
        v61 = v60 * 0.7978845608028654
        v63 = tl.fma(lib.neg(v15), v15, tl.full((), 1.0, tl.float32))
        v64 = v19 * v63
        v65 = v64 * v61
        v67 = tl.fma(tl.full((), 0.5, tl.float32), v17, v65)
        v68 = lib.widen_bf16(v56)
        v71 = v68 * tl.where(v4, 1.1111111111111112, 0.0)
        v73 = lib.round_bf16(v71)
        v74 = v73 * v67
        v75 = lib.to_bf16(v74)
        tl.store(out10 + (l * 4096 + x * 262144) + r, v75)
    tl.store(out7 + x * 4096 + r, a39)
    tl.store(out8 + x * 4096 + r, a41)


@triton.jit
def fused_native_layer_norm_backward_0(in0, in1, out2, out3):
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
