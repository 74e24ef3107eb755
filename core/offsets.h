// offsets.h - a run of index tuples becomes a run of checked byte offsets into the indexed array.
//
// Every index value is loaded once, into a local; that local is checked and used. The functions are called through
// pointers, so no caller can see the values again.
#pragma once

#include <cstring>
#include <type_traits>

#include "loops.h"

namespace ndgather::NDGATHER_ISA {

// From an index value to a position on its axis: resolve() gets one value that was read once, and returns whether it lies
// on the axis; only then may `at` be used. Nothing else in the engine decides whether an index is allowed.

template <class Index>
inline constexpr bool is_u64 = std::is_same_v<Index, std::uint64_t>;

// Negative values count from the end where the column allows them. A uint64 is compared as it is:
// 2**63 and more is out of bounds, never negative.
struct Raise {
  static constexpr bool fills = false;
  template <class Index>
  static bool resolve(Index value, const IndexColumn& column, std::uint64_t& at) noexcept {
    if constexpr (is_u64<Index>) {
      at = value;
    } else {
      const std::int64_t wide = value;
      at = static_cast<std::uint64_t>(wide + ((wide >> 63) & column.wrap));
    }
    return at < static_cast<std::uint64_t>(column.extent);
  }
};

// As Raise; a value outside the axis leaves the fill value instead of refusing the call.
struct Fill : Raise {
  static constexpr bool fills = true;
};

// The value modulo the size of the axis, as numpy.take(mode="wrap") has it.
struct Wrap {
  static constexpr bool fills = false;
  template <class Index>
  static bool resolve(Index value, const IndexColumn& column, std::uint64_t& at) noexcept {
    if (Raise::resolve(value, column, at)) return true;
    if (column.extent == 0) return false;
    if constexpr (is_u64<Index>) {
      at = value % static_cast<std::uint64_t>(column.extent);
    } else {
      const std::int64_t rest = static_cast<std::int64_t>(value) % column.extent;
      at = static_cast<std::uint64_t>(rest + ((rest >> 63) & column.extent));
    }
    return true;
  }
};

// The nearest position, negative values being below the first, as numpy.take(mode="clip") has it.
struct Clip {
  static constexpr bool fills = false;
  template <class Index>
  static bool resolve(Index value, const IndexColumn& column, std::uint64_t& at) noexcept {
    if (column.extent == 0) return false;
    const auto last = static_cast<std::uint64_t>(column.extent - 1);
    if constexpr (std::is_signed_v<Index>) {
      at = value < 0 ? 0 : static_cast<std::uint64_t>(value);
    } else {
      at = value;
    }
    at = at < last ? at : last;
    return true;
  }
};

template <class Index>
inline Index load(const char* at) noexcept {
  Index value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Writes out[0..n) for n positions of the innermost loop dim, the first of which reads its tuple at `index`; position
// i starts at base + bases[i]. False: an index is outside its axis; under Fill its offset is kOutside, under the
// other policies the offsets must not be used.
using Offsets = bool (*)(const Plan&, const char* index, Size base, const Size* bases, Size n, Size* out) noexcept;

// How the values of a tuple lie: one after the other as in a C-ordered array of tuples, each column contiguous as
// numpy.argwhere leaves them, or in any other way. Known at compile time, so that the loop can be vectorised.
enum class Layout { tuples, columns, any };

template <class Policy, class Index, int Columns, Layout layout>
bool offsets(const Plan& plan, const char* index, Size base, const Size* __restrict bases, Size n,
             Size* __restrict out) noexcept {
  constexpr Size kValue{sizeof(Index)};
  const Size step = layout == Layout::tuples ? Columns * kValue : layout == Layout::columns ? kValue : plan.inner().index;
  const Size column_step = layout == Layout::tuples ? kValue : plan.column_stride;
  IndexColumn column[Columns];  // a copy that the stores to `out` cannot touch
  for (int c = 0; c < Columns; ++c) column[c] = plan.column[c];
  std::uint64_t good = 1;  // as wide as the offsets, so that the loop is vectorised
  for (Size i = 0; i < n; ++i) {
    auto at = static_cast<std::uint64_t>(base + bases[i]);
    std::uint64_t inside = 1;
    for (int c = 0; c < Columns; ++c) {
      std::uint64_t position = 0;
      const auto value = load<Index>(index + i * step + c * column_step);
      inside &= std::uint64_t{Policy::resolve(value, column[c], position)};
      at += position * static_cast<std::uint64_t>(column[c].stride);
    }
    out[i] = inside || !Policy::fills ? static_cast<Size>(at) : kOutside;
    good &= inside;
  }
  return good != 0;
}

// The same for any number of columns: column after column, so that what is known of a column stays in registers.
template <class Policy, class Index>
bool offsets_by_column(const Plan& plan, const char* index, Size base, const Size* __restrict bases, Size n,
                       Size* __restrict out) noexcept {
  const Size step = plan.inner().index;
  for (Size i = 0; i < n; ++i) out[i] = base + bases[i];
  std::uint64_t good = 1;
  for (int c = 0; c < plan.column_count; ++c, index += plan.column_stride) {
    const IndexColumn column = plan.column[c];
    for (Size i = 0; i < n; ++i) {
      std::uint64_t position = 0;
      const bool inside = Policy::resolve(load<Index>(index + i * step), column, position);
      const auto at = static_cast<Size>(static_cast<std::uint64_t>(out[i]) +
                                        position * static_cast<std::uint64_t>(column.stride));
      const bool outside = Policy::fills && (!inside || out[i] == kOutside);
      out[i] = outside ? kOutside : at;
      good &= std::uint64_t{inside};
    }
  }
  return good != 0;
}

// Calls visit with a value of the C++ type that the tag stands for.
template <class Visit>
auto with_index_type(IndexType type, Visit visit) noexcept {
  switch (type) {
    case IndexType::i8: return visit(std::int8_t{});
    case IndexType::i16: return visit(std::int16_t{});
    case IndexType::i32: return visit(std::int32_t{});
    case IndexType::i64: return visit(std::int64_t{});
    case IndexType::u8: return visit(std::uint8_t{});
    case IndexType::u16: return visit(std::uint16_t{});
    case IndexType::u32: return visit(std::uint32_t{});
    default: return visit(std::uint64_t{});
  }
}

template <class Visit>
auto with_policy(const Plan& plan, Visit visit) noexcept {
  switch (plan.mode) {
    case Mode::raise: return plan.checked ? visit(Fill{}) : visit(Raise{});
    case Mode::wrap: return visit(Wrap{});
    case Mode::clip: return visit(Clip{});
    default: return visit(Fill{});
  }
}

template <class Policy, class Index, Layout layout>
Offsets pick_count(int columns) noexcept {
  switch (columns) {
    case 1: return offsets<Policy, Index, 1, layout>;
    case 2: return offsets<Policy, Index, 2, layout>;
    case 3: return offsets<Policy, Index, 3, layout>;
    case 4: return offsets<Policy, Index, 4, layout>;
    default: return offsets_by_column<Policy, Index>;
  }
}

// Contiguous int32 and int64 indices have specialised loops under raise and fill; all others share the general ones.
template <class Policy, class Index>
Offsets pick_layout(const Plan& plan) noexcept {
  if constexpr ((std::is_same_v<Policy, Raise> || std::is_same_v<Policy, Fill>) && std::is_signed_v<Index> &&
                sizeof(Index) >= 4) {
    constexpr Size kValue{sizeof(Index)};
    const Size step = plan.inner().index;
    if (plan.column_stride == kValue && step == kValue * plan.column_count) {
      return pick_count<Policy, Index, Layout::tuples>(plan.column_count);
    }
    if (step == kValue) return pick_count<Policy, Index, Layout::columns>(plan.column_count);
  }
  if (plan.column_count == 1) return offsets<Policy, Index, 1, Layout::any>;
  return offsets_by_column<Policy, Index>;
}

inline Offsets pick_offsets(const Plan& plan) noexcept {
  return with_policy(plan, [&](auto policy) {
    return with_index_type(plan.index_type, [&](auto index) -> Offsets {
      return pick_layout<decltype(policy), decltype(index)>(plan);
    });
  });
}

}  // namespace ndgather::NDGATHER_ISA
