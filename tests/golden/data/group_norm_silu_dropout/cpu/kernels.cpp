// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_native_group_norm_silu_keep_mul_0(const float* __restrict in0, const int64_t* __restrict in1, const float* __restrict in2, const float* __restrict in3, float* __restrict out4, float* __restrict out5, float* __restrict out6, float* __restrict out7, float* __restrict out8) {
  const int64_t n_x0 = 4;
  const int64_t n_x1 = 32;
  const int64_t n_r0 = 8;
  const int64_t n_r1 = 1024;
  if (n_x0 == 0 || n_x1 == 0) return 0;
  int64_t status = 0;
  const int64_t v16 = in1[0];
  const int64_t points = n_x0 * n_x1;
  #pragma omp parallel if (points > 1)
  {
    fw::KeepStream stream17(v16, 0u);
    const fw::Share mine = fw::share(points);
    int64_t x1 = mine.begin % n_x1;
    int64_t x0 = mine.begin / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(x1, n_x1, x0)) {
      fw::Sum<float, 4> acc2;
      for (int64_t r0 = 0; r0 < n_r0; ++r0) {
        fw::vectors_folded<4>(0, n_r1, [&](int64_t r1, auto lanes, auto slot) FW_BODY {
          const auto v1 = fw::load(in0 + (1024*r0 + r1 + 262144*x0 + 8192*x1), lanes);
          acc2.add(v1, lanes, slot);
        }, [&]() FW_BODY { acc2.fold(); });
      }
      const float v2 = acc2.result();
      const float v3 = v2 / 0x1.0000000000000p+13f;
      out4[32*x0 + x1] = v3;
      const float v33 = v3;
      out7[32*x0 + x1] = v33;
      fw::Sum<float, 4> acc8;
      for (int64_t r0 = 0; r0 < n_r0; ++r0) {
        fw::vectors_folded<4>(0, n_r1, [&](int64_t r1, auto lanes, auto slot) FW_BODY {
          const auto v1 = fw::load(in0 + (1024*r0 + r1 + 262144*x0 + 8192*x1), lanes);
          const auto v6 = v1 - fw::splat<float>(v3);
          const auto v7 = v6 * v6;
          acc8.add(v7, lanes, slot);
        }, [&]() FW_BODY { acc8.fold(); });
      }
      const float v8 = acc8.result();
      const float v9 = v8 / 0x1.0000000000000p+13f;
      const float v10 = v9 + static_cast<float>(0x1.4f8b588e368f1p-17);
      const float v11 = fw::sqrt(v10);
      const float v13 = 0x1.0000000000000p+0f / v11;
      out5[32*x0 + x1] = v13;
      const float v35 = v13;
      out8[32*x0 + x1] = v35;
      for (int64_t r0 = 0; r0 < n_r0; ++r0) {
        const float v19 = in2[r0 + 8*x1];
        const float v20 = v13 * v19;
        const float v21 = v3 * v20;
        const float v22 = in3[r0 + 8*x1];
        const float v23 = v22 - v21;
        fw::vectors(0, n_r1, [&](int64_t r1, auto lanes) FW_BODY {
          const auto v1 = fw::load(in0 + (1024*r0 + r1 + 262144*x0 + 8192*x1), lanes);
          const auto v17 = stream17.keep(1024*r0 + r1 + 262144*x0 + 8192*x1, 58982u);
          const auto v18 = fw::from_bool<float>(v17);
          const auto v24 = v1 * fw::splat<float>(v20);
          const auto v25 = v24 + fw::splat<float>(v23);
          const auto v26 = -v25;
          const auto v28 = fw::one_plus_exp(v26);
          const auto v29 = v25 / v28;
          const auto v30 = v29 * v18;
          const auto v31 = v30 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
          fw::store<float>(out6 + (1024*r0 + r1 + 262144*x0 + 8192*x1), v31, lanes);
        });
      }
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_keep_native_dropout_backward_native_group_norm_silu_backward_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, const float* __restrict in5, const int64_t* __restrict in6, const float* __restrict in7, const float* __restrict in8, float* __restrict out9, float* __restrict out10) {
  const int64_t n_x0 = 4;
  const int64_t n_x1 = 32;
  const int64_t n_x2 = 8;
  const int64_t n_r0 = 1024;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0) return 0;
  int64_t status = 0;
  const int64_t v20 = in6[0];
  const int64_t points = n_x0 * n_x1 * n_x2;
  #pragma omp parallel if (points > 1)
  {
    fw::KeepStream stream21(v20, 0u);
    const fw::Share mine = fw::share(points);
    int64_t x2 = mine.begin % n_x2;
    int64_t x1 = (mine.begin / n_x2) % n_x1;
    int64_t x0 = (mine.begin / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(x2, n_x2, x1, n_x1, x0)) {
      const float v0 = in0[8*x1 + x2];
      const float v1 = in1[32*x0 + x1];
      const float v2 = v1 * v0;
      const float v3 = in2[32*x0 + x1];
      const float v4 = v3 * v2;
      const float v5 = in3[8*x1 + x2];
      const float v6 = v5 - v4;
      const float v29 = in7[32*x0 + x1];
      const float v30 = in8[32*x0 + x1];
      fw::Sum<float, 1> acc27;
      fw::Sum<float, 1> acc33;
      fw::vectors_folded<1>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v7 = fw::load(in4 + (r0 + 262144*x0 + 8192*x1 + 1024*x2), lanes);
        const auto v8 = v7 * fw::splat<float>(v2);
        const auto v9 = v8 + fw::splat<float>(v6);
        const auto v10 = -v9;
        const auto v13 = fw::one_plus_exp(v10);
        const auto v14 = fw::splat<float>(0x1.0000000000000p+0f) / v13;
        const auto v15 = fw::splat<float>(0x1.0000000000000p+0f) - v14;
        const auto v16 = v9 * v15;
        const auto v17 = fw::splat<float>(0x1.0000000000000p+0f) + v16;
        const auto v19 = fw::load(in5 + (r0 + 262144*x0 + 8192*x1 + 1024*x2), lanes);
        const auto v21 = stream21.keep(r0 + 262144*x0 + 8192*x1 + 1024*x2, 58982u);
        const auto v22 = fw::from_bool<float>(v21);
        const auto v23 = v22 * v19;
        const auto v24 = v23 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
        const auto v25 = v24 * v14;
        const auto v26 = v25 * v17;
        const auto v31 = v7 - fw::splat<float>(v30);
        const auto v32 = v26 * v31;
        acc27.add(v26, lanes, slot);
        acc33.add(v32, lanes, slot);
      }, [&]() FW_BODY { acc27.fold(); acc33.fold(); });
      const float v27 = acc27.result();
      const float v33 = acc33.result();
      out9[256*x0 + 8*x1 + x2] = v27;
      const float v34 = v33 * v29;
      out10[256*x0 + 8*x1 + x2] = v34;
    }
  }
  return status;
}

