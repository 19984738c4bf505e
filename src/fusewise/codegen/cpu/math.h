// Functions of floats. f32 exp is our own; the others are SLEEF's where the process holds it (PyTorch's
// CPU library exports it; FW_SLEEF says so), else the C library's, lane by lane.
#pragma once
#include "ops.h"

namespace fw {

// --------------------------------------------------------------------------------------------- from SLEEF or the C library

#if FW_SLEEF && FW_AVX512
#define FW_EXTERN(NAME, ULP)                                    \
  extern "C" __m512 Sleef_##NAME##f16_##ULP##avx512f(__m512);   \
  extern "C" __m512d Sleef_##NAME##d8_##ULP##avx512f(__m512d);
#define FW_EXTERN2(NAME, ULP)                                           \
  extern "C" __m512 Sleef_##NAME##f16_##ULP##avx512f(__m512, __m512);   \
  extern "C" __m512d Sleef_##NAME##d8_##ULP##avx512f(__m512d, __m512d);
#define FW_CALL_F32(NAME, ULP) Sleef_##NAME##f16_##ULP##avx512f
#define FW_CALL_F64(NAME, ULP) Sleef_##NAME##d8_##ULP##avx512f
using NativeF32 = __m512;
using NativeF64 = __m512d;
#elif FW_SLEEF && FW_AVX2
#define FW_EXTERN(NAME, ULP)                                \
  extern "C" __m256 Sleef_##NAME##f8_##ULP##avx2(__m256);   \
  extern "C" __m256d Sleef_##NAME##d4_##ULP##avx2(__m256d);
#define FW_EXTERN2(NAME, ULP)                                       \
  extern "C" __m256 Sleef_##NAME##f8_##ULP##avx2(__m256, __m256);   \
  extern "C" __m256d Sleef_##NAME##d4_##ULP##avx2(__m256d, __m256d);
#define FW_CALL_F32(NAME, ULP) Sleef_##NAME##f8_##ULP##avx2
#define FW_CALL_F64(NAME, ULP) Sleef_##NAME##d4_##ULP##avx2
using NativeF32 = __m256;
using NativeF64 = __m256d;
#endif

#ifdef FW_EXTERN
#define FW_MATH_NATIVE(NAME, ULP)                                                                       \
  FW_EXTERN(NAME, ULP)                                                                                  \
  FW_INLINE Raw<float> native_##NAME(Raw<float> x) { return (Raw<float>)FW_CALL_F32(NAME, ULP)((NativeF32)x); } \
  FW_INLINE Half<double> native_##NAME(Half<double> x) { return (Half<double>)FW_CALL_F64(NAME, ULP)((NativeF64)x); }
#define FW_MATH_NATIVE2(NAME, ULP)                                                                      \
  FW_EXTERN2(NAME, ULP)                                                                                 \
  FW_INLINE Raw<float> native_##NAME(Raw<float> x, Raw<float> y) {                                      \
    return (Raw<float>)FW_CALL_F32(NAME, ULP)((NativeF32)x, (NativeF32)y);                              \
  }                                                                                                     \
  FW_INLINE Half<double> native_##NAME(Half<double> x, Half<double> y) {                                \
    return (Half<double>)FW_CALL_F64(NAME, ULP)((NativeF64)x, (NativeF64)y);                            \
  }
#else
#define FW_MATH_NATIVE(NAME, ULP)                                                                  \
  template <class V> FW_INLINE V native_##NAME(V x) {                                              \
    return per_lane(x, [](auto e) { return sizeof e == 4 ? __builtin_##NAME##f(e) : __builtin_##NAME(e); }); \
  }
#define FW_MATH_NATIVE2(NAME, ULP)                                                                 \
  template <class V> FW_INLINE V native_##NAME(V x, V y) {                                         \
    return per_lane(x, y, [](auto e, auto f) {                                                     \
      return sizeof e == 4 ? __builtin_##NAME##f(e, f) : __builtin_##NAME(e, f);                   \
    });                                                                                            \
  }
#endif

