# inference

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_argmax_logsumexp_0(in0, out1, out2):
    RBLOCK: tl.constexpr = 8192
    x = tl.program_id(0)
    r = tl.arange(0, RBLOCK)
    v0 = tl.load(in0 + x * 8192 + r)
    v1 = lib.widen_bf16(v0)
    v2 = lib.reduce_argmax(v1, r, 0, False).to(tl.int64)
    v4 = lib.reduce_max(v1, 0, False)
    tl.store(out1 + x, v2)
    v7 = tl.abs(v4)
    v8 = v7 == float("inf")
    v9 = tl.where(v8, tl.full((), 0.0, tl.float32), v4)
    v10 = v1 - v9
    v11 = lib.exp(v10)
    v12 = lib.reduce_sum(v11, 0, False)
    v13 = lib.log(v12)
    v14 = v13 + v9
    tl.store(out2 + x, v14)
