// Loops over vectors and threads, and what a row is reduced with.
#pragma once
#include "math.h"

namespace fw {

FW_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
FW_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
FW_INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// This thread's share of `points`, a contiguous piece.
struct Share {
  int64_t begin, end;
};
FW_INLINE Share share(int64_t points) {
  const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
  const int64_t each = points / threads, rest = points % threads;
  const int64_t begin = me * each + least(me, rest);
  return {begin, begin + each + (me < rest)};
}

// The next coordinates, the fastest first: x, its size, ..., the slowest without a size.
FW_INLINE void count_up(int64_t& x) { ++x; }
template <class... Rest> FW_INLINE void count_up(int64_t& x, int64_t size, Rest&&... rest) {
  if (++x == size) {
    x = 0;
    count_up(rest...);
  }
}

// Records that the check `id` failed; one of the failed ones is reported.
FW_INLINE void fail(int64_t& status, int64_t id) { __atomic_store_n(&status, id + 1, __ATOMIC_RELAXED); }

FW_INLINE bool failed(const int64_t& status) { return __atomic_load_n(&status, __ATOMIC_RELAXED) != 0; }

// body(i, lanes) for i = begin, begin + LANES, ...: whole vectors, then a partial one.
template <class F> FW_INLINE void vectors(int64_t i, int64_t end, F body) {
  for (; i + LANES <= end; i += LANES) body(i, Full{});
  if (i < end) body(i, Part(end - i));
}

template <int K> struct Slot {
  static constexpr int value = K;
};
template <class F, int... K> FW_INLINE void unrolled(int64_t i, F body, Lanes<K...>) {
  (body(i + K * LANES, Full{}, Slot<K>{}), ...);
}
// The same, U vectors a step, each with a slot of its own: independent accumulators hide the latency of an add.
template <int U, class F> FW_INLINE void vectors_by(int64_t i, int64_t end, F body) {
  for (; i + U * LANES <= end; i += U * LANES) unrolled(i, body, typename LanesTo<U>::type{});
  if constexpr (U > 1)
    for (; i + LANES <= end; i += LANES) body(i, Full{}, Slot<0>{});
  if (i < end) body(i, Part(end - i), Slot<0>{});
}

// After SUM_STEPS steps `fold()` is called: f32 sums then go to f64, so that the error stays that of a short sum.
constexpr int64_t SUM_STEPS = 256;
template <int U, class F, class G> FW_INLINE void vectors_folded(int64_t i, int64_t end, F body, G fold) {
  constexpr int64_t block = SUM_STEPS * U * LANES;
  for (; i < end; i += block) {
    vectors_by<U>(i, least(end, i + block), body);
    fold();
  }
}

// Room for n elements (and one vector beyond) that this thread keeps from call to call; null where memory is out.
template <class T> class Room {
 public:
  Room() = default;
  Room(const Room&) = delete;
  ~Room() { std::free(start_); }
  T* of(int64_t n) {
    const size_t bytes = (static_cast<size_t>(n + LANES) * sizeof(T) + 63) / 64 * 64;
    if (bytes > bytes_) {
      std::free(start_);
      start_ = static_cast<T*>(std::aligned_alloc(64, bytes));
      bytes_ = start_ ? bytes : 0;
    }
    return start_;
  }

 private:
  T* start_ = nullptr;
  size_t bytes_ = 0;
};
template <int ORDER, class T> FW_INLINE T* scratch(int64_t n) {
  static thread_local Room<T> room;
  return room.of(n);
}
// No work for a thread without room; the call then returns -1.
FW_INLINE Share no_memory(int64_t& status) {
  __atomic_store_n(&status, int64_t{-1}, __ATOMIC_RELAXED);
  return {0, 0};
}

// ------------------------------------------------------------------------------------------------- lanes to one value

// Lane i becomes f(lane i, lane i xor S) for S = LANES / 2, ..., 1: every lane then holds the whole.
template <int S, int... I> FW_INLINE auto swapped_lanes(Lanes<I...>) { return Lanes<(I ^ S)...>{}; }
template <class V, int... I> FW_INLINE V permute(V v, Lanes<I...>) {
#ifdef __clang__
  return __builtin_shufflevector(v, v, I...);
#else
  using M = typename RawOf<typename IntOf<sizeof v[0]>::type, sizeof...(I)>::type;
  return __builtin_shuffle(v, M{I...});
#endif
}
template <int S, class V, class L, class F> FW_INLINE V fold_lanes(V v, L lanes, F f) {
  v = f(v, permute(v, swapped_lanes<S>(lanes)));
  if constexpr (S > 1) return fold_lanes<S / 2>(v, lanes, f);
  else return v;
}
template <class V, class F> FW_INLINE auto across(V v, F f) {
  if constexpr (is_pair<V>) return fold_lanes<LANES / 4>(f(v.lo, v.hi), Some{}, f)[0];
  else return fold_lanes<LANES / 2>(v, All{}, f)[0];
}
FW_INLINE double sum_across(Pair<double> v) {
  return across(v, [](auto a, auto b) FW_BODY { return a + b; });
}

// The lanes that take part; `otherwise` in the rest.
template <class V> FW_INLINE V taking_part(V x, V, Full) { return x; }
template <class V> FW_INLINE V taking_part(V x, V otherwise, Part part) { return select(within(part), x, otherwise); }

template <class T, int U> class Sum {
 public:
  template <class N, int K> FW_INLINE void add(Vec<T> x, N part, Slot<K>) {
    acc_[K] = acc_[K] + taking_part(x, Vec<T>{}, part);
  }
  FW_INLINE void fold() {
    if constexpr (is_same<T, float>) {
      total_ = total_ + cast<double>(gathered());
      for (auto& a : acc_) a = Vec<T>{};
    }
  }
  FW_INLINE void merge(Sum& other) {
    fold();
    other.fold();
    acc_[0] = gathered() + other.gathered();
    for (int k = 1; k < U; ++k) acc_[k] = Vec<T>{};
    total_ = total_ + other.total_;
  }
  FW_INLINE T result() {
    if constexpr (is_same<T, float>) {
      fold();
      return static_cast<float>(sum_across(total_));
    } else if constexpr (is_same<T, double>) {
      return sum_across(gathered());
    } else {
      return across(gathered(), [](auto a, auto b) FW_BODY { return a + b; });
    }
  }

 private:
  FW_INLINE Vec<T> gathered() const {
    Vec<T> sum = acc_[0];
    for (int k = 1; k < U; ++k) sum = sum + acc_[k];
    return sum;
  }
  Vec<T> acc_[U] = {};
  Pair<double> total_ = {};
};

struct Plus {
  template <class T> static constexpr T identity() { return 0; }
  template <class V> static FW_INLINE V apply(V a, V b) {
    if constexpr (is_scalar<V>) return static_cast<V>(a + b);
    else return a + b;
  }
};
struct Product {
  template <class T> static constexpr T identity() { return 1; }
  template <class V> static FW_INLINE V apply(V a, V b) {
    if constexpr (is_scalar<V>) return static_cast<V>(a * b);
    else return a * b;
  }
};
struct Largest {
  template <class T> static constexpr T identity() { return lowest<T>(); }
  template <class V> static FW_INLINE V apply(V a, V b) { return maximum(a, b); }
  template <class V> static FW_INLINE auto before(V a, V b) { return gt(a, b); }
  template <class V> static FW_INLINE V choose(V a, V b) { return larger(a, b); }  // of numbers, on one hardware vector
};
struct Smallest {
  template <class T> static constexpr T identity() { return highest<T>(); }
  template <class V> static FW_INLINE V apply(V a, V b) { return minimum(a, b); }
  template <class V> static FW_INLINE auto before(V a, V b) { return lt(a, b); }
  template <class V> static FW_INLINE V choose(V a, V b) { return lesser(a, b); }
};

struct Either {
  template <class T> static constexpr T identity() { return 0; }
  template <class V> static FW_INLINE V apply(V a, V b) { return a | b; }
};
struct Both {
  template <class T> static constexpr T identity() { return 1; }
  template <class V> static FW_INLINE V apply(V a, V b) { return a & b; }
};

// Reduces by Op, in slots that do not wait for each other.
template <class Op, class T, int U> class Fold {
 public:
  FW_INLINE Fold() {
    for (auto& a : acc_) a = splat(Op::template identity<T>());
  }
  template <class N, int K> FW_INLINE void add(Vec<T> x, N part, Slot<K>) {
    acc_[K] = Op::apply(acc_[K], taking_part(x, splat(Op::template identity<T>()), part));
  }
  FW_INLINE void merge(const Fold& other) {
    for (int k = 0; k < U; ++k) acc_[k] = Op::apply(acc_[k], other.acc_[k]);
  }
  FW_INLINE T result() const {
    Vec<T> all = acc_[0];
    for (int k = 1; k < U; ++k) all = Op::apply(all, acc_[k]);
    return across(all, [](auto a, auto b) FW_BODY { return Op::apply(a, b); });
  }

 private:
  Vec<T> acc_[U];
};

// Largest or smallest float: NaNs are noted aside, which is shorter than to carry them along.
template <class Op, class T, int U> class Extreme {
 public:
  FW_INLINE Extreme() {
    for (auto& a : acc_) a = splat(Op::template identity<T>());
  }
  template <class N, int K> FW_INLINE void add(Vec<T> x, N part, Slot<K>) {
    x = taking_part(x, acc_[K], part);
    acc_[K] = each(x, acc_[K], [](auto a, auto b) FW_BODY { return Op::choose(a, b); });  // a NaN leaves it as it is
    nan_ = select(eq(x, x), nan_, x);
  }
  FW_INLINE void merge(const Extreme& other) {
    for (int k = 0; k < U; ++k) acc_[k] = Op::apply(acc_[k], other.acc_[k]);
    nan_ = select(eq(nan_, nan_), other.nan_, nan_);
  }
  FW_INLINE T result() const {
    Vec<T> all = acc_[0];
    for (int k = 1; k < U; ++k) all = each(acc_[k], all, [](auto a, auto b) FW_BODY { return Op::choose(a, b); });
    if (__builtin_expect(any(ne(nan_, nan_)), 0)) return static_cast<T>(__builtin_nan(""));
    return across(all, [](auto a, auto b) FW_BODY { return Op::choose(a, b); });
  }

 private:
  Vec<T> acc_[U];
  Vec<T> nan_ = {};
};

class AnyOf {
 public:
  template <class N, int K> FW_INLINE void add(Mask x, N part, Slot<K>) { acc_ = acc_ | (x & within(part)); }
  FW_INLINE void merge(const AnyOf& other) { acc_ = acc_ | other.acc_; }
  FW_INLINE bool result() const { return any(acc_); }

