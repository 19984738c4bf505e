// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_gelu_keep_mul_add_0(const int64_t* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, float* __restrict out5, float* __restrict out6, float* __restrict out7) {
  const int64_t n_x0 = 4096;
  const int64_t n_r0 = 1024;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t v2 = in0[0];
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    fw::KeepStream stream3(v2, 0u);
    float* const row22 = fw::scratch<0, float>(n_r0);
    const fw::Share mine = row22 ? fw::share(points) : fw::no_memory(status);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Sum<float, 1> acc23;
      fw::vectors_folded<1>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v3 = stream3.keep(r0 + 1024*x0, 58982u);
        const auto v4 = fw::from_bool<float>(v3);
        const auto v6 = fw::load(in1 + (r0 + 1024*x0), lanes);
        const auto v8 = v6 * v6;
        const auto v9 = v8 * v6;
        const auto v10 = v9 * fw::splat<float>(static_cast<float>(0x1.6e4e26d4801f7p-5));
        const auto v11 = v10 + v6;
        const auto v12 = v11 * fw::splat<float>(static_cast<float>(0x1.9884533d43651p-1));
        const auto v13 = fw::tanh(v12);
        const auto v15 = fw::splat<float>(0x1.0000000000000p+0f) + v13;
        const auto v17 = fw::splat<float>(0x1.0000000000000p-1f) * v6;
        const auto v18 = v17 * v15;
        const auto v19 = v18 * v4;
        const auto v20 = v19 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
        const auto v21 = fw::load(in2 + (r0 + 1024*x0), lanes);
        const auto v22 = v21 + v20;
        fw::store<float>(row22 + r0, v22, lanes);
        acc23.add(v22, lanes, slot);
      }, [&]() FW_BODY { acc23.fold(); });
      const float v23 = acc23.result();
      const float v24 = v23 / 0x1.0000000000000p+10f;
      out5[x0] = v24;
      fw::Sum<float, 4> acc29;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v22 = fw::load(row22 + r0, fw::Full{});
        const auto v27 = v22 - fw::splat<float>(v24);
        const auto v28 = v27 * v27;
        acc29.add(v28, lanes, slot);
      }, [&]() FW_BODY { acc29.fold(); });
      const float v29 = acc29.result();
      const float v30 = v29 / 0x1.0000000000000p+10f;
      const float v31 = v30 + static_cast<float>(0x1.4f8b588e368f1p-17);
      const float v32 = fw::sqrt(v31);
      const float v33 = 0x1.0000000000000p+0f / v32;
      out6[x0] = v33;
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v22 = fw::load(row22 + r0, fw::Full{});
        const auto v27 = v22 - fw::splat<float>(v24);
        const auto v35 = fw::load(in3 + (r0), lanes);
        const auto v36 = fw::load(in4 + (r0), lanes);
        const auto v37 = v27 * fw::splat<float>(v33);
        const auto v38 = v37 * v36;
        const auto v39 = v38 + v35;
        fw::store<float>(out7 + (r0 + 1024*x0), v39, lanes);
      });
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_gelu_keep_mul_add_0(const float* __restrict in0, const float* __restrict in1, const int64_t* __restrict in2, const float* __restrict in3, const float* __restrict in4, const float* __restrict in5, const float* __restrict in6, float* __restrict out7, float* __restrict out8, float* __restrict out9, float* __restrict out10) {
  const int64_t n_x0 = 16;
  const int64_t n_l0 = 256;
  const int64_t n_r0 = 1024;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t v4 = in2[0];
  const int64_t rows = n_l0;
  const int64_t chunk_rows = fw::chunk_rows(rows);
  const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));
  const int64_t row = n_r0;
  float* const part41 = fw::scratch<100, float>(n_x0*chunks*row);
  if (!part41) return -1;
  float* const part43 = fw::scratch<101, float>(n_x0*chunks*row);
  if (!part43) return -1;
  {
    const int64_t points = n_x0 * chunks;
    #pragma omp parallel if (points > 1)
    {
      fw::KeepStream stream5(v4, 0u);
      float* const row6 = fw::scratch<0, float>(n_r0);
      float* const row15 = fw::scratch<1, float>(n_r0);
      float* const row26 = fw::scratch<2, float>(n_r0);
      const fw::Share mine = row6 && row15 && row26 ? fw::share(points) : fw::no_memory(status);
      int64_t chunk = mine.begin % chunks;
      int64_t x0 = mine.begin / chunks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(chunk, chunks, x0)) {
        const int64_t place = point;
        float* const acc41 = part41 + place*row;
        fw::start<fw::Plus>(acc41, 0, row);
        float* const acc43 = part43 + place*row;
        fw::start<fw::Plus>(acc43, 0, row);
        const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);
        for (int64_t at_row = chunk*chunk_rows; at_row < last; ++at_row) {
          const int64_t l0 = at_row;
          const float v0 = in0[l0 + 256*x0];
          const float v2 = in1[l0 + 256*x0];
          fw::Sum<float, 1> acc31;
          fw::Sum<float, 1> acc34;
          fw::vectors_folded<1>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
            const auto v5 = stream5.keep(1024*l0 + r0 + 262144*x0, 58982u);
            const auto v6 = fw::from_bool<float>(v5);
            const auto v8 = fw::load(in3 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v10 = v8 * v8;
            const auto v11 = v10 * v8;
            const auto v12 = v11 * fw::splat<float>(static_cast<float>(0x1.6e4e26d4801f7p-5));
            const auto v13 = v12 + v8;
            const auto v14 = v13 * fw::splat<float>(static_cast<float>(0x1.9884533d43651p-1));
            const auto v15 = fw::tanh(v14);
            const auto v17 = fw::splat<float>(0x1.0000000000000p+0f) + v15;
            const auto v19 = fw::splat<float>(0x1.0000000000000p-1f) * v8;
            const auto v20 = v19 * v17;
            const auto v21 = v20 * v6;
            const auto v22 = v21 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
            const auto v23 = fw::load(in4 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v24 = v23 + v22;
            const auto v25 = v24 - fw::splat<float>(v2);
            const auto v26 = v25 * fw::splat<float>(v0);
            const auto v27 = fw::load(in5 + (r0), lanes);
            const auto v28 = fw::load(in6 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v29 = v28 * v27;
            const auto v30 = v29 * v26;
            const auto v40 = v28 * v26;
            fw::store<float>(row6 + r0, v6, lanes);
            fw::store<float>(row15 + r0, v15, lanes);
            fw::store<float>(row26 + r0, v26, lanes);
            acc31.add(v30, lanes, slot);
            acc34.add(v29, lanes, slot);
            fw::accumulate<fw::Plus>(acc41 + r0, v40, lanes);
            fw::accumulate<fw::Plus>(acc43 + r0, v28, lanes);
          }, [&]() FW_BODY { acc31.fold(); acc34.fold(); });
          const float v31 = acc31.result();
          const float v34 = acc34.result();
          const float v32 = v31 / 0x1.0000000000000p+10f;
          const float v35 = v34 / 0x1.0000000000000p+10f;
          fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
            const auto v6 = fw::load(row6 + r0, fw::Full{});
            const auto v15 = fw::load(row15 + r0, fw::Full{});
            const auto v26 = fw::load(row26 + r0, fw::Full{});
            const auto v8 = fw::load(in3 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v10 = v8 * v8;
            const auto v17 = fw::splat<float>(0x1.0000000000000p+0f) + v15;
            const auto v19 = fw::splat<float>(0x1.0000000000000p-1f) * v8;
            const auto v27 = fw::load(in5 + (r0), lanes);
            const auto v28 = fw::load(in6 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v29 = v28 * v27;
            const auto v33 = v26 * fw::splat<float>(v32);
            const auto v36 = v29 - fw::splat<float>(v35);
            const auto v37 = v36 - v33;
            const auto v38 = v37 * fw::splat<float>(v0);
            fw::store<float>(out7 + (1024*l0 + r0 + 262144*x0), v38, lanes);
            const auto v46 = v10 * fw::splat<float>(static_cast<float>(0x1.12ba9d1f60179p-3));
            const auto v47 = fw::splat<float>(0x1.0000000000000p+0f) + v46;
            const auto v48 = v47 * fw::splat<float>(static_cast<float>(0x1.9884533d43651p-1));
            const auto v49 = v15 * v15;
            const auto v50 = fw::splat<float>(0x1.0000000000000p+0f) - v49;
            const auto v51 = v19 * v50;
            const auto v52 = v51 * v48;
            const auto v53 = fw::splat<float>(0x1.0000000000000p-1f) * v17;
            const auto v54 = v53 + v52;
            const auto v55 = v6 * v38;
            const auto v56 = v55 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
            const auto v57 = v56 * v54;
            fw::store<float>(out10 + (1024*l0 + r0 + 262144*x0), v57, lanes);
          });
        }
      }
    }
  }
  if (status != 0) return status;
  {
    const int64_t blocks = fw::most(1, fw::ceil_div(n_r0, 256));
    const int64_t points = n_x0 * blocks;
    #pragma omp parallel if (points > 1)
    {
      fw::KeepStream stream5(v4, 0u);
      const fw::Share mine = fw::share(points);
      int64_t block = mine.begin % blocks;
      int64_t x0 = mine.begin / blocks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x0)) {
        const int64_t place = (x0)*chunks;
        const int64_t begin = block * 256;
        fw::vectors(begin, fw::least(n_r0, begin + 256), [&](int64_t r0, auto lanes) FW_BODY {
          const auto v41 = fw::combined<fw::Plus>(part41 + place*row + r0, chunks, row, lanes);
          const auto v43 = fw::combined<fw::Plus>(part43 + place*row + r0, chunks, row, lanes);
          fw::store<float>(out8 + (r0 + 1024*x0), v41, lanes);
          fw::store<float>(out9 + (r0 + 1024*x0), v43, lanes);
        });
      }
    }
  }
  return status;
}

