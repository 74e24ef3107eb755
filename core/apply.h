// apply.h - the stores: assignment by width, and the arithmetic of every type and reduction.
#pragma once

#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>

#include "copy.h"
#include "slice.h"
#include "store.h"

namespace ndgather::NDGATHER_ISA {

// ---------------------------------------------------------------------------------------------
// Numbers that C++ has no type for: held as bits, computed in float, rounded to nearest even at
// every step. A float has more than twice their bits, so that sums and products round only once.

struct Half {
  std::uint16_t bits;
  operator float() const noexcept {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {  // zero or subnormal: fraction * 2**-24
      const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
    }
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  }
  static Half from(float value) noexcept {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(wide >> 16 & 0x8000);
    const std::uint32_t magnitude = wide & 0x7fffffff;
    if (magnitude > 0x7f800000) {  // NaN: quiet, with the payload that fits
      return {static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff))};
    }
    if (magnitude >= 0x477ff000) return {static_cast<std::uint16_t>(sign | 0x7c00)};
    if (magnitude < 0x38800000) {  // subnormal: adding 0.5 lets the addition do the rounding
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      const auto rounded = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
      return {static_cast<std::uint16_t>(sign | rounded)};
    }
    const std::uint32_t even = magnitude >> 13 & 1;
    return {static_cast<std::uint16_t>(sign | (magnitude - 0x38000000u + 0xfff + even) >> 13)};
  }
};

struct BFloat {
  std::uint16_t bits;
  operator float() const noexcept { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static BFloat from(float value) noexcept {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    if ((wide & 0x7fffffff) > 0x7f800000) {
      return {static_cast<std::uint16_t>(wide >> 16 | 0x40)};  // NaN: quiet
    }
    return {static_cast<std::uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16)};
  }
};

struct Bool {
  std::uint8_t bits;
};

template <class T>
inline constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;
template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;

// ---------------------------------------------------------------------------------------------
// Reductions

// Whether min or max takes the update: NaN wins, and the first NaN stays.
template <Reduction R>
bool takes(float old, float update) noexcept {
  if constexpr (R == Reduction::min) return !(update >= old) & (old == old);
  return !(update <= old) & (old == old);
}

// Without a branch: whether an update is taken cannot be foreseen.
template <class T>
T select(bool first, T a, T b) noexcept {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
               std::conditional_t<sizeof(T) == 4, std::uint32_t,
               std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  const auto mask = static_cast<Bits>(-static_cast<Bits>(first));
  return std::bit_cast<T>(static_cast<Bits>((std::bit_cast<Bits>(a) & mask) |
                                            (std::bit_cast<Bits>(b) & ~mask)));
}

// Integers in two's complement: unsigned arithmetic, at least as wide as int, wraps around.
template <class T>
using Wrapping = std::make_unsigned_t<std::conditional_t<(sizeof(T) < sizeof(int)), int, T>>;

