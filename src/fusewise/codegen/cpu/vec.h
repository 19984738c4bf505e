// What generated CPU kernels stand on: vectors of LANES elements for every element type, their arithmetic, random bits
// and reductions. Plain GCC/Clang vector extensions; x86 intrinsics where the language has no word for an instruction.
//
// Every type has LANES elements a vector: types of up to four bytes are one hardware vector (Raw), eight-byte types are
// a Pair of two; a vector of bools is a Mask (mask.h). 16-bit floats are kept as their bits in uint16_t. A function of the scalar takes lane 0 of the vector's result, so that both give the same bits.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define FW_INLINE inline __attribute__((always_inline))
#define FW_BODY __attribute__((always_inline))

extern "C" int omp_get_thread_num();
extern "C" int omp_get_max_threads();
extern "C" int omp_get_num_threads();

namespace fw {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define FW_AVX512 1
constexpr int LANES = 16;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define FW_AVX2 1
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

// ---------------------------------------------------------------------------------------------------- vector types

template <class T, int N> struct RawOf { typedef T type __attribute__((vector_size(N * sizeof(T)))); };
template <class T> using Raw = typename RawOf<T, LANES>::type;
template <class T> using Half = typename RawOf<T, LANES / 2>::type;

template <class T> struct Pair {
  Half<T> lo, hi;
  FW_INLINE T operator[](int64_t i) const { return i < LANES / 2 ? lo[i] : hi[i - LANES / 2]; }
};

template <class T> struct VecOf { using type = Raw<T>; };
template <> struct VecOf<double> { using type = Pair<double>; };
template <> struct VecOf<int64_t> { using type = Pair<int64_t>; };
template <> struct VecOf<uint64_t> { using type = Pair<uint64_t>; };
template <class T> using Vec = typename VecOf<T>::type;

template <class T> struct Bare { using type = T; };
template <class T> struct Bare<T&> { using type = T; };
template <class V> using Elem = typename Bare<decltype(V{}[0])>::type;  // scalar type of a vector

template <class A, class B> constexpr bool is_same = false;
template <class A> constexpr bool is_same<A, A> = true;
template <class T> constexpr bool is_float = is_same<T, float> || is_same<T, double>;
template <class T> constexpr bool is_scalar = is_float<T>;
template <> constexpr bool is_scalar<bool> = true;
template <> constexpr bool is_scalar<int8_t> = true;
template <> constexpr bool is_scalar<uint8_t> = true;
template <> constexpr bool is_scalar<int16_t> = true;
template <> constexpr bool is_scalar<uint16_t> = true;
template <> constexpr bool is_scalar<int32_t> = true;
template <> constexpr bool is_scalar<uint32_t> = true;
template <> constexpr bool is_scalar<int64_t> = true;
template <> constexpr bool is_scalar<uint64_t> = true;
template <class V> constexpr bool is_pair = false;
template <class T> constexpr bool is_pair<Pair<T>> = true;

template <int BYTES> struct IntOf;
template <> struct IntOf<1> { using type = int8_t; };
template <> struct IntOf<2> { using type = int16_t; };
template <> struct IntOf<4> { using type = int32_t; };
template <> struct IntOf<8> { using type = int64_t; };

template <int... I> struct Lanes {};
template <int N, int... I> struct LanesTo : LanesTo<N - 1, N - 1, I...> {};
template <int... I> struct LanesTo<0, I...> { using type = Lanes<I...>; };
using All = typename LanesTo<LANES>::type;
using Some = typename LanesTo<LANES / 2>::type;

template <class T> constexpr T lowest() {
  if constexpr (is_float<T>) return -static_cast<T>(__builtin_inf());
  else if constexpr (static_cast<T>(-1) > 0) return 0;
  else return static_cast<T>(uint64_t{1} << (8 * sizeof(T) - 1));
}
template <class T> constexpr T highest() {
  if constexpr (is_float<T>) return static_cast<T>(__builtin_inf());
  else return static_cast<T>(~lowest<T>());
}
template <class To, class From> FW_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <class V, class T, int... I> FW_INLINE V fill_lanes(T x, Lanes<I...>) { return V{((void)I, x)...}; }
template <class V, class T, int... I> FW_INLINE V ramp_lanes(T first, T step, Lanes<I...>) {
  return V{static_cast<T>(first + step * I)...};
}

template <class T> FW_INLINE Vec<T> splat(T x) {
  if constexpr (sizeof(T) == 8) return {fill_lanes<Half<T>>(x, Some{}), fill_lanes<Half<T>>(x, Some{})};
  else return fill_lanes<Raw<T>>(x, All{});
}

// first, first + step, first + 2 step, ...
template <class T> FW_INLINE Vec<T> ramp(int64_t first, int64_t step) {
  const T a = static_cast<T>(first), d = static_cast<T>(step);
  if constexpr (sizeof(T) == 8)
    return {ramp_lanes<Half<T>>(a, d, Some{}), ramp_lanes<Half<T>>(static_cast<T>(a + d * (LANES / 2)), d, Some{})};
  else return ramp_lanes<Raw<T>>(a, d, All{});
}

// Two halves of a four-byte vector.
template <class T> FW_INLINE Half<T> low_half(Raw<T> v) {
  static_assert(sizeof(T) == 4);
#if FW_AVX512
  return (Half<T>)_mm512_castsi512_si256((__m512i)v);
#elif FW_AVX2
  return (Half<T>)_mm256_castsi256_si128((__m256i)v);
#else
  Half<T> r;
  std::memcpy(&r, &v, sizeof r);
  return r;
#endif
}
template <class T> FW_INLINE Half<T> high_half(Raw<T> v) {
  static_assert(sizeof(T) == 4);
#if FW_AVX512
  return (Half<T>)_mm512_extracti64x4_epi64((__m512i)v, 1);
#elif FW_AVX2
  return (Half<T>)_mm256_extracti128_si256((__m256i)v, 1);
#else
  Half<T> r;
  std::memcpy(&r, reinterpret_cast<const char*>(&v) + sizeof r, sizeof r);
  return r;
#endif
}
template <class T> FW_INLINE Raw<T> join(Half<T> lo, Half<T> hi) {
  static_assert(sizeof(T) == 4);
#if FW_AVX512
  return (Raw<T>)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)lo), (__m256i)hi, 1);
