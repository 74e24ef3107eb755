// core.cpp - a libFuzzer target: bytes become one call of the engine, and its answer is held
// against the formulas of the specifications, written as plain loops.
//
// Every array lies in a heap block of exactly its size, so that AddressSanitizer sees the first
// byte outside of it; the bytes in the gaps between elements are compared too.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "engine.h"
#include "run.h"
#include "threads.h"

namespace {

using namespace ndgather;
using Wide = __int128;  // holds every index of every type
using Sizes = std::vector<Size>;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "core fuzz target: %s\n", what);
  std::abort();
}

// ---------------------------------------------------------------------------------------------
// Bytes as choices

class Choices {
 public:
  Choices(const std::uint8_t* bytes, std::size_t count) : at_(bytes), left_(count) {}

  // The next byte; after the last one, numbers that follow from those before.
  std::uint8_t byte() {
    if (left_ == 0) return static_cast<std::uint8_t>(random() >> 32);
    --left_;
    state_ = (state_ ^ *at_) * 0x100000001B3u + 1;
    return *at_++;
  }
  Size below(Size limit) { return byte() % limit; }
  bool one_in(int n) { return byte() % n == n - 1; }
  bool empty() const { return left_ == 0; }

  // Numbers that cost no input: for the contents of large arrays.
  std::uint64_t random() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  std::uint64_t word() {
    if (left_ < 8) return random();
    std::uint64_t value;
    std::memcpy(&value, at_, 8);
    at_ += 8;
    left_ -= 8;
    return value;
  }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
  std::uint64_t state_ = 0;
};

// ---------------------------------------------------------------------------------------------
// Arrays

constexpr Size kMostBytes = Size{1} << 22;

// The product of sizes, or nothing where NumPy has no such array.
std::optional<Size> product(const Sizes& shape, Size element, bool with_zeros) {
  Size bytes = element;
  bool empty = false;
  for (const Size size : shape) {
    empty |= size == 0;
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) return {};
  }
  return empty && with_zeros ? 0 : bytes / element;
}

struct Block {
  std::unique_ptr<char[]> bytes;
  Size count = 0;
};

Block copy_of(const Block& block) {
  Block copy{std::make_unique<char[]>(static_cast<std::size_t>(block.count)), block.count};
  std::memcpy(copy.bytes.get(), block.bytes.get(), static_cast<std::size_t>(block.count));
  return copy;
}

struct Tensor {
  Sizes shape, strides;
  Size element = 1;
  Block block;
  Size first = 0;  // where the element of all zeros lies in the block

  Array view() const {
    return {block.bytes.get() + first, static_cast<int>(shape.size()), shape.data(),
            strides.data()};
  }
  Size offset(const Sizes& at) const {
    Size offset = first;
    for (std::size_t d = 0; d < shape.size(); ++d) offset += at[d] * strides[d];
    return offset;
  }
  char* place(const Sizes& at) const { return block.bytes.get() + offset(at); }
  bool is_empty() const { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }
};

