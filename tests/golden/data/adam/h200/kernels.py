# inference

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_mul_0(in0, out1):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    x_ok = x < 657072
    v1 = tl.load(in0 + x, x_ok)
    v2 = v1 * 0.999
    tl.store(out1 + x, v2, x_ok)


@triton.jit
def fused_lerp_mul_0(in0, in1, out2, out3):
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
    tl.store(out2 + x, v12, x_ok)
    v14 = v0 * v0
    tl.store(out3 + x, v14, x_ok)


@triton.jit
def fused_copy_sqrt_div_add_0(in0, in1, out2, out3):
    XBLOCK: tl.constexpr = 512
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    x_ok = x < 657072
    v0 = tl.load(in0 + x, x_ok)
    tl.store(out2 + x, v0, x_ok)
    v5 = lib.sqrt_rn(v0)
    v6 = v5 * 10.022516250610352
    v7 = v6 + 1e-08
    v8 = tl.load(in1 + x, x_ok)
    v9 = v8 / v7
    tl.store(out3 + x, v9, x_ok)


@triton.jit
def fused_copy_0(in0, out1):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    x_ok = x < 657072
    v0 = tl.load(in0 + x, x_ok)
    tl.store(out1 + x, v0, x_ok)


@triton.jit
def fused_mul_1(in0, out1):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    x_ok = x < 1404
    v1 = tl.load(in0 + x, x_ok)
    v2 = v1 * 0.999
    tl.store(out1 + x, v2, x_ok)


@triton.jit
def fused_lerp_mul_1(in0, in1, out2, out3):
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
    tl.store(out2 + x, v12, x_ok)
    v14 = v0 * v0
    tl.store(out3 + x, v14, x_ok)


@triton.jit
def fused_copy_sqrt_div_add_1(in0, in1, out2, out3):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    x_ok = x < 1404
    v0 = tl.load(in0 + x, x_ok)
    tl.store(out2 + x, v0, x_ok)
    v5 = lib.sqrt_rn(v0)
    v6 = v5 * 10.022516250610352
    v7 = v6 + 1e-08
    v8 = tl.load(in1 + x, x_ok)
    v9 = v8 / v7
    tl.store(out3 + x, v9, x_ok)


@triton.jit
def fused_copy_1(in0, out1):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    x_ok = x < 1404
    v0 = tl.load(in0 + x, x_ok)
    tl.store(out1 + x, v0, x_ok)
