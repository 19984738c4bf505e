# inference

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_lerp_mul_fma_copy_0(in0, in1, in2, in3, out4, out5, out6):
    XBLOCK: tl.constexpr = 512
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    x_ok = x < 657072
    v0 = tl.load(in0 + x, x_ok)
    v3 = tl.full((), 1.0, tl.float32) - tl.full((), 0.09999999999999998, tl.float32)
    v4 = tl.load(in1 + x, x_ok)
    v5 = v0 - v4
    v6 = lib.neg(v5)
    v7 = tl.fma(v6, v3, v0)
    v8 = tl.fma(tl.full((), 0.09999999999999998, tl.float32), v5, v4)
    v10 = tl.abs(tl.full((), 0.09999999999999998, tl.float32))
    v11 = v10 < 0.5
    v12 = tl.where(v11, v8, v7)
    tl.store(out4 + x, v12, x_ok)
    v16 = tl.load(in2 + x, x_ok)
    v17 = v16 * 0.999
    v19 = v0 * v0
    v20 = tl.fma(v19, tl.full((), 0.0010000000000000009, tl.float32), v17)
    tl.store(out5 + x, v20, x_ok)
    v24 = tl.load(in3 + x, x_ok)
    v28 = lib.sqrt_rn(v20)
    v29 = v28 * 10.022516250610352
    v30 = v29 + 1e-08
    v31 = v12 / v30
    v32 = tl.fma(v31, tl.full((), -0.0015353399327876296, tl.float32), v24)
    tl.store(out6 + x, v32, x_ok)


@triton.jit
def fused_lerp_mul_fma_copy_1(in0, in1, in2, in3, out4, out5, out6):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    x_ok = x < 1404
    v0 = tl.load(in0 + x, x_ok)
    v3 = tl.full((), 1.0, tl.float32) - tl.full((), 0.09999999999999998, tl.float32)
    v4 = tl.load(in1 + x, x_ok)
    v5 = v0 - v4
    v6 = lib.neg(v5)
    v7 = tl.fma(v6, v3, v0)
    v8 = tl.fma(tl.full((), 0.09999999999999998, tl.float32), v5, v4)
    v10 = tl.abs(tl.full((), 0.09999999999999998, tl.float32))
    v11 = v10 < 0.5
    v12 = tl.where(v11, v8, v7)
    tl.store(out4 + x, v12, x_ok)
    v16 = tl.load(in2 + x, x_ok)
    v17 = v16 * 0.999
    v19 = v0 * v0
    v20 = tl.fma(v19, tl.full((), 0.0010000000000000009, tl.float32), v17)
    tl.store(out5 + x, v20, x_ok)
    v24 = tl.load(in3 + x, x_ok)
    v28 = lib.sqrt_rn(v20)
    v29 = v28 * 10.022516250610352
    v30 = v29 + 1e-08
    v31 = v12 / v30
    v32 = tl.fma(v31, tl.full((), -0.0015353399327876296, tl.float32), v24)
    tl.store(out6 + x, v32, x_ok)
