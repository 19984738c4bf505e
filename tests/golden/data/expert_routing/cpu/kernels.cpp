// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_softmax_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 16;
  const int64_t n_r0 = 2;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0;
  {
    float* const row3 = fw::scratch<0, float>(n_r0);
    const fw::Share mine = row3 ? fw::share(points) : fw::no_memory(status);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Extreme<fw::Largest, float, 4> acc1;
      fw::vectors_by<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 2*x0), lanes);
        acc1.add(v0, lanes, slot);
      });
      const float v1 = acc1.result();
      fw::Sum<float, 4> acc4;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 2*x0), lanes);
        const auto v2 = v0 - fw::splat<float>(v1);
        const auto v3 = fw::exp(v2);
        fw::store<float>(row3 + r0, v3, lanes);
        acc4.add(v3, lanes, slot);
      }, [&]() FW_BODY { acc4.fold(); });
      const float v4 = acc4.result();
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v3 = fw::load(row3 + r0, fw::Full{});
        const auto v5 = v3 / fw::splat<float>(v4);
        fw::store<float>(out1 + (r0 + 2*x0), v5, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_clone_0(int64_t* __restrict out0) {
  const int64_t n_x0 = 16;
  const int64_t n_x1 = 2;
  if (n_x0 == 0 || n_x1 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x1, 4096);
  const int64_t points = n_x0 * blocks;
  {
    const fw::Share mine = fw::share(points);
    int64_t block = mine.begin % blocks;
    int64_t x0 = mine.begin / blocks;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x0)) {
      const int64_t v0 = static_cast<int64_t>(x0);
      const int64_t v1 = v0;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        fw::store<int64_t>(out0 + (2*x0 + x1), fw::splat<int64_t>(v1), lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_index_0(const int64_t* __restrict in0, const float* __restrict in1, float* __restrict out2) {
  const int64_t n_x0 = 32;
  const int64_t n_x1 = 16384;
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
      const int64_t v0 = in0[x0];
      const bool v3 = fw::lt(v0, INT64_C(0));
      const int64_t v4 = v0 + INT64_C(8);
      const int64_t v5 = fw::select(v3, v4, v0);
      const bool v6 = fw::ge(v5, INT64_C(0));
      const bool v7 = fw::lt(v5, INT64_C(8));
      const bool v8 = static_cast<bool>(v6 & v7);
      if (__builtin_expect(!v8, 0)) {
        fw::fail(status, 9);
        continue;
      }
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v10 = fw::load_where<float>(in1 + (x1 + 16384*v5), fw::splat_mask(v8), 0x0.0p+0f, lanes);
        fw::store<float>(out2 + (16384*x0 + x1), v10, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_index_1(const int64_t* __restrict in0, const float* __restrict in1, float* __restrict out2) {
  const int64_t n_x0 = 32;
  const int64_t n_x1 = 512;
  if (n_x0 == 0 || n_x1 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x1, 4096);
  const int64_t points = n_x0 * blocks;
  {
    const fw::Share mine = fw::share(points);
    int64_t block = mine.begin % blocks;
    int64_t x0 = mine.begin / blocks;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x0)) {
      const int64_t v0 = in0[x0];
      const bool v3 = fw::lt(v0, INT64_C(0));
      const int64_t v4 = v0 + INT64_C(16);
      const int64_t v5 = fw::select(v3, v4, v0);
      const bool v6 = fw::ge(v5, INT64_C(0));
      const bool v7 = fw::lt(v5, INT64_C(16));
      const bool v8 = static_cast<bool>(v6 & v7);
      if (__builtin_expect(!v8, 0)) {
        fw::fail(status, 9);
        continue;
      }
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v10 = fw::load_where<float>(in1 + (x1 + 512*v5), fw::splat_mask(v8), 0x0.0p+0f, lanes);
        fw::store<float>(out2 + (512*x0 + x1), v10, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_index_2(const int64_t* __restrict in0, const float* __restrict in1, float* __restrict out2) __attribute__((alias("fused_index_0")));

extern "C" int64_t fused_zeros_like_0(float* __restrict out0) {
  const int64_t n_x0 = 8192;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const float v1 = 0x0.0p+0f;
  const int64_t blocks = fw::ceil_div(n_x0, 4096);
  const int64_t points = blocks;
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x0, begin + 4096), [&](int64_t x0, auto lanes) FW_BODY {
        fw::store<float>(out0 + (x0), fw::splat<float>(v1), lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_mul_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2) {
  const int64_t n_x0 = 32;
  const int64_t n_x1 = 512;
  if (n_x0 == 0 || n_x1 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x1, 4096);
  const int64_t points = n_x0 * blocks;
  {
    const fw::Share mine = fw::share(points);
    int64_t block = mine.begin % blocks;
    int64_t x0 = mine.begin / blocks;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x0)) {
      const float v1 = in1[x0];
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (512*x0 + x1), lanes);
        const auto v2 = fw::splat<float>(v1) * v0;
        fw::store<float>(out2 + (512*x0 + x1), v2, lanes);
      });
    }
  }
  return status;
}
