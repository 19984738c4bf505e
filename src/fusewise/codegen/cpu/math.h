// Functions of floats. exp, tanh, erf and (with AVX-512) log of f32 are our own; the others are SLEEF's where the process
// holds it (PyTorch's CPU library exports it; FW_SLEEF says so), else the C library's, lane by lane.
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
FW_MATH(log2, u10)
FW_MATH(log10, u10)
FW_MATH(log1p, u10)
FW_MATH(sin, u10)
FW_MATH(cos, u10)
FW_MATH(tan, u10)
FW_MATH(asin, u10)
FW_MATH(acos, u10)
FW_MATH(atan, u10)
FW_MATH(atanh, u10)
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

// x = n ln 2 + r with integral n and |r| <= ln 2 / 2; ln 2 in two parts, the first short enough that n times it is exact.
FW_INLINE Raw<float> reduce_by_ln2(Raw<float> x, Raw<float>& n) {
  n = rint(x * 0x1.715476p+0f);
  return native_fma(n, splat(-0x1.7f7d1cp-20f), native_fma(n, splat(-0x1.62e400p-1f), x));
}

// exp(r): the minimax polynomial of relative error 2^-28, coefficients rounded to f32.
FW_INLINE Raw<float> exp_of_remainder(Raw<float> r) {
  Raw<float> p = splat(0x1.6a4154p-10f);
  p = native_fma(p, r, splat(0x1.1239c6p-7f));
  p = native_fma(p, r, splat(0x1.5558bcp-5f));
  p = native_fma(p, r, splat(0x1.555492p-3f));
  p = native_fma(p, r, splat(0x1.fffffcp-2f));
  p = native_fma(p, r, splat(1.0f));
  return native_fma(p, r, splat(1.0f));
}

FW_INLINE Raw<float> native_exp(Raw<float> x) {
  // Below -104 (masked elements of a softmax) the result is 0 by choice: to compute it underflows, for which an Intel
  // processor takes some 150 cycles a vector. Large operands give inf; a NaN passes, as the second operand.
  const auto vanishes = x < splat(-104.0f);
  x = lesser(splat(89.0f), vanishes ? splat(0.0f) : x);
  Raw<float> n;
  const Raw<float> r = reduce_by_ln2(x, n);
  return vanishes ? splat(0.0f) : scale_by_power(exp_of_remainder(r), n);
}

// 1 + exp(x), of the same bits as in two steps: where exp is below the normal range the sum is 1.
FW_INLINE Raw<float> native_one_plus_exp(Raw<float> x) {
#if FW_AVX512
  return native_exp(x) + 1.0f;
#else
  x = larger(splat(-87.0f), lesser(splat(89.0f), x));
  Raw<float> n;
  const Raw<float> p = exp_of_remainder(reduce_by_ln2(x, n));
  // by 2^(n - 1), which no operand overflows, then by 2
  const Raw<float> half = p * (Raw<float>)((__builtin_convertvector(n, Raw<int32_t>) + 126) << 23);
  return native_fma(half, splat(2.0f), splat(1.0f));
#endif
}
FW_MATH_LIFT(one_plus_exp)

// exp(x) for x in [-87, 87].
FW_INLINE Raw<float> exp_inside(Raw<float> x) {
  Raw<float> n;
  const Raw<float> r = reduce_by_ln2(x, n);
#if FW_AVX512
  return scale_by_power(exp_of_remainder(r), n);
#else
  return exp_of_remainder(r) * (Raw<float>)((__builtin_convertvector(n, Raw<int32_t>) + 127) << 23);
#endif
}

// tanh(x) = x + x z T(z), z = x^2, up to 0.625, beyond that 1 - 2 / (exp(2|x|) + 1); T minimax of error 2^-27.
FW_INLINE Raw<float> native_tanh(Raw<float> x) {
  const Raw<float> a = abs(x), z = x * x;
  Raw<float> t = splat(-0x1.750ce2p-8f);
  t = native_fma(t, z, splat(0x1.51f8cep-6f));
  t = native_fma(t, z, splat(-0x1.b835a4p-5f));
  t = native_fma(t, z, splat(0x1.1106f6p-3f));
  t = native_fma(t, z, splat(-0x1.555532p-2f));
  t = native_fma(t * z, x, x);
  const Raw<float> inside = lesser(a, splat(10.0f));  // tanh rounds to 1 from 9.02 on
  const Raw<float> far = 1.0f - 2.0f / (exp_inside(inside + inside) + 1.0f);
  return copysign(a > 0.625f ? far : t, x);  // a NaN is in t
}

// erf(x) = x + x S(x^2) up to 0.93, beyond that 1 - exp(H(|x|)), H a polynomial for ln erfc; minimax, errors 2^-25 and 2^-29.
FW_INLINE Raw<float> native_erf(Raw<float> x) {
  Raw<float> a = abs(x);
  const Raw<float> z = x * x;
  Raw<float> s = splat(-0x1.38741cp-11f);
  s = native_fma(s, z, splat(0x1.46d9e2p-8f));
  s = native_fma(s, z, splat(-0x1.b67c04p-6f));
  s = native_fma(s, z, splat(0x1.ce1986p-4f));
  s = native_fma(s, z, splat(-0x1.8126e2p-2f));
  s = native_fma(s, z, splat(0x1.06eba6p-3f));
  s = native_fma(s, x, x);
  const Raw<float> t = lesser(a, splat(4.0f));  // erf rounds to 1 from 3.92 on
  Raw<float> h = splat(0x1.9ae816p-13f);
  h = native_fma(h, t, splat(-0x1.8ee15cp-9f));
  h = native_fma(h, t, splat(0x1.6c2a8ep-6f));
  h = native_fma(h, t, splat(-0x1.a9b440p-4f));
  h = native_fma(h, t, splat(-0x1.463cbep-1f));
  h = native_fma(h, t, splat(-0x1.20af5ap+0f));
  h = native_fma(h, t, splat(-0x1.9a5c26p-13f));
  const Raw<float> far = copysign(1.0f - exp_inside(h), x);
  return a > 0.93f ? far : s;  // a NaN is in s
}