#elif FW_AVX2
  return (Raw<T>)_mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)lo), (__m128i)hi, 1);
#else
  Raw<T> r;
  std::memcpy(&r, &lo, sizeof lo);
  std::memcpy(reinterpret_cast<char*>(&r) + sizeof lo, &hi, sizeof hi);
  return r;
#endif
}

// ------------------------------------------------------------------------------------------ whole and partial vectors

// How many lanes of a vector take part: all of them, or the first n.
struct Full {
  static constexpr int n = LANES;
};
struct Part {
  int n;
  FW_INLINE explicit Part(int64_t count) : n(static_cast<int>(count)) {}
};

template <class V> FW_INLINE V load_whole(const void* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T> FW_INLINE Vec<T> load(const T* p, Full) { return load_whole<Vec<T>>(p); }
template <class T> FW_INLINE Vec<T> load(const T* p, Part part) {
#if FW_AVX512
  const uint32_t m = (1u << part.n) - 1;
  if constexpr (sizeof(T) == 1) return (Raw<T>)_mm_maskz_loadu_epi8(static_cast<__mmask16>(m), p);
  else if constexpr (sizeof(T) == 2) return (Raw<T>)_mm256_maskz_loadu_epi16(static_cast<__mmask16>(m), p);
  else if constexpr (sizeof(T) == 4) return (Raw<T>)_mm512_maskz_loadu_epi32(static_cast<__mmask16>(m), p);
  else return {(Half<T>)_mm512_maskz_loadu_epi64(static_cast<__mmask8>(m), p),
               (Half<T>)_mm512_maskz_loadu_epi64(static_cast<__mmask8>(m >> 8), p + 8)};
#else
  Vec<T> v{};
  std::memcpy(&v, p, static_cast<size_t>(part.n) * sizeof(T));
  return v;
#endif
}
template <class T> FW_INLINE void store(T* p, Vec<T> v, Full) { std::memcpy(p, &v, sizeof v); }
template <class T> FW_INLINE void store(T* p, Vec<T> v, Part part) {
#if FW_AVX512
  const uint32_t m = (1u << part.n) - 1;
  if constexpr (sizeof(T) == 1) _mm_mask_storeu_epi8(p, static_cast<__mmask16>(m), (__m128i)v);
  else if constexpr (sizeof(T) == 2) _mm256_mask_storeu_epi16(p, static_cast<__mmask16>(m), (__m256i)v);
  else if constexpr (sizeof(T) == 4) _mm512_mask_storeu_epi32(p, static_cast<__mmask16>(m), (__m512i)v);
  else {
    _mm512_mask_storeu_epi64(p, static_cast<__mmask8>(m), (__m512i)v.lo);
    _mm512_mask_storeu_epi64(p + 8, static_cast<__mmask8>(m >> 8), (__m512i)v.hi);
  }
#else
  std::memcpy(p, &v, static_cast<size_t>(part.n) * sizeof(T));
#endif
}

// A large output's memory is fresh from the system at nearly every call: in pages of 2 MB it arrives in a fifth of the time.
inline void large_output(void* start, int64_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t page = uintptr_t{2} << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(start) + page - 1) & ~(page - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(start) + static_cast<uintptr_t>(bytes)) & ~(page - 1);
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // advice: failure is no harm
#else
  (void)start, (void)bytes;
#endif
}

