// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_lerp_mul_fma_copy_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, float* __restrict out4, float* __restrict out5, float* __restrict out6) {
  const int64_t n_x0 = 657072;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const float v3 = 0x1.0000000000000p+0f - static_cast<float>(0x1.9999999999998p-4);
  const float v10 = fw::abs(static_cast<float>(0x1.9999999999998p-4));
  const bool v11 = fw::lt(v10, 0x1.0000000000000p-1f);
  const int64_t blocks = fw::ceil_div(n_x0, 4096);
  const int64_t points = blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x0, begin + 4096), [&](int64_t x0, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (x0), lanes);
        const auto v4 = fw::load(in1 + (x0), lanes);
        const auto v5 = v0 - v4;
        const auto v6 = -v5;
        const auto v7 = fw::fma(v6, fw::splat<float>(v3), v0);
        const auto v8 = fw::fma(fw::splat<float>(static_cast<float>(0x1.9999999999998p-4)), v5, v4);
        const auto v12 = fw::select(fw::splat_mask(v11), v8, v7);
        fw::store<float>(out4 + (x0), v12, lanes);
        const auto v15 = fw::load(in2 + (x0), lanes);
        const auto v16 = v15 * fw::splat<float>(static_cast<float>(0x1.ff7ced916872bp-1));
        const auto v18 = v0 * v0;
        const auto v19 = fw::fma(v18, fw::splat<float>(static_cast<float>(0x1.0624dd2f1aa00p-10)), v16);
        const auto v20 = v19;
        fw::store<float>(out5 + (x0), v20, lanes);
        const auto v22 = fw::load(in3 + (x0), lanes);
        const auto v26 = fw::sqrt(v20);
        const auto v27 = v26 / fw::splat<float>(static_cast<float>(0x1.98ae08a9e2688p-4));
        const auto v28 = v27 + fw::splat<float>(static_cast<float>(0x1.5798ee2308c3ap-27));
        const auto v29 = v12 / v28;
        const auto v30 = fw::fma(v29, fw::splat<float>((static_cast<float>(-0x1.927aeb32c15a5p-10))), v22);
        const auto v31 = v30;
        fw::store<float>(out6 + (x0), v31, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_lerp_mul_fma_copy_1(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, float* __restrict out4, float* __restrict out5, float* __restrict out6) {
  const int64_t n_x0 = 1404;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const float v3 = 0x1.0000000000000p+0f - static_cast<float>(0x1.9999999999998p-4);
  const float v10 = fw::abs(static_cast<float>(0x1.9999999999998p-4));
  const bool v11 = fw::lt(v10, 0x1.0000000000000p-1f);
  const int64_t blocks = fw::ceil_div(n_x0, 4096);
  const int64_t points = blocks;
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x0, begin + 4096), [&](int64_t x0, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (x0), lanes);
        const auto v4 = fw::load(in1 + (x0), lanes);
        const auto v5 = v0 - v4;
        const auto v6 = -v5;
        const auto v7 = fw::fma(v6, fw::splat<float>(v3), v0);
        const auto v8 = fw::fma(fw::splat<float>(static_cast<float>(0x1.9999999999998p-4)), v5, v4);
        const auto v12 = fw::select(fw::splat_mask(v11), v8, v7);
        fw::store<float>(out4 + (x0), v12, lanes);
        const auto v15 = fw::load(in2 + (x0), lanes);
        const auto v16 = v15 * fw::splat<float>(static_cast<float>(0x1.ff7ced916872bp-1));
        const auto v18 = v0 * v0;
        const auto v19 = fw::fma(v18, fw::splat<float>(static_cast<float>(0x1.0624dd2f1aa00p-10)), v16);
        const auto v20 = v19;
        fw::store<float>(out5 + (x0), v20, lanes);
        const auto v22 = fw::load(in3 + (x0), lanes);
        const auto v26 = fw::sqrt(v20);
        const auto v27 = v26 / fw::splat<float>(static_cast<float>(0x1.98ae08a9e2688p-4));
        const auto v28 = v27 + fw::splat<float>(static_cast<float>(0x1.5798ee2308c3ap-27));
        const auto v29 = v12 / v28;
        const auto v30 = fw::fma(v29, fw::splat<float>((static_cast<float>(-0x1.927aeb32c15a5p-10))), v22);
        const auto v31 = v30;
        fw::store<float>(out6 + (x0), v31, lanes);
      });
    }
  }
  return status;
}
