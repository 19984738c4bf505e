// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_mul_add_relu_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 16777216;
  if (n_x0 == 0) return 0;
  fw::large_output(out1, 67108864);
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x0, 4096);
  const int64_t points = blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point;
      const int64_t begin = block * 4096;
      const bool direct42 = fw::aligned(out1 + (0) + begin);
      fw::vectors(begin, fw::least(n_x0, begin + 4096), [&](int64_t x0, auto lanes) FW_BODY {
        const auto v16 = fw::load(in0 + (x0), lanes);
        const auto v17 = v16 * fw::splat<float>(static_cast<float>(0x1.028f5c28f5c29p+0));
        const auto v18 = v17 + fw::splat<float>(static_cast<float>(0x1.0624dd2f1a9fcp-10));
        const auto v20 = fw::lt(v18, fw::splat<float>(0x0.0p+0f));
        const auto v21 = fw::select(v20, fw::splat<float>(0x0.0p+0f), v18);
        const auto v22 = v21 * fw::splat<float>(static_cast<float>(0x1.051eb851eb852p+0));
        const auto v23 = v22 + fw::splat<float>(static_cast<float>(0x1.0624dd2f1a9fcp-9));
        const auto v24 = v23 * fw::splat<float>(static_cast<float>(0x1.07ae147ae147bp+0));
        const auto v25 = v24 + fw::splat<float>(static_cast<float>(0x1.89374bc6a7efap-9));
        const auto v26 = fw::lt(v25, fw::splat<float>(0x0.0p+0f));
        const auto v27 = fw::select(v26, fw::splat<float>(0x0.0p+0f), v25);
        const auto v28 = v27 * fw::splat<float>(static_cast<float>(0x1.0a3d70a3d70a4p+0));
        const auto v29 = v28 + fw::splat<float>(static_cast<float>(0x1.0624dd2f1a9fcp-8));
        const auto v30 = v29 * fw::splat<float>(static_cast<float>(0x1.0cccccccccccdp+0));
        const auto v31 = v30 + fw::splat<float>(static_cast<float>(0x1.47ae147ae147bp-8));
        const auto v32 = fw::lt(v31, fw::splat<float>(0x0.0p+0f));
        const auto v33 = fw::select(v32, fw::splat<float>(0x0.0p+0f), v31);
        const auto v34 = v33 * fw::splat<float>(static_cast<float>(0x1.0f5c28f5c28f6p+0));
        const auto v35 = v34 + fw::splat<float>(static_cast<float>(0x1.89374bc6a7efap-8));
        const auto v36 = v35 * fw::splat<float>(static_cast<float>(0x1.11eb851eb851fp+0));
        const auto v37 = v36 + fw::splat<float>(static_cast<float>(0x1.cac083126e979p-8));
        const auto v38 = fw::lt(v37, fw::splat<float>(0x0.0p+0f));
        const auto v39 = fw::select(v38, fw::splat<float>(0x0.0p+0f), v37);
        const auto v40 = v39 * fw::splat<float>(static_cast<float>(0x1.147ae147ae148p+0));
        const auto v41 = v40 + fw::splat<float>(static_cast<float>(0x1.0624dd2f1a9fcp-7));
        fw::store_direct<float>(out1 + (x0), v41, lanes, direct42);
      });
    }
    fw::direct_fence();
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_mul_add_relu_threshold_backward_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2) {
  const int64_t n_x0 = 16777216;
  if (n_x0 == 0) return 0;
  fw::large_output(out2, 67108864);
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x0, 4096);
  const int64_t points = blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point;
      const int64_t begin = block * 4096;
      const bool direct56 = fw::aligned(out2 + (0) + begin);
      fw::vectors(begin, fw::least(n_x0, begin + 4096), [&](int64_t x0, auto lanes) FW_BODY {
        const auto v8 = fw::load(in0 + (x0), lanes);
        const auto v9 = v8 * fw::splat<float>(static_cast<float>(0x1.147ae147ae148p+0));
        const auto v18 = fw::load(in1 + (x0), lanes);
        const auto v19 = v18 * fw::splat<float>(static_cast<float>(0x1.028f5c28f5c29p+0));
        const auto v20 = v19 + fw::splat<float>(static_cast<float>(0x1.0624dd2f1a9fcp-10));
        const auto v21 = fw::lt(v20, fw::splat<float>(0x0.0p+0f));
        const auto v22 = fw::select(v21, fw::splat<float>(0x0.0p+0f), v20);
        const auto v23 = v22 * fw::splat<float>(static_cast<float>(0x1.051eb851eb852p+0));
        const auto v24 = v23 + fw::splat<float>(static_cast<float>(0x1.0624dd2f1a9fcp-9));
        const auto v25 = v24 * fw::splat<float>(static_cast<float>(0x1.07ae147ae147bp+0));
        const auto v26 = v25 + fw::splat<float>(static_cast<float>(0x1.89374bc6a7efap-9));
        const auto v27 = fw::lt(v26, fw::splat<float>(0x0.0p+0f));
        const auto v28 = fw::select(v27, fw::splat<float>(0x0.0p+0f), v26);
        const auto v29 = v28 * fw::splat<float>(static_cast<float>(0x1.0a3d70a3d70a4p+0));
        const auto v30 = v29 + fw::splat<float>(static_cast<float>(0x1.0624dd2f1a9fcp-8));
        const auto v31 = v30 * fw::splat<float>(static_cast<float>(0x1.0cccccccccccdp+0));
        const auto v32 = v31 + fw::splat<float>(static_cast<float>(0x1.47ae147ae147bp-8));
        const auto v33 = fw::lt(v32, fw::splat<float>(0x0.0p+0f));
        const auto v34 = fw::select(v33, fw::splat<float>(0x0.0p+0f), v32);
        const auto v35 = v34 * fw::splat<float>(static_cast<float>(0x1.0f5c28f5c28f6p+0));
        const auto v36 = v35 + fw::splat<float>(static_cast<float>(0x1.89374bc6a7efap-8));
        const auto v37 = v36 * fw::splat<float>(static_cast<float>(0x1.11eb851eb851fp+0));
        const auto v38 = v37 + fw::splat<float>(static_cast<float>(0x1.cac083126e979p-8));
        const auto v39 = fw::lt(v38, fw::splat<float>(0x0.0p+0f));
        const auto v40 = fw::select(v39, fw::splat<float>(0x0.0p+0f), v38);
        const auto v41 = fw::le(v40, fw::splat<float>(0x0.0p+0f));
        const auto v42 = fw::select(v41, fw::splat<float>(0x0.0p+0f), v9);
        const auto v43 = v42 * fw::splat<float>(static_cast<float>(0x1.11eb851eb851fp+0));
        const auto v44 = v43 * fw::splat<float>(static_cast<float>(0x1.0f5c28f5c28f6p+0));
        const auto v45 = fw::le(v34, fw::splat<float>(0x0.0p+0f));
        const auto v46 = fw::select(v45, fw::splat<float>(0x0.0p+0f), v44);
        const auto v47 = v46 * fw::splat<float>(static_cast<float>(0x1.0cccccccccccdp+0));
        const auto v48 = v47 * fw::splat<float>(static_cast<float>(0x1.0a3d70a3d70a4p+0));
        const auto v49 = fw::le(v28, fw::splat<float>(0x0.0p+0f));
        const auto v50 = fw::select(v49, fw::splat<float>(0x0.0p+0f), v48);
        const auto v51 = v50 * fw::splat<float>(static_cast<float>(0x1.07ae147ae147bp+0));
        const auto v52 = v51 * fw::splat<float>(static_cast<float>(0x1.051eb851eb852p+0));
        const auto v53 = fw::le(v22, fw::splat<float>(0x0.0p+0f));
        const auto v54 = fw::select(v53, fw::splat<float>(0x0.0p+0f), v52);
        const auto v55 = v54 * fw::splat<float>(static_cast<float>(0x1.028f5c28f5c29p+0));
        fw::store_direct<float>(out2 + (x0), v55, lanes, direct56);
      });
    }
    fw::direct_fence();
  }
  return status;
}
