// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_clone_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 2;
  const int64_t n_x1 = 4;
  const int64_t n_x2 = 256;
  const int64_t n_x3 = 64;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0 || n_x3 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x3, 4096);
  const int64_t points = n_x0 * n_x1 * n_x2 * blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point % blocks;
      const int64_t x2 = (point / blocks) % n_x2;
      const int64_t x1 = ((point / blocks) / n_x2) % n_x1;
      const int64_t x0 = ((point / blocks) / n_x2) / n_x1;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x3, begin + 4096), [&](int64_t x3, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (196608*x0 + 64*x1 + 768*x2 + x3), lanes);
        const auto v1 = v0;
        fw::store<float>(out1 + (65536*x0 + 16384*x1 + 64*x2 + x3), v1, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_clone_1(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 2;
  const int64_t n_x1 = 256;
  const int64_t n_x2 = 256;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x2, 4096);
  const int64_t points = n_x0 * n_x1 * blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point % blocks;
      const int64_t x1 = (point / blocks) % n_x1;
      const int64_t x0 = (point / blocks) / n_x1;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x2, begin + 4096), [&](int64_t x2, auto lanes) FW_BODY {
        const auto v0 = fw::gather<float>(lanes, x2, [&](int64_t x2, int lane) { (void)x2, (void)lane; return in0[196608*x0 + x1 + 768*x2 + 256]; });
        const auto v1 = v0;
        fw::store<float>(out1 + (65536*x0 + 256*x1 + x2), v1, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_mul_masked_fill__softmax_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 8;
  const int64_t n_x1 = 256;
  const int64_t n_r0 = 256;
  if (n_x0 == 0 || n_x1 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0 * n_x1;
  #pragma omp parallel if (points > 1)
  {
    float* const row13 = fw::scratch<0, float>(n_r0);
    float* const row16 = fw::scratch<1, float>(n_r0);
    const fw::Share mine = row13 && row16 ? fw::share(points) : fw::no_memory(status);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x1 = point % n_x1;
      const int64_t x0 = point / n_x1;
      const int64_t v5 = static_cast<int64_t>(x1);
      const int64_t v6 = v5 * INT64_C(1);
      const int64_t v8 = INT64_C(0) + v6;
      fw::Extreme<fw::Largest, float, 4> acc14;
      fw::vectors_by<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 65536*x0 + 256*x1), lanes);
        const auto v2 = v1 * fw::splat<float>(0x1.0000000000000p-3f);
        const auto v9 = fw::ramp<int64_t>(r0, 1);
        const auto v10 = v9 * fw::splat<int64_t>(INT64_C(1));
        const auto v11 = fw::splat<int64_t>(INT64_C(0)) + v10;
        const auto v12 = fw::gt(v11, fw::splat<int64_t>(v8));
        const auto v13 = fw::select(v12, fw::splat<float>((-__builtin_inff())), v2);
        fw::store<float>(row13 + r0, v13, fw::Full{});
        acc14.add(v13, lanes, slot);
      });
      const float v14 = acc14.result();
      fw::Sum<float, 4> acc17;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v13 = fw::load(row13 + r0, fw::Full{});
        const auto v15 = v13 - fw::splat<float>(v14);
        const auto v16 = fw::exp(v15);
        fw::store<float>(row16 + r0, v16, fw::Full{});
        acc17.add(v16, lanes, slot);
      }, [&]() FW_BODY { acc17.fold(); });
      const float v17 = acc17.result();
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v16 = fw::load(row16 + r0, fw::Full{});
        const auto v18 = v16 / fw::splat<float>(v17);
        fw::store<float>(out1 + (r0 + 65536*x0 + 256*x1), v18, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_clone_2(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 2;
  const int64_t n_x1 = 4;
  const int64_t n_x2 = 256;
  const int64_t n_x3 = 64;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0 || n_x3 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x3, 4096);
  const int64_t points = n_x0 * n_x1 * n_x2 * blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point % blocks;
      const int64_t x2 = (point / blocks) % n_x2;
      const int64_t x1 = ((point / blocks) / n_x2) % n_x1;
      const int64_t x0 = ((point / blocks) / n_x2) / n_x1;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x3, begin + 4096), [&](int64_t x3, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (196608*x0 + 64*x1 + 768*x2 + x3 + 512), lanes);
        const auto v1 = v0;
        fw::store<float>(out1 + (65536*x0 + 16384*x1 + 64*x2 + x3), v1, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_clone_3(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 2;
  const int64_t n_x1 = 256;
  const int64_t n_x2 = 4;
  const int64_t n_x3 = 64;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0 || n_x3 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x3, 4096);
  const int64_t points = n_x0 * n_x1 * n_x2 * blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point % blocks;
      const int64_t x2 = (point / blocks) % n_x2;
      const int64_t x1 = ((point / blocks) / n_x2) % n_x1;
      const int64_t x0 = ((point / blocks) / n_x2) / n_x1;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x3, begin + 4096), [&](int64_t x3, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (65536*x0 + 64*x1 + 16384*x2 + x3), lanes);
        const auto v1 = v0;
        fw::store<float>(out1 + (65536*x0 + 256*x1 + 64*x2 + x3), v1, lanes);
      });
    }
  }
  return status;
}
