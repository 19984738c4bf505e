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
def fused_mul__to_copy_0(in0, in1, in2, out3):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 2)
    x0 = (pid % 2) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = tl.load(in0 + y)
    v2 = v1 + 1e-06
    v3 = lib.rsqrt(v2)
    v4 = tl.load(in1 + y * 4096 + x)
    v5 = lib.widen_bf16(v4)
    v6 = v5 * v3
    v8 = lib.round_bf16(v6)
    v9 = tl.load(in2 + x)
    v10 = lib.widen_bf16(v9)
    v11 = v10 * v8
    v12 = lib.to_bf16(v11)
    tl.store(out3 + y * 4096 + x, v12)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib

# eager's bits: functions keep subnormals


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
    v1 = tl.load(in0 + y)
    v2 = v1 + 1e-06
    v3 = lib.rsqrt(v2)
    v4 = tl.load(in1 + y * 4096 + x)
    v5 = lib.widen_bf16(v4)
    v6 = v5 * v3
    v8 = lib.round_bf16(v6)
    v9 = tl.load(in2 + y * 4096 + x)
    v10 = lib.widen_bf16(v9)
    v11 = v10 * v8
    v12 = lib.to_bf16(v11)
    tl.store(out6 + y * 4096 + x, v12)
    v15 = v5 * 2.0
    v17 = v3 * v3
    v18 = v17 * v3
    v20 = tl.load(in3 + y)
    v21 = v20 * -0.5
    v22 = v21 * v18
    v23 = v22 * 0.000244140625
    v24 = v23 * v15
    v25 = tl.load(in4 + x)
    v26 = lib.widen_bf16(v25)
    v27 = v10 * v26
    v29 = lib.round_bf16(v27)
    v30 = v29 * v3
    v31 = v30 + v24
    v32 = lib.to_bf16(v31)
    v34 = tl.load(in5 + y * 4096 + x)
    v37 = lib.add_bf16(v34, v32)
    tl.store(out7 + y * 4096 + x, v37)
