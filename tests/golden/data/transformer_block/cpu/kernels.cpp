// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_native_layer_norm_getitem_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3, float* __restrict out4, float* __restrict out5, float* __restrict out6, float* __restrict out7) {
  const int64_t n_x0 = 512;
  const int64_t n_r0 = 256;
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
        const auto v1 = fw::load(in0 + (r0 + 256*x0), lanes);
        acc2.add(v1, lanes, slot);
      }, [&]() FW_BODY { acc2.fold(); });
      const float v2 = acc2.result();
      const float v3 = v2 / 0x1.0000000000000p+8f;
      out3[x0] = v3;
      const float v21 = v3;
      out6[x0] = v21;
      fw::Sum<float, 4> acc8;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 256*x0), lanes);
        const auto v6 = v1 - fw::splat<float>(v3);
        const auto v7 = v6 * v6;
        acc8.add(v7, lanes, slot);
      }, [&]() FW_BODY { acc8.fold(); });
      const float v8 = acc8.result();
      const float v9 = v8 / 0x1.0000000000000p+8f;
      const float v10 = v9 + static_cast<float>(0x1.4f8b588e368f1p-17);
      const float v11 = fw::sqrt(v10);
      const float v13 = 0x1.0000000000000p+0f / v11;
      out4[x0] = v13;
      const float v23 = v13;
      out7[x0] = v23;
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v1 = fw::load(in0 + (r0 + 256*x0), lanes);
        const auto v6 = v1 - fw::splat<float>(v3);
        const auto v15 = fw::load(in1 + (r0), lanes);
        const auto v16 = fw::load(in2 + (r0), lanes);
        const auto v17 = v6 * fw::splat<float>(v13);
        const auto v18 = v17 * v16;
        const auto v19 = v18 + v15;
        fw::store<float>(out5 + (r0 + 256*x0), v19, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_keep_mul_add_native_layer_norm_0(const int64_t* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, float* __restrict out5, float* __restrict out6, float* __restrict out7, float* __restrict out8, float* __restrict out9, float* __restrict out10) {
  const int64_t n_x0 = 512;
  const int64_t n_r0 = 256;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t v1 = in0[0];
  const int64_t points = n_x0;
  #pragma omp parallel if (points > 1)
  {
    fw::KeepStream stream2(v1, 0u);
    float* const row8 = fw::scratch<0, float>(n_r0);
    const fw::Share mine = row8 ? fw::share(points) : fw::no_memory(status);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t x0 = point;
      fw::Sum<float, 2> acc11;
      fw::vectors_folded<2>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v2 = stream2.keep(r0 + 256*x0, 58982u);
        const auto v3 = fw::from_bool<float>(v2);
        const auto v4 = fw::load(in1 + (r0 + 256*x0), lanes);
        const auto v5 = v4 * v3;
        const auto v6 = v5 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
        const auto v7 = fw::load(in2 + (r0 + 256*x0), lanes);
        const auto v8 = v7 + v6;
        fw::store<float>(out5 + (r0 + 256*x0), v8, lanes);
        fw::store<float>(row8 + r0, v8, lanes);
        acc11.add(v8, lanes, slot);
      }, [&]() FW_BODY { acc11.fold(); });
      const float v11 = acc11.result();
      const float v12 = v11 / 0x1.0000000000000p+8f;
      out6[x0] = v12;
      const float v30 = v12;
      out9[x0] = v30;
      fw::Sum<float, 4> acc17;
      fw::vectors_folded<4>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
        const auto v8 = fw::load(row8 + r0, fw::Full{});
        const auto v15 = v8 - fw::splat<float>(v12);
        const auto v16 = v15 * v15;
        acc17.add(v16, lanes, slot);
      }, [&]() FW_BODY { acc17.fold(); });
      const float v17 = acc17.result();
      const float v18 = v17 / 0x1.0000000000000p+8f;
      const float v19 = v18 + static_cast<float>(0x1.4f8b588e368f1p-17);
      const float v20 = fw::sqrt(v19);
      const float v22 = 0x1.0000000000000p+0f / v20;
      out7[x0] = v22;
      const float v32 = v22;
      out10[x0] = v32;
      fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
        const auto v8 = fw::load(row8 + r0, fw::Full{});
        const auto v15 = v8 - fw::splat<float>(v12);
        const auto v24 = fw::load(in3 + (r0), lanes);
        const auto v25 = fw::load(in4 + (r0), lanes);
        const auto v26 = v15 * fw::splat<float>(v22);
        const auto v27 = v26 * v25;
        const auto v28 = v27 + v24;
        fw::store<float>(out8 + (r0 + 256*x0), v28, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_gelu_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 524288;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x0, 4096);
  const int64_t points = blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x0, begin + 4096), [&](int64_t x0, auto lanes) FW_BODY {
        const auto v1 = fw::load(in0 + (x0), lanes);
        const auto v3 = v1 * v1;
        const auto v4 = v3 * v1;
        const auto v5 = v4 * fw::splat<float>(static_cast<float>(0x1.6e4e26d4801f7p-5));
        const auto v6 = v5 + v1;
        const auto v7 = v6 * fw::splat<float>(static_cast<float>(0x1.9884533d43651p-1));
        const auto v8 = fw::tanh(v7);
        const auto v10 = fw::splat<float>(0x1.0000000000000p+0f) + v8;
        const auto v12 = fw::splat<float>(0x1.0000000000000p-1f) * v1;
        const auto v13 = v12 * v10;
        fw::store<float>(out1 + (x0), v13, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_keep_mul_add_0(const int64_t* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3) {
  const int64_t n_x0 = 131072;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t v1 = in0[0];
  const int64_t blocks = fw::ceil_div(n_x0, 4096);
  const int64_t points = blocks;
  #pragma omp parallel if (points > 1)
  {
    fw::KeepStream stream2(v1, 1u);
    const fw::Share mine = fw::share(points);
    for (int64_t point = mine.begin; point < mine.end; ++point) {
      const int64_t block = point;
      const int64_t begin = block * 4096;
      fw::vectors(begin, fw::least(n_x0, begin + 4096), [&](int64_t x0, auto lanes) FW_BODY {
        const auto v2 = stream2.keep(x0, 58982u);
        const auto v3 = fw::from_bool<float>(v2);
        const auto v4 = fw::load(in1 + (x0), lanes);
        const auto v5 = v4 * v3;
        const auto v6 = v5 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
        const auto v7 = fw::load(in2 + (x0), lanes);
        const auto v8 = v7 + v6;
        fw::store<float>(out3 + (x0), v8, lanes);
      });
    }
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_keep_native_dropout_backward_sum_0(const float* __restrict in0, const int64_t* __restrict in1, float* __restrict out2, float* __restrict out3) {
  const int64_t n_x0 = 16;
  const int64_t n_x1 = 256;
  const int64_t n_r0 = 32;
  if (n_x0 == 0 || n_x1 == 0) return 0;
  int64_t status = 0;
  const int64_t v2 = in1[0];
  const int64_t width = fw::tile_width(n_x1, n_x0, n_r0, 1);
  const int64_t tiles = fw::ceil_div(n_x1, width);
  const int64_t points = n_x0 * tiles;
  #pragma omp parallel if (points > 1)
  {
    fw::KeepStream stream3(v2, 1u);
    const fw::Share mine = fw::share(points);
    int64_t tile = mine.begin % tiles;
    int64_t x0 = mine.begin / tiles;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(tile, tiles, x0)) {
      const int64_t begin = tile * width;
      const int64_t end = fw::least(n_x1, begin + width);
      const int count = static_cast<int>(fw::ceil_div(end - begin, fw::LANES));
      fw::ColumnSum<float> acc8(count);
      for (int64_t r0 = 0; r0 < n_r0; ++r0) {
        fw::columns(begin, end, [&](int64_t x1, auto lanes, int col) FW_BODY {
          (void)col;
          const auto v1 = fw::load(in0 + (256*r0 + 8192*x0 + x1), lanes);
          const auto v3 = stream3.keep(256*r0 + 8192*x0 + x1, 58982u);
          const auto v4 = fw::from_bool<float>(v3);
          const auto v5 = v4 * v1;
          const auto v6 = v5 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
          fw::store<float>(out2 + (256*r0 + 8192*x0 + x1), v6, lanes);
          acc8.add(v6, col);
        });
        acc8.row();
      }
      fw::columns(begin, end, [&](int64_t x1, auto lanes, int col) FW_BODY {
        (void)col;
        const auto v8 = acc8.result(col);
        fw::store<float>(out3 + (256*x0 + x1), v8, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_sum_0(const float* __restrict in0, float* __restrict out1) {
  const int64_t n_x0 = 256;
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
          const auto v0 = fw::load(in0 + (256*r0 + x0), lanes);
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

extern "C" int64_t fused_gelu_gelu_backward_sum_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3, float* __restrict out4) {
  const int64_t n_x0 = 1024;
  const int64_t n_r0 = 512;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t rows = n_r0;
  const int64_t chunk_rows = fw::chunk_rows(rows);
  const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));
  const int64_t row = n_x0;
  float* const part28 = fw::scratch<100, float>(1*chunks*row);
  if (!part28) return -1;
  {
    const int64_t tiles = fw::most(1, fw::ceil_div(row, 4096));
    const int64_t points = chunks * tiles;
    #pragma omp parallel if (points > 1)
    {
      const fw::Share mine = fw::share(points);
      int64_t tile = mine.begin % tiles;
      int64_t chunk = mine.begin / tiles;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(tile, tiles, chunk)) {
        const int64_t begin = tile * 4096, end = fw::least(row, begin + 4096);
        const int64_t place = point / tiles;
        float* const acc28 = part28 + place*row;
        fw::start<fw::Plus>(acc28, begin, end);
        const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);
        for (int64_t at_row = chunk*chunk_rows; at_row < last; ++at_row) {
          const int64_t r0 = at_row;
          fw::vectors(begin, end, [&](int64_t x0, auto lanes) FW_BODY {
            const auto v1 = fw::load(in0 + (1024*r0 + x0), lanes);
            const auto v3 = v1 * v1;
            const auto v4 = v3 * v1;
            const auto v5 = v4 * fw::splat<float>(static_cast<float>(0x1.6e4e26d4801f7p-5));
            const auto v6 = v5 + v1;
            const auto v7 = v6 * fw::splat<float>(static_cast<float>(0x1.9884533d43651p-1));
            const auto v8 = fw::tanh(v7);
            const auto v10 = fw::splat<float>(0x1.0000000000000p+0f) + v8;
            const auto v12 = fw::splat<float>(0x1.0000000000000p-1f) * v1;
            const auto v13 = v12 * v10;
            fw::store<float>(out2 + (1024*r0 + x0), v13, lanes);
            const auto v16 = v3 * fw::splat<float>(static_cast<float>(0x1.12ba9d1f60179p-3));
            const auto v17 = fw::splat<float>(0x1.0000000000000p+0f) + v16;
            const auto v18 = v17 * fw::splat<float>(static_cast<float>(0x1.9884533d43651p-1));
            const auto v19 = v8 * v8;
            const auto v20 = fw::splat<float>(0x1.0000000000000p+0f) - v19;
            const auto v21 = v12 * v20;
            const auto v22 = v21 * v18;
            const auto v23 = fw::splat<float>(0x1.0000000000000p-1f) * v10;
            const auto v24 = v23 + v22;
            const auto v25 = fw::load(in1 + (1024*r0 + x0), lanes);
            const auto v26 = v25 * v24;
            fw::store<float>(out3 + (1024*r0 + x0), v26, lanes);
            fw::accumulate<fw::Plus>(acc28 + x0, v26, lanes);
          });
        }
      }
    }
  }
  if (status != 0) return status;
  {
    const int64_t blocks = fw::most(1, fw::ceil_div(n_x0, 256));
    const int64_t points = blocks;
    #pragma omp parallel if (points > 1)
    {
      const fw::Share mine = fw::share(points);
      for (int64_t point = mine.begin; point < mine.end; ++point) {
        const int64_t block = point;
        const int64_t place = (0)*chunks;
        const int64_t begin = block * 256;
        fw::vectors(begin, fw::least(n_x0, begin + 256), [&](int64_t x0, auto lanes) FW_BODY {
          const auto v28 = fw::combined<fw::Plus>(part28 + place*row + x0, chunks, row, lanes);
          fw::store<float>(out4 + (x0), v28, lanes);
        });
      }
    }
  }
  return status;
}

extern "C" int64_t fused_native_layer_norm_native_layer_norm_backward_add_keep_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, const float* __restrict in5, const float* __restrict in6, const float* __restrict in7, const float* __restrict in8, const int64_t* __restrict in9, float* __restrict out10, float* __restrict out11, float* __restrict out12, float* __restrict out13, float* __restrict out14, float* __restrict out15) {
  const int64_t n_x0 = 16;
  const int64_t n_l0 = 32;
  const int64_t n_r0 = 256;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t v35 = in9[0];
  const int64_t rows = n_l0;
  const int64_t chunk_rows = fw::chunk_rows(rows);
  const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));
  const int64_t row = n_r0;
  float* const part16 = fw::scratch<100, float>(n_x0*chunks*row);
  if (!part16) return -1;
  float* const part18 = fw::scratch<101, float>(n_x0*chunks*row);
  if (!part18) return -1;
  float* const part41 = fw::scratch<102, float>(n_x0*chunks*row);
  if (!part41) return -1;
  {
    const int64_t points = n_x0 * chunks;
    #pragma omp parallel if (points > 1)
    {
      fw::KeepStream stream36(v35, 0u);
      const fw::Share mine = fw::share(points);
      int64_t chunk = mine.begin % chunks;
      int64_t x0 = mine.begin / chunks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(chunk, chunks, x0)) {
        const int64_t place = point;
        float* const acc16 = part16 + place*row;
        fw::start<fw::Plus>(acc16, 0, row);
        float* const acc18 = part18 + place*row;
        fw::start<fw::Plus>(acc18, 0, row);
        float* const acc41 = part41 + place*row;
        fw::start<fw::Plus>(acc41, 0, row);
        const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);
        for (int64_t at_row = chunk*chunk_rows; at_row < last; ++at_row) {
          const int64_t l0 = at_row;
          const float v2 = in2[l0 + 32*x0];
          const float v3 = in3[l0 + 32*x0];
          const float v10 = in5[l0 + 32*x0];
          const float v11 = in6[l0 + 32*x0];
          fw::Sum<float, 2> acc23;
          fw::Sum<float, 2> acc26;
          fw::vectors_folded<2>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
            const auto v0 = fw::load(in0 + (r0), lanes);
            const auto v1 = fw::load(in1 + (r0), lanes);
            const auto v4 = fw::load(in4 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v5 = v4 - fw::splat<float>(v3);
            const auto v6 = v5 * fw::splat<float>(v2);
            const auto v7 = v6 * v1;
            const auto v8 = v7 + v0;
            fw::store<float>(out10 + (256*l0 + r0 + 8192*x0), v8, lanes);
            const auto v12 = v4 - fw::splat<float>(v11);
            const auto v13 = v12 * fw::splat<float>(v10);
            const auto v14 = fw::load(in7 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v15 = v14 * v13;
            const auto v21 = v14 * v1;
            const auto v22 = v21 * v13;
            acc23.add(v22, lanes, slot);
            acc26.add(v21, lanes, slot);
            fw::accumulate<fw::Plus>(acc16 + r0, v15, lanes);
            fw::accumulate<fw::Plus>(acc18 + r0, v14, lanes);
          }, [&]() FW_BODY { acc23.fold(); acc26.fold(); });
          const float v23 = acc23.result();
          const float v26 = acc26.result();
          const float v24 = v23 / 0x1.0000000000000p+8f;
          const float v27 = v26 / 0x1.0000000000000p+8f;
          fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
            const auto v1 = fw::load(in1 + (r0), lanes);
            const auto v4 = fw::load(in4 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v12 = v4 - fw::splat<float>(v11);
            const auto v13 = v12 * fw::splat<float>(v10);
            const auto v14 = fw::load(in7 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v21 = v14 * v1;
            const auto v25 = v13 * fw::splat<float>(v24);
            const auto v28 = v21 - fw::splat<float>(v27);
            const auto v29 = v28 - v25;
            const auto v30 = v29 * fw::splat<float>(v10);
            const auto v31 = fw::load(in8 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v32 = v31 + v30;
            fw::store<float>(out13 + (256*l0 + r0 + 8192*x0), v32, lanes);
            const auto v36 = stream36.keep(256*l0 + r0 + 8192*x0, 58982u);
            const auto v37 = fw::from_bool<float>(v36);
            const auto v38 = v37 * v32;
            const auto v39 = v38 * fw::splat<float>(static_cast<float>(0x1.1c71c71c71c72p+0));
            fw::store<float>(out14 + (256*l0 + r0 + 8192*x0), v39, lanes);
            fw::accumulate<fw::Plus>(acc41 + r0, v39, lanes);
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
      fw::KeepStream stream36(v35, 0u);
      const fw::Share mine = fw::share(points);
      int64_t block = mine.begin % blocks;
      int64_t x0 = mine.begin / blocks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x0)) {
        const int64_t place = (x0)*chunks;
        const int64_t begin = block * 256;
        fw::vectors(begin, fw::least(n_r0, begin + 256), [&](int64_t r0, auto lanes) FW_BODY {
          const auto v16 = fw::combined<fw::Plus>(part16 + place*row + r0, chunks, row, lanes);
          const auto v18 = fw::combined<fw::Plus>(part18 + place*row + r0, chunks, row, lanes);
          const auto v41 = fw::combined<fw::Plus>(part41 + place*row + r0, chunks, row, lanes);
          fw::store<float>(out11 + (r0 + 256*x0), v16, lanes);
          fw::store<float>(out12 + (r0 + 256*x0), v18, lanes);
          fw::store<float>(out15 + (r0 + 256*x0), v41, lanes);
        });
      }
    }
  }
  return status;
}

extern "C" int64_t fused_native_layer_norm_backward_sum_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3, float* __restrict out4, float* __restrict out5) {
  const int64_t n_x0 = 256;
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
      fw::ColumnSum<float> acc7(count);
      for (int64_t r0 = 0; r0 < n_r0; ++r0) {
        fw::columns(begin, end, [&](int64_t x0, auto lanes, int col) FW_BODY {
          (void)col;
          const auto v0 = fw::load(in0 + (256*r0 + x0), lanes);
          const auto v3 = fw::load(in1 + (256*r0 + x0), lanes);
          const auto v6 = fw::load(in2 + (256*r0 + x0), lanes);
          acc1.add(v0, col);
          acc4.add(v3, col);
          acc7.add(v6, col);
        });
        acc1.row();
        acc4.row();
        acc7.row();
      }
      fw::columns(begin, end, [&](int64_t x0, auto lanes, int col) FW_BODY {
        (void)col;
        const auto v1 = acc1.result(col);
        const auto v4 = acc4.result(col);
        const auto v7 = acc7.result(col);
        fw::store<float>(out3 + (x0), v1, lanes);
        fw::store<float>(out4 + (x0), v4, lanes);
        fw::store<float>(out5 + (x0), v7, lanes);
      });
    }
  }
  return status;
}

