# inference

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_mul_add__softmax_0(in0, in1, out2, s10, s21):
    RBLOCK: tl.constexpr = 1024
    x = tl.program_id(0).to(tl.int64)
    a11 = tl.full([RBLOCK], float("-inf"), tl.float32)
    for r0 in tl.range(0, s21, RBLOCK):
        r = r0 + tl.arange(0, RBLOCK)
        r_ok = r < s21
        v0 = tl.load(in0 + r, r_ok, eviction_policy="evict_last")
        v3 = tl.load(in1 + x * s21 + r, r_ok, eviction_policy="evict_last")
        v6 = lib.mul_bf16(v3, tl.full((), 0.125, tl.float32).to(tl.bfloat16))
        v9 = lib.add_bf16(v6, v0)
        v10 = lib.widen_bf16(v9)
        a11 = lib.maximum(a11, tl.where(r_ok, v10, float("-inf")))
    v11 = lib.reduce_max(a11, 0, False)
    a14 = tl.full([RBLOCK], 0.0, tl.float32)
    for r0 in tl.range(0, s21, RBLOCK):
        r = r0 + tl.arange(0, RBLOCK)
        r_ok = r < s21
        v0 = tl.load(in0 + r, r_ok, eviction_policy="evict_last")
        v3 = tl.load(in1 + x * s21 + r, r_ok, eviction_policy="evict_last")
        v6 = lib.mul_bf16(v3, tl.full((), 0.125, tl.float32).to(tl.bfloat16))
        v9 = lib.add_bf16(v6, v0)
        v10 = lib.widen_bf16(v9)
        v12 = v10 - v11
        v13 = lib.fast_exp(v12)
        a14 = a14 + tl.where(r_ok, v13, 0.0)
    v14 = lib.reduce_sum(a14, 0, False)
    for r0 in tl.range(0, s21, RBLOCK):
        r = r0 + tl.arange(0, RBLOCK)
        r_ok = r < s21
        v0 = tl.load(in0 + r, r_ok, eviction_policy="evict_last")
        v3 = tl.load(in1 + x * s21 + r, r_ok, eviction_policy="evict_first")
        v6 = lib.mul_bf16(v3, tl.full((), 0.125, tl.float32).to(tl.bfloat16))
        v9 = lib.add_bf16(v6, v0)
        v10 = lib.widen_bf16(v9)
        v12 = v10 - v11
        v13 = lib.fast_exp(v12)
        v15 = lib.div_by_row(v13, v14)
        v16 = lib.to_bf16(v15)
        tl.store(out2 + x * s21 + r, v16, r_ok)
