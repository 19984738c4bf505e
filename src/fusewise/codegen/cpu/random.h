// Random bits: Philox 4x32-10 of (seed, slot, element), as in fusewise/ir/philox.py, bit for bit.
#pragma once
#include "ops.h"

namespace fw {

constexpr uint32_t PHILOX_STEP0 = 0x9E3779B9u, PHILOX_STEP1 = 0xBB67AE85u;
constexpr uint64_t PHILOX_MUL0 = 0xD2511F53u, PHILOX_MUL1 = 0xCD9E8D57u;

struct PhiloxWords {
  uint32_t w[4];
};

FW_INLINE PhiloxWords philox(uint64_t seed, uint32_t slot, uint64_t block, uint32_t stream) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = slot, c3 = stream;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = c0 * PHILOX_MUL0, p1 = c2 * PHILOX_MUL1;
    const uint32_t d0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0, d2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = d0;
    c2 = d2;
    k0 += PHILOX_STEP0;
    k1 += PHILOX_STEP1;
  }
  return {{c0, c1, c2, c3}};
}

// One element's draw: 16 bits for keep, a float in [0, 1) for uniform.
FW_INLINE uint16_t draw16(int64_t seed, uint32_t slot, int64_t element) {
  const uint64_t e = static_cast<uint64_t>(element);
  const PhiloxWords words = philox(static_cast<uint64_t>(seed), slot, e / 8, 0);
  return static_cast<uint16_t>(words.w[e % 8 / 2] >> (e % 2 * 16));
}
FW_INLINE bool keep_one(int64_t seed, uint32_t slot, int64_t element, uint32_t threshold) {
  return draw16(seed, slot, element) < threshold;
}
FW_INLINE float uniform_one(int64_t seed, uint32_t slot, int64_t element) {
  const uint64_t e = static_cast<uint64_t>(element);
  const PhiloxWords words = philox(static_cast<uint64_t>(seed), slot, e / 4, 1);
  return static_cast<float>(words.w[e % 4] >> 8) * 0x1p-24f;
}

// The low 32 bits of each lane times m, as 64 bits.
FW_INLINE Half<uint64_t> mul_low(Half<uint64_t> a, uint64_t m) {
#if FW_AVX512
  return (Half<uint64_t>)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(static_cast<int64_t>(m)));
#elif FW_AVX2
  return (Half<uint64_t>)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(static_cast<int64_t>(m)));
#else
  return (a & 0xffffffffu) * m;
#endif
}

// Blocks first, first + 1, ... a lane each. Only the low 32 bits of a word count; what is above is left over.
struct PhiloxLanes {
  Half<uint64_t> w[4];
};
FW_INLINE PhiloxLanes philox_lanes(uint64_t seed, uint32_t slot, uint64_t first, uint32_t stream) {
  const Half<uint64_t> block = ramp_lanes<Half<uint64_t>>(first, uint64_t{1}, Some{});
  Half<uint64_t> c0 = block, c1 = block >> 32, c2 = fill_lanes<Half<uint64_t>>(uint64_t{slot}, Some{}),
                 c3 = fill_lanes<Half<uint64_t>>(uint64_t{stream}, Some{});
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Half<uint64_t> p0 = mul_low(c0, PHILOX_MUL0), p1 = mul_low(c2, PHILOX_MUL1);
    c0 = (p1 >> 32) ^ c1 ^ uint64_t{k0};
    c2 = (p0 >> 32) ^ c3 ^ uint64_t{k1};
    c1 = p1;
    c3 = p0;
    k0 += PHILOX_STEP0;
    k1 += PHILOX_STEP1;
  }
  return {{c0, c1, c2, c3}};
}

// Draws for consecutive elements: a block of them is made at a time and served vector by vector.
class KeepStream {
 public:
  FW_INLINE KeepStream(int64_t seed, uint32_t slot) : seed_(static_cast<uint64_t>(seed)), slot_(slot) {}

  // The draws of elements e, e + 1, ...
  FW_INLINE Raw<uint16_t> draws(int64_t e) {
    uint64_t at = static_cast<uint64_t>(e) - first_;
    if (__builtin_expect(at > COUNT - LANES, 0)) {
      refill(static_cast<uint64_t>(e) / 8);
      at = static_cast<uint64_t>(e) - first_;
    }
    return load_whole<Raw<uint16_t>>(draw_ + at);
  }
  // threshold in [1, 65536]
  FW_INLINE Mask keep(int64_t e, uint32_t threshold) {
    return as_mask(draws(e) <= splat(static_cast<uint16_t>(threshold - 1)));
  }

 private:
  static constexpr int HALF = LANES / 2;
  static constexpr int COUNT = 8 * 2 * LANES;  // elements a block

  __attribute__((noinline)) void refill(uint64_t block) {
    first_ = block * 8;
    for (int part = 0; part < 4; ++part) {
      const PhiloxLanes r = philox_lanes(seed_, slot_, block + static_cast<uint64_t>(part * HALF), 0);
      const Half<uint64_t> front = (r.w[0] & 0xffffffffu) | (r.w[1] << 32), back = (r.w[2] & 0xffffffffu) | (r.w[3] << 32);
      for (int l = 0; l < HALF; ++l) {
        const uint64_t pair[2] = {front[l], back[l]};
        std::memcpy(draw_ + 8 * (part * HALF + l), pair, sizeof pair);
      }
    }
  }

  alignas(64) uint16_t draw_[COUNT];
  uint64_t seed_;
  uint64_t first_ = uint64_t{1} << 63;  // no element is as large: the first request fills the block
  uint32_t slot_;
};

class UniformStream {
 public:
  FW_INLINE UniformStream(int64_t seed, uint32_t slot) : seed_(static_cast<uint64_t>(seed)), slot_(slot) {}

  FW_INLINE Raw<float> uniform(int64_t e) {
    uint64_t at = static_cast<uint64_t>(e) - first_;
    if (__builtin_expect(at > COUNT - LANES, 0)) {
      refill(static_cast<uint64_t>(e) / 4);
      at = static_cast<uint64_t>(e) - first_;
    }
    return load_whole<Raw<float>>(value_ + at);
  }

 private:
  static constexpr int HALF = LANES / 2;
  static constexpr int COUNT = 4 * 2 * LANES;

  __attribute__((noinline)) void refill(uint64_t block) {
    first_ = block * 4;
    for (int part = 0; part < 4; ++part) {
      const PhiloxLanes r = philox_lanes(seed_, slot_, block + static_cast<uint64_t>(part * HALF), 1);
      for (int l = 0; l < HALF; ++l)
        for (int word = 0; word < 4; ++word)
          value_[4 * (part * HALF + l) + word] = static_cast<float>(static_cast<uint32_t>(r.w[word][l]) >> 8) * 0x1p-24f;
    }
  }

  alignas(64) float value_[COUNT];
  uint64_t seed_;
  uint64_t first_ = uint64_t{1} << 63;
  uint32_t slot_;
};

}  // namespace fw
