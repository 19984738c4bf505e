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
    int64_t block = mine.begin % blocks;
    int64_t x2 = (mine.begin / blocks) % n_x2;
    int64_t x1 = ((mine.begin / blocks) / n_x2) % n_x1;
    int64_t x0 = ((mine.begin / blocks) / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x2, n_x2, x1, n_x1, x0)) {
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
  const int64_t blocks = fw::ceil_div(n_x2, 512);
  const int64_t bands = fw::ceil_div(n_x1, fw::LANES);
  const int64_t points = n_x0 * bands * blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    int64_t block = mine.begin % blocks;
    int64_t band = (mine.begin / blocks) % bands;
    int64_t x0 = (mine.begin / blocks) / bands;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, band, bands, x0)) {
      const int64_t begin = block * 512;
      const int64_t band_begin = band * fw::LANES;
      const int64_t band_end = fw::least(n_x1, band_begin + fw::LANES);
      fw::vectors(begin, fw::least(n_x2, begin + 512), [&](int64_t x2, auto lanes) FW_BODY {
        alignas(64) float square0[fw::LANES*fw::LANES];
        fw::load_square(square0, in0 + (196608*x0 + band_begin + 768*x2 + 256), 768, band_end - band_begin, lanes.n);
        for (int64_t x1 = band_begin; x1 < band_end; ++x1) {
          const auto v0 = fw::load(square0 + (x1 - band_begin)*fw::LANES, fw::Full{});
          const auto v1 = v0;
          fw::store<float>(out1 + (65536*x0 + 256*x1 + x2), v1, lanes);
        }
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
    float* const row7 = fw::scratch<0, float>(n_r0);
    float* const row10 = fw::scratch<1, float>(n_r0);
    const fw::Share mine = row7 && row10 ? fw::share(points) : fw::no_memory(status);
    int64_t x1 = mine.begin % n_x1;
    int64_t x0 = mine.begin / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(x1, n_x1, x0)) {
      const int32_t v4 = static_cast<int32_t>(x1);
      fw::Extreme<fw::Largest, float, 4> acc8;
      fw::vectors_by<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 65536*x0 + 256*x1), lanes);
        const auto v2 = v1 * fw::splat<float>(0x1.0000000000000p-3f);
        const auto v5 = fw::ramp<int32_t>(r0, 1);
        const auto v6 = fw::gt(v5, fw::splat<int32_t>(v4));
        const auto v7 = fw::select(v6, fw::splat<float>((-__builtin_inff())), v2);
        fw::store<float>(row7 + r0, v7, lanes);
        acc8.add(v7, lanes, slot);
      });
      const float v8 = acc8.result();
      fw::Sum<float, 4> acc11;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v7 = fw::load(row7 + r0, fw::Full{});
        const auto v9 = v7 - fw::splat<float>(v8);
        const auto v10 = fw::exp(v9);
        fw::store<float>(row10 + r0, v10, lanes);
        acc11.add(v10, lanes, slot);
      }, [&]() FW_BODY { acc11.fold(); });
      const float v11 = acc11.result();
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v10 = fw::load(row10 + r0, fw::Full{});
        const auto v12 = v10 / fw::splat<float>(v11);
        fw::store<float>(out1 + (r0 + 65536*x0 + 256*x1), v12, lanes);
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
    int64_t block = mine.begin % blocks;
    int64_t x2 = (mine.begin / blocks) % n_x2;
    int64_t x1 = ((mine.begin / blocks) / n_x2) % n_x1;
    int64_t x0 = ((mine.begin / blocks) / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x2, n_x2, x1, n_x1, x0)) {
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
    int64_t block = mine.begin % blocks;
    int64_t x2 = (mine.begin / blocks) % n_x2;
    int64_t x1 = ((mine.begin / blocks) / n_x2) % n_x1;
    int64_t x0 = ((mine.begin / blocks) / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x2, n_x2, x1, n_x1, x0)) {
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
