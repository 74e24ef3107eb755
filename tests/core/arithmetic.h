// arithmetic.h - the arithmetic of scatters, reimplemented one element at a time and as simply as possible.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "plan.h"

namespace ndgather::random_calls {

using Wide = __int128;  // represents every index and every integer of any type

struct Type {
  ElementType type;
  Size element;
};

constexpr Type kTypes[] = {
    {ElementType::i8, 1},
    {ElementType::i16, 2},
    {ElementType::i32, 4},
    {ElementType::i64, 8},
    {ElementType::u8, 1},
    {ElementType::u16, 2},
    {ElementType::u32, 4},
    {ElementType::u64, 8},
    {ElementType::f16, 2},
    {ElementType::bf16, 2},
    {ElementType::f32, 4},
    {ElementType::f64, 8},
    {ElementType::long_double, sizeof(long double)},
    {ElementType::c64, 8},
    {ElementType::c128, 16},
    {ElementType::complex_long_double, 2 * sizeof(long double)},
    {ElementType::boolean, 1},
    {ElementType::table, 1},
};

inline bool orders(Reduction reduction) { return reduction == Reduction::min || reduction == Reduction::max; }

inline bool has_meaning(Reduction reduction, ElementType type) {
  const bool is_complex =
      type == ElementType::c64 || type == ElementType::c128 || type == ElementType::complex_long_double;
  return !(is_complex && orders(reduction));
}

template <class T>
T get(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void put(char* at, const T& value) {
  std::memcpy(at, &value, sizeof value);
}

inline Size bytes_of(IndexType type) { return Size{1} << (static_cast<int>(type) & 3); }

// Little-endian, like all platforms that run this.
inline Wide load_integer(const char* at, IndexType type) {
  const auto bytes = static_cast<std::size_t>(bytes_of(type));
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, bytes);
  if (type >= IndexType::u8) return Wide{bits};
  const auto unused = 64 - 8 * bytes;
  return Wide{static_cast<std::int64_t>(bits << unused) >> unused};
}

inline void store_integer(char* at, IndexType type, std::uint64_t bits) {
  std::memcpy(at, &bits, static_cast<std::size_t>(bytes_of(type)));
}

// A 16-bit floating-point number with `fraction` fraction bits.
inline float decode(std::uint16_t bits, int fraction) {
  const int exponent = 15 - fraction, bias = (1 << (exponent - 1)) - 1;
  const int biased = bits >> fraction & ((1 << exponent) - 1), rest = bits & ((1 << fraction) - 1);
  double value;
  if (biased == (1 << exponent) - 1) {
    value = rest != 0 ? std::nan("") : HUGE_VAL;
  } else {
    const int whole = biased == 0 ? rest : rest + (1 << fraction);
    value = std::ldexp(whole, std::max(biased, 1) - bias - fraction);
  }
  return static_cast<float>(bits >> 15 != 0 ? -value : value);
}

inline std::uint16_t encode(double value, int fraction) {
  const int exponent = 15 - fraction, bias = (1 << (exponent - 1)) - 1, most = (1 << exponent) - 1;
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const auto infinite = static_cast<std::uint16_t>(sign | most << fraction);
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinite | 1 << (fraction - 1));
  if (std::isinf(value)) return infinite;
  if (value == 0) return static_cast<std::uint16_t>(sign);
  const int power = std::max(std::ilogb(value), 1 - bias);
  const double units = std::nearbyint(std::ldexp(std::fabs(value), fraction - power));
  const long whole = static_cast<long>(units) + (static_cast<long>(power + bias - 1) << fraction);
  return whole >= static_cast<long>(most) << fraction ? infinite : static_cast<std::uint16_t>(sign | whole);
}

template <class T>
T plain(Reduction reduction, T old, T update) {
  if (reduction == Reduction::add) return old + update;
  return reduction == Reduction::sub ? old - update : old * update;
}

// Whether min or max uses the update: NaN wins, and the first NaN stays.
template <class T>
bool takes(Reduction reduction, T old, T update) {
  if (old != old) return false;
  if (update != update) return true;
  return reduction == Reduction::min ? update < old : update > old;
}

template <class T>
void apply_float(Reduction reduction, char* to, const char* from) {
  if (!orders(reduction)) return put(to, plain(reduction, get<T>(to), get<T>(from)));
  if (takes(reduction, get<T>(to), get<T>(from))) std::memcpy(to, from, sizeof(T));
}

