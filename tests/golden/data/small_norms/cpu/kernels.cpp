// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_gelu_add_native_layer_norm_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, float* __restrict out4) {
  const int64_t n_x0 = 16;
  const int64_t n_r0 = 1024;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0;
  {
    float* const row14 = fw::scratch<0, float>(n_r0);
    const fw::Share mine = row14 ? fw::share(points) : fw::no_memory(status);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Sum<float, 1> acc15;
      fw::vectors_folded<1>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v5 = fw::load(in2 + (r0 + 1024*x0), lanes);
        const auto v6 = v5 * fw::splat<float>(static_cast<float>(0x1.6a09e667f3bcdp-1));
        const auto v7 = fw::erf(v6);
        const auto v9 = fw::splat<float>(0x1.0000000000000p+0f) + v7;
        const auto v11 = v5 * fw::splat<float>(0x1.0000000000000p-1f);
        const auto v12 = v11 * v9;
        const auto v13 = fw::load(in3 + (r0 + 1024*x0), lanes);
        const auto v14 = v13 + v12;
        fw::store<float>(row14 + r0, v14, lanes);
        acc15.add(v14, lanes, slot);
      }, [&]() FW_BODY { acc15.fold(); });
      const float v15 = acc15.result();
      const float v16 = v15 / 0x1.0000000000000p+10f;
      fw::Sum<float, 4> acc19;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v14 = fw::load(row14 + r0, fw::Full{});
        const auto v17 = v14 - fw::splat<float>(v16);
        const auto v18 = v17 * v17;
        acc19.add(v18, lanes, slot);
      }, [&]() FW_BODY { acc19.fold(); });
      const float v19 = acc19.result();
      const float v20 = v19 / 0x1.0000000000000p+10f;
      const float v21 = v20 + static_cast<float>(0x1.4f8b588e368f1p-17);
      const float v22 = fw::sqrt(v21);
      const float v23 = 0x1.0000000000000p+0f / v22;
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v14 = fw::load(row14 + r0, fw::Full{});
        const auto v0 = fw::load(in0 + (r0), lanes);
        const auto v1 = fw::load(in1 + (r0), lanes);
        const auto v17 = v14 - fw::splat<float>(v16);
        const auto v24 = v17 * fw::splat<float>(v23);
        const auto v25 = v24 * v1;
        const auto v26 = v25 + v0;
        fw::store<float>(out4 + (r0 + 1024*x0), v26, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_gelu_add_native_layer_norm_1(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, float* __restrict out4) __attribute__((alias("fused_gelu_add_native_layer_norm_0")));