 private:
  Mask acc_ = {};
};
class AllOf {
 public:
  template <class N, int K> FW_INLINE void add(Mask x, N part, Slot<K>) { missing_ = missing_ | (~x & within(part)); }
  FW_INLINE void merge(const AllOf& other) { missing_ = missing_ | other.missing_; }
  FW_INLINE bool result() const { return !any(missing_); }

 private:
  Mask missing_ = {};
};

// True where (x, at) is to replace (best, best_at): NaN before numbers, then by Op, then the smaller position.
template <class Op, class V, class P> FW_INLINE auto replaces(V x, P at, V best, P best_at) {
  const auto equal = eq(x, best), number = eq(x, x), best_number = eq(best, best), earlier = lt(at, best_at);
  if constexpr (is_scalar<V>) {
    if (!number || !best_number) return !number && (best_number || earlier);
    return Op::before(x, best) || (equal && earlier);
  } else {
    return (Op::before(x, best) & best_number) | (equal & earlier) | (~number & (best_number | earlier));
  }
}

// Position of the largest or smallest; of the first among equals, of the first NaN where there is one.
template <class Op, class T> class Position {
 public:
  template <class N, int K> FW_INLINE void add(Vec<T> x, Pair<int64_t> at, N part, Slot<K>) {
    const Mask m = replaces<Op>(x, at, best_, at_) & within(part);
    best_ = select(m, x, best_);
    at_ = select(m, at, at_);
  }
  FW_INLINE void merge(const Position& other) {
    const Mask m = replaces<Op>(other.best_, other.at_, best_, at_);
    best_ = select(m, other.best_, best_);
    at_ = select(m, other.at_, at_);
  }
  FW_INLINE int64_t result() const {
    Mask hit = ne(best_, best_);
    if (!any(hit)) hit = eq(best_, splat<T>(across(best_, [](auto a, auto b) FW_BODY { return Op::choose(a, b); })));
    return across(select(hit, at_, splat(highest<int64_t>())), [](auto a, auto b) FW_BODY { return a < b ? a : b; });
  }

 private:
  Vec<T> best_ = splat(Op::template identity<T>());
  Pair<int64_t> at_ = splat(highest<int64_t>());
};

// The same for a position that is the place on the vector axis: lanes keep the number of a vector, U of them in turn.
// Places come in ascending order, so that the first among equals is the one that stays.
template <class Op, class T, int U> class Place {
 public:
  FW_INLINE Place() {
    for (int k = 0; k < U; ++k) {
      best_[k] = splat(Op::template identity<T>());
      number_[k] = Raw<int32_t>{};  // where every element is the identity the answer is 0
    }
  }
  template <class N, int K> FW_INLINE void add(Vec<T> x, int64_t place, N part, Slot<K>) {
    Mask m = Op::before(x, best_[K]);
    if constexpr (is_float<T>) m = m | (ne(x, x) & eq(best_[K], best_[K]));
    m = m & within(part);
    best_[K] = select(m, x, best_[K]);
    number_[K] = select(m, splat(static_cast<int32_t>(place / LANES)), number_[K]);
  }
  FW_INLINE void merge(const Place& other) {
    for (int k = 0; k < U; ++k) {
      const Mask m = replaces<Op>(other.best_[k], other.places(k), best_[k], places(k));
      best_[k] = select(m, other.best_[k], best_[k]);
      number_[k] = select(m, other.number_[k], number_[k]);
    }
  }
  FW_INLINE int64_t result() const {
    Vec<T> best = best_[0];
    Pair<int64_t> at = places(0);
    for (int k = 1; k < U; ++k) {
      const Mask m = replaces<Op>(best_[k], places(k), best, at);
      best = select(m, best_[k], best);
      at = select(m, places(k), at);
    }
    Mask hit = ne(best, best);
    if (!any(hit)) hit = eq(best, splat<T>(across(best, [](auto a, auto b) FW_BODY { return Op::choose(a, b); })));
    return across(select(hit, at, splat(highest<int64_t>())), [](auto a, auto b) FW_BODY { return a < b ? a : b; });
  }

 private:
  FW_INLINE Pair<int64_t> places(int k) const {
    return cast<int64_t>(number_[k]) * splat<int64_t>(LANES) + ramp<int64_t>(0, 1);
  }
  Vec<T> best_[U];
  Raw<int32_t> number_[U];
};

// A long row in chunks: by its size alone, so that results do not depend on the number of threads.
constexpr int64_t CHUNKS = 64;
inline int64_t chunk_size(int64_t first, int64_t elements, int64_t step) {
  const int64_t chunks = most(1, least(CHUNKS, elements >> 14));
  return most(1, ceil_div(ceil_div(first, chunks), step)) * step;
}
template <class R> FW_INLINE auto merged(R* part, int64_t chunks) {
  for (int64_t c = 1; c < chunks; ++c) part[0].merge(part[c]);
  return part[0].result();
}

// --------------------------------------------------------------------------------------------- one scalar at a time

template <class T> struct Accumulator { using type = T; };
template <> struct Accumulator<float> { using type = double; };

template <class T> class ScalarSum {
 public:
  FW_INLINE void add(T x) { sum_ += x; }
  FW_INLINE T result() const { return static_cast<T>(sum_); }

 private:
  typename Accumulator<T>::type sum_ = 0;
};
template <class Op, class T> class ScalarFold {
 public:
  FW_INLINE void add(T x) { acc_ = Op::apply(acc_, x); }
  FW_INLINE T result() const { return acc_; }

 private:
  T acc_ = Op::template identity<T>();
};
class ScalarAnyOf {
 public:
  FW_INLINE void add(bool x) { any_ = any_ || x; }
  FW_INLINE bool result() const { return any_; }

