// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_argmax_logsumexp_0(const uint16_t* __restrict in0, int64_t* __restrict out1, float* __restrict out2) {
  const int64_t n_x0 = 8192;
  const int64_t n_r0 = 8192;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Place<fw::Largest, float, 4> acc2;
      fw::Extreme<fw::Largest, float, 4> acc4;
      fw::vectors_by<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 8192*x0), lanes);
        const auto v1 = fw::f32_from_bf16(v0);
        acc2.add(v1, r0, lanes, slot);
        acc4.add(v1, lanes, slot);
      });
      const int64_t v2 = acc2.result();
      const float v4 = acc4.result();
      out1[x0] = v2;
      const float v7 = fw::abs(v4);
      const bool v8 = fw::eq(v7, __builtin_inff());
      const float v9 = fw::select(v8, 0x0.0p+0f, v4);
      fw::Sum<float, 4> acc12;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 8192*x0), lanes);
        const auto v1 = fw::f32_from_bf16(v0);
        const auto v10 = v1 - fw::splat<float>(v9);
        const auto v11 = fw::exp(v10);
        acc12.add(v11, lanes, slot);
      }, [&]() FW_BODY { acc12.fold(); });
      const float v12 = acc12.result();
      const float v13 = fw::log(v12);
      const float v14 = v13 + v9;
      out2[x0] = v14;
    }
  }
  return status;
}