inline void apply_small(Reduction reduction, char* to, const char* from, int fraction) {
  const float old = decode(get<std::uint16_t>(to), fraction), update = decode(get<std::uint16_t>(from), fraction);
  if (!orders(reduction)) return put(to, encode(plain(reduction, old, update), fraction));
  if (takes(reduction, old, update)) std::memcpy(to, from, 2);
}

template <class T>
void apply_complex(Reduction reduction, char* to, const char* from) {
  const T a = get<T>(to), b = get<T>(to + sizeof(T)), c = get<T>(from), d = get<T>(from + sizeof(T));
  const bool product = reduction == Reduction::mul;
  put(to, product ? a * c - b * d : plain(reduction, a, c));
  put(to + sizeof(T), product ? a * d + b * c : plain(reduction, b, d));
}

inline void apply_integer(Reduction reduction, IndexType type, char* to, const char* from) {
  const Wide old = load_integer(to, type), update = load_integer(from, type);
  const auto a = static_cast<std::uint64_t>(old), b = static_cast<std::uint64_t>(update);
  const std::uint64_t result = orders(reduction) ? (takes(reduction, old, update) ? b : a) : plain(reduction, a, b);
  store_integer(to, type, result);
}

inline void apply_boolean(Reduction reduction, char* to, const char* from) {
  const bool old = *to != 0, update = *from != 0;
  bool result = old || update;
  if (reduction == Reduction::mul || reduction == Reduction::min) result = old && update;
  if (reduction == Reduction::sub) result = old != update;
  *to = static_cast<char>(result);
}

// Replaces the element at `to` by its reduction with the update at `from`.
inline void apply(Reduction reduction, const Type& type, const char* table, char* to, const char* from) {
  if (reduction == Reduction::none) {
    std::memcpy(to, from, static_cast<std::size_t>(type.element));
    return;
  }
  switch (type.type) {
    case ElementType::f16: return apply_small(reduction, to, from, 10);
    case ElementType::bf16: return apply_small(reduction, to, from, 7);
    case ElementType::f32: return apply_float<float>(reduction, to, from);
    case ElementType::f64: return apply_float<double>(reduction, to, from);
    case ElementType::long_double: return apply_float<long double>(reduction, to, from);
    case ElementType::c64: return apply_complex<float>(reduction, to, from);
    case ElementType::c128: return apply_complex<double>(reduction, to, from);
    case ElementType::complex_long_double: return apply_complex<long double>(reduction, to, from);
    case ElementType::boolean: return apply_boolean(reduction, to, from);
    case ElementType::table:
      *to = table[static_cast<unsigned char>(*to) * 256 + static_cast<unsigned char>(*from)];
      return;
    default: return apply_integer(reduction, static_cast<IndexType>(type.type), to, from);  // in the same order
  }
}

template <class T>
bool same_floats(const char* a, const char* b, int count) {
  for (int k = 0; k < count; ++k, a += sizeof(T), b += sizeof(T)) {
    const T first = get<T>(a), second = get<T>(b);
    const bool same = first != first ? second != second
                                     : first == second && std::signbit(first) == std::signbit(second);
    if (!same) return false;
  }
  return true;
}

// Equal, or both NaN: the payload of a computed NaN and the unused bytes of a long double are unspecified.
inline bool same_element(Reduction reduction, const Type& type, const char* a, const char* b) {
  const auto small = [&](int fraction) {
    const float first = decode(get<std::uint16_t>(a), fraction), second = decode(get<std::uint16_t>(b), fraction);
    return first != first && second != second;
  };
  if (std::memcmp(a, b, static_cast<std::size_t>(type.element)) == 0) return true;
  if (type.type == ElementType::long_double) return same_floats<long double>(a, b, 1);
  if (type.type == ElementType::complex_long_double) return same_floats<long double>(a, b, 2);
  if (reduction == Reduction::none || orders(reduction)) return false;
  switch (type.type) {
    case ElementType::f16: return small(10);
    case ElementType::bf16: return small(7);
    case ElementType::f32: return same_floats<float>(a, b, 1);
    case ElementType::f64: return same_floats<double>(a, b, 1);
    case ElementType::c64: return same_floats<float>(a, b, 2);
    case ElementType::c128: return same_floats<double>(a, b, 2);
    default: return false;
  }
}

}  // namespace ndgather::random_calls
