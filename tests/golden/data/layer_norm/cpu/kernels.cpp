// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_native_layer_norm_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3, float* __restrict out4, float* __restrict out5) {
  const int64_t n_x0 = 4096;
  const int64_t n_r0 = 1024;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Sum<float, 4> acc2;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 1024*x0), lanes);
        acc2.add(v1, lanes, slot);
      }, [&]() FW_BODY { acc2.fold(); });
      const float v2 = acc2.result();
      const float v3 = v2 / 0x1.0000000000000p+10f;
      out3[x0] = v3;
      fw::Sum<float, 4> acc8;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 1024*x0), lanes);
        const auto v6 = v1 - fw::splat<float>(v3);
        const auto v7 = v6 * v6;
        acc8.add(v7, lanes, slot);
      }, [&]() FW_BODY { acc8.fold(); });
      const float v8 = acc8.result();
      const float v9 = v8 / 0x1.0000000000000p+10f;
      const float v10 = v9 + static_cast<float>(0x1.4f8b588e368f1p-17);
      const float v11 = fw::sqrt(v10);
      const float v13 = 0x1.0000000000000p+0f / v11;
      out4[x0] = v13;
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 1024*x0), lanes);
        const auto v6 = v1 - fw::splat<float>(v3);
        const auto v15 = fw::load(in1 + (r0), lanes);
        const auto v16 = fw::load(in2 + (r0), lanes);
        const auto v17 = v6 * fw::splat<float>(v13);
        const auto v18 = v17 * v16;
        const auto v19 = v18 + v15;
        fw::store<float>(out5 + (r0 + 1024*x0), v19, lanes);
      });
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_native_layer_norm_backward_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, float* __restrict out5, float* __restrict out6, float* __restrict out7) {
  const int64_t n_x0 = 16;
  const int64_t n_l0 = 256;
  const int64_t n_r0 = 1024;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t rows = n_l0;
  const int64_t chunk_rows = fw::chunk_rows(rows);
  const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));
  const int64_t row = n_r0;
  float* const part20 = fw::scratch<100, float>(n_x0*chunks*row);
  if (!part20) return -1;
  float* const part22 = fw::scratch<101, float>(n_x0*chunks*row);
  if (!part22) return -1;
  {
    const int64_t points = n_x0 * chunks;
    #pragma omp parallel if (points > 1)
    {
      const fw::Share mine = fw::share(points);
      int64_t chunk = mine.begin % chunks;
      int64_t x0 = mine.begin / chunks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(chunk, chunks, x0)) {
        const int64_t place = point;
        float* const acc20 = part20 + place*row;
        fw::start<fw::Plus>(acc20, 0, row);
        float* const acc22 = part22 + place*row;
        fw::start<fw::Plus>(acc22, 0, row);
        const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);
        for (int64_t at_row = chunk*chunk_rows; at_row < last; ++at_row) {
          const int64_t l0 = at_row;
          const float v0 = in0[l0 + 256*x0];
          const float v2 = in1[l0 + 256*x0];
          fw::Sum<float, 4> acc10;
          fw::Sum<float, 4> acc13;
          fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
            const auto v3 = fw::load(in2 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v4 = v3 - fw::splat<float>(v2);
            const auto v5 = v4 * fw::splat<float>(v0);
            const auto v6 = fw::load(in3 + (r0), lanes);
            const auto v7 = fw::load(in4 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v8 = v7 * v6;
            const auto v9 = v8 * v5;
            const auto v19 = v7 * v5;
            acc10.add(v9, lanes, slot);
            acc13.add(v8, lanes, slot);
            fw::accumulate<fw::Plus>(acc20 + r0, v19, lanes);
            fw::accumulate<fw::Plus>(acc22 + r0, v7, lanes);
          }, [&]() FW_BODY { acc10.fold(); acc13.fold(); });
          const float v10 = acc10.result();
          const float v13 = acc13.result();
          const float v11 = v10 / 0x1.0000000000000p+10f;
          const float v14 = v13 / 0x1.0000000000000p+10f;
          fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
            const auto v3 = fw::load(in2 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v4 = v3 - fw::splat<float>(v2);
            const auto v5 = v4 * fw::splat<float>(v0);
            const auto v6 = fw::load(in3 + (r0), lanes);
            const auto v7 = fw::load(in4 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v8 = v7 * v6;
            const auto v12 = v5 * fw::splat<float>(v11);
            const auto v15 = v8 - fw::splat<float>(v14);
            const auto v16 = v15 - v12;
            const auto v17 = v16 * fw::splat<float>(v0);
            fw::store<float>(out5 + (1024*l0 + r0 + 262144*x0), v17, lanes);
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
      const fw::Share mine = fw::share(points);
      int64_t block = mine.begin % blocks;
      int64_t x0 = mine.begin / blocks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x0)) {
        const int64_t place = (x0)*chunks;
        const int64_t begin = block * 256;
        fw::vectors(begin, fw::least(n_r0, begin + 256), [&](int64_t r0, auto lanes) FW_BODY {
          const auto v20 = fw::combined<fw::Plus>(part20 + place*row + r0, chunks, row, lanes);
          const auto v22 = fw::combined<fw::Plus>(part22 + place*row + r0, chunks, row, lanes);
          fw::store<float>(out6 + (r0 + 1024*x0), v20, lanes);
          fw::store<float>(out7 + (r0 + 1024*x0), v22, lanes);
        });
      }
    }
  }
  return status;
}

extern "C" int64_t fused_native_layer_norm_backward_1(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3) {
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
