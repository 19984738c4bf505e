# inference

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_mul_add_gelu_0(in0, in1, in2, out3):
    XBLOCK: tl.constexpr = 2048
    pid = tl.program_id(0)
    y = (pid // 2)
    x0 = (pid % 2) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v1 = tl.load(in0 + x)
    v3 = tl.load(in1 + x)
    v5 = tl.load(in2 + y * 4096 + x)
    v8 = lib.mul_bf16(v5, v3)
    v11 = lib.add_bf16(v8, v1)
    v12 = lib.widen_bf16(v11)
    v23 = v12 * lib.fast_gate_tanh_cubic(v12, 0.7978845608028654, 0.044715)
    v24 = lib.to_bf16(v23)
    tl.store(out3 + y * 4096 + x, v24)
