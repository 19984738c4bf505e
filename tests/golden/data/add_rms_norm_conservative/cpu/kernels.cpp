// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_add_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2) {
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

extern "C" int64_t fused_add_rsqrt_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 4096;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x0, 4096);
  const int64_t points = blocks;
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x0, begin + 4096), [&](int64_t x0, auto lanes) FW_BODY {
        const auto v1 = fw::load(in0 + (x0), lanes);
        const auto v2 = v1 + fw::splat<float>(static_cast<float>(0x1.0c6f7a0b5ed8dp-20));
        const auto v3 = fw::sqrt(v2);
        const auto v5 = fw::splat<float>(0x1.0000000000000p+0f) / v3;
        fw::store<float>(out1 + (x0), v5, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_mul_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, float* __restrict out4, float* __restrict out5) {
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
      const float v0 = in0[x0];
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v1 = fw::load(in1 + (1024*x0 + x1), lanes);
        const auto v2 = v1 * fw::splat<float>(v0);
        const auto v3 = fw::load(in2 + (1024*x0 + x1), lanes);
        const auto v4 = v3 * v2;
        fw::store<float>(out4 + (1024*x0 + x1), v4, lanes);
        const auto v6 = fw::load(in3 + (x1), lanes);
        const auto v7 = v3 * v6;
        const auto v8 = v7 * v1;
        fw::store<float>(out5 + (1024*x0 + x1), v8, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_mul_add_div_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, const float* __restrict in5, const float* __restrict in6, float* __restrict out7) {
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
      const float v4 = in1[x0];
      const float v6 = in2[x0];
      const float v7 = v6 * (-0x1.0000000000000p-1f);
      const float v8 = v7 * v4;
      const float v9 = v8 / 0x1.0000000000000p+10f;
      const float v11 = in3[x0];
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v1 = fw::load(in0 + (1024*x0 + x1), lanes);
        const auto v2 = v1 * fw::splat<float>(0x1.0000000000000p+1f);
        const auto v10 = fw::splat<float>(v9) * v2;
        const auto v12 = fw::load(in4 + (x1), lanes);
        const auto v13 = fw::load(in5 + (1024*x0 + x1), lanes);
        const auto v14 = v13 * v12;
        const auto v15 = v14 * fw::splat<float>(v11);
        const auto v16 = fw::load(in6 + (1024*x0 + x1), lanes);
        const auto v17 = v16 + v15;
        const auto v18 = v17 + v10;
        fw::store<float>(out7 + (1024*x0 + x1), v18, lanes);
      });
    }
  }
  return status;
}
