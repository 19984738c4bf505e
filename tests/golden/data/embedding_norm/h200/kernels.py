# inference

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_embedding__to_copy_pow_mean_0(in0, in1, in2, out3):
    RBLOCK: tl.constexpr = 2048
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v4 = tl.load(in1 + x)
    v7 = v4 < 0
    v8 = tl.where(v7, tl.full((), 32000, tl.int64), v4)
    v9 = v8 < 0
    v10 = v8 + 32000
    v11 = tl.where(v9, v10, v8)
    v12 = v11 >= 0
    v13 = v11 < 32000
    v14 = v12 & v13
    tl.device_assert(v14, 'index out of range')
    v16 = tl.load(in2 + v11.to(tl.int32) * 2048 + r, v14, other=0.0)
    v17 = lib.widen_bf16(v16)
    v18 = v17 * v17
    v19 = lib.reduce_sum(v18, 0, False)
    v20 = v19 / tl.full((), 2048.0, tl.float32)
    v21 = v20 + 9.999999974752427e-07
    v22 = lib.rsqrt_full(v21)
    v0 = tl.load(in0 + r, eviction_policy="evict_last")
    v1 = lib.widen_bf16(v0)
    v23 = v17 * v22
    v24 = v23 * v1
    v25 = lib.to_bf16(v24)
    tl.store(out3 + x * 2048 + r, v25)
