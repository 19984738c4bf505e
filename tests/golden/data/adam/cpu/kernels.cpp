// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_mul_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 657072;
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
        const auto v1 = fw::load(in0 + (x0), lanes);
        const auto v2 = v1 * fw::splat<float>(static_cast<float>(0x1.ff7ced916872bp-1));
        fw::store<float>(out1 + (x0), v2, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_lerp_mul_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3) {
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
        fw::store<float>(out2 + (x0), v12, lanes);
        const auto v14 = v0 * v0;
        fw::store<float>(out3 + (x0), v14, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_copy_sqrt_div_add_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3) {
  const int64_t n_x0 = 657072;
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
        const auto v1 = v0;
        fw::store<float>(out2 + (x0), v1, lanes);
        const auto v5 = fw::sqrt(v1);
        const auto v6 = v5 / fw::splat<float>(static_cast<float>(0x1.98ae08a9e2688p-4));
        const auto v7 = v6 + fw::splat<float>(static_cast<float>(0x1.5798ee2308c3ap-27));
        const auto v8 = fw::load(in1 + (x0), lanes);
        const auto v9 = v8 / v7;
        fw::store<float>(out3 + (x0), v9, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_copy_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 657072;
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
        const auto v1 = v0;
        fw::store<float>(out1 + (x0), v1, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_mul_1(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 1404;
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
        const auto v2 = v1 * fw::splat<float>(static_cast<float>(0x1.ff7ced916872bp-1));
        fw::store<float>(out1 + (x0), v2, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_lerp_mul_1(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3) {
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
        fw::store<float>(out2 + (x0), v12, lanes);
        const auto v14 = v0 * v0;
        fw::store<float>(out3 + (x0), v14, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_copy_sqrt_div_add_1(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3) {
  const int64_t n_x0 = 1404;
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
        const auto v0 = fw::load(in0 + (x0), lanes);
        const auto v1 = v0;
        fw::store<float>(out2 + (x0), v1, lanes);
        const auto v5 = fw::sqrt(v1);
        const auto v6 = v5 / fw::splat<float>(static_cast<float>(0x1.98ae08a9e2688p-4));
        const auto v7 = v6 + fw::splat<float>(static_cast<float>(0x1.5798ee2308c3ap-27));
        const auto v8 = fw::load(in1 + (x0), lanes);
        const auto v9 = v8 / v7;
        fw::store<float>(out3 + (x0), v9, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_copy_1(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 1404;
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
        const auto v0 = fw::load(in0 + (x0), lanes);
        const auto v1 = v0;
        fw::store<float>(out1 + (x0), v1, lanes);
      });
    }
  }
  return status;
}