extern "C" int64_t fused_native_group_norm_backward_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3, float* __restrict out4) {
  const int64_t n_x0 = 32;
  const int64_t n_l0 = 4;
  const int64_t n_r0 = 8;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t rows = n_l0;
  const int64_t chunk_rows = fw::chunk_rows(rows);
  const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));
  const int64_t row = n_r0;
  float* const part10 = fw::scratch<100, float>(n_x0*chunks*row);
  if (!part10) return -1;
  {
    const int64_t points = n_x0 * chunks;
    {
      const fw::Share mine = fw::share(points);
      int64_t chunk = mine.begin % chunks;
      int64_t x0 = mine.begin / chunks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(chunk, chunks, x0)) {
        const int64_t place = point;
        float* const acc10 = part10 + place*row;
        fw::start<fw::Plus>(acc10, 0, row);
        const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);
        for (int64_t at_row = chunk*chunk_rows; at_row < last; ++at_row) {
          const int64_t l0 = at_row;
          const float v0 = in0[32*l0 + x0];
          fw::Sum<float, 4> acc5;
          fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
            const auto v2 = fw::load(in1 + (r0 + 8*x0), lanes);
            const auto v3 = fw::load(in2 + (256*l0 + r0 + 8*x0), lanes);
            const auto v4 = v3 * v2;
            acc5.add(v4, lanes, slot);
            fw::accumulate<fw::Plus>(acc10 + r0, v3, lanes);
          }, [&]() FW_BODY { acc5.fold(); });
          const float v5 = acc5.result();
          const float v6 = v5 / 0x1.0000000000000p+13f;
          const float v7 = v6 * v0;
          const float v8 = v7 * v0;
          out3[32*l0 + x0] = v8;
        }
      }
    }
  }
  if (status != 0) return status;
  {
    const int64_t blocks = fw::most(1, fw::ceil_div(n_r0, 256));
    const int64_t points = n_x0 * blocks;
    {
      const fw::Share mine = fw::share(points);
      int64_t block = mine.begin % blocks;
      int64_t x0 = mine.begin / blocks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x0)) {
        const int64_t place = (x0)*chunks;
        const int64_t begin = block * 256;
        fw::vectors(begin, fw::least(n_r0, begin + 256), [&](int64_t r0, auto lanes) FW_BODY {
          const auto v10 = fw::combined<fw::Plus>(part10 + place*row + r0, chunks, row, lanes);
          fw::store<float>(out4 + (r0 + 8*x0), v10, lanes);
        });
      }
    }
  }
  return status;
}

