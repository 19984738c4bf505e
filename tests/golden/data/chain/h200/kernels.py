# forward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_mul_add_relu_0(in0, out1):
    XBLOCK: tl.constexpr = 1024
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v17 = tl.load(in0 + x)
    v18 = v17 * 1.01
    v19 = v18 + 0.001
    v20 = lib.maximum(v19, tl.full((), 0.0, tl.float32))
    v21 = v20 * 1.02
    v22 = v21 + 0.002
    v23 = v22 * 1.03
    v24 = v23 + 0.003
    v25 = lib.maximum(v24, tl.full((), 0.0, tl.float32))
    v26 = v25 * 1.04
    v27 = v26 + 0.004
    v28 = v27 * 1.05
    v29 = v28 + 0.005
    v30 = lib.maximum(v29, tl.full((), 0.0, tl.float32))
    v31 = v30 * 1.06
    v32 = v31 + 0.006
    v33 = v32 * 1.07
    v34 = v33 + 0.007
    v35 = lib.maximum(v34, tl.full((), 0.0, tl.float32))
    v36 = v35 * 1.08
    v37 = v36 + 0.008
    tl.store(out1 + x, v37)

# backward

import triton
import triton.language as tl

from fusewise.runtime import triton_lib as lib


@triton.jit
def fused_mul_add_relu_threshold_backward_0(in0, in1, out2):
    XBLOCK: tl.constexpr = 512
    x0 = tl.program_id(0) * XBLOCK
    x = x0 + tl.arange(0, XBLOCK)
    v8 = tl.load(in0 + x)
    v9 = v8 * 1.08
    v18 = tl.load(in1 + x)
    v19 = v18 * 1.01
    v20 = v19 + 0.001
    v21 = lib.maximum(v20, tl.full((), 0.0, tl.float32))
    v22 = v21 * 1.02
    v23 = v22 + 0.002
    v24 = v23 * 1.03
    v25 = v24 + 0.003
    v26 = lib.maximum(v25, tl.full((), 0.0, tl.float32))
    v27 = v26 * 1.04
    v28 = v27 + 0.004
    v29 = v28 * 1.05
    v30 = v29 + 0.005
    v31 = lib.maximum(v30, tl.full((), 0.0, tl.float32))
    v32 = v31 * 1.06
    v33 = v32 + 0.006
    v34 = v33 * 1.07
    v35 = v34 + 0.007
    v36 = lib.maximum(v35, tl.full((), 0.0, tl.float32))
    v37 = v36 <= 0.0
    v38 = tl.where(v37, tl.full((), 0.0, tl.float32), v9)
    v39 = v38 * 1.07
    v40 = v39 * 1.06
    v41 = v31 <= 0.0
    v42 = tl.where(v41, tl.full((), 0.0, tl.float32), v40)
    v43 = v42 * 1.05
    v44 = v43 * 1.04
    v45 = v26 <= 0.0
    v46 = tl.where(v45, tl.full((), 0.0, tl.float32), v44)
    v47 = v46 * 1.03
    v48 = v47 * 1.02
    v49 = v21 <= 0.0
    v50 = tl.where(v49, tl.full((), 0.0, tl.float32), v48)
    v51 = v50 * 1.01
    tl.store(out2 + x, v51)
