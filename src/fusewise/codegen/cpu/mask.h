// Vectors of bools: comparisons, selection, loads and stores under a mask.
#pragma once
#include "vec.h"

namespace fw {

#if FW_AVX512

// One bit a lane.
struct Mask {
  __mmask16 k;
  FW_INLINE bool operator[](int64_t i) const { return k >> i & 1; }
};
FW_INLINE Mask operator&(Mask a, Mask b) { return {static_cast<__mmask16>(a.k & b.k)}; }
FW_INLINE Mask operator|(Mask a, Mask b) { return {static_cast<__mmask16>(a.k | b.k)}; }
FW_INLINE Mask operator^(Mask a, Mask b) { return {static_cast<__mmask16>(a.k ^ b.k)}; }
FW_INLINE Mask operator~(Mask a) { return {static_cast<__mmask16>(~a.k)}; }

FW_INLINE Mask splat_mask(bool x) { return {static_cast<__mmask16>(-static_cast<int>(x))}; }
FW_INLINE Mask within(Full) { return {0xffff}; }
FW_INLINE Mask within(Part part) { return {static_cast<__mmask16>((1u << part.n) - 1)}; }
FW_INLINE bool any(Mask m) { return m.k != 0; }

// FLOAT: how floats compare with NaN among them; INT: the same of integers.
template <int FLOAT, int INT, class V> FW_INLINE Mask compare(V a, V b) {
  using T = Elem<V>;
  constexpr bool is_signed = static_cast<T>(-1) < 0;
  if constexpr (is_same<T, float>) return {_mm512_cmp_ps_mask((__m512)a, (__m512)b, FLOAT)};
  else if constexpr (is_same<T, double>) {
    const unsigned lo = _mm512_cmp_pd_mask((__m512d)a.lo, (__m512d)b.lo, FLOAT);
    return {static_cast<__mmask16>(lo | _mm512_cmp_pd_mask((__m512d)a.hi, (__m512d)b.hi, FLOAT) << 8)};
  } else if constexpr (sizeof(T) == 8) {
    const unsigned lo = _mm512_cmp_epi64_mask((__m512i)a.lo, (__m512i)b.lo, INT);
    return {static_cast<__mmask16>(lo | _mm512_cmp_epi64_mask((__m512i)a.hi, (__m512i)b.hi, INT) << 8)};
  } else if constexpr (sizeof(T) == 4) {
    if constexpr (is_signed) return {_mm512_cmp_epi32_mask((__m512i)a, (__m512i)b, INT)};
    else return {_mm512_cmp_epu32_mask((__m512i)a, (__m512i)b, INT)};
  } else if constexpr (sizeof(T) == 2) {
    if constexpr (is_signed) return {_mm256_cmp_epi16_mask((__m256i)a, (__m256i)b, INT)};
    else return {_mm256_cmp_epu16_mask((__m256i)a, (__m256i)b, INT)};
  } else {
    if constexpr (is_signed) return {_mm_cmp_epi8_mask((__m128i)a, (__m128i)b, INT)};
    else return {_mm_cmp_epu8_mask((__m128i)a, (__m128i)b, INT)};
  }
}
#define FW_COMPARE(NAME, SIGN, FLOAT, INT)                    \
  template <class V> FW_INLINE auto NAME(V a, V b) {          \
    if constexpr (is_scalar<V>) return a SIGN b;              \
    else return compare<FLOAT, INT>(a, b);                    \
  }
FW_COMPARE(eq, ==, _CMP_EQ_OQ, _MM_CMPINT_EQ)
FW_COMPARE(ne, !=, _CMP_NEQ_UQ, _MM_CMPINT_NE)
FW_COMPARE(lt, <, _CMP_LT_OQ, _MM_CMPINT_LT)
FW_COMPARE(le, <=, _CMP_LE_OQ, _MM_CMPINT_LE)
FW_COMPARE(gt, >, _CMP_GT_OQ, _MM_CMPINT_NLE)
FW_COMPARE(ge, >=, _CMP_GE_OQ, _MM_CMPINT_NLT)
#undef FW_COMPARE

template <class V> FW_INLINE V select(Mask m, V a, V b) {
  if constexpr (is_same<V, Mask>) return (m & a) | (~m & b);
  else if constexpr (is_pair<V>) {
    using H = decltype(a.lo);
    return {(H)_mm512_mask_blend_epi64(static_cast<__mmask8>(m.k), (__m512i)b.lo, (__m512i)a.lo),
            (H)_mm512_mask_blend_epi64(static_cast<__mmask8>(m.k >> 8), (__m512i)b.hi, (__m512i)a.hi)};
  } else if constexpr (is_same<Elem<V>, float>) return (V)_mm512_mask_blend_ps(m.k, (__m512)b, (__m512)a);
  else if constexpr (sizeof(V) == 64) return (V)_mm512_mask_blend_epi32(m.k, (__m512i)b, (__m512i)a);
  else if constexpr (sizeof(V) == 32) return (V)_mm256_mask_blend_epi16(m.k, (__m256i)b, (__m256i)a);
  else return (V)_mm_mask_blend_epi8(m.k, (__m128i)b, (__m128i)a);
}

// From and to bytes, 0 or 1 each.
FW_INLINE Mask bool_lanes(Raw<uint8_t> v) { return {_mm_test_epi8_mask((__m128i)v, (__m128i)v)}; }
FW_INLINE Raw<uint8_t> bool_bytes(Mask m) { return (Raw<uint8_t>)_mm_maskz_set1_epi8(m.k, 1); }

#else

// 32-bit lanes, all ones where true.
using Mask = Raw<int32_t>;

FW_INLINE Mask splat_mask(bool x) { return splat<int32_t>(-static_cast<int32_t>(x)); }
FW_INLINE Mask within(Full) { return splat<int32_t>(-1); }
FW_INLINE Mask within(Part part) { return ramp<int32_t>(0, 1) < splat<int32_t>(part.n); }
FW_INLINE bool any(Mask m) {
#if FW_AVX2
  return _mm256_movemask_ps((__m256)m) != 0;
#else
  int32_t bits = 0;
  for (int i = 0; i < LANES; ++i) bits |= m[i];
  return bits != 0;
#endif
}

template <class V> FW_INLINE Mask join_mask(V lo, V hi) {
  return join<int32_t>(__builtin_convertvector(lo, Half<int32_t>), __builtin_convertvector(hi, Half<int32_t>));
}
#define FW_COMPARE(NAME, SIGN)                                                       \
  template <class V> FW_INLINE auto NAME(V a, V b) {                                 \
    if constexpr (is_scalar<V>) return a SIGN b;                                     \
    else if constexpr (is_pair<V>) return join_mask(a.lo SIGN b.lo, a.hi SIGN b.hi); \
    else return resize<int32_t>(a SIGN b);                                           \
  }
FW_COMPARE(eq, ==)
FW_COMPARE(ne, !=)
FW_COMPARE(lt, <)
FW_COMPARE(le, <=)
FW_COMPARE(gt, >)
FW_COMPARE(ge, >=)
#undef FW_COMPARE

template <class V> FW_INLINE V select(Mask m, V a, V b) {
  if constexpr (is_pair<V>) {
    return {half_cast<int64_t>(low_half<int32_t>(m)) ? a.lo : b.lo, half_cast<int64_t>(high_half<int32_t>(m)) ? a.hi : b.hi};
  } else if constexpr (sizeof(V) == sizeof(Mask)) return m ? a : b;
  else if constexpr (sizeof(V) == 2 * LANES) return resize<int16_t>(m) ? a : b;
  else return resize<int8_t>(m) ? a : b;
}

FW_INLINE Mask bool_lanes(Raw<uint8_t> v) { return resize<int32_t>(v) != 0; }
FW_INLINE Raw<uint8_t> bool_bytes(Mask m) { return resize<uint8_t>(m & 1); }

#endif

template <class T> FW_INLINE T select(bool m, T a, T b) { return m ? a : b; }
FW_INLINE bool any(bool m) { return m; }
template <class N> FW_INLINE bool any(Mask m, N part) { return any(m & within(part)); }
template <class N> FW_INLINE bool any(bool m, N) { return m; }

template <class N> FW_INLINE Mask load_mask(const uint8_t* p, N part) { return bool_lanes(load(p, part)); }
template <class N> FW_INLINE void store_mask(uint8_t* p, Mask m, N part) { store<uint8_t>(p, bool_bytes(m), part); }

// Contiguous lanes where the mask holds, `other` elsewhere; memory is read only where it holds.
template <class T, class N> FW_INLINE Vec<T> load_where(const T* p, Mask m, T other, N part) {
  m = m & within(part);
#if FW_AVX512
  const Vec<T> o = splat<T>(other);
  if constexpr (sizeof(T) == 1) return (Raw<T>)_mm_mask_loadu_epi8((__m128i)o, m.k, p);
  else if constexpr (sizeof(T) == 2) return (Raw<T>)_mm256_mask_loadu_epi16((__m256i)o, m.k, p);
  else if constexpr (sizeof(T) == 4) return (Raw<T>)_mm512_mask_loadu_epi32((__m512i)o, m.k, p);
  else return {(Half<T>)_mm512_mask_loadu_epi64((__m512i)o.lo, static_cast<__mmask8>(m.k), p),
               (Half<T>)_mm512_mask_loadu_epi64((__m512i)o.hi, static_cast<__mmask8>(m.k >> 8), p + 8)};
#else
  if (!any(m)) return splat<T>(other);
  alignas(64) T lane[LANES];
  for (int l = 0; l < LANES; ++l) lane[l] = m[l] ? p[l] : other;
  return load_whole<Vec<T>>(lane);
#endif
}

}  // namespace fw