extern "C" int64_t fused_native_group_norm_backward_1(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3, float* __restrict out4) {
  const int64_t n_x0 = 32;
  const int64_t n_l0 = 4;
  const int64_t n_r0 = 8;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t rows = n_l0;
  const int64_t chunk_rows = fw::chunk_rows(rows);
  const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));
  const int64_t row = n_r0;
  float* const part9 = fw::scratch<100, float>(n_x0*chunks*row);
  if (!part9) return -1;
  {
    const int64_t points = n_x0 * chunks;
    {
      const fw::Share mine = fw::share(points);
      int64_t chunk = mine.begin % chunks;
      int64_t x0 = mine.begin / chunks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(chunk, chunks, x0)) {
        const int64_t place = point;
        float* const acc9 = part9 + place*row;
        fw::start<fw::Plus>(acc9, 0, row);
        const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);
        for (int64_t at_row = chunk*chunk_rows; at_row < last; ++at_row) {
          const int64_t l0 = at_row;
          const float v0 = in0[32*l0 + x0];
          fw::Sum<float, 4> acc5;
          fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
            const auto v2 = fw::load(in1 + (r0 + 8*x0), lanes);
            const auto v3 = fw::load(in2 + (256*l0 + r0 + 8*x0), lanes);
            const auto v4 = v3 * v2;
            acc5.add(v4, lanes, slot);
            fw::accumulate<fw::Plus>(acc9 + r0, v3, lanes);
          }, [&]() FW_BODY { acc5.fold(); });
          const float v5 = acc5.result();
          const float v6 = v5 / 0x1.0000000000000p+13f;
          const float v7 = v6 * v0;
          out3[32*l0 + x0] = v7;
        }
      }
    }
  }
  if (status != 0) return status;
  {
    const int64_t blocks = fw::most(1, fw::ceil_div(n_r0, 256));
    const int64_t points = n_x0 * blocks;
    {
      const fw::Share mine = fw::share(points);
      int64_t block = mine.begin % blocks;
      int64_t x0 = mine.begin / blocks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x0)) {
        const int64_t place = (x0)*chunks;
        const int64_t begin = block * 256;
        fw::vectors(begin, fw::least(n_r0, begin + 256), [&](int64_t r0, auto lanes) FW_BODY {
          const auto v9 = fw::combined<fw::Plus>(part9 + place*row + r0, chunks, row, lanes);
          fw::store<float>(out4 + (r0 + 8*x0), v9, lanes);
        });
      }
    }
  }
  return status;
}

extern "C" int64_t fused_native_group_norm_backward_2(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, const float* __restrict in5, const float* __restrict in6, const float* __restrict in7, const float* __restrict in8, const float* __restrict in9, const int64_t* __restrict in10, float* __restrict out11) {
  const int64_t n_x0 = 4;
  const int64_t n_x1 = 32;
  const int64_t n_x2 = 8;
  const int64_t n_x3 = 1024;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0 || n_x3 == 0) return 0;
  int64_t status = 0;
  const int64_t v28 = in10[0];
  const int64_t blocks = fw::ceil_div(n_x3, 4096);
  const int64_t points = n_x0 * n_x1 * n_x2 * blocks;
  #pragma omp parallel if (points > 1)
  {
    fw::KeepStream stream29(v28, 0u);
    const fw::Share mine = fw::share(points);
    int64_t block = mine.begin % blocks;
    int64_t x2 = (mine.begin / blocks) % n_x2;
    int64_t x1 = ((mine.begin / blocks) / n_x2) % n_x1;
    int64_t x0 = ((mine.begin / blocks) / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x2, n_x2, x1, n_x1, x0)) {
      const float v0 = in0[32*x0 + x1];
      const float v1 = in1[32*x0 + x1];
      const float v2 = in2[32*x0 + x1];
      const float v7 = in4[32*x0 + x1];
      const float v8 = in5[8*x1 + x2];
      const float v9 = v8 * v7;
      const float v10 = in6[32*x0 + x1];
      const float v11 = v10 * v8;
      const float v12 = in7[32*x0 + x1];
      const float v13 = v12 * v11;
      const float v14 = in8[8*x1 + x2];
      const float v15 = v14 - v13;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x3, begin + 4096), [&](int64_t x3, auto lanes) FW_BODY {
        const auto v3 = fw::load(in3 + (262144*x0 + 8192*x1 + 1024*x2 + x3), lanes);
        const auto v4 = v3 - fw::splat<float>(v2);
        const auto v5 = v4 * fw::splat<float>(v1);
        const auto v6 = v5 + fw::splat<float>(v0);
        const auto v16 = v3 * fw::splat<float>(v11);
        const auto v17 = v16 + fw::splat<float>(v15);
        const auto v18 = -v17;
        const auto v21 = fw::one_plus_exp(v18);
        const auto v22 = fw::splat<float>(0x1.0000000000000p+0f) / v21;
        const auto v23 = fw::splat<float>(0x1.0000000000000p+0f) - v22;
        const auto v24 = v17 * v23;
        const auto v25 = fw::splat<float>(0x1.0000000000000p+0f) + v24;
        const auto v27 = fw::load(in9 + (262144*x0 + 8192*x1 + 1024*x2 + x3), lanes);
        const auto v29 = stream29.keep(262144*x0 + 8192*x1 + 1024*x2 + x3, 58982u);
        const auto v30 = fw::from_bool<float>(v29);
        const auto v31 = v30 * v27;
        const auto v32 = v31 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
        const auto v33 = v32 * v22;
        const auto v34 = v33 * v25;
        const auto v35 = v34 * fw::splat<float>(v9);
        const auto v36 = v35 - v6;
        fw::store<float>(out11 + (262144*x0 + 8192*x1 + 1024*x2 + x3), v36, lanes);
      });
    }
  }
  return status;
}
