// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_lerp_mul_fma_copy_0(const float* __restrict in0, const float* in1, const float* in2, const float* in3, float* out4, float* out5, float* out6) {
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
        const auto v13 = v12;
        fw::store<float>(out4 + (x0), v13, lanes);
        const auto v16 = fw::load(in2 + (x0), lanes);
        const auto v17 = v16 * fw::splat<float>(static_cast<float>(0x1.ff7ced916872bp-1));
        const auto v19 = v0 * v0;
        const auto v20 = fw::fma(v19, fw::splat<float>(static_cast<float>(0x1.0624dd2f1aa00p-10)), v17);
        const auto v21 = v20;
        const auto v22 = v21;
        fw::store<float>(out5 + (x0), v22, lanes);
        const auto v24 = fw::load(in3 + (x0), lanes);
        const auto v28 = fw::sqrt(v21);
        const auto v29 = v28 / fw::splat<float>(static_cast<float>(0x1.98ae08a9e2688p-4));
        const auto v30 = v29 + fw::splat<float>(static_cast<float>(0x1.5798ee2308c3ap-27));
        const auto v31 = v12 / v30;
        const auto v32 = fw::fma(v31, fw::splat<float>((static_cast<float>(-0x1.927aeb32c15a5p-10))), v24);
        const auto v33 = v32;
        const auto v34 = v33;
        fw::store<float>(out6 + (x0), v34, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_lerp_mul_fma_copy_1(const float* __restrict in0, const float* in1, const float* in2, const float* in3, float* out4, float* out5, float* out6) {
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
        const auto v13 = v12;
        fw::store<float>(out4 + (x0), v13, lanes);
        const auto v16 = fw::load(in2 + (x0), lanes);
        const auto v17 = v16 * fw::splat<float>(static_cast<float>(0x1.ff7ced916872bp-1));
        const auto v19 = v0 * v0;
        const auto v20 = fw::fma(v19, fw::splat<float>(static_cast<float>(0x1.0624dd2f1aa00p-10)), v17);
        const auto v21 = v20;
        const auto v22 = v21;
        fw::store<float>(out5 + (x0), v22, lanes);
        const auto v24 = fw::load(in3 + (x0), lanes);
        const auto v28 = fw::sqrt(v21);
        const auto v29 = v28 / fw::splat<float>(static_cast<float>(0x1.98ae08a9e2688p-4));
        const auto v30 = v29 + fw::splat<float>(static_cast<float>(0x1.5798ee2308c3ap-27));
        const auto v31 = v12 / v30;
        const auto v32 = fw::fma(v31, fw::splat<float>((static_cast<float>(-0x1.927aeb32c15a5p-10))), v24);
        const auto v33 = v32;
        const auto v34 = v33;
        fw::store<float>(out6 + (x0), v34, lanes);
      });
    }
  }
  return status;
}
