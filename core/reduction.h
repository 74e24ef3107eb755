// reduction.h - the arithmetic of a scatter, for every reduction and element type.
#pragma once

#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>

#include "plan.h"

namespace ndgather::NDGATHER_ISA {

// Number types that C++ lacks are stored as bits. Each operation is computed in float and then rounded to nearest even. A
// float has 24 significant bits, more than twice their 11 or fewer, so sums and products are rounded correctly.

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
    if (magnitude > 0x7f800000) {  // NaN: becomes quiet and keeps the upper bits of its payload
      return {static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff))};
    }
    if (magnitude >= 0x477ff000) return {static_cast<std::uint16_t>(sign | 0x7c00)};
    if (magnitude < 0x38800000) {  // subnormal: 0.5 + x is a multiple of 2**-24, so the addition rounds
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
      return {static_cast<std::uint16_t>(wide >> 16 | 0x40)};  // NaN: becomes quiet
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

// Whether min or max takes the update. NaN wins, and the first NaN stays.
template <Reduction R>
bool takes(float old, float update) noexcept {
  if constexpr (R == Reduction::min) return !(update >= old) & (old == old);
  return !(update <= old) & (old == old);
}

// Selects without a branch, because which value is taken cannot be predicted.
template <class T>
T select(bool first, T a, T b) noexcept {
  using Bits = std::conditional_t<
      sizeof(T) == 8, std::uint64_t,
      std::conditional_t<sizeof(T) == 4, std::uint32_t, std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  const auto mask = static_cast<Bits>(-static_cast<Bits>(first));
  return std::bit_cast<T>(static_cast<Bits>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask)));
}

// Integer arithmetic wraps around, so it is done in an unsigned type of at least the width of int.
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
  } else {
    if constexpr (R == Reduction::add) return old + update;
    if constexpr (R == Reduction::sub) return old - update;
    if constexpr (R == Reduction::mul) return old * update;
    if constexpr (R == Reduction::min || R == Reduction::max) {
      // A single instruction, which returns `old` if either value is NaN. The branches for NaN updates are rarely taken.
      const T one = R == Reduction::min ? update < old ? update : old : update > old ? update : old;
      return update == update ? one : old == old ? update : old;
    }
  }
}

template <Reduction R, class T>
void reduce_element(char* to, const char* from) noexcept {
  T old, update;
  std::memcpy(&old, to, sizeof(T));
  std::memcpy(&update, from, sizeof(T));
  old = reduce<R, T>(old, update);  // keeps padding bytes
  std::memcpy(to, &old, sizeof(T));
}

// Prevents a product from being fused with a sum. GCC 12 fuses complex arithmetic even with -ffp-contract=off.
template <class Part>
Part kept_apart(Part product) noexcept {
#if defined(__GNUC__) && defined(__x86_64__)
  if constexpr (sizeof(Part) <= 8) {  // the x87 has no fused operations
    asm("" : "+x"(product));
  }
  return product;
#else
  const volatile Part kept = product;
  return kept;
#endif
}

// Multiplies complex numbers by the plain formula, like NumPy. Each part is loaded and stored separately, because loading
// both as one word would stall on the two preceding stores.
template <Reduction R, class Number>
  requires is_complex<Number>
void reduce_element(char* to, const char* from) noexcept {
  using Part = typename Number::value_type;
  Part a, b, c, d;
  std::memcpy(&a, to, sizeof(Part));
  std::memcpy(&b, to + sizeof(Part), sizeof(Part));
  std::memcpy(&c, from, sizeof(Part));
  std::memcpy(&d, from + sizeof(Part), sizeof(Part));
  const Part real = kept_apart(a * c) - kept_apart(b * d), imaginary = a * d + b * c;
  std::memcpy(to, &real, sizeof(Part));
  std::memcpy(to + sizeof(Part), &imaginary, sizeof(Part));
}

}  // namespace ndgather::NDGATHER_ISA
