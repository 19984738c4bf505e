// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_native_batch_norm_legit_no_training_relu_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, float* __restrict out5) {
  const int64_t n_x0 = 12544;
  const int64_t n_x1 = 64;
  if (n_x0 == 0 || n_x1 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x1, 4096);
  const int64_t points = n_x0 * blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    int64_t block = mine.begin % blocks;
    int64_t x0 = mine.begin / blocks;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x0)) {
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (x1), lanes);
        const auto v1 = fw::load(in1 + (x1), lanes);
        const auto v3 = fw::load(in2 + (x1), lanes);
        const auto v4 = v3 + fw::splat<float>(static_cast<float>(0x1.4f8b588e368f1p-17));
        const auto v5 = fw::sqrt(v4);
        const auto v7 = fw::splat<float>(0x1.0000000000000p+0f) / v5;
        const auto v8 = fw::load(in3 + (x1), lanes);
        const auto v9 = fw::load(in4 + (64*x0 + x1), lanes);
        const auto v10 = v9 - v8;
        const auto v11 = v10 * v7;
        const auto v12 = v11 * v1;
        const auto v13 = v12 + v0;
        const auto v15 = fw::lt(v13, fw::splat<float>(0x0.0p+0f));
        const auto v16 = fw::select(v15, fw::splat<float>(0x0.0p+0f), v13);
        fw::store<float>(out5 + (64*x0 + x1), v16, lanes);
      });
    }
  }
  return status;
}