extern "C" int64_t fused_cat_sum_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, float* __restrict out3, float* __restrict out4) {
  const int64_t n_x0 = 768;
  const int64_t n_r0 = 512;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t rows = n_r0;
  const int64_t chunk_rows = fw::chunk_rows(rows);
  const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));
  const int64_t row = n_x0;
  float* const part14 = fw::scratch<100, float>(1*chunks*row);
  if (!part14) return -1;
  {
    const int64_t tiles = fw::most(1, fw::ceil_div(row, 4096));
    const int64_t points = chunks * tiles;
    #pragma omp parallel if (points > 1)
    {
      const fw::Share mine = fw::share(points);
      int64_t tile = mine.begin % tiles;
      int64_t chunk = mine.begin / tiles;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(tile, tiles, chunk)) {
        const int64_t begin = tile * 4096, end = fw::least(row, begin + 4096);
        const int64_t place = point / tiles;
        float* const acc14 = part14 + place*row;
        fw::start<fw::Plus>(acc14, begin, end);
        const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);
        fw::groups<4>(chunk*chunk_rows, last, [&](int64_t group, auto group_rows) FW_BODY {
          fw::vectors(begin, end, [&](int64_t x0, auto lanes) FW_BODY {
            auto sum14 = fw::load(acc14 + x0, lanes);
            #pragma GCC unroll 4
            for (int64_t at_row = group; at_row < group + group_rows.value; ++at_row) {
              const int64_t r0 = at_row;
              const auto v0 = fw::ramp<int32_t>(x0, 1);
              const auto v2 = fw::lt(v0, fw::splat<int32_t>(int32_t(256)));
              const auto v3 = fw::load_where<float>(in0 + (256*r0 + x0), v2, 0x0.0p+0f, lanes);
              const auto v4 = fw::ge(v0, fw::splat<int32_t>(int32_t(256)));
              const auto v6 = fw::lt(v0, fw::splat<int32_t>(int32_t(512)));
              const auto v7 = v4 & v6;
              const auto v8 = fw::load_where<float>(in1 + (256*r0 + x0 - 256), v7, 0x0.0p+0f, lanes);
              const auto v9 = fw::ge(v0, fw::splat<int32_t>(int32_t(512)));
              const auto v10 = fw::load_where<float>(in2 + (256*r0 + x0 - 512), v9, 0x0.0p+0f, lanes);
              const auto v11 = fw::select(v7, v8, v10);
              const auto v12 = fw::select(v2, v3, v11);
              fw::store<float>(out3 + (768*r0 + x0), v12, lanes);
              sum14 = fw::Plus::apply(sum14, v12);
            }
            fw::store<float>(acc14 + x0, sum14, lanes);
          });
        });
      }
    }
  }
  if (status != 0) return status;
  {
    const int64_t blocks = fw::most(1, fw::ceil_div(n_x0, 256));
    const int64_t points = blocks;
    #pragma omp parallel if (points > 1)
    {
      const fw::Share mine = fw::share(points);
      for (int64_t point = mine.begin; point < mine.end; ++point) {
        const int64_t block = point;
        const int64_t place = (0)*chunks;
        const int64_t begin = block * 256;
        fw::vectors(begin, fw::least(n_x0, begin + 256), [&](int64_t x0, auto lanes) FW_BODY {
          const auto v14 = fw::combined<fw::Plus>(part14 + place*row + x0, chunks, row, lanes);
          fw::store<float>(out4 + (x0), v14, lanes);
        });
      }
    }
  }
  return status;
}

