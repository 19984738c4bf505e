// forward

#include "fusewise_cpu.h"

extern "C" int64_t fused_mul_add_0(const uint16_t* __restrict in0, const uint16_t* __restrict in1, const uint16_t* __restrict in2, uint16_t* __restrict out3) {
  const int64_t n_x0 = 4;
  const int64_t n_x1 = 2048;
  const int64_t n_x2 = 16;
  const int64_t n_x3 = 128;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0 || n_x3 == 0) return 0;
  fw::large_output(out3, 33554432);
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x3, 4096);
  const int64_t points = n_x0 * n_x1 * n_x2 * blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    int64_t block = mine.begin % blocks;
    int64_t x2 = (mine.begin / blocks) % n_x2;
    int64_t x1 = ((mine.begin / blocks) / n_x2) % n_x1;
    int64_t x0 = ((mine.begin / blocks) / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x2, n_x2, x1, n_x1, x0)) {
      const int64_t begin = block * 4096;
      const bool direct25 = fw::aligned(out3 + (4194304*x0 + 2048*x1 + 128*x2) + begin);
      fw::vectors(begin, fw::least(n_x3, begin + 4096), [&](int64_t x3, auto lanes) FW_BODY {
        const auto v0 = fw::load(in0 + (128*x1 + x3), lanes);
        const auto v1 = fw::f32_from_bf16(v0);
        const auto v2 = fw::ramp<int32_t>(x3, 1);
        const auto v4 = fw::lt(v2, fw::splat<int32_t>(int32_t(64)));
        const auto v5 = fw::load_where<uint16_t>(in1 + (4194304*x0 + 2048*x1 + 128*x2 + x3 + 64), v4, fw::bf16_from_f32(0x0.0p+0f), lanes);
        const auto v6 = fw::f32_from_bf16(v5);
        const auto v7 = -v6;
        const auto v8 = fw::bf16_from_f32(v7);
        const auto v9 = fw::ge(v2, fw::splat<int32_t>(int32_t(64)));
        const auto v10 = fw::load_where<uint16_t>(in1 + (4194304*x0 + 2048*x1 + 128*x2 + x3 - 64), v9, fw::bf16_from_f32(0x0.0p+0f), lanes);
        const auto v11 = fw::select(v4, v8, v10);
        const auto v12 = fw::f32_from_bf16(v11);
        const auto v13 = v12 * v1;
        const auto v15 = fw::rounded_bf16(v13);
        const auto v16 = fw::load(in2 + (128*x1 + x3), lanes);
        const auto v17 = fw::f32_from_bf16(v16);
        const auto v18 = fw::load(in1 + (4194304*x0 + 2048*x1 + 128*x2 + x3), lanes);
        const auto v19 = fw::f32_from_bf16(v18);
        const auto v20 = v19 * v17;
        const auto v22 = fw::rounded_bf16(v20);
        const auto v23 = v22 + v15;
        const auto v24 = fw::bf16_from_f32(v23);
        fw::store_direct<uint16_t>(out3 + (4194304*x0 + 2048*x1 + 128*x2 + x3), v24, lanes, direct25);
      });
    }
    fw::direct_fence();
  }
  return status;
}

// backward

#include "fusewise_cpu.h"

extern "C" int64_t fused_add_0(const uint16_t* __restrict in0, const uint16_t* __restrict in1, const uint16_t* __restrict in2, uint16_t* __restrict out3) {
  const int64_t n_x0 = 4;
  const int64_t n_x1 = 2048;
  const int64_t n_x2 = 16;
  const int64_t n_x3 = 128;
  if (n_x0 == 0 || n_x1 == 0 || n_x2 == 0 || n_x3 == 0) return 0;
  fw::large_output(out3, 33554432);
  int64_t status = 0;
  const int64_t blocks = fw::ceil_div(n_x3, 4096);
  const int64_t points = n_x0 * n_x1 * n_x2 * blocks;
  #pragma omp parallel if (points > 1)
  {
    const fw::Share mine = fw::share(points);
    int64_t block = mine.begin % blocks;
    int64_t x2 = (mine.begin / blocks) % n_x2;
    int64_t x1 = ((mine.begin / blocks) / n_x2) % n_x1;
    int64_t x0 = ((mine.begin / blocks) / n_x2) / n_x1;
    for (int64_t point = mine.begin; point < mine.end; ++point, fw::count_up(block, blocks, x2, n_x2, x1, n_x1, x0)) {
      const int64_t begin = block * 4096;
      const bool direct30 = fw::aligned(out3 + (4194304*x0 + 2048*x1 + 128*x2) + begin);
      fw::vectors(begin, fw::least(n_x3, begin + 4096), [&](int64_t x3, auto lanes) FW_BODY {
        const auto v0 = fw::ramp<int32_t>(x3, 1);
        const auto v2 = fw::lt(v0, fw::splat<int32_t>(int32_t(64)));
        const auto v3 = fw::load_where<uint16_t>(in0 + (128*x1 + x3 + 64), v2, fw::bf16_from_f32(0x0.0p+0f), lanes);
        const auto v4 = fw::f32_from_bf16(v3);
        const auto v5 = fw::load_where<uint16_t>(in1 + (4194304*x0 + 2048*x1 + 128*x2 + x3 + 64), v2, fw::bf16_from_f32(0x0.0p+0f), lanes);
        const auto v6 = fw::f32_from_bf16(v5);
        const auto v7 = v6 * v4;
        const auto v8 = fw::bf16_from_f32(v7);
        const auto v9 = fw::ge(v0, fw::splat<int32_t>(int32_t(64)));
        const auto v10 = fw::load_where<uint16_t>(in0 + (128*x1 + x3 - 64), v9, fw::bf16_from_f32(0x0.0p+0f), lanes);
        const auto v11 = fw::f32_from_bf16(v10);
        const auto v12 = fw::load_where<uint16_t>(in1 + (4194304*x0 + 2048*x1 + 128*x2 + x3 - 64), v9, fw::bf16_from_f32(0x0.0p+0f), lanes);
        const auto v13 = fw::f32_from_bf16(v12);
        const auto v14 = v13 * v11;
        const auto v16 = fw::rounded_bf16(v14);
        const auto v17 = -v16;
        const auto v18 = fw::bf16_from_f32(v17);
        const auto v19 = fw::select(v2, v8, v18);
        const auto v20 = fw::f32_from_bf16(v19);
        const auto v21 = fw::load(in2 + (128*x1 + x3), lanes);
        const auto v22 = fw::f32_from_bf16(v21);
        const auto v23 = fw::load(in1 + (4194304*x0 + 2048*x1 + 128*x2 + x3), lanes);
        const auto v24 = fw::f32_from_bf16(v23);
        const auto v25 = v24 * v22;
        const auto v27 = fw::rounded_bf16(v25);
        const auto v28 = v27 + v20;
        const auto v29 = fw::bf16_from_f32(v28);
        fw::store_direct<uint16_t>(out3 + (4194304*x0 + 2048*x1 + 128*x2 + x3), v29, lanes, direct30);
      });
    }
    fw::direct_fence();
  }
  return status;
}
