// Random bits: Philox 4x32 of (seed, slot, element), as in fusewise/ir/philox.py, bit for bit.
#pragma once
#include "ops.h"

namespace fw {

constexpr uint32_t PHILOX_STEP0 = 0x9E3779B9u, PHILOX_STEP1 = 0xBB67AE85u;
constexpr uint64_t PHILOX_MUL0 = 0xD2511F53u, PHILOX_MUL1 = 0xCD9E8D57u;

constexpr int philox_rounds(uint32_t stream) { return stream == 0 ? 7 : 10; }

struct PhiloxWords {
  uint32_t w[4];
};

FW_INLINE PhiloxWords philox(uint64_t seed, uint32_t slot, uint64_t block, uint32_t stream) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = slot, c3 = stream;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < philox_rounds(stream); ++round) {
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

// Words of blocks first, first + 1, ...: LANES / 2 of them a group, the groups side by side so that they share the keys and
// do not wait for each other's products. Only the low 32 bits of a lane count; what is above is left over.
#if FW_AVX512
constexpr int PHILOX_GROUPS = 4;
#else
constexpr int PHILOX_GROUPS = 2;
#endif
struct PhiloxLanes {
  Half<uint64_t> w[4][PHILOX_GROUPS];
};
FW_INLINE PhiloxLanes philox_lanes(uint64_t seed, uint32_t slot, uint64_t first, uint32_t stream) {
  PhiloxLanes r;
  auto& [c0, c1, c2, c3] = r.w;
#pragma GCC unroll 4
  for (int g = 0; g < PHILOX_GROUPS; ++g) {
    c0[g] = ramp_lanes<Half<uint64_t>>(first + static_cast<uint64_t>(g * (LANES / 2)), uint64_t{1}, Some{});
    c1[g] = c0[g] >> 32;
    c2[g] = fill_lanes<Half<uint64_t>>(uint64_t{slot}, Some{});
    c3[g] = fill_lanes<Half<uint64_t>>(uint64_t{stream}, Some{});
  }
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < philox_rounds(stream); ++round) {
    const Half<uint64_t> key0 = fill_lanes<Half<uint64_t>>(uint64_t{k0}, Some{});
    const Half<uint64_t> key1 = fill_lanes<Half<uint64_t>>(uint64_t{k1}, Some{});
#pragma GCC unroll 4
    for (int g = 0; g < PHILOX_GROUPS; ++g) {
      const Half<uint64_t> p0 = mul_low(c0[g], PHILOX_MUL0), p1 = mul_low(c2[g], PHILOX_MUL1);
      c0[g] = (p1 >> 32) ^ c1[g] ^ key0;
      c2[g] = (p0 >> 32) ^ c3[g] ^ key1;
      c1[g] = p1;
      c3[g] = p0;
    }
    k0 += PHILOX_STEP0;
    k1 += PHILOX_STEP1;
  }
  return r;
}

// a[0], b[0], a[1], b[1], ...
FW_INLINE void store_interleaved(uint32_t* to, Half<uint64_t> a, Half<uint64_t> b) {
#if FW_AVX512
  const __m512i first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi64((__m512i)a, first, (__m512i)b));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64((__m512i)a, second, (__m512i)b));
#elif FW_AVX2
  const __m256i even = _mm256_unpacklo_epi64((__m256i)a, (__m256i)b), odd = _mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), _mm256_permute2x128_si256(even, odd, 0x31));
#else
  for (int l = 0; l < LANES / 2; ++l) {
    const uint64_t pair[2] = {a[l], b[l]};
    std::memcpy(to + 4 * l, pair, sizeof pair);
  }
#endif
}

// The words of consecutive blocks, in the order of the elements: many blocks are made at a time, and served from memory.
template <int ELEMENTS, uint32_t STREAM> class PhiloxStream {
 public:
  FW_INLINE PhiloxStream(int64_t seed, uint32_t slot) : seed_(static_cast<uint64_t>(seed)), slot_(slot) {}

 protected:
  // Place of element e in the buffer, which then holds a vector of elements from there on.
  FW_INLINE uint64_t find(int64_t e) {
    uint64_t at = static_cast<uint64_t>(e) - first_;
    if (__builtin_expect(at > ELEMENTS * BLOCKS - LANES, 0)) {
      const uint64_t block = static_cast<uint64_t>(e >> (ELEMENTS == 8 ? 3 : 2));  // of lanes not used e may be below 0
      first_ = block * ELEMENTS;
      refill(block);
      at = static_cast<uint64_t>(e) - first_;
    }
    return at;
  }

  static constexpr int BLOCKS = PHILOX_GROUPS * LANES / 2;
  alignas(64) uint32_t word_[4 * BLOCKS];

 private:
  __attribute__((noinline)) void refill(uint64_t block) {
    constexpr int half = LANES / 2;
    const PhiloxLanes r = philox_lanes(seed_, slot_, block, STREAM);
#pragma GCC unroll 4
    for (int g = 0; g < PHILOX_GROUPS; ++g)
      store_interleaved(word_ + 4 * half * g, (r.w[0][g] & 0xffffffffu) | (r.w[1][g] << 32),
                        (r.w[2][g] & 0xffffffffu) | (r.w[3][g] << 32));
  }

  uint64_t seed_;
  uint64_t first_ = uint64_t{1} << 63;  // no element is as large: the first request fills the buffer
  uint32_t slot_;
};

class KeepStream : PhiloxStream<8, 0> {
 public:
  using PhiloxStream::PhiloxStream;
  // Whether elements e, e + 1, ... are kept; threshold in [1, 65535].
  FW_INLINE Mask keep(int64_t e, uint32_t threshold) {
    const char* draws = reinterpret_cast<const char*>(word_);
    const uint64_t at = find(e);
    return lt(load_whole<Raw<uint16_t>>(draws + 2 * at), splat(static_cast<uint16_t>(threshold)));
  }
};

class UniformStream : PhiloxStream<4, 1> {
 public:
  using PhiloxStream::PhiloxStream;
  FW_INLINE Raw<float> uniform(int64_t e) {
    const uint64_t at = find(e);
    const Raw<uint32_t> top = load_whole<Raw<uint32_t>>(word_ + at) >> 8;
    return __builtin_convertvector((Raw<int32_t>)top, Raw<float>) * 0x1p-24f;
  }
};

}  // namespace fw
