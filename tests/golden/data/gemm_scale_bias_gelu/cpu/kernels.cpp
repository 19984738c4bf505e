// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_mul_add_gelu_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3) {
  const int64_t n_x0 = 1024;
  const int64_t n_x1 = 512;
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
        const auto v1 = fw::load(in0 + (x1), lanes);
        const auto v2 = fw::load(in1 + (x1), lanes);
        const auto v3 = fw::load(in2 + (512*x0 + x1), lanes);
        const auto v4 = v3 * v2;
        const auto v5 = v4 + v1;
        const auto v7 = v5 * v5;
        const auto v8 = v7 * v5;
        const auto v9 = v8 * fw::splat<float>(static_cast<float>(0x1.6e4e26d4801f7p-5));
        const auto v10 = v9 + v5;
        const auto v11 = v10 * fw::splat<float>(static_cast<float>(0x1.9884533d43651p-1));
        const auto v12 = fw::tanh(v11);
        const auto v14 = fw::splat<float>(0x1.0000000000000p+0f) + v12;
        const auto v16 = fw::splat<float>(0x1.0000000000000p-1f) * v5;
        const auto v17 = v16 * v14;
        fw::store<float>(out3 + (512*x0 + x1), v17, lanes);
      });
    }
  }
  return status;
}