template <Reduction R, class T>
T reduce(T old, T update) noexcept {
  if constexpr (std::is_same_v<T, Bool>) {
    const bool a = old.bits != 0, b = update.bits != 0;
    if constexpr (R == Reduction::add || R == Reduction::max) return {std::uint8_t{a || b}};
    if constexpr (R == Reduction::mul || R == Reduction::min) return {std::uint8_t{a && b}};
    if constexpr (R == Reduction::sub) return {std::uint8_t{a != b}};
  } else if constexpr (is_small_float<T>) {
    if constexpr (R == Reduction::min || R == Reduction::max) {
      return select(takes<R>(old, update), update, old);
    } else {
      return T::from(reduce<R, float>(old, update));
    }
  } else if constexpr (std::is_integral_v<T>) {
    using U = Wrapping<T>;
    if constexpr (R == Reduction::add) return static_cast<T>(U(old) + U(update));
    if constexpr (R == Reduction::sub) return static_cast<T>(U(old) - U(update));
    if constexpr (R == Reduction::mul) return static_cast<T>(U(old) * U(update));
    if constexpr (R == Reduction::min) return select(update < old, update, old);
    if constexpr (R == Reduction::max) return select(update > old, update, old);
  } else if constexpr (is_complex<T>) {
    if constexpr (R == Reduction::add) return old + update;
    if constexpr (R == Reduction::sub) return old - update;
    if constexpr (R == Reduction::mul) {  // the plain formula, as NumPy has it
      return {old.real() * update.real() - old.imag() * update.imag(),
              old.real() * update.imag() + old.imag() * update.real()};
    }
  } else {
    if constexpr (R == Reduction::add) return old + update;
    if constexpr (R == Reduction::sub) return old - update;
    if constexpr (R == Reduction::mul) return old * update;
    if constexpr (R == Reduction::min || R == Reduction::max) {
      // One instruction, which gives `old` where one of them is NaN; an update that is one is rare.
      const T one = R == Reduction::min ? update < old ? update : old : update > old ? update : old;
      return update == update ? one : old == old ? update : old;
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Loops

template <Reduction R, class T>
void reduce_run(char* __restrict to, const char* __restrict from, Size bytes) noexcept {
  for (Size b = 0; b < bytes; b += Size{sizeof(T)}) {
    T old, update;
    std::memcpy(&old, to + b, sizeof(T));
    std::memcpy(&update, from + b, sizeof(T));
    const T result = reduce<R, T>(old, update);
    std::memcpy(to + b, &result, sizeof(T));
  }
}

// The same for a run of at least one piece, piece by piece. The last overlaps the one before it, and is
// made of what was there before either.
template <Reduction R, class T, Size Piece>
void reduce_pieces(char* __restrict to, const char* __restrict from, Size bytes) noexcept {
  struct Part {
    T value[Piece / Size{sizeof(T)}];
  };
  const auto reduced = [&](Size at) {
    Part part, update;
    std::memcpy(&part, to + at, Piece);
    std::memcpy(&update, from + at, Piece);
    for (Size e = 0; e < Piece / Size{sizeof(T)}; ++e) {
      part.value[e] = reduce<R, T>(part.value[e], update.value[e]);
    }
    return part;
  };
  const Size end = bytes - Piece;
  const Part last = reduced(end);
  for (Size b = 0; b < end; b += Piece) {
    const Part part = reduced(b);
    std::memcpy(to + b, &part, Piece);
  }
  std::memcpy(to + end, &last, Piece);
}

// Rows begin anywhere on a line, and to read or write a whole line across two costs more than its halves:
// adds to rows of up to so many bytes take 0.6 to 0.85 of the time by half lines (on lines 0.75 to 1.05),
// and 1.05 to 1.2 from 2 KiB on. Most rows of less than half a line are done by what fits.
inline constexpr Size kShortRow = 1024;

template <Reduction R, class T>
void reduce_row(char* __restrict to, const char* __restrict from, Size bytes) noexcept {
  constexpr Size kHalfLine = kLine / 2;
  // Of the products in a piece of complex numbers GCC 12 makes fused ones, which round once and not twice,
  // whatever -ffp-contract says.
  if constexpr (!is_complex<T>) {
    if (bytes > kShortRow) return reduce_run<R, T>(to, from, bytes);
    if (bytes >= kHalfLine) return reduce_pieces<R, T, kHalfLine>(to, from, bytes);
    if constexpr (sizeof(T) <= 8) {
      if (bytes >= 16) return reduce_pieces<R, T, 16>(to, from, bytes);
    }
    if constexpr (sizeof(T) == 4) {
      if (bytes >= 8) return reduce_pieces<R, T, 8>(to, from, bytes);
    }
  }
  reduce_run<R, T>(to, from, bytes);
}

template <Reduction R, class T>
void store_reduced(const Plan& plan, char* far, const Size* at, const Updates& updates, Size n)
    noexcept {
  if (plan.width == Size{sizeof(T)}) {
    each_run(plan, far, at, updates, n, [](char* to, const char* from) {
      reduce_run<R, T>(to, from, sizeof(T));
    });
  } else {
    each_run(plan, far, at, updates, n, [width = plan.width](char* to, const char* from) {
      reduce_row<R, T>(to, from, width);
    });
  }
}

inline void store_table(const Plan& plan, char* far, const Size* at, const Updates& updates, Size n)
    noexcept {
  each_run(plan, far, at, updates, n,
           [table = plan.table, width = plan.width](char* to, const char* from) {
             for (Size b = 0; b < width; ++b) {
               const auto row = static_cast<unsigned char>(to[b]);
               to[b] = table[row * 256 + static_cast<unsigned char>(from[b])];
             }
           });
}

template <int Width>
void store_fixed(const Plan& plan, char* far, const Size* at, const Updates& updates, Size n) noexcept {
  each_run(plan, far, at, updates, n, [](char* to, const char* from) {
    std::memcpy(to, from, Width);
  });
}

template <void copy(char*, const char*, Size) noexcept>
void store_rows(const Plan& plan, char* far, const Size* at, const Updates& updates, Size n)
    noexcept {
  each_position(far, at, updates, n, [width = plan.width](char* to, const char* from) {
    copy(to, from, width);
  });
}

inline void store_any(const Plan& plan, char* far, const Size* at, const Updates& updates, Size n)
    noexcept {
  each_run(plan, far, at, updates, n,
           [width = static_cast<std::size_t>(plan.width)](char* to, const char* from) {
             std::memcpy(to, from, width);
           });
}

inline Store pick_assignment(const Plan& plan) noexcept {
  switch (plan.width) {
    case 1: return store_fixed<1>;
    case 2: return store_fixed<2>;
    case 4: return store_fixed<4>;
    case 8: return store_fixed<8>;
    case 16: return store_fixed<16>;
    case 32: return store_fixed<32>;
    default: break;
  }
  if (plan.slice_rank > 0 || plan.width <= 2 * kLine) return store_any;
  return plan.streams ? store_rows<stream_row> : store_rows<copy_row>;
}

template <class T>
Store pick_reduced(Reduction reduction) noexcept {
  switch (reduction) {
    case Reduction::add: return store_reduced<Reduction::add, T>;
    case Reduction::sub: return store_reduced<Reduction::sub, T>;
    case Reduction::mul: return store_reduced<Reduction::mul, T>;
    default: break;
  }
  if constexpr (!is_complex<T>) {
    if (reduction == Reduction::min) return store_reduced<Reduction::min, T>;
    if (reduction == Reduction::max) return store_reduced<Reduction::max, T>;
  }
  return nullptr;
}

// nullptr where the reduction has no meaning for the type.
inline Store pick_store(const Plan& plan, Reduction reduction, ElementType type) noexcept {
  if (reduction == Reduction::none) return pick_assignment(plan);
  switch (type) {
    case ElementType::i8: return pick_reduced<std::int8_t>(reduction);
    case ElementType::i16: return pick_reduced<std::int16_t>(reduction);
    case ElementType::i32: return pick_reduced<std::int32_t>(reduction);
    case ElementType::i64: return pick_reduced<std::int64_t>(reduction);
    case ElementType::u8: return pick_reduced<std::uint8_t>(reduction);
    case ElementType::u16: return pick_reduced<std::uint16_t>(reduction);
    case ElementType::u32: return pick_reduced<std::uint32_t>(reduction);
    case ElementType::u64: return pick_reduced<std::uint64_t>(reduction);
    case ElementType::f16: return pick_reduced<Half>(reduction);
    case ElementType::bf16: return pick_reduced<BFloat>(reduction);
    case ElementType::f32: return pick_reduced<float>(reduction);
    case ElementType::f64: return pick_reduced<double>(reduction);
    case ElementType::long_double: return pick_reduced<long double>(reduction);
    case ElementType::c64: return pick_reduced<std::complex<float>>(reduction);
    case ElementType::c128: return pick_reduced<std::complex<double>>(reduction);
    case ElementType::complex_long_double:
      return pick_reduced<std::complex<long double>>(reduction);
    case ElementType::boolean: return pick_reduced<Bool>(reduction);
    case ElementType::table: return store_table;
    default: return nullptr;
  }
}

}  // namespace ndgather::NDGATHER_ISA
