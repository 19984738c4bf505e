// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_add_pow_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3) {
  const int64_t n_x0 = 4194304;
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
        const auto v2 = v1 + v0;
        fw::store<float>(out2 + (x0), v2, lanes);
        const auto v4 = v2 * v2;
        fw::store<float>(out3 + (x0), v4, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_mul_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3) {
  const int64_t n_x0 = 4096;
  const int64_t n_x1 = 1024;
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
      const float v1 = in0[x0];
      const float v2 = v1 + static_cast<float>(0x1.0c6f7a0b5ed8dp-20);
      const float v3 = fw::sqrt(v2);
      const float v5 = 0x1.0000000000000p+0f / v3;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v6 = fw::load(in1 + (1024*x0 + x1), lanes);
        const auto v7 = v6 * fw::splat<float>(v5);
        const auto v8 = fw::load(in2 + (x1), lanes);
        const auto v9 = v8 * v7;
        fw::store<float>(out3 + (1024*x0 + x1), v9, lanes);
      });
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_mul_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3) {
  const int64_t n_x0 = 4096;
  const int64_t n_x1 = 1024;
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
        const auto v0 = fw::load(in0 + (1024*x0 + x1), lanes);
        const auto v1 = fw::load(in1 + (x1), lanes);
        const auto v2 = fw::load(in2 + (1024*x0 + x1), lanes);
        const auto v3 = v2 * v1;
        const auto v4 = v3 * v0;
        fw::store<float>(out3 + (1024*x0 + x1), v4, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_mul_add_div_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, const float* __restrict in5, float* __restrict out6, float* __restrict out7) {
  const int64_t n_x0 = 4096;
  const int64_t n_x1 = 1024;
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
      const float v1 = in0[x0];
      const float v2 = v1 + static_cast<float>(0x1.0c6f7a0b5ed8dp-20);
      const float v3 = fw::sqrt(v2);
      const float v5 = 0x1.0000000000000p+0f / v3;
      const float v14 = v5 * v5;
      const float v15 = v14 * v5;
      const float v17 = in3[x0];
      const float v18 = v17 * (-0x1.0000000000000p-1f);
      const float v19 = v18 * v15;
      const float v20 = v19 / 0x1.0000000000000p+10f;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v6 = fw::load(in1 + (1024*x0 + x1), lanes);
        const auto v7 = v6 * fw::splat<float>(v5);
        const auto v8 = fw::load(in2 + (1024*x0 + x1), lanes);
        const auto v9 = v8 * v7;
        fw::store<float>(out6 + (1024*x0 + x1), v9, lanes);
        const auto v12 = v6 * fw::splat<float>(0x1.0000000000000p+1f);
        const auto v21 = fw::splat<float>(v20) * v12;
        const auto v22 = fw::load(in4 + (x1), lanes);
        const auto v23 = v8 * v22;
        const auto v24 = v23 * fw::splat<float>(v5);
        const auto v25 = fw::load(in5 + (1024*x0 + x1), lanes);
        const auto v26 = v25 + v24;
        const auto v27 = v26 + v21;
        fw::store<float>(out7 + (1024*x0 + x1), v27, lanes);
      });
    }
  }
  return status;
}