// The function on every kind of operand, from its form on one hardware vector.
#define FW_MATH_LIFT(NAME)                                                                  \
  template <class V> FW_INLINE V NAME(V x) {                                                \
    if constexpr (is_same<V, float>) return native_##NAME(splat<float>(x))[0];              \
    else if constexpr (is_same<V, double>) return native_##NAME(splat<double>(x).lo)[0];    \
    else return each(x, [](auto v) FW_BODY { return native_##NAME(v); });                   \
  }
#define FW_MATH(NAME, ULP)   \
  FW_MATH_NATIVE(NAME, ULP)  \
  FW_MATH_LIFT(NAME)
#define FW_MATH2(NAME, ULP)                                                                                      \
  FW_MATH_NATIVE2(NAME, ULP)                                                                                     \
  template <class V> FW_INLINE V NAME(V x, V y) {                                                                \
    if constexpr (is_same<V, float>) return native_##NAME(splat<float>(x), splat<float>(y))[0];                  \
    else if constexpr (is_same<V, double>) return native_##NAME(splat<double>(x).lo, splat<double>(y).lo)[0];    \
    else return each(x, y, [](auto v, auto w) FW_BODY { return native_##NAME(v, w); });                          \
  }

FW_MATH(exp2, u10)
FW_MATH(expm1, u10)
FW_MATH(log, u10)
FW_MATH(log2, u10)
FW_MATH(log10, u10)
FW_MATH(log1p, u10)
FW_MATH(sin, u10)
FW_MATH(cos, u10)
FW_MATH(tan, u10)
FW_MATH(asin, u10)
FW_MATH(acos, u10)
FW_MATH(atan, u10)
FW_MATH(sinh, u10)
FW_MATH(cosh, u10)
FW_MATH(tanh, u10)
FW_MATH(asinh, u10)
FW_MATH(acosh, u10)
FW_MATH(atanh, u10)
FW_MATH(erf, u10)
FW_MATH(erfc, u15)
FW_MATH2(pow, u10)
FW_MATH2(atan2, u10)

// fmod is exact, so the C library's serves every operand.
template <class V> FW_INLINE V fmod(V x, V y) {
  if constexpr (is_same<V, float>) return __builtin_fmodf(x, y);
  else if constexpr (is_same<V, double>) return __builtin_fmod(x, y);
  else return per_lane(x, y, [](auto e, auto f) {
    return sizeof e == 4 ? __builtin_fmodf(e, f) : __builtin_fmod(e, f);
  });
}

template <class V> FW_INLINE V rsqrt(V x) { return same_shape<V>(ScalarOf<V>{1}) / sqrt(x); }

// ------------------------------------------------------------------------------------------------------ our own, f32

// p * 2^n for p near 1 and integral n in [-151, 128]; subnormal results are rounded once.
FW_INLINE Raw<float> scale_by_power(Raw<float> p, Raw<float> n) {
#if FW_AVX512
  return (Raw<float>)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  const Raw<int32_t> whole = __builtin_convertvector(n, Raw<int32_t>), half = whole >> 1;
  return p * (Raw<float>)((half + 127) << 23) * (Raw<float>)((whole - half + 127) << 23);
#endif
}

// exp(x) = 2^n exp(r), n = round(x / ln 2), r in [-ln 2 / 2, ln 2 / 2]; Taylor-like minimax polynomial of degree 6.
FW_INLINE Raw<float> native_exp(Raw<float> x) {
  // Operands outside give 0 and inf; a NaN passes, since a comparison with it is false.
  x = x < -104.0f ? splat(-104.0f) : x;
  x = x > 89.0f ? splat(89.0f) : x;
  const Raw<float> n = rint(x * 0x1.715476p+0f);
  Raw<float> r = native_fma(n, splat(-0x1.62e400p-1f), x);
  r = native_fma(n, splat(-0x1.7f7d1cp-20f), r);
  Raw<float> p = splat(0x1.6850e4p-10f);
  p = native_fma(p, r, splat(0x1.123bccp-7f));
  p = native_fma(p, r, splat(0x1.555b98p-5f));
  p = native_fma(p, r, splat(0x1.55548ep-3f));
  p = native_fma(p, r, splat(0x1.fffff8p-2f));
  p = native_fma(p, r, splat(1.0f));
  p = native_fma(p, r, splat(1.0f));
  return scale_by_power(p, n);
}
#ifdef FW_EXTERN
FW_EXTERN(exp, u10)
FW_INLINE Half<double> native_exp(Half<double> x) { return (Half<double>)FW_CALL_F64(exp, u10)((NativeF64)x); }
#else
FW_INLINE Half<double> native_exp(Half<double> x) {
  return per_lane(x, [](double e) { return __builtin_exp(e); });
}
#endif
FW_MATH_LIFT(exp)

}  // namespace fw