// Stores past the cache, where `direct` says so and all lanes take part; direct_fence() before others may read.
template <class T> FW_INLINE bool aligned(const T* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; }
template <class T, class N> FW_INLINE void store_direct(T* p, Vec<T> v, N part, bool direct) {
#if FW_AVX512 || FW_AVX2
  if constexpr (is_same<N, Full>)
    if (direct) {
      if constexpr (sizeof v == 128) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(p), (__m512i)v.lo);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(p) + 1, (__m512i)v.hi);
      } else if constexpr (sizeof v == 64 && sizeof(T) == 8) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(p), (__m256i)v.lo);
        _mm256_stream_si256(reinterpret_cast<__m256i*>(p) + 1, (__m256i)v.hi);
      } else if constexpr (sizeof v == 64) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(p), (__m512i)v);
      } else if constexpr (sizeof v == 32) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(p), (__m256i)v);
      } else {
        _mm_stream_si128(reinterpret_cast<__m128i*>(p), (__m128i)v);
      }
      return;
    }
#endif
  store<T>(p, v, part);
}
FW_INLINE void direct_fence() {
#if FW_AVX512 || FW_AVX2
  _mm_sfence();
#endif
}

// Index arithmetic: by > 0.
FW_INLINE int64_t floor_quotient(int64_t a, int64_t by) { return a / by - (a % by < 0); }
FW_INLINE int64_t floor_remainder(int64_t a, int64_t by) {
  const int64_t rest = a % by;
  return rest < 0 ? rest + by : rest;
}

// A vector made of one element a lane, `at(first + lane, lane)`; lanes that take no part are 0.
template <class T, class N, class F> FW_INLINE Vec<T> gather(N part, int64_t first, F at) {
  alignas(64) T lane[LANES] = {};
  for (int l = 0; l < part.n; ++l) lane[l] = at(first + l, l);
  return load_whole<Vec<T>>(lane);
}
template <class T, class N, class F> FW_INLINE void scatter(Vec<T> v, N part, int64_t first, F to) {
  alignas(64) T lane[LANES];
  std::memcpy(lane, &v, sizeof v);
  for (int l = 0; l < part.n; ++l) *to(first + l, l) = lane[l];
}

// -------------------------------------------------------------------------------------------- conversions of integers

// Integers of at most four bytes in another width: sign or zero extension, or the low bits. Compilers split what the
// machine does in one instruction, so it is named here.
template <class To, class V> FW_INLINE Raw<To> resize(V v) {
  using E = Elem<V>;
  constexpr bool is_signed = static_cast<E>(-1) < 0;
  constexpr int from = sizeof(E), to = sizeof(To);
  if constexpr (from == to) return (Raw<To>)v;
#if FW_AVX512
  else if constexpr (from == 1 && to == 4)
    return (Raw<To>)(is_signed ? _mm512_cvtepi8_epi32((__m128i)v) : _mm512_cvtepu8_epi32((__m128i)v));
  else if constexpr (from == 2 && to == 4)
    return (Raw<To>)(is_signed ? _mm512_cvtepi16_epi32((__m256i)v) : _mm512_cvtepu16_epi32((__m256i)v));
  else if constexpr (from == 1 && to == 2)
    return (Raw<To>)(is_signed ? _mm256_cvtepi8_epi16((__m128i)v) : _mm256_cvtepu8_epi16((__m128i)v));
  else if constexpr (from == 4 && to == 2) return (Raw<To>)_mm512_cvtepi32_epi16((__m512i)v);
  else if constexpr (from == 4 && to == 1) return (Raw<To>)_mm512_cvtepi32_epi8((__m512i)v);
  else return (Raw<To>)_mm256_cvtepi16_epi8((__m256i)v);
#elif FW_AVX2
  else if constexpr (from == 1 && to == 4) {
    const __m128i low = _mm_cvtsi64_si128(bits_as<int64_t>(v));
    return (Raw<To>)(is_signed ? _mm256_cvtepi8_epi32(low) : _mm256_cvtepu8_epi32(low));
  } else if constexpr (from == 2 && to == 4)
    return (Raw<To>)(is_signed ? _mm256_cvtepi16_epi32((__m128i)v) : _mm256_cvtepu16_epi32((__m128i)v));
  else return __builtin_convertvector(v, Raw<To>);
#else
  else return __builtin_convertvector(v, Raw<To>);
#endif
}

