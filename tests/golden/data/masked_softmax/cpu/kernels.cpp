// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_mul_masked_fill__softmax_0(const float* __restrict in0, const int64_t* __restrict in1, float* __restrict out2) {
  const int64_t n_x0 = 2;
  const int64_t n_x1 = 8;
  const int64_t n_x2 = 512;
  const int64_t n_r0 = 512;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0 * n_x1 * n_x2;
  #pragma omp parallel if (points > 1)
  {
    float* const row10 = fw::scratch<0, float>(n_r0);
    float* const row13 = fw::scratch<1, float>(n_r0);
    const fw::Share mine = row10 && row13 ? fw::share(points) : fw::no_memory(status);
    int64_t x2 = mine.begin % n_x2;
    int64_t x1 = (mine.begin / n_x2) % n_x1;
    int64_t x0 = (mine.begin / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(x2, n_x2, x1, n_x1, x0)) {
      const int64_t v4 = in1[x0];
      const int64_t v7 = static_cast<int64_t>(x2);
      fw::Extreme<fw::Largest, float, 4> acc11;
      fw::vectors_by<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), lanes);
        const auto v2 = v1 * fw::splat<float>(0x1.0000000000000p-3f);
        const auto v5 = fw::ramp<int64_t>(r0, 1);
        const auto v6 = fw::ge(v5, fw::splat<int64_t>(v4));
        const auto v8 = fw::gt(v5, fw::splat<int64_t>(v7));
        const auto v9 = v8 | v6;
        const auto v10 = fw::select(v9, fw::splat<float>((-__builtin_inff())), v2);
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
        fw::store<float>(out2 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), v15, lanes);
      });
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_softmax_backward_data_masked_fill_mul_0(const float* __restrict in0, const float* __restrict in1, const int64_t* __restrict in2, float* __restrict out3) {
  const int64_t n_x0 = 2;
  const int64_t n_x1 = 8;
  const int64_t n_x2 = 512;
  const int64_t n_r0 = 512;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0 * n_x1 * n_x2;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    int64_t x2 = mine.begin % n_x2;
    int64_t x1 = (mine.begin / n_x2) % n_x1;
    int64_t x0 = (mine.begin / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(x2, n_x2, x1, n_x1, x0)) {
      const int64_t v8 = in2[x0];
      const int64_t v11 = static_cast<int64_t>(x2);
      fw::Sum<float, 4> acc4;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), lanes);
        const auto v2 = fw::load(in1 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), lanes);
        const auto v3 = v2 * v1;
        acc4.add(v3, lanes, slot);
      }, [&]() FW_BODY { acc4.fold(); });
      const float v4 = acc4.result();
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), lanes);
        const auto v2 = fw::load(in1 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), lanes);
        const auto v5 = v2 - fw::splat<float>(v4);
        const auto v6 = v5 * v1;
        const auto v9 = fw::ramp<int64_t>(r0, 1);
        const auto v10 = fw::ge(v9, fw::splat<int64_t>(v8));
        const auto v12 = fw::gt(v9, fw::splat<int64_t>(v11));
        const auto v13 = v12 | v10;
        const auto v14 = fw::select(v13, fw::splat<float>(0x0.0p+0f), v6);
        const auto v15 = v14 * fw::splat<float>(0x1.0000000000000p-3f);
        fw::store<float>(out3 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), v15, lanes);
      });
    }
  }
  return status;
}