 private:
  bool any_ = false;
};
class ScalarAllOf {
 public:
  FW_INLINE void add(bool x) { all_ = all_ && x; }
  FW_INLINE bool result() const { return all_; }

 private:
  bool all_ = true;
};
template <class Op, class T> class ScalarPosition {
 public:
  FW_INLINE void add(T x, int64_t at) {
    if (replaces<Op, T, int64_t>(x, at, best_, at_)) {
      best_ = x;
      at_ = at;
    }
  }
  FW_INLINE int64_t result() const { return at_; }

 private:
  T best_ = Op::template identity<T>();
  int64_t at_ = highest<int64_t>();
};

// ------------------------------------------------------------------------------------------------- a tile of columns

constexpr int TILE = 32;  // vectors a tile

// Columns a tile: every thread gets one. Where rows are read again a tile is as narrow as keeps them in the second-level
// cache, unless that is too narrow to stream.
inline int64_t tile_width(int64_t columns, int64_t points, int64_t rows, int passes) {
  int64_t width = TILE * LANES;
  const int64_t held = (int64_t{1} << 19) / (4 * rows + 1);
  if (passes > 1 && held >= 4 * LANES) width = least(width, held);
  const int64_t threads = omp_get_max_threads();
  width = least(width, ceil_div(columns, ceil_div(threads, points)));
  width = ceil_div(width, LANES) * LANES;
  return most(width, 4 * LANES);
}

// body(i, lanes, column vector) over a tile.
template <class F> FW_INLINE void columns(int64_t begin, int64_t end, F body) {
  int c = 0;
  for (; begin + LANES <= end; begin += LANES, ++c) body(begin, Full{}, c);
  if (begin < end) body(begin, Part(end - begin), c);
}

template <class T> class ColumnSum {
 public:
  FW_INLINE explicit ColumnSum(int count) : count_(count) {
    for (int c = 0; c < count; ++c) acc_[c] = Vec<T>{};
    if constexpr (is_same<T, float>)
      for (int c = 0; c < count; ++c) total_[c] = Pair<double>{};
  }
  FW_INLINE void add(Vec<T> x, int c) { acc_[c] = acc_[c] + x; }
  // Called once a row: every SUM_STEPS rows f32 sums go to f64.
  FW_INLINE void row() {
    if constexpr (is_same<T, float>)
      if (++rows_ == SUM_STEPS) fold();
  }
  FW_INLINE Vec<T> result(int c) const {
    if constexpr (is_same<T, float>) return cast<float>(total_[c] + cast<double>(acc_[c]));
    else return acc_[c];
  }

 private:
  FW_INLINE void fold() {
    for (int c = 0; c < count_; ++c) {
      total_[c] = total_[c] + cast<double>(acc_[c]);
      acc_[c] = Vec<T>{};
    }
    rows_ = 0;
  }
  Vec<T> acc_[TILE];
  Pair<double> total_[is_same<T, float> ? TILE : 1];
  int64_t rows_ = 0;
  int count_;
};
template <class Op, class T> class ColumnFold {
 public:
  FW_INLINE explicit ColumnFold(int count) {
    for (int c = 0; c < count; ++c) acc_[c] = splat(Op::template identity<T>());
  }
  FW_INLINE void add(Vec<T> x, int c) { acc_[c] = Op::apply(acc_[c], x); }
  FW_INLINE void row() {}
  FW_INLINE Vec<T> result(int c) const { return acc_[c]; }

 private:
  Vec<T> acc_[TILE];
};
class ColumnAnyOf {
 public:
  FW_INLINE explicit ColumnAnyOf(int count) {
    for (int c = 0; c < count; ++c) acc_[c] = Mask{};
  }
  FW_INLINE void add(Mask x, int c) { acc_[c] = acc_[c] | x; }
  FW_INLINE void row() {}
  FW_INLINE Mask result(int c) const { return acc_[c]; }

