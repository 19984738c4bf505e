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
    float* const row13 = fw::scratch<0, float>(n_r0);
    float* const row16 = fw::scratch<1, float>(n_r0);
    const fw::Share mine = row13 && row16 ? fw::share(points) : fw::no_memory(status);
    int64_t x2 = mine.begin % n_x2;
    int64_t x1 = (mine.begin / n_x2) % n_x1;
    int64_t x0 = (mine.begin / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(x2, n_x2, x1, n_x1, x0)) {
      const int64_t v4 = in1[x0];
      const int64_t v9 = static_cast<int64_t>(x2);
      const int64_t v10 = INT64_C(0) + v9;
      fw::Extreme<fw::Largest, float, 4> acc14;
      fw::vectors_by<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), lanes);
        const auto v2 = v1 * fw::splat<float>(0x1.0000000000000p-3f);
        const auto v5 = fw::ramp<int64_t>(r0, 1);
        const auto v7 = fw::splat<int64_t>(INT64_C(0)) + v5;
        const auto v8 = fw::ge(v7, fw::splat<int64_t>(v4));
        const auto v11 = fw::gt(v7, fw::splat<int64_t>(v10));
        const auto v12 = v11 | v8;
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
        fw::store<float>(out2 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), v18, lanes);
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
      const int64_t v13 = static_cast<int64_t>(x2);
      const int64_t v14 = INT64_C(0) + v13;
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
        const auto v11 = fw::splat<int64_t>(INT64_C(0)) + v9;
        const auto v12 = fw::ge(v11, fw::splat<int64_t>(v8));
        const auto v15 = fw::gt(v11, fw::splat<int64_t>(v14));
        const auto v16 = v15 | v12;
        const auto v17 = fw::select(v16, fw::splat<float>(0x0.0p+0f), v6);
        const auto v18 = v17 * fw::splat<float>(0x1.0000000000000p-3f);
        fw::store<float>(out3 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), v18, lanes);
      });
    }
  }
  return status;
}
