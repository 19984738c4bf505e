# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_to_copy__log_softmax_0(in0, out1, out2):
    RBLOCK: tl.constexpr = 8192
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    r_ok = r < 8016
    v0 = tl.load(in0 + x * 8016 + r, r_ok, other=float("-inf"))
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
def fused_log_softmax_0(in0, in1, out2, out3):
    XBLOCK: tl.constexpr = 32
    RBLOCK: tl.constexpr = 16
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, RBLOCK)[None, :]
    v0 = tl.load(in0 + x * 16 + r)
    v1 = lib.reduce_max(v0, 1, True)
    tl.store(out2 + x, v1)
    v3 = v0 - v1
    v4 = lib.exp(v3)
    v5 = tl.load(in1 + x * 16 + r)
    v6 = v5 * v4
    v7 = lib.reduce_sum(v6, 1, True)
    v8 = lib.log(v7)
    tl.store(out3 + x, v8)


@triton.jit
def fused_nll_loss_forward_0(in0, in1, in2, in3, out4):
    RBLOCK: tl.constexpr = 8192
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v1 = tl.load(in0 + r, eviction_policy="evict_last")
    v2 = v1 == (-100)
    v3 = ~v2
    v4 = v3.to(tl.float32)
    v7 = tl.where(v2, tl.full((), 0, tl.int64), v1)
    v9 = v7 < 0
    v10 = tl.where(v9, tl.full((), 128256, tl.int64), v7)
    v11 = v10 < 0
    v12 = v10 + 128256
    v13 = tl.where(v11, v12, v10)
    v14 = v13 >= 0
    v15 = v13 < 128256
    v16 = v14 & v15
    tl.device_assert(v16, 'index out of range')
    v18 = tl.load(in1 + r, v16, other=0.0, eviction_policy="evict_last")
    v19 = tl.load(in2 + r, v16, other=0.0, eviction_policy="evict_last")
    v20 = tl.load(in3 + (r * 128256 + v13.to(tl.int32)), v16, other=0.0)
    v21 = lib.widen_bf16(v20)
    v22 = v21 - v19
    v23 = v22 - v18
    v24 = lib.neg(v23)
    v25 = v24 * v4
    v27 = tl.where(v2, tl.full((), 0.0, tl.float32), v25)
    v5 = lib.reduce_sum(v4, 0, False)
    v28 = lib.reduce_sum(v27, 0, False)
    v29 = lib.div_rn(v28, v5)
    tl.store(out4, v29)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_nll_loss_forward_nll_loss_backward_0(in0, in1, out2):
    RBLOCK: tl.constexpr = 8192
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v6 = tl.load(in1)
    v1 = tl.load(in0 + r, eviction_policy="evict_last")
    v2 = v1 == (-100)
    v3 = ~v2
    v4 = v3.to(tl.float32)
    v5 = lib.reduce_sum(v4, 0, False)
    v7 = lib.div_rn(v6, v5)
    v8 = lib.neg(v7)
    tl.store(out2, v8)


@triton.jit
def fused_to_copy__log_softmax_nll_loss_forward_nll_loss_backward_0(in0, in1, in2, in3, in4, out5):
    RBLOCK: tl.constexpr = 16384
    x = tl.program_id(0)
    v2 = tl.load(in0 + x)
    v3 = v2 == (-100)
    v4 = ~v3
    v5 = v4.to(tl.float32)
    v6 = tl.load(in1)
    v7 = v6 * v5
    v8 = tl.where(v3, tl.full((), 0.0, tl.float32), v7)
    v10 = tl.where(v3, tl.full((), 0, tl.int64), v2)
    v12 = v10 < 0
    v13 = tl.where(v12, tl.full((), 128256, tl.int64), v10)
    v18 = tl.load(in2 + x)
    v19 = tl.load(in3 + x)
    v17 = tl.where((v13 >= 0) & (v13 < 128256), v8, 0)
    for r0 in tl.range(0, 128256, RBLOCK):
        r = r0 + tl.arange(0, RBLOCK)
        r_ok = r < 128256
        v15 = r == lib.clamp_i32(v13)
        v16 = tl.where(v15, v8, tl.full((), 0.0, tl.float32))
        v20 = tl.load(in4 + x * 128256 + r, r_ok, eviction_policy="evict_first")
        v21 = lib.widen_bf16(v20)
        v22 = v21 - v19
        v23 = v22 - v18
        v24 = lib.fast_exp(v23)
        v26 = tl.fma(lib.neg(v24), v17, v16)
        v27 = lib.to_bf16(v26)
        tl.store(out5 + x * 128256 + r, v27, r_ok)
