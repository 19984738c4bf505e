# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib

# eager's bits: functions keep subnormals


@triton.jit
def fused_add__to_copy_pow_0(in0, in1, out2, out3):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + x)
    v2 = tl.load(in1 + x)
    v5 = lib.add_bf16(v2, v0)
    tl.store(out2 + x, v5)
    v7 = lib.widen_bf16(v5)
    v8 = v7 * v7
    tl.store(out3 + x, v8)


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
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 2)
    x0 = (pid % 2) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y)
    v1 = tl.load(in1 + y * 4096 + x)
    v2 = lib.widen_bf16(v1)
    v3 = v2 * v0
    v5 = lib.round_bf16(v3)
    v6 = tl.load(in2 + x)
    v7 = lib.widen_bf16(v6)
    v8 = v7 * v5
    v9 = lib.to_bf16(v8)
    tl.store(out3 + y * 4096 + x, v9)

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
def fused_mul__to_copy_0(in0, in1, in2, out3):
    XBLOCK: tl.constexpr = 1024
    pid = tl.program_id(0)
    y = (pid // 4)
    x0 = (pid % 4) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y * 4096 + x)
    v1 = lib.widen_bf16(v0)
    v2 = tl.load(in1 + x)
    v3 = lib.widen_bf16(v2)
    v4 = tl.load(in2 + y * 4096 + x)
    v5 = lib.widen_bf16(v4)
    v6 = v5 * v3
    v8 = lib.round_bf16(v6)
    v9 = v8 * v1
    tl.store(out3 + y * 4096 + x, v9)


@triton.jit
def fused_mul__to_copy_div_add_0(in0, in1, in2, in3, in4, in5, out6, out7):
    XBLOCK: tl.constexpr = 1024
    pid = tl.program_id(0)
    y = (pid // 4)
    x0 = (pid % 4) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v0 = tl.load(in0 + y)
    v1 = tl.load(in1 + y * 4096 + x)
    v2 = lib.widen_bf16(v1)
    v3 = v2 * v0
    v5 = lib.round_bf16(v3)
    v6 = tl.load(in2 + y * 4096 + x)
    v7 = lib.widen_bf16(v6)
    v8 = v7 * v5
    v9 = lib.to_bf16(v8)
    tl.store(out6 + y * 4096 + x, v9)
    v12 = v2 * 2.0
    v14 = v0 * v0
    v15 = v14 * v0
    v17 = tl.load(in3 + y)
    v18 = v17 * -0.5
    v19 = v18 * v15
    v20 = v19 * 0.000244140625
    v21 = v20 * v12
    v22 = tl.load(in4 + x)
    v23 = lib.widen_bf16(v22)
    v24 = v7 * v23
    v26 = lib.round_bf16(v24)
    v27 = v26 * v0
    v28 = v27 + v21
    v29 = lib.to_bf16(v28)
    v31 = tl.load(in5 + y * 4096 + x)
    v34 = lib.add_bf16(v31, v29)
    tl.store(out7 + y * 4096 + x, v34)
