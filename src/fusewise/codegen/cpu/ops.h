// Arithmetic on scalars and vectors alike: casts, integer rules that never trap, minimum and maximum with NaN.
#pragma once
#include "mask.h"

namespace fw {

template <int BYTES> struct BitsOf;
template <> struct BitsOf<1> { using type = uint8_t; };
template <> struct BitsOf<2> { using type = uint16_t; };
template <> struct BitsOf<4> { using type = uint32_t; };
template <> struct BitsOf<8> { using type = uint64_t; };
template <class V> constexpr auto elem_of() {
  if constexpr (is_scalar<V>) return V{};
  else return Elem<V>{};
}
template <class V> using ScalarOf = decltype(elem_of<V>());
template <class T> using Bits = typename BitsOf<sizeof(T)>::type;
template <class V, class T> FW_INLINE V same_shape(T x) {
  if constexpr (is_scalar<V>) return x;
  else return splat<T>(x);
}

// ---------------------------------------------------------------------------------- operators of eight-byte vectors

#define FW_PAIR(SIGN)                                                                   \
  template <class T> FW_INLINE Pair<T> operator SIGN(Pair<T> a, Pair<T> b) {            \
    return {a.lo SIGN b.lo, a.hi SIGN b.hi};                                            \
  }
FW_PAIR(+)
FW_PAIR(-)
FW_PAIR(*)
FW_PAIR(/)
FW_PAIR(&)
FW_PAIR(|)
FW_PAIR(^)
FW_PAIR(<<)
FW_PAIR(>>)
#undef FW_PAIR
template <class T> FW_INLINE Pair<T> operator-(Pair<T> a) { return {-a.lo, -a.hi}; }
template <class T> FW_INLINE Pair<T> operator~(Pair<T> a) { return {~a.lo, ~a.hi}; }

// f on each hardware vector of a Pair, or on the vector itself.
template <class V, class F> FW_INLINE V each(V a, F f) {
  if constexpr (is_pair<V>) return {f(a.lo), f(a.hi)};
  else return f(a);
}
template <class V, class F> FW_INLINE V each(V a, V b, F f) {
  if constexpr (is_pair<V>) return {f(a.lo, b.lo), f(a.hi, b.hi)};
  else return f(a, b);
}

// A scalar function lane by lane.
template <class V, class F> FW_INLINE V per_lane(V a, F f) {
  return each(a, [&](auto v) FW_BODY {
    for (size_t i = 0; i < sizeof v / sizeof v[0]; ++i) v[i] = f(v[i]);
    return v;
  });
}
template <class V, class F> FW_INLINE V per_lane(V a, V b, F f) {
  return each(a, b, [&](auto v, auto w) FW_BODY {
    for (size_t i = 0; i < sizeof v / sizeof v[0]; ++i) v[i] = f(v[i], w[i]);
    return v;
  });
}

// ------------------------------------------------------------------------------------------------------------- casts

// Between types of at most four bytes; by way of 32-bit integers where floats meet short integers.
template <class To, class V> FW_INLINE Raw<To> cast_raw(V v) {
  using E = Elem<V>;
  if constexpr (is_same<E, To>) return v;
  else if constexpr (is_float<To>) return __builtin_convertvector(resize<int32_t>(v), Raw<To>);
  else if constexpr (is_float<E>) return resize<To>(__builtin_convertvector(v, Raw<int32_t>));
  else return resize<To>(v);
}

// A float of which the compiler knows nothing. What C leaves open, as the integer of a NaN, it folds as it likes where it
// knows the float, and the processor's own answer, which is eager's, is another.
template <class T> FW_INLINE T unknown(T x) {
#if defined(__x86_64__)
  asm("" : "+x"(x));
#elif defined(__aarch64__)
  asm("" : "+w"(x));
#endif
  return x;
}

// C's conversion of scalars and vectors: floats to integers toward 0, integers modulo 2^n.
template <class To, class From> FW_INLINE auto cast(From x) {
  if constexpr (is_scalar<From>) {
    if constexpr (is_float<From> && !is_float<To>) x = unknown(x);
    if constexpr (is_float<From> && sizeof(To) < 4) return static_cast<To>(static_cast<int32_t>(x));
    else return static_cast<To>(x);
  } else if constexpr (is_pair<From>) {
    using E = Elem<From>;
    using Mid = decltype([] {
      if constexpr (is_float<To>) return float{};
      else return int32_t{};
    }());
    if constexpr (is_same<E, To>) return x;
    else if constexpr (sizeof(To) == 8)
      return Vec<To>{half_cast<To>(x.lo), half_cast<To>(x.hi)};
    else
      return cast_raw<To>(
          join<Mid>(half_cast<Mid>(x.lo), half_cast<Mid>(x.hi)));
  } else if constexpr (sizeof(To) == 8) {
    using Mid = decltype([] {
      if constexpr (is_float<Elem<From>>) return float{};
      else return int32_t{};
    }());
    const Raw<Mid> v = cast_raw<Mid>(x);
    return Vec<To>{half_cast<To>(low_half<Mid>(v)), half_cast<To>(high_half<Mid>(v))};
  } else {
    return cast_raw<To>(x);
  }
}

// 1 where true, 0 where false.
template <class To> FW_INLINE Vec<To> from_bool(Mask m) { return select(m, splat<To>(1), Vec<To>{}); }
template <class To> FW_INLINE To from_bool(bool m) { return static_cast<To>(m); }

// True where not 0; NaN is true.
template <class V> FW_INLINE auto truth(V x) { return ne(x, same_shape<V>(ScalarOf<V>{})); }

// 16-bit floats, kept as their bits.
FW_INLINE Raw<float> f32_from_bf16(Raw<uint16_t> v) {
  return (Raw<float>)(resize<uint32_t>(v) << 16);
}
FW_INLINE float f32_from_bf16(uint16_t x) { return bits_as<float>(static_cast<uint32_t>(x) << 16); }

// Round to nearest even: the upper 16 bits are those of bf16. Every NaN becomes 0x7fc0, as in PyTorch.
FW_INLINE Raw<uint32_t> bf16_in_upper_half(Raw<float> v) {
  const Raw<uint32_t> u = (Raw<uint32_t>)v, rounded = u + 0x7fffu + ((u >> 16) & 1u);
  return v == v ? rounded : splat<uint32_t>(0x7fc00000);
}
FW_INLINE uint32_t bf16_in_upper_half(float x) {
  const uint32_t u = bits_as<uint32_t>(x);
  return x == x ? u + 0x7fffu + ((u >> 16) & 1u) : uint32_t{0x7fc00000};
}
FW_INLINE Raw<uint16_t> bf16_from_f32(Raw<float> v) {
  const Raw<uint32_t> bits = bf16_in_upper_half(v) >> 16;
#if FW_AVX2
  const __m256i packed = _mm256_packus_epi32((__m256i)bits, (__m256i)bits);  // in range: resize would mask first
  return (Raw<uint16_t>)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0xd8));