// Calls visit(coordinates) for every element, in C order.
template <class Visit>
void each(const Sizes& shape, Visit visit) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  Sizes at(shape.size(), 0);
  for (;;) {
    visit(at);
    std::size_t d = shape.size();
    for (; d > 0; --d) {
      if (++at[d - 1] < shape[d - 1]) break;
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

// Memory for a shape: axes in any order, either direction, gaps between them, and where nothing is
// written, axes of stride zero. Nothing where it would be too large.
std::optional<Tensor> lay_out(const Sizes& shape, Size element, bool written, Choices& choices) {
  if (!product(shape, element, false)) return {};
  Tensor tensor;
  tensor.shape = shape;
  tensor.element = element;
  tensor.strides.assign(shape.size(), 0);
  const bool empty = tensor.is_empty();
  const int style = static_cast<int>(choices.below(8));  // 0..3: C order without gaps
  std::vector<std::size_t> order(shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (style >= 5) {
    for (std::size_t d = order.size(); d > 1; --d) {
      std::swap(order[d - 1], order[static_cast<std::size_t>(choices.below(Size(d)))]);
    }
  }
  Size step = element, low = 0, high = 0;
  for (std::size_t k = order.size(); k > 0; --k) {
    const std::size_t d = order[k - 1];
    const Size size = shape[d];
    const int treat = style >= 4 ? static_cast<int>(choices.below(8)) : 0;
    if (treat == 1) {
      Size gap = 1 + choices.below(style == 7 ? 64 : 3);
      if (style != 7) gap *= element;
      if (__builtin_add_overflow(step, gap, &step)) return {};
    }
    if (!written && (treat == 2 || size > (Size{1} << 20))) continue;  // stride 0
    if (empty || size == 1) continue;  // strides that nobody steps by; module.cpp makes them 0
    Size stride = step;
    if (treat == 4) stride = -stride;
    tensor.strides[d] = stride;
    Size reach;
    if (__builtin_mul_overflow(size - 1, stride, &reach)) return {};
    (reach < 0 ? low : high) += reach;
    if (high - low > kMostBytes) return {};
    if (__builtin_mul_overflow(size, step, &step)) return {};
  }
  const Size shift = style == 6 ? choices.below(8) : 0;
  tensor.block.count = empty ? 0 : high - low + element + shift;
  tensor.block.bytes = std::make_unique<char[]>(static_cast<std::size_t>(tensor.block.count));
  tensor.first = empty ? 0 : shift - low;
  return tensor;
}

// ---------------------------------------------------------------------------------------------
// Index values

constexpr Size kIndexBytes[] = {1, 2, 4, 8, 1, 2, 4, 8};

Wide load_index(const char* at, IndexType type) {
  const Size bytes = kIndexBytes[static_cast<int>(type)];
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(bytes));
  if (type >= IndexType::u8) return Wide{bits};
  const int unused = 64 - 8 * static_cast<int>(bytes);
  return Wide{static_cast<std::int64_t>(bits << unused) >> unused};
}

void store_index(char* at, IndexType type, std::uint64_t bits) {
  std::memcpy(at, &bits, static_cast<std::size_t>(kIndexBytes[static_cast<int>(type)]));
}

// The place that a value names, or nothing.
std::optional<Size> place_of(Wide value, Size extent, Mode mode, bool negative) {
  switch (mode) {
    case Mode::wrap: {
      if (extent == 0) return {};
      const Wide rest = value % extent;
      return static_cast<Size>(rest < 0 ? rest + extent : rest);
    }
    case Mode::clip:
      if (extent == 0) return {};
      return static_cast<Size>(value < 0 ? 0 : std::min<Wide>(value, extent - 1));
    default:
      if (negative && value < 0) value += extent;
      if (value < 0 || value >= extent) return {};
      return static_cast<Size>(value);
  }
}

// ---------------------------------------------------------------------------------------------
// Arithmetic, once more

struct Type {
  ElementType type;
  Size element;
};
constexpr Type kTypes[] = {
    {ElementType::i8, 1},      {ElementType::i16, 2},      {ElementType::i32, 4},
    {ElementType::i64, 8},     {ElementType::u8, 1},       {ElementType::u16, 2},
    {ElementType::u32, 4},     {ElementType::u64, 8},      {ElementType::f16, 2},
    {ElementType::bf16, 2},    {ElementType::f32, 4},      {ElementType::f64, 8},
    {ElementType::long_double, 16}, {ElementType::c64, 8}, {ElementType::c128, 16},
    {ElementType::complex_long_double, 32}, {ElementType::boolean, 1}, {ElementType::table, 1},
    {ElementType::opaque, 3},
};

template <class T>
T get(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// A floating number of few bits: sign, `exponent` bits, `fraction` bits.
double decode(std::uint16_t bits, int exponent, int fraction) {
  const int biased = bits >> fraction & ((1 << exponent) - 1);
  const int rest = bits & ((1 << fraction) - 1), bias = (1 << (exponent - 1)) - 1;
  double value;
  if (biased == (1 << exponent) - 1) {
    value = rest != 0 ? std::nan("") : HUGE_VAL;
  } else if (biased == 0) {
    value = std::ldexp(rest, 1 - bias - fraction);
  } else {
    value = std::ldexp(rest + (1 << fraction), biased - bias - fraction);
  }
  return bits >> 15 != 0 ? -value : value;
}

std::uint16_t encode(double value, int exponent, int fraction) {
  const int bias = (1 << (exponent - 1)) - 1, most = (1 << exponent) - 1;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const auto infinite = static_cast<std::uint16_t>(sign | most << fraction);
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinite | 1 << (fraction - 1));
  if (std::isinf(value)) return infinite;
  if (value == 0) return sign;
  const int power = std::max(std::ilogb(value), 1 - bias);
  const double units = std::nearbyint(std::ldexp(std::fabs(value), fraction - power));
  const long whole = static_cast<long>(units) + (static_cast<long>(power + bias - 1) << fraction);
  return whole >= static_cast<long>(most) << fraction ? infinite
                                                      : static_cast<std::uint16_t>(sign | whole);
}

template <class T>
T plain(Reduction reduction, T old, T update) {
  if (reduction == Reduction::min || reduction == Reduction::max) {
    if (std::isnan(old)) return old;
    if (std::isnan(update)) return update;
    return (reduction == Reduction::min ? update < old : update > old) ? update : old;
  }
  if (reduction == Reduction::add) return old + update;
  return reduction == Reduction::sub ? old - update : old * update;
}

template <class T>
void apply_float(Reduction reduction, char* to, const char* from) {
  const T result = plain(reduction, get<T>(to), get<T>(from));
  std::memcpy(to, &result, sizeof result);
}

void apply_small(Reduction reduction, char* to, const char* from, int exponent, int fraction) {
  const auto old = static_cast<float>(decode(get<std::uint16_t>(to), exponent, fraction));
  const auto update = static_cast<float>(decode(get<std::uint16_t>(from), exponent, fraction));
  const std::uint16_t bits = encode(plain(reduction, old, update), exponent, fraction);
  std::memcpy(to, &bits, sizeof bits);
}

template <class T>
void apply_complex(Reduction reduction, char* to, const char* from) {
  const T a = get<T>(to), b = get<T>(to + sizeof(T));
  const T c = get<T>(from), d = get<T>(from + sizeof(T));
  T real = a * c - b * d, imaginary = a * d + b * c;
  if (reduction == Reduction::add) real = a + c, imaginary = b + d;
  if (reduction == Reduction::sub) real = a - c, imaginary = b - d;
  std::memcpy(to, &real, sizeof real);
  std::memcpy(to + sizeof(T), &imaginary, sizeof imaginary);
}

void apply_integer(Reduction reduction, char* to, const char* from, Size bytes, bool is_signed) {
  const int width = __builtin_ctzll(static_cast<std::uint64_t>(bytes));
  const auto type = static_cast<IndexType>((is_signed ? 0 : 4) + width);
  const Wide old = load_index(to, type), update = load_index(from, type);
  Wide result = 0;
  switch (reduction) {
    case Reduction::add: result = old + update; break;
    case Reduction::sub: result = old - update; break;
    case Reduction::mul: {
      result = static_cast<Wide>(static_cast<unsigned __int128>(old) *
                                 static_cast<unsigned __int128>(update));
      break;
    }
    case Reduction::min: result = std::min(old, update); break;
    default: result = std::max(old, update); break;
  }
  store_index(to, type, static_cast<std::uint64_t>(result));
}

void apply_boolean(Reduction reduction, char* to, const char* from) {
  const bool old = *to != 0, update = *from != 0;
  bool result = old || update;
  if (reduction == Reduction::mul || reduction == Reduction::min) result = old && update;
  if (reduction == Reduction::sub) result = old != update;
  *to = static_cast<char>(result);
}

void apply(Reduction reduction, const Type& type, const char* table, char* to, const char* from) {
  if (reduction == Reduction::none) {
    std::memcpy(to, from, static_cast<std::size_t>(type.element));
    return;
  }
  switch (type.type) {
    case ElementType::f16: return apply_small(reduction, to, from, 5, 10);
    case ElementType::bf16: return apply_small(reduction, to, from, 8, 7);
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
    default:
      return apply_integer(reduction, to, from, type.element, type.type <= ElementType::i64);
  }
}

template <class T>
bool same_float(const char* a, const char* b, int count) {
  for (int k = 0; k < count; ++k, a += sizeof(T), b += sizeof(T)) {
    const T first = get<T>(a), second = get<T>(b);
    if (std::isnan(first) ? !std::isnan(second)
                          : first != second || std::signbit(first) != std::signbit(second)) {
      return false;
    }
  }
  return true;
}

bool same_small(const char* a, const char* b, int exponent, int fraction) {
  const auto first = get<std::uint16_t>(a), second = get<std::uint16_t>(b);
  return first == second || (std::isnan(decode(first, exponent, fraction)) &&
                             std::isnan(decode(second, exponent, fraction)));
}

// Equal, or both NaN: which NaN an operation gives is left open.
bool same_element(const Type& type, const char* a, const char* b) {
  switch (type.type) {
    case ElementType::f16: return same_small(a, b, 5, 10);
    case ElementType::bf16: return same_small(a, b, 8, 7);
    case ElementType::f32: return same_float<float>(a, b, 1);
    case ElementType::f64: return same_float<double>(a, b, 1);
    case ElementType::long_double: return same_float<long double>(a, b, 1);
    case ElementType::c64: return same_float<float>(a, b, 2);
    case ElementType::c128: return same_float<double>(a, b, 2);
    case ElementType::complex_long_double: return same_float<long double>(a, b, 2);
    default: return std::memcmp(a, b, static_cast<std::size_t>(type.element)) == 0;
  }
}

void random_bytes(char* at, Size count, Choices& choices) {
  for (Size b = 0; b < count; b += 8) {
    const std::uint64_t word = choices.random();
    std::memcpy(at + b, &word, static_cast<std::size_t>(std::min<Size>(8, count - b)));
  }
}

// Contents; the wide floats are made from doubles, as not every pattern of their bits is a number.
void fill_elements(const Tensor& tensor, const Type& type, bool arithmetic, Choices& choices) {
  random_bytes(tensor.block.bytes.get(), tensor.block.count, choices);
  const int parts = type.type == ElementType::long_double           ? 1
                    : type.type == ElementType::complex_long_double ? 2
                                                                    : 0;
  if (!arithmetic || parts == 0) return;
  each(tensor.shape, [&](const Sizes& at) {
    for (int part = 0; part < parts; ++part) {
      const long double value = static_cast<long double>(
          static_cast<double>(static_cast<std::int64_t>(choices.random())) * 0x1p-32);
      std::memcpy(tensor.place(at) + part * 16, &value, sizeof value);
    }
  });
}

// ---------------------------------------------------------------------------------------------
// The operators

enum class Kind { nd, elements, axis };

struct Call {
  Kind kind = Kind::nd;
  bool scatters = false;
  Size axis = 0, batch_dims = 0;  // as asked for
  IndexType index_type = IndexType::i64;
  Mode mode = Mode::raise;
  bool negative = true;
  Reduction reduction = Reduction::none;
  Type type{ElementType::opaque, 1};
  bool large = false;
};

Size batch_of(const Call& call, const Sizes& indices) {
  return call.kind == Kind::axis && call.batch_dims < 0 ? call.batch_dims + Size(indices.size())
                                                        : call.batch_dims;
}

Size axis_of(const Call& call, const Sizes& data) {
  return call.axis < 0 ? call.axis + Size(data.size()) : call.axis;
}

// The shape of the result by the text of the operators; nothing where they allow none.
std::optional<Sizes> result_shape(const Call& call, const Sizes& data, const Sizes& indices) {
  const auto r = Size(data.size()), q = Size(indices.size());
  Sizes result;
  if (call.kind == Kind::nd) {
    const Size b = call.batch_dims;
    if (q < 1 || b < 0 || b >= q || b > r) return {};
    for (Size d = 0; d < b; ++d) {
      if (data[std::size_t(d)] != indices[std::size_t(d)]) return {};
    }
    const Size depth = indices.back();
    if (depth > r - b) return {};
    result.assign(indices.begin(), indices.end() - 1);
    result.insert(result.end(), data.begin() + b + depth, data.end());
    return result;
  }
  if (r < 1 || call.axis < -r || call.axis >= r) return {};
  const Size axis = axis_of(call, data);
  if (call.kind == Kind::elements) {
    if (r != q) return {};
    for (Size d = 0; d < r; ++d) {
      if (d != axis && indices[std::size_t(d)] > data[std::size_t(d)]) return {};
    }
    return indices;
  }
  const Size b = batch_of(call, indices);
  if (b < 0 || b > q || b > axis) return {};
  for (Size d = 0; d < b; ++d) {
    if (data[std::size_t(d)] != indices[std::size_t(d)]) return {};
  }
  result.assign(data.begin(), data.begin() + axis);
  result.insert(result.end(), indices.begin() + b, indices.end());
  result.insert(result.end(), data.begin() + axis + 1, data.end());
  return result;
}

// The coordinates in data of the result (or update) at `at`; false where an index names no place.
bool coordinates(const Call& call, const Tensor& data, const Tensor& indices, const Sizes& at,
                 Sizes& found) {
  const auto index_at = [&](const Sizes& where, Size extent) {
    return place_of(load_index(indices.place(where), call.index_type), extent, call.mode,
                    call.negative);
  };
  const auto r = Size(data.shape.size()), q = Size(indices.shape.size());
  found.clear();
  if (call.kind == Kind::nd) {
    const Size b = call.batch_dims, depth = indices.shape.back();
    found.assign(at.begin(), at.begin() + b);
    Sizes where(at.begin(), at.begin() + (q - 1));
    where.push_back(0);
    for (Size c = 0; c < depth; ++c) {
      where.back() = c;
      const auto place = index_at(where, data.shape[std::size_t(b + c)]);
      if (!place) return false;
      found.push_back(*place);
    }
    found.insert(found.end(), at.begin() + (q - 1), at.end());
    return true;
  }
  const Size axis = axis_of(call, data.shape);
  const Size extent = data.shape[std::size_t(axis)];
  if (call.kind == Kind::elements) {
    const auto place = index_at(at, extent);
    if (!place) return false;
    found = at;
    found[std::size_t(axis)] = *place;
    return true;
  }
  const Size b = batch_of(call, indices.shape);
  Sizes where(at.begin(), at.begin() + b);
  where.insert(where.end(), at.begin() + axis, at.begin() + (axis + q - b));
  const auto place = index_at(where, extent);
  if (!place) return false;
  found.assign(at.begin(), at.begin() + axis);
  found.push_back(*place);
  found.insert(found.end(), at.end() - (r - axis - 1), at.end());
  return true;
}

// What a look at all entries has to find.
Outside look(const Call& call, const Tensor& data, const Tensor& indices) {
  Outside found;
  Size entry = 0;
  each(indices.shape, [&](const Sizes& at) {
    Size axis = axis_of(call, data.shape);
    if (call.kind == Kind::nd) axis = call.batch_dims + at.back();
    const Wide value = load_index(indices.place(at), call.index_type);
    if (!place_of(value, data.shape[std::size_t(axis)], call.mode, call.negative)) {
      if (found.count++ == 0) {
        found.entry = entry;
        found.value = static_cast<std::uint64_t>(value);
      }
    }
    ++entry;
  });
  return found;
}

// ---------------------------------------------------------------------------------------------
// Inputs

Size size_of_axis(Choices& choices, bool large) {
  constexpr Size kSmall[] = {1, 2, 3, 0, 4, 5, 2, 7, 1, 3, 8, 9, 2, 16, 6, 17};
  constexpr Size kLarge[] = {64, 1, 128, 2, 300, 33, 512, 4, 1000, 16, 257, 3, 2048, 8, 100, 4096};
  return (large ? kLarge : kSmall)[choices.below(16)];
}

Sizes some_shape(Size rank, Choices& choices, bool large) {
  Sizes shape;
  for (Size d = 0; d < rank; ++d) {
    shape.push_back(rank > 7 ? (choices.one_in(10) ? 2 : 1)
                             : size_of_axis(choices, large && !choices.one_in(3)));
  }
  return shape;
}

Size some_rank(Choices& choices) {
  constexpr Size kRanks[] = {2, 1, 3, 2, 4, 1, 3, 2, 5, 0, 2, 3, 6, 7, 33, 64};
  return kRanks[choices.below(16)];
}

// A shape of indices that mostly fits.
Sizes index_shape(Call& call, const Sizes& data, Choices& choices) {
  const auto r = Size(data.size());
  Sizes shape;
  if (call.kind == Kind::elements) {
    call.axis = r == 0 ? 0 : choices.below(2 * r) - r;
    const Size axis = axis_of(call, data);
    for (Size d = 0; d < r; ++d) {
      const Size size = data[std::size_t(d)];
      const bool whole = choices.below(4) < 3;
      shape.push_back(d == axis ? size_of_axis(choices, call.large)
                      : whole   ? size
                                : std::max<Size>(size - choices.below(3), 0));
    }
  } else {
    const bool nd = call.kind == Kind::nd;
    call.axis = r == 0 || nd ? 0 : choices.below(2 * r) - r;
    const Size most = nd ? r : axis_of(call, data);
    const Size b = choices.one_in(2) ? choices.below(most + 1) : 0;
    shape.assign(data.begin(), data.begin() + b);
    const Size more = choices.one_in(16) ? 60 : choices.below(4);
    const Sizes rest = some_shape(more, choices, call.large);
    shape.insert(shape.end(), rest.begin(), rest.end());
    if (nd) shape.push_back(choices.below(r - b + 1));
    const auto q = Size(shape.size());
    call.batch_dims = !nd && b < q && choices.one_in(4) ? b - q : b;
  }
  switch (choices.below(24)) {  // and now and then does not
    case 1: call.axis += 1 - choices.below(3); break;
    case 2: call.batch_dims += 1 - choices.below(3); break;
    case 3:
      if (!shape.empty()) {
        Size& size = shape[std::size_t(choices.below(Size(shape.size())))];
        size += Size{size < PTRDIFF_MAX};
      }
      break;
    case 4: if (!shape.empty()) shape.pop_back(); break;
    case 5: shape.push_back(choices.below(3)); break;
    case 6: call.axis = PTRDIFF_MIN + choices.below(2); break;
    case 7: call.batch_dims = choices.one_in(2) ? PTRDIFF_MAX : PTRDIFF_MIN; break;
    default: break;
  }
  return shape;
}

std::uint64_t index_value(int style, Size extent, Size entry, IndexType type, Choices& choices) {
  const auto size = static_cast<std::uint64_t>(std::max<Size>(extent, 1));
  switch (style) {
    case 0: return choices.random() % size;
    case 1: return choices.random() % (2 * size) - size;
    case 2: return choices.word();
    case 3: return static_cast<std::uint64_t>(entry) % size;
    case 4: return choices.random() % std::min<std::uint64_t>(size, 3);  // few places
    case 5: {                                                            // now and then a bad one
      const std::uint64_t value = choices.random() % size;
      return choices.random() % 64 != 0 ? value : value + size;
    }
    case 6: {  // at the limits of the axis and of the type
      const int bits = 8 * static_cast<int>(kIndexBytes[static_cast<int>(type)]);
      const std::uint64_t half = std::uint64_t{1} << (bits - 1);
      const std::uint64_t limits[] = {0,         size - 1, size,     -size,
                                      -size - 1, half,     half - 1, 2 * half - 1};
      return limits[choices.random() % 8];
    }
    default: return choices.byte();
  }
}

std::optional<Tensor> some_indices(const Call& call, const Sizes& data, const Sizes& shape,
                                   Choices& choices) {
  const Size element = kIndexBytes[static_cast<int>(call.index_type)];
  auto tensor = lay_out(shape, element, false, choices);
  if (!tensor) return tensor;
  const int style = static_cast<int>(choices.below(8));
  Size entry = 0;
  each(shape, [&](const Sizes& at) {
    const Size axis = call.kind == Kind::nd ? call.batch_dims + at.back() : axis_of(call, data);
    const Size extent = data[std::size_t(axis)];
    store_index(tensor->place(at), call.index_type,
                index_value(style, extent, entry++, call.index_type, choices));
  });
  return tensor;
}

// ---------------------------------------------------------------------------------------------
// Carrying out

// Splits the work in the ways that run.cpp does, whatever the plan is worth; what suits no bands is gathered in
// tiles.
enum class Way { whole, pieces, parts_of_slices, bands, owners };

// What choose_bands asks of a plan, without what it asks of its size.
Bands bands_of(const Plan& plan, Choices& choices) {
  Bands bands;
  if (plan.column_count != 1 || plan.slice_rank != 0 || plan.position_rank < 2) return bands;
  if (!is_of_machine_width(plan.width)) return bands;
  const Position& inner = plan.position[plan.position_rank - 1];
  const Position& outer = plan.position[plan.position_rank - 2];
  bands.across = inner.far != 0;
  const Position& along = bands.across ? outer : inner;
  const Position& across = bands.across ? inner : outer;
  const Size extent = plan.column[0].extent;
  if (along.far != 0 || across.far != plan.width || inner.near != plan.width ||
      inner.index != kIndexBytes[static_cast<int>(plan.index_type)] || extent < 1 ||
      extent > 8192) {
    return bands;
  }
  bands.columns = 1 + choices.below(static_cast<std::uint64_t>(kBandBytes / plan.width));
  bands.lead = choices.below(static_cast<std::uint64_t>(bands.columns));
  bands.streams = choices.one_in(2);
  bands.per_plane = (across.size + bands.lead + bands.columns - 1) / bands.columns;
  bands.count = bands.per_plane;
  for (int d = 0; d + 2 < plan.position_rank; ++d) bands.count *= plan.position[d].size;
  while (Size{1} << bands.shift < bands.columns * plan.width) ++bands.shift;
  bands.buffer = extent << bands.shift;
  return bands;
}

// What choose_tiles asks of a plan, without what it asks of its sizes and strides.
Bands tiles_of(Plan& plan, Choices& choices) {
  Bands tiles;
  const int rank = plan.position_rank;
  if (plan.slice_rank != 0 || rank < 2) return tiles;
  if (!is_of_machine_width(plan.width)) return tiles;
  Position &inner = plan.position[rank - 1], &outer = plan.position[rank - 2];
  if (outer.near != plan.width && inner.near != plan.width) return tiles;
  if (outer.near != plan.width) std::swap(inner, outer);
  tiles.columns = 1 + choices.below(static_cast<std::uint64_t>(tile_columns(plan.width)));
  tiles.per_plane = (outer.size + tiles.columns - 1) / tiles.columns;
  tiles.rows = choices.one_in(2) ? inner.size : 1 + choices.below(40);
  tiles.count = plan.positions / (inner.size * outer.size) * tiles.per_plane *
                ((inner.size + tiles.rows - 1) / tiles.rows);
  return tiles;
}

// One step further than `at`, by what the input says.
Size next_cut(Size at, Size end, Choices& choices) {
  const Size step = std::max<Size>(1, (end - at) * (1 + choices.below(8)) / 8);
  return std::min(end, at + step);
}

bool gather_by(Plan& plan, Way way, Choices& choices) {
  if (way == Way::whole || way == Way::owners) return run_gather(plan);
  simplify(plan);
  constexpr double kPatience[] = {-1, 0, kEndless};
  plan.patience = kPatience[choices.below(3)];
  plan.streams = choices.one_in(2);
  plan.asks_for_rows = next_row_is_wanted(plan);
  const Bands bands = way == Way::bands ? bands_of(plan, choices) : Bands{};
  bool good = true;
  if (bands.count > 0) {
    std::vector<char> buffer(static_cast<std::size_t>(bands.buffer));
    for (Size at = 0; at < bands.count;) {
      const Size end = next_cut(at, bands.count, choices);
      good &= engine().gather_bands(plan, bands, at, end, buffer.data());
      at = end;
    }
    return good;
  }
  if (const Bands tiles = way == Way::bands ? tiles_of(plan, choices) : Bands{}; tiles.count > 0) {
    for (Size at = 0; at < tiles.count;) {
      const Size end = next_cut(at, tiles.count, choices);
      good &= engine().gather_tiles(plan, tiles, at, end);
      at = end;
    }
    return good;
  }
  const bool sliced = way == Way::parts_of_slices && plan.slice_rank == 0;
  for (Size part = 0; part < plan.width;) {
    const Size elements = plan.width / plan.element;
    const Size to = sliced ? next_cut(part / plan.element, elements, choices) * plan.element
                           : plan.width;
    Plan piece = plan;
    if (sliced) narrow(piece, part, to);
    for (Size at = 0; at < plan.positions;) {
      const Size end = next_cut(at, plan.positions, choices);
      good &= engine().gather(piece, at, end);
      at = end;
    }
    part = to;
  }
  return good;
}

// Whether no place is noted twice, or none is any more, as stretches of any length find it.
bool note_once(const Plan& plan, const Places& places, Reduction reduction, Choices& choices) {
  const bool last_counts = reduction == Reduction::none;
  const int shift = static_cast<int>(std::bit_width(static_cast<std::size_t>(plan.width))) - 1;
  std::vector<Size> bounds{places.begin};
  while (bounds.back() < places.end) bounds.push_back(next_cut(bounds.back(), places.end, choices));
  const auto stretches = static_cast<int>(bounds.size()) - 1;
  const Size each = marks_bytes(plan.far_span().bytes() + 2 * kLine, shift) / Size{sizeof(std::uint64_t)};
  std::vector<std::uint64_t> words(static_cast<std::size_t>(each * stretches));
  const Marks marks{words.data(), each, shift, stretches};
  bool once = true;
  for (int s = stretches; s-- > 0;) {
    const auto at = bounds.begin() + s;
    once &= engine().mark(places, marks, at[0], at[1], s, last_counts);
  }
  if (!once && !last_counts) return false;
  once = true;
  for (Size word = 0; word < each;) {
    const Size end = next_cut(word, each, choices);
    once &= engine().join_later(marks, word, end);
    word = end;
  }
  if (once || !last_counts) return once;
  for (int s = 0; s + 1 < stretches; ++s) {
    const auto at = bounds.begin() + s;
    engine().drop_marked(places, marks, at[0], at[1], s);
  }
  return true;
}

// Writes down the places of one round after the other, and has their owners apply the updates: those among
// whom the engine divides them, or any others; or positions in any order, where no place is noted twice.
bool scatter_by_place(const Plan& plan, Reduction reduction, ElementType type, Choices& choices) {
  const Store store = engine().pick_store(plan, reduction, type);
  const int owners = 1 + static_cast<int>(choices.below(4));
  const bool wide = choices.one_in(2);
  Size lowest = plan.far_span().lowest;
  lowest -= bytes_after(plan.far + lowest, kLine);
  Places places{nullptr, 0, 0, lowest, plan.near_span().lowest, wide, owners};
  for (Size begin = 0; begin < plan.positions;) {
    const Size end = next_cut(begin, plan.positions, choices);
    std::vector<char> memory(static_cast<std::size_t>((end - begin) * Places::width(wide)));
    places.memory = memory.data();
    places.begin = begin;
    places.end = end;
    for (Size at = begin; at < end;) {
      const Size to = next_cut(at, end, choices);
      if (!engine().note(plan, places, at, to)) return false;
      at = to;
    }
    const bool marks = plan.slice_rank == 0 && plan.width > 0 && choices.one_in(2);
    if (marks && note_once(plan, places, reduction, choices)) {
      std::vector<Size> bounds{begin};
      while (bounds.back() < end) bounds.push_back(next_cut(bounds.back(), end, choices));
      for (std::size_t part = bounds.size() - 1; part-- > 0;) {
        engine().apply_noted(plan, store, places, bounds[part], bounds[part + 1]);
      }
      begin = end;
      continue;
    }
    engine().divide(places);
    for (int owner = 1; owner < owners; ++owner) {
      require(places.first[owner] >= places.first[owner - 1], "owners are out of order");
      require(places.first[owner] % kLine == 0, "an owner begins within a line");
    }
    Places divided = places;
    if (choices.one_in(2)) {
      const Size bytes = plan.far_span().bytes() + kLine;
      for (int owner = 1; owner < owners; ++owner) {
        divided.first[owner] = next_cut(divided.first[owner - 1], bytes + 1, choices) - 1;
      }
    }
    for (int owner = owners; owner-- > 0;) engine().apply(plan, store, divided, owner);
    begin = end;
  }
  return true;
}

bool scatter_by(Plan& plan, Way way, Reduction reduction, ElementType type, Choices& choices) {
  if (way == Way::whole || way == Way::pieces) return run_scatter(plan, reduction, type);
  simplify(plan);
  constexpr double kPatience[] = {-1, 0, kEndless};
  plan.patience = kPatience[choices.below(3)];
  const Bands bands = way == Way::bands ? bands_of(plan, choices) : Bands{};
  bool good = true;
  if (bands.count > 0) {
    std::vector<char> buffer(static_cast<std::size_t>(bands.buffer));
    const Store store = engine().pick_store(plan, reduction, type);
    for (Size at = 0; at < bands.count;) {
      const Size end = next_cut(at, bands.count, choices);
      good &= engine().scatter_bands(plan, store, bands, at, end, buffer.data());
      at = end;
    }
    return good;
  }
  plan.streams = choices.one_in(2);
  plan.asks_for_rows = next_row_is_wanted(plan);
  if (way == Way::owners) return scatter_by_place(plan, reduction, type, choices);
  const bool sliced = way == Way::parts_of_slices && plan.slice_rank == 0;
  for (Size part = 0; part < plan.width;) {
    const Size elements = plan.width / plan.element;
    const Size to = sliced ? next_cut(part / plan.element, elements, choices) * plan.element
                           : plan.width;
    Plan piece = plan;
    if (sliced) narrow(piece, part, to);
    const Store store = engine().pick_store(piece, reduction, type);
    good &= engine().scatter(piece, store, 0, piece.positions);
    part = to;
  }
  return good;
}

Outside check_by(Plan& check, Way way, Choices& choices) {
  if (way != Way::pieces) return run_check(check);
  simplify(check);
  Outside all;
  if (check.positions == 0 || check.column_count == 0) return all;
  for (Size at = 0; at < check.positions;) {
    const Size end = next_cut(at, check.positions, choices);
    const Outside part = engine().check(check, at, end);
    if (all.count == 0 && part.count > 0) all = {0, part.entry, part.value};
    all.count += part.count;
    at = end;
  }
  return all;
}

Refusal shape_by(Call& call, const Array& data, const Array& indices, Shape& shape) {
  switch (call.kind) {
    case Kind::nd: return shape_gather_nd(data, indices, call.batch_dims, shape);
    case Kind::elements: return shape_gather_elements(data, indices, call.axis, shape);
    default: return shape_gather(data, indices, call.axis, call.batch_dims, shape);
  }
}

void plan_by(const Call& call, Plan& plan, const Array& far, const Array& indices,
             const Array& near) {
  switch (call.kind) {
    case Kind::nd: plan_gather_nd(plan, far, indices, near, call.batch_dims); break;
    case Kind::elements: plan_gather_elements(plan, far, indices, near, call.axis); break;
    default: plan_gather(plan, far, indices, near, call.axis, call.batch_dims); break;
  }
  for (int c = 0; c < plan.column_count && !call.negative; ++c) plan.column[c].lift = 0;
}

// Every element of `got` as in `wanted`, and every byte between them.
void require_same(const Tensor& got, Block wanted, const Type& type, bool arithmetic) {
  if (!arithmetic) {
    require(got.block.count == 0 || std::memcmp(got.block.bytes.get(), wanted.bytes.get(),
                                                static_cast<std::size_t>(got.block.count)) == 0,
            "the result differs");
    return;
  }
  each(got.shape, [&](const Sizes& at) {
    const Size offset = got.offset(at);
    char* expected = wanted.bytes.get() + offset;
    require(same_element(type, got.block.bytes.get() + offset, expected), "the sum differs");
    std::memcpy(expected, got.block.bytes.get() + offset, static_cast<std::size_t>(type.element));
  });
  require_same(got, std::move(wanted), type, false);
}

// After a refusal elements may hold anything; what lies between them is as it was.
void require_gaps_untouched(const Tensor& got, Block before) {
  each(got.shape, [&](const Sizes& at) {
    const Size offset = got.offset(at);
    std::memcpy(before.bytes.get() + offset, got.block.bytes.get() + offset,
                static_cast<std::size_t>(got.element));
  });
  require_same(got, std::move(before), {ElementType::opaque, got.element}, false);
}

void copy_whole(const Call& call, const Sizes& shape, Choices& choices) {
  auto from = lay_out(shape, call.type.element, false, choices);
  auto to = lay_out(shape, call.type.element, true, choices);
  if (!from || !to || to->is_empty()) return;
  random_bytes(from->block.bytes.get(), from->block.count, choices);
  random_bytes(to->block.bytes.get(), to->block.count, choices);
  Block wanted = copy_of(to->block);
  each(shape, [&](const Sizes& at) {
    std::memcpy(wanted.bytes.get() + to->offset(at), from->place(at),
                static_cast<std::size_t>(call.type.element));
  });
  Plan plan;
  plan_copy(plan, from->view(), to->view(), call.type.element);
  require(run_gather(plan), "a copy was refused");
  require_same(*to, std::move(wanted), call.type, false);
}

int one_call(Choices& choices) {
  Call call;
  const int what = static_cast<int>(choices.below(6));
  call.kind = static_cast<Kind>(what % 3);
  call.scatters = what == 3 || what == 4;
  call.large = choices.one_in(12);
  set_threads(1 + static_cast<int>(choices.below(4)));
  call.index_type = static_cast<IndexType>((choices.below(8) + 3) % 8);
  call.mode = static_cast<Mode>(choices.below(4));
  call.negative = choices.below(4) != 3;
  const auto way = static_cast<Way>(choices.below(5));
  const bool checked_first = choices.one_in(3);

  if (call.scatters && choices.one_in(2)) {
    call.reduction = static_cast<Reduction>(1 + choices.below(5));
    call.type = kTypes[choices.below(Size(std::size(kTypes)))];
  } else {
    constexpr Size kWidths[] = {4, 8, 1, 2, 16, 12, 3, 5, 24, 32, 40, 64, 7, 17, 33, 63};
    call.type.element = choices.one_in(4) ? 1 + choices.below(130) : kWidths[choices.below(16)];
  }
  const bool arithmetic = call.reduction != Reduction::none;

  const Size rank = some_rank(choices);
  Sizes data_shape = some_shape(rank, choices, call.large);
  if (!call.scatters && rank > 0 && choices.one_in(16)) {
    constexpr Size kHuge[] = {Size{1} << 31, Size{1} << 32, (Size{1} << 31) - 1, Size{1} << 53,
                              Size{1} << 62, PTRDIFF_MAX, (Size{1} << 32) + 1, 65536};
    data_shape[std::size_t(choices.below(rank))] = kHuge[choices.below(8)];
  }
  if (what == 5 && choices.one_in(2)) {
    const auto bytes = product(data_shape, call.type.element, true);
    if (!bytes || *bytes > (call.large ? 1 << 16 : 1 << 12)) return -1;
    copy_whole(call, data_shape, choices);
    return 0;
  }
  Sizes indices_shape = index_shape(call, data_shape, choices);
  if (Size(indices_shape.size()) > kMaxRank) return -1;

  const auto wanted_shape = result_shape(call, data_shape, indices_shape);
  {
    const Sizes unread(kMaxRank, 0);
    Shape shape;
    Call asked = call;
    const Array data{nullptr, int(data_shape.size()), data_shape.data(), unread.data()};
    const Array indices{nullptr, int(indices_shape.size()), indices_shape.data(), unread.data()};
    const Refusal refusal = shape_by(asked, data, indices, shape);
    require(bool(refusal) != wanted_shape.has_value(), "the shape rule refuses other shapes");
    if (refusal) return 0;
    require(std::equal(wanted_shape->begin(), wanted_shape->end(), shape.size,
                       shape.size + shape.rank),
            "the shape of the result differs");
    call.axis = asked.axis;
    call.batch_dims = asked.batch_dims;
  }
  if (Size(wanted_shape->size()) > kMaxRank) return 0;

  const Size most = call.large ? Size{1} << 18 : Size{1} << 12;
  const auto results = product(*wanted_shape, call.type.element, true);
  const auto entries = product(indices_shape, 8, true);
  if (!results || !entries || *results > most || *entries > most ||
      *results * call.type.element > kMostBytes / 4) {
    return -1;
  }
  auto data = lay_out(data_shape, call.type.element, call.scatters, choices);
  auto indices = some_indices(call, data_shape, indices_shape, choices);
  auto near = lay_out(*wanted_shape, call.type.element, !call.scatters, choices);
  if (!data || !indices || !near) return -1;
  fill_elements(*data, call.type, arithmetic, choices);
  fill_elements(*near, call.type, arithmetic, choices);

  Plan plan;
  plan.index_type = call.index_type;
  plan.mode = call.mode;
  plan.element = plan.width = call.type.element;
  std::unique_ptr<char[]> fill, table;
  if (!call.scatters && choices.one_in(2)) {
    fill = std::make_unique<char[]>(static_cast<std::size_t>(call.type.element));
    random_bytes(fill.get(), call.type.element, choices);
    plan.fill = fill.get();
  }
  if (call.type.type == ElementType::table) {
    table = std::make_unique<char[]>(65536);
    random_bytes(table.get(), 65536, choices);
    plan.table = table.get();
  }
  if (arithmetic) {
    const bool none = call.type.type == ElementType::opaque ||
                      ((call.type.type == ElementType::c64 || call.type.type == ElementType::c128 ||
                        call.type.type == ElementType::complex_long_double) &&
                       call.reduction >= Reduction::min);
    require(none == (engine().pick_store(plan, call.reduction, call.type.type) == nullptr),
            "the arithmetic of a type differs");
    if (none) return 0;
  }
  plan_by(call, plan, data->view(), indices->view(), near->view());

  const Outside bad = look(call, *data, *indices);
  Plan check;
  plan_check(check, plan, indices->view());
  const Outside found = check_by(check, way, choices);
  require(found.count == bad.count && found.entry == bad.entry && found.value == bad.value,
          "the bad entries differ");

  if (plan.positions == 0 || plan.width * plan.slice_elements() == 0) return 0;
  if (checked_first && call.mode == Mode::raise) {  // as for the caller's memory
    if (bad.count > 0) return 0;
    plan.mode = Mode::fill;
  }
  Tensor& target = call.scatters ? *data : *near;
  Block before = copy_of(target.block);
  const bool good = call.scatters
                        ? scatter_by(plan, way, call.reduction, call.type.type, choices)
                        : gather_by(plan, way, choices);
  require(good == (bad.count == 0 || call.mode == Mode::fill), "a call was refused, or was not");
  if (!good) {
    require_gaps_untouched(target, std::move(before));
    return 0;
  }
  Sizes place;
  const auto element = static_cast<std::size_t>(call.type.element);
  each(*wanted_shape, [&](const Sizes& at) {
    const bool inside = coordinates(call, *data, *indices, at, place);
    if (call.scatters) {
      if (!inside) return;
      apply(call.reduction, call.type, plan.table, before.bytes.get() + data->offset(place),
            near->place(at));
    } else if (inside) {
      std::memcpy(before.bytes.get() + near->offset(at), data->place(place), element);
    } else if (plan.fill != nullptr) {
      std::memcpy(before.bytes.get() + near->offset(at), plan.fill, element);
    } else {
      std::memset(before.bytes.get() + near->offset(at), 0, element);
    }
  });
  require_same(target, std::move(before), call.type, arithmetic);
  return 0;
}

}  // namespace

// -1 keeps inputs out of the corpus that say nothing.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  Choices choices(bytes, count);
  return one_call(choices);
}
