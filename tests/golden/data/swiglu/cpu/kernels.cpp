// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_silu_mul_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2) {
  const int64_t n_x0 = 5636096;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
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
        const auto v1 = fw::load(in1 + (x0), lanes);
        const auto v2 = -v1;
        const auto v5 = fw::one_plus_exp(v2);
        const auto v6 = v1 / v5;
        const auto v7 = v6 * v0;
        fw::store<float>(out2 + (x0), v7, lanes);
      });
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_silu_mul_silu_backward_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3, float* __restrict out4) {
  const int64_t n_x0 = 5636096;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
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
        const auto v1 = -v0;
        const auto v4 = fw::one_plus_exp(v1);
        const auto v5 = v0 / v4;
        const auto v6 = fw::load(in1 + (x0), lanes);
        const auto v7 = v6 * v5;
        fw::store<float>(out3 + (x0), v7, lanes);
        const auto v9 = fw::splat<float>(0x1.0000000000000p+0f) / v4;
        const auto v10 = fw::splat<float>(0x1.0000000000000p+0f) - v9;
        const auto v11 = v0 * v10;
        const auto v12 = fw::splat<float>(0x1.0000000000000p+0f) + v11;
        const auto v13 = fw::load(in2 + (x0), lanes);
        const auto v14 = v6 * v13;
        const auto v15 = v14 * v9;
        const auto v16 = v15 * v12;
        fw::store<float>(out4 + (x0), v16, lanes);
      });
    }
  }
  return status;
}
