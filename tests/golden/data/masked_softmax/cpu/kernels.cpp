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
    float* const row16 = fw::scratch<0, float>(n_r0);
    float* const row19 = fw::scratch<1, float>(n_r0);
    const fw::Share mine = row16 && row19 ? fw::share(points) : fw::no_memory(status);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x2 = point % n_x2;
      const int64_t x1 = (point / n_x2) % n_x1;
      const int64_t x0 = (point / n_x2) / n_x1;
      const int64_t v4 = in1[x0];
      const int64_t v11 = static_cast<int64_t>(x2);
      const int64_t v12 = v11 * INT64_C(1);
      const int64_t v13 = INT64_C(0) + v12;
      fw::Extreme<fw::Largest, float, 2> acc17;
      fw::vectors_by<2>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), lanes);
        const auto v2 = v1 * fw::splat<float>(0x1.0000000000000p-3f);
        const auto v6 = fw::ramp<int64_t>(r0, 1);
        const auto v7 = v6 * fw::splat<int64_t>(INT64_C(1));
        const auto v9 = fw::splat<int64_t>(INT64_C(0)) + v7;
        const auto v10 = fw::ge(v9, fw::splat<int64_t>(v4));
        const auto v14 = fw::gt(v9, fw::splat<int64_t>(v13));
        const auto v15 = v14 | v10;
        const auto v16 = fw::select(v15, fw::splat<float>((-__builtin_inff())), v2);
        fw::store<float>(row16 + r0, v16, fw::Full{});
        acc17.add(v16, lanes, slot);
      });
      const float v17 = acc17.result();
      fw::Sum<float, 4> acc20;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v16 = fw::load(row16 + r0, fw::Full{});
        const auto v18 = v16 - fw::splat<float>(v17);
        const auto v19 = fw::exp(v18);
        fw::store<float>(row19 + r0, v19, fw::Full{});
        acc20.add(v19, lanes, slot);
      }, [&]() FW_BODY { acc20.fold(); });
      const float v20 = acc20.result();
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v19 = fw::load(row19 + r0, fw::Full{});
        const auto v21 = v19 / fw::splat<float>(v20);
        fw::store<float>(out2 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), v21, lanes);
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
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x2 = point % n_x2;
      const int64_t x1 = (point / n_x2) % n_x1;
      const int64_t x0 = (point / n_x2) / n_x1;
      const int64_t v8 = in2[x0];
      const int64_t v15 = static_cast<int64_t>(x2);
      const int64_t v16 = v15 * INT64_C(1);
      const int64_t v17 = INT64_C(0) + v16;
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
        const auto v10 = fw::ramp<int64_t>(r0, 1);
        const auto v11 = v10 * fw::splat<int64_t>(INT64_C(1));
        const auto v13 = fw::splat<int64_t>(INT64_C(0)) + v11;
        const auto v14 = fw::ge(v13, fw::splat<int64_t>(v8));
        const auto v18 = fw::gt(v13, fw::splat<int64_t>(v17));
        const auto v19 = v18 | v14;
        const auto v20 = fw::select(v19, fw::splat<float>(0x0.0p+0f), v6);
        const auto v21 = v20 * fw::splat<float>(0x1.0000000000000p-3f);
        fw::store<float>(out3 + (r0 + 2097152*x0 + 262144*x1 + 512*x2), v21, lanes);
      });
    }
  }
  return status;
}