extern "C" int64_t fused_native_layer_norm_backward_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3) {
  const int64_t n_x0 = 1024;
  const int64_t n_r0 = 16;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t width = fw::tile_width(n_x0, 1, n_r0, 1);
  const int64_t tiles = fw::ceil_div(n_x0, width);
  const int64_t points = tiles;
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t tile = point;
      const int64_t begin = tile * width;
      const int64_t end = fw::least(n_x0, begin + width);
      const int count = static_cast<int>(fw::ceil_div(end - begin, fw::LANES));
      fw::ColumnSum<float> acc1(count);
      fw::ColumnSum<float> acc4(count);
      for (int64_t r0 = 0; r0 < n_r0; ++r0) {
        fw::columns(begin, end, [&](int64_t x0, auto lanes, int col) FW_BODY {
          (void)col;
          const auto v0 = fw::load(in0 + (1024*r0 + x0), lanes);
          const auto v3 = fw::load(in1 + (1024*r0 + x0), lanes);
          acc1.add(v0, col);
          acc4.add(v3, col);
        });
        acc1.row();
        acc4.row();
      }
      fw::columns(begin, end, [&](int64_t x0, auto lanes, int col) FW_BODY {
        (void)col;
        const auto v1 = acc1.result(col);
        const auto v4 = acc4.result(col);
        fw::store<float>(out2 + (x0), v1, lanes);
        fw::store<float>(out3 + (x0), v4, lanes);
      });
    }
  }
  return status;
}
