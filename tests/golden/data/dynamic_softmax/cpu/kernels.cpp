// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_mul_add__softmax_0(const uint16_t* __restrict in0, const uint16_t* __restrict in1, uint16_t* __restrict out2, int64_t s10, int64_t s21) {
  const int64_t n_x0 = s10;
  const int64_t n_r0 = s21;
  if (n_x0 == 0) return 0;
  if (2*s10*s21 >= 33554432) fw::large_output(out2, 2*s10*s21);
  int64_t status = 0;
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    float* const row10 = fw::scratch<0, float>(n_r0);
    float* const row13 = fw::scratch<1, float>(n_r0);
    const fw::Share mine = row10 && row13 ? fw::share(points) : fw::no_memory(status);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      const bool direct17 = 2*s10*s21 >= 33554432 && fw::aligned(out2 + (s21*x0) + 0);
      fw::Extreme<fw::Largest, float, 2> acc11;
      fw::vectors_by<2>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0), lanes);
        const auto v1 = fw::f32_from_bf16(v0);
        const auto v3 = fw::load(in1 + (r0 + s21*x0), lanes);
        const auto v4 = fw::f32_from_bf16(v3);
        const auto v5 = v4 * fw::splat<float>(0x1.0000000000000p-3f);
        const auto v7 = fw::rounded_bf16(v5);
        const auto v8 = v7 + v1;
        const auto v10 = fw::rounded_bf16(v8);
        fw::store<float>(row10 + r0, v10, lanes);
        acc11.add(v10, lanes, slot);
      });
      const float v11 = acc11.result();
      fw::Sum<float, 4> acc14;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v10 = fw::load(row10 + r0, fw::Full{});
        const auto v12 = v10 - fw::splat<float>(v11);
        const auto v13 = fw::exp(v12);
        fw::store<float>(row13 + r0, v13, lanes);
        acc14.add(v13, lanes, slot);
      }, [&]() FW_BODY { acc14.fold(); });
      const float v14 = acc14.result();
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v13 = fw::load(row13 + r0, fw::Full{});
        const auto v15 = v13 / fw::splat<float>(v14);
        const auto v16 = fw::bf16_from_f32(v15);
        fw::store_direct<uint16_t>(out2 + (r0 + s21*x0), v16, lanes, direct17);
      });
    }
    fw::direct_fence();
  }
  return status;
}