#else
  return resize<uint16_t>(bits);
#endif
}
FW_INLINE uint16_t bf16_from_f32(float x) { return static_cast<uint16_t>(bf16_in_upper_half(x) >> 16); }

// The same as f32 again.
FW_INLINE Raw<float> rounded_bf16(Raw<float> v) { return (Raw<float>)(bf16_in_upper_half(v) & 0xffff0000u); }
FW_INLINE float rounded_bf16(float x) { return bits_as<float>(bf16_in_upper_half(x) & 0xffff0000u); }

FW_INLINE float f32_from_f16(uint16_t x) {
#if FW_AVX512 || FW_AVX2
  return _cvtsh_ss(x);
#else
  const uint32_t sign = static_cast<uint32_t>(x & 0x8000) << 16, rest = x & 0x7fff;
  if (rest >= 0x7c00) return bits_as<float>(sign | 0x7f800000 | (rest << 13));
  // Below: the significand as an integer times 2^-24 is exact for subnormals, and scaling by 2^112 for the others.
  const float scaled = rest < 0x400 ? static_cast<float>(rest) * 0x1p-24f : bits_as<float>(rest << 13) * 0x1p112f;
  return bits_as<float>(sign | bits_as<uint32_t>(scaled));
#endif
}
FW_INLINE uint16_t f16_from_f32(float x) {
#if FW_AVX512 || FW_AVX2
  return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
#else
  const uint32_t u = bits_as<uint32_t>(x), sign = (u >> 16) & 0x8000, rest = u & 0x7fffffff;
  if (rest > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (rest >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (rest < 0x38800000)  // subnormal: adding 0.5 puts the unit of 2^-24 in the last place, so the sum rounds there
    return static_cast<uint16_t>(sign | (bits_as<uint32_t>(bits_as<float>(rest) + 0.5f) - 0x3f000000));
  return static_cast<uint16_t>(sign | ((rest + 0xfff + ((rest >> 13) & 1) - 0x38000000) >> 13));
#endif
}
FW_INLINE Raw<float> f32_from_f16(Raw<uint16_t> v) {
#if FW_AVX512
  return (Raw<float>)_mm512_cvtph_ps((__m256i)v);
#elif FW_AVX2
  return (Raw<float>)_mm256_cvtph_ps((__m128i)v);
#else
  Raw<float> r;
  for (int i = 0; i < LANES; ++i) r[i] = f32_from_f16(static_cast<uint16_t>(v[i]));
  return r;
#endif
}
FW_INLINE Raw<uint16_t> f16_from_f32(Raw<float> v) {
#if FW_AVX512
  return (Raw<uint16_t>)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
#elif FW_AVX2
  return (Raw<uint16_t>)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
  Raw<uint16_t> r;
  for (int i = 0; i < LANES; ++i) r[i] = f16_from_f32(static_cast<float>(v[i]));
  return r;
#endif
}

// Same bits, another type of the same width.
template <class To, class From> FW_INLINE auto bitcast(From x) {
  if constexpr (is_scalar<From>) return bits_as<To>(x);
  else if constexpr (is_pair<From>) return Pair<To>{(Half<To>)x.lo, (Half<To>)x.hi};
  else return (Raw<To>)x;
}

// -------------------------------------------------------------------------------------------------------- arithmetic

// a < b ? a : b of a hardware vector: the second where they are equal or one is NaN. Compilers take a comparison and a
// selection for it where the machine has one instruction.
template <class V> FW_INLINE V lesser(V a, V b) {
#if FW_AVX512
  if constexpr (is_same<Elem<V>, float>) return (V)_mm512_min_ps((__m512)a, (__m512)b);
  else if constexpr (is_same<Elem<V>, double>) return (V)_mm512_min_pd((__m512d)a, (__m512d)b);
  else return a < b ? a : b;
#elif FW_AVX2
  if constexpr (is_same<Elem<V>, float>) return (V)_mm256_min_ps((__m256)a, (__m256)b);
  else if constexpr (is_same<Elem<V>, double>) return (V)_mm256_min_pd((__m256d)a, (__m256d)b);
  else return a < b ? a : b;
#else
  return a < b ? a : b;
#endif
}
template <class V> FW_INLINE V larger(V a, V b) {
#if FW_AVX512
  if constexpr (is_same<Elem<V>, float>) return (V)_mm512_max_ps((__m512)a, (__m512)b);
  else if constexpr (is_same<Elem<V>, double>) return (V)_mm512_max_pd((__m512d)a, (__m512d)b);
  else return a > b ? a : b;
#elif FW_AVX2
  if constexpr (is_same<Elem<V>, float>) return (V)_mm256_max_ps((__m256)a, (__m256)b);
  else if constexpr (is_same<Elem<V>, double>) return (V)_mm256_max_pd((__m256d)a, (__m256d)b);
  else return a > b ? a : b;
#else
  return a > b ? a : b;
#endif
}

// For equal operands (+0 and -0 too) the second; NaN where either is NaN.
template <class V> FW_INLINE V minimum(V a, V b) {
  if constexpr (is_scalar<V>) {
    const V r = a < b ? a : b;
    return a == a ? r : a;
  } else {
    return each(a, b, [](auto x, auto y) FW_BODY {
      const auto r = lesser(x, y);
      if constexpr (is_float<Elem<decltype(x)>>) return x == x ? r : x;
      else return r;
    });
  }
}
template <class V> FW_INLINE V maximum(V a, V b) {
  if constexpr (is_scalar<V>) {
    const V r = a > b ? a : b;
    return a == a ? r : a;
  } else {
    return each(a, b, [](auto x, auto y) FW_BODY {
      const auto r = larger(x, y);
      if constexpr (is_float<Elem<decltype(x)>>) return x == x ? r : x;
      else return r;
    });
  }
}

// The bits of a hardware vector of floats.
template <class V> struct BitsVector {
  using E = Bits<Elem<V>>;
  typedef E type __attribute__((vector_size(sizeof(V))));
};

template <class V> FW_INLINE V abs(V x) {
  if constexpr (is_same<V, float>) return __builtin_fabsf(x);
  else if constexpr (is_same<V, double>) return __builtin_fabs(x);
  else if constexpr (is_scalar<V>) return static_cast<V>(x < 0 ? -x : x);
  else return each(x, [](auto v) FW_BODY {
    using W = decltype(v);
    if constexpr (is_float<Elem<W>>) {
      using B = Bits<Elem<W>>;
      return (W)((typename BitsVector<W>::type)v & static_cast<B>(~B{0} >> 1));
    } else {
      return v < 0 ? -v : v;
    }
  });
}
template <class V> FW_INLINE V copysign(V x, V sign) {
  if constexpr (is_same<V, float>) return __builtin_copysignf(x, sign);
  else if constexpr (is_same<V, double>) return __builtin_copysign(x, sign);
  else return each(x, sign, [](auto v, auto w) FW_BODY {
    using W = decltype(v);
    using B = Bits<Elem<W>>;
    constexpr B top = static_cast<B>(B{1} << (8 * sizeof(B) - 1));
    const auto magnitude = (typename BitsVector<W>::type)v & static_cast<B>(~top);
    return (W)(magnitude | ((typename BitsVector<W>::type)w & top));
  });
}

// Hardware forms of what the language's vectors lack, on one hardware vector each.
#if FW_AVX512
#define FW_F32(EXPR512, EXPR256) (Raw<float>) EXPR512
#define FW_F64(EXPR512, EXPR256) (Half<double>) EXPR512
#elif FW_AVX2
#define FW_F32(EXPR512, EXPR256) (Raw<float>) EXPR256
#define FW_F64(EXPR512, EXPR256) (Half<double>) EXPR256
#endif
#if FW_AVX512 || FW_AVX2
FW_INLINE Raw<float> native_sqrt(Raw<float> x) { return FW_F32(_mm512_sqrt_ps((__m512)x), _mm256_sqrt_ps((__m256)x)); }
FW_INLINE Half<double> native_sqrt(Half<double> x) {
  return FW_F64(_mm512_sqrt_pd((__m512d)x), _mm256_sqrt_pd((__m256d)x));
}
FW_INLINE Raw<float> native_fma(Raw<float> a, Raw<float> b, Raw<float> c) {
  return FW_F32(_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c), _mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c));
}
FW_INLINE Half<double> native_fma(Half<double> a, Half<double> b, Half<double> c) {
  return FW_F64(_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c),
                _mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c));
}
template <int MODE> FW_INLINE Raw<float> native_round(Raw<float> x) {
  return FW_F32(_mm512_roundscale_ps((__m512)x, MODE), _mm256_round_ps((__m256)x, MODE));
}
template <int MODE> FW_INLINE Half<double> native_round(Half<double> x) {
  return FW_F64(_mm512_roundscale_pd((__m512d)x, MODE), _mm256_round_pd((__m256d)x, MODE));
}
#define FW_ROUNDING(NAME, MODE)                                                              \
  template <class V> FW_INLINE V NAME(V x) {                                                 \
    if constexpr (is_scalar<V>) return is_same<V, float> ? __builtin_##NAME##f(x) : __builtin_##NAME(x); \
    else return each(x, [](auto v) FW_BODY { return native_round<MODE | _MM_FROUND_NO_EXC>(v); }); \
  }
