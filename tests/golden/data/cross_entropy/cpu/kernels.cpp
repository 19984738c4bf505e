// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_log_softmax_0(const float* __restrict in0, float* __restrict out1, float* __restrict out2) {
  const int64_t n_x0 = 512;
  const int64_t n_r0 = 8192;
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
        const auto v0 = fw::load(in0 + (r0 + 8192*x0), lanes);
        acc1.add(v0, lanes, slot);
      });
      const float v1 = acc1.result();
      out1[x0] = v1;
      fw::Sum<float, 4> acc5;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 8192*x0), lanes);
        const auto v3 = v0 - fw::splat<float>(v1);
        const auto v4 = fw::exp(v3);
        acc5.add(v4, lanes, slot);
      }, [&]() FW_BODY { acc5.fold(); });
      const float v5 = acc5.result();
      const float v6 = fw::log(v5);
      out2[x0] = v6;
    }
  }
  return status;
}

extern "C" int64_t fused_nll_loss_forward_0(const int64_t* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, float* __restrict out4) {
  const int64_t n_r0 = 512;
  int64_t status = 0;
  const int64_t points = 1;
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      (void)point;
      fw::Sum<float, 2> acc5;
      fw::Sum<float, 2> acc27;
      fw::vectors_folded<2>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0), lanes);
        const auto v2 = fw::eq(v1, fw::splat<int64_t>((INT64_C(-100))));
        const auto v3 = ~v2;
        const auto v4 = fw::from_bool<float>(v3);
        const auto v7 = fw::select(v2, fw::splat<int64_t>(INT64_C(0)), v1);
        const auto v9 = fw::lt(v7, fw::splat<int64_t>(INT64_C(0)));
        const auto v10 = fw::select(v9, fw::splat<int64_t>(INT64_C(8192)), v7);
        const auto v11 = fw::lt(v10, fw::splat<int64_t>(INT64_C(0)));
        const auto v12 = v10 + fw::splat<int64_t>(INT64_C(8192));
        const auto v13 = fw::select(v11, v12, v10);
        const auto v14 = fw::ge(v13, fw::splat<int64_t>(INT64_C(0)));
        const auto v15 = fw::lt(v13, fw::splat<int64_t>(INT64_C(8192)));
        const auto v16 = v14 & v15;
        if (__builtin_expect(fw::any(~v16, lanes), 0)) {
          fw::fail(status, 17);
          return;
        }
        const auto v18 = fw::load_where<float>(in1 + (r0), v16, 0x0.0p+0f, lanes);
        const auto v19 = fw::load_where<float>(in2 + (r0), v16, 0x0.0p+0f, lanes);
        const auto v20 = fw::gather<float>(lanes, r0, [&](int64_t r0, int lane) { (void)r0, (void)lane; return v16[lane] ? in3[8192*r0 + v13[lane]] : static_cast<float>(0x0.0p+0f); });
        const auto v21 = v20 - v19;
        const auto v22 = v21 - v18;
        const auto v23 = -v22;
        const auto v24 = v23 * v4;
        const auto v26 = fw::select(v2, fw::splat<float>(0x0.0p+0f), v24);
        acc5.add(v4, lanes, slot);
        acc27.add(v26, lanes, slot);
      }, [&]() FW_BODY { acc5.fold(); acc27.fold(); });
      if (fw::failed(status)) continue;
      const float v5 = acc5.result();
      const float v27 = acc27.result();
      const float v28 = v27 / v5;
      out4[0] = v28;
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_nll_loss_forward_nll_loss_backward_0(const int64_t* __restrict in0, const float* __restrict in1, float* __restrict out2) {
  const int64_t n_r0 = 512;
  int64_t status = 0;
  const float v6 = in1[0];
  const int64_t points = 1;
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      (void)point;
      fw::Sum<float, 4> acc5;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0), lanes);
        const auto v2 = fw::eq(v1, fw::splat<int64_t>((INT64_C(-100))));
        const auto v3 = ~v2;
        const auto v4 = fw::from_bool<float>(v3);
        acc5.add(v4, lanes, slot);
      }, [&]() FW_BODY { acc5.fold(); });
      const float v5 = acc5.result();
      const float v7 = v6 / v5;
      const float v8 = -v7;
      out2[0] = v8;
    }
  }
  return status;
}

extern "C" int64_t fused_log_softmax_nll_loss_forward_nll_loss_backward__log_softmax_backward_data_0(const int64_t* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, float* __restrict out5) {
  const int64_t n_x0 = 512;
  const int64_t n_r0 = 8192;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const float v6 = in1[0];
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      const int64_t v2 = in0[x0];
      const bool v3 = fw::eq(v2, (INT64_C(-100)));
      const bool v4 = !v3;
      const float v5 = fw::from_bool<float>(v4);
      const float v7 = v6 * v5;
      const float v8 = fw::select(v3, 0x0.0p+0f, v7);
      const int64_t v10 = fw::select(v3, INT64_C(0), v2);
      const bool v12 = fw::lt(v10, INT64_C(0));
      const int64_t v13 = fw::select(v12, INT64_C(8192), v10);
      const float v18 = in2[x0];
      const float v19 = in3[x0];
      fw::Sum<float, 4> acc17;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v14 = fw::ramp<int64_t>(r0, 1);
        const auto v15 = fw::eq(v14, fw::splat<int64_t>(v13));
        const auto v16 = fw::select(v15, fw::splat<float>(v8), fw::splat<float>(0x0.0p+0f));
        acc17.add(v16, lanes, slot);
      }, [&]() FW_BODY { acc17.fold(); });
      const float v17 = acc17.result();
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v14 = fw::ramp<int64_t>(r0, 1);
        const auto v15 = fw::eq(v14, fw::splat<int64_t>(v13));
        const auto v16 = fw::select(v15, fw::splat<float>(v8), fw::splat<float>(0x0.0p+0f));
        const auto v20 = fw::load(in4 + (r0 + 8192*x0), lanes);
        const auto v21 = v20 - fw::splat<float>(v19);
        const auto v22 = v21 - fw::splat<float>(v18);
        const auto v23 = fw::exp(v22);
        const auto v24 = v23 * fw::splat<float>(v17);
        const auto v25 = v16 - v24;
        fw::store<float>(out5 + (r0 + 8192*x0), v25, lanes);
      });
    }
  }
  return status;
}
