// inference

#include "fusewise_cpu.h"

extern "C" int64_t fused_embedding__to_copy_pow_mean_0(const uint16_t* __restrict in0, const int64_t* __restrict in1, const uint16_t* __restrict in2, uint16_t* __restrict out3) {
  const int64_t n_x0 = 8192;
  const int64_t n_r0 = 2048;
  if (n_x0 == 0) return 0;
  fw::large_output(out3, 33554432);
  int64_t status = 0;
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      const bool direct28 = fw::aligned(out3 + (2048*x0) + 0);
      const int64_t v4 = in1[x0];
      const bool v7 = fw::lt(v4, INT64_C(0));
      const int64_t v8 = fw::select(v7, INT64_C(32000), v4);
      const bool v9 = fw::lt(v8, INT64_C(0));
      const int64_t v10 = v8 + INT64_C(32000);
      const int64_t v11 = fw::select(v9, v10, v8);
      const bool v12 = fw::ge(v11, INT64_C(0));
      const bool v13 = fw::lt(v11, INT64_C(32000));
      const bool v14 = static_cast<bool>(v12 & v13);
      if (__builtin_expect(!v14, 0)) {
        fw::fail(status, 15);
        continue;
      }
      fw::Sum<float, 4> acc19;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v16 = fw::load_where<uint16_t>(in2 + (r0 + 2048*v11), fw::splat_mask(v14), fw::bf16_from_f32(0x0.0p+0f), lanes);
        const auto v17 = fw::f32_from_bf16(v16);
        const auto v18 = v17 * v17;
        acc19.add(v18, lanes, slot);
      }, [&]() FW_BODY { acc19.fold(); });
      const float v19 = acc19.result();
      const float v20 = v19 / 0x1.0000000000000p+11f;
      const float v21 = v20 + 0x1.0c6f7a0000000p-20f;
      const float v22 = fw::sqrt(v21);
      const float v24 = 0x1.0000000000000p+0f / v22;
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (r0), lanes);
        const auto v1 = fw::f32_from_bf16(v0);
        const auto v16 = fw::load_where<uint16_t>(in2 + (r0 + 2048*v11), fw::splat_mask(v14), fw::bf16_from_f32(0x0.0p+0f), lanes);
        const auto v17 = fw::f32_from_bf16(v16);
        const auto v25 = v17 * fw::splat<float>(v24);
        const auto v26 = v25 * v1;
        const auto v27 = fw::bf16_from_f32(v26);
        fw::store_direct<uint16_t>(out3 + (r0 + 2048*x0), v27, lanes, direct28);
      });
    }
    fw::direct_fence();
  }
  return status;
}