#if FW_AVX512
// log(x) = e ln 2 + log(1 + f), 1 + f in [0.75, 1.5): a minimax polynomial of error 2^-27. Zero, negative numbers, infinity
// and NaN come out right by what the machine calls their exponent and significand.
FW_INLINE Raw<float> native_log(Raw<float> x) {
  const Raw<float> m = (Raw<float>)_mm512_getmant_ps((__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  Raw<float> e = (Raw<float>)_mm512_getexp_ps((__m512)x);
  e = m < 1.0f ? e + 1.0f : e;
  const Raw<float> f = m - 1.0f;
  Raw<float> p = splat(-0x1.71e4bcp-5f);
  p = native_fma(p, f, splat(0x1.acf57cp-4f));
  p = native_fma(p, f, splat(-0x1.0d9908p-3f));
  p = native_fma(p, f, splat(0x1.288074p-3f));
  p = native_fma(p, f, splat(-0x1.54ed94p-3f));
  p = native_fma(p, f, splat(0x1.99699ep-3f));
  p = native_fma(p, f, splat(-0x1.00004ap-2f));
  p = native_fma(p, f, splat(0x1.5555a4p-2f));
  p = native_fma(p, f, splat(-0.5f));
  p = native_fma(p, f * f, native_fma(e, splat(0x1.efa39ep-25f), f));
  return native_fma(e, splat(0x1.62e42ep-1f), p);  // both parts of ln 2 above 0: an infinite e stays what it is
}
#endif

#ifdef FW_EXTERN
#define FW_MATH_F64(NAME)                                                                                             \
  FW_EXTERN(NAME, u10)                                                                                                \
  FW_INLINE Half<double> native_##NAME(Half<double> x) { return (Half<double>)FW_CALL_F64(NAME, u10)((NativeF64)x); } \
  FW_MATH_LIFT(NAME)
#else
#define FW_MATH_F64(NAME)                                                     \
  FW_INLINE Half<double> native_##NAME(Half<double> x) {                      \
    return per_lane(x, [](double e) { return __builtin_##NAME(e); });         \
  }                                                                           \
  FW_MATH_LIFT(NAME)
#endif
FW_MATH_F64(exp)
FW_MATH_F64(tanh)
FW_MATH_F64(erf)
#if FW_AVX512
FW_MATH_F64(log)
#else
FW_MATH(log, u10)
#endif

// ------------------------------------------------------------------- functions that SLEEF gives up near the largest floats

// A function of one hardware vector from its parts: NAME##_whole takes every operand.
#define FW_WHOLE(NAME)                                                                           \
  template <class V> FW_INLINE V NAME(V x) {                                                     \
    if constexpr (is_same<V, float>) return NAME##_whole(splat<float>(x))[0];                    \
    else if constexpr (is_same<V, double>) return NAME##_whole(splat<double>(x).lo)[0];          \
    else return each(x, [](auto v) FW_BODY { return NAME##_whole(v); });                         \
  }
FW_MATH_NATIVE(sinh, u10)
FW_MATH_NATIVE(cosh, u10)
FW_MATH_NATIVE(asinh, u10)
FW_MATH_NATIVE(acosh, u10)

// exp(a) / 2 without an overflow on the way.
template <class V> FW_INLINE V half_exp(V a) {
  const V root = native_exp(a * static_cast<Elem<V>>(0.5));
  return root * static_cast<Elem<V>>(0.5) * root;
}
template <class V> FW_INLINE V sinh_whole(V x) {
  const V a = abs(x);
  return a > static_cast<Elem<V>>(sizeof(Elem<V>) == 4 ? 88.0 : 708.0) ? copysign(half_exp(a), x) : native_sinh(x);
}
template <class V> FW_INLINE V cosh_whole(V x) {
  const V a = abs(x);
  return a > static_cast<Elem<V>>(sizeof(Elem<V>) == 4 ? 88.0 : 708.0) ? half_exp(a) : native_cosh(x);
}
// ln(2a), which asinh(a) and acosh(a) are to the last bit for large a.
template <class V> FW_INLINE V log_twice(V a) { return native_log(a) + static_cast<Elem<V>>(0x1.62e42fefa39efp-1); }
template <class V> FW_INLINE V asinh_whole(V x) {
  const V a = abs(x);
  return a > static_cast<Elem<V>>(1e12) ? copysign(log_twice(a), x) : native_asinh(x);
}
template <class V> FW_INLINE V acosh_whole(V x) {
  return x > static_cast<Elem<V>>(1e12) ? log_twice(x) : native_acosh(x);
}
FW_WHOLE(sinh)
FW_WHOLE(cosh)
FW_WHOLE(asinh)
FW_WHOLE(acosh)

}  // namespace fw
