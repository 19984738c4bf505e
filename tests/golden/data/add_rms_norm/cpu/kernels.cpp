// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_add_pow_mean_rsqrt_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3, float* __restrict out4, float* __restrict out5) {
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
      fw::Sum<float, 4> acc7;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 1024*x0), lanes);
        const auto v1 = fw::load(in1 + (r0 + 1024*x0), lanes);
        const auto v2 = v1 + v0;
        fw::store<float>(out3 + (r0 + 1024*x0), v2, lanes);
        const auto v6 = v2 * v2;
        acc7.add(v6, lanes, slot);
      }, [&]() FW_BODY { acc7.fold(); });
      const float v7 = acc7.result();
      const float v8 = v7 / 0x1.0000000000000p+10f;
      const float v9 = v8 + static_cast<float>(0x1.0c6f7a0b5ed8dp-20);
      const float v10 = fw::sqrt(v9);
      const float v12 = 0x1.0000000000000p+0f / v10;
      out4[x0] = v12;
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (r0 + 1024*x0), lanes);
        const auto v1 = fw::load(in1 + (r0 + 1024*x0), lanes);
        const auto v2 = v1 + v0;
        const auto v14 = v2 * fw::splat<float>(v12);
        const auto v15 = fw::load(in2 + (r0), lanes);
        const auto v16 = v15 * v14;
        fw::store<float>(out5 + (r0 + 1024*x0), v16, lanes);
      });
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_mul_sum_add_pow_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, float* __restrict out5, float* __restrict out6) {
  const int64_t n_x0 = 16;
  const int64_t n_l0 = 256;
  const int64_t n_r0 = 1024;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t rows = n_l0;
  const int64_t chunk_rows = fw::chunk_rows(rows);
  const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));
  const int64_t row = n_r0;
  float* const part5 = fw::scratch<100, float>(n_x0*chunks*row);
  if (!part5) return -1;
  {
    const int64_t points = n_x0 * chunks;
    #pragma omp parallel if (points > 1)
    {
      const fw::Share mine = fw::share(points);
      int64_t chunk = mine.begin % chunks;
      int64_t x0 = mine.begin / chunks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(chunk, chunks, x0)) {
        const int64_t place = point;
        float* const acc5 = part5 + place*row;
        fw::start<fw::Plus>(acc5, 0, row);
        const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);
        for (int64_t at_row = chunk*chunk_rows; at_row < last; ++at_row) {
          const int64_t l0 = at_row;
          const float v0 = in0[l0 + 256*x0];
          const float v10 = v0 * v0;
          const float v11 = v10 * v0;
          fw::Sum<float, 4> acc16;
          fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
            const auto v1 = fw::load(in1 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v2 = v1 * fw::splat<float>(v0);
            const auto v3 = fw::load(in2 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v4 = v3 * v2;
            const auto v13 = fw::load(in3 + (r0), lanes);
            const auto v14 = v3 * v13;
            const auto v15 = v14 * v1;
            acc16.add(v15, lanes, slot);
            fw::accumulate<fw::Plus>(acc5 + r0, v4, lanes);
          }, [&]() FW_BODY { acc16.fold(); });
          const float v16 = acc16.result();
          const float v17 = v16 * (-0x1.0000000000000p-1f);
          const float v18 = v17 * v11;
          const float v19 = v18 / 0x1.0000000000000p+10f;
          fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
            const auto v1 = fw::load(in1 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v3 = fw::load(in2 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v8 = v1 * fw::splat<float>(0x1.0000000000000p+1f);
            const auto v13 = fw::load(in3 + (r0), lanes);
            const auto v14 = v3 * v13;
            const auto v20 = fw::splat<float>(v19) * v8;
            const auto v21 = v14 * fw::splat<float>(v0);
            const auto v22 = fw::load(in4 + (1024*l0 + r0 + 262144*x0), lanes);
            const auto v23 = v22 + v21;
            const auto v24 = v23 + v20;
            fw::store<float>(out6 + (1024*l0 + r0 + 262144*x0), v24, lanes);
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
          const auto v5 = fw::combined<fw::Plus>(part5 + place*row + r0, chunks, row, lanes);
          fw::store<float>(out5 + (r0 + 1024*x0), v5, lanes);
        });
      }
    }
  }
  return status;
}

extern "C" int64_t fused_sum_0(const float* __restrict in0, float* __restrict out1) {
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
      for (int64_t r0 = 0; r0 < n_r0; ++r0) {
        fw::columns(begin, end, [&](int64_t x0, auto lanes, int col) FW_BODY {
          (void)col;
          const auto v0 = fw::load(in0 + (1024*r0 + x0), lanes);
          acc1.add(v0, col);
        });
        acc1.row();
      }
      fw::columns(begin, end, [&](int64_t x0, auto lanes, int col) FW_BODY {
        (void)col;
        const auto v1 = acc1.result(col);
        fw::store<float>(out1 + (x0), v1, lanes);
      });
    }
  }
  return status;
}
