# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib

# eager's bits: functions keep subnormals


@triton.jit
def fused_add__to_copy_0(in0, in1, out2, out3):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + x)
    v2 = tl.load(in1 + x)
    v5 = lib.add_bf16(v2, v0)
    tl.store(out2 + x, v5)
    v7 = lib.widen_bf16(v5)
    tl.store(out3 + x, v7)


@triton.jit
def fused_add_0(in0, out1):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = tl.load(in0 + x)
    v2 = v1 + 1e-06
    tl.store(out1 + x, v2)


@triton.jit
def fused_mul__to_copy_0(in0, in1, in2, out3):
    XBLOCK: tl.constexpr = 1024
    pid = tl.program_id(0)
    y = (pid // 4)
    x0 = (pid % 4) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y)
    v1 = tl.load(in1 + y * 4096 + x)
    v2 = v1 * v0
    v4 = lib.round_bf16(v2)
    v5 = tl.load(in2 + x)
    v6 = lib.widen_bf16(v5)
    v7 = v6 * v4
    v8 = lib.to_bf16(v7)
    tl.store(out3 + y * 4096 + x, v8)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib

# eager's bits: functions keep subnormals


@triton.jit
def fused_add_0(in0, out1):
    XBLOCK: tl.constexpr = 128
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = tl.load(in0 + x)
    v2 = v1 + 1e-06
    tl.store(out1 + x, v2)


@triton.jit
def fused_mul__to_copy_0(in0, in1, in2, in3, out4, out5, out6):
    XBLOCK: tl.constexpr = 1024
    pid = tl.program_id(0)
    y = (pid // 4)
    x0 = (pid % 4) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y * 4096 + x)
    v1 = lib.widen_bf16(v0)
    tl.store(out4 + y * 4096 + x, v1)
    v3 = tl.load(in1 + y)
    v4 = v1 * v3
    v6 = lib.round_bf16(v4)
    v7 = tl.load(in2 + y * 4096 + x)
    v8 = lib.widen_bf16(v7)
    v9 = v8 * v6
    v10 = lib.to_bf16(v9)
    tl.store(out5 + y * 4096 + x, v10)
    v12 = tl.load(in3 + x)
    v13 = lib.widen_bf16(v12)
    v14 = v8 * v13
    v16 = lib.round_bf16(v14)
    v17 = v16 * v1
    tl.store(out6 + y * 4096 + x, v17)


@triton.jit
def fused_mul_div_add__to_copy_0(in0, in1, in2, in3, in4, in5, in6, out7):
    XBLOCK: tl.constexpr = 1024
    pid = tl.program_id(0)
    y = (pid // 4)
    x0 = (pid % 4) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = tl.load(in0 + y * 4096 + x)
    v2 = v1 * 2.0
    v4 = tl.load(in1 + y)
    v6 = tl.load(in2 + y)
    v7 = v6 * -0.5
    v8 = v7 * v4
    v9 = v8 * 0.000244140625
    v10 = v9 * v2
    v11 = tl.load(in3 + y)
    v12 = tl.load(in4 + x)
    v13 = lib.widen_bf16(v12)
    v14 = tl.load(in5 + y * 4096 + x)
    v15 = lib.widen_bf16(v14)
    v16 = v15 * v13
    v18 = lib.round_bf16(v16)
    v19 = v18 * v11
    v20 = v19 + v10
    v21 = lib.to_bf16(v20)
    v23 = tl.load(in6 + y * 4096 + x)
    v26 = lib.add_bf16(v23, v21)
    tl.store(out7 + y * 4096 + x, v26)