FW_ROUNDING(floor, _MM_FROUND_TO_NEG_INF)
FW_ROUNDING(ceil, _MM_FROUND_TO_POS_INF)
FW_ROUNDING(trunc, _MM_FROUND_TO_ZERO)
FW_ROUNDING(rint, _MM_FROUND_TO_NEAREST_INT)
#undef FW_ROUNDING
#else
template <class V> FW_INLINE V native_sqrt(V x) {
  for (size_t i = 0; i < sizeof x / sizeof x[0]; ++i) x[i] = sizeof x[0] == 4 ? __builtin_sqrtf(x[i]) : __builtin_sqrt(x[i]);
  return x;
}
template <class V> FW_INLINE V native_fma(V a, V b, V c) {
  for (size_t i = 0; i < sizeof a / sizeof a[0]; ++i)
    a[i] = sizeof a[0] == 4 ? __builtin_fmaf(a[i], b[i], c[i]) : __builtin_fma(a[i], b[i], c[i]);
  return a;
}
#define FW_ROUNDING(NAME)                                                                                 \
  template <class V> FW_INLINE V NAME(V x) {                                                              \
    if constexpr (is_scalar<V>) return is_same<V, float> ? __builtin_##NAME##f(x) : __builtin_##NAME(x);  \
    else return per_lane(x, [](auto e) { return sizeof e == 4 ? __builtin_##NAME##f(e) : __builtin_##NAME(e); }); \
  }
FW_ROUNDING(floor)
FW_ROUNDING(ceil)
FW_ROUNDING(trunc)
FW_ROUNDING(rint)
#undef FW_ROUNDING
#endif

template <class V> FW_INLINE V sqrt(V x) {
  if constexpr (is_same<V, float>) return __builtin_sqrtf(x);
  else if constexpr (is_same<V, double>) return __builtin_sqrt(x);
  else return each(x, [](auto v) FW_BODY { return native_sqrt(v); });
}
template <class V> FW_INLINE V fma(V a, V b, V c) {
  if constexpr (is_same<V, float>) return __builtin_fmaf(a, b, c);
  else if constexpr (is_same<V, double>) return __builtin_fma(a, b, c);
  else if constexpr (is_pair<V>) return {native_fma(a.lo, b.lo, c.lo), native_fma(a.hi, b.hi, c.hi)};
  else return native_fma(a, b, c);
}

// ---------------------------------------------------------------------------------------------------------- integers

// Division that never traps: x / 0 is 0 and the lowest number / -1 wraps.
template <class V> FW_INLINE V truncdiv(V a, V b) {
  if constexpr (is_scalar<V>) {
    if (b == 0) return 0;
    if constexpr (V(-1) < 0)
      if (b == V(-1)) return static_cast<V>(-static_cast<Bits<V>>(a));
    return static_cast<V>(a / b);
  } else {
    return per_lane(a, b, [](Elem<V> x, Elem<V> y) { return truncdiv(x, y); });
  }
}
template <class V> FW_INLINE V truncrem(V a, V b) {
  if constexpr (is_scalar<V>) {
    if (b == 0) return 0;
    if constexpr (V(-1) < 0)
      if (b == V(-1)) return 0;
    return static_cast<V>(a % b);
  } else {
    return per_lane(a, b, [](Elem<V> x, Elem<V> y) { return truncrem(x, y); });
  }
}
template <class V> FW_INLINE V floordiv(V a, V b) {
  if constexpr (is_scalar<V>) {
    const V q = truncdiv(a, b), r = truncrem(a, b);
    return static_cast<V>(q - (r != 0 && (r < 0) != (b < 0)));
  } else {
    return per_lane(a, b, [](Elem<V> x, Elem<V> y) { return floordiv(x, y); });
  }
}

// A shift by a count outside [0, bits) gives 0 to the left and the sign to the right.
template <class V> FW_INLINE V shl(V a, V b) {
  constexpr int bits = 8 * sizeof(ScalarOf<V>);
  if constexpr (is_scalar<V>)
    return b >= 0 && b < V(bits) ? static_cast<V>(static_cast<Bits<V>>(a) << b) : V{0};
  else
    return each(a, b, [](auto x, auto y) FW_BODY {
      const auto inside = (y >= 0) & (y < static_cast<ScalarOf<V>>(bits));
      return inside ? x << (inside ? y : y - y) : x - x;
    });
}
template <class V> FW_INLINE V shr(V a, V b) {
  constexpr int bits = 8 * sizeof(ScalarOf<V>);
  if constexpr (is_scalar<V>) {
    if (b >= 0 && b < V(bits)) return static_cast<V>(a >> b);
    return a < 0 ? static_cast<V>(-1) : V{0};
  } else {
    return each(a, b, [](auto x, auto y) FW_BODY {
      const auto inside = (y >= 0) & (y < static_cast<ScalarOf<V>>(bits));
      const auto sign = x < 0 ? x - x - 1 : x - x;
      return inside ? x >> (inside ? y : y - y) : sign;
    });
  }
}

}  // namespace fw
