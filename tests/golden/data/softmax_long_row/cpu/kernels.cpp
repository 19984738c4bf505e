// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_softmax_0(const float* __restrict in0, float* __restrict out1, float* __restrict out2) {
  const int64_t n_x0 = 256;
  const int64_t n_r0 = 16384;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Extreme<fw::Largest, float, 4> acc1;
      fw::vectors_by<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 16384*x0), lanes);
        acc1.add(v0, lanes, slot);
      });
      const float v1 = acc1.result();
      out1[x0] = v1;
      const bool v5 = fw::eq(v1, (-__builtin_inff()));
      const float v6 = fw::select(v5, 0x0.0p+0f, v1);
      fw::Sum<float, 4> acc9;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 16384*x0), lanes);
        const auto v7 = v0 - fw::splat<float>(v6);
        const auto v8 = fw::exp(v7);
        acc9.add(v8, lanes, slot);
      }, [&]() FW_BODY { acc9.fold(); });
      const float v9 = acc9.result();
      out2[x0] = v9;
    }
  }
  return status;
}

extern "C" int64_t fused_softmax_1(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3) {
  const int64_t n_x0 = 4;
  const int64_t n_r0 = 64;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0;
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Extreme<fw::Largest, float, 4> acc1;
      fw::vectors_by<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 64*x0), lanes);
        acc1.add(v0, lanes, slot);
      });
      const float v1 = acc1.result();
      out2[x0] = v1;
      fw::Sum<float, 4> acc7;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 64*x0), lanes);
        const auto v3 = v0 - fw::splat<float>(v1);
        const auto v4 = fw::exp(v3);
        const auto v5 = fw::load(in1 + (r0 + 64*x0), lanes);
        const auto v6 = v5 * v4;
        acc7.add(v6, lanes, slot);
      }, [&]() FW_BODY { acc7.fold(); });
      const float v7 = acc7.result();
      out3[x0] = v7;
    }
  }
  return status;
}

extern "C" int64_t fused_softmax_2(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3) {
  const int64_t n_x0 = 4;
  const int64_t n_x1 = 1048576;
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
      const float v1 = in1[x0];
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v2 = fw::load(in2 + (1048576*x0 + x1), lanes);
        const auto v3 = v2 - fw::splat<float>(v1);
        const auto v4 = fw::exp(v3);
        const auto v5 = v4 / fw::splat<float>(v0);
        fw::store<float>(out3 + (1048576*x0 + x1), v5, lanes);
      });
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_softmax_backward_data_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2) {
  const int64_t n_x0 = 64;
  const int64_t n_r0 = 65536;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Sum<float, 4> acc3;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 65536*x0), lanes);
        const auto v1 = fw::load(in1 + (r0 + 65536*x0), lanes);
        const auto v2 = v1 * v0;
        acc3.add(v2, lanes, slot);
      }, [&]() FW_BODY { acc3.fold(); });
      const float v3 = acc3.result();
      out2[x0] = v3;
    }
  }
  return status;
}

extern "C" int64_t fused_softmax_backward_data_1(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 4;
  const int64_t n_r0 = 16;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0;
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Sum<float, 4> acc1;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 16*x0), lanes);
        acc1.add(v0, lanes, slot);
      }, [&]() FW_BODY { acc1.fold(); });
      const float v1 = acc1.result();
      out1[x0] = v1;
    }
  }
  return status;
}

extern "C" int64_t fused_softmax_backward_data_2(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3) {
  const int64_t n_x0 = 4;
  const int64_t n_x1 = 1048576;
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
      const float v1 = in1[x0];
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x1, begin + 4096), [&](int64_t x1, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (1048576*x0 + x1), lanes);
        const auto v2 = fw::load(in2 + (1048576*x0 + x1), lanes);
        const auto v3 = v2 - fw::splat<float>(v1);
        const auto v4 = v3 * v0;
        fw::store<float>(out3 + (1048576*x0 + x1), v4, lanes);
      });
    }
  }
  return status;
}
