// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_softmax_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 4096;
  const int64_t n_r0 = 1024;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    float* const row3 = fw::scratch<0, float>(n_r0);
    const fw::Share mine = row3 ? fw::share(points) : fw::no_memory(status);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Extreme<fw::Largest, float, 4> acc1;
      fw::vectors_by<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 1024*x0), lanes);
        acc1.add(v0, lanes, slot);
      });
      const float v1 = acc1.result();
      fw::Sum<float, 4> acc4;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 1024*x0), lanes);
        const auto v2 = v0 - fw::splat<float>(v1);
        const auto v3 = fw::exp(v2);
        fw::store<float>(row3 + r0, v3, lanes);
        acc4.add(v3, lanes, slot);
      }, [&]() FW_BODY { acc4.fold(); });
      const float v4 = acc4.result();
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v3 = fw::load(row3 + r0, fw::Full{});
        const auto v5 = v3 / fw::splat<float>(v4);
        fw::store<float>(out1 + (r0 + 1024*x0), v5, lanes);
      });
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_softmax_backward_data_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2) {
  const int64_t n_x0 = 4096;
  const int64_t n_r0 = 1024;
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
        const auto v0 = fw::load(in0 + (r0 + 1024*x0), lanes);
        const auto v1 = fw::load(in1 + (r0 + 1024*x0), lanes);
        const auto v2 = v1 * v0;
        acc3.add(v2, lanes, slot);
      }, [&]() FW_BODY { acc3.fold(); });
      const float v3 = acc3.result();
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 1024*x0), lanes);
        const auto v1 = fw::load(in1 + (r0 + 1024*x0), lanes);
        const auto v4 = v1 - fw::splat<float>(v3);
        const auto v5 = v4 * v0;
        fw::store<float>(out2 + (r0 + 1024*x0), v5, lanes);
      });
    }
  }
  return status;
}