 private:
  Mask acc_[TILE];
};
class ColumnAllOf {
 public:
  FW_INLINE explicit ColumnAllOf(int count) : missing_(count) {}
  FW_INLINE void add(Mask x, int c) { missing_.add(~x, c); }
  FW_INLINE void row() {}
  FW_INLINE Mask result(int c) const { return ~missing_.result(c); }

 private:
  ColumnAnyOf missing_;
};
template <class Op, class T> class ColumnPosition {
 public:
  FW_INLINE explicit ColumnPosition(int count) {
    for (int c = 0; c < count; ++c) {
      best_[c] = splat(Op::template identity<T>());
      at_[c] = splat(highest<int64_t>());
    }
  }
  FW_INLINE void add(Vec<T> x, Pair<int64_t> at, int c) {
    const Mask m = replaces<Op>(x, at, best_[c], at_[c]);
    best_[c] = select(m, x, best_[c]);
    at_[c] = select(m, at, at_[c]);
  }
  FW_INLINE void row() {}
  FW_INLINE Pair<int64_t> result(int c) const { return at_[c]; }

 private:
  Vec<T> best_[TILE];
  Pair<int64_t> at_[TILE];
};

// ------------------------------------------------------------------------------------------ sums over chunks of rows

// body(i, Slot<G>) for i = begin, begin + G, ..., then body(i, Slot<1>) for what is left.
template <int G, class F> FW_INLINE void groups(int64_t i, int64_t end, F body) {
  for (; i + G <= end; i += G) body(i, Slot<G>{});
  for (; i < end; ++i) body(i, Slot<1>{});
}

// Rows a chunk: by their number alone, so that results do not depend on the number of threads. No f32 sum is longer.
inline int64_t chunk_rows(int64_t rows) {
  const int64_t even = ceil_div(rows, 64);
  return even < 16 ? 16 : least(even, 256);
}
template <class Op, class T> FW_INLINE void start(T* acc, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) acc[i] = Op::template identity<T>();
}
template <class Op, class T, class N> FW_INLINE void accumulate(T* acc, Vec<T> x, N lanes) {
  store<T>(acc, Op::apply(load(acc, lanes), x), lanes);
}
template <class Op, class N> FW_INLINE void accumulate(uint8_t* acc, Mask x, N lanes) {
  store_mask(acc, Op::apply(load_mask(acc, lanes), x), lanes);
}

// One value of the chunks' partial ones, which lie `step` apart.
template <class Op, class T, class N> FW_INLINE Vec<T> combined(const T* part, int64_t chunks, int64_t step, N lanes) {
  using Wide = typename Accumulator<T>::type;
  auto total = cast<Wide>(load(part, lanes));
  for (int64_t c = 1; c < chunks; ++c) total = Op::apply(total, cast<Wide>(load(part + c * step, lanes)));
  return cast<T>(total);
}
template <class Op, class T> FW_INLINE T combined(const T* part, int64_t chunks) {
  auto total = static_cast<typename Accumulator<T>::type>(part[0]);
  for (int64_t c = 1; c < chunks; ++c) total = Op::apply(total, static_cast<typename Accumulator<T>::type>(part[c]));
  return static_cast<T>(total);
}
template <class Op, class N> FW_INLINE Mask combined_mask(const uint8_t* part, int64_t chunks, int64_t step, N lanes) {
  Mask total = load_mask(part, lanes);
  for (int64_t c = 1; c < chunks; ++c) total = Op::apply(total, load_mask(part + c * step, lanes));
  return total;
}

}  // namespace fw