// Half a vector of four- or eight-byte elements as another such type.
template <class To, class V> FW_INLINE Half<To> half_cast(V v) {
  using E = Elem<V>;
#if FW_AVX512
  if constexpr (is_same<E, int32_t> && is_same<To, int64_t>) return (Half<To>)_mm512_cvtepi32_epi64((__m256i)v);
  else if constexpr (is_same<E, int32_t> && is_same<To, double>) return (Half<To>)_mm512_cvtepi32_pd((__m256i)v);
  else if constexpr (is_same<E, float> && is_same<To, double>) return (Half<To>)_mm512_cvtps_pd((__m256)v);
  else if constexpr (is_same<E, float> && is_same<To, int64_t>) return (Half<To>)_mm512_cvttps_epi64((__m256)v);
  else if constexpr (is_same<E, int64_t> && is_same<To, int32_t>) return (Half<To>)_mm512_cvtepi64_epi32((__m512i)v);
  else return __builtin_convertvector(v, Half<To>);
#elif FW_AVX2
  if constexpr (is_same<E, int32_t> && is_same<To, int64_t>) return (Half<To>)_mm256_cvtepi32_epi64((__m128i)v);
  else if constexpr (is_same<E, int32_t> && is_same<To, double>) return (Half<To>)_mm256_cvtepi32_pd((__m128i)v);
  else if constexpr (is_same<E, float> && is_same<To, double>) return (Half<To>)_mm256_cvtps_pd((__m128)v);
  else return __builtin_convertvector(v, Half<To>);
#else
  return __builtin_convertvector(v, Half<To>);
#endif
}

// ------------------------------------------------------------------------------------------- squares of two axes

template <class V> FW_INLINE V shuffle(V a, V b, typename RawOf<typename IntOf<sizeof(V) / LANES>::type, LANES>::type from) {
#ifdef __clang__
  V r;
  for (int l = 0; l < LANES; ++l) r[l] = from[l] < LANES ? a[from[l]] : b[from[l] - LANES];
  return r;
#else
  return __builtin_shuffle(a, b, from);
#endif
}

// Rows i and i + S exchange the halves that lie off the diagonal.
template <int S, class V, int... I> FW_INLINE void exchange(V& a, V& b, Lanes<I...>) {
  using M = typename RawOf<typename IntOf<sizeof(V) / LANES>::type, LANES>::type;
  const M first = {((I & S) ? I - S + LANES : I)...}, second = {((I & S) ? I + LANES : I + S)...};
  const V top = shuffle(a, b, first);
  b = shuffle(a, b, second);
  a = top;
}
template <int S, class V> FW_INLINE void transpose(V* row) {
#pragma GCC unroll 16
  for (int i = 0; i < LANES; ++i)
    if (!(i & S)) exchange<S>(row[i], row[i + S], All{});
  if constexpr (S > 1) transpose<S / 2>(row);
}

// to[r * LANES + l] = from[l * step + r] for r < rows, l < lanes.
template <class T> __attribute__((noinline)) void load_square(T* to, const T* from, int64_t step, int64_t rows, int lanes) {
  if constexpr (sizeof(T) == 8) {
    for (int64_t r = 0; r < LANES; ++r)
      for (int64_t l = 0; l < LANES; ++l) to[r * LANES + l] = r < rows && l < lanes ? from[l * step + r] : T{};
  } else {
    Raw<T> line[LANES];
    if (rows == LANES && lanes == LANES) {
#pragma GCC unroll 16
      for (int l = 0; l < LANES; ++l) line[l] = load(from + l * step, Full{});
    } else {
      for (int l = 0; l < LANES; ++l) line[l] = l < lanes ? load(from + l * step, Part(rows)) : Raw<T>{};
    }
    transpose<LANES / 2>(line);
#pragma GCC unroll 16
    for (int r = 0; r < LANES; ++r) store<T>(to + r * LANES, line[r], Full{});
  }
}

}  // namespace fw