extern "C" int64_t fused_native_layer_norm_native_layer_norm_backward_add_0(const float* __restrict in0, const float* __restrict in1, const float* __restrict in2, const float* __restrict in3, const float* __restrict in4, const float* __restrict in5, const float* __restrict in6, const float* __restrict in7, const float* __restrict in8, float* __restrict out9, float* __restrict out10, float* __restrict out11, float* __restrict out12) {
  const int64_t n_x0 = 16;
  const int64_t n_l0 = 32;
  const int64_t n_r0 = 256;
  if (n_x0 == 0) return 0;
  int64_t status = 0;
  const int64_t rows = n_l0;
  const int64_t chunk_rows = fw::chunk_rows(rows);
  const int64_t chunks = fw::most(1, fw::ceil_div(rows, chunk_rows));
  const int64_t row = n_r0;
  float* const part16 = fw::scratch<100, float>(n_x0*chunks*row);
  if (!part16) return -1;
  float* const part18 = fw::scratch<101, float>(n_x0*chunks*row);
  if (!part18) return -1;
  {
    const int64_t points = n_x0 * chunks;
    #pragma omp parallel if (points > 1)
    {
      const fw::Share mine = fw::share(points);
      int64_t chunk = mine.begin % chunks;
      int64_t x0 = mine.begin / chunks;
      for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(chunk, chunks, x0)) {
        const int64_t place = point;
        float* const acc16 = part16 + place*row;
        fw::start<fw::Plus>(acc16, 0, row);
        float* const acc18 = part18 + place*row;
        fw::start<fw::Plus>(acc18, 0, row);
        const int64_t last = fw::least(rows, (chunk + 1)*chunk_rows);
        for (int64_t at_row = chunk*chunk_rows; at_row < last; ++at_row) {
          const int64_t l0 = at_row;
          const float v2 = in2[l0 + 32*x0];
          const float v3 = in3[l0 + 32*x0];
          const float v10 = in5[l0 + 32*x0];
          const float v11 = in6[l0 + 32*x0];
          fw::Sum<float, 2> acc23;
          fw::Sum<float, 2> acc26;
          fw::vectors_folded<2>(0, n_r0, [&](int64_t r0, auto lanes, auto slot) FW_BODY {
            const auto v0 = fw::load(in0 + (r0), lanes);
            const auto v1 = fw::load(in1 + (r0), lanes);
            const auto v4 = fw::load(in4 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v5 = v4 - fw::splat<float>(v3);
            const auto v6 = v5 * fw::splat<float>(v2);
            const auto v7 = v6 * v1;
            const auto v8 = v7 + v0;
            fw::store<float>(out9 + (256*l0 + r0 + 8192*x0), v8, lanes);
            const auto v12 = v4 - fw::splat<float>(v11);
            const auto v13 = v12 * fw::splat<float>(v10);
            const auto v14 = fw::load(in7 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v15 = v14 * v13;
            const auto v21 = v14 * v1;
            const auto v22 = v21 * v13;
            acc23.add(v22, lanes, slot);
            acc26.add(v21, lanes, slot);
            fw::accumulate<fw::Plus>(acc16 + r0, v15, lanes);
            fw::accumulate<fw::Plus>(acc18 + r0, v14, lanes);
          }, [&]() FW_BODY { acc23.fold(); acc26.fold(); });
          const float v23 = acc23.result();
          const float v26 = acc26.result();
          const float v24 = v23 / 0x1.0000000000000p+8f;
          const float v27 = v26 / 0x1.0000000000000p+8f;
          fw::vectors(0, n_r0, [&](int64_t r0, auto lanes) FW_BODY {
            const auto v1 = fw::load(in1 + (r0), lanes);
            const auto v4 = fw::load(in4 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v12 = v4 - fw::splat<float>(v11);
            const auto v13 = v12 * fw::splat<float>(v10);
            const auto v14 = fw::load(in7 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v21 = v14 * v1;
            const auto v25 = v13 * fw::splat<float>(v24);
            const auto v28 = v21 - fw::splat<float>(v27);
            const auto v29 = v28 - v25;
            const auto v30 = v29 * fw::splat<float>(v10);
            const auto v31 = fw::load(in8 + (256*l0 + r0 + 8192*x0), lanes);
            const auto v32 = v31 + v30;
            fw::store<float>(out12 + (256*l0 + r0 + 8192*x0), v32, lanes);
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
          const auto v16 = fw::combined<fw::Plus>(part16 + place*row + r0, chunks, row, lanes);
          const auto v18 = fw::combined<fw::Plus>(part18 + place*row + r0, chunks, row, lanes);
          fw::store<float>(out10 + (r0 + 256*x0), v16, lanes);
          fw::store<float>(out11 + (r0 + 256*x0), v18, lanes);
        });
      }
    }
  }
  return status;
}

extern "C" int64_t fused_native_layer_norm_backward_0(const float* __restrict in0, const float* __restrict in1, float* __restrict out2, float* __restrict out3) {
  const int64_t n_x0 = 256;
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
          const auto v0 = fw::load(in0 + (256*r0 + x0), lanes);
          const auto v3 = fw::load(in1 + (256*r0 + x0), lanes);
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
